"""Draws have the moments they should; densities sum to one; checks can be left out."""

from __future__ import annotations

import pytest

import core

d = core.distributions

CONTINUOUS = [
    (d.Normal(0.5, 0.8), -9.0, 9.0),
    (d.LogNormal(0.1, 0.4), 1e-3, 20.0),
    (d.HalfNormal(1.5), 0.0, 12.0),
    (d.Uniform(-1.0, 2.0), -1.0, 1.999),
    (d.Exponential(1.7), 0.0, 15.0),
    (d.Laplace(0.3, 0.6), -12.0, 12.0),
    (d.Gumbel(0.2, 0.5), -4.0, 14.0),
    (d.Gamma(2.5, 1.5), 1e-9, 15.0),
    (d.Beta(2.0, 3.0), 1e-9, 1 - 1e-9),
    (d.StudentT(5.0, 0.2, 0.7), -40.0, 40.0),
]


@pytest.mark.parametrize(("dist", "low", "high"), CONTINUOUS, ids=lambda v: type(v).__name__)
def test_densities_integrate_to_one_and_draws_have_the_moments(dist, low, high):
    x = core.linspace(low, high, 20001, dtype=core.float64)
    total = dist.log_prob(x).exp().sum() * ((high - low) / 20000)
    assert abs(total.item() - 1) < 2e-3
    core.manual_seed(0)
    drawn = dist.sample((40000,))
    assert abs(drawn.mean().item() - dist.mean.item()) < 0.03
    assert abs(drawn.var().item() - dist.variance.item()) < 0.05 * max(1.0, dist.variance.item())


def test_discrete_probabilities_sum_to_one_and_draws_follow_them():
    core.manual_seed(0)
    for dist in (d.Bernoulli(0.3), d.Categorical(core.tensor([1.0, 2.0, 5.0]))):
        values = dist.enumerate_support()
        p = dist.log_prob(values).exp()
        assert abs(p.sum().item() - 1) < 1e-6
        drawn = dist.sample((20000,))
        assert all(abs((drawn == v).float().mean().item() - q.item()) < 0.02 for v, q in zip(values, p, strict=True))
    drawn = d.Geometric(0.4).sample((20000,))
    assert abs(drawn.mean().item() - 1.5) < 0.05


def test_vectors_have_the_covariance():
    core.manual_seed(0)
    cov = core.tensor([[2.0, 0.5], [0.5, 1.0]])
    drawn = d.MultivariateNormal(core.tensor([1.0, -1.0]), cov).sample((40000,))
    off = drawn - drawn.mean(0)
    assert (off.T @ off / 40000 - cov).abs().max().item() < 0.05


def test_gradients_flow_through_rsample_only():
    loc = core.tensor(1.0, requires_grad=True)
    dist = d.Normal(loc, 1.0)
    dist.rsample((3,)).sum().backward()
    assert loc.grad.item() == 3.0
    assert not dist.sample().requires_grad


def test_kl_takes_the_closest_pair():
    class Mine(d.Normal):
        pass

    p, q = Mine(0.0, 1.0), Mine(1.0, 1.0)
    assert d.kl_divergence(p, q).item() == 0.5
    with pytest.raises(NotImplementedError, match="cross KL"):
        d.kl_divergence(p, d.Bernoulli(0.5))
    with pytest.raises(NotImplementedError, match="No KL"):
        d.kl_divergence(p, d.StudentT(2.0))
    with pytest.raises(TypeError, match="Expected type_q"):
        d.register_kl(d.Normal, "Normal")


def test_checks_can_be_left_out():
    assert d.Normal(0.0, -1.0, validate_args=False).scale.item() == -1.0
    with pytest.raises(ValueError, match="Expected parameter scale"):
        d.Normal(0.0, -1.0)


def test_gamma_numbers_of_any_shape_have_the_moments_and_move_with_it():
    core.manual_seed(0)
    for a in (0.1, 0.7, 3.0, 500.0):
        shape = core.full((20000,), a, dtype=core.float64, requires_grad=True)
        drawn = core.distributions.gamma.standard_gamma(shape)
        assert abs(drawn.mean().item() - a) < 0.05 * a**0.5
        assert abs(drawn.var().item() / a - 1) < 0.1
        (moves,) = core.autograd.grad(drawn.sum(), shape)
        assert abs(moves.mean().item() - 1) < 0.1  # the mean is a, so it moves as a does


def test_gamma_numbers_keep_their_rank():
    core.manual_seed(0)
    a = core.tensor([0.2, 1.0, 4.0, 40.0, 250.0], dtype=core.float64, requires_grad=True)
    x = core.distributions.gamma.standard_gamma(a)
    (moves,) = core.autograd.grad(x.sum(), a)
    h = 1e-5 * a.detach()
    up, down = (core.special.gammainc(a.detach() + s * h, x.detach() + s * h * moves) for s in (1, -1))
    assert ((up - down).abs() < 1e-7 * up).all()


def test_counts_follow_their_rate():
    core.manual_seed(0)
    drawn = d.Poisson(core.tensor([0.5, 6.0])).sample((20000,))
    assert (drawn.mean(0) - core.tensor([0.5, 6.0])).abs().max() < 0.1
    assert abs(d.Poisson(3.0).log_prob(core.arange(60.0)).exp().sum().item() - 1) < 1e-5


def test_dirichlet_numbers_sum_to_one():
    core.manual_seed(0)
    dist = d.Dirichlet(core.tensor([0.5, 1.0, 3.0]))
    drawn = dist.sample((20000,))
    assert (drawn.sum(-1) - 1).abs().max() < 1e-5
    assert (drawn.mean(0) - dist.mean).abs().max() < 0.02


@pytest.mark.parametrize(
    "make",
    [lambda x: d.Categorical(logits=x), lambda x: d.Bernoulli(logits=x), lambda x: d.Categorical(probs=x.softmax(-1))],
)
def test_a_draw_before_does_not_cut_the_graph(make):
    """The probabilities that `sample` asks for, without gradients, are the ones that `entropy` uses."""
    gradients = []
    for draw_first in (False, True):
        x = core.tensor([[0.5, -0.2]], requires_grad=True)
        dist = make(x)
        if draw_first:
            dist.sample()
            with core.no_grad():
                dist.logits, dist.probs  # noqa: B018
        dist.entropy().sum().backward()
        gradients.append(x.grad)
    assert gradients[0].abs().min() > 1e-3
    assert core.equal(*gradients)
