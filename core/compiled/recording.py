"""The tape of one call that is to be replayed: the call is a real one, and nothing of it is put back."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autograd.gradients import grad
from ..events import observe
from ..export.ir import ExportError, Line
from ..export.tape import Tape, line_of
from ..ops.creation import ones_like
from ..rng.generator import states
from ..tensors.tensor import Tensor
from . import draws


class Refusal(Exception):
    """Why a function is not compiled, with the line."""


def at_line(what: str, place: Any) -> Refusal:
    """Return the refusal of what a line does."""
    line = line_of(place)
    return Refusal(f"{short(line)} {what}" if line is not None else f"the function {what}")


def short(line: Line) -> str:
    """Return a line with its file's name alone."""
    return str(line._replace(file=line.file.replace("\\", "/").rpartition("/")[2]))


_RAISING = frozenset(("floor_divide", "remainder", "fmod", "pow_tensor"))
"""Ops that raise, or go another way, for some whole numbers in a tensor; those of `_CHECKED` for some of any kind."""
_CHECKED = frozenset(("one_hot_rows", "binary_entropy"))


def _bytes_there() -> int:
    """Return how much memory the machine has; 0 where it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 0


MOST_BYTES = max(1 << 30, min(1 << 32, _bytes_there() // 8))
"""What the results of one call may take: all of them live as long as it is recorded."""
_BY_VALUES = frozenset(("prod", "cumprod", "det", "slogdet", "svd", "svdvals", "eigh", "eig", "qr"))


class Recording(Tape):
    """What one call did, forward and, where gradients are wanted, backward.

    cotangents : the gradients of the results that the backward part begins with, one for each of `rooted`.
    rooted : the numbers of those results that have a gradient.
    bytes : what the results of all ops take together.
    draws : how many random numbers it sets aside; the offsets of its ops are counted from the first.
    sources : the tensors whose gradients the backward part gives, with the number of the gradient's value (None where
        there is none).
    """

    def __init__(self) -> None:
        super().__init__()
        self.cotangents: list[Tensor] = []
        self.rooted: list[int] = []
        self.sources: list[tuple[Tensor, int | None]] = []
        self.why: Refusal | None = None
        self.bytes = 0
        self.draws = 0
        self._from = draws.standing()

    def record(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any],
               inputs: Sequence[Tensor]) -> Any:  # fmt: skip
        """Run the function and hear it; its result, whatever is refused."""
        for t in inputs:
            self.register(t, self.new_value(t), outside=True)
        drawn = [state._a.copy() for _, state in states()]
        with observe.observing(self):
            result = function(*args, **kwargs)
        if self.error is None and any(not np.array_equal(a, b._a) for a, (_, b) in zip(drawn, states(), strict=True)):
            others = any(not np.array_equal(a, b._a) for a, (_, b) in zip(drawn[1:], states()[1:], strict=True))
            at = None if self._from is None else (self._from[0], self._from[1] + self.draws)
            if others or not self.draws or at != draws.standing():
                self._refuse(Refusal("the function draws random numbers"))
        return result

    def drawing(self, event: observe.OpEvent, params: dict[str, Any]) -> dict[str, Any]:
        """Return what dropout is given, its numbers counted from the first that the call draws; refuse any other."""
        if event.declared.name != "dropout" or self._from is None or params["seed"] != self._from[0]:
            return super().drawing(event, params)
        first = params["offset"] - self._from[1]
        if first < 0:
            return super().drawing(event, params)
        self.draws = max(self.draws, first + event.inputs[0]._a.size)
        return {**params, "seed": 0, "offset": first}

    def gradients(self, results: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        """Record the gradients of the results with respect to all that they depend on."""
        rooted = [k for k, t in enumerate(results) if t._requires_grad]
        given = [*inputs, *(o.tensor for o in self.outside)]
        sources = list({id(t): t for t in given if t._requires_grad}.values())
        if not rooted or not sources:
            return
        roots = [results[k] for k in rooted]
        cotangents = [ones_like(t.detach()) for t in roots]
        with observe.observing(self):
            found = grad(roots, sources, cotangents, retain_graph=True, allow_unused=True)
        self.rooted, self.cotangents = rooted, cotangents
        self.sources = [(t, None if g is None else self.value(g, None)) for t, g in zip(sources, found, strict=True)]

    def ends(self, results: Sequence[Tensor]) -> None:
        """Note the results, and what is written. Raise Refusal for what is not replayed."""
        if self.error is None and self.why is None:
            try:
                for t in results:
                    self.value(t, None)
                    if self._known[id(t)].memory.outside:
                        raise Refusal("a result is an argument, a weight, or a view of one (return a clone)")
                if len({id(self._known[id(t)].memory) for t in results}) < len(results):
                    raise Refusal("one result is a view of another (return a clone)")
                self.finish(results)
                self.outputs += [k for _, k in self.sources if k is not None]
            except (ExportError, Refusal) as error:
                self.error = self.error or error
        if self.why is not None:
            raise self.why
        if self.error is not None:
            raise self.error if isinstance(self.error, Refusal) else Refusal(_said(self.error))

    def _refuse(self, why: Refusal) -> None:
        self.why = self.why or why

    def kept(self, t: Tensor) -> Any:
        """Return the tensor's own values: a replay reads them where they lie."""
        return t._a

    def _is_fixed(self, t: Tensor, place: Any) -> bool:
        """Return False: a weight may be another at the next call."""
        return False

    # -- what a replay would not do ------------------------------------------------------------------------------------

    def op(self, event: observe.OpEvent) -> None:
        """Note an op; refuse one that raises for some values, of which its loop knows nothing."""
        name = None if event.declared is None else event.declared.name
        if self._mine() and (name in _RAISING or name in _CHECKED):
            whole = all(t._kind.dtype.category < 2 for t in event.outputs)
            if name in _CHECKED or (whole and isinstance(event.inputs[1], Tensor)):
                self._refuse(at_line(f"runs {event.op}, which raises for some values", event.place))
        super().op(event)  # type: ignore[misc]
        if not getattr(event.declared, "view", False):
            self.bytes += sum(t._a.nbytes for t in event.outputs)
        if self._mine() and self.bytes > MOST_BYTES:
            self._let_go()

    def _let_go(self) -> None:
        """Refuse the call, hear no more of it, and keep nothing alive."""
        self._refuse(Refusal(f"the results of a call take more than {MOST_BYTES >> 20} MiB, all kept meanwhile"))
        self._thread = 0
        for held in (self.entries, self.outside, self.memories, self._known, self._by_memory, self._shadowed):
            held.clear()

    def gradient_ops(self, event: observe.GradientOpsEvent) -> None:
        """Note the ops of a gradient; refuse one that depends on values."""
        if self._mine() and event.op.name in _BY_VALUES:
            self._refuse(Refusal(f"the gradient of {event.op.name} depends on values"))
        super().gradient_ops(event)  # type: ignore[misc]

    def gradient(self, event: observe.GradientEvent) -> None:
        """Refuse a backward pass that fills `.grad`."""
        if event.accumulated and self._mine():
            self._refuse(Refusal("the function runs backward() (core.compile_step compiles a whole step)"))

    def update(self, optimizer: Any, parameters: list[Any], before: bool) -> None:
        """Refuse an optimizer's step."""
        if self._mine():
            self._refuse(Refusal("the function makes an optimizer's step (core.compile_step compiles a whole step)"))

    def op_failed(self, op: str, inputs: tuple[Any, ...], place: Any, error: BaseException) -> None:
        """Refuse what raises, though the function may go on."""
        if self._mine():
            self._refuse(at_line(f"raises {type(error).__name__}", place))

    def returned(self, event: observe.ReturnEvent) -> None:
        """Refuse what comes back from NumPy."""
        if self._mine():
            self._refuse(at_line("takes values from NumPy", event.place))


def _said(error: Exception) -> str:
    """Return an exporter's reason without its name."""
    said = str(error).removeprefix("cannot export this: ").partition("\n  remedy:")[0]
    folder = re.match(r"(\S*[/\\])[^/\\]* line \d", said)
    return said.removeprefix(folder[1]) if folder else said
