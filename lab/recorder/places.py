"""What a sample of a cell found: which of the user's lines it stood on, in what, and for how long.

A sample is the frames of the cell's thread, innermost first. What runs there is told by the files that the frames
belong to: an op, a data loader, an import, the recorder itself, or Python of the user's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from inspect import CO_NEWLOCALS
from types import CodeType
from typing import Any

from core.base.source import is_ours

from .cell_trace import Sample, Spent, Trace
from .user_files import OURS, is_users

DEPTH = 32  # of the user's frames
USER, LIBRARY, OP, LOADER, IMPORT, RECORDER, PASSING, BETWEEN = range(8)
_LISTENS = tuple(OURS + folder + os.sep for folder in ("recorder", "adapters", "diagnose"))
_PASS_ON = {  # they call what the cell has called, around which they stand
    os.path.join(OURS, *path)
    for path in (
        ("recorder", "loaded_states.py"),
        ("recorder", "loader_waits.py"),
        ("adapters", "torch.py"),
        ("adapters", "torch_marks.py"),
    )
}
_RECORDING = os.path.join(OURS, "session", "recording.py")  # one inside of another, which waits meanwhile
_RUNS_AN_OP = os.path.join(OURS, "adapters", "ops.py")
_LOADERS = tuple(os.sep + os.path.join(library, "utils", "data") + os.sep for library in ("core", "torch"))


def kind_of(code: CodeType) -> int:
    """Return whose a code object is, by its file: one of the numbers from USER to BETWEEN."""
    name = code.co_filename
    if name.startswith(OURS):
        if name == _RUNS_AN_OP and code.co_name == "run":
            return OP
        if name == _RECORDING and code.co_name in ("start", "stop"):
            return RECORDER
        return PASSING if name in _PASS_ON else RECORDER if name.startswith(_LISTENS) else BETWEEN
    if any(part in name for part in _LOADERS):
        return LOADER
    if is_ours(name):
        return OP
    if name.startswith("<frozen importlib"):
        return IMPORT
    return USER if is_users(name) else LIBRARY


class Places:
    """Adds samples to a trace: `trace.samples` is what ran, `trace.spent` on which line of the cell."""

    def __init__(self, trace: Trace, boundary: CodeType | None = None) -> None:
        self.trace, self.boundary = trace, boundary
        self._kinds: dict[int, tuple[CodeType, int]] = {}  # held, so that no other code takes a number

    def _kind(self, code: CodeType) -> int:
        known = self._kinds.get(id(code))
        if known is None:
            kind = USER if code.co_filename in self.trace.files else kind_of(code)
            known = self._kinds[id(code)] = code, kind
        return known[1]

    def note(self, frames: Sequence[Any], own_ns: int, starved_ns: int, beat: int) -> None:
        """Add a sample: code, instruction, code, instruction, ...; `starved_ns` is what other programs had beside."""
        trace = self.trace
        trace.starved_ns += starved_ns
        files, line = trace.files, None
        for k in range(0, len(frames), 2):
            if frames[k].co_filename in files:
                line = frames[k], frames[k + 1]
                break
        spent = trace.spent.get(key := None if line is None else (id(line[0]), line[1]))
        if spent is None:
            spent = trace.spent[key] = Spent(line)
        spent.starved_ns += starved_ns
        if self._sampled(frames, own_ns, beat):
            spent.ns += own_ns
        else:
            spent.recorder_ns += own_ns

    def _sampled(self, frames: Sequence[Any], took: int, beat: int) -> bool:
        """Add what ran to the samples; return False where it was the recorder."""
        samples, files = self.trace.samples, self.trace.files
        kind, waits = "python", -1
        places: list[tuple[CodeType, int]] = []
        user = False
        for k in range(0, len(frames), 2):
            code = frames[k]
            what = self._kind(code)
            if what == RECORDER or (what == PASSING and k == 0):
                if not user and kind != "loader":
                    return False  # what listens, and what it calls itself
            elif what == LOADER:
                kind, waits = "loader", len(places)
            elif what == OP:
                if kind == "python" and not any(p[0].co_filename in files for p in places):
                    kind, places, user = "op", [], False  # what an op calls, such as Triton's interpreter, is the op
            elif what == IMPORT:
                samples.setdefault("import", Sample("import", ())).ns += took
                return True
            elif what <= LIBRARY:
                user = user or what == USER
                places.append((code, frames[k + 1]))
                if not code.co_flags & CO_NEWLOCALS or code is self.boundary or len(places) == DEPTH:
                    break
        if not places:
            return True
        key = kind, waits, *[(id(code), lasti) for code, lasti in places]
        found = samples.get(key)
        if found is None:
            found = samples[key] = Sample(kind, tuple(places), waits)
        found.ns += took
        if beat != found.beat:
            found.beat, found.beats = beat, found.beats + 1
        return True
