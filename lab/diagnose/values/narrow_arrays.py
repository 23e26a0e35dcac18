"""Arrays whose dtype is too narrow for what is done with them: differences and products of bytes in NumPy, averages of
weights that are kept in half precision."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np

from ...recorder.cell_trace import Leaf, Trace
from ...recorder.value_facts import EPS
from ..finding import Found
from ..order import rule
from ..reading.array_types import dtype_of
from ..reading.calls import operands, option, rows_of
from ..reading.expressions import Flow, defaults, flow_of
from ..reading.passed import attribute
from ..reading.pure import OPERATORS
from ..reading.replay import Replay
from ..reading.scope import Index, index_of, indices, told, whole
from ..reading.sources import Function, Source, assigned, called, names_in, sources

SIZES = {"abs", "absolute", "mean", "sum", "square", "norm", "power", "sqrt", "float", "astype", "max", "std", "var"}
"""What takes a difference for a size, or makes it a wider number too late."""
PLACES = 2.5  # how many times the spacing of a dtype's numbers at 1 a share is at most that hardly moves an average
WRITES = {"copy", "copy_", "lerp", "lerp_"}
RANGES = {"uint8", "int8", "int16", "uint16", "int32"}
WRAPPED = 0.01  # of the results that have to be beyond the range
HALVES = ("bfloat16", "float16")


@rule(381, proof="the arrays were computed again with more digits")
def bytes_subtracted(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``((a - b) ** 2).mean()`` of two arrays of bytes: what is below 0 comes out near 255."""
    if not any(word in source.text for source in sources(trace) for word in ("uint8", "byte", "imread", "read_image")):
        return []
    for source, index in indices(trace):
        for node in index.sums:
            if not _measured(index, node) or trace.values.wrapped.keys() & set(rows_of(trace, source, node)):
                continue
            if any(dtype_of(trace, source, side) != "uint8" for side in (node.left, node.right)):
                continue
            below = isinstance(node.op, ast.Sub)
            one, other = (ast.unparse(side) for side in (node.left, node.right))
            message = (
                f"computes in uint8, which holds 0 to 255 (`{ast.unparse(node)}`): "
                f"{'what is below 0 comes out near 255' if below else 'what is above 255 comes out near 0'}."
            )
            sign = "-" if below else "+"
            remedy = f"Make them float first: {one}.astype(np.float32) {sign} {other}.astype(np.float32)."
            return told(source, node, "dtype", message, remedy)
    return []


def _measured(index: Index, node: ast.BinOp) -> bool:
    """Whether a sum or a difference is taken for a size: squared, made positive, averaged."""
    source = index.flow.source
    below = node
    for above in source.around(node):
        if isinstance(above, ast.BinOp) and isinstance(above.op, ast.Pow | ast.Div) and above.left is below:
            return True
        if called(above) in SIZES:
            return True
        if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
            if above.value is not below:
                return False
            name = above.targets[0].id
            reads = [n for n in index.flow.nodes if isinstance(n, ast.Name) and n.id == name]
            later = [n for n in reads if isinstance(n.ctx, ast.Load) and n.lineno > above.lineno]
            around = [one for n in later for one in list(source.around(n))[:3]]
            powers = any(isinstance(one, ast.BinOp) and isinstance(one.op, ast.Pow) for one in around)
            return powers or any(called(one) in SIZES for one in around)
        if isinstance(above, ast.stmt) or (
            isinstance(above, ast.BinOp) and not isinstance(above.op, ast.Pow | ast.Div)
        ):
            return False
        below = above  # type: ignore[assignment]
    return False


