"""Checkpoints of both ways with dropout and autocast inside, selective ones, memory, and accumulated gradients."""

from __future__ import annotations

import functools

import pytest

import core
from core.events import observe
from core.utils import checkpoint as cp

F = core.nn.functional


class Counter(observe.Observer):
    """How often each op ran forward."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}

    def op(self, event: observe.OpEvent) -> None:
        self.count[event.op] = self.count.get(event.op, 0) + 1


def network() -> core.nn.Module:
    core.manual_seed(0)
    return core.nn.Sequential(core.nn.Linear(6, 16), core.nn.GELU(), core.nn.Dropout(0.5), core.nn.LayerNorm(16),
                              core.nn.Linear(16, 3))  # fmt: skip


def gradients(run, casts: bool) -> list[bytes]:
    model = network()
    x = core.arange(12.0).reshape(2, 6).div(12).requires_grad_()
    core.manual_seed(7)
    with core.autocast("cpu", enabled=casts):
        loss = (run(model, x).float() ** 2).sum() + core.rand(1).sum()
    loss.backward()
    assert all(p.grad.dtype is p.dtype for p in model.parameters())
    return [t.numpy().tobytes() for t in (x.grad, *[p.grad for p in model.parameters()], loss.detach())]


@pytest.mark.parametrize("casts", [False, True])
@pytest.mark.parametrize(
    "run",
    [
        functools.partial(cp.checkpoint, use_reentrant=False),
        functools.partial(cp.checkpoint, use_reentrant=True),
        functools.partial(cp.checkpoint, use_reentrant=False, early_stop=False),
        functools.partial(cp.checkpoint, use_reentrant=False, context_fn=functools.partial(
            cp.create_selective_checkpoint_contexts, [F.linear, F.layer_norm])),
        lambda model, x: cp.checkpoint_sequential(model, 2, x, use_reentrant=False),
        lambda model, x: cp.checkpoint_sequential(model, 2, x, use_reentrant=True),
        lambda model, x: cp.checkpoint(lambda t: cp.checkpoint(model, t, use_reentrant=False), x, use_reentrant=False),
    ],
)  # fmt: skip
def test_the_same_bits(run, casts):
    assert gradients(run, casts) == gradients(lambda model, x: model(x), casts)


@pytest.mark.parametrize("reentrant", [False, True])
def test_memory_falls(reentrant):
    native = pytest.importorskip("core.native._native")
    layers = [core.nn.Linear(256, 256) for _ in range(8)]

    def block(layer, x):
        return F.gelu(layer(x)).sin()

    def held(use: bool) -> int:
        x = core.ones(512, 256, requires_grad=True)
        before = native.memory_stats()["live_bytes"]
        y = x
        for layer in layers:
            y = cp.checkpoint(block, layer, y, use_reentrant=reentrant) if use else block(layer, y)
        held_bytes = native.memory_stats()["live_bytes"] - before
        y.sum().backward()
        return held_bytes

    plain, saved = held(False), held(True)
    assert saved <= plain / 2.4, (plain, saved)  # of three results a layer one is held, which is the next one's input


def test_a_policy_spares_the_second_run_what_it_keeps():
    w = core.ones(4, 4, requires_grad=True)
    told = []

    def policy(ctx, function, *args):
        told.append((ctx.is_recompute, function.__name__))
        return cp.CheckpointPolicy.MUST_SAVE if function is core.matmul else cp.CheckpointPolicy.PREFER_RECOMPUTE

    def run(x):
        return ((x @ w).exp() @ w).sin().sum()

    x = core.full((2, 4), 0.1)
    run(x).backward()
    want, w.grad = w.grad, None
    contexts = functools.partial(cp.create_selective_checkpoint_contexts, policy)
    loss = cp.checkpoint(run, x, use_reentrant=False, context_fn=contexts)
    ran = []
    pick = core.backends.pick
    core.backends.pick = lambda name, *rest: ran.append(name) or pick(name, *rest)
    try:
        loss.backward(retain_graph=True)
    finally:
        core.backends.pick = pick
    assert w.grad.equal(want)
    assert (False, "matmul") in told
    assert (True, "exp") in told
    loss.backward()
    assert w.grad.equal(want * 2)


def test_what_a_policy_keeps_must_not_be_written():
    w = core.ones(3, 3, requires_grad=True)

    def run(x):
        y = x @ w
        z = y.exp()
        with core.no_grad():
            y.mul_(2)
        return (z * z).sum()

    for allowed in (False, True):
        contexts = functools.partial(cp.create_selective_checkpoint_contexts, [core.matmul], allowed)
        loss = cp.checkpoint(run, core.ones(1, 3), use_reentrant=False, context_fn=contexts)
        if allowed:
            loss.backward()
        else:
            with pytest.raises(RuntimeError, match="has been mutated"):
                loss.backward()


def test_a_difference_is_told_with_both_runs():
    runs = []

    def f(x):
        runs.append(0)
        return x.exp() if len(runs) == 1 else x.double().exp()

    x = core.ones(2, requires_grad=True)
    with pytest.raises(cp.CheckpointError, match="different metadata") as told:
        cp.checkpoint(f, x, use_reentrant=False, debug=True, early_stop=False).sum().backward()
    assert "the first run:\n    exp at" in str(told.value)
    assert "the second run:\n    cast at" in str(told.value)
    runs.clear()
    with cp.set_checkpoint_debug_enabled(False), pytest.raises(cp.CheckpointError, match="debug=True lists"):
        cp.checkpoint(f, x, use_reentrant=False, debug=True, early_stop=False).sum().backward()


@pytest.mark.parametrize(
    ("run", "error", "phrase"),
    [
        (lambda x: cp.checkpoint(core.exp, x, use_reentrant=True, k=1), ValueError, "Unexpected keyword arguments: k"),
        (lambda x: cp.checkpoint(core.exp, x, use_reentrant=True, debug=True), ValueError, "only supported when"),
        (lambda x: cp.checkpoint(core.exp, x, determinism_check="all"), ValueError, "determinism_check should be"),
        (lambda x: core.autograd.grad(cp.checkpoint(core.exp, x, use_reentrant=True).sum(), x), RuntimeError, "inputs"),
        (lambda x: cp.checkpoint(lambda t: t.detach() * 1, x, use_reentrant=True).sum().backward(), RuntimeError,
         "none of output has requires_grad=True"),
        (lambda x: cp.checkpoint_sequential([core.exp], 1, x, foo=1), ValueError, "Unexpected keyword arguments: foo"),
        (lambda x: cp.create_selective_checkpoint_contexts("matmul"), TypeError, "function or a list of functions"),
        (lambda x: cp.detach_variable([x]), RuntimeError, "Only tuple"),
    ],
)  # fmt: skip
def test_refusals(run, error, phrase):
    with pytest.raises(error, match=phrase):
        run(core.ones(2, requires_grad=True))


def test_nothing_requires_a_gradient():
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        cp.checkpoint(core.exp, core.ones(2), use_reentrant=True)


@pytest.mark.parametrize("use", [False, True])
def test_micro_batches_equal_one_batch(use):
    core.manual_seed(0)
    x, y = core.randn(12, 5), core.randn(12, 2)
    model = core.nn.Sequential(core.nn.Linear(5, 8), core.nn.Tanh(), core.nn.Linear(8, 2)).double()
    x, y = x.double(), y.double()
    found = []
    for pieces in (1, 3, 4):
        model.zero_grad()
        for a, b in zip(x.chunk(pieces), y.chunk(pieces), strict=True):
            out = cp.checkpoint(model, a, use_reentrant=False) if use else model(a)
            (F.mse_loss(out, b) / pieces).backward()
        found.append([p.grad for p in model.parameters()])
    for grads in found[1:]:
        for one, many in zip(found[0], grads, strict=True):
            assert bool((one - many).abs().max() < 1e-14)
