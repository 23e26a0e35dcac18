"""Every distribution by what must hold of any: its density, its cdf, its moments, its draws, and how it expands."""

from __future__ import annotations

import math

import pytest

import core

from .rows import CONTINUOUS, DISCRETE, SEVERAL, doubled, interval, made

d = core.distributions


def name(row: str) -> str:
    return row.partition("(")[0]


def asked(f):
    try:
        return f()
    except NotImplementedError:
        return None


def grid(row: str, n: int = 200001) -> tuple[core.Tensor, core.Tensor]:
    """Points where the outcomes are, denser where bounds are near, and how wide each stands."""
    low, high = interval(row)
    u = (core.arange(n, dtype=core.float64) + 0.5) / n
    reach = 8.0 if high - low > 100 else 1.0  # wide ones are looked at more closely in the middle
    t = (2 * u - 1) * reach
    shape, width = t.sinh() / math.sinh(reach), t.cosh() / math.sinh(reach) * 2 * reach / n
    if low == 0 and high > 100:
        return high * (reach * u).expm1() / math.expm1(reach), high * (reach * u).exp() * reach / math.expm1(reach) / n
    return low + (high - low) * (shape + 1) / 2, width * (high - low) / 2


@pytest.mark.parametrize("row", CONTINUOUS, ids=name)
def test_a_density_integrates_to_one_and_its_moments_and_entropy_follow(row):
    dist = doubled(made(row))
    x, width = grid(row)
    log_prob = dist.log_prob(x)
    p = log_prob.exp() * width
    assert abs(p.sum().item() - 1) < 1e-3
    if "Cauchy" in row:
        return  # which has no moments
    if name(row) != "VonMises":  # its variance is a circle's
        for f in ("mean", "variance"):
            want = (p * x).sum() if f == "mean" else (p * (x - (p * x).sum()).square()).sum()
            got = asked(lambda f=f: getattr(dist, f))
            assert got is None or abs(got - want) < 2e-3 * max(1.0, abs(want)), f
    got = asked(dist.entropy)
    assert got is None or abs(got + (p * log_prob).sum()) < 2e-3


@pytest.mark.parametrize("row", CONTINUOUS, ids=name)
def test_the_likeliest_outcome_has_the_greatest_density(row):
    dist = doubled(made(row))
    mode = asked(lambda: dist.mode)
    if mode is None or mode.isnan():
        assert name(row) in ("Uniform", "ContinuousBernoulli", "RelaxedBernoulli", "MixtureSameFamily",
                             "TransformedDistribution")  # fmt: skip
        return
    x, _ = grid(row, 20001)
    assert dist.log_prob(mode) >= dist.log_prob(x).max() - 1e-4


@pytest.mark.parametrize("row", CONTINUOUS, ids=name)
def test_a_cdf_has_the_density_as_its_slope_and_icdf_undoes_it(row):
    dist = doubled(made(row))
    q = core.linspace(0.02, 0.98, 48, dtype=core.float64)
    low, high = interval(row)
    x = asked(lambda: dist.icdf(q))
    if x is not None:
        cdf = asked(lambda: dist.cdf(x))
        if cdf is None:
            assert name(row) in ("Gamma",)
            return
        assert core.allclose(cdf, q, atol=1e-6)
        assert ((x >= low) & (x <= high)).all()
    else:
        x = core.linspace(max(low, -3.0) + 0.01, min(high, 3.0) - 0.01, 49, dtype=core.float64)
    x = x.detach().requires_grad_()
    cdf = asked(lambda: dist.cdf(x))
    if cdf is not None:
        (slope,) = core.autograd.grad(cdf.sum(), x)
        assert core.allclose(slope, dist.log_prob(x).exp().detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("row", CONTINUOUS, ids=name)
def test_draws_follow_the_density(row):
    """The greatest distance of the cdf of 20,000 draws from the integral of the density: Kolmogorov and Smirnov."""
    core.manual_seed(0)
    dist = made(row)
    n = 20000
    drawn = dist.sample((n,)).double().sort().values
    x, width = grid(row)
    below = (doubled(made(row)).log_prob(x).exp() * width).cumsum(0)
    cdf = below[core.searchsorted(x, drawn).clamp(max=len(x) - 1)]
    off = (cdf - (core.arange(n, dtype=core.float64) + 0.5) / n).abs().max()
    assert off < 1.8 / n**0.5  # a right one is beyond this once in 330 times
    if dist.has_rsample:
        assert dist.rsample((3,)).shape == (3,)


@pytest.mark.parametrize("row", DISCRETE, ids=name)
def test_probabilities_sum_to_one_and_draws_follow_them(row):
    core.manual_seed(0)
    dist = made(row)
    low, high = interval(row)
    values = core.arange(low, high + 1.0)
    p = dist.log_prob(values).exp()
    assert abs(p.sum().item() - 1) < 1e-5
    if name(row) != "Categorical":
        assert abs((p * values).sum() - dist.mean) < 1e-4
        assert abs((p * (values - dist.mean).square()).sum() - dist.variance) < 1e-3
    assert p[int(dist.mode) - int(low)] >= p.max() - 1e-6
    entropy = asked(dist.entropy)
    assert entropy is None or abs(entropy + p.xlogy(p).sum()) < 1e-4
    drawn = dist.sample((20000,))
    shares = core.stack([(drawn == v).double().mean() for v in values])
    assert (shares.cumsum(0) - p.double().cumsum(0)).abs().max() < 1.8 / 20000**0.5
    if dist.has_enumerate_support:
        assert core.equal(dist.enumerate_support().float(), values)


@pytest.mark.parametrize("row", SEVERAL, ids=name)
def test_draws_of_several_have_the_moments_and_entropy(row):
    core.manual_seed(0)
    dist = made(row)
    drawn = dist.sample((20000,))
    assert dist.support.check(drawn).all()
    for f, got in (("mean", drawn.mean(0)), ("variance", drawn.var(0))):
        want = asked(lambda f=f: getattr(dist, f))
        if want is not None:
            assert core.allclose(got, want, atol=0.05 * (1 + want.abs().max().item())), f
    entropy = asked(dist.entropy)
    if entropy is not None:
        assert abs(entropy + dist.log_prob(drawn).mean()) < 0.05


@pytest.mark.parametrize("row", [r for r in CONTINUOUS + DISCRETE + SEVERAL if "Fisher" not in r], ids=name)
def test_what_is_expanded_is_the_same_in_each_place(row):
    core.manual_seed(0)
    one = made(row)
    many = one.expand((4, *one.batch_shape))
    assert type(many) is type(one)
    assert many.batch_shape == (4, *one.batch_shape)
    assert many.event_shape == one.event_shape
    value = one.sample()
    assert many.sample((3,)).shape == (3, *many.batch_shape, *many.event_shape)
    assert core.allclose(many.log_prob(value), one.log_prob(value).expand(many.batch_shape))
    for f in ("mean", "variance"):
        want = asked(lambda f=f: getattr(one, f))
        if want is not None:
            assert core.allclose(getattr(many, f), want.expand(getattr(many, f).shape), equal_nan=True)
    assert many._validate_args


def test_a_class_of_the_users_expands_by_itself_only_if_it_is_made_alike():
    class Named(d.Normal):
        pass

    class Own(d.Normal):
        def __init__(self, loc):
            super().__init__(loc, 1.0)

    class Filled(Own):
        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Filled, _instance)
            return super().expand(batch_shape, _instance=new)

    assert type(Named(0.0, 1.0).expand((2,))) is Named
    with pytest.raises(NotImplementedError, match="must also define a custom"):
        Own(0.0).expand((2,))
    assert Filled(0.0).expand((2,)).loc.shape == (2,)


