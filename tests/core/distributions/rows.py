"""Distributions to test, one a row: how it is made, and an interval that its outcomes lie in but for a rest of 1e-4."""

from __future__ import annotations

from typing import Any

import core

# of single numbers
CONTINUOUS = """
Normal(0.5, 0.8) | -9, 9
LogNormal(0.1, 0.4) | 1e-9, 20
HalfNormal(1.5) | 0, 12
HalfCauchy(0.5) | 0, 8000
Uniform(-1.0, 2.0) | -1, 1.9999999
Exponential(1.7) | 0, 15
Laplace(0.3, 0.6) | -12, 12
Cauchy(0.3, 0.1) | -2000, 2000
Gumbel(0.2, 0.5) | -4, 14
Weibull(1.5, 2.5) | 1e-9, 10
Pareto(0.5, 6.5) | 0.5, 8
GeneralizedPareto(0.5, 1.0, 0.1) | 0.5, 60
GeneralizedPareto(0.5, 1.0, -0.4) | 0.5, 2.9999999
GeneralizedPareto(0.5, 1.0, 0.0) | 0.5, 20
Kumaraswamy(2.0, 3.0) | 1e-9, 0.999999999
ContinuousBernoulli(core.tensor(0.2)) | 0, 1
ContinuousBernoulli(core.tensor(0.5)) | 0, 1
Gamma(2.5, 1.5) | 1e-9, 15
InverseGamma(6.5, 3.5) | 1e-9, 12
Chi2(5.0) | 1e-9, 50
FisherSnedecor(5.0, 20.0) | 1e-9, 40
Beta(2.0, 3.0) | 1e-9, 0.999999999
StudentT(5.0, 0.2, 0.7) | -40, 40
VonMises(core.tensor(0.4), core.tensor(2.0)) | -3.1415926, 3.1415926
RelaxedBernoulli(core.tensor(1.5), core.tensor(0.3)) | 1e-9, 0.999999999
MixtureSameFamily(d.Categorical(core.tensor([1.0, 2.0])), d.Normal(core.tensor([-1.0, 2.0]), 0.5)) | -6, 7
TransformedDistribution(d.Normal(0.5, 0.8), [d.TanhTransform(), d.AffineTransform(1.0, -2.0)]) | -0.999999, 2.999999
""".strip().splitlines()
# of counts
DISCRETE = """
Bernoulli(0.3) | 0, 1
Geometric(0.4) | 0, 40
Binomial(7, core.tensor(0.3)) | 0, 7
NegativeBinomial(2.5, core.tensor(0.4)) | 0, 60
Poisson(2.5) | 0, 30
Categorical(core.tensor([1.0, 2.0, 5.0])) | 0, 2
""".strip().splitlines()
# of vectors and matrices
SEVERAL = """
OneHotCategorical(core.tensor([1.0, 2.0, 5.0]))
OneHotCategoricalStraightThrough(core.tensor([1.0, 2.0, 5.0]))
Multinomial(5, core.tensor([1.0, 2.0, 5.0]))
Dirichlet(core.tensor([0.5, 1.0, 3.0]))
RelaxedOneHotCategorical(core.tensor(1.5), core.tensor([1.0, 2.0, 5.0]))
LogisticNormal(core.tensor([0.3, -0.2]), core.tensor([0.5, 1.0]))
MultivariateNormal(core.tensor([1.0, -1.0]), core.tensor([[2.0, 0.5], [0.5, 1.0]]))
LowRankMultivariateNormal(core.tensor([1.0, -1.0]), core.tensor([[1.0], [0.5]]), core.tensor([0.5, 1.0]))
Wishart(core.tensor(5.0), core.tensor([[0.5, 0.1], [0.1, 0.4]]))
LKJCholesky(3, 1.5)
Independent(d.Gamma(core.tensor([2.0, 3.0]), 2.0), 1)
""".strip().splitlines()


def made(row: str) -> Any:
    """Make a row's distribution."""
    return eval("d." + row.partition(" | ")[0], {"core": core, "d": core.distributions})


def interval(row: str) -> tuple[float, float]:
    """Where its outcomes lie."""
    return eval(row.partition(" | ")[2])


def doubled(dist: Any) -> Any:
    """Give the same distribution in float64."""
    for name, value in list(vars(dist).items()):
        if isinstance(value, core.Tensor) and value.is_floating_point():
            dist.__dict__[name] = value.double()
        elif isinstance(value, core.distributions.Distribution):
            doubled(value)
        elif name == "transforms":
            for transform in value:
                doubled(transform)
    return dist
