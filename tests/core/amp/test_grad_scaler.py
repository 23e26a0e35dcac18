"""GradScaler: scaling, unscaling, skipped steps, growth and backoff, several optimizers, what it refuses."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import core


def made(n: int = 2, **settings):
    w = core.ones(n, requires_grad=True)
    return w, core.optim.SGD([w], lr=0.5), core.amp.GradScaler("cpu", init_scale=8.0, **settings)


def test_a_step_is_that_of_the_unscaled_loss():
    w, opt, scaler = made()
    scaler.scale((w * w).sum()).backward()
    assert w.grad.tolist() == [16.0, 16.0]
    scaler.unscale_(opt)
    assert w.grad.tolist() == [2.0, 2.0]
    scaler.step(opt)
    scaler.update()
    assert w.tolist() == [0.0, 0.0]
    assert (scaler.get_scale(), scaler._get_growth_tracker()) == (8.0, 1)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("place", [0, 70_000])
def test_an_overflow_skips_the_step_and_halves_the_scale(bad, place):
    w, opt, scaler = made(70_001)
    scaler.scale(w.sum()).backward()
    w.grad[place] = bad
    assert scaler.step(opt) is None
    scaler.update()
    assert bool((w == 1).all())
    assert scaler.get_scale() == 4.0


def test_the_scale_grows_after_an_interval():
    w, opt, scaler = made(growth_interval=2, growth_factor=4.0)
    for _ in range(4):
        opt.zero_grad()
        scaler.scale(w.sum()).backward()
        scaler.step(opt)
        scaler.update()
    assert scaler.get_scale() == 128.0
    scaler.scale(w.sum())
    scaler.update(3.0)
    assert scaler.get_scale() == 3.0
    scaler.update(core.tensor(5.0))
    assert scaler.get_scale() == 5.0


def test_two_optimizers_one_of_which_overflows():
    a, b = core.ones(2, requires_grad=True), core.ones(2, requires_grad=True)
    one, two = core.optim.SGD([a], lr=0.5), core.optim.AdamW([b], lr=0.5)
    scaler = core.amp.GradScaler("cpu", init_scale=4.0)
    first, second = scaler.scale([a.sum(), (b * 2).sum()])
    (first + second).backward()
    a.grad[0] = math.inf
    scaler.step(one)
    scaler.step(two)
    scaler.update()
    assert a.tolist() == [1.0, 1.0]
    assert b.tolist() != [1.0, 1.0]
    assert scaler.get_scale() == 2.0


def test_kinds_of_gradients():
    ws = [core.ones(3, dtype=d, requires_grad=True) for d in (core.float32, core.float64, core.bfloat16)]
    wide = core.ones(4, 6)[:, ::2].requires_grad_()
    opt, scaler = core.optim.SGD([*ws, wide], lr=1.0), core.amp.GradScaler("cpu", init_scale=2.0**10)
    scaler.scale(sum(w.float().sum() for w in ws) + wide.sum()).backward()
    versions = [w.grad._version for w in ws]
    scaler.unscale_(opt)
    for w, version in zip(ws, versions, strict=True):
        assert w.grad.tolist() == [1.0] * 3
        assert w.grad._version == version + 1
    assert bool((wide.grad == 1).all())
    scaler.step(opt)
    scaler.update()


def test_on_cuda():
    w = core.ones(2, device="cuda", requires_grad=True)
    opt, scaler = core.optim.SGD([w], lr=0.5), core.amp.GradScaler("cuda", init_scale=8.0)
    with core.autocast("cuda"):
        loss = (w * w).sum()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    assert w.tolist() == [0.0, 0.0]
    scaler.scale(w.sum()).backward()
    w.grad[1] = math.nan
    scaler.step(opt)
    scaler.update()
    assert scaler.get_scale() == 4.0


def test_a_training_run_in_float16_recovers_from_a_scale_too_great():
    core.manual_seed(0)
    model = core.nn.Sequential(core.nn.Linear(4, 16), core.nn.Tanh(), core.nn.Linear(16, 1))
    opt, scaler = core.optim.SGD(model.parameters(), lr=0.1), core.amp.GradScaler("cpu", init_scale=2.0**40)
    x = core.randn(64, 4)
    y = x.sum(1, keepdim=True).tanh()
    losses, scales = [], []
    for _ in range(80):
        opt.zero_grad()
        with core.autocast("cpu", dtype=core.float16):
            loss = core.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        losses.append(float(loss.detach()))
        scales.append(scaler.get_scale())
    assert scales[0] == 2.0**39
    assert 2.0**5 < scales[-1] < 2.0**30
    assert losses[-1] < 0.5 * losses[0]
    assert np.isfinite(losses).all()


def test_states_travel():
    w, opt, scaler = made(growth_interval=7)
    scaler.scale(w.sum()).backward()
    scaler.step(opt)
    scaler.update()
    state = scaler.state_dict()
    assert state == {
        "scale": 8.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 7,
        "_growth_tracker": 1,
    }
    other = core.amp.GradScaler("cpu")
    other.load_state_dict(state)
    for again in (other, pickle.loads(pickle.dumps(scaler))):
        assert again.state_dict() == state
        assert float(again.scale(core.tensor(1.0))) == 8.0
    scaler.load_state_dict({**state, "scale": 2.0, "_growth_tracker": 6})
    assert scaler.get_scale() == 2.0
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(9)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (3.0, 0.25, 9)


def test_not_enabled_it_is_not_there():
    w, opt, _ = made()
    scaler = core.amp.GradScaler("cpu", enabled=False)
    scaler.scale(w.sum()).backward()
    scaler.unscale_(opt)
    scaler.step(opt)
    scaler.update()
    assert w.tolist() == [0.5, 0.5]
    assert (scaler.get_scale(), scaler.state_dict(), scaler.is_enabled()) == (1.0, {}, False)
    scaler.load_state_dict({})


def _after(*steps: str):
    w, opt, scaler = made()
    for step in steps:
        if step == "scale":
            scaler.scale(w.sum()).backward()
        elif step == "update":
            scaler.update()
        elif step == "half":
            h = core.ones(1, dtype=core.float16, requires_grad=True)
            opt = core.optim.SGD([h], lr=1.0)
            scaler.scale(h.sum()).backward()
        elif step == "bare":
            scaler.scale(core.ones(1))
        else:
            getattr(scaler, step)(opt)
    return scaler


@pytest.mark.parametrize(
    ("run", "error", "phrase"),
    [
        (lambda: _after("step"), AssertionError, "Attempted step but _scale is None"),
        (lambda: _after("unscale_"), AssertionError, "Attempted unscale_ but _scale is None"),
        (lambda: _after("update"), AssertionError, "Attempted update but _scale is None"),
        (lambda: _after("scale", "unscale_", "unscale_"), RuntimeError, "already been called on this optimizer"),
        (lambda: _after("scale", "step", "unscale_"), RuntimeError, "being called after step"),
        (lambda: _after("scale", "step", "step"), RuntimeError, "already been called since the last update"),
        (lambda: _after("scale", "step", "update", "update"), AssertionError, "No inf checks were recorded prior"),
        (lambda: _after("bare", "step"), AssertionError, "No inf checks were recorded for this optimizer"),
        (lambda: _after("half", "step"), ValueError, "Attempting to unscale FP16 gradients"),
        (lambda: pickle.dumps(_after("scale", "step")), AssertionError, "may only be pickled"),
        (lambda: _after("bare").update(core.ones(2)), AssertionError, "1-element"),
        (lambda: core.amp.GradScaler("cpu").scale("loss"), ValueError, "outputs must be a Tensor"),
        (lambda: core.amp.GradScaler("cpu").load_state_dict({}), RuntimeError, "state dict is empty"),
        (lambda: core.amp.GradScaler("cpu", growth_factor=1.0), AssertionError, "growth factor must be > 1"),
        (lambda: core.amp.GradScaler("cpu", backoff_factor=1.0), AssertionError, "backoff factor must be < 1"),
        (lambda: core.amp.GradScaler("cpu").step(None, closure=int), RuntimeError, "Closure use is not"),
    ],
)
def test_refusals(run, error, phrase):
    with pytest.raises(error, match=phrase):
        run()
