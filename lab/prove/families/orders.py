"""Remedies that put things in another order: samples that are shuffled first, a line that belongs before another."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..examples import enclosing, lines_of, on_line
from ..remedies import remedy
from ..rewriting import match, pattern
from .steps import OPTIMIZERS


@remedy("evaluation")
def shuffled_split(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Parts of a random order, where a set whose classes stand one after the other was cut by position."""
    if "Shuffle before the split" not in finding.remedy:
        return
    subsets = [c for c in cell.calls("Subset") if len(c.args) == 2]
    if len(subsets) > 1:
        data = cell.code(subsets[0].args[0])
        parts = [match(pattern("range(*_r)"), c.args[1]) for c in subsets]
        pieces = [cell.before(subsets[0], f"order = torch.randperm(len({data})).tolist()")]
        for call, part in zip(subsets, parts, strict=True):
            bounds = part["_r"] if part is not None else None
            if isinstance(bounds, list):
                cut = [cell.code(b) for b in bounds]
                code = f"order[:{cut[0]}]" if len(cut) == 1 else f"order[{cut[0]} : {cut[1]}]"
                pieces.append((*cell.span(call.args[1]), code))
        yield Patch("Shuffle before the split", cell.splice(pieces))
    for line in lines_of(finding)[:2]:
        cuts = [n for n in on_line(cell, line) if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Slice)]
        names = list(dict.fromkeys(cell.code(n.value) for n in cuts if isinstance(n.value, ast.Name)))
        if names and cuts:
            left = ", ".join(names)
            made = f"{left} = {', '.join(f'{name}[order]' for name in names)}"
            put = cell.before(cuts[0], f"order = torch.randperm(len({names[0]}))", made)
            yield Patch("Shuffle before the split", cell.splice([put]))


