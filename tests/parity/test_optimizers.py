"""Every optimizer of `core.optim` beside PyTorch's: 200 steps on the digits, states, errors, averages."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
digits = pytest.importorskip("sklearn.datasets").load_digits()

import core  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Any:
    """PyTorch's threads spin while ours work: on a busy machine that takes minutes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd nesterov": ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-3}),
    "sgd dampening": ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.3}),
    "sgd upwards": ("SGD", {"lr": 1e-3, "momentum": 0.5, "maximize": True}),
    "adam": ("Adam", {"lr": 0.01}),
    "adam amsgrad": ("Adam", {"lr": 0.01, "betas": (0.8, 0.95), "amsgrad": True, "weight_decay": 0.01}),
    "adam decoupled": ("Adam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "adamw": ("AdamW", {"lr": 0.01, "eps": 1e-4}),
    "adamw amsgrad": ("AdamW", {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1}),
    "adamw upwards": ("AdamW", {"lr": 1e-4, "maximize": True}),
    "nadam": ("NAdam", {"lr": 0.01}),
    "nadam decay": ("NAdam", {"lr": 0.01, "weight_decay": 0.01, "momentum_decay": 0.1}),
    "nadam decoupled": ("NAdam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "radam": ("RAdam", {"lr": 0.02}),
    "radam decay": ("RAdam", {"lr": 0.02, "betas": (0.8, 0.9), "weight_decay": 0.01}),
    "radam decoupled": ("RAdam", {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "adamax": ("Adamax", {"lr": 0.01}),
    "adamax decay": ("Adamax", {"lr": 0.01, "betas": (0.8, 0.99), "weight_decay": 0.01, "eps": 1e-4}),
    "adagrad": ("Adagrad", {"lr": 0.05}),
    "adagrad decay": ("Adagrad", {"lr": 0.05, "lr_decay": 0.01, "weight_decay": 0.01,
                                  "initial_accumulator_value": 0.1}),
    "adadelta": ("Adadelta", {}),
    "adadelta decay": ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.01}),
    "rmsprop": ("RMSprop", {"lr": 1e-3}),
    "rmsprop momentum": ("RMSprop", {"lr": 1e-3, "momentum": 0.9, "alpha": 0.9, "weight_decay": 0.01}),
    "rmsprop centered": ("RMSprop", {"lr": 1e-3, "centered": True, "eps": 1e-3}),
    "rmsprop both": ("RMSprop", {"lr": 1e-3, "centered": True, "momentum": 0.5, "eps": 1e-3}),
    "rprop": ("Rprop", {"lr": 1e-3, "step_sizes": (1e-6, 5e-3)}),
    "rprop settings": ("Rprop", {"lr": 1e-3, "etas": (0.3, 1.1), "step_sizes": (1e-5, 1e-2)}),
    "asgd": ("ASGD", {"lr": 0.05}),
    "asgd averaging": ("ASGD", {"lr": 0.05, "lambd": 0.01, "alpha": 0.5, "t0": 50.0, "weight_decay": 0.01}),
    "adafactor": ("Adafactor", {"lr": 0.05}),
    "adafactor settings": ("Adafactor", {"lr": 0.02, "beta2_decay": -0.5, "eps": (1e-10, 1e-2), "d": 2.0,
                                         "weight_decay": 0.01}),
    "muon": ("Muon", {"lr": 0.01}),
    "muon plain": ("Muon", {"lr": 0.01, "nesterov": False, "momentum": 0.9, "adjust_lr_fn": "match_rms_adamw"}),
    "lbfgs": ("LBFGS", {"lr": 0.2, "max_iter": 4, "history_size": 5}),
    "lbfgs wolfe": ("LBFGS", {"line_search_fn": "strong_wolfe", "max_iter": 4, "history_size": 5}),
}  # fmt: skip
# Where rounding grows by itself: signs decide (Rprop), bfloat16 (Muon), small curvatures (L-BFGS).
LOOSER = {"Rprop": 1e-2, "Muon": 2e-2, "LBFGS": 2e-2}


def train(
    t: Any, name: str, options: dict[str, Any], dtype: str, steps: int = 200
) -> tuple[list[float], list[Any], Any]:
    """The losses, the parameters and the optimizer after `steps` batches of 32 digits."""
    rng = np.random.default_rng(0)
    sizes = [(64, 16), (16,), (16, 10), (10,)]
    made = [rng.normal(size=s, scale=0.3).astype(dtype) for s in sizes]
    params = [t.nn.Parameter(t.tensor(a)) for a in made]
    w1, b1, w2, b2 = params
    x = t.tensor((digits.data / 16.0).astype(dtype)[:512])
    y = t.tensor(digits.target[:512])
    opt = getattr(t.optim, name)([w1, w2] if name == "Muon" else params, **options)
    whole = name in ("Rprop", "LBFGS")  # these are for the whole data set
    losses = []
    for step in range(steps):
        rows = slice(0, 128) if whole else slice(step * 32 % 512, step * 32 % 512 + 32)

        def closure(rows: Any = rows) -> Any:
            for p in params:
                p.grad = None
            loss = t.nn.functional.cross_entropy((x[rows] @ w1 + b1).tanh() @ w2 + b2, y[rows])
            if options.get("maximize"):
                loss = -loss
            loss.backward()
            return loss.detach()

        losses.append(float(opt.step(closure)) if name == "LBFGS" else float(closure()))
        if name != "LBFGS":
            opt.step()
    return losses, [p.detach().numpy() for p in params], opt


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_two_hundred_steps_go_the_same_way(case: str, dtype: str) -> None:
    name, options = CASES[case]
    # a sign that rounding turned is a step the other way, so float32's Rprop parts at some time
    steps = 40 if (name, dtype) == ("Rprop", "float32") else 12 if name == "LBFGS" else 200
    mine, params, opt = train(core, name, options, dtype, steps)
    theirs, other, beside = train(torch, name, options, dtype, steps)
    rtol = 1e-7 if dtype == "float64" else 1e-3
    if dtype == "float32" or name == "Muon":
        rtol = LOOSER.get(name, rtol)
    np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol * 1e-2)
    for p, q in zip(params, other, strict=True):
        np.testing.assert_allclose(p, q, rtol=rtol, atol=rtol * 10)
    if not options.get("maximize"):
        assert mine[-1] < mine[0] * 0.95
    a, b = opt.state_dict(), beside.state_dict()
    assert a["param_groups"] == b["param_groups"]
    assert repr(opt) == repr(beside)
    assert {k: list(v) for k, v in a["state"].items()} == {k: list(v) for k, v in b["state"].items()}
    for k, values in b["state"].items():
        for key, value in values.items():
            found = a["state"][k][key]
            if isinstance(value, torch.Tensor):
                assert tuple(found.shape) == tuple(value.shape), key
                assert str(found.dtype).split(".")[1] == str(value.dtype).split(".")[1], key
            elif name != "LBFGS":
                assert found == value


