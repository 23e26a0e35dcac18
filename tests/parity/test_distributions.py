"""`core.distributions` against PyTorch: densities, moments, entropies, KL, draws of the same generator, gradients."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402

# How to make it, from tensors a (any), b and c (positive), p (0..1), w (a factor) and m (positive definite); a value to
# ask for; and what is not compared, with "draws" where the numbers are drawn in another way than PyTorch's, and
# "float64" where PyTorch's fails unless that is the default.
MADE = """
D.Normal(a, b) | x
D.LogNormal(a, b) | b
D.HalfNormal(b) | c
D.HalfCauchy(b) | c
D.Uniform(a, a + b) | a + 0.5 * b
D.Exponential(b) | c
D.Laplace(a, b) | x
D.Cauchy(a, b) | x
D.Gumbel(a, b) | x
D.Weibull(b, c) | c + 0.5
D.Weibull(b, c + 1) | c + 0.5
D.Pareto(b, c) | b + c
D.Pareto(b, c + 2) | b + c
D.GeneralizedPareto(a, b, c) | a + b | float64
D.GeneralizedPareto(a, b, -c / 2) | a + 0.5 * b | float64
D.GeneralizedPareto(a, b, 0 * c) | a + b | float64
D.Kumaraswamy(b, c) | p | mode
D.Bernoulli(p) | k
D.Bernoulli(logits=a) | k
D.ContinuousBernoulli(p) | p
D.ContinuousBernoulli(logits=a) | p
D.ContinuousBernoulli(t.tensor([[0.4995, 0.5, 0.2]] * 2, dtype=t.float64)) | p
D.Geometric(p) | k
D.Geometric(logits=a) | k
D.Binomial(4, p) | n | draws
D.Binomial(4, logits=a) | n | draws
D.Binomial(n + 3, p) | n | draws
D.NegativeBinomial(b, p) | n | draws
D.NegativeBinomial(3, logits=a) | n | draws
D.Poisson(b) | n | draws
D.Categorical(b) | k[:, 0]
D.Categorical(logits=a) | k[:, 0]
D.OneHotCategorical(b) | t.eye(3, dtype=t.float64)[:2]
D.OneHotCategoricalStraightThrough(b) | t.eye(3, dtype=t.float64)[:2]
D.OneHotCategoricalStraightThrough(logits=a) | t.eye(3, dtype=t.float64)[:2]
D.Multinomial(4, b) | t.tensor([[1.0, 3, 0], [2, 1, 1]], dtype=t.float64)
D.Multinomial(4, logits=a) | t.tensor([[1.0, 3, 0], [2, 1, 1]], dtype=t.float64)
D.RelaxedBernoulli(b[0, 0], p) | p
D.RelaxedBernoulli(b[0, 0], logits=a) | p
D.RelaxedOneHotCategorical(b[0, 0], p) | p / p.sum(-1, keepdim=True)
D.RelaxedOneHotCategorical(b[0, 0], logits=a) | p / p.sum(-1, keepdim=True)
D.LogisticNormal(a, b) | t.tensor([[0.1, 0.2, 0.3, 0.4], [0.25] * 4], dtype=t.float64)
D.Independent(D.Normal(a, b), 1) | x
D.Independent(D.Bernoulli(p), 2) | k
D.MultivariateNormal(a, m) | x
D.MultivariateNormal(a, scale_tril=t.linalg.cholesky(m)) | x
D.MultivariateNormal(a, precision_matrix=m) | x
D.MultivariateNormal(a[0], m).expand((4,)) | x[0]
D.LowRankMultivariateNormal(a, w, b) | x
D.LowRankMultivariateNormal(a[0], w, b[0]).expand((4,)) | x[0]
D.Normal(a, b).expand((4, 2, 3)) | x
D.Gamma(b, c) | b | draws cdf
D.InverseGamma(b, c) | b | draws cdf
D.Chi2(b) | c | draws cdf
D.StudentT(b * 2, a, c) | x | draws
D.FisherSnedecor(b * 3, c * 6) | b | draws
D.Beta(b, c) | p | draws
D.Dirichlet(b) | p / p.sum(-1, keepdim=True) | draws
D.VonMises(a, b) | x
D.Wishart(b + 3, m) | m * 2 | draws
D.Wishart(b + 3, precision_matrix=m) | m * 2 | draws
D.Wishart(b[0, 0] + 4, scale_tril=t.linalg.cholesky(m)) | m * 2 | draws
D.LKJCholesky(3, b) | t.linalg.cholesky(r) | draws
D.MixtureSameFamily(D.Categorical(b), D.Normal(a, c)) | x[:, 0]
D.MixtureSameFamily(D.Categorical(logits=b[0]), D.Independent(D.Normal(a.mT, c.mT), 1)) | x[:1, :2]
D.MixtureSameFamily(D.Categorical(b[0]), D.Bernoulli(p[0])) | k[0, 0]
D.TransformedDistribution(D.Normal(a, b), []) | x
D.TransformedDistribution(D.Normal(a, b), [D.SigmoidTransform(), D.AffineTransform(1.0, -2.0)]) | 1 - 2 * p
D.TransformedDistribution(D.Normal(a, b), D.StickBreakingTransform()) | t.ones(2, 4, dtype=t.float64) / 4
D.TransformedDistribution(D.Uniform(0 * a, 1), [D.SigmoidTransform().inv, D.AffineTransform(a, b)]) | x
D.Categorical(b).expand((5, 2)) | k[:, 0]
""".strip().splitlines()
# those that expand from (2, 3), or (2,) with an event, to one dimension more
EXPANDED = [row for row in MADE if "expand" not in row]


def _names(lib: Any, rng: Any) -> dict[str, Any]:
    made = {n: rng.uniform(low, high, (2, 3)) for n, low, high in
            [("a", -1, 1), ("b", 0.3, 2), ("c", 0.3, 2), ("p", 0.1, 0.9), ("x", -2, 2)]}  # fmt: skip
    made["k"] = rng.integers(0, 2, (2, 3)).astype(float)
    q = rng.uniform(-1, 1, (3, 3))
    made["m"] = q @ q.T + np.eye(3)
    made["n"], made["w"] = rng.integers(0, 4, (2, 3)).astype(float), rng.uniform(-1, 1, (3, 2))
    size = np.sqrt(np.diag(made["m"]))
    made["r"] = made["m"] / size / size[:, None]
    leaves = {n: lib.tensor(v) for n, v in made.items()}
    for n in LEAVES:
        leaves[n].requires_grad_()
    return {"D": lib.distributions, "t": lib, **leaves}


LEAVES = "abcpmw"
CANNOT = (NotImplementedError, AttributeError)


def _asked(d: Any, value: Any, p: Any) -> dict[str, Any]:
    """What can be asked of a distribution, and what it says; None where it cannot say."""
    found = {}
    for name in ("mean", "mode", "variance", "stddev", "log_prob", "cdf", "icdf", "entropy", "perplexity"):
        try:
            answer = getattr(d, name)
            given = {"log_prob": (value,), "cdf": (value,), "icdf": (p,)}.get(name, ())
            found[name] = answer(*given) if callable(answer) else answer
        except CANNOT:
            found[name] = None
    return found


def _with_gradients(lib: Any, names: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The numbers, and the gradient of each by every leaf."""
    leaves = [names[n] for n in LEAVES]
    row: dict[str, Any] = {}
    for k, v in found.items():
        row[k] = v.detach().numpy() if hasattr(v, "detach") else v
        if hasattr(v, "requires_grad") and v.requires_grad:
            weights = lib.arange(1.0, 1 + v.numel(), dtype=v.dtype).reshape(v.shape).cos()
            try:
                given = lib.autograd.grad((v * weights).sum(), leaves, allow_unused=True, retain_graph=True)
            except NotImplementedError:  # gammainc has no derivative by the shape
                continue
            row |= {f"grad {k} {n}": None if g is None else g.numpy() for n, g in zip(LEAVES, given, strict=True)}
    return row


