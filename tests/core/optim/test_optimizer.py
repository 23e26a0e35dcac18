"""Optimizers: steps, state, groups, hooks, and what observers and the graph hear of a step."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import core
from core import native, nn, optim
from core.events import observe

MAKERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "sgd momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: optim.Adam(p, lr=0.1),
    "adamw": lambda p: optim.AdamW(p, lr=0.1),
    "amsgrad": lambda p: optim.AdamW(p, lr=0.1, amsgrad=True),
}


class Listener(observe.Observer):
    """Notes the events of a step."""

    def __init__(self) -> None:
        self.ops: list[observe.OpEvent] = []
        self.updates: list[tuple[bool, list[Any]]] = []

    def op(self, event: observe.OpEvent) -> None:
        self.ops.append(event)

    def update(self, optimizer: Any, parameters: list[Any], before: bool) -> None:
        self.updates.append((before, [p.tolist() for p in parameters]))


def bowl(p: Any, opt: optim.Optimizer, steps: int) -> float:
    """Descend a bowl round (1, -2); the loss at the end."""
    target = core.tensor([1.0, -2.0], dtype=p.dtype, device=p.device)
    for _ in range(steps):
        opt.zero_grad()
        loss = ((p - target) ** 2).sum()
        loss.backward()
        opt.step()
    return float(loss.item())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", MAKERS)
def test_an_optimizer_finds_the_bottom(name: str, device: str) -> None:
    p = core.zeros(2, device=device, requires_grad=True)
    assert bowl(p, MAKERS[name]([p]), 150 if device == "cpu" else 60) < 1e-1


def test_a_step_of_sgd_by_hand() -> None:
    p = nn.Parameter(core.tensor([1.0], dtype=core.float64))
    opt = optim.SGD([p], lr=0.1, momentum=0.5, dampening=0.2, weight_decay=0.1)
    value, buffer = 1.0, None
    for g in (3.0, -1.0, 2.0):
        p.grad = core.tensor([g], dtype=core.float64)
        opt.step()
        g = g + 0.1 * value
        buffer = g if buffer is None else 0.5 * buffer + 0.8 * g
        value -= 0.1 * buffer
        assert p.item() == pytest.approx(value, rel=1e-14)
    assert opt.state[p]["momentum_buffer"].item() == pytest.approx(buffer)


def test_a_step_of_adamw_by_hand() -> None:
    p = nn.Parameter(core.tensor([1.0], dtype=core.float64))
    opt = optim.AdamW([p], lr=0.1, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.2)
    value = m = v = 0.0
    value = 1.0
    for t, g in enumerate((3.0, -1.0, 2.0), 1):
        p.grad = core.tensor([g], dtype=core.float64)
        opt.step()
        m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
        value = value * (1 - 0.02) - 0.1 * (m / (1 - 0.8**t)) / ((v / (1 - 0.9**t)) ** 0.5 + 1e-3)
        assert p.item() == pytest.approx(value, rel=1e-14)
    assert opt.state[p]["step"].item() == 3.0
    assert opt.state[p]["step"].dtype is core.float32


def test_parameters_without_a_gradient_are_left_alone() -> None:
    a, b = nn.Parameter(core.ones(1)), nn.Parameter(core.ones(1))
    opt = optim.AdamW([a, b], lr=0.1)
    for k in range(3):
        a.grad = core.ones(1)
        b.grad = core.ones(1) if k == 2 else None
        opt.step()
    assert (opt.state[a]["step"].item(), opt.state[b]["step"].item()) == (3.0, 1.0)
    assert b.item() == pytest.approx(0.9 - 0.001, abs=1e-6)


def test_dtypes_and_devices_may_be_mixed() -> None:
    dtypes = (core.float32, core.float64, core.float16, core.bfloat16)
    params = [core.ones(2, dtype=d, device=w, requires_grad=True) for d in dtypes for w in ("cpu", "cuda")]
    opt = optim.AdamW(params, lr=0.1, weight_decay=0.0)
    for p in params:
        p.grad = core.ones_like(p)
    opt.step()
    for p in params:
        np.testing.assert_allclose(p.detach().cpu().float().numpy(), 0.9, rtol=1e-2)


def test_a_step_is_one_op_of_its_own_phase_at_the_users_line() -> None:
    layer = nn.Linear(2, 3)
    opt = optim.AdamW(layer.parameters())
    layer(core.ones(1, 2)).sum().backward()
    before, listener = [p.tolist() for p in layer.parameters()], Listener()
    with observe.observing(listener):
        opt.step()
    (event,) = listener.ops
    assert (event.op, event.phase, event.node) == ("adamw_step", "update", None)
    assert (event.kernel, event.backend) == (
        ("adam_step_f32", "C") if native.available else ("adamw_step_reference", "NumPy")
    )
    assert event.stop_ns > event.start_ns
    assert event.inputs == (*layer.parameters(), *(p.grad for p in layer.parameters()))
    assert core.base.source.locate(*event.place).code == "opt.step()"
    after = [p.tolist() for p in layer.parameters()]
    assert listener.updates == [(True, before), (False, after)]
    assert observe.phase == "forward"


def test_every_kind_of_step_is_told_by_its_name() -> None:
    for make, name in ((MAKERS["sgd"], "sgd_step"), (MAKERS["adam"], "adam_step"), (MAKERS["amsgrad"], "adamw_step")):
        p = nn.Parameter(core.ones(1))
        p.grad = core.ones(1)
        opt, listener = make([p]), Listener()
        with observe.observing(listener):
            opt.step()
        assert [e.op for e in listener.ops] == [name]


def test_a_closure_belongs_to_the_forward_phase_and_not_to_the_update() -> None:
    p = nn.Parameter(core.ones(1))
    opt, listener = optim.SGD([p], lr=0.5), Listener()

    @core.no_grad()
    def train() -> Any:
        def closure() -> Any:
            opt.zero_grad()
            loss = (p * p).sum()
            loss.backward()
            listener.updates.append((None, []))  # type: ignore[arg-type]
            return loss

        return opt.step(closure)

    with observe.observing(listener):
        assert train().item() == 1.0
    assert p.item() == 0.0
    phases = [(e.op, e.phase) for e in listener.ops]
    assert phases[0] == ("mul", "forward")
    assert phases[-1] == ("sgd_step", "update")
    assert [before for before, _ in listener.updates] == [None, True, False]


def test_a_step_is_a_change_in_place_that_backward_notices() -> None:
    w = nn.Parameter(core.tensor([2.0]))
    opt = optim.SGD([w], lr=0.1)
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    opt.step()
    assert w._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        loss.backward()
    assert "sgd_step" in str(caught.value)
    assert "opt.step()" in str(caught.value)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_goes_on_alone(again: Any) -> None:
    p = nn.Parameter(core.zeros(2))
    opt = optim.AdamW([p], lr=0.1)
    bowl(p, opt, 5)
    other = again(opt)
    (q,) = other.param_groups[0]["params"]
    assert q is not p
    assert bowl(q, other, 5) == bowl(p, opt, 5)
    assert q.tolist() == p.tolist()


def test_a_saved_state_is_taken_up_again() -> None:
    p, q = nn.Parameter(core.zeros(2)), nn.Parameter(core.zeros(2))
    opt, other = optim.SGD([p], lr=0.05, momentum=0.9), optim.SGD([q], lr=7.0)
    bowl(p, opt, 5)
    with core.no_grad():
        q.copy_(p)
    other.load_state_dict(copy.deepcopy(opt.state_dict()))
    assert bowl(q, other, 5) == bowl(p, opt, 5)
    assert other.param_groups[0]["lr"] == 0.05
    narrow = optim.SGD([nn.Parameter(core.zeros(2, dtype=core.float16))], momentum=0.9)
    narrow.load_state_dict(opt.state_dict())
    assert next(iter(narrow.state.values()))["momentum_buffer"].dtype is core.float16


def test_groups_have_settings_of_their_own() -> None:
    a, b, c = (nn.Parameter(core.ones(1)) for _ in range(3))
    opt = optim.SGD([{"params": a}, {"params": [b], "lr": 1.0}], lr=0.1)
    opt.add_param_group({"params": c, "lr": 2.0})
    for p in (a, b, c):
        p.grad = core.ones(1)
    opt.step()
    assert [p.item() for p in (a, b, c)] == pytest.approx([0.9, 0.0, -1.0])
    assert [g["params"] for g in opt.state_dict()["param_groups"]] == [[0], [1], [2]]
    with pytest.raises(ValueError, match="more than one parameter group"):
        opt.add_param_group({"params": [a]})
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([a, a])


def test_parameters_may_have_names() -> None:
    layer = nn.Linear(1, 1)
    opt = optim.SGD(layer.named_parameters(), lr=0.1)
    assert opt.param_groups[0]["param_names"] == ["weight", "bias"]
    assert opt.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="with/without names"):
        opt.add_param_group({"params": [nn.Parameter(core.ones(1))]})


def test_a_rate_may_be_a_tensor() -> None:
    p = nn.Parameter(core.ones(1))
    opt = optim.SGD([p], lr=core.tensor(0.5))
    p.grad = core.ones(1)
    optim.lr_scheduler.ExponentialLR(opt, 0.5)
    opt.step()
    assert p.item() == 0.5
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        optim.SGD([p], lr=core.ones(2))


def test_hooks_stand_around_steps_saving_and_loading() -> None:
    p = nn.Parameter(core.ones(1))
    opt = optim.SGD([p], lr=0.1)
    log: list[str] = []
    handle = opt.register_step_pre_hook(lambda o, args, kwargs: log.append("before"))
    opt.register_step_post_hook(lambda o, args, kwargs: log.append("after"))
    opt.register_state_dict_post_hook(lambda o, state: state | {"note": 1})
    opt.register_load_state_dict_pre_hook(lambda o, state: log.append(f"note {state.pop('note')}"))
    opt.step()
    handle.remove()
    opt.step()
    opt.load_state_dict(opt.state_dict())
    assert log == ["before", "after", "after", "note 1"]


def test_an_optimizer_of_ones_own_is_an_update_too() -> None:
    class Signs(optim.SGD):
        def step(self, closure: Any = None) -> Any:
            for group in self.param_groups:
                for q in group["params"]:
                    q.grad = q.grad.sign()
            return super().step(closure)

    p = nn.Parameter(core.ones(1))
    p.grad = core.tensor([-9.0])
    opt, listener = Signs([p], lr=0.25), Listener()
    calls: list[int] = []
    opt.register_step_post_hook(lambda *_: calls.append(1))
    with observe.observing(listener):
        opt.step()
    assert p.item() == 1.25
    assert {e.phase for e in listener.ops} == {"update"}
    assert [before for before, _ in listener.updates] == [True, False]
    assert calls == [1]


def test_a_failing_step_leaves_the_phase_as_it_was() -> None:
    class Broken(optim.Optimizer):
        def step(self, closure: Any = None) -> Any:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        Broken([nn.Parameter(core.ones(1))], {}).step()
    assert observe.phase == "forward"
    with pytest.raises(NotImplementedError, match='missing the required "step" function'):
        optim.Optimizer([nn.Parameter(core.ones(1))], {}).step()


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adamax", "RMSprop", "NAdam", "Adadelta"])
def test_a_differentiable_step_has_the_gradient_of_its_formula(name: str) -> None:
    inputs = [core.tensor(v, dtype=core.float64, requires_grad=True) for v in ([1.0, -2.0], [0.3, 0.7], 0.1)]

    def after(start: Any, grad: Any, lr: Any) -> Any:
        p = start.clone()
        opt = getattr(optim, name)([p], lr=lr, differentiable=True, weight_decay=0.1)
        for k in (1, 2, 3):
            p.grad = grad * k
            opt.step()
        return p

    assert core.autograd.gradcheck(after, inputs)
    plain = core.nn.Parameter(inputs[0].detach().clone())
    opt = getattr(optim, name)([plain], lr=0.1, weight_decay=0.1)
    for k in (1, 2, 3):
        plain.grad = inputs[1].detach() * k
        opt.step()
    np.testing.assert_allclose(after(*inputs).detach().numpy(), plain.detach().numpy(), rtol=1e-13)


def test_what_a_step_cannot_do_is_said() -> None:
    p = nn.Parameter(core.ones(1))
    p.grad = core.ones(1)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        optim.SGD([p], differentiable=True).step()
    with pytest.raises(AssertionError, match="If capturable=True, params and state_steps must be on supported"):
        optim.Adam([p], capturable=True).step()
    with pytest.raises(AssertionError, match="_foreach ops don't support autograd"):
        optim.SGD([p], differentiable=True, foreach=True).step()
    with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
        optim.SGD([p], differentiable=True, fused=True)
    z = core.ones(2, dtype=core.complex64, requires_grad=True)
    z.grad = core.ones_like(z)
    with pytest.raises(RuntimeError, match="requires all the params to be floating point Tensors"):
        optim.Adam([z], fused=True).step()


def test_gradients_are_forgotten_or_zeroed() -> None:
    p = nn.Parameter(core.ones(1))
    p.grad = core.ones(1)
    opt = optim.SGD([p])
    opt.zero_grad(set_to_none=False)
    assert p.grad.item() == 0.0
    opt.zero_grad()
    assert p.grad is None