def to_core(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return core.tensor(value.numpy())
    if isinstance(value, dict):
        return {k: to_core(v) for k, v in value.items()}
    return [to_core(v) for v in value] if isinstance(value, list) else value


def to_torch(value: Any) -> Any:
    if isinstance(value, core.Tensor):
        return torch.tensor(value.detach().numpy())
    if isinstance(value, dict):
        return {k: to_torch(v) for k, v in value.items()}
    return [to_torch(v) for v in value] if isinstance(value, list) else value


FAMILIES = sorted({name for name, _ in CASES.values()})


@pytest.mark.parametrize("name", FAMILIES)
def test_a_state_dict_goes_on_in_the_other_library_and_back(name: str) -> None:
    options = next(o for n, o in CASES.values() if n == name)
    rng = np.random.default_rng(3)
    start = rng.normal(size=(4, 3))
    target = rng.normal(size=(4, 3))

    def go(t: Any, p: Any, opt: Any, steps: int) -> None:
        goal = t.tensor(target)

        def closure() -> Any:
            opt.zero_grad()
            loss = ((p - goal) ** 2).sum() + (p**4).sum() * 0.1
            loss.backward()
            return loss

        for _ in range(steps):
            opt.step(closure)

    def make(t: Any, values: Any) -> tuple[Any, Any]:
        p = t.nn.Parameter(t.tensor(values))
        return p, getattr(t.optim, name)([p], **options)

    p, opt = make(torch, start)
    go(torch, p, opt, 4)
    q, mine = make(core, p.detach().numpy().copy())
    mine.load_state_dict(to_core(opt.state_dict()))
    go(core, q, mine, 3)
    r, back = make(torch, q.detach().numpy().copy())
    back.load_state_dict(to_torch(mine.state_dict()))
    go(torch, r, back, 3)
    go(torch, p, opt, 6)
    # loading makes ASGD's rate, a float32, of the parameter's dtype: in PyTorch too
    rtol = 2e-2 if name == "Muon" else 1e-6 if name in ("LBFGS", "ASGD") else 1e-9
    np.testing.assert_allclose(r.detach().numpy(), p.detach().numpy(), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", [n for n in FAMILIES if n not in ("Adafactor", "Muon", "LBFGS")])
def test_complex_parameters_are_pairs_of_reals(name: str) -> None:
    rng = np.random.default_rng(5)
    start = rng.normal(size=(3, 2)) + 1j * rng.normal(size=(3, 2))
    ends = []
    for t in (core, torch):
        p = t.tensor(start, requires_grad=True)
        opt = getattr(t.optim, name)([p], **next(o for n, o in CASES.values() if n == name))
        for _ in range(30):
            opt.zero_grad()
            ((p * p.conj()).real.sum() + (p * p).imag.sum() * 0.3).backward()
            opt.step()
        ends.append((p.detach().numpy(), opt.state_dict()["state"]))
    np.testing.assert_allclose(ends[0][0], ends[1][0], rtol=1e-7)
    for k, values in ends[1][1].items():
        for key, value in values.items():
            np.testing.assert_allclose(ends[0][1][k][key].numpy(), value.numpy(), rtol=1e-6, atol=1e-12)


def test_sparse_adam_goes_with_sparse_gradients() -> None:
    ends = []
    for t in (core, torch):
        rng = np.random.default_rng(0)
        table = t.nn.Embedding(10, 3, sparse=t is torch)
        with t.no_grad():
            table.weight.copy_(t.tensor(rng.normal(size=(10, 3)).astype("f")))
        opt = t.optim.SparseAdam(list(table.parameters()), lr=0.05)
        for _ in range(60):
            opt.zero_grad()
            ((table(t.tensor(rng.integers(0, 10, 4))) - 1) ** 4).sum().backward()
            opt.step()
        ends.append((table.weight.detach().numpy(), opt.state_dict()))
    np.testing.assert_allclose(ends[0][0], ends[1][0], rtol=1e-5, atol=1e-6)
    assert ends[0][1]["param_groups"] == ends[1][1]["param_groups"]
    mine, theirs = (e[1]["state"][0] for e in ends)
    assert list(mine) == list(theirs)
    assert mine["step"] == theirs["step"] == 60


def _two(t: Any) -> Any:
    return t.tensor([1.0, 2.0])


WRONG: dict[str, Any] = {f"{name} {options}": (name, options) for name, many in {
    "Adadelta": [{"lr": -1.0}, {"rho": 1.5}, {"eps": -1.0}, {"weight_decay": -1.0}, {"lr": _two}],
    "Adagrad": [{"lr": -1.0}, {"lr_decay": -1.0}, {"weight_decay": -1.0}, {"initial_accumulator_value": -1.0},
                {"eps": -1.0}, {"fused": True, "foreach": True}, {"fused": True, "differentiable": True}],
    "Adam": [{"lr": -1.0}, {"lr": lambda t: t.tensor(1.0), "foreach": True}, {"betas": (1.0, 0.9)}, {"betas": (0.9,)},
             {"fused": True, "differentiable": True}, {"capturable": True}, {"differentiable": True},
             {"differentiable": True, "foreach": True}],
    "Adamax": [{"eps": -1.0}, {"betas": (0.9, 1.0)}, {"weight_decay": -1.0}, {"capturable": True}],
    "ASGD": [{"lr": -1.0}, {"weight_decay": -1.0}],
    "NAdam": [{"eps": -1.0}, {"betas": (0.9, 1.0)}, {"weight_decay": -1.0}, {"momentum_decay": -1.0}],
    "RAdam": [{"lr": -1.0}, {"eps": -1.0}, {"betas": (-0.1, 1.0)}, {"weight_decay": -1.0}],
    "RMSprop": [{"lr": -1.0}, {"eps": -1.0}, {"momentum": -1.0}, {"weight_decay": -1.0}, {"alpha": -1.0}],
    "Rprop": [{"lr": -1.0}, {"etas": (1.5, 1.2)}, {"etas": (0.5, 0.9)}],
    "SGD": [{"fused": True, "differentiable": True}, {"nesterov": True}],
    "SparseAdam": [{"lr": 0.0}, {"eps": 0.0}, {"betas": (1.0, 0.9)}],
    "Adafactor": [{"lr": -1.0}, {"lr": _two}, {"beta2_decay": 1.0}, {"eps": (-1.0, 1.0)}, {"eps": (None, -1.0)},
                  {"d": 0.5}, {"weight_decay": -1.0}],
    "Muon": [{"lr": -1.0}, {"momentum": -1.0}, {"weight_decay": -1.0}, {"adjust_lr_fn": "x"}, {"ns_steps": 100},
             {"ns_coefficients": (1, 2)}],
    "LBFGS": [{"lr": -1.0}, {"line_search_fn": "x"}],
}.items() for options in many}  # fmt: skip


@pytest.mark.parametrize("case", WRONG, ids=lambda case: re.sub(r" at 0x\w+", "", case))  # the same in every process
def test_a_wrong_setting_raises_the_same(case: str) -> None:
    name, options = WRONG[case]
    texts = []
    for t in (core, torch):
        p = t.ones(2, 2, requires_grad=True)
        p.grad = t.ones(2, 2)

        def closure(p: Any = p) -> Any:
            return (p**2).sum()

        with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is compared
            getattr(t.optim, name)([p], **{k: v(t) if callable(v) else v for k, v in options.items()}).step(closure)
        text = str(caught.value).split("\n")[0].replace("torch.", "core.").split(": ['cuda'")[0]
        texts.append((type(caught.value).__name__, text))
    assert texts[0] == texts[1]


def test_shapes_that_do_not_fit_raise_the_same() -> None:
    texts = []
    for t in (core, torch):
        found = []
        for wrong in (
            lambda t=t: t.optim.Muon([t.ones(2, requires_grad=True)]),
            lambda t=t: t.optim.LBFGS([{"params": [t.ones(2)]}, {"params": [t.ones(1)]}]),
            lambda t=t: t.optim.swa_utils.get_ema_multi_avg_fn(2.0),
            lambda t=t: t.optim.swa_utils.AveragedModel(t.nn.Linear(1, 1), avg_fn=max, multi_avg_fn=max),
            lambda t=t: t.optim.swa_utils.SWALR(t.optim.SGD([t.ones(1)]), 0.1, anneal_strategy="x"),
            lambda t=t: t.optim.swa_utils.SWALR(t.optim.SGD([t.ones(1)]), 0.1, anneal_epochs=-1),
            lambda t=t: t.optim.swa_utils.SWALR(t.optim.SGD([t.ones(1)]), [0.1, 0.2]),
        ):
            with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is compared
                wrong()
            found.append((type(caught.value).__name__, str(caught.value).replace("torch.", "core.")))
        texts.append(found)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("way", ["plain", "ema", "swa", "ema one", "buffers"])
def test_an_averaged_model_has_the_same_average(way: str) -> None:
    ends = []
    for t in (core, torch):
        u = t.optim.swa_utils
        rng = np.random.default_rng(0)
        model = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4), t.nn.Linear(4, 2))
        with t.no_grad():
            for p in model.parameters():
                p.copy_(t.tensor(rng.normal(size=tuple(p.shape)).astype("f")))
        options = {"plain": {}, "ema": {"multi_avg_fn": u.get_ema_multi_avg_fn(0.9)},
                   "swa": {"multi_avg_fn": u.get_swa_multi_avg_fn()}, "ema one": {"avg_fn": u.get_ema_avg_fn(0.7)},
                   "buffers": {"use_buffers": True, "multi_avg_fn": u.get_ema_multi_avg_fn(0.9)}}[way]  # fmt: skip
        average = u.AveragedModel(model, **options)
        opt = t.optim.SGD(model.parameters(), lr=0.1)
        schedule = u.SWALR(opt, swa_lr=0.05, anneal_epochs=3)
        data = [t.tensor(rng.normal(size=(8, 3)).astype("f")) for _ in range(6)]
        rates = []
        for x in data:
            opt.zero_grad()
            (model(x) ** 2).mean().backward()
            opt.step()
            schedule.step()
            rates.append(schedule.get_last_lr()[0])
            average.update_parameters(model)
        u.update_bn(data, average)
        ends.append(({k: v.numpy() for k, v in average.state_dict().items()}, average(data[0]).detach().numpy(), rates))
    assert list(ends[0][0]) == list(ends[1][0])
    for k, v in ends[1][0].items():
        np.testing.assert_allclose(ends[0][0][k], v, rtol=1e-5, atol=1e-6, err_msg=k)
    np.testing.assert_allclose(ends[0][1], ends[1][1], rtol=1e-4, atol=1e-5)
    assert ends[0][2] == pytest.approx(ends[1][2], rel=1e-12)


