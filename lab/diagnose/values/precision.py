"""``%%autograd --precision``: each op runs once more in float64; the first line that loses half its digits is named.

Beside every tensor stands its companion: what it would be had all ops behind it been computed in float64. Parameters
and what a step has changed begin anew with the values that they have, so that a training run, whose steps make the
smallest difference grow, is compared step by step. An op loses digits where its result is off by more than half of what
its type holds though what it was given was not: numbers that cancel, a sum in half precision, a table of times. Beside
that it is noted where a sum stands still, what is added being lost each time, and which gradients fall below what their
type can hold.
"""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from core.base import modes
from core.declare.op import Elementwise, Operation
from core.events import observe
from core.tensors.tensor import Tensor, from_array
from widgets.figures import number

from ...recorder.cell_trace import Chain, Trace
from ...recorder.tensor_stats import on_host
from ..finding import Found, capital, where
from ..graph.gradient_check import call_of

GAINED = 64.0  # times the error of what it was given, from which an op has lost the digits itself
RUNS = 8  # of one sum, from which it is looked at
LARGEST = 1 << 22  # elements beyond which an op is not run again
ELEMENTS, STILL = 0.5, 0.25  # of a sum: of its elements in a run, and of its runs
FALLEN = 0.5  # share of a gradient's numbers below the smallest normal one
STEPS = {"round", "floor", "ceil", "trunc", "sign", "remainder", "fmod", "floor_divide", "frac"}
"""Ops that jump: a small error of what they are given is a large one of their result, and no fault of theirs."""
_EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "complex64": 2.0**-23}
_NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126}


class Companion(NamedTuple):
    """The float64 values that belong to a tensor, and how far the tensor is from them, as a part of their size."""

    array: Any
    error: float
    place: observe.Place = None


@dataclass
class Loss:
    """An op that lost digits, the first time at its place."""

    op: str
    chain: Chain
    dtype: str
    before: float
    after: float
    came: float
    exact: float


@dataclass
class Sum:
    """A sum at one place, each time of what it was before and something more."""

    chain: Chain
    dtype: str
    runs: int = 0
    still: int = 0
    value: float = 0.0
    added: float = 0.0


