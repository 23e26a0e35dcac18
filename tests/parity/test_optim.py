"""`core.optim` against PyTorch: trajectories of a hundred steps, states, schedules."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402

OPTIMIZERS = {
    "sgd": lambda t, p: t.optim.SGD(p, lr=0.05),
    "sgd momentum": lambda t, p: t.optim.SGD(p, lr=0.02, momentum=0.9),
    "sgd dampening": lambda t, p: t.optim.SGD(p, lr=0.02, momentum=0.9, dampening=0.3, weight_decay=0.1),
    "sgd nesterov": lambda t, p: t.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01),
    "sgd maximize": lambda t, p: t.optim.SGD(p, lr=0.001, momentum=0.5, maximize=True),
    "adam": lambda t, p: t.optim.Adam(p, lr=0.01),
    "adam decay": lambda t, p: t.optim.Adam(p, lr=0.01, weight_decay=0.1),
    "adam amsgrad": lambda t, p: t.optim.Adam(p, lr=0.01, betas=(0.8, 0.95), amsgrad=True),
    "adamw": lambda t, p: t.optim.AdamW(p, lr=0.01),
    "adamw settings": lambda t, p: t.optim.AdamW(p, lr=0.02, betas=(0.85, 0.99), eps=1e-4, weight_decay=0.3),
    "adamw amsgrad": lambda t, p: t.optim.AdamW(p, lr=0.01, amsgrad=True),
    "adamw maximize": lambda t, p: t.optim.AdamW(p, lr=0.001, maximize=True),
    "groups": lambda t, p: t.optim.AdamW([{"params": p[:1], "lr": 0.1},
                                       {"params": p[1:], "weight_decay": 0.0}], lr=0.01),
}  # fmt: skip


def problem(t: Any, dtype: str = "float64") -> tuple[Any, list[Any], Any]:
    """A small curved loss of three parameters, the third of which joins after ten steps."""
    rng = np.random.default_rng(1)
    made = [rng.normal(size=s).astype(dtype) for s in ((4, 3), (3,), ())]
    params = [t.nn.Parameter(t.tensor(a)) for a in made]
    x = t.tensor(rng.normal(size=(6, 4)).astype(dtype))
    y = t.tensor(rng.normal(size=(6, 3)).astype(dtype))

    def loss(step: int) -> Any:
        error = (x @ params[0] + params[1]).tanh() - y
        value = (error * error).mean()
        return value + (params[2] * params[2] * 0.3 if step >= 10 else 0)

    return loss, params, x


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_hundred_steps_go_the_same_way(name: str) -> None:
    ends = []
    for t in (core, torch):
        loss, params, _ = problem(t)
        opt = OPTIMIZERS[name](t, params)
        for step in range(100):
            opt.zero_grad()
            loss(step).backward()
            opt.step()
        ends.append((params, opt))
    (mine, opt), (theirs, other) = ends
    for p, q in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-7, atol=1e-12)
    a, b = opt.state_dict(), other.state_dict()
    assert a["param_groups"] == b["param_groups"]
    assert {k: list(v) for k, v in a["state"].items()} == {k: list(v) for k, v in b["state"].items()}
    for k, values in b["state"].items():
        for key, value in values.items():
            found = a["state"][k][key]
            assert tuple(found.shape) == tuple(value.shape)
            assert str(found.dtype).split(".")[1] == str(value.dtype).split(".")[1]
            np.testing.assert_allclose(found.numpy(), value.numpy(), rtol=1e-7, atol=1e-12)
    assert repr(opt) == repr(other)


@pytest.mark.parametrize("name", ["sgd nesterov", "adamw", "adam decay"])
def test_float32_stays_close(name: str) -> None:
    ends = []
    for t in (core, torch):
        loss, params, _ = problem(t, "float32")
        opt = OPTIMIZERS[name](t, params)
        for step in range(30):
            opt.zero_grad()
            loss(step).backward()
            opt.step()
        ends.append([p.detach().numpy() for p in params])
    for p, q in zip(*ends, strict=True):
        np.testing.assert_allclose(p, q, rtol=2e-4, atol=2e-6)


def test_a_saved_state_goes_on_in_the_other_library() -> None:
    loss, params, _ = problem(torch)
    opt = torch.optim.AdamW(params, lr=0.05)
    for step in range(20):
        opt.zero_grad()
        loss(step).backward()
        opt.step()
    saved = opt.state_dict()
    mine, ps, _ = problem(core)
    with core.no_grad():
        for p, q in zip(ps, params, strict=True):
            p.copy_(core.tensor(q.detach().numpy()))
    again = core.optim.AdamW(ps, lr=1.0)
    again.load_state_dict({
        "state": {k: {n: core.tensor(v.numpy()) for n, v in s.items()} for k, s in saved["state"].items()},
        "param_groups": saved["param_groups"],
    })  # fmt: skip
    for step in range(20, 40):
        for o, f in ((opt, loss), (again, mine)):
            o.zero_grad()
            f(step).backward()
            o.step()
    for p, q in zip(ps, params, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_a_closure_is_run_the_same() -> None:
    values = []
    for t in (core, torch):
        loss, params, _ = problem(t)
        opt = t.optim.SGD(params, lr=0.1)

        def closure(opt: Any = opt, loss: Any = loss) -> Any:
            opt.zero_grad()
            value = loss(20)
            value.backward()
            return value

        values.append([opt.step(closure).item() for _ in range(5)])
    np.testing.assert_allclose(*values, rtol=1e-12)


ODD = {
    "tensor": lambda t: t.optim.SGD(t.ones(1, requires_grad=True), lr=0.1),
    "nothing": lambda t: t.optim.SGD([], lr=0.1),
    "number": lambda t: t.optim.SGD([3], lr=0.1),
    "non-leaf": lambda t: t.optim.SGD([t.ones(1, requires_grad=True) * 2], lr=0.1),
    "set": lambda t: t.optim.SGD([{"params": {t.ones(1)}}], lr=0.1),
    "twice": lambda t: (lambda p: t.optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1))(t.ones(1)),
    "negative rate": lambda t: t.optim.SGD([t.ones(1)], lr=-0.1),
    "negative momentum": lambda t: t.optim.SGD([t.ones(1)], momentum=-0.1),
    "nesterov": lambda t: t.optim.SGD([t.ones(1)], nesterov=True),
    "beta": lambda t: t.optim.Adam([t.ones(1)], betas=(0.9, 1.0)),
    "eps": lambda t: t.optim.AdamW([t.ones(1)], eps=-1.0),
    "decay": lambda t: t.optim.AdamW([t.ones(1)], weight_decay=-1.0),
    "groups": lambda t: t.optim.SGD([t.ones(1)]).load_state_dict({"state": {}, "param_groups": []}),
    "sizes": lambda t: t.optim.SGD([t.ones(1)]).load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]}),
    "scheduler of nothing": lambda t: t.optim.lr_scheduler.StepLR(3, 1),
    "resumed without its rate": lambda t: t.optim.lr_scheduler.StepLR(t.optim.SGD([t.ones(1)]), 1, last_epoch=3),
    "one cycle without steps": lambda t: t.optim.lr_scheduler.OneCycleLR(t.optim.SGD([t.ones(1)]), 0.1),
    "plateau factor": lambda t: t.optim.lr_scheduler.ReduceLROnPlateau(t.optim.SGD([t.ones(1)]), factor=1.0),
    "plateau mode": lambda t: t.optim.lr_scheduler.ReduceLROnPlateau(t.optim.SGD([t.ones(1)]), mode="x"),
    "linear": lambda t: t.optim.lr_scheduler.LinearLR(t.optim.SGD([t.ones(1)]), start_factor=0.0),
    "lambdas": lambda t: t.optim.lr_scheduler.LambdaLR(t.optim.SGD([t.ones(1)]), [abs, abs]),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_a_wrong_use_raises_the_same(name: str) -> None:
    texts = []
    for t in (core, torch):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is compared
            ODD[name](t)
        texts.append((type(caught.value).__name__, str(caught.value).replace("torch.", "core.")))
    ours, theirs = texts
    assert (ours[0], ours[1].split("\n  op: ")[0]) == theirs  # our lines follow PyTorch's


SCHEDULES = {
    "step": lambda s, o: s.StepLR(o, 3, gamma=0.5),
    "multistep": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9], gamma=0.3),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 7, eta_min=0.01),
    "cosine restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 4, 2, eta_min=0.01),
    "lambda": lambda s, o: s.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (e + 1)]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.95),
    "linear": lambda s, o: s.LinearLR(o, 0.2, 0.9, total_iters=6),
    "constant": lambda s, o: s.ConstantLR(o, 0.4, total_iters=6),
    "polynomial": lambda s, o: s.PolynomialLR(o, 8, power=2.0),
    "one cycle": lambda s, o: s.OneCycleLR(o, [0.5, 0.1], total_steps=25),
    "one cycle linear": lambda s, o: s.OneCycleLR(o, 0.5, epochs=5, steps_per_epoch=5, anneal_strategy="linear",
                                                three_phase=True),
    "sequential": lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=4), s.CosineAnnealingLR(o, 10),
                                              s.ExponentialLR(o, 0.5)], [4, 15]),
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)]),
}  # fmt: skip


@pytest.mark.parametrize("family", ["SGD", "AdamW"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_has_the_same_curve_and_state(name: str, family: str) -> None:
    found = []
    for t in (core, torch):
        a, b = t.ones(1, requires_grad=True), t.ones(1, requires_grad=True)
        options = {"momentum": 0.9} if family == "SGD" else {}
        opt = getattr(t.optim, family)([{"params": [a], "lr": 0.3}, {"params": [b]}], lr=0.05, **options)
        schedule = SCHEDULES[name](t.optim.lr_scheduler, opt)
        curve = [schedule.get_last_lr()]
        for _ in range(24):
            opt.step()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # PyTorch's own SequentialLR steps by number
                schedule.step()
            settings = [(g.get("momentum"), g.get("betas")) for g in opt.param_groups]
            curve.append([*schedule.get_last_lr(), settings])
        state = schedule.state_dict()
        state.pop("_schedule_phases", None)
        if name in ("sequential", "chained"):
            state["_schedulers"] = [sorted(s) for s in state["_schedulers"]]
        found.append((curve, state))
    assert found[0][0] == found[1][0]
    assert found[0][1] == found[1][1]


@pytest.mark.parametrize("options", [
    {"factor": 0.5, "patience": 1},
    {"factor": 0.3, "patience": 2, "cooldown": 2, "min_lr": 0.01},
    {"mode": "max", "factor": 0.5, "patience": 1, "threshold_mode": "abs", "threshold": 0.2},
    {"threshold_mode": "abs", "patience": 0},
])  # fmt: skip
def test_plateaus_are_seen_the_same(options: dict[str, Any]) -> None:
    metrics = np.random.default_rng(0).normal(size=40).cumsum() * 0.1 + np.linspace(3, 0, 40).clip(1)
    curves = []
    for t in (core, torch):
        opt = t.optim.SGD([t.ones(1, requires_grad=True)], lr=1.0)
        schedule = t.optim.lr_scheduler.ReduceLROnPlateau(opt, **options)
        curve = []
        for m in metrics:
            schedule.step(t.tensor(m))
            curve.append(schedule.get_last_lr()[0])
        curves.append((curve, {k: v for k, v in schedule.state_dict().items() if k != "optimizer"}))
    assert curves[0] == curves[1]
