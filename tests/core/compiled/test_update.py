"""The optimizer's step within `compile_step`: one call of C a group, and the same weights, states and versions."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
from __future__ import annotations

import pytest

import core
from core import native, nn
from core.compiled import step as step_module
from core.compiled import variant

needs_c = pytest.mark.skipif(native.module is None, reason="needs the C extension")
MADE = {
    "SGD": lambda p: core.optim.SGD(p, lr=0.05),
    "Nesterov": lambda p: core.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda p: core.optim.Adam(p, lr=1e-2, weight_decay=0.1),
    "AMSGrad, maximize": lambda p: core.optim.AdamW(p, lr=1e-2, amsgrad=True, maximize=True),
    "lr as a tensor": lambda p: core.optim.Adam(p, lr=core.tensor(1e-2)),
    "RMSprop": lambda p: core.optim.RMSprop(p, lr=1e-3, momentum=0.9, centered=True),
    "NAdam": lambda p: core.optim.NAdam(p, lr=1e-3),
    "Rprop": lambda p: core.optim.Rprop(p, lr=1e-3),
    "Adadelta": lambda p: core.optim.Adadelta(p),
    "ASGD": lambda p: core.optim.ASGD(p, lr=1e-2),
    "RAdam": lambda p: core.optim.RAdam(p, lr=1e-2),
    "Adafactor": lambda p: core.optim.Adafactor(p, lr=1e-2),
}


@pytest.fixture(autouse=True)
def whatever_it_costs(monkeypatch):
    monkeypatch.setattr(variant, "_GAIN", float("inf"))


def weights():
    core.manual_seed(2)
    return [core.randn(3, 5, requires_grad=True), core.randn(7, requires_grad=True)]


def graded(params, n):
    core.manual_seed(n)
    for p in params:
        p.grad = core.randn(*p.shape)


def held(optimizer):
    return [v for s in optimizer.state_dict()["state"].values() for v in s.values()]


def same(a, b):
    return all(bool((x == y).all()) if isinstance(x, core.Tensor) else x == y for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", MADE)
def test_the_same_bits_as_the_step(name):
    a, b = weights(), weights()
    oa, ob = MADE[name](a), MADE[name](b)
    made = step_module.CompiledStep(None, None, oa)
    for n in range(5):
        graded(a, n)
        graded(b, n)
        if n == 3:
            for o in (oa, ob):
                o.param_groups[0]["lr"] = o.param_groups[0]["lr"] * 0.5
                o.load_state_dict(o.state_dict())
        made._update()
        ob.step()
        assert same(a, b)
        assert same(held(oa), held(ob))
        assert [p._version for p in a] == [p._version for p in b]


@needs_c
def test_it_is_one_call_of_c(monkeypatch):
    a = weights()
    o = MADE["Adam"](a)
    made = step_module.CompiledStep(None, None, o)
    graded(a, 0)
    o.step()
    monkeypatch.setattr(type(o), "_group_step", None)
    made._update()
    assert o.state[a[0]]["step"].item() == 2


@pytest.mark.parametrize("odd", ["a counter", "a missing gradient", "a transposed state", "one counter for two"])
def test_parameters_that_are_not_alike(odd):
    a, b = weights(), weights()
    oa, ob = MADE["Adam"](a), MADE["Adam"](b)
    made = step_module.CompiledStep(None, None, oa)
    for n in range(4):
        for params, o in ((a, oa), (b, ob)):
            graded(params, n)
            first, second = (o.state[p] for p in params)
            if odd == "a counter" and n == 1:
                first["step"] = core.tensor(5.0)
            elif odd == "a missing gradient" and n == 2:
                params[1].grad = None
            elif odd == "a transposed state" and n == 1:
                first["exp_avg"] = first["exp_avg"].T.contiguous().T
            elif odd == "one counter for two" and n == 1:
                first["step"] = second["step"]
        made._update()
        ob.step()
        assert same(a, b)
        assert same(held(oa), held(ob))


def test_hooks_schedules_and_subclasses_are_served():
    a = weights()
    o = MADE["Adam"](a)
    made = step_module.CompiledStep(None, None, o)
    schedule = core.optim.lr_scheduler.StepLR(o, 1)
    graded(a, 0)
    made._update()
    schedule.step()
    heard: list[object] = []
    handle = o.register_step_post_hook(lambda *args: heard.append(args))
    made._update()
    assert len(heard) == 1
    handle.remove()
    made._update()
    assert len(heard) == 1

    class Own(core.optim.Adam):
        def step(self, closure=None):
            heard.append(self)
            return super().step(closure)

    step_module.CompiledStep(None, None, Own(a))._update()
    assert len(heard) == 2


def test_a_write_is_noted():
    a = weights()
    made = step_module.CompiledStep(None, None, MADE["SGD"](a))
    y = (a[0] * a[0]).sum()
    graded(a, 0)
    made._update()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@needs_c
def test_what_is_given_to_c_is_looked_at():
    m, params = native.module, weights()
    assert m.count_together(params, {}, "step") is None
    with pytest.raises(TypeError):
        m.count_together(tuple(params), {}, "step")
    update = m.updates["sgd_step", "f"]
    with pytest.raises(TypeError):
        m.step_tensors(update, (1.0,) * 3, params, {}, ("a",), ("op", None))
    with pytest.raises(TypeError):
        m.step_tensors(update, (1.0,), params, {}, (), ("op", None))
    assert not m.step_tensors(update, (1.0,) * 3, params, {}, (), ("op", None))  # no gradients
    assert not m.step_tensors(update, (1.0,) * 3, [1], {}, (), ("op", None))


class Dropping(nn.Module):
    """Two masks, one of whole channels."""

    def forward(self, x):
        y = nn.functional.dropout(core.tanh(x), 0.3, self.training)
        return nn.functional.dropout2d(y * x, 0.5, self.training) + x


@pytest.mark.parametrize("again", [False, True])
def test_dropout_draws_what_eager_draws(again):
    m = Dropping()
    f = core.compile(m, check=3)
    for n in range(9):
        found = []
        for function in (f, m):
            core.manual_seed(n)
            x = core.linspace(-1, 1, 24).reshape(1, 2, 3, 4).requires_grad_()
            y = function(x)
            (g,) = core.autograd.grad((y * y).sum(), x, create_graph=again)
            (h,) = core.autograd.grad((g * g).sum(), x) if again else (g,)
            found.append((y, g, h, core.rand(2)))
        for a, b in zip(*found, strict=True):
            assert core.allclose(a, b, atol=1e-5), n
    assert [v.state for v in f.explain().variants] == ["compiled"], f.explain()


def test_dropout_in_a_step_and_with_the_numbers_of_another_generator():
    def model():
        core.manual_seed(3)
        return nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 3))

    a, b = model(), model()
    oa, ob = MADE["Adam"](a.parameters()), MADE["Adam"](b.parameters())
    step = core.compile_step(a, nn.CrossEntropyLoss(), oa, check=3)
    x, y = core.randn(8, 6), core.randint(0, 3, (8,))
    for n in range(10):
        kind = "torch" if n == 7 else "philox"
        core.manual_seed(n, kind=kind)
        found = step(x, y)
        after = core.rand(1).item()
        core.manual_seed(n, kind=kind)
        ob.zero_grad()
        wanted = nn.functional.cross_entropy(b(x), y)
        wanted.backward()
        ob.step()
        assert found.item() == pytest.approx(wanted.item(), rel=1e-4), n
        assert core.rand(1).item() == after
    core.manual_seed(0, kind="philox")
    states = [v.state for v in step.explain().variants]
    assert states == ["compiled", "refused"], step.explain()


def test_sines_of_what_is_far():
    f = core.compile(lambda x: core.sin(x) + core.cos(x * 2), check=3)
    x = core.linspace(-40, 40, 5000)
    for n in range(6):
        f(x)
        x[n * 700] = 3e7 if n < 5 else float("inf")
    wide = x.double()
    found, wanted = f(x), core.sin(wide) + core.cos(wide * 2)
    assert core.allclose(found.double(), wanted, atol=3e-6, equal_nan=True)
    assert [v.state for v in f.explain().variants] == ["compiled"]


@needs_c
def test_what_a_recording_held_is_given_back():
    f = core.compile(lambda x: core.exp(core.sin(core.tanh(x) * x) + x).sum(), check=3)
    f(core.randn(1 << 20))
    assert f.explain().variants[0].memory[0] > 20 << 20
    assert native.module.memory_stats()["cached_bytes"] < 8 << 20


def test_loops_that_fit_after_others_were_joined_are_one():
    def divergence(mean, log, mean2, log2):
        return (0.5 * (log2 - log + ((core.exp(log) + (mean - mean2) ** 2) / core.exp(log2)) - 1)).sum(-1)

    f = core.compile(divergence, check=3)
    f(*[core.randn(8, 16) for _ in range(4)])
    assert f.explain().variants[0].forward.loops == 1
