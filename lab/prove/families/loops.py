"""Remedies for loops: all rows at once, what is read of a tensor as a list, what is kept, what is computed before."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..examples import enclosing, lines_of, on_line, quoted, with_imports
from ..remedies import remedy
from ..rewriting import match, pattern

SLOW = ("slow", "overhead", "cost", "data-loader")
BY_ROWS = re.compile(
    r"all rows at once|all values at once|whole tensors|all of them|[Aa]ll at once|no turn needs|one row at a time|"
    r"in one call|[Aa]ll points"
)


def loops_of(cell: Cell, finding: Finding) -> list[ast.For]:
    """Return the `for` loops around the lines of a finding, the innermost first."""
    found: list[ast.For] = []
    for line in lines_of(finding):
        node = cell.statement(line)
        loop = node if isinstance(node, ast.For) else cell.loop(node) if node is not None else None
        while loop is not None:
            if isinstance(loop, ast.For) and loop not in found:
                found.append(loop)
            loop = cell.loop(loop)
    return found


def stored(tree: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


# -- all rows at once ----------------------------------------


def sources_of(cell: Cell, target: ast.expr, over: ast.expr) -> tuple[dict[str, str], str] | None:
    """Return what each name of a loop stands for as a whole, and the name that counts: `zip(a, b)`, `range(len(a))`."""
    if isinstance(over, ast.Call) and last_name(over.func) == "range" and len(over.args) == 1:
        return ({}, target.id) if isinstance(target, ast.Name) else None
    if isinstance(over, ast.Call) and last_name(over.func) == "enumerate" and isinstance(target, ast.Tuple):
        inner = sources_of(cell, target.elts[1], over.args[0])
        counts = target.elts[0]
        return (inner[0], counts.id) if inner is not None and isinstance(counts, ast.Name) else None
    if isinstance(over, ast.Call) and last_name(over.func) == "zip" and isinstance(target, ast.Tuple):
        pairs = list(zip(target.elts, over.args, strict=False))
        if all(isinstance(name, ast.Name) for name, _ in pairs):
            return {name.id: cell.code(value) for name, value in pairs if isinstance(name, ast.Name)}, ""
        return None
    if isinstance(target, ast.Name) and isinstance(over, ast.Name | ast.Attribute | ast.Subscript):
        return {target.id: cell.code(over)}, ""
    return None


class _Whole(ast.NodeTransformer):
    """Leaves out the index of a loop: `x[i]`, `x[i].item()` and `x[i : i + 1]` become `x`."""

    def __init__(self, names: dict[str, str], count: str) -> None:
        self.names, self.count, self.left = names, count, False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if last_name(node.func) in ("item", "tolist") and isinstance(node.func, ast.Attribute):
            return self.visit(node.func.value)  # type: ignore[no-any-return]
        if last_name(node.func) in ("float", "int") and isinstance(node.func, ast.Name) and node.args:
            return self.visit(node.args[0])  # type: ignore[no-any-return]
        if last_name(node.func) == "unsqueeze" and isinstance(node.func, ast.Attribute) and self._row(node.func.value):
            return self.visit(node.func.value)  # type: ignore[no-any-return]
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if self._row(node):
            return self.visit(node.value)  # type: ignore[no-any-return]
        return self.generic_visit(node)

    def _row(self, node: ast.AST) -> bool:
        index = node.slice if isinstance(node, ast.Subscript) else None
        if isinstance(index, ast.Slice) and index.lower is not None and index.upper is not None:
            one = f"{self.count} + 1"
            return ast.unparse(index.lower) == self.count and ast.unparse(index.upper) == one
        return isinstance(index, ast.Name) and index.id == self.count != ""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == self.count:
            self.left = True
        return ast.parse(self.names[node.id], mode="eval").body if node.id in self.names else node


@remedy(*SLOW)
def all_rows(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A loop over rows, or a list of what each gives, as one computation of all: by the whole tensors, or by vmap."""
    if not BY_ROWS.search(f"{finding.message} {finding.remedy}"):
        return
    for loop in loops_of(cell, finding):
        found = sources_of(cell, loop.target, loop.iter)
        if found is not None and not loop.orelse:
            yield from _loop_at_once(cell, loop, *found)
    for line in lines_of(finding):
        for node in on_line(cell, line):
            if isinstance(node, ast.ListComp) and len(node.generators) == 1 and not node.generators[0].ifs:
                yield from _list_at_once(cell, node)


