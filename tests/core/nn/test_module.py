"""Modules: registering, going through, converting, calling, hooks, and what observers hear."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import core
from core import nn
from core.events import observe


class Scale(nn.Module):
    """A module with one of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(core.tensor([2.0]))
        self.register_buffer("seen", core.tensor([0]))
        self.register_buffer("cache", core.ones(1), persistent=False)
        self.inner = nn.Linear(1, 1)

    def forward(self, x: Any, plus: float = 0.0) -> Any:
        return self.inner(x * self.w) + plus


class Listener(observe.Observer):
    """Notes modules and ops in the order they are told."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.lines: list[str] = []

    def enter_module(self, module: Any) -> None:
        self.heard.append(("in", type(module).__name__))

    def exit_module(self, module: Any) -> None:
        self.heard.append(("out", type(module).__name__))

    def op(self, event: observe.OpEvent) -> None:
        self.heard.append(event.op)
        self.lines.append(core.base.source.locate(*event.place).code)


# -- registering -------------------------------------------------------------------------------------------------------


def test_attributes_become_parameters_buffers_and_children() -> None:
    m = Scale()
    assert [n for n, _ in m.named_parameters()] == ["w", "inner.weight", "inner.bias"]
    assert [n for n, _ in m.named_buffers()] == ["seen", "cache"]
    assert [n for n, _ in m.named_children()] == ["inner"]
    assert [n for n, _ in m.named_modules()] == ["", "inner"]
    assert list(m.state_dict()) == ["w", "seen", "inner.weight", "inner.bias"]
    assert {"w", "seen", "inner"} <= set(dir(m))


def test_an_attribute_may_change_what_it_is() -> None:
    m = Scale()
    m.inner = nn.Parameter(core.ones(1))
    assert "inner" in m._parameters
    assert not m._modules
    m.w = None
    assert m.w is None
    assert [n for n, _ in m.named_parameters()] == ["inner"]
    m.seen = core.tensor([3])
    assert m._buffers["seen"].item() == 3
    del m.inner, m.seen
    assert not hasattr(m, "inner")
    with pytest.raises(AttributeError, match="'Scale' object has no attribute 'seen'"):
        _ = m.seen


def test_a_buffer_may_be_assigned() -> None:
    m = nn.Module()
    m.steps = nn.Buffer(core.zeros(2))
    m.scratch = nn.Buffer(core.zeros(2), persistent=False)
    assert isinstance(m.steps, nn.Buffer)
    assert not isinstance(core.zeros(2), nn.Buffer)
    assert list(m.state_dict()) == ["steps"]
    m.steps = core.ones(2)
    assert m._buffers["steps"].tolist() == [1.0, 1.0]


def test_shared_parameters_and_modules_are_listed_once() -> None:
    layer = nn.Linear(2, 2)
    m = nn.Sequential(layer, nn.ReLU(), layer)
    assert len(list(m.parameters())) == 2
    assert len(list(m.modules())) == 3
    assert len(list(m.named_parameters(remove_duplicate=False))) == 4
    assert list(m.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_paths_lead_to_modules_parameters_and_buffers() -> None:
    m = nn.Sequential(Scale())
    assert m.get_submodule("0.inner") is m[0].inner
    assert m.get_submodule("") is m
    assert m.get_parameter("0.inner.bias") is m[0].inner.bias
    assert m.get_buffer("0.seen") is m[0].seen
    m.set_submodule("0.inner", nn.Identity())
    assert type(m[0].inner) is nn.Identity
    with pytest.raises(AttributeError, match=r"`inner` is not an nn\.Parameter"):
        m.get_parameter("0.inner")
    with pytest.raises(AttributeError, match="has no attribute `other`"):
        m.get_submodule("0.other.more")


# -- changing all of it ------------------------------------------------------------------------------------------------


def test_conversion_keeps_the_parameters_and_moves_gradients() -> None:
    m = Scale()
    w = m.w
    m(core.ones(3, 1)).sum().backward()
    m.double()
    assert m.w is w
    assert (w.dtype, w.grad.dtype, m.cache.dtype, m.seen.dtype) == (
        core.float64,
        core.float64,
        core.float64,
        core.int64,
    )
    assert m.to(core.float16).inner.weight.dtype is core.float16
    assert m.to(core.ones(1, dtype=core.float64)).w.dtype is core.float64
    assert m.float().w.dtype is core.float32
    assert m.type(core.float64).seen.dtype is core.float64


def test_a_module_moves_to_the_gpu_and_computes_there() -> None:
    m = nn.Linear(3, 2)
    x = core.ones(4, 3)
    expected = m(x).tolist()
    y = m.to("cuda")(x.to("cuda"))
    assert m.weight.device.type == y.device.type == "cuda"
    np.testing.assert_allclose(y.tolist(), expected, rtol=1e-6)
    y.sum().backward()
    assert m.bias.grad.tolist() == [4.0, 4.0]
    assert m.cpu().weight.grad.device.type == "cpu"


def test_modes_and_flags_reach_everything_within() -> None:
    m = nn.Sequential(nn.Sequential(nn.Dropout()), nn.Linear(1, 1))
    assert m.eval() is m
    assert not any(x.training for x in m.modules())
    assert all(x.training for x in m.train().modules())
    m.requires_grad_(False)
    assert not any(p.requires_grad for p in m.parameters())
    seen: list[str] = []
    m.apply(lambda x: seen.append(type(x).__name__))
    assert seen == ["Dropout", "Sequential", "Linear", "Sequential"]


def test_gradients_are_forgotten_or_filled_with_zeros() -> None:
    m = nn.Linear(2, 1)
    m(core.ones(1, 2)).sum().backward()
    m.zero_grad(set_to_none=False)
    assert m.weight.grad.tolist() == [[0.0, 0.0]]
    m.zero_grad()
    assert m.weight.grad is None


# -- copies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_is_its_own(again: Any) -> None:
    m = Scale().eval()
    m.inner.register_forward_hook(_doubled)
    n = again(m)
    assert n(core.ones(1, 1)).item() == m(core.ones(1, 1)).item()
    assert type(n.w) is nn.Parameter
    assert n.w.requires_grad
    assert not n.training
    with core.no_grad():
        n.w.mul_(3)
    assert m.w.item() == 2.0
    assert list(n.state_dict()) == list(m.state_dict())


def _doubled(module: Any, args: Any, output: Any) -> Any:
    return output * 2


def test_a_parameter_shares_the_memory_it_is_made_of() -> None:
    x = core.ones(2)
    p = nn.Parameter(x)
    x[0] = 5
    assert p.tolist() == [5.0, 1.0]
    assert p._version == x._version == 1
    assert p.is_leaf
    assert nn.Parameter(core.ones(2, requires_grad=True) * 2).is_leaf
    with pytest.raises(RuntimeError, match="floating point"):
        nn.Parameter(core.ones(2, dtype=core.int64))
    assert not nn.Parameter(core.ones(2, dtype=core.int64), requires_grad=False).requires_grad
    assert repr(p) == "Parameter containing:\ntensor([5., 1.], requires_grad=True)"
    assert isinstance(p * 1, core.Tensor)
    assert type(p * 1) is core.Tensor


# -- calling -----------------------------------------------------------------------------------------------------------


def test_forward_hooks_change_arguments_and_results() -> None:
    m = Scale().requires_grad_(False)
    m.inner.weight.fill_(1.0)
    m.inner.bias.fill_(0.0)
    order: list[str] = []
    with m.register_forward_pre_hook(lambda mod, args, kwargs: (args, {"plus": 1.0}), with_kwargs=True):
        assert m(core.ones(1, 1)).item() == 3.0
    first = m.register_forward_hook(lambda mod, args, out: order.append("first"))
    m.register_forward_hook(lambda mod, args, kwargs, out: order.append(f"second {kwargs}"), with_kwargs=True)
    m.register_forward_hook(lambda mod, args, out: order.append("before"), prepend=True)
    assert m(core.ones(1, 1), plus=2.0).item() == 4.0
    assert order == ["before", "first", "second {'plus': 2.0}"]
    first.remove()
    m(core.ones(1, 1))
    assert order[3:] == ["before", "second {}"]


def test_a_hook_may_be_called_even_where_forward_raises() -> None:
    m = nn.Linear(2, 2)
    called: list[Any] = []
    m.register_forward_hook(lambda mod, args, out: called.append(out), always_call=True)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        m(core.ones(1, 3))
    assert called == [None]


def test_backward_hooks_hear_of_outputs_where_no_input_requires_a_gradient() -> None:
    m = nn.Linear(2, 1)
    heard: list[Any] = []
    m.register_full_backward_hook(lambda mod, gi, go: heard.append((gi, go[0].tolist())))
    m(core.ones(1, 2)).sum().backward()
    assert heard == [((None,), [[1.0]])]


def test_a_backward_hook_of_the_wrong_length_raises() -> None:
    m = nn.Linear(2, 1)
    m.register_full_backward_hook(lambda mod, gi, go: (gi[0], gi[0]))
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        m(core.ones(1, 2, requires_grad=True)).sum().backward()


def test_observers_hear_which_module_runs_and_where_it_was_called() -> None:
    m = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    listener = Listener()
    with observe.observing(listener):
        m(core.ones(1, 2))
    assert listener.heard == [("in", "Sequential"), ("in", "Linear"), "linear", ("out", "Linear"),
                              ("in", "ReLU"), "relu", ("out", "ReLU"), ("out", "Sequential")]  # fmt: skip
    assert listener.lines == ["m(core.ones(1, 2))"] * 2


def test_observers_hear_that_a_failing_module_is_left() -> None:
    listener = Listener()
    with observe.observing(listener), pytest.raises(RuntimeError):
        nn.Sequential(nn.Linear(2, 2))(core.ones(1, 3))
    assert listener.heard[-2:] == [("out", "Linear"), ("out", "Sequential")]


# -- hooks of all modules, states of older versions --------------------------------------------------------------------


def test_hooks_of_all_modules_end_with_their_handles() -> None:
    from core.nn.modules import everywhere
    from core.nn.modules import module as names

    heard: list[str] = []
    model = nn.Sequential(nn.Linear(1, 1), nn.Tanh())
    handles = [
        names.register_module_forward_pre_hook(lambda m, args: heard.append("before " + type(m).__name__)),
        names.register_module_forward_hook(lambda m, args, y: heard.append("after " + type(m).__name__)),
        names.register_module_full_backward_hook(lambda m, gx, gy: heard.append("back " + type(m).__name__)),
    ]
    model(core.ones(1, 1, requires_grad=True)).sum().backward()
    assert heard == [
        "before Sequential", "before Linear", "after Linear", "before Tanh", "after Tanh", "after Sequential",
        "back Tanh", "back Linear", "back Sequential",
    ]  # fmt: skip
    for handle in handles:
        handle.remove()
    assert not everywhere.calls


def test_what_is_registered_may_be_replaced() -> None:
    from core.nn.modules.module import register_module_parameter_registration_hook

    with register_module_parameter_registration_hook(lambda m, name, p: nn.Parameter(p.detach().double())):
        layer = nn.Linear(2, 2)
    assert layer.weight.dtype is core.float64
    assert nn.Linear(2, 2).weight.dtype is core.float32


def test_an_always_called_hook_hears_of_failures_before_forward() -> None:
    m, heard = nn.Tanh(), []
    m.register_forward_pre_hook(lambda m, args: 1 / 0)
    m.register_forward_hook(lambda m, args, y: heard.append(y), always_call=True)
    with pytest.raises(ZeroDivisionError):
        m(core.ones(1))
    assert heard == [None]


def test_two_kinds_of_backward_hooks_do_not_mix() -> None:
    m = nn.Tanh()
    m.register_full_backward_hook(lambda m, gx, gy: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks"):
        m.register_backward_hook(lambda m, gx, gy: None)


def test_a_gradient_that_nobody_needs_reaches_the_hook() -> None:
    class Product(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x * y

    m, heard = Product(), []
    m.register_full_backward_hook(lambda m, gx, gy: heard.extend(g.tolist() for g in gx))
    m(core.tensor([2.0], requires_grad=True), core.tensor([3.0])).backward()
    assert heard == [[3.0], [0.0]]


def test_states_of_older_versions() -> None:
    fresh = nn.Linear.__new__(nn.Linear)
    state = dict(nn.Linear(2, 3).__dict__)
    del state["_load_state_dict_post_hooks"], state["_forward_hooks_always_called"]
    fresh.__setstate__(state)
    assert fresh(core.ones(1, 2)).shape == (1, 3)
    norm = nn.BatchNorm1d(2)
    older = norm.state_dict()
    del older["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        norm.load_state_dict(older)
    older._metadata = {}
    assert str(norm.load_state_dict(older)) == "<All keys matched successfully>"


def test_arguments_that_mean_nothing() -> None:
    m = nn.Linear(1, 1)
    for wrong in (lambda: m.to(nope=1), lambda: m.to(core.float32, core.float64), lambda: m.to([1])):
        with pytest.raises(TypeError, match="invalid combination of arguments"):
            wrong()
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        nn.Module(3)
    with pytest.raises(TypeError, match=r"Module\.to_empty\(\) missing"):
        m.to_empty()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="invalid type: 'nope'"):
        m.type("nope")
    assert m.type("torch.DoubleTensor").weight.dtype is core.float64
