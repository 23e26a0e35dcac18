"""Remedies for the training step: clearing, stepping, what the optimizer holds, learning rates and schedules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from widgets.record import Finding

from ..cell import Cell, Patch, last_name, number
from ..remedies import remedy

OPTIMIZERS = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Adamax", "LBFGS")


def receiver(call: ast.Call) -> str:
    """Return what a method is called on."""
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _optimizers(cell: Cell) -> list[ast.Assign]:
    return [a for a in cell.all(ast.Assign) if isinstance(a, ast.Assign) and isinstance(a.value, ast.Call)
            and last_name(a.value.func) in OPTIMIZERS]  # fmt: skip


def _steppers(cell: Cell) -> list[str]:
    """What `.step()` is called on, schedules apart."""
    made = [ast.unparse(a.targets[0]) for a in _optimizers(cell)]
    called = [receiver(c) for c in cell.calls("step") if not re.search("sched", receiver(c))]
    return list(dict.fromkeys([*made, *called]))


@remedy("zero-grad")
def cleared(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Clear the gradients before backward(), or once a step has used them."""
    backwards = cell.calls("backward", line=finding.line) or cell.calls("backward")
    named = re.search(r"(?:Call|Move) ([\w.]+)\.zero_grad\(\)", finding.remedy)
    names = [named[1]] if named and named[1] != "zero_grad" else _steppers(cell)
    misplaced = cell.calls("zero_grad")
    outer = re.search(r"zero_grad\(\) on line (\d+) runs outside", finding.message)
    if "clears" in finding.message and misplaced:
        for call in cell.calls("zero_grad", line=finding.line):
            statement = cell.of(call)
            earlier = [b for b in cell.calls("backward") if b.lineno <= call.lineno] or cell.calls("backward")
            steps = [s for s in cell.calls("step") if "sched" not in receiver(s)]
            if "after step" in finding.remedy:
                for step in steps:
                    yield Patch("Clear after step()", cell.moved(statement, cell.of(step), below=True))
            for backward in reversed(earlier):
                yield Patch("Clear before backward()", cell.moved(statement, cell.of(backward)))
    if "clears" in finding.message or "steps after the loop" in finding.message:
        for step in [s for s in cell.calls("step") if "sched" not in receiver(s)]:
            for backward in cell.calls("backward"):
                yield Patch("Step after backward()", cell.moved(cell.of(step), cell.of(backward), below=True))
    if outer:
        for call in cell.calls("zero_grad", line=int(outer[1])):
            for backward in backwards:
                yield Patch("Clear in the loop", cell.moved(cell.of(call), cell.of(backward)))
    for name in names:
        for backward in backwards:
            yield Patch("Clear before backward()", cell.splice([cell.before(backward, f"{name}.zero_grad()")]))
        for step in cell.calls("step"):
            if receiver(step) == name:
                yield Patch("Clear after step()", cell.splice([cell.after(step, f"{name}.zero_grad()")]))
    if not names:
        yield from _by_hand(cell)


def _by_hand(cell: Cell) -> Iterator[Patch]:
    """Steps without an optimizer: each parameter's gradient is set back after the statement that uses it."""
    pieces = []
    for node in cell.all(ast.AugAssign, ast.Assign):
        target, _, value = cell.code(node).partition("=")
        used = dict.fromkeys(re.findall(r"([\w.]+)\.grad\b", value))
        if used and ".grad" not in target:
            pieces.append(cell.after(node, *(f"{name}.grad = None" for name in used)))
    if pieces:
        yield Patch("Set the gradient back", cell.splice(pieces))


