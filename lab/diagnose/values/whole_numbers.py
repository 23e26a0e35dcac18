"""Whole numbers that a dtype cannot tell apart: times since 1970 that have become float32, whose differences are gone;
positions and counts in half precision."""

from __future__ import annotations

import ast
import re
from typing import Any

import numpy as np

from ...recorder.cell_trace import Leaf, Row, Trace
from ...recorder.tensor_stats import on_host
from ...recorder.value_facts import WHOLE, merged
from ..finding import Found, capital, code_of, where
from ..order import rule
from ..reading.calls import functions, option
from ..reading.expressions import flow_of
from ..reading.pure import data, is_tensor
from ..reading.replay import Replay
from ..reading.scope import index_of, indices, spread, told, whole
from ..reading.sources import Source, assigned, called, names_in, sources
from .lost_digits import NARROWED, spacing

NARROW = {"float32", "float16", "bfloat16"}
TENSORS = {"tensor", "as_tensor", "FloatTensor", "Tensor", "array", "asarray"}
METHODS = {"float", "half", "bfloat16"}
CASTS = {"to", "astype", "type"}
OFF, BLURRED, CROWDED = 0.1, 0.5, 0.1
"""Shares: of a result from which it is wrong, of neighbours whose difference is, of different numbers that are one."""
SAMPLE, COLUMNS = 256, 16
LARGE = 2.0**13  # from which size numbers are looked at
ENOUGH = 0.5  # of neighbouring values that have to become one
WHOLE_CASTS = ("long", "int", "astype", "to", "type")
TO_WHOLE = re.compile(r"\bint(64|32)?\b|LongTensor|torch\.long")
STEPPED = {"arange", "range", "linspace", "cumsum"}
FIRST = "Take the first one away, or the differences, in float64 (int64), and make it float32 after that."


class Exact(Replay):
    """The statements that some variables come from, as float64 would have them."""

    def __init__(self, trace: Trace, source: Source) -> None:
        super().__init__(trace, source)
        self.narrowed: list[tuple[ast.AST, Source, float]] = []

    def kept_value(self, name: str, value: Any) -> Any:
        """Return what a variable holds, in float64."""
        return wide(value)

    def unknown(self, statement: ast.stmt, name: str, value: Any) -> Any:
        """Return what a variable has kept, in float64."""
        return wide(value)

    def call(self, node: ast.Call, function: Any, args: list[Any], named: dict[str, Any]) -> Any:
        """Call a function, and let it make nothing narrower."""
        name, of = called(node), getattr(function, "__self__", None)
        if name in METHODS and not args and data(of):
            return self._narrowed(node, of)
        if name in CASTS and data(of) and _name(args[0] if args else named.get("dtype")) in NARROW:
            return self._narrowed(node, of)
        if name in NARROW and len(args) == 1:
            return self._narrowed(node, np.asarray(args[0]))
        if name in TENSORS:
            args = [np.asarray(a) if isinstance(a, list | tuple) and data(a) else a for a in args]
            narrow = name in ("FloatTensor", "Tensor") or _name(named.get("dtype")) in NARROW
            narrow = narrow or ("dtype" not in named and isinstance(node.args[0], ast.List))
            if narrow and not is_tensor(args[0]) and isinstance(args[0], np.ndarray):
                named.pop("dtype", None)
                module = self.value(node.func.value, {}) if isinstance(node.func, ast.Attribute) else None
                make = getattr(module, "as_tensor", None) or np.asarray
                return self._narrowed(node, make(args[0]))
            if narrow:
                return self._narrowed(node, args[0])
        if _name(named.get("dtype")) in NARROW:
            named.pop("dtype")
        return wide(function(*args, **named))

    def _narrowed(self, node: ast.AST, value: Any) -> Any:
        a = array(value)
        if a is not None and a.ndim and blurred(a) > BLURRED:
            self.narrowed.append((node, self.inside[-1], float(np.nanmax(np.abs(a)))))
        return wide(value, whole=True)


def _name(dtype: Any) -> str:
    """The last part of a dtype's name; "" of what is none."""
    return str(getattr(dtype, "__name__", dtype)).rpartition(".")[2].removesuffix("'>") if dtype is not None else ""


