"""Schedulers: who steps them, and how soon the learning rate is gone."""

from __future__ import annotations

from typing import Any

import pytest

Space = dict[str, Any]
START = """
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
"""


def said(cell: Any, space: Space, text: str) -> list[str]:
    return [f.message for f in cell(START + text, space).findings if f.kind == "learning-rate"]


@pytest.mark.parametrize("stepped", [True, False])
def test_a_scheduler_that_its_class_steps(cell: Any, space: Space, stepped: bool) -> None:
    found = said(cell, space, f"""
class Training:
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=30)
for _ in range(4):
    opt.zero_grad()
    F.cross_entropy(net(x), labels).backward()
    opt.step()
    {"Training.sched.step()" if stepped else ""}
""")  # fmt: skip
    assert found == (
        [] if stepped else ["Line 5 makes sched, a StepLR, and nothing steps it: the learning rate stays 0.1."]
    )


def each_batch(epochs: int, batches: int, factor: float) -> str:
    return f"""
sched = torch.optim.lr_scheduler.ExponentialLR(opt, {factor})
for _ in range({epochs}):
    for _ in range({batches}):
        opt.zero_grad()
        F.cross_entropy(net(x), labels).backward()
        opt.step()
        sched.step()
"""


# gone is what has become a fiftieth: after 6 halvings, two thirds of the steps being early
@pytest.mark.parametrize(("epochs", "batches", "factor", "told"), [
    (2, 4, 1e-3, True),  # eight steps are the fewest that are looked at
    (7, 1, 1e-3, False),
    (3, 3, 0.5, True),
    (2, 4, 0.5, False),  # most of the training had a learning rate
    (4, 10, 0.99, False),
])  # fmt: skip
def test_a_schedule_that_is_over_too_early(
    cell: Any, space: Space, epochs: int, batches: int, factor: float, told: bool
) -> None:
    found = said(cell, space, each_batch(epochs, batches, factor))
    assert sum("for every batch" in f for f in found) == told
