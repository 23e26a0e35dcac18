"""Statements that change less, or more, than they say: a parameter's name that is bound anew in a loop, a list of one
tensor that goes on changing, a mask that is put on once, a loss of the last round alone, tensors of any content."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Trace
from ..finding import Found
from ..order import text_rule
from ..reading.calls import mentions, name_of, operands, rows_at
from ..reading.expressions import losses
from ..reading.scope import Scope
from ..reading.sources import Function, called, names_in

IN_PLACE = re.compile(
    r"^(add|mul|sub|div|copy|fill|zero|clamp|addcmul|lerp|normal|uniform|index_add|scatter|masked_fill)_$"
)
NUMBERS = {"float", "int", "len", "item"}
EMPTY = {"empty", "Tensor", "FloatTensor", "empty_like", "new_empty"}
INITS = re.compile(
    r"for \w+(, \w+)? in \S*(parameters|named_parameters)\(|\.apply\(|load_state_dict|reset_parameters\(\w"
)


@text_rule(349, "parameters()")
def only_the_name(scope: Scope) -> Iterator[Found]:
    """``for p, t in zip(net.parameters(), target.parameters()): t = tau * p + (1 - tau) * t``: no parameter changes."""
    index = scope.index
    for loop in index.kinds.get(ast.For, ()):
        if not re.search(r"parameters\(\)", ast.unparse(loop.iter)):
            continue
        names = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
        inside = [n for s in loop.body for n in ast.walk(s)]
        for node in inside:
            if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
                continue
            name = node.targets[0].id
            uses = [n for n in inside if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
            later = [n for n in uses if (n.lineno, n.col_offset) > (node.end_lineno, node.end_col_offset)]
            if name not in names or later or not isinstance(node.value, ast.BinOp | ast.Call):
                continue
            if name not in names_in(node.value) and len(names) < 2:
                continue
            if ".grad" in ast.unparse(node.value):
                continue  # a step by hand, which another rule tells of
            if isinstance(node.value, ast.Call) and IN_PLACE.match(called(node.value)):
                continue
            message = (
                f"binds {name} to a new tensor (`{ast.unparse(node)}`), and the next turn of the loop binds "
                "it again: "
                "no parameter of the network is changed by that."
            )
            remedy = f"Write into it, under torch.no_grad(): {name}.copy_({ast.unparse(node.value)})."
            yield scope.tell(node, "alias", message, remedy)


@text_rule(350, ".append(")
def one_tensor_in_the_list(scope: Scope) -> Iterator[Found]:
    """``path.append(state)`` and ``state += dt * v`` in a loop: the list holds one tensor many times."""
    trace, source, index = scope.trace, scope.source, scope.index
    for call in index.called("append"):
        loop = next((a for a in source.around(call) if isinstance(a, ast.For | ast.While)), None)
        if loop is None or not call.args or isinstance(loop, ast.AsyncFor):
            continue
        kept = call.args[0].elts if isinstance(call.args[0], ast.Tuple | ast.List) else [call.args[0]]
        names = [k.id for k in kept if isinstance(k, ast.Name)]
        inside = [n for s in loop.body for n in ast.walk(s)]
        for name in names:
            bound = [n for n in inside if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
                     and not isinstance(source.parents.get(n), ast.AugAssign)]  # fmt: skip
            if bound or name in {
                n.id for n in ast.walk(getattr(loop, "target", loop.body[0])) if isinstance(n, ast.Name)
            }:
                continue
            changes = [n for n in inside if _changes(n, name)]
            changes = [n for n in changes if rows_at(trace, source, n) and any(
                r.shape or r.dtype for r in rows_at(trace, source, n))]  # fmt: skip
            if not changes or _a_number(scope, name, changes):
                continue
            node = changes[0]
            message = (
                f"puts {name} into a list in each round (`{ast.unparse(call)}`), and {source.place(node).words} "
                f"changes it in place (`{ast.unparse(node)}`): it is the same tensor each time, so all entries are the "
                "last one."
            )
            remedy = f"Keep a copy: append({name}.clone()); or write {name} = {name} + ..."
            yield scope.tell(call, "alias", message, remedy)


def _a_number(scope: Scope, name: str, changes: list[ast.AST]) -> bool:
    """Whether a variable is a number of Python's, to which numbers of Python's are added."""
    begins = [pair.value for pair in scope.index.given if pair.name == name]
    plain = bool(begins) and all(isinstance(value, ast.Constant) for value in begins)
    added = [node.value for node in changes if isinstance(node, ast.AugAssign)]
    return plain and bool(added) and all(called(value) in NUMBERS for value in added)


def _changes(node: ast.AST, name: str) -> bool:
    """Whether a statement or a call changes a tensor in place."""
    if isinstance(node, ast.AugAssign):
        target = node.target.value if isinstance(node.target, ast.Subscript) else node.target
        return isinstance(target, ast.Name) and target.id == name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        return name_of(node.targets[0].value) == name
    return (
        isinstance(node, ast.Call)
        and bool(IN_PLACE.match(called(node)))
        and name_of(getattr(node.func, "value", node)) in (name,)
    )


@text_rule(351, "weight", trains=True)
def masked_once(scope: Scope) -> Iterator[Found]:
    """``self.weight.data *= mask`` in __init__ alone: the first step fills what was masked."""
    source, index = scope.source, scope.index
    function = index.flow.scope
    if not isinstance(function, Function) or function.name != "__init__":
        return
    kind = next((a for a in source.around(function) if isinstance(a, ast.ClassDef)), None)
    if kind is None or mentions(r"register_hook|parametriz|prune|grad \*=|grad\.mul_", source.text):
        return
    rest = "".join(ast.unparse(n) for n in kind.body if n is not function)
    for node in index.flow.nodes:
        target: ast.expr | None = None
        factor: ast.expr | None = None
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mult):
            target, factor = node.target, node.value
        elif called(node) == "mul_" and isinstance(node, ast.Call) and len(node.args) == 1:
            target, factor = operands(node)
        if target is None or factor is None or "weight" not in ast.unparse(target):
            continue
        name = name_of(factor)
        buffer = re.search(
            rf"register_buffer\(['\"]{re.escape(name)}['\"], .*(tril|triu|ones|zeros|bool|\beye)", source.text
        )
        if not name or not ("mask" in name or buffer) or re.search(rf"mask|\b{re.escape(name)}\b", rest):
            continue
        message = (
            f"puts the mask on the weights when the layer is made (`{ast.unparse(node)}`), and nothing does "
            "so again: "
            "their gradients are those of all weights, so the first step fills in what was masked."
        )
        remedy = "Keep the mask (register_buffer) and multiply in forward(): F.linear(x, self.weight * self.mask)."
        yield scope.tell(node, "unused", message, remedy)


@text_rule(352, "backward", trains=True)
def last_round_alone(scope: Scope) -> Iterator[Found]:
    """``for task in tasks: loss = f(task)`` and one ``loss.backward()`` after it: the others teach nothing."""
    source, index = scope.source, scope.index
    for of, call in losses(index.flow):
        if not isinstance(of, ast.Name):
            continue
        around = list(source.around(call))
        at = source.place(call).line or int(getattr(call, "lineno", 0))
        for loop in index.kinds.get(ast.For, ()):
            if loop in around or loop.end_lineno > at:
                continue
            if next((a for a in source.around(loop) if isinstance(a, ast.For | ast.While)), None) is not next(
                (a for a in around if isinstance(a, ast.For | ast.While)), None
            ):
                continue
            inside = [n for s in loop.body for n in ast.walk(s)]
            given = [n for n in inside if isinstance(n, ast.Assign) and name_of(n.targets[0]) == of.id]
            reads = [n for n in inside if isinstance(n, ast.Name) and n.id == of.id and isinstance(n.ctx, ast.Load)]
            again = [n for n in index.flow.nodes if isinstance(n, ast.Assign) and name_of(n.targets[0]) == of.id
                     and loop.end_lineno < n.lineno <= at]  # fmt: skip
            variables = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
            row = scope.row(given[0].value) if given else None
            every = row is not None and row.reached >= row.count > 1  # backward() has gone through each
            if not given or reads or again or every or not _by_round(inside, variables, given[0]):
                continue
            message = (
                f"makes {of.id} anew in each round of the loop at {source.place(loop).words} "
                f"(`{ast.unparse(given[0])}`), "
                f"and {source.place(call).words} runs backward() once, after it: only the last round trains."
            )
            remedy = f"Add them up: {of.id} = 0 before the loop, and {of.id} = {of.id} + ... in it."
            rows = [row] if row is not None and 0 < row.reached < row.count else []
            yield scope.tell(given[0], "loss", message, remedy, rows=rows)


def _by_round(inside: list[ast.AST], variables: set[str], given: ast.Assign) -> bool:
    """Whether a value depends on the round of the loop, and on nothing that the round before left."""
    names = names_in(given.value)
    if isinstance(given.value, ast.Constant):
        return False
    bound: dict[str, set[str]] = {}
    for node in inside:
        if isinstance(node, ast.Assign):
            for t in node.targets:
                for n in ast.walk(t):
                    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
                        if n.id in names_in(node.value) or n.id in bound:
                            return False  # a state that goes on
                        bound[n.id] = names_in(node.value)
        elif isinstance(node, ast.AugAssign | ast.For | ast.While | ast.If) or called(node) in (
            "append",
            "step",
            "write",
        ):
            return False
    for _ in range(4):
        names = names | {m for n in names for m in bound.get(n, ())}
    return bool(names & variables)


def _kept_from_the_start(scope: Scope) -> Iterator[Found]:
    """``self.total = torch.empty(n)`` in __init__, to which other methods add."""
    source, function = scope.source, scope.flow.scope
    if not isinstance(function, Function) or function.name != "__init__":
        return
    kind = source.parents.get(function)
    inside = [n for n in ast.walk(kind) if n not in set(scope.nodes)] if kind is not None else []
    for node in scope.index.kinds.get(ast.Assign, ()):
        text, value = ast.unparse(node.targets[0]), node.value
        made = ast.unparse(getattr(value, "func", value))
        if called(value) not in EMPTY - {"Tensor", "FloatTensor"} or not re.match(r"(torch|core)\.", made):
            continue
        uses = [n for n in ast.walk(source.tree) if isinstance(n, ast.Attribute) and n.attr == text.rpartition(".")[2]]
        above = [(n, source.parents.get(n)) for n in uses if n is not node.targets[0]]
        adds = [n for n, a in above if n in inside and _adds(a, n)]
        writes = [a for n, a in above if (isinstance(n.ctx, ast.Store) and not isinstance(a, ast.AugAssign))
                  or (isinstance(a, ast.Subscript) and isinstance(a.ctx, ast.Store))
                  or (isinstance(a, ast.Attribute) and re.search(r"_$", a.attr) and not _adds(a, n))]  # fmt: skip
        if not adds or writes or not text.startswith("self."):
            continue
        message = (
            f"makes {text} without values (`{ast.unparse(node)}`), and {source.place(adds[0]).words} adds to it: it "
            "begins with whatever its memory held, and sometimes that is 0."
        )
        yield scope.tell(node, "data", message, f"Begin with zeros: {ast.unparse(value).replace('empty', 'zeros')}.")


def _adds(above: ast.AST | None, node: ast.AST) -> bool:
    """Whether a statement or a method adds to a tensor in place."""
    if isinstance(above, ast.AugAssign):
        return above.target is node and isinstance(above.op, ast.Add | ast.Sub)
    return isinstance(above, ast.Attribute) and above.attr in ("add_", "index_add_", "scatter_add_", "sub_", "addmm_")


@text_rule(353, proof="empty() leaves what the memory held")
def what_was_there(scope: Scope) -> Iterator[Found]:
    """``total = torch.empty(n)`` and ``total[i] += x``: it begins with whatever the memory held."""
    source, index = scope.source, scope.index
    yield from _kept_from_the_start(scope) if "torch.empty(" in source.text else ()
    for name, value, node in index.given if "+=" in source.text else ():
        text = ast.unparse(getattr(value, "func", value))
        if called(value) not in EMPTY or not re.match(r"(torch|core|np|numpy)\.|\w+\.new_empty", text):
            continue
        if called(value) in ("Tensor", "FloatTensor") and not all(map(_sized, getattr(value, "args", ()))):
            continue
        uses = sorted(
            (n for n in index.flow.nodes if isinstance(n, ast.Name) and n.id == name and n.lineno > node.lineno),
            key=lambda n: (n.lineno, n.col_offset),
        )
        if not uses:
            continue
        first = source.parents.get(uses[0])
        top = source.parents.get(first) if isinstance(first, ast.Subscript) and first is not None else first
        if not isinstance(top, ast.AugAssign) or top.value is first:
            continue
        message = (
            f"makes {name} without values (`{ast.unparse(node)}`), and {source.place(top).words} adds to it "
            f"(`{ast.unparse(top)}`): it begins with whatever its memory held, and sometimes that is 0."
        )
        remedy = f"Begin with zeros: {ast.unparse(value).replace('empty', 'zeros').replace('Tensor(', 'zeros(')}."
        yield scope.tell(node, "data", message, remedy)


def _sized(node: ast.expr) -> bool:
    """Whether an argument is a size for sure: a number, or what len() and size() give."""
    return isinstance(getattr(node, "value", None), int) or called(node) in ("len", "size")


@text_rule(354, "Parameter(")
def parameter_of_nothing(scope: Scope) -> Iterator[Found]:
    """``self.a = nn.Parameter(torch.empty(8, 1))`` that nothing sets: it starts with whatever the memory held."""
    trace, source, index = scope.trace, scope.source, scope.index
    if mentions(INITS, source.text):
        return
    for call in index.called("Parameter"):
        made = operands(call)[0] if call.args else None
        if not isinstance(made, ast.Call) or called(made) not in EMPTY:
            continue
        if called(made) in ("Tensor", "FloatTensor") and not all(_whole(trace, a) for a in made.args):
            continue
        above = source.parents.get(call)
        if not isinstance(above, ast.Assign):
            continue
        name = name_of(above.targets[0])
        said = len(
            re.findall(
                rf"(init\.\w+|\w+_)\([^\n]*\b{name}\b|\b{name}(\.data)?(\.\w+_\(|\[[^\]\n]*\] ?=|\.data ?=)",
                source.text,
            )
        )
        if not name or said:
            continue
        named = [leaf for leaf in trace.gradients if leaf.name.rpartition(".")[2] == name]
        if trace.rows and not named:
            continue
        sizes = not any(isinstance(a, ast.Starred | ast.Tuple | ast.List) for a in made.args)
        if sizes and named and len(made.args) not in {len(leaf.shape) for leaf in named}:
            continue  # one argument of a matrix: an array that is made a tensor
        message = (
            f"makes a parameter without values (`{ast.unparse(above)}`), and nothing gives it any: it starts with "
            "whatever its memory held, zeros, numbers beyond all size, or NaN."
        )
        remedy = f"Set it: nn.init.xavier_uniform_(self.{name}), or nn.Parameter(torch.randn(...) * 0.1)."
        yield scope.tell(above, "init", message, remedy)


def _whole(trace: Trace, node: ast.expr) -> bool:
    """Whether an argument is a size: by its value, where the notebook has a variable of that name, or by its looks."""
    if isinstance(node, ast.Name) and node.id in trace.space:
        return isinstance(trace.space[node.id], int)
    return not isinstance(node, ast.List | ast.Tuple | ast.Starred)