def wide(value: Any, whole: bool = False) -> Any:
    """Return numbers in float64; whole numbers only where that is asked for."""
    if is_tensor(value):
        value = value.detach()
        return value.double() if value.is_floating_point() or whole else value
    if isinstance(value, np.ndarray | np.generic):
        return value.astype(np.float64) if value.dtype.kind == "f" or (whole and value.dtype.kind in "iu") else value
    return value


def array(value: Any) -> np.ndarray | None:
    """Return numbers as an array of NumPy's in float64; None of anything else."""
    if is_tensor(value):
        return value.detach().double().numpy() if not value.is_complex() else None  # type: ignore[no-any-return]
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fiu":
        return np.asarray(value, dtype=np.float64)
    return None


def blurred(values: np.ndarray) -> float:
    """Return the share of neighbouring values, in the rows or in one of the columns, whose difference float32 has wrong
    by more than a tenth.

    >>> blurred(1.7e9 + 60.0 * np.arange(9)), blurred(1.7e9 + 86400.0 * np.arange(9)), blurred(np.arange(9.0))
    (1.0, 0.0, 0.0)
    """
    a = values.reshape(-1, values.shape[-1])[:SAMPLE, :SAMPLE]
    columns = [a[:, k] for k in range(a.shape[1])] if len(a) > 1 and a.shape[1] <= COLUMNS else []
    return max(_wrong(part) for part in (a, *columns))


def _wrong(a: np.ndarray) -> float:
    exact = np.diff(a, axis=-1)
    looked = (exact != 0) & (np.abs(a[..., 1:]) >= LARGE) & np.isfinite(exact)
    if not looked.any():
        return 0.0
    off = np.abs(np.diff(a.astype(np.float32).astype(np.float64), axis=-1) - exact)
    return float((off[looked] > OFF * np.abs(exact[looked])).mean())


