"""What the store knows of the same kernel elsewhere: at other shapes, in other dtypes, on other devices of the vendor.

It is where a search begins, never an answer: everything that wins has been measured here. Another GPU's best copied
blindly keeps 70 % of the optimum within a vendor, 44 % across vendors, and 5 % at worst, so trials of another vendor's
devices are left out; only their winners are tried.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import calls, lookup
from .problem import Problem
from .store import Store
from .strategy import History
from .table import Table

FIRST = 5  # winners of elsewhere that are tried before anything else
_HISTORIES, _LEAST = 3, 8  # of so many problems, those with so many right trials
_FARTHEST = 6.0  # powers of two by which the sizes may differ in all
_MAKERS = {
    "AMD": r"\bamd\b|radeon|instinct|epyc|ryzen|\bgfx\d|\bmi\d+|\bw\d{4}\b|\brx\b",
    "NVIDIA": r"nvidia|geforce|titan|quadro|tesla|\b[rg]tx|\bsm \d|\b[ahlv]\d{2,3}0?\b|\ba\d{4}\b",
    "Intel": r"intel|xeon|\bcore\b",
    "Arm": r"\barm\b|neoverse|cortex|graviton|\bapple\b",
}


def vendor(device: str) -> str:
    """Who made a device, by its name; the name itself where that does not say.

    >>> vendor("NVIDIA GeForce RTX 3090"), vendor("RTX_2080_Ti"), vendor("AMD Radeon PRO W7800"), vendor("MI250X")
    ('NVIDIA', 'NVIDIA', 'AMD', 'AMD')
    """
    text = device.replace("_", " ")
    return next((maker for maker, sign in _MAKERS.items() if re.search(sign, text, re.IGNORECASE)), device)


def first_rows(problem: Problem, table: Table, store: Store | None) -> list[int]:
    """Return what won elsewhere, the nearest first."""
    if store is None or problem.measure.estimate:
        return []
    near = []
    for entry in lookup.entries(store.folder / lookup.FILE):
        if _same_kernel(problem, entry):
            row = table.find({**problem.space.default, **entry["config"]})
            if row is not None:
                near.append((_far(problem, entry), row))
    return list(dict.fromkeys(row for _, row in sorted(near)))[:FIRST]


def histories(problem: Problem, table: Table, store: Store | None) -> list[History]:
    """Trials of elsewhere, of the nearest problems that have enough."""
    if store is None or problem.measure.estimate:
        return []
    here = vendor(problem.device)
    near = [
        key for key in store.tuned()
        if key != problem.key and _same_kernel(problem, key) and calls.how(key["mode"]) == calls.how(problem.mode)
        and vendor(key["device"]) == here and lookup.distance(problem.shape, tuple(key["shape"])) <= _FARTHEST
    ]  # fmt: skip
    found: list[History] = []
    for key in sorted(near, key=lambda key: _far(problem, key)):
        values: dict[int, float] = {}
        for trial in store.trials(key):
            row = table.find({**problem.space.default, **trial["config"]})
            value = trial.get("ratio") or trial.get("median_ms")
            if row is not None and trial["status"] != "timeout":
                values[row] = float(value) if trial["status"] == "correct" and value else math.inf
        if sum(map(math.isfinite, values.values())) >= _LEAST:
            found.append(History(np.array(list(values)), np.array(list(values.values()))))
        if len(found) == _HISTORIES:
            break
    return found


def _same_kernel(problem: Problem, other: Mapping[str, Any]) -> bool:
    return _stem(other["kernel"]) == _stem(problem.kernel) and len(other["shape"]) == len(problem.shape)


def _stem(kernel: str) -> str:
    """Return the name without its dtype: matmul of matmul_f32."""
    return re.sub(r"_(b?f|i|u)\d+$", "", kernel)


def _far(problem: Problem, other: Mapping[str, Any]) -> float:
    apart = lookup.distance(problem.shape, tuple(other["shape"]))
    device = 0.0 if other["device"] == problem.device else 20.0
    foreign = 100.0 * (vendor(other["device"]) != vendor(problem.device))
    return foreign + device + 10.0 * (other["dtype"] != problem.dtype) + apart
