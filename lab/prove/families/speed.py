"""Remedies for what takes time: work that is done again and again, or one piece at a time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch
from ..remedies import remedy


@remedy("slow", "overhead", "cost")
def before_the_loop(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """What gives the same each time is computed once: the statement moves before its loops, a hook is set once."""
    statement = cell.statement(finding.line)
    if statement is None or not re.search(
        r"again|Register it once|once, before the loop", finding.message + finding.remedy
    ):
        return
    loop = cell.loop(statement)
    needs = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    needs |= {
        n.target.id for n in ast.walk(statement) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }
    while loop is not None and not needs & _made_in(loop, statement):
        yield Patch("Do it once, before the loop", cell.moved(statement, loop))
        loop = cell.loop(loop)


def _made_in(loop: ast.AST, but: ast.stmt) -> set[str]:
    """The names that a loop gives a value to, apart from what one of its statements does."""
    own = set(ast.walk(but))
    stored = [n for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return {n.id for n in stored if n not in own}


@remedy("slow")
def removed(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A hook that a function registers each time it runs is removed before the function returns, or at its end."""
    statement = cell.statement(finding.line)
    if "call .remove()" not in finding.remedy or not isinstance(statement, ast.Expr):
        return
    block = getattr(cell.parents[statement], "body", [])
    if statement in block:
        last = block[-1]
        put = cell.before(last, "hook.remove()") if isinstance(last, ast.Return) else cell.after(last, "hook.remove()")
        code = f"hook = {cell.code(statement)}"
        yield Patch("Remove it at the end", cell.splice([(*cell.span(statement), code), put]))


