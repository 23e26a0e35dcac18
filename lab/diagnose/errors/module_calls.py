"""Errors of modules that are called the wrong way: made with tensors, given tuples, without a forward()."""

from __future__ import annotations

import ast
import difflib
import re

from widgets.record import ErrorRow

from ...recorder.cell_trace import Row, Trace
from ..finding import Found, code_of, where

_MODULE = re.compile(
    r"'(\w+)' object has no attribute '(?:backward|shape|size|mean|sum|view)'|must be Tensor, not (\w+)"
)
_FORWARD = re.compile(r"Module \[(\w+)\] is missing the required \"forward\" function")
_PRODUCT = re.compile(r"shapes cannot be multiplied \(1x(\d+) and (\d+)x\d+\)")


def called(trace: Trace, error: ErrorRow) -> list[Found]:
    """A finding where the source shows which call is meant."""
    tree = trace.tree()
    if tree is None:
        return []
    for look in (_made_with_tensors, _given_a_tuple, _misspelt, _batch_flattened):
        found = look(trace, error, tree)
        if found is not None:
            return [found]
    return []


def _made_with_tensors(trace: Trace, error: ErrorRow, tree: ast.AST) -> Found | None:
    """`nn.MSELoss(out, y)` and `nn.ReLU(x)` make a module; they compute nothing."""
    match = _MODULE.search(error.detail)
    name = (match[1] or match[2]) if match else ""
    here = "more than one value is ambiguous" in error.detail
    if not here and not name[:1].isupper():
        return None
    for node in trace.nodes():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        of = ast.unparse(node.func.value)
        made = node.func.attr == name if name else node.func.attr[:1].isupper() and node.lineno == error.line
        if not made or of.rpartition(".")[2] != "nn" or not any(isinstance(a, ast.Name) for a in node.args):
            continue
        code, given = ast.unparse(node.func), ", ".join(ast.unparse(a) for a in node.args)
        message = f"Line {node.lineno} gives tensors to the constructor of {code}, which makes a module and computes "
        message += "nothing" + ("." if node.lineno == error.line else f", so line {error.line} fails.")
        return Found("error", "error", node.lineno, None, message, f"Make it, then call it: {code}()({given}).")
    return None


def _given_a_tuple(trace: Trace, error: ErrorRow, tree: ast.AST) -> Found | None:
    """The output of a recurrent layer with its state, given to a layer whole."""
    if "must be Tensor, not tuple" not in error.detail and "'tuple' object has no attribute" not in error.detail:
        return None
    lines = trace.texts()
    text = lines[error.line - 1] if error.line and error.line <= len(lines) else ""
    best: tuple[int, str, str] | None = None
    for node in trace.nodes():
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or node.lineno >= (error.line or 0):
            continue
        for target in node.targets:
            if isinstance(target, ast.Name) and re.search(rf"\b{target.id}\b", text):
                best = max(best or (0, "", ""), (node.lineno, target.id, ast.unparse(node.value)))
    if best is None:
        return None
    line, name, code = best
    message = (
        f"Line {error.line} wants a tensor and gets a tuple: `{name}`, which line {line} took whole from `{code}`; a "
    )
    message += "recurrent layer gives (output, state)."
    return Found("error", "error", error.line, None, message, f"Take the output alone: {name}, _ = {code}.")


def _misspelt(trace: Trace, error: ErrorRow, tree: ast.AST) -> Found | None:
    """A class whose forward() is called something like it."""
    match = _FORWARD.search(error.detail)
    if match is None:
        return None
    for node in trace.nodes():
        if not isinstance(node, ast.ClassDef) or node.name != match[1]:
            continue
        names = {f.name: f.lineno for f in node.body if isinstance(f, ast.FunctionDef)}
        near = difflib.get_close_matches("forward", names, 1, 0.6)
        message = f"Line {error.line} calls {node.name}, which has no forward()"
        remedy = "Write def forward(self, ...) in the class, at the level of __init__."
        if near:
            message += f"; line {names[near[0]]} defines {near[0]}()"
            remedy = f"Call it forward: def forward, not def {near[0]}."
        return Found("error", "error", error.line, None, message + ".", remedy)
    return None


def _batch_flattened(trace: Trace, error: ErrorRow, tree: ast.AST) -> Found | None:
    """A layer that gets one row, since the batch was flattened too."""
    match = _PRODUCT.search(error.detail)
    row = next((r for r in reversed(trace.rows) if r.error), None)
    if match is None or row is None or not row.refs or len(row.refs[0].shape) != 1:
        return None
    before = row.refs[0]
    if not isinstance(before, Row) or not before.view or not before.refs or len(before.refs[0].shape) < 2:
        return None
    shape = tuple(before.refs[0].shape)
    message = f"Line {error.line} fails in `{code_of(trace, row)}`: `{code_of(trace, before)}` "
    message += (
        f"({where(trace, before.chain)[2]}) has flattened {shape} to ({match[1]},), the batch with it, and the layer "
    )
    message += f"takes {match[2]} features of each sample."
    return Found("error", "error", error.line, None, message, "Keep the batch: flatten(1), or view(len(x), -1).", [row])