def _values(lib: Any, case: str, expand: bool = False) -> dict[str, Any]:
    if case.endswith("float64"):
        try:
            lib.set_default_dtype(lib.float64)
            return _values(lib, case.removesuffix(" | float64"), expand)
        finally:
            lib.set_default_dtype(lib.float32)
    make, value, *left_out = case.split(" | ")
    names = _names(lib, np.random.default_rng(0))
    d = eval(make, names)
    if expand:
        d = d.expand((4, *d.batch_shape))
    found: dict[str, Any] = {
        "repr": repr(d).replace("torch.", "core."), "batch": tuple(d.batch_shape), "event": tuple(d.event_shape),
        "bool": (bool(d.has_rsample), bool(d.has_enumerate_support)), "kind": type(d).__name__,
        "support": re.sub("tensor.*", "tensor", repr(d.support), flags=re.DOTALL).replace("torch.", "core."),
        "family": isinstance(d, lib.distributions.ExponentialFamily),
        "above": isinstance(d, lib.distributions.TransformedDistribution),
        "parameters": {k: type(v).__name__ for k, v in d.arg_constraints.items()},
    }  # fmt: skip
    found |= _asked(d, eval(value, names), names["p"].detach())
    lib.manual_seed(5, **({"kind": "torch"} if lib is core else {}))
    if not left_out or "draws" not in left_out[0]:
        found["sample"] = d.sample((4,))
        if d.has_rsample:
            found["rsample"] = d.rsample((3,))
    return _with_gradients(lib, names, found)


