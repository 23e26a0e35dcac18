"""Remedies for how a model is judged: by all batches, and by figures of the training part alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch
from ..examples import on_line, quoted
from ..remedies import remedy
from ..rewriting import chain

_FIGURES = ("mean", "std", "var", "min", "max", "amin", "amax", "median", "quantile")


@remedy("evaluation")
def all_batches(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """What is compared of the last batch alone is counted in the loop."""
    ran = re.search(r"after the loop over the batches \(line (\d+)\)", finding.message)
    loop = cell.statement(int(ran[1])) if ran else None
    quotes = [ast.dump(tree) for tree in quoted(finding.message)]
    if not isinstance(loop, ast.For) or finding.line is None:
        return
    for node in on_line(cell, finding.line):
        if isinstance(node, ast.Compare) and ast.dump(node) in quotes:
            added = f"hits += ({cell.code(node)}).sum().item()", f"count += len({cell.code(node.comparators[0])})"
            pieces = [cell.before(loop, "hits, count = 0, 0"), cell.after(loop.body[-1], *added)]
            pieces.append((*cell.span(chain(cell, node)), "(hits / count)"))
            yield Patch("Count in the loop", cell.splice(pieces))


@remedy("evaluation")
def by_the_training_part(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Means and spreads of the part before the cut, where `z[48:]` is the test part."""
    cuts = [tree.slice for tree in quoted(finding.message) if isinstance(tree, ast.Subscript)]
    bounds = [ast.unparse(cut.lower or cut.upper) for cut in cuts  # type: ignore[arg-type]
              if isinstance(cut, ast.Slice) and (cut.lower is None) != (cut.upper is None)]  # fmt: skip
    if not bounds or "of the training part" not in finding.remedy or finding.line is None:
        return
    pieces: list[tuple[ast.AST, str]] = []
    for call in [
        n for n in on_line(cell, finding.line) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
    ]:
        base = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr in _FIGURES else None
        if isinstance(base, ast.Name | ast.Attribute) and ast.unparse(base) not in ("torch", "np", "core"):
            pieces.append((base, f"{cell.code(base)}[:{bounds[0]}]"))
    if pieces:
        yield Patch("By the training part", cell.put(*pieces))


@remedy("evaluation")
def without_augmentation(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """The part that a model is judged by is made without what draws its samples anew: `augment=False`."""
    named = re.search(r"`(\w+)=True`", finding.message)
    if named is None or finding.line is None:
        return
    words = {c: w for c in cell.all(ast.Call) for w in c.keywords if w.arg == named[1] and cell.code(w.value) == "True"}
    if "without the random ones" in finding.remedy:
        for call in reversed([n for n in on_line(cell, finding.line) if isinstance(n, ast.Call) and n in words]):
            yield Patch("Without augmentation", cell.put((words[call].value, "False")))
    for split in cell.statements(finding.line) if "Make the set twice" in finding.remedy else ():
        parts = split.targets[0] if isinstance(split, ast.Assign) else None
        given = split.value.args[:1] if isinstance(split, ast.Assign) and isinstance(split.value, ast.Call) else []
        for call in words if isinstance(parts, ast.Tuple) and given else ():
            made = cell.parents[call]
            if isinstance(made, ast.Assign) and ast.unparse(made.targets[0]) == ast.unparse(given[0]):
                begin, word = cell.span(call)[0], cell.span(words[call].value)
                plain = f"{cell.text[begin : word[0]]}False{cell.text[word[1] : cell.span(call)[1]]}"
                last = ast.unparse(parts.elts[-1])  # type: ignore[union-attr]
                code = f"{last} = torch.utils.data.Subset({plain}, {last}.indices)"
                yield Patch("Its own set without augmentation", cell.splice([cell.after(split, code)]))
