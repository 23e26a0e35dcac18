"""`explain`: which kernel serves an op for given arguments, and why the others declined."""

from __future__ import annotations

import threading
import warnings
from typing import Any, NamedTuple

from .. import backends
from ..base.modes import no_grad
from ..declare import op as declarations
from ..declare.op import Elementwise, Op, Operation
from ..events import observe
from ..tensors.tensor import Tensor
from .operands import promote


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

    def __repr__(self) -> str:
        return str(self)


def explain(name: Any, *args: Any, **params: Any) -> Explanation:
    """Say which kernel serves the op `name` for these arguments, and why the others declined.

    `name` is that of a public function, or the function itself, called with its own arguments, or that of a declared
    op, whose parameters may be left out. The kernel is not run; only what leads to it is (a cast, say).

    Raises
    ------
    ValueError
        For a name that is neither.
    TypeError
        For arguments that are not the function's; for a `name` that is neither text nor a function.

    >>> import core
    >>> core.explain("sign", core.tensor([-1, 2])).runs.backend
    'NumPy'
    """
    if not isinstance(name, str):
        if not callable(name) or not hasattr(name, "__name__"):
            raise TypeError(f"explain: the name of an op is a str or its function, not {type(name).__name__}")
        name = name.__name__
    function, declared = declarations.functions.get(name), declarations.table.get(name)
    if declared is None:
        declared = next((op for op in declarations.table.values() if op.label == name), None)
    if function is None and declared is None:
        import difflib  # 1 ms of `import core`, and only a wrong name asks

        close = difflib.get_close_matches(name, {*declarations.functions, *declarations.table}, n=3)
        raise ValueError(f"explain: no op named {name!r}" + (f"; did you mean {', '.join(close)}?" if close else ""))
    if function is not None:
        watch = _Watch(name)
        try:
            with observe.observing(watch), no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function(*args, **params)
            if watch.error is not None:
                raise watch.error
        except _Found as found:
            return found.explanation
        except Exception:
            if declared is None and not watch.met:
                raise
        if watch.met:
            return next((e for e in watch.met if e.op not in _ON_THE_WAY), watch.met[0])
    if declared is None:
        raise ValueError(f"explain: {name} of these arguments runs no kernel")
    return _of_operation(declared, args, params) if isinstance(declared, Operation) else _of_map(declared, args)


class _Found(BaseException):
    """Leaves the function that is being explained before its kernel runs; no `except Exception` may hold it up."""

    def __init__(self, explanation: Explanation) -> None:
        self.explanation = explanation


class _Watch(observe.Observer):
    """Hears which op a public function comes to: the one of its name, else those it meets."""

    def __init__(self, name: str) -> None:
        self.name, self.thread = name, threading.get_ident()
        self.met: list[Explanation] = []
        self.error: Exception | None = None

    def failed(self, error: Exception) -> None:
        self.error = error

    def starting(self, op: Op, inputs: tuple[Any, ...], params: Any) -> None:
        if threading.get_ident() != self.thread:
            return
        if self.name in (op.name, op.label):
            raise _Found(of_op(op, inputs, params))
        self.met.append(of_op(op, inputs, params))


_ON_THE_WAY = {"cast", "to_copy", "view", "expand", "permute", "transpose", "contiguous"}


def of_op(op: Op, inputs: tuple[Any, ...], params: Any) -> Explanation:
    """`explain` for a declared op with all that it was given, as an observer hears it."""
    return _of_map(op, inputs) if isinstance(op, Elementwise) else _of_operation(op, inputs, params)


def _of_map(op: Any, args: tuple[Any, ...]) -> Explanation:
    if not any(isinstance(a, Tensor) for a in args):
        raise TypeError(f"explain({op.label!r}, ...) needs a Tensor among the op's inputs: {', '.join(op.inputs)}")
    kind, _ = promote(op, tuple(args[: len(op.inputs)]))
    return Explanation(op.label, str(kind), _candidates(op.program.name, op.program, kind, (), {}))


def _of_operation(op: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Explanation:
    tensors = [a for a in args if a is None or isinstance(a, Tensor)]
    while len(tensors) < len(op.inputs) and not op.variadic:
        tensors.append(None)
    first = next((t for t in tensors if t is not None), None)
    if first is None:
        raise TypeError(f"explain({op.name!r}, ...) needs the op's tensors: {', '.join(op.inputs)}")
    positional = [a for a in args if not (a is None or isinstance(a, Tensor))]
    known = {**op.params, **dict(zip(op.params, positional, strict=False)), **params}
    arrays = tuple(None if t is None else t._a for t in tensors)
    return Explanation(op.label, str(first._kind), _candidates(op.name, None, first._kind, arrays, known))


def _candidates(
    name: str, program: Any, kind: Any, arrays: tuple[Any, ...], params: dict[str, Any]
) -> tuple[Candidate, ...]:
    return tuple(Candidate(*row) for row in backends.explain(name, program, kind, arrays, params))
