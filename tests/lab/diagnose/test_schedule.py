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


PLATEAU = """
y = acc = val_acc = loss = val_loss = 0.5
scores, out = {{"acc": 0.5, "loss": 0.5}}, torch.zeros(3)
sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt{mode})
for _ in range(2):
    opt.zero_grad()
    F.cross_entropy(net(x), labels).backward()
    opt.step()
    {before}
    sched.step({figure})
"""


@pytest.mark.parametrize(("mode", "before", "figure", "told"), [
    ("", "", "val_acc", "max"),
    (", 'min'", "", "acc", "max"),
    (", mode='min'", "", "scores['acc']", "max"),
    ("", "", "metrics=val_acc", "max"),
    ("", "f = (out == 0).float().mean().item()", "f", "max"),
    ("", "", "(out == 0).float().mean()", "max"),
    ("", "score = val_acc / 2", "score", "max"),
    (", mode='max'", "", "val_loss", "min"),
    (", 'max'", "", "scores['loss']", "min"),
    ("", "", "val_loss", None),
    (", 'max'", "", "val_acc", None),
    ("", "", "1 - val_acc", None),
    ("", "", "-val_acc", None),
    ("", "score = 1 - val_acc", "score", None),
    ("", "", "y", None),  # nobody can tell
    ("", "", "loss * acc", None),
    ("", "", "(out != 0).float().mean()", None),
    ("", "", "(out == 0).sum()", None),  # a count of what may be wrong
    (", mode=('m' + 'ax')", "", "val_loss", None),
])  # fmt: skip
def test_a_plateau_of_a_figure(cell: Any, space: Space, mode: str, before: str, figure: str, told: str | None) -> None:
    found = cell(START + PLATEAU.format(mode=mode, before=before, figure=figure), space).findings
    remedies = [f.remedy for f in found if f.kind == "learning-rate"]
    assert remedies == ([] if told is None else [f"Make it with mode={told!r}."])
