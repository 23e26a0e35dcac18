"""Errors that end a cell outside any op: of an optimizer's beginning, of a gradient that is None, of Python's own."""

from __future__ import annotations

import ast
import re

from widgets.record import ErrorRow

from ...recorder.cell_trace import Trace
from ..finding import Found, code_of, last_line, listed, where

EMPTY = "got an empty parameter list"
NON_LEAF = "can't optimize a non-leaf Tensor"
LISTS = (
    "Register the layers: assign them to self in __init__, several of them in nn.ModuleList or nn.ModuleDict, single "
    "tensors as nn.Parameter."
)


def explained(trace: Trace, error: ErrorRow) -> list[Found]:
    """An error whose reason stands in the cell's own source."""
    if EMPTY in error.detail:
        return [_empty(trace, error)]
    if NON_LEAF in error.detail:
        return [_non_leaf(trace, error)]
    if (number := _NUMBER.search(error.detail)) is not None and (found := _number(trace, error, number[1])):
        return [found]
    if (match := _NUMBER_OF.search(error.detail)) is not None and (found := _own_number(trace, error, match)):
        return [found]
    if (match := _GRADIENT.search(error.detail)) is not None and (found := _own_backward(trace, error, match)):
        return [found]
    if "missing 1 required positional argument: 'metrics'" in error.detail:
        return [_metric(trace, error)]
    if "'NoneType'" in error.detail and (name := _gradient(trace, error)):
        return [_none(trace, error, name)]
    return []


_GRADIENT = re.compile(
    r"Function (\w+?)(?:Backward\d*)? returned an invalid gradient at index (\d+) - got \[(.*?)\] but expected shape "
    r"compatible with \[(.*?)\]"
)


_NUMBER_OF = re.compile(
    r"unction (\w+?)(?:Backward\d*)? returned an incorrect number of gradients \(expected (\d+), got (\d+)\)"
)


def _own_number(trace: Trace, error: ErrorRow, match: re.Match[str]) -> Found | None:
    """A backward() of the cell's own that gives another number of gradients than forward() has arguments."""
    name, wanted, got = match.groups()
    for node in trace.nodes():
        if not isinstance(node, ast.ClassDef) or node.name != name:
            continue
        parts = {f.name: f for f in node.body if isinstance(f, ast.FunctionDef)}
        if "backward" not in parts or "forward" not in parts:
            return None
        back = [n for n in ast.walk(parts["backward"]) if isinstance(n, ast.Return) and n.value]
        given = [a.arg for a in parts["forward"].args.args][1:]
        if not back or back[-1].value is None:
            return None
        code = ast.unparse(back[-1].value)
        message = (
            f"Line {error.line} fails: {name}.backward() returns `{code}` (line {back[-1].lineno}), {got} of {wanted} "
            f"gradients: forward() has the arguments {listed(given)}."
        )
        missing = int(wanted) - int(got)
        remedy = "Return one for each argument, in their order, None for those without."
        if missing > 0:
            remedy = f"Return one for each argument, None for those without: return {code}{', None' * missing}."
        return Found("error", "error", error.line, None, message, remedy)
    return None


def _own_backward(trace: Trace, error: ErrorRow, match: re.Match[str]) -> Found | None:
    """A backward() of the cell's own that gives a gradient of another shape than its input has."""
    name, index, got, wanted = match.groups()
    for node in trace.nodes():
        if not isinstance(node, ast.ClassDef) or node.name != name:
            continue
        backward = next((f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "backward"), None)
        back = [n for n in ast.walk(backward) if isinstance(n, ast.Return) and n.value] if backward else []
        if not back:
            return None
        value = back[-1].value
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        part = parts[int(index)] if int(index) < len(parts) else value
        code = ast.unparse(part) if part is not None else ""
        message = (
            f"Line {error.line} fails: {name}.backward() (line {back[-1].lineno}) gives `{code}` of shape ({got}) as "
            f"the gradient of input {index}, whose shape is ({wanted})."
        )
        remedy = f"Give a gradient of the input's own shape, ({wanted}): of every element the loss's slope by it."
        return Found("error", "error", error.line, None, message, remedy)
    return None


