"""Transforms by what must hold of any: the inverse undoes it, and its volume is that of autograd's Jacobian."""

from __future__ import annotations

import pickle

import pytest

import core
from core.distributions.categorical import Categorical
from core.distributions.transformed_distribution import TransformedDistribution

d = core.distributions

BIJECTIONS = """
ExpTransform()
SigmoidTransform()
TanhTransform()
SoftplusTransform()
AffineTransform(1.0, -2.0)
AffineTransform(1.0, core.tensor([2.0, -3.0, 0.5]).double())
StickBreakingTransform()
CorrCholeskyTransform()
ComposeTransform([d.ExpTransform(), d.PowerTransform(-1.5)])
ComposeTransform([d.AffineTransform(0.5, 2.0), d.StickBreakingTransform()])
IndependentTransform(d.TanhTransform(), 1)
ReshapeTransform((3,), (3, 1))
CumulativeDistributionTransform(d.Normal(0.3, 1.5))
CatTransform([d.ExpTransform(), d.TanhTransform()], lengths=[1, 2])
StackTransform([d.ExpTransform(), d.TanhTransform(), d.identity_transform])
""".strip().splitlines()


def made(row: str):
    return eval("d." + row, {"core": core, "d": d})


@pytest.mark.parametrize("row", BIJECTIONS)
def test_the_inverse_undoes_it_and_the_volume_is_the_jacobians(row):
    t = made(row)
    x = core.tensor([0.3, -0.8, 0.5], dtype=core.float64)
    y = t(x)
    assert t.bijective
    assert core.allclose(t.inv(y), x)
    assert t.codomain.check(y).all()
    assert tuple(t.forward_shape(x.shape)) == tuple(y.shape)
    assert tuple(t.inverse_shape(y.shape)) == tuple(x.shape)
    free = {"StickBreaking": lambda y: y[:-1], "CorrCholesky": lambda y: y[core.tril_indices(3, 3, -1).unbind()]}
    kept = next((f for n, f in free.items() if n in row), lambda y: y)  # the entries that the others do not give
    jacobian = core.autograd.functional.jacobian(lambda x: kept(t(x)).reshape(-1), x)
    want = core.linalg.slogdet(jacobian)[1]
    assert core.allclose(t.log_abs_det_jacobian(x, y).sum(), want)
    assert core.allclose(t.inv.log_abs_det_jacobian(y, x).sum(), -want)


@pytest.mark.parametrize("row", ["SoftmaxTransform()", "AbsTransform()", "LowerCholeskyTransform()",
                                 "PositiveDefiniteTransform()"])  # fmt: skip
def test_what_is_no_bijection_comes_back_from_its_inverse(row):
    t = made(row)
    x = core.tensor([[0.3, -0.8], [0.4, 0.5]], dtype=core.float64)
    y = t(x)
    assert not t.bijective
    assert core.allclose(t(t.inv(y)), y)
    assert t.codomain.check(y).all()


@pytest.mark.parametrize("row", [r for r in BIJECTIONS if not r.startswith("Reshape")])
def test_a_cache_gives_back_the_very_tensor(row):
    t = made(row).with_cache(1)
    x = core.tensor([0.3, -0.8, 0.5], dtype=core.float64)
    assert t.inv(t(x)) is x
    assert t.with_cache(1) is t
    again = pickle.loads(pickle.dumps(t))
    assert core.allclose(again.inv(again(x)), x)


REACHED = (
    """
real | real_vector | positive | nonnegative | greater_than(1.5) | greater_than_eq(-1) | less_than(-2) | unit_interval
interval(-1.0, 3.0) | half_open_interval(0.0, 2.0) | simplex | independent(positive, 1) | corr_cholesky
cat([positive, real], 0, [1, 2]) | stack([positive, real, unit_interval], 0)
""".strip()
    .replace("\n", " | ")
    .split(" | ")
)


@pytest.mark.parametrize("text", REACHED)
def test_a_constraint_is_reached_from_any_numbers(text):
    constraint = eval(text, dict(vars(d.constraints)))
    x = core.tensor([0.3, -5.0, 2.0], dtype=core.float64)
    for registry in (d.biject_to, d.transform_to):
        t = registry(constraint)
        assert constraint.check(t(x)).all()
        assert core.allclose(t(t.inv(t(x))), t(x))


def test_transformed_draws_have_the_transformed_density():
    """The logistic distribution, made of an even one."""
    made = d.TransformedDistribution(d.Uniform(0.0, 1.0), [d.SigmoidTransform().inv, d.AffineTransform(1.0, 2.0)])
    x = core.linspace(-5, 5, 11)
    z = (x - 1) / 2
    assert core.allclose(made.log_prob(x), -z - 2 * (-z).exp().log1p() - core.tensor(2.0).log())
    assert core.allclose(made.cdf(x), z.sigmoid())
    assert core.allclose(made.icdf(made.cdf(x)), x, atol=1e-4)


def test_a_falling_transform_turns_the_cdf_around():
    made = d.TransformedDistribution(d.Exponential(1.0), d.AffineTransform(0.0, -1.0))
    assert core.allclose(made.cdf(core.tensor(-1.0)), core.tensor(-1.0).exp())
    assert core.allclose(made.icdf(made.cdf(core.tensor(-1.0))), core.tensor(-1.0))


def test_modules_have_pytorchs_paths():
    assert Categorical is d.Categorical
    assert TransformedDistribution is d.TransformedDistribution
    assert d.transforms.ExpTransform is d.ExpTransform
    assert d.constraint_registry.biject_to is d.biject_to