def _loop_at_once(cell: Cell, loop: ast.For, names: dict[str, str], count: str) -> Iterator[Patch]:
    lines: list[str] = []
    whole = _Whole(names, count)
    for statement in loop.body:
        line = _at_once(statement, whole)
        if line is None:
            return
        lines.append(line)
    if not whole.left:
        depth = " " * loop.col_offset
        yield Patch("All rows at once", cell.put((loop, f"\n{depth}".join(lines))), guess=True)
    last = loop.body[-1]
    call = last.value if isinstance(last, ast.Expr) else None
    gathers = isinstance(call, ast.Call) and last_name(call.func) == "append" and len(call.args) == 1
    if len(loop.body) == 1 and names and not count and gathers and isinstance(call, ast.Call):
        mapped = f"torch.func.vmap(lambda {', '.join(names)}: {cell.code(call.args[0])})({', '.join(names.values())})"
        kept = cell.code(call.func).removesuffix(".append")
        yield Patch("All rows at once, by vmap", cell.put((loop, f"{kept}.extend({mapped})")), guess=True)


def _at_once(statement: ast.stmt, whole: _Whole) -> str | None:
    """Return what a statement of a loop is for all rows; None where that is not known."""

    def of_all(node: ast.expr) -> str:
        copy = ast.parse(ast.unparse(node), mode="eval").body
        return ast.unparse(whole.visit(copy))

    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Subscript):
            return f"{ast.unparse(target.value)}[:] = {of_all(statement.value)}" if whole._row(target) else None
        value = statement.value
        name = ast.unparse(target)
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and ast.unparse(value.left) == name:
            return f"{name} = {name} + ({of_all(value.right)}).sum()"
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            return f"{ast.unparse(target)} = {', '.join(map(of_all, value.elts))}"
        return f"{ast.unparse(target)} = {of_all(value)}"
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        kept, added = statement.target, of_all(statement.value)
        if isinstance(kept, ast.Subscript) and not whole._row(kept):
            index = kept.slice
            places = [of_all(e) for e in (index.elts if isinstance(index, ast.Tuple) else [index])]
            constant = isinstance(statement.value, ast.Constant)
            rows = f"torch.full_like({places[0]}, {added})" if constant else added
            table = ast.unparse(kept.value)
            return f"{table}.index_put_(({', '.join(places)},), ({rows}).to({table}.dtype), accumulate=True)"
        if isinstance(kept, ast.Name):
            return f"{kept.id} += ({added}).sum()"
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        if last_name(call.func) == "append" and isinstance(call.func, ast.Attribute) and len(call.args) == 1:
            return f"{ast.unparse(call.func.value)}.extend({of_all(call.args[0])})"
    return None


def _list_at_once(cell: Cell, node: ast.ListComp) -> Iterator[Patch]:
    generator = node.generators[0]
    found = sources_of(cell, generator.target, generator.iter)
    if found is None:
        return
    names, count = found
    around = cell.parents.get(node)
    stacked = isinstance(around, ast.Call) and last_name(around.func) in ("stack", "tensor") and len(around.args) == 1
    place: ast.AST = around if stacked and around is not None else node
    whole = _Whole(names, count)
    code = ast.unparse(whole.visit(ast.parse(ast.unparse(node.elt), mode="eval").body))
    if not whole.left:
        yield Patch("All rows at once", cell.put((place, code if stacked else f"list({code})")), guess=True)
    if names and not count:
        mapped = f"torch.func.vmap(lambda {', '.join(names)}: {cell.code(node.elt)})({', '.join(names.values())})"
        yield Patch(
            "All rows at once, by vmap", cell.put((place, mapped if stacked else f"list({mapped})")), guess=True
        )


