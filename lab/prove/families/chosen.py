"""Remedies that go on with values where indices, draws or writes in place end the graph."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..remedies import remedy
from ..rewriting import chain, in_its_place


@remedy("cut")
def weighed_rows(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """What an index of the largest scores chooses is weighed by the softmax of these; ranks become soft ones."""
    if "weigh by them what the indices choose" not in finding.remedy:
        return
    for inner in cell.calls("argsort", line=finding.line):
        outer = cell.parents[inner]
        if isinstance(outer, ast.Call) and last_name(outer.func) == "argsort" and len(inner.args) == 1:
            changes = []
            for ranks in cell.calls("argsort"):
                deepest = ranks.args[0] if len(ranks.args) == 1 else None
                if isinstance(deepest, ast.Call) and last_name(deepest.func) == "argsort" and deepest.args:
                    code = in_its_place(cell, ranks, f"({_spread(cell, deepest.args[0])}).sigmoid().sum(1)")
                    changes.append((ranks, code))
            yield Patch("Take soft ranks", cell.put(*changes))
    for statement in cell.statements(finding.line):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        scores = _scores(statement.value)
        name = statement.targets[0].id
        reads = [n for n in cell.all(ast.Name) if n.id == name and n.lineno > statement.lineno]
        for call in [cell.parents[n] for n in reads]:
            if isinstance(call, ast.Call) and call.args and call.args[0] in reads and scores is not None:
                weights = f"{cell.code(scores)}.softmax(-1)" if _plain(scores) else f"({cell.code(scores)}).softmax(-1)"
                rows = f"({cell.code(call)} * {weights}.max(-1, keepdim=True).values)"
                yield Patch("Weigh what they choose", cell.put((call, rows)))
                yield Patch("Weigh all rows", cell.put((call, f"({weights} @ {cell.code(call.func)}.weight)")))


def _spread(cell: Cell, node: ast.expr) -> str:
    """Return the differences of all pairs of a vector, as code."""
    code = cell.code(node) if _plain(node) else f"({cell.code(node)})"
    return f"{code}[:, None] - {code}[None]"


def _plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Call | ast.Attribute | ast.Subscript)


def _scores(node: ast.expr) -> ast.expr | None:
    """Return what an index was taken of: `s` of `s.max(dim=1)[1]`, `s.topk(1).indices`, `s.argmax(1)`."""
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and last_name(node.func) in ("max", "topk", "argmax"):
            method = isinstance(called, ast.Attribute) and ast.unparse(called.value) not in ("torch", "core")
            return called.value if method and isinstance(called, ast.Attribute) else node.args[0]
        node = called.value if isinstance(called, ast.Attribute) else getattr(node, "value", ast.Constant(0))
    return None


@remedy("cut")
def draw_passed_by(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """The one-hot row of a draw passes the gradient on to the probabilities that it was drawn by."""
    if "gumbel_softmax" not in finding.remedy:
        return
    for draw in cell.calls("multinomial", line=finding.line):
        statement = cell.of(draw)
        if not draw.args or not isinstance(statement, ast.Assign):
            continue
        name, p = ast.unparse(statement.targets[0]), cell.code(draw.args[0])
        for hot in cell.calls("one_hot"):
            if hot.args and cell.code(hot.args[0]) == name:
                whole = chain(cell, hot)
                yield Patch(
                    "Pass the gradient by the draw", cell.put((whole, f"({cell.code(whole)} + {p} - {p}.detach())"))
                )


@remedy("optimizer", "slow")
def frozen(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A network that nothing trains is frozen before its loops, or what it gives is taken off the graph."""
    named = re.search(
        r" runs ([\w.]+) (?:in evaluation mode|so that gradients)|nobody uses: .*\bfreeze it: (\w+)\.",
        f"{finding.message} {finding.remedy}", re.S,
    )  # fmt: skip
    statement = cell.statement(finding.line)
    if named is None or statement is None or "under torch.no_grad()" not in finding.remedy:
        return
    outer = statement
    while (loop := cell.loop(outer)) is not None:
        outer = loop
    model = named[1] or named[2]
    yield Patch("Freeze it", cell.splice([cell.before(outer, f"{model}.requires_grad_(False)")]))
    for call in [n for n in ast.walk(statement) if isinstance(n, ast.Call) and cell.code(n.func) == model]:
        yield Patch("Take it off the graph", cell.put((call, f"{cell.code(call)}.detach()")))


