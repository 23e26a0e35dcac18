"""Every optimizer: it descends on both devices and in half precision, its state survives, its step is one call a group."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest

import core
from core import native, nn, optim
from core.events import observe

MAKERS: dict[str, Any] = {
    "Adadelta": lambda p: optim.Adadelta(p, lr=20.0),
    "Adafactor": lambda p: optim.Adafactor(p, lr=0.1, eps=(None, 0.3)),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.5),
    "Adamax": lambda p: optim.Adamax(p, lr=0.1),
    "ASGD": lambda p: optim.ASGD(p, lr=0.1),
    "Muon": lambda p: optim.Muon(p, lr=0.05, weight_decay=0.0),
    "NAdam": lambda p: optim.NAdam(p, lr=0.1),
    "RAdam": lambda p: optim.RAdam(p, lr=0.1),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.05, momentum=0.5, centered=True),
    "Rprop": lambda p: optim.Rprop(p, lr=0.1),
    "SparseAdam": lambda p: optim.SparseAdam(p, lr=0.1),
}
TARGET = [[1.0, -2.0], [0.5, 2.0]]


def descend(p: Any, opt: optim.Optimizer, steps: int) -> float:
    target = core.tensor(TARGET, dtype=p.dtype, device=p.device)
    for _ in range(steps):
        opt.zero_grad()
        loss = ((p - target) ** 2).sum()
        loss.backward()
        opt.step()
    return float(loss.item())


@pytest.mark.parametrize("kind", ["cpu float32", "cpu bfloat16", "cuda float32", "cuda float16"])
@pytest.mark.parametrize("name", MAKERS)
def test_it_finds_the_bottom(name: str, kind: str) -> None:
    device, dtype = kind.split()
    p = core.zeros(2, 2, device=device, dtype=getattr(core, dtype), requires_grad=True)
    assert descend(p, MAKERS[name]([p]), 150 if device == "cpu" else 12) < (0.2 if device == "cpu" else 8.0)
    assert p.dtype is getattr(core, dtype)


@pytest.mark.parametrize("name", [*MAKERS, "LBFGS"])
def test_a_state_survives_saving_and_pickling(name: str) -> None:
    make = MAKERS.get(name, lambda p: optim.LBFGS(p, lr=0.1, max_iter=2))
    p = nn.Parameter(core.zeros(2, 2, dtype=core.float64))
    opt = make([p])

    def go(p: Any, opt: Any, steps: int) -> None:
        def closure() -> Any:
            opt.zero_grad()
            loss = ((p - core.tensor(TARGET, dtype=core.float64)) ** 4).sum()
            loss.backward()
            return loss

        for _ in range(steps):
            opt.step(closure)

    go(p, opt, 3)
    file = io.BytesIO()
    pickle.dump((p, opt.state_dict()), file)
    file.seek(0)
    q, state = pickle.load(file)
    other = make([q])
    other.load_state_dict(state)
    both = copy.deepcopy((p, opt))
    for these in ((p, opt), (q, other), both):
        go(*these, 3)
    # loading makes the numbers of ASGD's and NAdam's states, float32, of the parameter's dtype
    np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-6 if name in ("ASGD", "NAdam") else 0)
    assert np.array_equal(p.detach().numpy(), both[0].detach().numpy())


@pytest.mark.parametrize("name", [n for n in MAKERS if n not in ("Adafactor", "Muon", "SparseAdam")])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_group_is_one_call(name: str, device: str) -> None:
    class Listener(observe.Observer):
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def op(self, event: observe.OpEvent) -> None:
            self.seen.append(event)

    params = [core.ones(n, device=device, requires_grad=True) for n in (3, 5, 7)]
    for p in params:
        p.grad = core.ones_like(p)
    opt, listener = MAKERS[name](params), Listener()
    with observe.observing(listener):
        opt.step()
    (event,) = listener.seen
    assert event.phase == "update"
    assert event.op == f"{name.lower()}_step"
    assert len(event.inputs) == 6
    assert event.backend == ("Triton" if device == "cuda" else "C" if native.available else "NumPy")


def test_parameters_of_different_steps_go_apart() -> None:
    a, b = nn.Parameter(core.ones(1)), nn.Parameter(core.ones(1))
    opt = optim.NAdam([a, b], lr=0.1)
    a.grad = core.ones(1)
    opt.step()
    b.grad = core.ones(1)
    opt.step()
    assert [opt.state[p]["step"].item() for p in (a, b)] == [2.0, 1.0]
    assert opt.state[a]["mu_product"].item() != opt.state[b]["mu_product"].item()


def test_numbers_in_old_states_become_tensors() -> None:
    p = nn.Parameter(core.ones(1))
    opt = optim.ASGD([p], lr=0.1)
    p.grad = core.ones(1)
    opt.step()
    state = opt.state_dict()
    state["state"][0] |= {"step": 1, "eta": 0.05, "mu": 1}
    opt.load_state_dict(state)
    opt.step()
    assert opt.state[p]["step"].item() == 2.0
    assert p.item() == pytest.approx((1.0 * (1 - 1e-5) - 0.1) * (1 - 5e-6) - 0.05, rel=1e-6)


def test_weights_are_swapped_in_and_out_again() -> None:
    mine, other = nn.Parameter(core.ones(2)), nn.Parameter(core.ones(2))
    opt = optim.Adam([mine], lr=0.5)
    mine.grad = other.grad = core.ones(2)
    opt.step()
    saved = copy.deepcopy(opt.state_dict())
    with optim.swap_in_optimizer_params_and_state(opt, {"w": other}, saved):
        opt.step()
        assert opt.param_groups[0]["params"] == [other]
    assert opt.param_groups[0]["params"][0] is mine
    assert (opt.state[mine]["step"].item(), saved["state"][0]["step"].item()) == (1.0, 2.0)
    assert mine.tolist() == pytest.approx(other.tolist())
    swapped = optim.swap_in_optimizer_params_and_state(opt, {"a": mine, "b": other}, saved)
    with pytest.raises(ValueError, match="the optimizer holds 1 parameters, got 2"), swapped:
        pass


def test_hooks_of_all_optimizers() -> None:
    from core.optim import optimizer

    log: list[str] = []
    before, after = optimizer.register_optimizer_step_pre_hook, optimizer.register_optimizer_step_post_hook
    handles = [
        before(lambda o, *_: log.append(f"before {type(o).__name__}")),
        after(lambda o, *_: log.append(f"after {type(o).__name__}")),
    ]
    opt = optim.RMSprop([nn.Parameter(core.ones(1))])
    opt.step()
    for handle in handles:
        handle.remove()
    opt.step()
    assert log == ["before RMSprop", "after RMSprop"]


def test_an_average_of_models_learns_and_a_line_is_annealed() -> None:
    model = nn.Linear(2, 1)
    ema = optim.swa_utils.AveragedModel(model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.5))
    ema.update_parameters(model)
    before = model.weight.detach().clone()
    with core.no_grad():
        model.weight.add_(1.0)
    ema.update_parameters(model)
    np.testing.assert_allclose(ema.module.weight.detach().numpy(), before.numpy() + 0.5, rtol=1e-6)
    opt = optim.SGD(model.parameters(), lr=1.0)
    schedule = optim.swa_utils.SWALR(opt, swa_lr=0.2, anneal_epochs=4, anneal_strategy="linear")
    rates = []
    for _ in range(6):
        opt.step()
        schedule.step()
        rates += schedule.get_last_lr()
    assert rates == pytest.approx([0.8, 0.6, 0.4, 0.2, 0.2, 0.2])


def test_adafactor_steps_a_number() -> None:
    w = core.tensor(2.0, dtype=core.float64, requires_grad=True)
    opt = core.optim.Adafactor([w], lr=0.1)
    for _ in range(2):
        opt.zero_grad()
        (w * w).backward()
        opt.step()
    assert opt.state[w]["variance"].shape == ()
    assert w.item() == pytest.approx(1.6283645645592522)  # as PyTorch


def test_sparse_adam_takes_no_complex_parameters() -> None:
    with pytest.raises(ValueError, match="SparseAdam does not support complex parameters"):
        core.optim.SparseAdam([core.zeros(2, 3, dtype=core.complex64, requires_grad=True)])
