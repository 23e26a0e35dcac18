"""What `core.compile` made of the functions that a cell called: loops, kernels, refusals, memory. Recorded they run
eagerly, op by op, which is said; what is told of them is how they run elsewhere."""

from __future__ import annotations

import os
import re
from typing import Any

from core.base import source
from widgets.compiled_functions import CompiledFunction, CompiledPiece
from widgets.figures import shorten, size_text, time_text

from ..recorder.cell_trace import Trace
from ..recorder.user_files import shown_name

NOTHING = "nothing of it is compiled so far: a call outside of a recorded cell records it"
_STATES = {"building": "its loops are being built", "trying": "its loops are being tried beside the function itself"}


def compiled_functions(trace: Trace) -> list[CompiledFunction]:
    """Return what became of each function of `core.compile` that the cell called."""
    return [_told(trace, function) for function in trace.compiled.values()]


def _told(trace: Trace, function: Any) -> CompiledFunction:
    explained = function.explain()
    found = CompiledFunction(explained.name)
    if explained.refused:
        _refused(trace, found, explained.refused)
    elif not explained.variants:
        found.said.append(NOTHING)
    for variant in explained.variants:
        if variant.state in ("refused", "eager"):
            _refused(trace, found, variant.why)
            continue
        found.said.append(_figures(variant) if variant.state == "compiled" else _STATES[variant.state])
        parts = (("forward", variant.forward), ("backward", variant.backward))
        for name, program in parts if variant.backward is not None else (("", variant.forward),):
            for what, lines in program.pieces() if program is not None else ():
                own, elsewhere = _places(trace, lines)
                found.pieces.append(CompiledPiece(name, what, own[0] if own else None, ", ".join(elsewhere)))
    return found


def _figures(variant: Any) -> str:
    """Return time and memory beside the function itself."""
    eager, compiled = variant.times
    before, after = variant.memory
    return (f"compiled: {time_text(1e3 * compiled)}, eagerly {time_text(1e3 * eager)}; {size_text(after)} while it "
            f"runs, where the results of all ops take {size_text(before)}")  # fmt: skip


def _refused(trace: Trace, found: CompiledFunction, why: str) -> None:
    """Note why something runs eagerly, with its line where that is the cell's."""
    own = {os.path.basename(name): offset for name, offset in _own(trace).items()}
    line = None
    for name, number in re.findall(r"(In \[\d+\]|\S+) line (\d+)", why):
        if name in own:
            line = int(number) + own[name]
            why = why.replace(f"{name} line {number}", f"line {line}")
    found.said.append(f"stays eager: {shorten(why, 300)}")
    found.pieces.append(CompiledPiece("", f"eager: {why}", line, ""))


def _own(trace: Trace) -> dict[str, int]:
    """Return what the cell's own files are called, and how far their lines are from the cell's."""
    return {source.name_of_file(file) or file: offset for file, offset in trace.files.items()}


def _places(trace: Trace, lines: list[Any]) -> tuple[list[int], list[str]]:
    """Return which lines of the cell a piece is made of, and the lines elsewhere as people read them."""
    mine = _own(trace)
    own = sorted({line.number + mine[line.file] for line in lines if line.file in mine})
    files: dict[str, set[int]] = {}
    for line in lines:
        if line.file not in mine:
            files.setdefault(shown_name(line.file), set()).add(line.number)
    said = [f"{file} line {min(n)}" + (f" to {max(n)}" if len(n) > 1 else "") for file, n in files.items()]
    if len(own) > 1:
        said.insert(0, f"lines {own[0]} to {own[-1]}")
    return own, said