def _metric(trace: Trace, error: ErrorRow) -> Found:
    """ReduceLROnPlateau goes by a figure, other schedulers by the count of epochs."""
    lines = trace.texts()
    text = lines[error.line - 1] if error.line and error.line <= len(lines) else ""
    call = re.search(r"([\w.\[\]]+)\.step\(\)", text)
    name = call[1] if call else "scheduler"
    message = (
        f"Line {error.line} calls {name}.step() without a figure: ReduceLROnPlateau lowers the learning rate when the "
        "figure that it is given stops falling."
    )
    remedy = f"Give it the validation loss of the epoch: {name}.step(val_loss)."
    return Found("error", "error", error.line, None, message, remedy)


_NUMBER = re.compile(r"'(?:float|int|numpy\.\w+)' object has no attribute '(\w+)'")


def _number(trace: Trace, error: ErrorRow, method: str) -> Found | None:
    """A method of tensors called on a variable that .item() has made a number."""
    lines = trace.texts()
    if error.line is None or not 0 < error.line <= len(lines):
        return None
    called = re.search(rf"(\w+)\.{method}\b", lines[error.line - 1])
    for node in trace.nodes():
        if not called or not isinstance(node, ast.Assign | ast.AugAssign):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        text = ast.unparse(node.value)
        if any(isinstance(t, ast.Name) and t.id == called[1] for t in targets) and _LEFT.search(text):
            message = (
                f"Line {error.line} calls .{method}() on a Python number: line {node.lineno} made `{called[1]}` one "
            )
            message += f"by `{_LEFT.search(text)[0]}`, which leaves the graph."  # type: ignore[index]
            remedy = "Keep the tensor for backward(), and take .item() of it only to print or to add it up."
            return Found("error", "error", error.line, None, message, remedy)
    return None


_LEFT = re.compile(r"\.item\(\)|float\(|\.numpy\(\)|np\.\w+|\.tolist\(\)")


def other(error: ErrorRow) -> list[Found]:
    """Any other error, in its own words."""
    text = error.message.rstrip(".") or "it says no more"
    if error.type == "KeyError":
        text = f"there is no key {text}"
    article = "an" if error.type[:1] in "AEIOU" else "a"
    message = f"Line {error.line} fails with {article} {error.type}: {text}."
    remedy = "The traceback names the calls that led there."
    return [Found("error", "error", error.line, None, message, remedy)]


def _statement(trace: Trace, line: int | None) -> ast.stmt | None:
    """The innermost statement on a line of the cell."""
    found = [n for n in trace.nodes() if isinstance(n, ast.stmt) and line and n.lineno <= line <= last_line(n)]
    return max(found, key=lambda n: n.lineno, default=None)


def _arguments(trace: Trace, line: int | None) -> list[ast.expr]:
    """The first arguments of the calls of a statement."""
    statement = _statement(trace, line)
    if statement is None:
        return []
    return [n.args[0] for n in ast.walk(statement) if isinstance(n, ast.Call) and n.args]


def _empty(trace: Trace, error: ErrorRow) -> Found:
    """An optimizer of nothing: a generator that was used up, or a model without registered parameters."""
    line = error.line
    message = f"Line {line} makes an optimizer of no parameters: the list that it is given is empty."
    remedy = LISTS
    for given in _arguments(trace, line):
        if isinstance(given, ast.Name) and (used := _used_up(trace, given.id, line)) is not None:
            made, by = used
            message = (
                f"Line {line} makes an optimizer of no parameters: `{given.id}` (line {made}) gives its tensors once"
            )
            message += f", and line {by} has used it up." if by else "."
            remedy = "Call parameters() anew, or keep a list: list(model.parameters())."
            break
        if isinstance(given, ast.Call) and ast.unparse(given.func).endswith("parameters"):
            model = ast.unparse(given.func).rpartition(".")[0]
            message = (
                f"Line {line} makes an optimizer of no parameters: {model} lists none, as layers in a plain list or "
                "dictionary, or made in forward(), are not registered."
            )
            break
    else:
        frozen = _frozen_before(trace, line)
        if frozen is not None:
            message = (
                f"Line {line} makes an optimizer of no parameters: nothing of what it is given wants a gradient since "
                f"line {frozen.lineno} (`{ast.unparse(frozen)}`)."
            )
            remedy = "Give it what is to be trained, such as the new layer, or leave requires_grad on for that."
    return Found("error", "error", line, None, message, remedy)


