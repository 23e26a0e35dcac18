"""NaN that came in a step that was not recorded: what is known of it, in place of what it has spoilt since."""

from __future__ import annotations

import ast

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital, verb, where

REMEDY = "Leave such rows out, or fill them with a finite value: torch.nan_to_num(x)."
AGAIN = "Run the cell with %%autograd, which records every step, and it names the line."


def first_unseen(trace: Trace, spoilt: str, leaves: list[Leaf]) -> Found | None:
    """Return the finding of the step in which the loss was not finite first; None where that was recorded."""
    unseen = trace.unseen
    if unseen is None:
        return None
    when = f"in step {unseen.step:,}, the first whose loss is not finite and which was not recorded"
    line, col, place = where(trace, unseen.place)
    if not unseen.data:
        message = capital(
            f"{place} goes back from a loss that is not finite {when}: the variables that hold data were finite then"
            f"{spoilt}."
        )
        return Found("nan", "error", line, col, message, AGAIN, [], leaves)
    name, nan, infinite, total = unseen.data[0]
    what = f"{nan or infinite:,} of {total:,} values"
    held = f"{name} held {'NaN' if nan else 'infinity'} ({what}) {when}"
    written, read = _places(trace, name.partition("[")[0], line)
    others = [other for other, *_ in unseen.data[1:4]]
    also = f" ({', '.join(others)} {verb(others, 'does', 'do')} so as well)" if others else ""
    if written is not None:
        message = f"Line {written} writes what is not finite: {held}{also}{spoilt}."
        return Found("nan", "error", written, None, message, REMEDY, [], leaves)
    at = read if read is not None else line
    message = capital(f"{'line ' + str(at) if at else place} reads data that are not finite: {held}{also}{spoilt}.")
    return Found("nan", "error", at, None if at != line else col, message, REMEDY, [], leaves)


def _places(trace: Trace, name: str, before: int | None) -> tuple[int | None, int | None]:
    """Return the last line up to one of the cell's that writes into a variable, and the first that reads it."""
    wrote = read = None
    for node in sorted((n for n in trace.nodes() if isinstance(n, ast.stmt | ast.Name)), key=lambda n: n.lineno):
        if before is not None and node.lineno > before:
            break
        if isinstance(node, ast.Assign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                inside = isinstance(target, ast.Subscript) or isinstance(node, ast.AugAssign)
                if inside and name in {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}:
                    wrote = node.lineno
        elif isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) and read is None:
            read = node.lineno
    return wrote, read