@remedy(*SLOW)
def counted(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`for p, t in zip(a, b): table[t, p] += 1` of NumPy's arrays is one `np.add.at`."""
    for loop in loops_of(cell, finding):
        found, (inner, *more) = sources_of(cell, loop.target, loop.iter), loop.body
        if found is None or more or not isinstance(inner, ast.AugAssign) or not isinstance(inner.op, ast.Add):
            continue
        kept, index = inner.target, getattr(inner.target, "slice", None)
        places = [ast.unparse(e) for e in (index.elts if isinstance(index, ast.Tuple) else [index]) if e is not None]
        if isinstance(kept, ast.Subscript) and set(places) <= set(found[0]) and isinstance(inner.value, ast.Constant):
            whole = ", ".join(found[0][name] for name in places)
            code = f"__import__('numpy').add.at({cell.code(kept.value)}, ({whole},), {cell.code(inner.value)})"
            plain = re.search(r"^\s*import numpy as np\b", cell.text, re.M) or "np." in cell.text
            yield Patch(
                "Count them at once", cell.put((loop, code.replace("__import__('numpy')", "np") if plain else code)),
                guess=True,
            )  # fmt: skip


# -- single values ----------------------------------------


@remedy(*SLOW)
def as_lists(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`x[i].item()` in a loop is read of a list that is made of the tensor before it."""
    for loop in loops_of(cell, finding)[:3]:
        own = stored(loop)
        pieces: list[tuple[ast.AST, str]] = []
        made: dict[str, str] = {}
        for call in [n for n in ast.walk(loop) if isinstance(n, ast.Call)]:
            row = _single(call)
            if row is None or {n.id for n in ast.walk(row.value) if isinstance(n, ast.Name)} & own:
                continue
            code = cell.code(row.value)
            name = re.sub(r"\W+", "_", code.removeprefix("self.")).strip("_") + "_list"
            indices = row.slice.elts if isinstance(row.slice, ast.Tuple) else [row.slice]
            if any(isinstance(i, ast.Slice) for i in indices):
                continue
            made[name] = code
            pieces.append((call, name + "".join(f"[{cell.code(i)}]" for i in indices)))
        if made:
            first = cell.before(loop, *(f"{name} = {code}.tolist()" for name, code in made.items()))
            changes = [(*cell.span(node), code) for node, code in pieces]
            yield Patch("Make a list of it first", cell.splice([first, *changes]), guess=True)


def _single(call: ast.Call) -> ast.Subscript | None:
    """Return the element that is read as a number: of `x[i].item()`, `float(x[i])`."""
    inner = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "item" else None
    if isinstance(call.func, ast.Name) and call.func.id in ("float", "int") and len(call.args) == 1:
        inner = call.args[0]
    return inner if isinstance(inner, ast.Subscript) else None


@remedy("slow")
def one_array(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A list of arrays, or of numbers, becomes an array before it becomes a tensor."""
    if "element by element" not in finding.message:
        return
    calls = [n for line in lines_of(finding)[:1] for n in on_line(cell, line) if isinstance(n, ast.Call)]
    calls = [c for c in calls if last_name(c.func) in ("tensor", "as_tensor", "Tensor", "FloatTensor") and c.args]
    function = enclosing(cell, calls[0]) if calls else None
    more = [c for c in ast.walk(function) if isinstance(c, ast.Call)] if function is not None else calls
    alike = [c for c in more if any(ast.dump(c.func) == ast.dump(k.func) for k in calls)]
    for chosen in ([c for c in alike if c.args], calls):
        for form in ("__import__('numpy').array({})", "torch.stack(list({}))"):
            changes: list[tuple[ast.AST, str]] = [(c.args[0], form.format(cell.code(c.args[0]))) for c in chosen]
            if changes:
                code = cell.put(*changes)
                plain = re.search(r"^\s*import numpy as np\b", cell.text, re.M)
                yield Patch("Put them together first", code.replace("__import__('numpy')", "np") if plain else code)


# -- what is computed before, and what is kept ----------------------------------------


@remedy("slow")
def once_over_the_data(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`backbone(X[idx])` of each epoch becomes rows of `backbone(X)`, computed before the epochs."""
    if "before the epochs" not in finding.remedy:
        return
    wanted = pattern("_f(_x[_i])")
    for tree in quoted(finding.message):
        for node in [n for line in lines_of(finding) for n in on_line(cell, line)]:
            bound = match(wanted, node) if ast.dump(node) == ast.dump(tree) else None
            loop = loops_of(cell, finding)[-1:] if bound is not None else []
            if bound is None or not loop:
                continue
            f, x, i = (cell.code(part) for part in (bound["_f"], bound["_x"], bound["_i"]))  # type: ignore[arg-type]
            lines = ["with torch.no_grad():", f"    rows = {f}({x})"]
            yield Patch("Run it once over the data", cell.splice([
                cell.before(loop[0], *lines), (*cell.span(node), f"rows[{i}]")]))  # fmt: skip


@remedy("slow", "cost", "data-loader")
def kept_in_init(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """What a method makes of `self` alone, and gives the same each time, is made in `__init__`."""
    if not re.search(r"again and again|same again|once, before", f"{finding.message} {finding.remedy}"):
        return
    for line in lines_of(finding)[:2]:
        for statement in cell.statements(line):
            function = enclosing(cell, statement)
            home = cell.parents.get(function) if function is not None else None
            if function is None or not isinstance(home, ast.ClassDef) or not isinstance(statement, ast.Assign):
                continue
            if not isinstance(statement.targets[0], ast.Name):
                continue
            read = {n.id for n in ast.walk(statement.value) if isinstance(n, ast.Name)}
            inits = [f for f in home.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
            if inits and function is not inits[0] and "self" in read and not read & _arguments(cell, function):
                name = statement.targets[0].id
                put = cell.after(inits[0].body[-1], f"self.{name} = {cell.code(statement.value)}")
                yield Patch(
                    "Make it in __init__", cell.splice([put, (*cell.span(statement.value), f"self.{name}")]), guess=True
                )


def _arguments(cell: Cell, function: ast.FunctionDef) -> set[str]:
    """Return the names that a function is given or binds, but for `self`."""
    return ({a.arg for a in function.args.args} | stored(function)) - {"self"}


@remedy(*SLOW)
def remembered(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """What a data set loads or decodes for a sample is kept; so is what a function makes of numbers."""
    if finding.kind == "slow" and "again" not in finding.message:
        return
    of_numbers = finding.kind in ("overhead", "cost")
    functions: list[ast.FunctionDef] = []
    for line in lines_of(finding)[:2]:
        statement = cell.statement(line)
        inner = enclosing(cell, statement) if statement is not None else None
        home = cell.parents.get(inner) if inner is not None else None
        around: Sequence[ast.stmt] = home.body if isinstance(home, ast.ClassDef) else ()
        loads = [f for f in around if isinstance(f, ast.FunctionDef) and f.name == "__getitem__"]
        functions += [f for f in (inner, *loads) if f is not None and f not in functions and f.name != "__init__"]
    for function in functions:
        method = any(a.arg == "self" for a in function.args.args)
        if not function.decorator_list and len(function.args.args) > 0 and not (of_numbers and method):
            put = cell.before(function, "@functools.lru_cache(maxsize=None)")
            yield Patch("Keep what is loaded", with_imports("functools.", cell, put), guess=True)


@remedy("slow")
def places_by_name(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`words.index(w)` is looked up in a dict that is made once."""
    if "dict of the places" not in finding.remedy:
        return
    wanted = pattern("_l.index(_w)")
    for node in [n for line in lines_of(finding) for n in on_line(cell, line)]:
        bound = match(wanted, node)
        if bound is None or not isinstance(bound["_l"], ast.Name) or not isinstance(bound["_w"], ast.AST):
            continue
        words, word = bound["_l"].id, cell.code(bound["_w"])
        made = [s for s in cell.tree.body if isinstance(s, ast.Assign) and words in stored(s)]
        outer = next(s for s in cell.tree.body if s.lineno <= node.lineno <= (s.end_lineno or 0))  # type: ignore[attr-defined]
        line = f"{words}_places = {{w: k for k, w in enumerate({words})}}"
        put = cell.after(made[-1], line) if made else cell.before(outer, line)
        yield Patch("Make a dict once", cell.splice([put, (*cell.span(node), f"{words}_places[{word}]")]))


@remedy("slow")
def behind_the_loop(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """What only the last turn's result is read of moves behind the loop."""
    if "behind the loop" not in finding.remedy:
        return
    for statement in cell.statements(finding.line):
        loop = cell.loop(statement)
        if loop is not None:
            yield Patch("Move it behind the loop", cell.moved(statement, loop, below=True))