def _frozen_before(trace: Trace, line: int | None) -> ast.stmt | None:
    """The last statement above a line that says that something wants no gradient."""
    found = []
    for node in trace.nodes():
        off = isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value is False
        off = off and any(isinstance(t, ast.Attribute) and t.attr == "requires_grad" for t in node.targets)  # type: ignore[attr-defined]
        call = node.value if isinstance(node, ast.Expr) else None
        off |= isinstance(call, ast.Call) and ast.unparse(call).endswith(".requires_grad_(False)")
        if off and isinstance(node, ast.stmt) and line and node.lineno < line:
            found.append(node)
    return max(found, key=lambda node: node.lineno, default=None)


def _used_up(trace: Trace, name: str, before: int | None) -> tuple[int, int | None] | None:
    """Where a variable was bound to a generator of parameters, and the last line before that reads it."""
    made = None
    for node in trace.nodes():
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            once = isinstance(node.value, ast.GeneratorExp) or (
                isinstance(node.value, ast.Call)
                and ast.unparse(node.value.func).endswith(("parameters", "filter", "map", "chain"))
            )
            made = node.lineno if once else None
    if made is None or before is None:
        return None
    reads = [
        n.lineno
        for n in trace.nodes()
        if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) and made <= n.lineno < before
    ]
    return made, max(reads, default=None)


def _non_leaf(trace: Trace, error: ErrorRow) -> Found:
    """An optimizer of the result of an op."""
    names = {n.id for given in _arguments(trace, error.line) for n in ast.walk(given) if isinstance(n, ast.Name)}
    made = ""
    for name in names:
        for row in trace.rows:
            line, _, there = where(trace, row.chain)
            statement = _statement(trace, line)
            if not row.requires_grad or not isinstance(statement, ast.Assign):
                continue
            if name in {n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)}:
                made = f"`{name}` is the result of an op (`{code_of(trace, row)}`, {there})"
    message = (
        f"Line {error.line} gives an optimizer what it cannot train: {made or 'a tensor is the result of an op'}, "
    )
    message += "and only leaves get a .grad."
    remedy = (
        "Make it a leaf once its values are right: nn.Parameter(w.detach()), or w = (...).detach().requires_grad_()."
    )
    return Found("error", "error", error.line, None, message, remedy)


def _gradient(trace: Trace, error: ErrorRow) -> str:
    """The expression whose .grad the failing line reads."""
    lines = trace.texts()
    if error.line is None or not 0 < error.line <= len(lines):
        return ""
    found = re.search(r"([\w.\[\]]+)\.grad\b", lines[error.line - 1])
    return found[1] if found else ""


def _none(trace: Trace, error: ErrorRow, name: str) -> Found:
    """A gradient that is None where the line reads it."""
    if not trace.backwards:
        why, remedy = (
            "no backward() has run before it",
            "Run loss.backward() first; before the first one .grad is None.",
        )
    else:
        back = listed([f"line {where(trace, chain)[0]}" for chain in trace.backwards[:2]])
        why = f"backward() on {back} has left it none"
        remedy = (
            "Look whether the loss depends on it, and whether it is a leaf with requires_grad=True; zero_grad() also "
        )
        remedy += "sets .grad to None."
    message = f"Line {error.line} reads {name}.grad, which is None: {why}."
    return Found("error", "error", error.line, None, message, remedy)