@rule(382, proof="the arrays were computed again with more digits")
def whole_numbers_wrap(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``rows * 200 + cols`` of arrays of bytes, in NumPy: what is above 255 begins at 0 again."""
    own = sources(trace)[:1]
    narrow = {name for name, held in trace.arrays.items() if held.dtype in RANGES}
    if not own or own[0].name or not narrow:
        return []
    source = own[0]
    replay = Replay(trace, source)
    index = index_of(flow_of(source, whole(source)))
    for node in (n for kind in (ast.Mult, ast.Add, ast.Pow) for n in index.binary.get(kind, ())):
        if not names_in(node) & narrow or _wrapped_again(source, node):
            continue
        left, right, came = (replay.now(side) for side in (node.left, node.right, node))
        if type(came) is not np.ndarray or came.dtype.name not in RANGES or not came.size:
            continue
        if any(not isinstance(side, int | np.integer | np.ndarray) for side in (left, right)):
            continue
        exact = OPERATORS[type(node.op)](np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64))
        off = float((exact != came).mean())
        if off > WRAPPED:
            message = (
                f"computes in {came.dtype.name}, which ends at {np.iinfo(came.dtype).max:,} (`{ast.unparse(node)}`): "
                f"{off:.0%} of the results are beyond it, up to {int(exact.max()):,}, and begin at its other end again."
            )
            remedy = f"Make them wider first: {ast.unparse(node.left)}.astype(np.int64)."
            return told(source, node, "dtype", message, remedy)
    return []


def _wrapped_again(source: Source, node: ast.AST) -> bool:
    """Whether a result is only part of what is meant to wrap: ``(a * 31 + b) % 256``, a hash."""
    around = [above for above in source.around(node) if isinstance(above, ast.BinOp)]
    return any(isinstance(above.op, ast.Mod | ast.BitAnd | ast.BitXor) for above in around)


@rule(383, proof="the dtype and the share that is taken over are known")
def average_stands_still(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``e.lerp_(p, 0.001)`` of weights in bfloat16: what is added is less than half the spacing of their numbers."""
    for source, index in indices(trace):
        for node, into, share in _averages(index):
            rows = rows_of(trace, source, node)
            writes = [row for row in rows if row.op in WRITES]
            last = max(writes or rows, key=lambda row: row.number, default=None)
            if last is None or last.dtype not in HALVES or last.requires_grad:
                continue
            if not 0 < share < PLACES * EPS[last.dtype]:
                continue
            message = (
                f"keeps an average in {last.dtype} (`{ast.unparse(node)}`): {into} takes over {share:.2g} of the "
                f"difference each time, while its numbers are {EPS[last.dtype] / 2:.2g} of their size apart, so most "
                "of that is rounded away and it stands still."
            )
            return told(source, node, "dtype", message, "Keep the average in float32: copy.deepcopy(model).float().")
    return []


def _averages(index: Index) -> Iterator[tuple[ast.Call | ast.Assign, str, float]]:
    """Yield what moves an average: the call or the assignment, what it changes, the share that is taken over."""
    flow = index.flow
    for call in index.called("lerp_", "lerp", "_foreach_lerp_"):
        parts = operands(call)
        share = _number(flow, option(call, "weight") or (parts[2] if len(parts) > 2 else None))
        if share is not None:
            yield call, ast.unparse(parts[0]), share
    for call in index.called("add_"):
        inner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if called(inner) == "mul_" and isinstance(inner, ast.Call) and inner.args:  # type: ignore[arg-type]
            kept = _number(flow, inner.args[0])
            if kept is not None:
                yield call, ast.unparse(operands(inner)[0]), 1 - kept
    for call in index.called("copy_"):
        kept = _kept(flow, call.args[0], ast.unparse(operands(call)[0])) if call.args else None
        if kept is not None:
            yield call, ast.unparse(operands(call)[0]), 1 - kept
    for node in index.kinds.get(ast.Assign, ()):
        kept = _kept(flow, node.value, ast.unparse(node.targets[0]))
        if kept is not None:
            yield node, ast.unparse(node.targets[0]), 1 - kept


def _kept(flow: Flow, mix: ast.expr, own: str) -> float | None:
    """The share of its own value that ``d * own + (1 - d) * other`` keeps."""
    while called(mix) in ("to", "type", "type_as", "half", "bfloat16"):
        mix = operands(mix)[0]
    if not isinstance(mix, ast.BinOp) or not isinstance(mix.op, ast.Add):
        return None
    own = own.removesuffix(".data")
    for one in (mix.left, mix.right):
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult):
            for factor, rest in ((one.left, one.right), (one.right, one.left)):
                if ast.unparse(rest).removesuffix(".float()").removesuffix(".data") == own:
                    return _number(flow, factor)
    return None


def _number(flow: Flow, node: ast.expr | None, depth: int = 8) -> float | None:
    """The number that an expression is: also an argument's default, where nobody sees the call."""
    if node is None or not depth:
        return None
    found = flow.number(node)
    if found is not None:
        return found
    if isinstance(node, ast.BinOp):
        left, right = (_number(flow, side, depth - 1) for side in (node.left, node.right))
        if left is None or right is None:
            return None
        return left - right if isinstance(node.op, ast.Sub) else left * right if isinstance(node.op, ast.Mult) else None
    if isinstance(node, ast.Attribute):
        return _number(flow, attribute(flow.source, node), depth - 1)
    if isinstance(node, ast.Name):
        scope = next((a for a in flow.source.around(node) if isinstance(a, Function)), None) or flow.scope
        value = flow.value(node) or defaults(scope).get(node.id)
        if value is None and isinstance(scope, Function):
            outer = flow_of(flow.source, whole(flow.source))
            given = [pair.value for pair in assigned(outer.nodes) if pair.name == node.id]
            value = given[0] if len(given) == 1 else None
        return _number(flow, value, depth - 1)
    return None
