"""A measure whose times are made up, each process having its own: what a final must see through."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from triton_kernels.tune.measure import Built
from triton_kernels.tune.problem import Problem
from triton_kernels.tune.space import Space, Tunable


@dataclass
class Shifting:
    """Config ``{"A": k}`` takes `of[p][k]` ms in the process number p, the first of which is the search's; of those
    beyond the last as in the last. check_s, build_s : how long each check and each compilation takes."""

    folder: str
    of: tuple[tuple[float, ...], ...]
    check_s: float = 0.0
    build_s: float = 0.0
    kind: str = "made up"
    estimate: bool = False
    steady: bool = False
    apart: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)

    def open(self) -> dict[str, str]:
        path = Path(self.folder) / f"process-{os.getpid()}"
        self.number = len(list(Path(self.folder).glob("process-*")))
        path.touch()
        return {"device": "d"}

    def build(self, config: Any) -> Built:
        time.sleep(self.build_s)
        return Built(str(config), 1.0)

    def check(self, config: Any, seed: int = 0, odd: bool = False) -> float:
        time.sleep(self.check_s)
        return 0.0

    def _ms(self, config: Any) -> float:
        return self.of[min(self.number, len(self.of) - 1)][config["A"]]

    def pairs(self, config: Any, anchor: Any, count: int) -> tuple[list[float], list[float]]:
        return [self._ms(config)] * count, [] if anchor is None else [self._ms(anchor)] * count

    def rounds(self, configs: Any, count: int, seed: int) -> list[list[float]]:
        return [[self._ms(c)] * count for c in configs]


def problem(folder: Any, *of: tuple[float, ...], **options: Any) -> Problem:
    """Its problem, with as many configs as a process has times."""
    values = tuple(range(len(of[0])))
    measure = Shifting(str(folder), of, **options)
    return Problem("shifting", (1,), "float32", Space([Tunable("A", values, 0)]), measure, "", "d", "made up")
