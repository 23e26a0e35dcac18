"""Remedies for data, loading, copies and evaluation: each finding's own sentence says what goes where."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..remedies import remedy


@remedy("data", "loading", "order")
def loaded(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Weights of a sampler by sample; keys without their prefix; an average begun after the weights are loaded."""
    weights = re.search(r"weight of its class: (.+)\.$", finding.remedy)
    for call in cell.calls("WeightedRandomSampler", line=finding.line):
        if weights and call.args:
            for code in _with_labels(cell, weights[1]):
                yield Patch("A weight for each sample", cell.put((call.args[0], code)))
    renamed = re.search(r"(\{(.+?): v for k, v in ([\w.]+)\.items\(\)\})", finding.remedy)
    for call in cell.calls("load_state_dict", line=finding.line):
        if renamed and call.args:
            code = renamed[1].replace(f"{renamed[3]}.items", f"{cell.code(call.args[0])}.items")
            yield Patch("Take the prefix away", cell.put((call.args[0], code)))
    before = re.search(r"before line (\d+) loads", finding.message)
    made, load = cell.statement(finding.line), cell.statement(int(before[1])) if before else None
    if made is not None and load is not None:
        yield Patch("Make it after the weights are loaded", cell.moved(made, load, below=True))


def _with_labels(cell: Cell, code: str) -> Iterator[str]:
    """`class_weight[labels]` with the name that the labels have in the cell: what was counted, or what is loaded."""
    if any(name.id == "labels" for name in cell.all(ast.Name)):
        yield code
    counted = [call.args[0] for call in cell.calls("bincount") if call.args]
    loaded_last = [call.args[-1] for call in cell.calls("TensorDataset") if call.args]
    for node in (*counted, *loaded_last):
        if isinstance(node, ast.Name):
            yield code.replace("[labels]", f"[{node.id}]")


@remedy("data-loader", "overhead")
def by_batches(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Tensors are indexed by a whole batch's numbers, not one by one and stacked."""
    if not isinstance(cell.statement(finding.line), ast.For):  # the line that waits for its data
        return
    for call in cell.calls("DataLoader"):
        given = {word.arg: cell.code(word.value) for word in call.keywords}
        size = given.pop("batch_size", cell.code(call.args[1]) if len(call.args) == 2 else "")
        data = call.args[0] if call.args else None
        tensors = isinstance(data, ast.Call) and last_name(data.func) == "TensorDataset"
        made = [a for a in cell.all(ast.Assign) if isinstance(data, ast.Name) and cell.code(a.targets[0]) == data.id]
        tensors |= any(isinstance(a.value, ast.Call) and last_name(a.value.func) == "TensorDataset" for a in made)
        shuffle, last = given.pop("shuffle", "False"), given.pop("drop_last", "False")
        if tensors and size and not given and shuffle in ("True", "False"):
            rows, lib = cell.code(call.args[0]), "torch.utils.data"
            order = f"{lib}.{'RandomSampler' if shuffle == 'True' else 'SequentialSampler'}({rows})"
            sampler = f"{lib}.BatchSampler({order}, {size}, {last})"
            code = f"{cell.code(call.func)}({rows}, batch_size=None, sampler={sampler})"
            yield Patch("Index by whole batches", cell.put((call, code)))


@remedy("layer")
def repeated(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`[layer, act] * 3` is one layer three times: make each anew."""
    for node in cell.all(ast.BinOp):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.left, ast.List):
            items, count = ", ".join(map(cell.code, node.left.elts)), cell.code(node.right)
            code = f"[layer for _ in range({count}) for layer in ({items},)]"
            yield Patch("Make each anew", cell.put((node, code)))


@remedy("alias")
def bound(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A function that is made in a loop keeps the loop's variable as it is then."""
    named = re.search(r"lambda \.\.\., (\w+)=\1", finding.remedy)
    for node in cell.all(ast.Lambda):
        if named and isinstance(node, ast.Lambda) and node.lineno == finding.line:
            begin, end = cell.span(node)
            head = f"lambda {ast.unparse(node.args)}"
            code = f"{head}, {named[1]}={named[1]}: {cell.code(node.body)}"
            yield Patch("Bind it when it is made", cell.splice([(begin, end, code)]))


@remedy("alias")
def copied(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`new = old` that is written to while it is read becomes a copy."""
    found = re.search(r"(\w+) = (\w+)\.clone\(\)", finding.remedy)
    for assign in cell.all(ast.Assign):
        if found and isinstance(assign, ast.Assign) and cell.code(assign) == f"{found[1]} = {found[2]}":
            yield Patch("Write to a copy", cell.put((assign.value, f"{found[2]}.clone()")))


@remedy("evaluation")
def without_padding(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Only what the loss counts is counted as right."""
    keep = re.search(r"`([^`]+?) == ([^`]+)` compares is (-?\d+)", finding.message)
    for node in cell.all(ast.Compare):
        if keep and isinstance(node, ast.Compare) and node.lineno == finding.line:
            around = cell.text[cell.span(node)[0] - 1] == "("
            code = (
                f"{cell.code(node)})[{keep[2]} != {keep[3]}"
                if around
                else f"({cell.code(node)})[{keep[2]} != {keep[3]}]"
            )
            begin, end = cell.span(node)
            if around and cell.text[end] == ")":
                yield Patch("Count the others alone", cell.splice([(begin, end + 1, code + "]")]))
            else:
                yield Patch("Count the others alone", cell.splice([(begin, end, code)]))


@remedy("unused")
def ended(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """The value of the next state is left out where an episode has ended."""
    done = re.search(r": (\w+), which line \d+ brings, is read nowhere", finding.message)
    for node in cell.all(ast.BinOp):
        if done and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and node.lineno == finding.line:
            code = f"{cell.code(node.right)} * (1 - {done[1]}.float())"
            yield Patch("Leave it out at the end", cell.put((node.right, code)))


@remedy("loss")
def detached(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """What only weighs a loss is taken off the graph."""
    named = re.search(r"Detach it there: (\w+) = ", finding.remedy)
    for assign in cell.all(ast.Assign):
        if named and isinstance(assign, ast.Assign) and cell.code(assign.targets[0]) == named[1]:
            value = assign.value
            if isinstance(value, ast.BinOp):
                for side in (value.right, value.left):
                    yield Patch("Detach it there", cell.put((side, f"{cell.code(side)}.detach()")))
