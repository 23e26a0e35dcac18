"""backward() in C (native/binding/graph/backward.c): it does what the engine in Python does, or leaves it to that."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import core
from core import Tensor, native, nn
from core.autograd import engine
from core.base.modes import state
from core.base.source import locate
from core.events import observe

pytestmark = pytest.mark.skipif(native.module is None, reason="the C extension is not built")


def _graphs() -> list[Any]:
    f = nn.functional
    return [
        lambda a, b: a * b + a,
        lambda a, b: (a @ b).softmax(-1),
        lambda a, b: core.cat([a, b * 2, a]),
        lambda a, b: a[1:3].transpose(0, 1).reshape(-1) * 2,
        lambda a, b: core.stack(list(a.unbind(0))) + b[0],
        lambda a, b: f.layer_norm(a, (4,), b[0], b[1]).sum(0),
        lambda a, b: a.view(2, 8).chunk(2, 1)[1] ** 2,
        lambda a, b: a.mean(-1, keepdim=True) * b.exp(),
        lambda a, b: f.cross_entropy(a, core.tensor([0, 1, 2, 3])),
        lambda a, b: a.cumsum(0) + a.sort(1)[0] + b.amax(1),
        lambda a, b: a,
        lambda a, b: sum([a] * 5),
    ]


@pytest.mark.parametrize("which", range(12))
def test_the_gradients_are_those_of_the_engine(which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    core.manual_seed(0)
    found = []
    for quick in (True, False):
        core.manual_seed(0)
        a, b = (core.randn(4, 4).requires_grad_() for _ in range(2))
        y = _graphs()[which](a, b)
        g = core.randn(tuple(y.shape))
        y.backward(g) if quick else engine.run((y,), (g,), False, False, None, accumulate=True)
        found.append((a.grad, b.grad))
        assert a.grad is not g
    for one, other in zip(*found, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one.numpy(), other.numpy())
            assert not np.shares_memory(one.numpy(), g.numpy())


def test_gradients_add_up_in_place() -> None:
    x = core.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    held = x.grad
    (x * 3).sum().backward()
    assert x.grad is held
    assert held.tolist() == [5.0] * 3
    assert held._version == 1


def test_two_leaves_never_share_a_gradient() -> None:
    a, b = core.ones(3, requires_grad=True), core.ones(3, requires_grad=True)
    (a + b).backward(core.ones(3))
    a.grad.mul_(5)  # type: ignore[union-attr]
    assert b.grad.tolist() == [1.0] * 3  # type: ignore[union-attr]


def test_a_python_gradient_sees_the_mode_of_a_backward_pass() -> None:
    x = core.ones(3, requires_grad=True)
    seen: list[Any] = []
    y = x * 2
    y.register_hook(lambda g: seen.append((state.enabled, state.phase, state.task is not None, g.requires_grad)))
    x.register_hook(lambda g: g * 10)
    x.register_post_accumulate_grad_hook(lambda t: seen.append((t is x, state.enabled, t.grad.tolist())))
    y.sum().backward()
    assert seen == [(False, "backward", True, False), (True, False, [20.0] * 3)]
    assert (state.enabled, state.phase, state.task) == (True, "forward", None)
    assert np.geterr()["divide"] == "warn"


def test_the_mode_is_as_before_after_an_error() -> None:
    x = core.ones(3, requires_grad=True)
    y = x * 2

    def hook(g: Tensor) -> None:
        raise KeyError("mine")

    y.register_hook(hook)
    z = y.sum()
    with core.no_grad(), pytest.raises(KeyError, match="mine"):
        z.backward()
    assert (state.enabled, state.phase, state.task) == (True, "forward", None)
    assert x.grad is None


def test_a_hook_may_run_a_pass_of_its_own() -> None:
    x = core.ones(3, requires_grad=True)
    y = x * 2

    inner = []

    def hook(g: Tensor) -> None:
        with core.enable_grad():
            z = core.zeros(2, requires_grad=True)
            (z.exp() * 3).sum().backward()
            inner.append(z.grad)

    y.register_hook(hook)
    y.sum().backward()
    assert [g.tolist() for g in inner] == [[3.0, 3.0]]
    assert x.grad.tolist() == [2.0] * 3  # type: ignore[union-attr]


def test_what_was_saved_goes_unless_it_is_retained() -> None:
    x = core.ones(3, requires_grad=True)
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward(None)
    node = y.grad_fn.next_functions[0][0]  # type: ignore[union-attr]
    assert locate(*node.freed).code == "y.backward(None)"
    assert node.saved is None
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_errors_are_told_by_the_engine() -> None:
    x = core.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        core.ones(1).backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 2).backward(core.ones(2))
    with pytest.raises(TypeError):
        (x * 2).backward(np.ones(3))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        (x * 2).backward(core.ones(3), gradient=core.ones(3))  # type: ignore[misc]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        _stale(x).backward()
    assert x.grad is None


def _stale(x: Tensor) -> Tensor:
    y = x.exp()
    z = y.sum()
    y.detach().add_(1)
    return z


def test_observers_hear_of_it() -> None:
    class Listener(observe.Observer):
        heard = 0

        def backward(self, event: observe.BackwardEvent) -> None:
            self.heard += 1

    x = core.ones(3, requires_grad=True)
    listener = Listener()
    with observe.observing(listener):
        (x * 2).sum().backward()
    assert listener.heard == 2
    passes = observe.tally.passes
    (x * 2).sum().backward()
    assert (listener.heard, observe.tally.passes) == (2, passes + 1)


@pytest.mark.parametrize("count", [31, 32, 33, 200])
def test_graphs_beyond_the_first_entries(count: int) -> None:
    leaves = [core.ones(2, requires_grad=True) for _ in range(count)]
    total = leaves[0] * 1
    for k, leaf in enumerate(leaves):
        total = total + leaf * float(k)
    total.sum().backward()
    assert [x.grad.tolist()[0] for x in leaves] == [k + (k == 0) for k in range(count)]  # type: ignore[union-attr]


def test_threads_have_modes_of_their_own() -> None:
    wrong = []

    def work(k: int) -> None:
        with core.set_grad_enabled(True):
            for _ in range(200):
                x = core.ones(3, requires_grad=True)
                with core.no_grad():
                    wrong.extend([1] if (x * 2).requires_grad else [])
                (x.exp() * k).sum().backward()
                if abs(x.grad.tolist()[0] - 2.7182817 * k) > 1e-4:  # type: ignore[union-attr]
                    wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_grad_of_a_computed_tensor_warns_where_it_is_asked() -> None:
    y = core.ones(3, requires_grad=True) * 2
    with pytest.warns(UserWarning, match=r"The \.grad attribute of a Tensor that is not a leaf") as told:
        assert y.grad is None
    assert told[0].filename == __file__
    x = core.ones(3)
    for value, error in ((1.0, TypeError), (x, RuntimeError), (core.ones(2), RuntimeError)):
        with pytest.raises(error):
            x.grad = value  # type: ignore[assignment]
    x.grad = core.ones(3)
    assert x.grad.tolist() == [1.0] * 3
    del x.grad
    assert x.grad is None


@pytest.mark.parametrize("graph", range(len(_graphs())))
def test_leaves_that_want_their_gradient_on_the_way_get_it_from_c(graph, monkeypatch) -> None:
    """The walk in C counts a leaf's edges, and hands it the same gradient as without a hook, once."""
    f = _graphs()[graph]
    plain, hooked = ([core.randn(4, 4, generator=core.Generator().manual_seed(k)).requires_grad_() for k in range(2)]
                     for _ in range(2))  # fmt: skip
    before = len(observe.observers), observe.hooked
    f(*plain).sum().backward()
    seen: list[Any] = []
    handles = [t.register_post_accumulate_grad_hook(seen.append) for t in hooked]
    monkeypatch.setattr(engine, "_walk", None)  # the walk in Python is not asked
    f(*hooked).sum().backward()
    for t, u, handle in zip(plain, hooked, handles, strict=True):
        assert sum(s is u for s in seen) == (u.grad is not None)
        assert (t.grad is None) == (u.grad is None)
        assert t.grad is None or core.equal(t.grad, u.grad)
        handle.remove()
    observe.hooked = before[1]


def test_an_error_of_a_hook_on_the_way_ends_the_pass() -> None:
    x, w = core.ones(3, requires_grad=True), core.ones(3, requires_grad=True)

    def fail(t: Tensor) -> None:
        raise KeyError("from the hook")

    before = observe.hooked
    handle = w.register_post_accumulate_grad_hook(fail)
    for _ in range(3):
        with pytest.raises(KeyError, match="from the hook"):
            ((x.exp() * 2).exp() * w).sum().backward()
        assert x.grad is None  # its turn had not come
    handle.remove()
    observe.hooked = before
    (x * w).sum().backward()
    assert x.grad.tolist() == [1.0] * 3
