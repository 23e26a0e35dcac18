"""What is wrong with a cell, each thing in one sentence that names the line: small functions over a trace."""

from __future__ import annotations

import importlib
import pkgutil

from ..recorder.cell_trace import Leaf, Trace
from .finding import Found
from .nonfinite import NOT_FINITE
from .order import in_order

for _file in pkgutil.iter_modules(__path__):  # each registers its rules
    importlib.import_module(f".{_file.name}", __name__)

ORDER = in_order()
WEIGHT = {"error": 0, "warning": 1, "note": 2}


def diagnose(trace: Trace) -> list[Found]:
    """All findings, the gravest first."""
    explained: set[Leaf] = set()
    found = [f for look in ORDER for f in look(trace, explained)]
    # an error that only trips over a NaN comes after the op that made it
    trips = trace.error is not None and NOT_FINITE.search(trace.error.detail or trace.error.message) is not None
    trips = trips and any(f.kind == "nan" for f in found)
    return sorted(found, key=lambda f: (WEIGHT[f.severity], trips and f.kind == "error"))


__all__ = ["Found", "diagnose"]
