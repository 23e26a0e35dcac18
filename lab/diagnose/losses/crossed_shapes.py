"""A column (N, 1) against a row (N,): outside of a loss too, every sample is put together with every other one."""

from __future__ import annotations

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ...recorder.variable_names import operand
from ..finding import Found, capital, code_of, where
from ..order import rule
from .losses import broadcast

PAIRWISE = {"sub", "add", "mul", "div", "eq", "ne", "lt", "gt", "le", "ge", "pow", "minimum", "maximum", "sub_",
            "min", "max"}  # fmt: skip
ALONG = {"abs", "pow", "square", "cast", "float", "double", "to", "neg", "mul", "div", "add", "sub", "exp", "log",
         "clamp", "sqrt", "where", "minimum", "maximum", "min", "max", "type", "int", "long", "squared_error",
         "relu"}  # fmt: skip
"""Ops that keep an (N, N) as it is, element by element."""
REDUCES = {"mean", "sum", "nanmean", "nansum"}
MAKES = {"linear", "addmm", "matmul", "conv1d", "conv2d", "embedding", "bilinear"}
PRODUCTS = {"matmul", "mm", "linear", "einsum", "cdist"}
GATHERS = {"setitem_", "copy_", "cat", "stack", "zeros_like", "zeros", "empty_like", "cumsum", "flip"}
"""Ops by which a column comes about row by row."""
SPLITS = {"unsqueeze", "view", "reshape", "getitem", "slice", "expand", "index"}
"""Ops by which somebody makes a column on purpose."""


def _of_pairs(ref: Ref, shape: tuple[int, ...]) -> bool:
    """Whether a value has that shape and is a product of matrices, or a multiple of one."""
    near = [ref, *(ref.refs if isinstance(ref, Row) else ())]
    return any(isinstance(r, Row) and r.op in PRODUCTS and tuple(r.shape) == shape for r in near)


@rule(402)
def crossed(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A model's (N, 1) and somebody's (N,), whose (N, N) is averaged as if it were one number a sample."""
    if broadcast(trace, explained):
        return []  # the loss itself
    readers = trace.consumers()
    reached = {row for rows in trace.roots.values() for row in rows}
    behind = ancestors(reached)
    for row in trace.rows:
        if row.op not in PAIRWISE or len(row.refs) != 2 or len(row.shape) != 2 or row.shape[0] != row.shape[1]:
            continue
        a, b = (tuple(ref.shape) for ref in row.refs)
        n = row.shape[0]
        if n < 3 or {a, b} != {(n, 1), (n,)}:
            continue
        column, other = row.refs if a == (n, 1) else row.refs[::-1]
        trains = row in behind and other.requires_grad and _computed(column)  # a weight or an advantage of each sample
        if not (trains or _of_model(column)) or _origin(column) is _origin(other) or not _reduced(row, readers):
            continue
        if any(_of_pairs(ref, row.shape) for r in readers.get(row, ()) for ref in r.refs if ref is not row):
            continue  # a matrix of pairs, to which another is added
        line, col, place = where(trace, row.chain)
        code = code_of(trace, row)
        used = "goes on to the loss" if row in behind else "is averaged after that"
        message = capital(
            f"{place} makes ({n:,}, {n:,}) of shapes {a} and {b}: `{code}` puts each of the {n:,} samples together "
            "with "
            f"every other one, and all of it {used}."
        )
        name = operand(code, 0 if column is row.refs[0] else 1)
        remedy = f"Give both one shape: {name if name.isidentifier() else 'the (N, 1) one'}.squeeze(-1)."
        if not name.isidentifier():
            remedy = "Give both one shape: squeeze(-1) on the one of (N, 1)."
        return [Found("broadcast", "warning", line, col, message, remedy, [row])]
    return []


def _origin(ref: Ref) -> Ref:
    """What a value was before views, detach() and casts."""
    while isinstance(ref, Row) and ref.refs and (ref.view or ref.cut or ref.op in ("cast", "float", "to")):
        ref = ref.refs[0]
    return ref


def _of_model(ref: Ref, depth: int = 8) -> bool:
    """Whether a column came out of a layer, with no view on the way that somebody makes columns by."""
    if not depth or not isinstance(ref, Row) or not ref.refs or ref.op in SPLITS:
        return False
    if ref.op in MAKES or (ref.path and not ref.view):
        return True
    alike = [r for r in ref.refs if tuple(r.shape) == tuple(ref.shape)] or list(ref.refs[:1])
    return any(_of_model(r, depth - 1) for r in alike)


def _computed(ref: Ref) -> bool:
    """Whether a column was computed as one, element by element: nobody has made it one by a view."""
    seen: set[Ref] = set()
    while isinstance(ref, Row) and ref not in seen:
        seen.add(ref)
        if ref.view or ref.op not in ALONG | GATHERS:
            return False
        ref = next((r for r in ref.refs if tuple(r.shape) == tuple(ref.shape)), ref)
    return bool(seen)


def _reduced(row: Row, readers: dict[Ref, list[Row]]) -> bool:
    """Whether all that is made of an (N, N) is one number, by way of ops that go element by element."""
    stack, seen, found = [row], {row}, False
    while stack:
        for after in readers.get(stack.pop(), ()):
            if after in seen:
                continue
            seen.add(after)
            if after.op in REDUCES and not after.shape:
                found = True
            elif after.op in REDUCES and len(after.shape) == 1:
                return False  # over one dimension: pairs that are meant
            elif tuple(after.shape) == tuple(row.shape) and (after.op in ALONG or after.cut or after.op in PAIRWISE):
                stack.append(after)
            elif after.op not in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
                return False
            else:
                found = True
    return found
