"""Every optimizer and schedule goes on from a file, in both formats, as if it had not been interrupted."""

from __future__ import annotations

import inspect
import io

import numpy as np
import pytest

import core
from core.optim import lr_scheduler

OPTIMIZERS = [n for n, c in vars(core.optim).items() if inspect.isclass(c) and issubclass(c, core.optim.Optimizer)
              and c is not core.optim.Optimizer]  # fmt: skip
MORE = {
    "SGD": {"momentum": 0.9, "nesterov": True},
    "Adam": {"amsgrad": True},
    "RMSprop": {"momentum": 0.9, "centered": True},
}
SCHEDULES = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda k: 0.9**k),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda k: 0.9),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [1, 4]),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, 0.5, 4),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, 0.1, total_iters=5),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 7),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 5),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 2),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.1, 8),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.1, 2), lr_scheduler.ExponentialLR(o, 0.9)], [3]
    ),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.1, 2), lr_scheduler.ExponentialLR(o, 0.9)], o
    ),
}


def there_and_back(obj, format):
    f = io.BytesIO()
    core.save(obj, f, format=format)
    f.seek(0)
    return core.load(f)


def start(name: str, **settings):
    core.manual_seed(0)
    model = core.nn.Linear(3, 2, bias=name != "Muon")
    sparse = name == "SparseAdam"
    return model, None if sparse else getattr(core.optim, name)(model.parameters(), lr=0.05, **settings)


def steps(model, optimizer, schedule, which: range) -> list[float]:
    losses = []
    for k in which:

        def closure(k=k):
            optimizer.zero_grad()
            loss = (model(core.linspace(-1, 1, 12).reshape(4, 3) + k) - k).square().mean()
            loss.backward()
            return loss

        losses.append(optimizer.step(closure).item())
        if schedule is not None:
            schedule.step(*([losses[-1]] if isinstance(schedule, lr_scheduler.ReduceLROnPlateau) else []))
    return losses


@pytest.mark.parametrize("format", ["pt", "safetensors"])
@pytest.mark.parametrize("name", [n for n in OPTIMIZERS if n != "SparseAdam"])
def test_optimizers(name, format):
    whole = start(name, **MORE.get(name, {}))
    losses = steps(*whole, None, range(6))
    first, second = start(name, **MORE.get(name, {})), start(name, **MORE.get(name, {}))
    begun = steps(*first, None, range(3))
    state = there_and_back([part.state_dict() for part in first], format)
    for part, s in zip(second, state, strict=True):
        part.load_state_dict(s)
    assert begun + steps(*second, None, range(3, 6)) == losses
    for p, q in zip(whole[0].parameters(), second[0].parameters(), strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())


@pytest.mark.parametrize("format", ["pt", "safetensors"])
@pytest.mark.parametrize("name", [n for n in SCHEDULES if hasattr(lr_scheduler, n)])
@pytest.mark.filterwarnings("ignore:.*lr_scheduler.*")
def test_schedules(name, format):
    def all_three():
        model, optimizer = start("SGD", momentum=0.9)
        return model, optimizer, SCHEDULES[name](optimizer)

    losses = steps(*all_three(), range(8))
    first, second = all_three(), all_three()
    begun = steps(*first, range(4))
    state = there_and_back([part.state_dict() for part in first], format)
    for part, s in zip(second, state, strict=True):
        part.load_state_dict(s)
    assert begun + steps(*second, range(4, 8)) == losses


def test_no_schedule_is_left_out():
    known = {
        n for n, c in vars(lr_scheduler).items() if inspect.isclass(c) and n.endswith(("LR", "Restarts", "Plateau"))
    }
    assert known - {"LRScheduler", "_LRScheduler"} <= set(SCHEDULES)