@remedy("unused")
def masked_weight(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A mask of weights is kept, and put on where the layer is called."""
    for statement in cell.statements(finding.line) if "Keep the mask (register_buffer)" in finding.remedy else ():
        weight = ast.unparse(getattr(statement, "target", statement)).removesuffix(".data")
        mask = getattr(statement, "value", None)
        around: ast.AST = statement
        while not isinstance(around, ast.ClassDef | ast.Module):
            around = cell.parents[around]
        calls = [f for f in getattr(around, "body", ()) if getattr(f, "name", "") == "forward"]
        reads = [n for f in calls for n in ast.walk(f) if isinstance(n, ast.Attribute) and cell.code(n) == weight]
        if isinstance(statement, ast.AugAssign) and mask is not None and reads:
            pieces = [cell.after(statement, f'self.register_buffer("mask", {cell.code(mask)})')]
            pieces += [(*cell.span(n), in_its_place(cell, n, f"{weight} * self.mask")) for n in reads]
            yield Patch("Keep the mask, and put it on each time", cell.splice(pieces))


@remedy("error")
def written_into_a_copy(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`states[t] = f(states[t - 1])`: the value is computed of the old tensor, and written into a copy."""
    for statement in cell.statements(finding.line) if "write into a clone()" in finding.remedy else ():
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(target, ast.Subscript) and isinstance(statement, ast.Assign):
            name = cell.code(target.value)
            lines = [f"new = {cell.code(statement.value)}", f"{name} = {name}.clone()"]
            pieces = [cell.before(statement, *lines), (*cell.span(statement.value), "new")]
            yield Patch("Write into a clone", cell.splice(pieces))


@remedy("no-gradient")
def of_the_output(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """The loss is computed of what the model gives, which was computed and not used."""
    given = re.search(r"what the model gives, `(.+?)` \(line (\d+)\), is not in it", finding.message)
    made = cell.statement(int(given[2])) if given else None
    if not isinstance(made, ast.Assign) or not isinstance(made.targets[0], ast.Name):
        return
    output = made.targets[0].id
    for call in [c for c in cell.all(ast.Call) if len(c.args) >= 2 and c.lineno >= made.lineno]:
        if re.search(r"loss|entropy|crit", ast.unparse(call.func)):
            for argument in call.args[:2]:
                yield Patch(f"Compute it from {output}", cell.put((argument, output)))


@remedy("loss", "optimizer")
def added_up(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A loss that each turn of a loop makes anew is added up over them."""
    said = re.search(r"(\w+) = 0 before the loop, and \1 = \1 \+", finding.remedy)
    for statement in cell.statements(finding.line) if said else ():
        loop = cell.loop(statement)
        if said and isinstance(statement, ast.Assign) and loop is not None:
            value = in_its_place(cell, statement.value, f"{said[1]} + {cell.code(statement.value)}")
            put = *cell.span(statement.value), value
            yield Patch("Add them up", cell.splice([cell.before(loop, f"{said[1]} = 0"), put]))


@remedy("error")
def other_sizes(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A linear layer of as many features as come."""
    size = re.search(r"(?:A layer of in_features=|Make the layer for them: nn\.Linear\()(\d+)", finding.remedy)
    weight = re.search(r"weight \((\d+), (\d+)\)", finding.message)
    takes = re.search(r"the layer takes (\d+)", finding.message)
    wanted = weight[2] if weight else takes[1] if takes else ""
    gives = weight[1] if weight else (re.findall(r"nn\.Linear\(\d+, (\d+)\)", finding.remedy) or [""])[0]
    for call in cell.calls("Linear") if size and wanted else ():
        parts = dict(zip(("in_features", "out_features"), call.args, strict=False))
        parts |= {word.arg: word.value for word in call.keywords if word.arg}
        if size and {"in_features", "out_features"} <= set(parts):
            taken, given = (_count(cell.code(parts[name])) for name in ("in_features", "out_features"))
            if taken in (wanted, "") and given in (gives, ""):
                text = cell.put((parts["in_features"], size[1]))
                yield Patch(f"in_features={size[1]}", text, guess=not taken)


def _count(code: str) -> str:
    """Return the number that is written out, as `7` or `32 * 7 * 7`; "" of what has names.

    >>> _count("32 * 7 * 7"), _count("hidden")
    ('1568', '')
    """
    factors = code.split("*")
    return str(math.prod(map(int, factors))) if all(f.strip().isdigit() for f in factors) else ""


@remedy("error")
def of_each_batch(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Where the last batch has fewer samples, what is written as their number is asked of the batch."""
    size = re.search(r"after \d+ batch(?:es)? of (\d+) went well", finding.message)
    loop = cell.statement(finding.line)
    loop = loop if isinstance(loop, ast.For) else cell.loop(loop) if loop is not None else None
    if size is None or not isinstance(loop, ast.For):
        return
    first = next((n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)), "")
    batch = [n for n in ast.walk(loop.target) if isinstance(n, ast.Name)]
    if isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "enumerate" and len(batch) > 1:
        first = batch[1].id
    known = {ast.unparse(a.targets[0]) for a in cell.all(ast.Assign) if cell.code(a.value) == size[1]} | {size[1]}
    inside = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Name | ast.Constant)]
    places = [n for n in inside if cell.code(n) in known and not isinstance(getattr(n, "ctx", None), ast.Store)]
    if places and first:
        yield Patch("Ask the batch for its size", cell.put(*((n, f"len({first})") for n in places)))


@remedy("dtype")
def all_in_float32(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Weights in float32, and what they are given: no cast to a narrow dtype is left."""
    if "Keep the weights in float32" in finding.remedy:
        narrow = r"\.to\((?:dtype=)?\w+\.(?:bfloat16|float16|half)\)|\.bfloat16\(\)|\.half\(\)"
        yield Patch("Keep all in float32", re.sub(narrow, "", cell.text))


@remedy("slow")
def longest_of_the_batch(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`[0] * (longest - len(t)) for t in part` fills up to the longest of `part`."""
    if "longest of each batch" not in finding.remedy:
        return
    for made in cell.all(ast.ListComp):
        for node in [n for n in ast.walk(made.elt) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub)]:
            counts = isinstance(node.right, ast.Call) and last_name(node.right.func) == "len"
            if counts and made.lineno == finding.line and len(made.generators) == 1:
                rows = cell.code(made.generators[0].iter)
                yield Patch("Fill up to the longest of the batch", cell.put((node.left, f"max(map(len, {rows}))")))


@remedy("gradient")
def smooth(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """An activation with a curvature, where second derivatives of the network are asked for."""
    if "smooth activation" in finding.remedy:
        for layer, function in (("Tanh", "tanh"), ("SiLU", "silu")):
            text = re.sub(r"\bnn\.(?:Leaky)?ReLU\(\)", f"nn.{layer}()", cell.text)
            text = re.sub(r"\b(\w+)\.relu\(", r"\1.tanh(" if function == "tanh" else "F.silu(", text)
            yield Patch(f"nn.{layer}", text)


@remedy("no-gradient", "cut", "error")
def graph_of_a_derivative(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A derivative that is differentiated again keeps its graph: create_graph=True in place of retain_graph=True."""
    for call in cell.all(ast.Call):
        for word in call.keywords:
            kept = word.arg == "retain_graph" and cell.code(word.value) == "True"
            if kept and last_name(call.func) != "backward":
                yield Patch("create_graph=True", cell.put((word, "create_graph=True")), guess=True)
