"""Changes that are made once more each time a method is called, although a flag says that they were made."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.sources import Function, called, sources

ADDS = {"add_", "mul_", "sub_", "div_", "addmm_"}
DONE = re.compile(r"(^|_)(merged|folded|fused|applied|scaled|normali[sz]ed|initiali[sz]ed|done|attached)$", re.I)


@rule(588)
def done_again(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``self.weight += delta`` and ``self.merged = True`` in a method that does not ask whether it was merged."""
    for source in sources(trace):
        for method in (n for n in source.nodes if isinstance(n, Function)):
            flag = next(filter(None, map(_flag, method.body)), None)
            if flag is None or any(isinstance(n, ast.Attribute) and n.attr == flag and isinstance(n.ctx, ast.Load)
                                   for n in ast.walk(method)):  # fmt: skip
                continue
            added = next((s for s in method.body if _adds(s)), None)
            calls = [n for s in sources(trace) for n in (ast.walk(s.program) if not s.name else s.nodes)
                     if called(n) == method.name]  # fmt: skip
            if added is None or not calls:
                continue
            line, col, place = source.place(added)
            message = capital(
                f"{place} changes the weights each time {method.name}() is called (`{ast.unparse(added)}`): it sets "
                f"{flag} and does not look at it, so a second call does it once more."
            )
            return [Found("alias", "warning", line, col, message, f"Begin with: if self.{flag}: return.")]
    return []


def _flag(statement: ast.stmt) -> str | None:
    """Return the attribute by which a statement says that something is done."""
    if not isinstance(statement, ast.Assign) or getattr(statement.value, "value", None) is not True:
        return None
    names = [t.attr for t in statement.targets if isinstance(t, ast.Attribute)]
    return next((name for name in names if DONE.search(name)), None)


def _adds(statement: ast.stmt) -> bool:
    """Whether a statement changes weights of an object by what it adds or multiplies."""
    if isinstance(statement, ast.AugAssign):
        return "weight" in ast.unparse(statement.target) or "bias" in ast.unparse(statement.target)
    value = statement.value if isinstance(statement, ast.Expr) else None
    return called(value) in ADDS and "weight" in ast.unparse(value) if value is not None else False
