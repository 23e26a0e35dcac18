"""What is wrong with a cell, each thing in one sentence that names the line: small functions over a trace."""

from __future__ import annotations

import importlib
import pkgutil

from ..recorder.cell_trace import Leaf, Trace
from .finding import Found
from .order import in_order
from .values.nonfinite import NOT_FINITE

for _file in pkgutil.walk_packages(__path__, f"{__name__}."):  # each registers its rules
    importlib.import_module(_file.name)

ORDER = in_order()
WEIGHT = {"error": 0, "warning": 1, "reads": 2, "note": 3}


def diagnose(trace: Trace) -> list[Found]:
    """All findings, the gravest first; a rule that fails is told last, and takes none of the others with it."""
    explained: set[Leaf] = set()
    found: list[Found] = []
    failed: list[Found] = []
    for look in ORDER:
        try:
            found += look(trace, explained)
        except Exception as error:
            message = f"One of our rules failed ({look.__name__}: {type(error).__name__}: {error}); the others looked."
            failed.append(Found("recorder", "note", None, None, message, ""))
    found = [f for f in found if not any(_said(f, other) for other in found)]
    # an error that only trips over a NaN comes after the op that made it
    trips = trace.error is not None and NOT_FINITE.search(trace.error.detail or trace.error.message) is not None
    trips = trips and any(f.kind == "nan" for f in found)
    return [*sorted(found, key=lambda f: (_weight(f), trips and f.kind == "error")), *failed]


def _weight(found: Found) -> int:
    """How early a finding is told: what reads like a mistake comes before notes of slowness and manners."""
    return WEIGHT["reads" if found.reads else found.severity]


def _said(note: Found, other: Found) -> bool:
    """Whether another finding says of the same line what a note says, and more gravely."""
    same = (note.kind, note.line) == (other.kind, other.line) and note.line is not None
    return same and note.severity == "note" != other.severity and not note.reads


__all__ = ["Found", "diagnose"]
