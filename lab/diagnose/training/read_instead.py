"""The other name of two that is read: an attribute in place of the argument that is to override it, an input in place
of what was made of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.scope import Scope
from ..reading.sources import Function, called, names_in

IGNORED = "an argument that is read nowhere changes nothing"


@text_rule(617)
def argument_ignored(scope: Scope) -> Iterator[Found]:
    """``tau = self.tau if tau is None else tau``, after which each line reads self.tau."""
    function = scope.flow.scope
    if not isinstance(function, Function):
        return
    given = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
    for pair in scope.index.given:
        own = [n for n in ast.walk(pair.value) if isinstance(n, ast.Attribute) and n.attr == pair.name]
        if pair.name not in given or pair.name not in names_in(pair.value) or not own:
            continue
        end = pair.node.end_lineno or pair.node.lineno
        later = [n for n in scope.nodes if getattr(n, "lineno", 0) > end]
        reads = [n for n in later if isinstance(n, ast.Name) and n.id == pair.name and isinstance(n.ctx, ast.Load)]
        instead = [n for n in later if isinstance(n, ast.Attribute) and ast.unparse(n) == ast.unparse(own[0])]
        if reads or not instead:
            continue
        statement = next((a for a in scope.source.around(instead[0]) if isinstance(a, ast.stmt)), None)
        whole = ast.unparse(instead[0])
        message = (
            f"reads {whole}, and {pair.name}, the argument of {function.name}() that {scope.place(pair.node).words} "
            "has settled, is read nowhere: what is given for it counts for nothing."
        )
        text = ast.unparse(statement).partition("\n")[0] if statement is not None else whole
        remedy = f"Read the argument: {text.replace(whole, pair.name)}."
        passed = any(
            k.arg == pair.name for n in scope.source.nodes if called(n) == function.name for k in n.keywords  # type: ignore[attr-defined]
        )  # fmt: skip
        yield scope.tell(instead[0], "unused", message, remedy, proof=IGNORED if passed else "")
        return


@text_rule(619)
def made_and_not_read(scope: Scope) -> Iterator[Found]:
    """``scaled = (x - self.shift) / self.scale``, and ``self.net(x)``: the layers get the input as it was."""
    function = scope.flow.scope
    if not isinstance(function, Function) or scope.trace.error is not None:
        return
    given = {a.arg for a in function.args.args[1:]}
    readers = scope.trace.consumers()
    for pair in scope.index.given:
        of = names_in(pair.value) & given if isinstance(pair.value, ast.BinOp) else set()
        if len(of) != 1 or pair.name.startswith("_") or pair.name in given:
            continue
        (name,) = of
        if any(isinstance(n, ast.Name) and n.id == pair.name and isinstance(n.ctx, ast.Load) for n in scope.nodes):
            continue
        calls = [n for n in scope.nodes if isinstance(n, ast.Call) and n.lineno > pair.node.lineno]
        calls = [
            n for n in calls if ast.unparse(n.func).startswith("self.") and n.args and ast.unparse(n.args[0]) == name
        ]
        row = scope.row(pair.value)
        if not calls or row is None or readers.get(row) or not row.refs:
            continue
        if row.refs[0].shape != row.shape:
            continue
        layer = ast.unparse(calls[0])
        message = (
            f"makes {pair.name} of {name} (`{ast.unparse(pair.node)}`), which no line reads: "
            f"{scope.place(calls[0]).words} gives the layers {name} as it was (`{layer}`)."
        )
        remedy = f"Give them what was made: {layer.replace(f'({name}', f'({pair.name}', 1)}."
        yield scope.tell(pair.node, "unused", message, remedy, rows=[row])
        return
