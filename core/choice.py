"""`explain`: which kernel serves an op for given arguments, and why the others declined."""

from __future__ import annotations

import difflib
from typing import Any, NamedTuple

from . import backends, op as declarations
from .dispatch import promote
from .op import Elementwise, Operation
from .tensor import Tensor


class Candidate(NamedTuple):
    """A kernel that could serve: `reason` says why it declined, None where it accepts."""

    kernel: str
    backend: str
    reason: str | None


class Explanation(NamedTuple):
    """The answer of `explain`; it prints as a sentence for every candidate."""

    op: str
    kind: str
    candidates: tuple[Candidate, ...]

    @property
    def runs(self) -> Candidate:
        """The candidate that runs: the first that accepts."""
        return next(c for c in self.candidates if c.reason is None)

    def __str__(self) -> str:
        lines = [f"{self.op} of {self.kind} runs {self.runs.kernel} ({self.runs.backend})"]
        for c in self.candidates:
            if c is not self.runs:
                why = "accepts too, but stands later" if c.reason is None else f"declined: {c.reason}"
                lines.append(f"  {c.kernel} ({c.backend}) {why}")
        return "\n".join(lines)

    __repr__ = __str__


def explain(name: str, *args: Any, **params: Any) -> Explanation:
    """Say which kernel serves the op `name` for these arguments, and why the others declined. Nothing is computed.

    Parameters the op has defaults for may be left out. *Raises*: ValueError for an op that is not declared.

    >>> import core
    >>> core.explain("tanh", core.tensor([0.5], dtype=core.float16)).runs.backend
    'NumPy'
    """
    op = declarations.table.get(name) or getattr(declarations.functions.get(name), "op", None)
    if op is None:
        close = difflib.get_close_matches(name, declarations.table, n=3)
        raise ValueError(f"explain: no op named {name!r}" + (f"; did you mean {', '.join(close)}?" if close else ""))
    if isinstance(op, Elementwise):
        n = len(op.inputs)
        kind, _ = promote(op, tuple(args[:n]))
        return Explanation(name, str(kind), _candidates(op.program.name, op.program, kind, (), {}))
    assert isinstance(op, Operation)
    tensors = [a for a in args if a is None or isinstance(a, Tensor)]
    while len(tensors) < len(op.inputs) and not op.variadic:
        tensors.append(None)
    first = next((t for t in tensors if t is not None), None)
    if first is None:
        raise TypeError(f"explain({name!r}, ...) needs the op's tensors: {', '.join(op.inputs)}")
    positional = [a for a in args if not (a is None or isinstance(a, Tensor))]
    known = {**op.params, **dict(zip(op.params, positional, strict=False)), **params}
    arrays = tuple(None if t is None else t._a for t in tensors)
    return Explanation(name, str(first._kind), _candidates(name, None, first._kind, arrays, known))


def _candidates(name: str, program: Any, kind: Any, arrays: tuple[Any, ...], params: dict[str, Any]) -> tuple[Candidate, ...]:
    return tuple(Candidate(*row) for row in backends.explain(name, program, kind, arrays, params))
