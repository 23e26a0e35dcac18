"""What a forward() changes of its input on the way: a shortcut behind an activation in place, an augmentation that goes
on in evaluation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.calls import function_of
from ..reading.passed import attribute
from ..reading.scope import Scope, value_of
from ..reading.sources import Function, called, names_in, sources

ACTIVATIONS = re.compile(r"ReLU6?$|ELU$|SiLU$|Hardswish$|Mish$|^(relu|leaky_relu|elu)$")
AUGMENTS = re.compile(
    r"augment|jitter|cut_?out|cut_?mix|mix_?up|random|spec_?aug|time_?mask|freq_?mask|perturb|corrupt", re.I
)
RANDOM = re.compile(r"(np|numpy)\.random\.|\brng\.|\brandom\.\w|torch\.rand|core\.rand|\.uniform_\(|\.bernoulli")


@text_rule(502, "inplace=True")
def shortcut_rectified(scope: Scope) -> Iterator[Found]:
    """``nn.Sequential(nn.ReLU(inplace=True), ...)`` of x, and then ``+ x``: x is what the activation has left of it."""
    function = scope.flow.scope
    if not isinstance(function, Function) or function.name != "forward":
        return
    for call in (n for n in scope.nodes if isinstance(n, ast.Call) and len(n.args) == 1):
        given, layer = call.args[0], _first(scope, call)
        if layer is None or not isinstance(given, ast.Name) or _fresh(scope, given):
            continue
        same = {given.id} | {p.name for p in scope.index.given if ast.unparse(p.value) == given.id}
        after = next((n for n in _added(scope) if n.lineno >= call.lineno and same & _sides(n)
                      and not _within(n, call)), None)  # fmt: skip
        if after is None:
            continue
        name = next(iter(same & _sides(after)))
        message = (
            f"adds {name} (`{ast.unparse(after)}`) after {scope.place(call).words} has changed it: "
            f"`{ast.unparse(layer)}` ({scope.place(layer).words}) works in place on its input, so the shortcut is "
            "what the activation has left of it."
        )
        remedy = f"Leave its input alone: {ast.unparse(layer).replace('inplace=True', 'inplace=False')}."
        yield scope.tell(layer, "alias", message, remedy)


def _first(scope: Scope, call: ast.Call) -> ast.Call | None:
    """The activation in place that a layer begins with, or is."""
    made: ast.AST | None = attribute(scope.source, call.func) if isinstance(call.func, ast.Attribute) else None
    if called(call) in ("relu", "leaky_relu", "elu") and any(k.arg == "inplace" for k in call.keywords):
        made = call
    while called(made) == "Sequential" and isinstance(made, ast.Call) and made.args:  # type: ignore[arg-type]
        made = made.args[0]
    if not isinstance(made, ast.Call) or not ACTIVATIONS.search(called(made)):
        return None
    return made if any(k.arg == "inplace" and getattr(k.value, "value", None) is True for k in made.keywords) else None


def _fresh(scope: Scope, name: ast.Name) -> bool:
    """Whether a variable is not what forward() was given, and not an other name of it."""
    value = value_of(scope.flow, name)
    bound = any(p.name == name.id and p.node.lineno < name.lineno for p in scope.index.given)
    return bound and not isinstance(value, ast.Name)


def _added(scope: Scope) -> list[ast.BinOp | ast.AugAssign]:
    sums = list(scope.index.binary.get(ast.Add, ()))
    return sums + [n for n in scope.index.kinds.get(ast.AugAssign, ()) if isinstance(n.op, ast.Add)]


def _sides(node: ast.BinOp | ast.AugAssign) -> set[str]:
    parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
    return {p.id for p in parts if isinstance(p, ast.Name)}


def _within(node: ast.AST, call: ast.Call) -> bool:
    """Whether a sum stands in what the call is given."""
    return any(n is node for a in call.args for n in ast.walk(a))


@text_rule(731, "forward", trains=True)
def augmented_in_forward(scope: Scope) -> Iterator[Found]:
    """``x = spec_augment(x)`` in a forward() that does not ask for self.training."""
    source, forward = scope.source, scope.flow.scope
    kind = source.parents.get(forward)
    if not isinstance(forward, Function) or forward.name != "forward" or not isinstance(kind, ast.ClassDef):
        return
    if "self.training" in ast.unparse(kind) or not any("eval" in other.calls for other in sources(scope.trace)):
        return
    given = {a.arg for a in forward.args.args[1:]}
    for pair in scope.index.given:
        call = pair.value
        if not isinstance(call, ast.Call) or not AUGMENTS.search(called(call)):
            continue
        function = function_of(source, call)
        if function is None or "training" in ast.unparse(function) or not RANDOM.search(ast.unparse(function)):
            continue
        if not given & {name for a in call.args for name in names_in(a)}:
            continue
        message = (
            f"changes the samples at random in every mode (`{ast.unparse(call)}`): {kind.name} is judged on what "
            f"{called(call)}() has left of them, and the figure is another one each time."
        )
        remedy = f"Ask first: if self.training: {pair.name} = {ast.unparse(call)}."
        yield scope.tell(call, "mode", message, remedy)