@remedy("optimizer")
def stepped(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Call backward() and step(), in their order; clip between them."""
    backwards = cell.calls("backward")
    found = re.search(r"Call ([\w.]+)\.(step|backward)\(\) (before|after) ([\w.]+)", finding.remedy)
    if "backward() did not run" in finding.message:
        for step in cell.calls("step", line=finding.line):
            losses = [
                a for a in cell.all(ast.Assign) if isinstance(a, ast.Assign) and "loss" in ast.unparse(a.targets[0])
            ]
            for a in losses[-1:]:
                name = ast.unparse(a.targets[0])
                yield Patch("Call backward()", cell.splice([cell.before(step, f"{name}.backward()")]))
    if "no optimizer.step() follows" in finding.message or (found and found[2] == "step"):
        names = [found[1]] if found and found[1] != "optimizer" else _steppers(cell)
        for name in names:
            for backward in backwards:
                yield Patch(f"Call {name}.step()", cell.splice([cell.after(backward, f"{name}.step()")]))
    if "steps before backward()" in finding.message:
        for step in cell.calls("step", line=finding.line):
            for backward in backwards:
                if backward.lineno > step.lineno or len(backwards) == 1:
                    yield Patch("Step after backward()", cell.moved(cell.of(step), cell.of(backward), below=True))
    if "clips the gradients after step()" in finding.message:
        clip = cell.statement(finding.line)
        for step in cell.calls("step"):
            if clip is not None and step.lineno < clip.lineno:
                yield Patch("Clip before step()", cell.moved(clip, cell.of(step)))
    if "does not call it" in finding.message:
        for statement in cell.statements(finding.line):
            yield Patch("Call it", cell.put((statement, cell.code(statement) + "()")))
    other = re.search(r"Write ([\w.]+)\.step\(\) on line", finding.remedy)
    if other:
        for step in cell.calls("step", line=finding.line):
            yield Patch(f"Step {other[1]}", cell.put((step, f"{other[1]}.step()")))


@remedy("optimizer")
def held(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Give the optimizer what trains: made later, of another model, or with more parameters."""
    models = re.findall(r"\b([\w.]+)\.parameters\(\)", finding.remedy)
    group = re.search(r"once it is full: (\w+\.append\(\w+\))", finding.remedy)
    filling = re.search(r"line (\d+) fills it", finding.message)
    filled = cell.statement(int(filling[1]) if filling else finding.line)
    around = cell.loop(filled) if filled is not None else None
    if group and around is not None:
        yield Patch("Put it among the groups", cell.splice([cell.after(around, group[1])]))
        block = getattr(cell.parents[around], "body", [])
        left = [n for n, then in pairwise([*block, None]) if isinstance(n, ast.For) and "append" in cell.code(n)
                and (then is None or cell.code(then) != group[1])]  # fmt: skip
        yield Patch("Put each among the groups", cell.splice([cell.after(n, group[1]) for n in left]))
    missing = re.findall(r"(?:not hold|those that were trained:) (\w+)", finding.message)
    for assign in _optimizers(cell):
        call = assign.value
        assert isinstance(call, ast.Call)
        if not call.args:
            continue
        first = call.args[0]
        loops = [n for n in cell.tree.body if isinstance(n, ast.For | ast.While)]
        inside = cell.loop(assign)
        if inside is not None and "before the loop" in finding.remedy:
            outer = inside
            while (up := cell.loop(outer)) is not None:
                outer = up
            yield Patch("Make it before the loop", cell.moved(assign, outer))
            made = _model_made_in(cell, outer)
            if made is not None:
                yield Patch("Make both before the loop", _both(cell, made, assign, outer))
        elif inside is None and "once, before the loop" in finding.remedy and loops:
            made = _model_made_in(cell, loops[-1])
            if made is not None and "optimizer after it" in finding.remedy:
                yield Patch("Make the model before the loop", cell.moved(made, assign))
        if "older" in finding.message or "made" in finding.message or "Make the optimizer" in finding.remedy:
            later = [n for n in cell.tree.body if n.lineno > assign.lineno and isinstance(n, ast.For | ast.While)]
            if later and inside is None:
                yield Patch("Make the optimizer after the model", cell.moved(assign, later[0]))
        for model in dict.fromkeys([*models, *missing]):
            if "too" in finding.remedy or "not hold" in finding.message:
                code = cell.code(first)
                if ast.unparse(first).startswith("[") and "**" not in code and "{" not in code:
                    joined = f"{code[:-1].rstrip()}, *{model}.parameters()]"
                elif "{" in code:
                    joined = f"{code[:-1].rstrip()}, {{'params': {model}.parameters()}}]"
                else:
                    joined = f"[*{code}, *{model}.parameters()]"
                yield Patch(f"Give it {model}.parameters() too", cell.put((first, joined)))
                yield Patch(f"Give it {model}", cell.put((first, joined.replace(f"*{model}.parameters()", model))))
            if models:
                yield Patch(f"Give it {model}.parameters()", cell.put((first, f"{model}.parameters()")))


def _model_made_in(cell: Cell, loop: ast.stmt) -> ast.stmt | None:
    for node in ast.walk(loop):
        made = node.value if isinstance(node, ast.Assign) else None
        name = ast.unparse(made.func) if isinstance(made, ast.Call) else ""
        if re.match(r"(nn\.|torch\.nn\.)?[A-Z]\w+$", name) and name.rpartition(".")[2] not in OPTIMIZERS:
            return cell.of(node)
    return None


def _both(cell: Cell, model: ast.stmt, optimizer: ast.stmt, loop: ast.stmt) -> str:
    lines = [*cell.dedented(model), *cell.dedented(optimizer)]
    return cell.splice([cell.without(model), cell.without(optimizer), cell.before(loop, *lines)])


_LAYER = re.compile(r"(?:Linear|Conv\dd|ConvTranspose\dd|BatchNorm\dd|LayerNorm|Embedding|GRU|LSTM|RNN|Dropout)$")

_LAZY = re.compile(r"(?:Linear|Conv\dd|ConvTranspose\dd|BatchNorm\dd)$")


@remedy("optimizer", "no-gradient", "layer")
def made_once(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A layer that is built anew in forward() is made in __init__, lazily where its input's size is not known there."""
    found = re.search(r"self\.(\w+) = (nn\.\w+\(.*?\))\)? and call", finding.remedy)
    name = f"self.{found[1] if found else 'layer'}"
    for call in [c for c in cell.calls(*_names(cell), line=finding.line) if _LAYER.match(last_name(c.func))]:
        home: ast.AST = call
        while not isinstance(home, ast.ClassDef | ast.Module):
            home = cell.parents[home]
        init = next((f for f in home.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"), None)
        if init is None or not isinstance(cell.parents[call], ast.Call | ast.Assign):
            continue
        made, own = cell.code(call), {a.arg for a in init.args.args}
        if not {n.id for part in call.args for n in ast.walk(part) if isinstance(n, ast.Name)} <= own:
            rest = [*call.args[1:], *call.keywords]
            if not {n.id for part in rest for n in ast.walk(part) if isinstance(n, ast.Name)} <= own:
                continue
            kind = last_name(call.func)
            if not _LAZY.match(kind):
                continue
            lazy = cell.code(call.func)[: -len(kind)] + f"Lazy{kind}"
            made = f"{lazy}({', '.join(map(cell.code, rest))})"
        yield Patch("Make it in __init__", cell.splice([
            cell.after(init.body[-1], f"{name} = {made}"), (*cell.span(call), name)]))  # fmt: skip


def _names(cell: Cell) -> set[str]:
    return {last_name(c.func) for c in cell.all(ast.Call)}


@remedy("optimizer")
def in_place(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`p = p - lr * p.grad` binds a name; `p -= ...` changes the parameter."""
    for statement in cell.statements(finding.line):
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
            target, left = ast.unparse(statement.targets[0]), ast.unparse(statement.value.left)
            sign = {ast.Sub: "-=", ast.Add: "+="}.get(type(statement.value.op))
            if sign and target == left:
                change = f"{target} {sign} {cell.code(statement.value.right)}"
                yield Patch("Change it in place", cell.put((statement, change)))


@remedy("learning-rate", "nan", "exploding")
def scaled(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Inputs or targets brought to a mean of 0 and a spread of 1."""
    found = re.search(r"Bring what line (\d+) makes to a mean", finding.remedy)
    direct = re.search(r"Bring the data to a smaller range first: \((\w+) - ", finding.remedy)
    name, made = (direct[1] if direct else ""), None
    if found:
        made = cell.statement(int(found[1]))
        name = ast.unparse(made.targets[0]) if isinstance(made, ast.Assign) else ""
    elif name:
        made = next(
            (a for a in cell.all(ast.Assign) if isinstance(a, ast.Assign) and ast.unparse(a.targets[0]) == name), None
        )  # type: ignore[assignment]
    for each in [n.strip(" ()") for n in name.split(",")]:
        if made is not None and each.isidentifier():
            line = f"{each} = ({each} - {each}.mean()) / {each}.std()"
            text = cell.splice([cell.after(made, line)])
            yield Patch(f"Scale {each}", text)
            for patch in rate(Cell(text), finding):
                yield Patch(f"Scale {each}, {patch.said}", patch.text)


@remedy("learning-rate", "nan", "vanishing", "exploding", "weight-decay")
def rate(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Another learning rate, or weight decay, in powers of ten."""
    says = finding.message + " " + finding.remedy
    if finding.kind not in ("learning-rate", "weight-decay") and "learning rate" not in says:
        return
    if re.search(r"scheduler lower it|mode=|Divide each loss", finding.remedy):  # the rate is right where it begins
        return
    key = "weight_decay" if finding.kind == "weight-decay" else "lr"
    up = "too small" in says
    changes: tuple[float, ...] = (1e3, 1e4, 1e6, 1e8, 1e5) if up else (0.1, 0.01, 1e-3, 1e-4, 1e-5)
    for word in cell.all(ast.keyword):
        if word.arg == key and (value := number(word.value)) is not None:
            for by in changes:
                new = f"{float(f'{value * by:.3g}'):g}"
                if not up or 1e-4 <= float(new) <= 0.2:
                    yield Patch(f"{key}={new}", cell.put((word.value, new)))
    if key == "lr" and not _optimizers(cell):
        for node in cell.all(ast.AugAssign):
            if isinstance(node, ast.AugAssign) and ".grad" in cell.code(node):
                if isinstance(node.op, ast.Add):
                    yield Patch("Subtract the gradient", cell.put((node, cell.code(node).replace("+=", "-=", 1))))
                for constant in [n for n in ast.walk(node.value) if number(n) is not None][:1]:
                    for by in changes[:4]:
                        yield Patch("A smaller step", cell.put((constant, f"{(number(constant) or 0.0) * by:g}")))


@remedy("learning-rate")
def momentum(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A momentum below 1."""
    for word in cell.all(ast.keyword):
        if word.arg == "momentum" and (value := number(word.value)) is not None and value >= 1:
            yield Patch("momentum=0.9", cell.put((word.value, "0.9")))


@remedy("learning-rate")
def schedules(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A schedule that steps once an epoch, after the optimizer, or over as many steps as there are."""
    steps = [c for c in cell.calls("step") if "sched" in receiver(c)]
    whole = re.search(r"number of all calls of [\w.]+: (\d+)", finding.remedy)
    for word in cell.all(ast.keyword):
        if isinstance(word, ast.keyword) and word.arg == "T_max":
            calls = re.search(r"of (\d+) steps", finding.message)
            steps_of = whole[1] if whole else calls[1] if calls else ""
            if steps_of:
                yield Patch(f"T_max={steps_of}", cell.put((word.value, steps_of)))
    for call in steps:
        inner = cell.loop(call)
        outer = cell.loop(inner) if inner is not None else None
        if inner is not None and outer is not None:
            yield Patch("Step it once an epoch", cell.moved(cell.of(call), inner, below=True))
        if "before the optimizer" in finding.message:
            for step in cell.calls("step"):
                if "sched" not in receiver(step):
                    yield Patch("Step it after the optimizer", cell.moved(cell.of(call), cell.of(step), below=True))
    watched = [cell.code(call.args[0]) for call in steps if call.args]
    for call in cell.calls("ReduceLROnPlateau"):
        named = any(word.arg == "mode" for word in call.keywords) or len(call.args) > 1
        rises = any(re.search(r"acc|score|f1|auc|iou", name) for name in watched) or "mode='max'" in finding.remedy
        if not named and rises:
            yield Patch("mode='max'", cell.put((call, f"{cell.code(call)[:-1]}, mode='max')")))
    made = re.search(r"makes (\w+), a \w+, and nothing steps it", finding.message)
    if made:
        for step in cell.calls("step"):
            loop = cell.loop(step)
            outer = cell.loop(loop) if loop is not None else None
            target = loop if outer is not None else cell.of(step)
            if target is not None:
                yield Patch("Step the schedule", cell.splice([cell.after(target, f"{made[1]}.step()")]))
    if "Let the scheduler lower it more slowly" in finding.remedy:
        for word in cell.all(ast.keyword):
            if word.arg == "gamma" and (value := number(word.value)) is not None:
                yield Patch("gamma=0.9", cell.put((word.value, "0.9")))
                yield Patch("gamma=0.99", cell.put((word.value, "0.99")))
        for word in cell.all(ast.keyword):
            if word.arg == "step_size" and (value := number(word.value)) is not None:
                yield Patch("a larger step_size", cell.put((word.value, str(100 * int(value)))))