class Precision(observe.Observer):
    """Runs the ops of a cell once more in float64, and notes where digits are lost."""

    name = "precision"

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.compared = 0
        self.left: Counter[str] = Counter()  # why an op was not compared -> how many
        self.losses: dict[Any, Loss] = {}
        self.sums: dict[Any, Sum] = {}
        self.fallen: dict[Any, tuple[Any, str, float]] = {}
        self._known: dict[int, tuple[weakref.ref[Any], Any, Companion]] = {}

    # -- companions ----------------------------------------------------------------------------------------------------

    def companion(self, t: Any, memory: Any, values: Callable[[], Any]) -> Companion:
        """Return what stands beside a tensor; of one that was not met, or was written since, its own values."""
        known = self._known.get(id(t))
        if known is not None and known[0]() is t and known[1] == memory:
            return known[2]
        a = np.asarray(values())
        kind = {"f": np.float64, "c": np.complex128}.get(a.dtype.kind)
        return Companion(a if kind is None and a.dtype.name != "bfloat16" else a.astype(kind or np.float64), 0.0)

    def keep(self, t: Any, memory: Any, companion: Companion) -> None:
        """Let a tensor have a companion; `memory` is where it lies and how often that was written."""
        if len(self._known) > 4096:
            self._known = {k: v for k, v in self._known.items() if v[0]() is not None}
        self._known[id(t)] = weakref.ref(t), memory, companion

    # -- what ran ------------------------------------------------------------------------------------------------------

    def note(self, op: str, place: observe.Place, given: Sequence[Companion], t: Any, memory: Any, dtype: str,
             values: Any, exact: Any) -> None:  # fmt: skip
        """Compare one result with what float64 gave, and keep that beside it."""
        if exact.shape != values.shape or dtype not in _EPS:
            return
        self.compared += 1
        error, at = _apart(values, exact)
        before = max((c.error for c in given), default=0.0)
        limit = math.sqrt(_EPS[dtype])
        if error > limit and before <= limit and error > GAINED * before and op not in STEPS:
            key = (op, place)
            if key not in self.losses:
                came, wanted = values.reshape(-1)[at], exact.reshape(-1)[at]
                self.losses[key] = Loss(op, self._chain(place), dtype, before, error, float(came.real),
                                        float(wanted.real))  # fmt: skip
        self.keep(t, memory, Companion(exact, error, place))

    def added(self, op: str, place: observe.Place, sum_: Companion, before: Any, more: Any, after: Any,
              dtype: str) -> None:  # fmt: skip
        """Note a sum of what the same place gave before and something more."""
        if op not in ("add", "add_", "sub", "sub_") or sum_.place != place or dtype not in _EPS:
            return
        known = self.sums.setdefault(place, Sum((), dtype))
        known.runs += 1
        gained = np.broadcast_to(more != 0, after.shape)
        if gained.any() and (after == before)[gained].mean() > ELEMENTS:
            known.still += 1
            if not known.chain:
                k = int(np.argmax(gained.reshape(-1)))
                known.chain = self._chain(place)
                known.value = float(np.real(after.reshape(-1)[k]))
                known.added = float(np.real(np.broadcast_to(more, after.shape).reshape(-1)[k]))

    def _chain(self, place: observe.Place) -> Chain:
        fold = self.recorder.fold
        return fold.chain(fold.site(place))  # type: ignore[no-any-return]

    # -- core's events -------------------------------------------------------------------------------------------------

    def op(self, event: observe.OpEvent) -> None:
        """An op has run: run it once more, in float64."""
        if event.phase != "forward" or not isinstance(event.declared, Elementwise | Operation):
            return
        floats = [t for t in event.outputs if isinstance(t, Tensor) and t._kind.dtype.category >= 2]
        if not floats:
            return
        if sum(t._a.size for t in (*event.inputs, *floats) if isinstance(t, Tensor)) > LARGEST:
            self.left["too large"] += 1
            return
        given = [self._of_core(t) if isinstance(t, Tensor) else None for t in event.inputs]
        tensors = [c for c in given if c is not None]
        if event.op in ("cast", "to", "clone", "contiguous") and tensors:
            exact = [tensors[0].array.astype(np.float64) if tensors[0].array.dtype.kind != "c" else tensors[0].array]
        else:
            exact = self._again(event, given)
        for t, a in zip(event.outputs, exact, strict=False):
            if isinstance(t, Tensor) and t._kind.dtype.category >= 2 and a is not None:
                values = np.asarray(on_host(t._a)).astype(a.dtype)
                self.note(event.op, event.place, tensors, t, _memory(t), t._kind.dtype.name, values, a)
        if len(event.inputs) == 2 and all(isinstance(t, Tensor) for t in event.inputs) and given[0] is not None:
            before, more, after = (on_host(t._a) for t in (*event.inputs, floats[0]))
            if before.shape == after.shape:
                self.added(event.op, event.place, given[0], before, more, after, floats[0]._kind.dtype.name)

    def _of_core(self, t: Tensor) -> Companion:
        if t._requires_grad and t.grad_fn is None:
            return Companion(np.asarray(on_host(t._a)).astype(np.float64), 0.0)
        return self.companion(t, _memory(t), lambda: on_host(t._a))

    def _again(self, event: observe.OpEvent, given: Sequence[Companion | None]) -> list[Any]:
        call = call_of(event)
        inputs = [t if c is None else from_array(np.array(c.array)) for t, c in zip(event.inputs, given, strict=True)]
        try:
            with observe.muted(), modes.no_grad(), np.errstate(all="ignore"):
                result = call(*inputs)
        except Exception as error:
            self.left[f"{event.op} in float64 raised {type(error).__name__}"] += 1
            return []
        outs = result if isinstance(result, tuple | list) else (result,)
        return [on_host(o._a) if isinstance(o, Tensor) and o._kind.dtype.name in ("float64", "complex128") else None
                for o in outs]  # fmt: skip

    def write(self, event: observe.WriteEvent) -> None:
        """A tensor is about to be written: its new values have a companion of their own."""
        target, result = event.target, event.result
        known = self._known.get(id(result)) if isinstance(result, Tensor) else None
        if known is not None and known[0]() is result:
            place, version = _memory(target)
            self.keep(target, (place, version + 1), known[2])

    def gradient(self, event: observe.GradientEvent) -> None:
        """A leaf received a gradient."""
        dtype = event.leaf._kind.dtype.name
        a = np.abs(np.asarray(on_host(event.gradient)).astype(np.float64))
        self.fell(event.leaf, dtype, a)

    def fell(self, leaf: Any, dtype: str, sizes: Any) -> None:
        """Note a gradient whose numbers are smaller than its type can hold in full."""
        there = sizes[(sizes > 0) & np.isfinite(sizes)]
        if dtype in _NORMAL and there.size and id(leaf) not in self.fallen:
            share = float((there < _NORMAL[dtype]).mean())
            if share > FALLEN:
                self.fallen[id(leaf)] = leaf, dtype, share

    def failed(self, error: Exception) -> None:
        """The comparison itself failed: what came after is not compared."""
        self.left[f"all that came later: {type(error).__name__}: {error}"] += 1

    # -- what is said of it --------------------------------------------------------------------------------------------

    def findings(self, trace: Trace) -> list[Found]:
        """Return the op that lost most of its digits first, sums that stand still, and gradients that fall away."""
        found = [self._lost(trace, loss) for loss in list(self.losses.values())[:2]]
        for s in self.sums.values():
            if s.runs >= RUNS and s.still >= STILL * s.runs:
                line, col, place = where(trace, s.chain)
                message = capital(
                    f"{place} adds to a sum that stands still: in {s.still:,} of {s.runs:,} runs {number(s.value)} and "
                    f"{number(s.added)} gave {number(s.value)} again, since {s.dtype} holds {_digits(_EPS[s.dtype])} "
                    "digits."
                )
                remedy = "Add up in float32 or float64, or Python's own numbers: total += loss.item()."
                found.append(Found("precision", "warning", line, col, message, remedy))
        names = [name for leaf, *_ in self.fallen.values() if (name := _name(trace, leaf))]
        if self.fallen:
            _, dtype, share = next(iter(self.fallen.values()))
            of = f" of {', '.join(names[:4])}" if names else ""
            message = (
                f"Gradients{of} fall below what {dtype} holds: {100 * share:.0f} % of its nonzero numbers are "
                f"smaller than {_NORMAL[dtype]:.1e}, and smaller ones are zero."
            )
            remedy = "Scale the loss (amp.GradScaler), or keep the parameters in float32 under autocast."
            found.append(Found("precision", "warning", None, None, message, remedy))
        return found

    def _lost(self, trace: Trace, loss: Loss) -> Found:
        line, col, place = where(trace, loss.chain)
        came = f"{number(loss.came)} in place of {number(loss.exact)}"
        before, after = _digits(loss.before or _EPS[loss.dtype]), _digits(loss.after)
        message = capital(
            f"{place} loses its digits: what `{loss.op}` is given is right to {before} digits, what it gives in "
            f"{loss.dtype} to {after} ({came})."
        )
        if loss.op.rstrip("_") in ("sub", "add", "mean", "var", "std"):
            remedy = (
                "Numbers that are nearly equal cancel: subtract in float64 before the cast, or write the difference so "
                "that none is needed (x.var() for E[x²] - E[x]², log1p, expm1, logsumexp)."
            )
        elif loss.dtype in ("float16", "bfloat16"):
            remedy = f"Compute it in float32: x.float() before `{loss.op}`."
        else:
            remedy = "Compute it in float64, or by a form that keeps the digits (log_softmax, logsumexp, log1p, expm1)."
        return Found("precision", "warning", line, col, message, remedy)

    def sentence(self) -> str:
        """Return what was compared, for the card."""
        left = "; ".join(f"{why} ×{n}" if n > 1 else why for why, n in self.left.most_common(4))
        rest = f" Not compared: {left}." if left else ""
        if not self.compared:
            return f"– Nothing was compared with float64.{rest}"
        bad = len(self.losses)
        said = f"{bad} lost more than half their digits" if bad else "none lost half its digits"
        return f"{'✕' if bad else '✓'} Precision: {self.compared:,} results beside float64, {said}.{rest}"

    def summary(self) -> str:
        """Return the same in a few words."""
        return f"{self.compared} results beside float64, {len(self.losses)} places lost digits"