@remedy("slow")
def switched_off(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """The search for NaN is left out; full_matrices=False; sparse gradients of a table; a detached input."""
    if "anomaly" in finding.message:
        for call in cell.calls("set_detect_anomaly"):
            if call.args:
                yield Patch("Switch it off", cell.put((call.args[0], "False")))
    if "full_matrices=False" in finding.remedy:
        for call in cell.calls("svd", "qr", line=finding.line):
            yield Patch("full_matrices=False", cell.put((call, f"{cell.code(call)[:-1]}, full_matrices=False)")))
    if "sparse=True" in finding.remedy:
        for call in cell.calls("Embedding", line=finding.line):
            # Adam refuses such gradients
            yield Patch("sparse=True", cell.put((call, f"{cell.code(call)[:-1]}, sparse=True)")), guess=True)
    detached = re.search(r"Give `(\w+)\((\w+)\)` a detached input", finding.remedy)
    if detached:
        for call in cell.calls(detached[1], line=finding.line):
            if call.args and cell.code(call.args[0]) == detached[2]:
                yield Patch("Detach it there", cell.put((call.args[0], f"{detached[2]}.detach()")))


@remedy("slow", "cost")
def other_ops(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """cdist for pairs that are spread out; rows looked up for one-hot products; an FFT for a long filter."""
    if "torch.cdist" in finding.remedy:
        found = re.search(r"`(\w+)\[:, None\] - (\w+)\[None\]`", finding.message)
        for assign in cell.all(ast.Assign):
            if found and isinstance(assign, ast.Assign) and assign.lineno == finding.line:
                a, b = found.groups()
                code = cell.code(assign.value)
                distance = f"torch.cdist({a}, {b})"
                squares = f"({a} ** 2).sum(-1)[:, None] - 2 * {a} @ {b}.T + ({b} ** 2).sum(-1)[None]"
                yield Patch("Use cdist", cell.put((assign.value, distance if "sqrt" in code else f"{distance} ** 2")))
                yield Patch(
                    "Use squares", cell.put((assign.value, f"({squares}).sqrt()" if "sqrt" in code else squares))
                )
    if "nn.Embedding" in finding.remedy and "one-hot" in finding.message:
        found = re.search(r"`([\w.]+)\((\w+)\)` multiplies", finding.message)
        for call in cell.calls(found[1].rpartition(".")[2], line=finding.line) if found else []:
            name, rows = found.groups()  # type: ignore[union-attr]
            code = f"F.embedding({rows}.argmax(-1), {name}.weight.T)"
            yield Patch("Look the rows up", cell.put((call, code)))
            yield from _indices(cell, call, name, rows)
    if "Fourier" in finding.remedy:
        for call in cell.calls("conv1d", line=finding.line):
            if len(call.args) == 2:
                signal, taps = map(cell.code, call.args)
                n = f"{signal}.shape[-1] + {taps}.shape[-1] - 1"
                product = f"torch.fft.rfft({signal}, {n}) * torch.fft.rfft({taps}.flip(-1).squeeze(1), {n})"
                code = f"torch.fft.irfft({product}, {n})[..., {taps}.shape[-1] - 1 : {signal}.shape[-1]]"
                yield Patch("Convolve by Fourier transform", cell.put((call, code)))


def _indices(cell: Cell, call: ast.Call, name: str, rows: str) -> Iterator[Patch]:
    """The class numbers, where the one-hot rows are made of them on a line before."""
    for assign in cell.all(ast.Assign):
        if isinstance(assign, ast.Assign) and ast.unparse(assign.targets[0]) == rows:
            hot = re.search(r"one_hot\(([^,]+),", cell.code(assign.value))
            if hot:
                text = cell.put((call, f"F.embedding({hot[1]}, {name}.weight.T)"))
                yield Patch("Look the rows up", text)


_GROWS = re.compile(
    r"([\w.]+) = (\w+)\.(cat|concat|concatenate|vstack|hstack)\([\[(]\1, (.*?)[\])](, [^()]*)?\)$", re.S
)


@remedy("slow", "cost", "overhead")
def gathered(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`cat` once after the loop, of a list; of what else grows in the same loop as well."""
    for statement in cell.statements(finding.line):
        loop = cell.loop(statement)
        if loop is None or not _GROWS.match(cell.code(statement)):
            continue
        pieces = []
        for each in loop.body if statement in loop.body else [statement]:
            found = _GROWS.match(cell.code(each))
            if found:
                name, lib, join, part, rest = found.groups(default="")
                rows = f"{name.replace('.', '_')}_parts"
                pieces += [cell.before(loop, f"{rows} = [{name}]"), (*cell.span(each), f"{rows}.append({part})"),
                           cell.after(loop, f"{name} = {lib}.{join}({rows}{rest})")]  # fmt: skip
        yield Patch("Gather in a list, cat once", cell.splice(pieces))


@remedy("overhead")
def all_at_once(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Rows and neighbours at once, in the place of the loops over them."""
    if "by slices" in finding.remedy:
        for statement in cell.statements(finding.line):
            found = re.match(r"(\w+) = \1 \+ \((\w+)\[(\w+), (\w+)\] - \2\[\3 - 1, \4\]\)\.abs\(\) \+ "
                             r"\(\2\[\3, \4\] - \2\[\3, \4 - 1\]\)\.abs\(\)$", cell.code(statement))  # fmt: skip
            inner = cell.loop(statement)
            outer = cell.loop(inner) if inner is not None else None
            if found and outer is not None:
                total, image = found[1], found[2]
                code = (f"{total} = {total} + ({image}[1:, 1:] - {image}[:-1, 1:]).abs().sum()"
                        f" + ({image}[1:, 1:] - {image}[1:, :-1]).abs().sum()")  # fmt: skip
                yield Patch("Take the differences by slices", cell.put((outer, code)))
    if "all rows at once" in finding.remedy:
        row = cell.statement(finding.line)
        loop = cell.loop(row) if row is not None else None
        if isinstance(loop, ast.For):
            yield from _rows(cell, loop)


def _rows(cell: Cell, loop: ast.For) -> Iterator[Patch]:
    """`for i in range(n): out = model(X[i].unsqueeze(0)); total = total + loss(out, y[i])` over all rows at once."""
    i = ast.unparse(loop.target)
    body = "\n".join(cell.code(s) for s in loop.body)
    whole = re.sub(rf"(\w+)\[{i}\](\.unsqueeze\(0\))?", r"\1", body)
    whole = re.sub(rf"(\w+)\[{i}:{i}\s*\+\s*1\]", r"\1", whole)
    if i in re.findall(r"\w+", whole):
        return
    lines = []
    for line in whole.split("\n"):
        added = re.match(r"(\w+) (?:= \1 \+|\+=) (.*)$", line)
        if added:
            mean = re.search(r"cross_entropy|mse_loss|criterion|loss_fn", added[2])
            count = re.search(r"range\((.*)\)", cell.code(loop.iter))
            many = f" * {count[1]}" if mean and count else ".sum()" if not mean else ""
            value = f"({added[2]}){many}"
            line = f"{added[1]} = {added[1]} + {value}"
        lines.append(line)
    depth = " " * loop.col_offset
    yield Patch("All rows at once", cell.put((loop, f"\n{depth}".join(lines))))