@remedy("loop")
def shuffled_batches(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Another order of the samples in each epoch, where batches are slices of them."""
    if "draw an order in each epoch" not in finding.remedy:
        return
    statement = cell.statement(finding.line)
    loop = cell.loop(statement) if statement is not None else None
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
        return
    cuts = [n for n in ast.walk(loop) if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Slice)]
    names = list(dict.fromkeys(n.value.id for n in cuts if isinstance(n.value, ast.Name)
                               and loop.target.id in ast.unparse(n.slice)))  # fmt: skip
    if names:
        made = f"{', '.join(names)} = {', '.join(f'{name}[order]' for name in names)}"
        put = cell.before(loop, f"order = torch.randperm(len({names[0]}))", made)
        yield Patch("Draw an order in each epoch", cell.splice([put]))


@remedy("evaluation", "data")
def one_order(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Parts of one permutation, where each part was of another."""
    if not re.search(r"Draw one: |Draw it once: ", finding.remedy):
        return
    draws = [n for line in lines_of(finding) for n in on_line(cell, line) if isinstance(n, ast.Call)]
    draws = [c for c in dict.fromkeys(draws) if last_name(c.func) == "randperm"]
    if len(draws) > 1:
        first = min(draws, key=lambda c: c.lineno)
        pieces = [(*cell.span(c), "order") for c in draws]
        yield Patch("Draw one", cell.splice([cell.before(first, f"order = {cell.code(first)}"), *pieces]))


@remedy("optimizer")
def later(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """What undoes a load runs before it."""
    load = re.search(r"after line (\d+) has loaded", finding.message)
    statement, loads = cell.statement(finding.line), cell.statement(int(load[1])) if load else None
    if statement is not None and loads is not None:
        yield Patch("Load after it", cell.moved(statement, loads))


@remedy("optimizer")
def added_group(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """What is thawed after the optimizer was made is added to it."""
    made = [a for a in cell.all(ast.Assign) if isinstance(a.value, ast.Call) and last_name(a.value.func) in OPTIMIZERS]
    statement = cell.statement(finding.line)
    if "add_param_group" not in finding.remedy or statement is None:
        return
    part = re.search(r"([\w.\[\]]+)\.(?:parameters\(\)|requires_grad_)", cell.code(statement))
    for optimizer in made if part else ():
        name = ast.unparse(optimizer.targets[0])
        around = cell.around(statement, (ast.For,)) if not isinstance(statement, ast.For) else statement
        named = isinstance(around, ast.For) and part is not None and part[1] in cell.code(around.iter)
        line = f"{name}.add_param_group({{'params': list({part[1] if part else ''}.parameters())}})"
        yield Patch("Add them", cell.splice([cell.after(around if named and around else statement, line)]))


@remedy("optimizer")
def joined(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A layer that is put into a model after the optimizer was made joins it."""
    if "Make the optimizer after the model" not in finding.remedy:
        return
    steps = [c.func.value for c in cell.calls("step", line=finding.line) if isinstance(c.func, ast.Attribute)]
    for layer in cell.all(ast.Assign):
        place, function = layer.targets[0], enclosing(cell, layer)
        made = last_name(layer.value.func) if isinstance(layer.value, ast.Call) else ""
        first = function is not None and function.name == "__init__"
        if isinstance(place, ast.Attribute) and made[:1].isupper() and made not in OPTIMIZERS and not first:
            for optimizer in steps:
                line = f"{ast.unparse(optimizer)}.add_param_group({{'params': list({cell.code(place)}.parameters())}})"
                yield Patch("Add its parameters", cell.splice([cell.after(layer, line)]), guess=True)


@remedy("loop")
def returned_after(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A return that stands in a loop stands behind it."""
    statement = cell.statement(finding.line)
    loop = cell.loop(statement) if statement is not None else None
    if "return behind the loop" in finding.remedy and isinstance(statement, ast.Return) and loop is not None:
        yield Patch("Return after the loop", cell.moved(statement, loop, below=True))


@remedy("evaluation", "loss")
def elsewhere(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A mean is divided once, behind its loop; what two uses share is changed before both."""
    statement = cell.statement(finding.line)
    loop = cell.loop(statement) if statement is not None else None
    if statement is not None and loop is not None and "once, behind the loop" in finding.remedy:
        yield Patch("Divide once, behind the loop", cell.moved(statement, loop, below=True))
    taken = re.search(r"line (\d+) has taken it", finding.message)
    first = cell.statement(int(taken[1])) if taken else None
    if statement is not None and first is not None and "before both" in finding.remedy:
        yield Patch("Change it before both", cell.moved(statement, first))


@remedy("mode")
def in_training_alone(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """What changes samples at random runs in training mode."""
    statement = cell.statement(finding.line)
    if statement is not None and "if self.training" in finding.remedy:
        begin, _, lines = cell.before(statement, "if self.training:", *(f"    {x}" for x in cell.dedented(statement)))
        yield Patch("Ask for the mode first", cell.splice([(begin, cell.without(statement)[1], lines)]))


@remedy("vanishing", "exploding")
def start_values(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Weights of a model that was made before get start values that pass signals on."""
    if not re.search(r"Xavier|Kaiming|[Ss]tart values|smaller weights", finding.remedy) or not finding.parameters:
        return
    model = re.split(r"[.\[]", finding.parameters[0])[0]
    made = [s for s in cell.tree.body if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == model]
    reads = [s for s in cell.tree.body if any(isinstance(n, ast.Name) and n.id == model for n in ast.walk(s))]
    if not model.isidentifier() or not reads:
        return
    for name in ("xavier_uniform_", "kaiming_normal_"):
        lines = (f"for p in {model}.parameters():", "    if p.dim() > 1:",
                 f"        __import__('torch').nn.init.{name}(p)")  # fmt: skip
        put = cell.after(made[-1], *lines) if made else cell.before(reads[0], *lines)
        text = cell.splice([put])
        known = any(n.id == "torch" for n in cell.all(ast.Name))
        new = text.replace("__import__('torch')", "torch") if known else text
        yield Patch(f"{name.split('_')[0].title()}'s start values", new, guess=True)
