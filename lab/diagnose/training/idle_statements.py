"""Statements that do nothing: a method that is named and not called, a result that nobody takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Row, Trace
from ...recorder.user_files import shown_name
from ..finding import Found, capital, end_of
from ..order import text_rule
from ..reading.scope import Scope
from ..reading.sources import Source, called, own_nodes

METHODS = {"zero_grad", "backward", "eval", "train"}
GIVES = {"clamp", "masked_fill", "squeeze", "unsqueeze", "view", "reshape", "permute", "transpose", "detach", "clone",
         "index_fill", "index_add", "scatter", "scatter_add", "index_copy", "normalize", "flatten", "clip", "flip",
         "roll", "repeat", "expand", "contiguous", "sub", "div", "mul", "add", "neg", "abs", "rot90", "fliplr",
         "flipud", "swapaxes", "movedim", "tril", "triu", "round", "nan_to_num", "where", "masked_scatter", "index_put",
         "clamp_min", "clamp_max", "sort", "gather"}  # fmt: skip
"""Functions that give a new tensor and leave their own as it is."""
VIEWS = {"view", "reshape", "squeeze", "unsqueeze", "flatten", "expand"}
CASTS = {"to", "float", "half", "double", "long", "bfloat16", "type"}
"""Methods that do so of tensors, and change modules."""
TIMED = re.compile(r"perf_counter|time\.time\(|timeit|profile|benchmark|synchronize|monotonic")
OF_ARRAYS = {"permutation", "flip", "fliplr", "flipud", "rot90", "roll", "clip", "append", "delete", "insert", "pad",
             "concatenate", "expand_dims", "squeeze", "transpose", "swapaxes", "moveaxis", "reshape", "nan_to_num",
             "where", "sort", "abs", "multiply", "divide", "subtract"}  # fmt: skip
"""Those of NumPy that give a new array."""
NUMPY = re.compile(r"^(np|numpy|rng|np\.random|numpy\.random)$")


@text_rule(594, proof="a result that no name takes is lost")
def idle(scope: Scope) -> Iterator[Found]:
    """A statement of the kind that is one bracket or one `x =` short."""
    trace, source, function = scope.trace, scope.source, scope.flow.scope
    if trace.error is not None:
        return
    for node in own_nodes(function):
        if not isinstance(node, ast.Expr) or _shown(source, function, node):
            continue
        found = (
            _not_called(source, node)
            or _dropped(trace, source, node)
            or _array_dropped(source, node)
            or _part_dropped(trace, source, node)
        )
        if found is not None:
            yield found


def _shown(source: Source, scope: ast.AST, node: ast.Expr) -> bool:
    """Whether it is a cell's last statement, whose value is shown."""
    return isinstance(scope, ast.Module) and scope.body[-1] is node


def _not_called(source: Source, node: ast.Expr) -> Found | None:
    value = node.value
    if not isinstance(value, ast.Attribute) or value.attr not in METHODS:
        return None
    line, col, place = source.place(node)
    text = ast.unparse(value)
    message = capital(f"{place} names {text} and does not call it: nothing happens there.")
    return Found("unused", "warning", line, col, message, f"Write {text}().")


def _dropped(trace: Trace, source: Source, node: ast.Expr) -> Found | None:
    """``x.clamp(0, 1)`` alone on its line."""
    call = node.value
    if not isinstance(call, ast.Call) or called(call) not in GIVES | CASTS or not isinstance(call.func, ast.Attribute):
        return None
    if any(k.arg in ("out", "inplace") for k in call.keywords) or TIMED.search(source.text):
        return None
    # by its place and not by its name: masked_fill() is where(), reshape() a view, normalize() several ops
    own = [row for row in trace.rows if _computes(trace, source, row, call)]
    readers = trace.consumers()
    if not own or any(reader not in own for row in own for reader in readers.get(row, ())):
        return None
    if called(call) in VIEWS and all(row.view and row.refs and row.shape == row.refs[0].shape for row in own):
        return None  # it has that shape already: taken, it would be the same
    if called(call) in CASTS and any(isinstance(r, Leaf) and (r.module or "." in r.name) for o in own for r in o.refs):
        return None
    line, col, place = source.place(node)
    text = ast.unparse(call.func.value)
    function = text in ("torch", "core", "F", "np", "nn.functional")
    of = call.args[0] if function and call.args else call.func.value
    if not isinstance(of, ast.Name | ast.Attribute | ast.Subscript):
        return None  # what came from another call has no name that could be meant to change
    kept = ast.unparse(of)
    message = capital(
        f"{place} computes `{ast.unparse(call)}` and takes it nowhere: {called(call)} gives a new tensor and leaves "
        f"{kept} as it is."
    )
    return Found("unused", "warning", line, col, message, f"Write {kept} = {ast.unparse(call)}.")


def _array_dropped(source: Source, node: ast.Expr) -> Found | None:
    """``np.random.permutation(order)`` alone on its line."""
    call = node.value
    if not isinstance(call, ast.Call) or called(call) not in OF_ARRAYS or not isinstance(call.func, ast.Attribute):
        return None
    if not NUMPY.match(ast.unparse(call.func.value)) or not call.args or any(k.arg == "out" for k in call.keywords):
        return None
    line, col, place = source.place(node)
    kept = ast.unparse(call.args[0])
    message = capital(
        f"{place} computes `{ast.unparse(call)}` and takes it nowhere: {called(call)} gives a new array and leaves "
        f"{kept} as it is."
    )
    return Found("unused", "warning", line, col, message, f"Write {kept} = {ast.unparse(call)}.")


def _part_dropped(trace: Trace, source: Source, node: ast.Expr) -> Found | None:
    """``x[order]`` alone on its line."""
    part = node.value
    if not isinstance(part, ast.Subscript) or not isinstance(part.slice, ast.Name) or TIMED.search(source.text):
        return None
    own = [row for row in trace.rows if _computes(trace, source, row, part)]
    readers = trace.consumers()
    if not own or any(row.op not in ("index", "getitem", "index_select") or readers.get(row) for row in own):
        return None
    line, col, place = source.place(node)
    kept = ast.unparse(part.value)
    message = capital(
        f"{place} takes `{ast.unparse(part)}` and puts it nowhere: that is a new tensor, and {kept} stays as it is."
    )
    return Found("unused", "warning", line, col, message, f"Write {kept} = {ast.unparse(part)}.")


def _computes(trace: Trace, source: Source, row: Row, call: ast.expr) -> bool:
    """Whether an op runs in a call of a source, and in no function of the user's that it calls."""
    if not source.name:
        at = trace.own_place(row.chain[:1])
    else:
        at = trace.place(*row.chain[0]) if row.chain else None
        at = at if at is not None and shown_name(at.file) == source.name else None
    if at is None:
        return False
    return (at.line, at.col) == (call.lineno, call.col_offset) and (at.end_line, at.end_col) == end_of(call)
