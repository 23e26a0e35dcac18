"""Dual tensors: tangents of what is computed from them, levels, and what is refused."""

from __future__ import annotations

import pytest

import core
from core import nn
from core.autograd import forward_ad


def test_tangents_follow_the_chain_rule_through_several_duals():
    x, y = core.tensor([1.0, 2.0]), core.tensor([3.0, 4.0])
    with forward_ad.dual_level():
        a, b = forward_ad.make_dual(x, core.tensor([1.0, 0.0])), forward_ad.make_dual(y, core.tensor([0.0, 10.0]))
        found = forward_ad.unpack_dual((a * b).exp().log() + x)
        assert found.tangent.tolist() == pytest.approx([3.0, 20.0])
        assert not found.primal.requires_grad
        assert not found.tangent.requires_grad
        assert forward_ad.unpack_dual(a).tangent.tolist() == [1.0, 0.0]
        assert forward_ad.unpack_dual(a * 0).tangent.tolist() == [0.0, 0.0]


def test_no_tangent_where_nothing_leads_from_a_dual():
    x = core.ones(2)
    with forward_ad.dual_level() as level:
        a = forward_ad.make_dual(x, x, level=level)
        for t in (x, a.detach(), a > 0, core.ones(1, requires_grad=True) * 2):
            assert forward_ad.unpack_dual(t, level=level).tangent is None
    assert forward_ad.unpack_dual(a).tangent is None, "the level is closed"


def test_a_module_with_dual_parameters_gives_a_directional_derivative():
    core.manual_seed(0)
    net, x = nn.Linear(3, 2).double(), core.randn(4, 3, dtype=core.float64)
    weight = net.weight.detach()
    direction = core.randn(2, 3, dtype=core.float64)
    with forward_ad.dual_level():
        del net._parameters["weight"]
        net.weight = forward_ad.make_dual(weight, direction)
        found = forward_ad.unpack_dual(net(x)).tangent
    assert core.allclose(found, x @ direction.T)


def test_reverse_over_forward():
    x = core.tensor([1.0, 2.0], requires_grad=True)
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual((forward_ad.make_dual(x, core.ones(2)) ** 3).sum())
        assert found.primal.requires_grad
        (second,) = core.autograd.grad(found.tangent, x)
    assert second.tolist() == [6.0, 12.0]


def test_a_level_records_and_gives_the_mode_back():
    with core.no_grad():
        with forward_ad.dual_level():
            assert core.is_grad_enabled()
            x = forward_ad.make_dual(core.tensor(2.0), core.tensor(1.0))
            assert forward_ad.unpack_dual(x**2).tangent == 4
        assert not core.is_grad_enabled()

    @forward_ad.dual_level()
    def slope(v):
        return forward_ad.unpack_dual(forward_ad.make_dual(core.tensor(v), core.tensor(1.0)).sin()).tangent

    assert slope(0.0) == 1
    with pytest.raises(KeyError), forward_ad.dual_level():
        raise KeyError
    assert forward_ad.enter_dual_level() == 0, "the error closed the level"
    forward_ad.exit_dual_level(level=0)


def test_what_is_refused():
    x = core.ones(2)
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(x, x)
    with pytest.raises(RuntimeError, match="Trying to exit a forward AD level"):
        forward_ad.exit_dual_level()
    with forward_ad.dual_level():
        a = forward_ad.make_dual(x, x)
        with pytest.raises(RuntimeError, match="already has a forward gradient"):
            forward_ad.make_dual(a, x)
        with pytest.raises(RuntimeError, match="Nested forward mode AD"):
            forward_ad.enter_dual_level()
        with pytest.raises(RuntimeError, match="different size"):
            forward_ad.make_dual(x, core.ones(3))
        with pytest.raises(ValueError, match="Expected primal to be floating point or complex"):
            forward_ad.make_dual(x.int(), x)
        with pytest.raises(ValueError, match="Expected tangent to be floating point or complex"):
            forward_ad.make_dual(x, 1.0)
        with core.no_grad(), pytest.raises(RuntimeError, match="where nothing is recorded"):
            forward_ad.make_dual(x, x)


def test_the_number_of_the_level_is_known():
    assert forward_ad._current_level == -1
    with forward_ad.dual_level():
        assert forward_ad._current_level == 0
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        forward_ad.nothing()