@rule(331, proof="the values were compared, or a float32 is given the seconds since 1970")
def times_rounded(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``times = torch.from_numpy(stamps).float()`` of seconds since 1970: neighbours become one."""
    if any(lost.whole and lost.share > ENOUGH for row, lost in trace.values.lost.items() if row in trace.rows):
        return []  # that is told where they are subtracted
    for row, (share, largest) in trace.values.merged.items():
        if row in trace.rows and share > ENOUGH:
            line, col, place = where(trace, row.chain)
            message = f"{place} makes float32 of {_near(share, largest)} (`{code_of(trace, row)}`)."
            return [Found("dtype", "warning", line, col, capital(message), FIRST, [row])]
    if found := differences_lost(trace):
        return found
    for source in sources(trace)[:1]:
        if source.name:
            continue
        reads = [n.id for n in ast.walk(source.program) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        for pair in assigned(ast.walk(source.program)):
            made = trace.arrays.get(pair.name)
            if made is None or made.dtype != "float32" or pair.name not in reads:
                continue
            if not NARROWED.search(ast.unparse(pair.value)):
                continue
            for name in names_in(pair.value) & trace.arrays.keys() - {pair.name}:
                of = trace.arrays[name]
                if of.dtype not in ("float64", "int64") or not _same(of.values, made.values):
                    continue
                share, largest = merged(of.values)
                if share > ENOUGH:
                    return told(
                        source, pair.node, "dtype", f"makes {pair.name} float32, of {_near(share, largest)}.", FIRST
                    )
    return _clock(trace)


def _near(share: float, largest: float) -> str:
    return (
        f"numbers near {largest:.3g}, where those of float32 are {spacing(largest, 'float32'):.3g} apart: "
        f"{share:.0%} of the neighbouring values that differ become one"
    )


def _same(wide: np.ndarray, narrow: np.ndarray) -> bool:
    """Whether values are others in float32."""
    return wide.shape == narrow.shape and bool((wide.astype(np.float32) == narrow).all())


def _clock(trace: Trace) -> list[Found]:
    """``torch.tensor(time.time())``: what was measured by a clock since 1970, in float32."""
    for source, index in indices(trace, "torch", "time"):
        for call in index.called("tensor", "as_tensor", "FloatTensor", "Tensor", "full"):
            kind = option(call, "dtype")
            if not call.args or (kind is not None and not NARROWED.search(ast.unparse(kind))):
                continue
            clock = [n for n in spread(index.flow, call.args[-1]) if isinstance(n, ast.Call) and _since_1970(n)]
            differs = any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub) for n in ast.walk(call.args[-1]))
            if not clock or differs or _by_name(source, call.args[-1]):
                continue
            message = (
                f"keeps seconds since 1970 in float32 (`{ast.unparse(call)}`), whose numbers are 128 apart there: what "
                "is shorter than two minutes is lost."
            )
            return told(source, call, "dtype", message, FIRST)
    return []


def _since_1970(call: ast.Call) -> bool:
    return ast.unparse(call) == "time.time()" or called(call) == "timestamp"


def _by_name(source: Source, node: ast.expr) -> bool:
    """Whether a difference of times goes into a variable on the way."""
    names = names_in(node)
    return any(
        pair.name in names and any(isinstance(n, ast.BinOp) for n in ast.walk(pair.value))
        for pair in assigned(source.nodes)
    )


def differences_lost(trace: Trace) -> list[Found]:
    """Tell of ``times = torch.tensor(stamps, dtype=torch.float32)`` whose differences an earlier cell takes."""
    large = any(held.dtype in ("int64", "float64", "int32") and np.abs(held.values).max() >= LARGE
                for held in trace.arrays.values())  # fmt: skip
    own = sources(trace)[:1]
    narrow = {name for name, held in trace.arrays.items() if held.dtype == "float32"}
    if not narrow or not own or own[0].name:
        return []
    found = (_replayed(trace, own[0], narrow) if large else []) or _multiples(trace, own[0], narrow)
    return found or _numbers(trace, own[0], narrow)


def _replayed(trace: Trace, source: Source, narrow: set[str]) -> list[Found]:
    """Held against float64: what is computed from numbers whose differences float32 does not have."""
    replay = Exact(trace, source)
    exact = replay.run(narrow & replay.bound.keys())
    for name in (name for name in replay.bound if name in exact and replay.narrowed):
        wanted, came = array(exact[name]), array(trace.space.get(name))
        if wanted is None or came is None or wanted.shape != came.shape or not wanted.size:
            continue
        size, off = _apart(wanted, came)
        if size and off > OFF * size:
            node, made, largest = replay.narrowed[0]
            message = (
                f"makes float32 of numbers near {largest:.3g} (`{ast.unparse(node)}`), where those of float32 are "
                f"{spacing(largest, 'float32'):.3g} apart: {name}, which is computed from them, is off by {off:.3g} "
                f"where its values are near {size:.3g}."
            )
            return told(made, node, "dtype", message, FIRST)
    return []


def _apart(wanted: np.ndarray, came: np.ndarray) -> tuple[float, float]:
    """How large values are, and how far off: of a table its worst column."""
    columns = [(wanted, came)]
    if wanted.ndim == 2 and wanted.shape[1] <= COLUMNS:
        columns = [(wanted[:, k], came[:, k]) for k in range(wanted.shape[1])]
    figures = [(float(np.nanmedian(np.abs(a))), float(np.nanmedian(np.abs(a - b)))) for a, b in columns]
    return max(figures, key=lambda pair: pair[1] / pair[0] if pair[0] else 0.0)


def _multiples(trace: Trace, source: Source, narrow: set[str]) -> list[Found]:
    """By the values alone: differences that are all multiples of the spacing of the numbers that they are taken of."""
    given = index_of(flow_of(source, whole(source))).given
    for pair in given:
        for name in sorted(names_in(pair.value) & narrow - {pair.name}) if pair.name in narrow else ():
            large, small = (array(trace.space.get(n)) for n in (name, pair.name))
            if large is None or small is None or not small.size or not np.abs(large).max() >= WHOLE["float32"]:
                continue
            apart = spacing(float(np.abs(large).max()), "float32")
            steps = np.unique(np.abs(small))
            if apart < 2 or len(steps) > 8 or (steps % apart).any() or not 0 < steps.max() <= 8 * apart:
                continue
            made = next(one for one in given if one.name == name)
            message = (
                f"makes {name} float32, of numbers near {np.abs(large).max():.3g}, where those of float32 are "
                f"{apart:.3g} apart: all of {pair.name}, which is computed from it, are 0 or a multiple of that."
            )
            return told(source, made.node, "dtype", message, FIRST)
    return []


def _numbers(trace: Trace, source: Source, narrow: set[str]) -> list[Found]:
    """``table[:, 0].long()`` of a float32 table in an earlier cell, whose numbers are beyond 2**24."""
    earlier = [call for name in WHOLE_CASTS for call in source.calls.get(name, ()) if call.lineno <= 0]
    for call in earlier:
        names = sorted(names_in(call) & narrow)
        of = call.func.value if isinstance(call.func, ast.Attribute) else None
        if not names or of is None or not (called(call) in ("long", "int") or TO_WHOLE.search(ast.unparse(call))):
            continue
        value = Replay(trace, source).now(of)
        a = array(value) if "float32" in str(getattr(value, "dtype", "")) else None
        if a is None or not a.size or not (largest := float(np.abs(a).max())) >= 2 * WHOLE["float32"]:
            continue
        made, node = _narrowing(trace, source, names[0])
        message = (
            f"makes {names[0]} float32, of whole numbers near {largest:.3g}, where those of float32 are "
            f"{spacing(largest, 'float32'):.3g} apart: neighbouring ones are one before `{ast.unparse(call)}`."
        )
        remedy = "Keep such numbers as int64 from the start; float64 holds whole numbers up to 2**53."
        return told(made, node, "dtype", message, remedy)
    return []


def _narrowing(trace: Trace, source: Source, name: str) -> tuple[Source, ast.AST]:
    """Where a variable became float32: its assignment, or what the function returns that it is given."""
    made = [pair for pair in assigned(ast.walk(source.program)) if pair.name == name]
    pair = next((pair for pair in made if NARROWED.search(ast.unparse(pair.value))), made[0])
    given = functions(trace).get(called(pair.value))
    for node in ast.walk(given[1]) if given is not None else ():
        if isinstance(node, ast.Assign | ast.Return) and node.value and NARROWED.search(ast.unparse(node.value)):
            return given[0], node  # type: ignore[index]
    return source, pair.node


@rule(332, proof="the values' range was recorded")
def positions_rounded(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``torch.arange(n, dtype=x.dtype)`` of bfloat16: from 256 on neighbouring positions are one number."""
    for row, (share, largest) in trace.values.crowded.items():
        if row in trace.rows and share > CROWDED:
            line, col, place = where(trace, row.chain)
            message = capital(
                f"{place} {_says(row.dtype, largest)} (`{code_of(trace, row)}`): {share:.0%} of the different numbers "
                "become one with another."
            )
            return [Found("dtype", "warning", line, col, message, _remedy(row.dtype), [row])]
    for leaf in trace.leaves:
        if leaf.dtype not in ("float16", "bfloat16") or leaf.requires_grad or leaf.module or leaf.span is None:
            continue
        low, high = leaf.span
        if high < WHOLE[leaf.dtype] or low != round(low) or high != round(high):
            continue
        made = _stepped(trace, leaf)
        if made is not None:
            source, node = made
            message = (
                f"{_says(leaf.dtype, high)} (`{ast.unparse(node)}`): from {WHOLE[leaf.dtype]:.0f} on neighbours become "
                "one number."
            )
            return told(source, node, "dtype", message, _remedy(leaf.dtype))
    return []


def _says(dtype: str, largest: float) -> str:
    return f"keeps whole numbers up to {largest:.4g} in {dtype}, which has them all only up to {WHOLE[dtype]:.0f}"


def _remedy(dtype: str) -> str:
    return f"Count in int64 or float32 (dtype=torch.float32), and make {dtype} of what is computed from it."


def _stepped(trace: Trace, leaf: Leaf) -> tuple[Source, ast.AST] | None:
    """Where numbers that follow each other were made that a leaf holds: by the name it has, or where it is read."""
    t = leaf.alive()
    if t is not None:
        a = np.asarray(on_host(t._a)).astype(np.float64).reshape(-1)[: 1 << 16]
        if (a != np.round(a)).any():
            return None
    name = leaf.name.rpartition(".")[2]
    for source, index in indices(trace, leaf.name):
        for pair in index.given:
            if pair.name == name and any(called(n) in STEPPED for n in ast.walk(pair.value)):
                return source, pair.value
    readers = [row for row in trace.rows if leaf in row.refs and "arange" in code_of(trace, row)]
    return _read(trace, readers[0]) if readers else None


def _read(trace: Trace, row: Row) -> tuple[Source, ast.AST] | None:
    """The call that makes the numbers which an op reads, in its own text."""
    for source, index in indices(trace, "arange"):
        for call in index.called("arange"):
            if ast.unparse(call) in code_of(trace, row) or code_of(trace, row) in ast.unparse(call):
                return source, call
    return None
