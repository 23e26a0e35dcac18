"""Ctrl-C anywhere in what users call: it comes out once, and everything is as it was (`injection`, `interrupts`)."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest

import core
from core import native, nn
from core.base.modes import state
from core.dispatch import autocast as casting
from core.dispatch import saved_tensor_hooks
from core.events import observe

from . import interrupts
from .injection import Interrupted, interrupted_at, places

F = nn.functional


class Square(core.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]


class Deaf(observe.Observer):
    pass


def made():
    core.manual_seed(0)
    x, y = core.randn(4, 3), core.tensor([0, 1, 0, 1])
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.BatchNorm1d(5), nn.Linear(5, 2))
    optimizer = core.optim.Adam(model.parameters())

    def forward():
        model(x)

    def backward():
        F.cross_entropy(model(x), y).backward()

    def custom_function():
        Square.apply(model(x)).sum().backward()

    def hook():
        out = model(x)
        out.register_hook(lambda g: g * 2)
        out.sum().backward()

    def leaf_hooks():
        w = core.ones(3, requires_grad=True)
        w.register_hook(lambda g: g * 2)
        w.register_post_accumulate_grad_hook(lambda p: None)
        (w * w).sum().backward()

    def grad():
        core.autograd.grad(model(x).sum(), list(model.parameters()), create_graph=True)

    def step():
        optimizer.step()

    def closure():
        def loss():
            out = model(x).pow(2).sum()
            out.backward()
            return out

        optimizer.step(loss)

    def no_grad():
        with core.no_grad():
            (x * 2).sum()

    def inference_mode():
        with core.inference_mode():
            (x * 2).sum()

    def set_grad_enabled():
        with core.set_grad_enabled(False):
            (x * 2).sum()

    def autocast():
        with core.autocast("cpu"):
            F.linear(x, model[0].weight)

    def saved_tensors():
        with core.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            out = (x * model[0].weight[0]).exp().sum()
        out.backward()

    def checkpoint():
        core.utils.checkpoint.checkpoint(model[0], x, use_reentrant=False).sum().backward()

    def observed():
        with observe.observing(Deaf()):
            (model[0].weight * 2).sum().backward()

    def clipped():
        for p in model.parameters():
            p.grad = core.full_like(p, 5.0)  # the same way each time: what is small enough takes a shorter one
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    def loader():
        for batch, _ in core.utils.data.DataLoader(core.utils.data.TensorDataset(x, y), batch_size=2):
            batch.sum()

    def vmap():
        core.func.vmap(lambda t: (t * 2).sum())(x)

    return {k: v for k, v in locals().items() if callable(v) and k != "model"}


OPERATIONS = made()


def standing():
    """What an operation may change while it runs, and must not have changed when it has ended."""
    return {
        "grad mode": state.enabled, "inference": state.inference, "phase": state.phase, "batch": state.batch,
        "task": state.task, "observers": observe.observers, "NumPy's warnings": np.geterr(),
        "saved-tensor hooks": (saved_tensor_hooks.active, saved_tensor_hooks.stack.hooks),
        "autocast": (casting._count, set(casting.state.on), casting.state.inside, casting.state.nesting),
    }  # fmt: skip


@pytest.mark.skipif(not native.available, reason="an `__exit__` in Python cannot be kept from being interrupted")
@pytest.mark.parametrize("name", OPERATIONS)
def test_ctrl_c_at_every_place_comes_out_and_leaves_all_whole(name):
    operation = OPERATIONS[name]
    operation()
    operation()  # what is made once is made
    before, count = standing(), places(operation)
    assert count > 3
    for place in range(1, count + 1, 1 + count // 250):
        error = interrupted_at(place, operation)
        assert isinstance(error, Interrupted), f"lost at place {place} of {count}"
        assert standing() == before, str(error)
    operation()


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, SystemExit, MemoryError, RecursionError, GeneratorExit, ValueError]
)
@pytest.mark.parametrize("where", ["tensor hook", "leaf hook", "post hook", "function", "pack", "unpack", "observer"])
def test_what_a_callback_raises_comes_out_unchanged_and_a_second_backward_works(where, error):
    mine, raises = error("mine"), True

    def call(value=None):
        if raises:
            raise mine
        return value

    class Calls(core.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return call(g)

    class Hears(observe.Observer):
        def backward(self, event):
            call()

    before = standing()

    def run():
        w = core.ones(3, requires_grad=True)
        h = w * 2
        if where == "tensor hook":
            h.register_hook(call)
        elif where == "leaf hook":
            w.register_hook(call)
        elif where == "post hook":
            w.register_post_accumulate_grad_hook(lambda p: call())
        elif where == "function":
            h = Calls.apply(h)
        if where in ("pack", "unpack"):
            with core.autograd.graph.saved_tensors_hooks(
                *((call, lambda t: t) if where == "pack" else (lambda t: t, call))
            ):
                out = (h * h).sum()
        else:
            out = (h * h).sum()
        if where == "observer":
            with observe.observing(Hears()):
                out.backward()
        else:
            out.backward()
        return w.grad

    if where == "observer" and issubclass(error, Exception):  # an observer's own errors are never the user's
        told = []
        Hears.failed = lambda self, error: told.append(error)
        assert run().tolist() == [8.0, 8.0, 8.0]
        assert told == [mine]
        return
    with pytest.raises(error) as caught:
        run()
    assert caught.value is mine
    assert standing() == before
    raises = False
    assert run().tolist() == [8.0, 8.0, 8.0]


def test_ctrl_c_while_c_walks_the_graph_is_raised_as_the_pass_ends():
    """A hook readied Python's part of the pass, which ends in C: what the signal raises there must not be cleared."""

    def graph():
        h = x
        for _ in range(40):
            h = (h * 1.01).tanh()
        h.register_hook(lambda g: g * 2)
        return h.sum()

    def ring(number, frame):
        raise Interrupted

    x = core.linspace(-1, 1, 100_000).requires_grad_()
    graph().backward()
    loss = graph()
    began = time.perf_counter()
    loss.backward()
    takes_s = time.perf_counter() - began
    before, expected, lost = signal.signal(signal.SIGALRM, ring), x.grad, 0
    try:
        for _ in range(20):
            x.grad, loss = None, graph()
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.6 * takes_s)
                loss.backward()
                until = time.monotonic() + 5  # on a busy machine the signal comes later
                while signal.getitimer(signal.ITIMER_REAL)[0] and time.monotonic() < until:
                    pass
                time.sleep(0.01)
                lost += 1
            except Interrupted:
                pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not lost
    x.grad = None
    graph().backward()
    graph().backward()
    assert np.array_equal(x.grad.numpy(), expected.numpy())


@pytest.mark.parametrize("kind", ["backward", "callbacks", "step"])
def test_signals_at_random_times_are_all_raised(kind):
    found, told, _ = interrupts.run(kind, 12, seed=1)
    assert not told
    assert found == {"whole": 12}
