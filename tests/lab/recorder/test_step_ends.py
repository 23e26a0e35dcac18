"""When a step ends, on the programs that people write: optimizers in turn, several of them, loops within loops."""

from __future__ import annotations

import importlib
import os
from itertools import islice
from typing import Any

import pytest

import core
from lab.recorder.step_ends import PASSES, StepEnds
from lab.recorder.step_marks import Marks
from tests import programs

STEPS = 5
NAMES = sorted(f[:-3] for f in os.listdir(os.path.dirname(programs.__file__)) if f[0] not in "_.")


class Ends:
    """Counts the steps' ends alone."""

    def __init__(self) -> None:
        self.ends, self.passes = StepEnds(), 0

    def stepped(self, marks: Any, optimizer: Any) -> None:
        self.passes = 0
        self.ends.stepped(id(optimizer.param_groups[0]["params"][0]))

    def passing(self, marks: Any, loss: Any) -> None:
        self.passes += 1

    def passed(self) -> None:
        self.ends.passed(self.passes)

    def turned(self, module: Any) -> None: ...


def counted(steps: Any) -> int:
    ends = Ends()
    marks = Marks(ends)
    marks.start()
    try:
        steps()
    finally:
        marks.stop()
    return ends.ends.count


@pytest.mark.parametrize("name", NAMES)
def test_the_steps_of_a_program_are_counted(name: str) -> None:
    program = importlib.import_module(f"tests.programs.{name}")
    core.manual_seed(0)
    made: list[float] = []
    assert counted(lambda: made.extend(islice(program.losses(STEPS), STEPS))) == len(made) > 0


def key(*names: str) -> StepEnds:
    ends = StepEnds()
    for name in "".join(names):
        ends.stepped(name)
    return ends


def test_a_critic_that_steps_more_often_ends_no_step() -> None:
    assert key("cccg" * 6).count == 6


def test_two_optimizers_in_turn_make_one_step() -> None:
    assert key("ab" * 9).count == 9


def test_a_loop_after_another_is_counted_on() -> None:
    ends = key("a" * 20, "b" * 30)
    assert (ends.count, ends.loops) == (50, 2)


def test_gradients_that_add_up_end_no_step() -> None:
    ends = StepEnds()
    for _ in range(4):
        assert not any(ends.passed(k) for k in range(1, PASSES + 1))
        assert ends.stepped("a")
    assert ends.count == 4


def test_passes_without_an_optimizer_are_steps_after_a_while() -> None:
    ends = StepEnds()
    assert [ends.passed(k) for k in range(1, 41)] == [False] * PASSES + [True] * (40 - PASSES)
    assert ends.count == 40