def _apart(values: Any, exact: Any) -> tuple[float, int]:
    """Return how far values are from the exact ones, as a part of their size, and which of them is farthest."""
    both = np.isfinite(values) & np.isfinite(exact)
    if not both.any():
        return 0.0, 0
    off = np.where(both, np.abs(np.where(both, values, 0) - np.where(both, exact, 0)), 0.0)
    size = np.where(both, np.abs(np.where(both, exact, 0)), 0.0)
    whole = float(np.sqrt(np.mean(size**2)))
    error = float(np.sqrt(np.mean(off**2))) / whole if whole else float(off.any())
    nonzero = size > 0
    middle = float(np.median(off[nonzero] / size[nonzero])) if nonzero.any() else 0.0
    return max(error, middle), int(np.argmax(off))


def _digits(error: float) -> str:
    """Return how many decimal digits are right where a number is off by this part.

    >>> _digits(2.0**-23), _digits(0.3), _digits(4.0)
    ('7', '1', 'no')
    """
    count = round(-math.log10(error)) if 0 < error < 1 else 0 if error else 16
    return str(count) if count else "no"


def _name(trace: Trace, leaf: Any) -> str:
    return next((known.name for known in trace.leaves if known.tensor() is leaf), "")


def _memory(t: Tensor) -> tuple[int, int]:
    base = t._a
    while getattr(base, "base", None) is not None:
        base = base.base
    return id(base), 0 if t._storage is None else t._storage.version