def test_a_class_that_says_nothing_of_its_values_is_told_and_not_checked():
    class Silent(d.Distribution):
        def log_prob(self, value):
            self._given(value)
            return value

    with pytest.warns(UserWarning, match="arg_constraints"):
        made = Silent()
    with pytest.warns(UserWarning, match="support"):
        made.log_prob(core.tensor(1.0))
    with pytest.warns(FutureWarning, match="sample_n"):
        assert d.Normal(0.0, 1.0).sample_n(2).shape == (2,)


def test_an_entropy_and_a_divergence_follow_from_natural_parameters():
    """The general formulas of exponential families are those that are written out."""
    family = d.ExponentialFamily
    for make in ("Normal(a, b)", "Gamma(b, c)", "Exponential(b)", "Bernoulli(p)", "ContinuousBernoulli(p)",
                 "Wishart(b + 2, m)"):  # fmt: skip
        row = {n: core.tensor([v], dtype=core.float64, requires_grad=True)
               for n, v in [("a", 0.3), ("b", 1.4), ("c", 0.8), ("p", 0.3)]}  # fmt: skip
        row["m"] = core.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=core.float64)
        p = eval("d." + make, {"d": d, **row})
        q = eval("d." + make, {"d": d, **{n: v * 1.3 if n != "p" else v + 0.1 for n, v in row.items()}})
        assert core.allclose(family.entropy(p), p.entropy())
        leaf = row["p"] if "(p)" in make else row["b"]
        ours, theirs = (
            core.autograd.grad(e.sum(), leaf, retain_graph=True)[0] for e in (family.entropy(p), p.entropy())
        )
        assert core.allclose(ours, theirs)
        if "Wishart" not in make:
            assert core.allclose(core.distributions.kl.made._family(p, q), d.kl_divergence(p, q))


def test_wisharts_divergence_is_the_mean_of_the_difference():
    core.manual_seed(0)
    p = d.Wishart(core.tensor(5.0), core.eye(2))
    q = d.Wishart(core.tensor(6.0), core.tensor([[1.5, 0.2], [0.2, 0.8]]))
    x = p.sample((40000,))
    assert abs((p.log_prob(x) - q.log_prob(x)).mean() - d.kl_divergence(p, q)) < 0.02


def test_a_straight_through_draw_moves_as_its_probabilities_do():
    logits = core.tensor([0.1, 0.2, 0.3], requires_grad=True)
    made = d.OneHotCategoricalStraightThrough(logits=logits)
    weights = core.tensor([1.0, 2.0, 4.0])
    (got,) = core.autograd.grad((made.rsample() * weights).sum(), logits, retain_graph=True)
    (want,) = core.autograd.grad((made.probs * weights).sum(), logits)
    assert core.allclose(got, want)


def test_a_divergence_that_two_pairs_know_is_told():
    class First(d.Normal):
        pass

    table = core.distributions.kl.registry._table
    d.register_kl(First, d.Normal)(lambda p, q: p.loc)
    d.register_kl(d.Normal, First)(lambda p, q: q.loc)
    try:
        with pytest.warns(RuntimeWarning, match="Ambiguous kl_divergence"):
            assert d.kl_divergence(First(1.0, 1.0), First(2.0, 1.0)).item() == 1.0
    finally:
        del table[First, d.Normal], table[d.Normal, First]
        core.distributions.kl.registry._found.clear()
