"""Whole programs on core and on PyTorch, from one source and one seed: every loss of the first steps, and the times.

``pytest -s tests/parity/test_whole_programs.py`` prints both times of each program.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import core

from ..programs import NAMES, load

# Where fewer than 20 steps are compared, PyTorch departs as far from itself with another number of threads.
STEPS = {"gan_gradient_penalty": 15}


@pytest.fixture(autouse=True)
def torchs_numbers(monkeypatch: Any) -> None:
    """The seeds that the programs set give PyTorch's numbers."""
    monkeypatch.setattr(core, "manual_seed", partial(core.manual_seed, kind="torch"))
    monkeypatch.setattr(core, "Generator", partial(core.Generator, kind="torch"))


@pytest.mark.parametrize("name", NAMES)
def test_every_loss(name: str, capsys: Any) -> None:
    steps = STEPS.get(name, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, of its nested tensors
        theirs, their_time = timed(load(name, "torch").losses, steps)
    mine, my_time = timed(load(name, "core").losses, steps)
    with capsys.disabled():
        print(f"\n{name:24s} core {my_time:7.2f} ms a step, PyTorch {their_time:7.2f} ms, {my_time / their_time:.2f}")
    assert len(mine) == steps
    np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-6)


def timed(losses: Callable[[int], list[float]], steps: int) -> tuple[list[float], float]:
    """The losses, and milliseconds a step after a first call that warms up."""
    losses(2)
    start = time.perf_counter()
    values = losses(steps)
    return values, (time.perf_counter() - start) / steps * 1e3