def test_every_public_name_is_there() -> None:
    for mine, theirs in ((core.optim, torch.optim), (core.optim.lr_scheduler, torch.optim.lr_scheduler),
                         (core.optim.swa_utils, torch.optim.swa_utils)):  # fmt: skip
        assert not [n for n in theirs.__all__ if not hasattr(mine, n)]


CYCLES: dict[str, dict[str, Any]] = {
    "triangular": {"step_size_up": 7},
    "triangular2": {"step_size_up": 5, "step_size_down": 11, "mode": "triangular2"},
    "exp_range": {"step_size_up": 6, "mode": "exp_range", "gamma": 0.99},
    "own": {"step_size_up": 6, "scale_fn": lambda x: 0.9**x, "scale_mode": "iterations"},
    "still": {"step_size_up": 6, "cycle_momentum": False},
}


@pytest.mark.parametrize("family", ["SGD", "AdamW"])
@pytest.mark.parametrize("name", CYCLES)
def test_cycles_have_the_same_curve_and_state(name: str, family: str) -> None:
    found = []
    for t in (core, torch):
        a, b = t.ones(1, requires_grad=True), t.ones(1, requires_grad=True)
        options = {"momentum": 0.9} if family == "SGD" else {}
        opt = getattr(t.optim, family)([{"params": [a], "lr": 0.3}, {"params": [b]}], lr=0.05, **options)
        schedule = t.optim.lr_scheduler.CyclicLR(opt, [0.01, 0.02], [0.1, 0.3], **CYCLES[name])
        curve = []
        for step in range(200):
            opt.step()
            schedule.step()
            curve.append([*schedule.get_last_lr(), *[(g.get("momentum"), g.get("betas")) for g in opt.param_groups]])
            if step == 90:
                state = schedule.state_dict()
                schedule = t.optim.lr_scheduler.CyclicLR(opt, [0.01, 0.02], [0.1, 0.3], **CYCLES[name])
                schedule.load_state_dict(state)
        found.append((curve, schedule.state_dict()))
    assert found[0] == found[1]


def test_warnings_are_not_raised_by_torch_alone() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = core.ones(1, requires_grad=True)
        opt = core.optim.SGD([p], lr=0.1, momentum=0.9)
        schedule = core.optim.lr_scheduler.CyclicLR(opt, 0.01, 0.1)
        opt.step()
        schedule.step()