def _compare(case: str, theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    _, _, *left_out = case.split(" | ")
    for k, want in theirs.items():
        name = k.split()[1] if k.startswith("grad") else k
        if left_out and name in left_out[0].split():
            continue
        if k == "repr" and want.endswith("()"):
            continue  # PyTorch forgets the parameters that are properties
        if k == "repr" and "Multinomial" not in want:
            want = want.replace("logits: core.Size([2, 3]))", "").rstrip(", ") if want != mine[k] else want
        got = mine.get(k)
        if not isinstance(want, np.ndarray):
            if name not in ANSWERS or want is not None:
                assert got == want, k
            continue
        if got is None and k.startswith("grad"):
            got = np.zeros_like(want)
        assert got is not None, k
        assert got.dtype == want.dtype, k
        np.testing.assert_allclose(got, np.broadcast_to(want, got.shape), rtol=1e-6, atol=1e-7, err_msg=k)


ANSWERS = ("mean", "mode", "variance", "stddev", "entropy", "perplexity", "cdf", "icdf")


@pytest.mark.parametrize("case", MADE)
def test_same(case: str) -> None:
    _compare(case, *(_values(lib, case) for lib in (torch, core)))


@pytest.mark.parametrize("case", EXPANDED)
def test_same_when_it_is_expanded(case: str) -> None:
    _compare(case, *(_values(lib, case, expand=True) for lib in (torch, core)))


# one of each family as p and as q, for every pair that PyTorch registers
AS_P = """
Bernoulli(p) | Beta(b, c) | Binomial(4, p) | Categorical(b) | Cauchy(a, b) | ContinuousBernoulli(p) | Dirichlet(b)
Exponential(b) | Gamma(b, c) | Geometric(p) | Gumbel(a, b) | HalfNormal(b) | Laplace(a, b) | Normal(a, b)
LowRankMultivariateNormal(a, w.expand(2, 3, 2), b) | MultivariateNormal(a, m) | OneHotCategorical(b)
Pareto(b, c + 2.5) | Poisson(b) | Uniform(0.2 * p + 0.1, 0.2 * p + 0.5)
"""
AS_Q = """
Bernoulli(1 - p) | Beta(c, b) | Binomial(4, 1 - p) | Categorical(c) | Cauchy(x, c) | ContinuousBernoulli(1 - p)
Dirichlet(c) | Exponential(c) | Gamma(c, b) | Geometric(1 - p) | Gumbel(x, c) | HalfNormal(c) | Laplace(x, c)
Normal(x, c) | LowRankMultivariateNormal(x, w * 2, c) | MultivariateNormal(x, m * 1.5) | OneHotCategorical(c)
Pareto(0.05 * c, c) | Poisson(c) | Uniform(-c, 1 + c)
"""


def _by_class(rows: str) -> dict[str, str]:
    return {row.split("(")[0]: "D." + row for row in rows.strip().replace("\n", " | ").split(" | ")}


MADE_OF_OTHERS = {"ExponentialFamily", "TransformedDistribution", "Independent"}
REGISTERED = [(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY]
PAIRS = [(_by_class(AS_P)[p], _by_class(AS_Q)[q]) for p, q in REGISTERED if p not in MADE_OF_OTHERS]
PAIRS += [tuple(row.split(" | ")) for row in """
D.Uniform(a, a + b) | D.Uniform(a - 0.5, a + b + 0.1)
D.Uniform(a, a + b) | D.Uniform(x, x + c)
D.Uniform(a, a + b) | D.Normal(x, c)
D.Uniform(a, a + b) | D.Gumbel(x, c)
D.Uniform(a, a + b) | D.Exponential(c)
D.Uniform(b, b + 1) | D.Pareto(c, b)
D.Pareto(b, c + 2.5) | D.Pareto(c, b)
D.Pareto(b, p) | D.Exponential(b)
D.Beta(b, c) | D.Uniform(a, a + 1.5)
D.Binomial(5, p) | D.Binomial(4, 1 - p)
D.Bernoulli(t.tensor([0., 1., 0.5])) | D.Bernoulli(t.tensor([0.5, 0., 1.]))
D.Categorical(t.tensor([0., 1., 0.5])) | D.Categorical(t.tensor([0.5, 0.5, 0.]))
D.Independent(D.Normal(a, b), 1) | D.Independent(D.Normal(x, c), 1)
D.LogNormal(a, b) | D.LogNormal(x, c)
D.HalfCauchy(b) | D.HalfCauchy(c)
D.InverseGamma(b, c) | D.InverseGamma(c, b)
D.Weibull(b, c) | D.Weibull(b, c)
D.LogisticNormal(a, b) | D.LogisticNormal(x, c)
D.Wishart(t.tensor(4.), t.eye(3)) | D.Wishart(t.tensor(5.), 2 * t.eye(3))
D.Chi2(b) | D.Chi2(c)
D.Chi2(b) | D.Gamma(c, b)
D.LowRankMultivariateNormal(a, w.expand(2, 3, 2), b) | D.MultivariateNormal(x[0], m)
D.OneHotCategoricalStraightThrough(b) | D.OneHotCategorical(c)
""".strip().splitlines()]  # fmt: skip


@pytest.mark.parametrize(("p", "q"), PAIRS, ids=lambda text: text.replace("D.", ""))
def test_kl(p: str, q: str) -> None:
    found = []
    for lib in (torch, core):
        names = _names(lib, np.random.default_rng(1))
        y = lib.distributions.kl_divergence(eval(p, names), eval(q, names))
        row = [y]
        if y.requires_grad:
            leaves = [names[n] for n in LEAVES]
            row += [g for g in lib.autograd.grad(y.sum(), leaves, allow_unused=True) if g is not None]
        found.append([v.detach().numpy() for v in row])
    if np.isinf(found[0][0]).all():  # PyTorch's gradients of infinity are 0 here and missing there
        found = [row[:1] for row in found]
    assert len(found[0]) == len(found[1])
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-8)


@pytest.mark.parametrize(("p", "q"), [
    ("D.ContinuousBernoulli(0.3)", "D.Uniform(0., 1.)"), ("D.Uniform(0., 1.)", "D.ContinuousBernoulli(0.3)"),
    ("D.Uniform(0., 1.)", "D.Beta(2., 3.)"),
])  # fmt: skip
def test_kl_where_the_bounds_are_those_of_the_other(p: str, q: str) -> None:
    """PyTorch's says that the first two are infinite, though p never goes beyond the bounds of q."""
    names = {"D": core.distributions}
    p, q = eval(p, names), eval(q, names)
    x = (core.arange(100000, dtype=core.float64) + 0.5) / 100000
    want = (p.log_prob(x).exp() * (p.log_prob(x) - q.log_prob(x))).mean()
    assert core.allclose(core.distributions.kl_divergence(p, q).double(), want, atol=1e-4)


@pytest.mark.parametrize("text", [
    "D.Normal(0., -1.)", "D.Normal(0., 1.).log_prob(t.tensor(float('nan')))", "D.Bernoulli(1.5)", "D.Bernoulli()",
    "D.Categorical(t.tensor(1.0))", "D.Categorical(t.ones(3)).log_prob(t.tensor(5))", "D.Uniform(1., 0.)",
    "D.Uniform(0., 1.).log_prob(t.tensor(2.))", "D.Normal(t.zeros(2), 1.).log_prob(t.zeros(3))",
    "D.Bernoulli(0.5).rsample()", "D.Normal('a', 1)", "D.Normal(0., 1.).log_prob(1.0)",
    "D.MultivariateNormal(t.zeros(2), -t.eye(2))", "D.MultivariateNormal(t.zeros(2))",
    "D.MultivariateNormal(t.tensor(0.), t.eye(1))", "D.Independent(D.Normal(0., 1.), 1)",
    "D.Normal(t.zeros(2), t.ones(3))", "D.Normal(0., 1.).enumerate_support()", "D.Categorical(t.tensor([-1., 2.]))",
    "D.kl_divergence(D.Normal(0., 1.), D.Bernoulli(0.5))", "D.kl_divergence(D.StudentT(3.), D.Bernoulli(0.5))",
    "D.kl_divergence(D.Weibull(1., 2.), D.Weibull(1., 3.))", "D.kl_divergence(D.Binomial(3, t.tensor(0.5)), "
    "D.Binomial(4, t.tensor(0.5)))", "D.kl_divergence(D.MultivariateNormal(t.zeros(2), t.eye(2)), "
    "D.MultivariateNormal(t.zeros(3), t.eye(3)))",
    "D.Binomial(-1, t.tensor(0.5))", "D.Binomial(3)", "D.Binomial(t.tensor([1., 2.]), t.tensor(0.5)).entropy()",
    "D.Binomial(t.tensor([1., 2.]), t.tensor(0.5)).enumerate_support()", "D.Binomial(3, t.tensor(0.5)).log_prob("
    "t.tensor(4.))", "D.NegativeBinomial(-1., t.tensor(0.5))", "D.NegativeBinomial(2., t.tensor(1.0))",
    "D.Multinomial(t.tensor(3), t.ones(2))", "D.Multinomial(2, t.ones(2)).log_prob(t.tensor([3., 0.]))",
    "D.Multinomial(2, t.ones(2)).mode", "D.Geometric(t.tensor(0.))", "D.ContinuousBernoulli(t.tensor(1.5), "
    "validate_args=True)", "D.Pareto(1., 1.).log_prob(t.tensor(0.5))", "D.Pareto(-1., 1.)", "D.Weibull(1., 0.)",
    "D.Kumaraswamy(0., 1.)", "D.InverseGamma(1., -1.)", "D.HalfCauchy(0.)",
    "D.HalfNormal(1.).log_prob(t.tensor(-1.))", "D.VonMises(t.tensor(0.), t.tensor(0.))", "D.VonMises(t.tensor(0.), "
    "t.tensor(1.)).entropy()", "D.VonMises(t.tensor(0.), t.tensor(1.)).rsample()", "D.LKJCholesky(1)",
    "D.LKJCholesky(2, -1.)", "D.LKJCholesky(2).log_prob(t.ones(2, 2))", "D.LKJCholesky(2).mean",
    "D.LowRankMultivariateNormal(t.tensor(0.), t.ones(1, 1), t.ones(1))",
    "D.LowRankMultivariateNormal(t.zeros(2), t.ones(2), t.ones(2))",
    "D.LowRankMultivariateNormal(t.zeros(2), t.ones(3, 1), t.ones(2))",
    "D.LowRankMultivariateNormal(t.zeros(2), t.ones(2, 1), t.ones(3))",
    "D.Wishart(t.tensor(1.), t.eye(2))", "D.Wishart(t.tensor(3.))",
    "D.Wishart(t.tensor(3.), -t.eye(2))",
    "D.MixtureSameFamily(D.Categorical(t.ones(2)), 1)", "D.MixtureSameFamily(D.Categorical(t.ones(3)), "
    "D.Normal(t.zeros(2), 1.))", "D.MixtureSameFamily(D.Categorical(t.ones(5, 2)), D.Normal(t.zeros(3, 2), 1.))",
    "D.MixtureSameFamily(D.Categorical(t.ones(2)), D.Normal(t.zeros(2), 1.)).rsample()",
    "D.TransformedDistribution(D.Normal(0., 1.), 1)", "D.TransformedDistribution(D.Normal(0., 1.), [1])",
    "D.TransformedDistribution(D.Normal(0., 1.), D.StickBreakingTransform())",
    "D.TransformedDistribution(D.Normal(0., 1.), D.ExpTransform()).mean",
    "D.TransformedDistribution(D.Normal(0., 1.), D.ExpTransform()).log_prob(t.tensor(-1.))",
    "D.Independent(D.Bernoulli(t.ones(2) / 2), 1).enumerate_support()", "D.Distribution().arg_constraints",
    "D.Distribution().support", "D.Distribution.set_default_validate_args(2)", "D.Distribution(validate_args=False)"
    ".log_prob(t.tensor(1.))", "D.Normal(0., 1.).mean.foo", "D.RelaxedBernoulli(t.tensor(1.))",
    "D.RelaxedOneHotCategorical(t.tensor(1.), t.tensor(1.))", "D.LogisticNormal(t.zeros(2), -t.ones(2))",
    "D.GeneralizedPareto(0., -1., 0.5)", "D.GeneralizedPareto(0., 1., -0.5).log_prob(t.tensor(3.))",
    "D.ExponentialFamily(validate_args=False).entropy()", "D.Poisson(1.).entropy()", "D.Uniform.support.check(1)",
    "D.Independent.support.event_dim", "D.Categorical(t.ones(2), t.ones(2))",
])  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_errors(text: str) -> None:
    torch.distributions.Distribution.set_default_validate_args(True)  # PyTorch's compiler, once used, sets it off
    found = []
    for lib in (torch, core):
        with pytest.raises(Exception) as e:  # noqa: PT011 - which one is what is compared
            eval(text, {"D": lib.distributions, "t": lib})
        found.append(
            (e.type.__name__, str(e.value).splitlines()[0].replace("torch.", "core.")[:36] if str(e.value) else "")
        )
    assert found[0][0] == found[1][0]
    if "KL" not in found[1][1] and found[0][1]:
        assert found[0][1] == found[1][1]


def test_enumerate_support() -> None:
    for make in ("D.Bernoulli(t.ones(2, 3) / 2)", "D.Categorical(t.ones(2, 3))"):
        for expand in (True, False):
            theirs, mine = (
                eval(make, {"D": lib.distributions, "t": lib}).enumerate_support(expand) for lib in (torch, core)
            )
            assert theirs.tolist() == mine.tolist()


@pytest.mark.parametrize(("text", "phrase"), [
    ("D.FisherSnedecor(0., 1.)", "parameter df1"), ("D.Wishart(t.tensor(3.), t.ones(2))", "covariance_matrix must be"),
    ("D.LowRankMultivariateNormal(t.zeros(2), t.ones(2, 1), -t.ones(2))", "parameter cov_diag"),
    ("D.MixtureSameFamily(D.Normal(0., 1.), D.Normal(t.zeros(2), 1.))", "needs to be an instance of"),
])  # fmt: skip
def test_errors_that_name_what_was_given(text: str, phrase: str) -> None:
    """Where PyTorch's tell of a part of it, of a wrong argument, or fail within a factorisation."""
    with pytest.raises(ValueError, match=phrase):
        eval(text, {"D": core.distributions, "t": core})
