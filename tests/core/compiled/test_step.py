"""`core.compile_step`: the same losses, weights and state as the steps written out."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
from __future__ import annotations

import pytest

import core
from core import nn
from core.compiled import variant

OPTIMIZERS = {
    "SGD": lambda p: core.optim.SGD(p, lr=0.05, momentum=0.9),
    "AdamW": lambda p: core.optim.AdamW(p, lr=1e-2),
    "RMSprop": lambda p: core.optim.RMSprop(p, lr=1e-3),
    "two groups": lambda p: core.optim.Adam([{"params": (q := list(p))[:2], "lr": 1e-3}, {"params": q[2:]}]),
}


@pytest.fixture(autouse=True)
def whatever_it_costs(monkeypatch):
    monkeypatch.setattr(variant, "_GAIN", float("inf"))


def model():
    core.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.BatchNorm1d(16), nn.Linear(16, 3))


def written_out(m, loss, optimizer, *batch):
    optimizer.zero_grad()
    found = loss(m(batch[0]), batch[1])
    found.backward()
    optimizer.step()
    return found.detach()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_same_training(name):
    a, b = model(), model()
    oa, ob = OPTIMIZERS[name](a.parameters()), OPTIMIZERS[name](b.parameters())
    step = core.compile_step(a, nn.CrossEntropyLoss(), oa, check=3)
    schedules = [core.optim.lr_scheduler.StepLR(o, 4) for o in (oa, ob)]
    core.manual_seed(0)
    for n in range(14):
        x, y = core.randn(8, 6), core.randint(0, 3, (8,))
        found, wanted = step(x, y), written_out(b, nn.CrossEntropyLoss(), ob, x, y)
        assert found.item() == pytest.approx(wanted.item(), rel=1e-4), n
        assert not found.requires_grad
        for s in schedules:
            s.step()
    for p, q in zip(a.state_dict().values(), b.state_dict().values(), strict=True):
        assert core.allclose(p, q, atol=1e-4)
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        assert core.allclose(p.grad, q.grad, atol=1e-4)
    assert step.explain().variants[0].state == "compiled", step.explain()


def test_a_model_that_gives_its_loss_and_a_batch_of_another_size():
    a, b = model(), model()
    oa, ob = OPTIMIZERS["AdamW"](a.parameters()), OPTIMIZERS["AdamW"](b.parameters())

    def loss(x, y):
        return nn.functional.cross_entropy(a(x), y)

    step = core.compile_step(loss, None, oa, check=3)
    for n in range(12):
        x, y = core.randn(8 + n % 2, 6), core.randint(0, 3, (8 + n % 2,))
        assert step(x, y).item() == pytest.approx(
            written_out(b, nn.functional.cross_entropy, ob, x, y).item(), rel=1e-4
        )
    assert [v.state for v in step.explain().variants] == ["compiled", "compiled"]


def test_frozen_parameters_and_changed_modes():
    a, b = model(), model()
    oa, ob = OPTIMIZERS["SGD"](a.parameters()), OPTIMIZERS["SGD"](b.parameters())
    step = core.compile_step(a, nn.CrossEntropyLoss(), oa, check=3)
    for n in range(18):
        if n == 6:
            for m in (a, b):
                m[0].requires_grad_(False)
        if n == 12:
            for m in (a, b):
                m.eval()
        x, y = core.randn(8, 6), core.randint(0, 3, (8,))
        assert step(x, y).item() == pytest.approx(written_out(b, nn.CrossEntropyLoss(), ob, x, y).item(), rel=1e-4)
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        assert core.allclose(p, q, atol=1e-5)


def test_what_cannot_be_replayed_runs_as_it_is():
    a, b = (nn.Sequential(nn.Linear(6, 6), nn.RReLU(), nn.Linear(6, 3)) for _ in range(2))
    b.load_state_dict(a.state_dict())
    oa, ob = OPTIMIZERS["SGD"](a.parameters()), OPTIMIZERS["SGD"](b.parameters())
    step = core.compile_step(a, nn.CrossEntropyLoss(), oa)
    for n in range(5):
        x, y = core.randn(8, 6), core.randint(0, 3, (8,))
        core.manual_seed(n)
        found = step(x, y)
        core.manual_seed(n)
        assert found.item() == written_out(b, nn.CrossEntropyLoss(), ob, x, y).item()
    assert "draws random numbers" in str(step.explain())


def test_hooks_that_run_after_a_gradient():
    core.ones(2, requires_grad=True).register_post_accumulate_grad_hook(lambda p: None)  # another tensor's
    a = model()
    step = core.compile_step(a, nn.CrossEntropyLoss(), OPTIMIZERS["SGD"](a.parameters()), check=3)
    x, y = core.randn(8, 6), core.randint(0, 3, (8,))
    for _ in range(6):
        step(x, y)
    assert [v.state for v in step.explain().variants] == ["compiled"]
    heard: list[core.Tensor] = []
    handle = a[0].weight.register_post_accumulate_grad_hook(heard.append)
    for _ in range(3):
        step(x, y)
    assert len(heard) == 3
    assert "hooks that run after" in str(step.explain())
    handle.remove()
    calls = step.explain().eager_calls
    step(x, y)
    assert step.explain().eager_calls == calls
    assert len(heard) == 3


def test_what_is_no_optimizer():
    with pytest.raises(TypeError, match="a model, a loss and an optimizer"):
        core.compile_step(model(), nn.CrossEntropyLoss(), [1])
