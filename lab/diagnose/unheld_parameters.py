"""Parameters that get a gradient and that no optimizer holds."""

from __future__ import annotations

import ast
import re

from ..recorder.cell_trace import Leaf, Row, Trace, ancestors
from .finding import Found, capital, listed, made_to_train, verb, where
from .left_unused import group_left_out
from .order import rule
from .training_steps import of_optim
from .user_sources import Source, called, own_nodes, sources

_UNLISTED = re.compile(r"\w+(\.\w+)+\[[^\]]+\](\.|$)")  # a parameter in a module's plain list, or of a module there


@rule(610)
def not_held(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Parameters that get a gradient and that no optimizer holds, beside others of the same model that it holds."""
    if not trace.optimized or trace.steps.idle is not None or trace.error is not None or trace.stopped:
        return []  # an error, or Stop, may have come before the step of another optimizer
    roots = {leaf.name.partition(".")[0] for leaf in trace.optimized if "." in leaf.name}
    left = [leaf for leaf in trace.parameters() if leaf in trace.gradients and leaf not in trace.optimized]
    left = [leaf for leaf in left if leaf not in explained]
    beside = [leaf for leaf in left if leaf.name.partition(".")[0] in roots]
    alone = [leaf for leaf in left if leaf not in beside and made_to_train(leaf)]
    found = []
    if beside:  # what it holds in their place is no second mistake
        read = trace.consumers()
        explained.update(leaf for leaf in trace.optimized if leaf not in trace.gradients and leaf not in read)
    # behind what the optimizer trains, and in training mode: a decoder, say, that was forgotten
    behind = [leaf for leaf in alone if _behind_trained(trace, leaf)]
    alone = [leaf for leaf in alone if leaf not in behind]
    # before what the optimizer trains, and made in this very cell: nobody has trained it yet
    before = [leaf for leaf in alone if _new_before_trained(trace, leaf)]
    alone = [leaf for leaf in alone if leaf not in before]
    for leaves, severity in ((beside, "warning"), (behind, "warning"), (before, "warning"), (alone, "note")):
        if leaves:
            line, col, place = _step_place(trace, leaves)
            message = capital(
                f"{place} steps an optimizer that does not hold {listed(leaves)}: "
                f"{verb(leaves, 'it gets a gradient and stays as it is', 'they get gradients and stay as they are')}."
            )
            remedy = (
                f"Make the optimizer of all of {_all_of(leaves, beside) or 'these '}once the model is complete, or "
                "freeze "
                f"{verb(leaves, 'it', 'them')} with requires_grad_(False)."
            )
            if leaves is not beside and (added := _all_of(leaves, beside)):
                remedy = f"Give the optimizer {added}too, or freeze {verb(leaves, 'it', 'them')}."
            row = _put_to_sleep(trace, leaves) if leaves is alone or leaves is before else None
            if row is not None:
                step = place
                line, col, place = where(trace, row.chain[-1:])
                message = capital(
                    f"{place} runs {listed(sorted({leaf.name.partition('.')[0] for leaf in leaves}))} in evaluation "
                    f"mode, and no optimizer holds {verb(leaves, 'its parameter', 'its parameters')}: gradients are "
                    f"computed for {verb(leaves, 'it', 'them')} all the same, of which {step} takes none."
                )
                remedy = "Run it under torch.no_grad(), or freeze it: .requires_grad_(False), and save that part."
            if unlisted := [leaf.name.partition("[")[0] for leaf in leaves if _UNLISTED.match(leaf.name)]:
                kept = list(dict.fromkeys(unlisted))
                at = made_at(trace, kept[0].rpartition(".")[2]) if len(kept) == 1 else None
                here = f" (line {at})" if at is not None else ""
                plain = verb(kept, f"is a plain list or dictionary{here}", "are plain lists or dictionaries")
                message = (
                    message[:-1] + f"; {listed(kept)} {plain}, of which {kept[0].partition('.')[0]}.parameters() "
                    "knows nothing."
                )
                if at is not None:
                    there = place if place.startswith("line") else "the step"
                    line, col = at, None
                    message = (
                        f"Line {at} keeps {kept[0]} in a plain list or dictionary, of which "
                        f"{kept[0].partition('.')[0]}.parameters() knows nothing: {there} steps an optimizer that does "
                        f"not hold {listed(leaves)}, and {verb(leaves, 'it stays as it is', 'they stay as they are')}."
                    )
                remedy = "Keep modules in nn.ModuleList or nn.ModuleDict."
                if all(leaf.name.endswith("]") for leaf in leaves if _UNLISTED.match(leaf.name)):
                    remedy = "Keep parameters in nn.ParameterList or nn.ParameterDict."
            elif (left_out := group_left_out(sources(trace))) is not None:
                source, node, name = left_out
                there = place
                line, col, place = source.place(node)
                message = capital(
                    f"{place} fills {name} and gives it to no optimizer: {there} steps one that does not hold "
                    f"{listed(leaves)}: {verb(leaves, 'it gets a gradient', 'they get gradients')} and "
                    f"{verb(leaves, 'stays as it is', 'stay as they are')}."
                )
                remedy = f"Put it among the groups, once it is full: groups.append({name})."
            elif late := _late(trace, leaves):
                message = f"{message[:-1]}; {late}."
            elif (thawed := _thawed(sources(trace))) is not None:
                source, node, made_there = thawed
                step = place
                line, col, place = source.place(node)
                message = capital(
                    f"{place} lets {listed(leaves)} be trained after {made_there} has made the optimizer of those that "
                    f"needed a gradient then: {step} steps it without {verb(leaves, 'it', 'them')}, and "
                    f"{verb(leaves, 'it stays as it is', 'they stay as they are')}."
                )
                remedy = "Add them there, optimizer.add_param_group({'params': [...]}), or make it of all parameters."
            elif leaves is before and row is None and (made := _optimizer_made(trace)) is not None:
                message = f"{message[:-1]}; line {made} made it without."
            elif bare := [leaf for leaf in leaves if not leaf.module and leaf in beside and "." in leaf.name]:
                are = verb(bare, "is a plain tensor", "are plain tensors")
                them = verb(bare, "it", "them")
                message = (
                    f"{message[:-1]}; {listed(bare)} {are} and no nn.Parameter, so parameters() leaves {them} out."
                )
                remedy = f"Make {verb(bare, 'it a parameter', 'them parameters')}: self.name = nn.Parameter(...)."
            found.append(Found("optimizer", severity, line, col, message, remedy, [], leaves))
    return found


def _all_of(leaves: list[Leaf], beside: list[Leaf]) -> str:
    """The call that lists some parameters, and a space; "model.parameters() " where that is not plain to see."""
    roots = list(dict.fromkeys(leaf.name.partition(".")[0] for leaf in leaves if "." in leaf.name))
    if len(roots) == 1 and roots[0].isidentifier() and roots[0] != "self":
        return f"{roots[0]}.parameters() "
    return "model.parameters() " if leaves is beside else ""


def _late(trace: Trace, leaves: list[Leaf]) -> str:
    """In words: the line that put a layer in after the one that made the optimizer."""
    made = [n.lineno for n in trace.nodes() if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)
            and of_optim(n.value)]  # fmt: skip
    parts = {leaf.name.rpartition(".")[0] for leaf in leaves}
    for node in trace.nodes():
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Attribute | ast.Subscript) and len(made) == 1 and node.lineno > made[0]:  # type: ignore[attr-defined]
            text = ast.unparse(target).replace("[", ".").replace("]", "")
            if any(part == text or part.startswith(text + ".") for part in parts):
                return f"line {node.lineno} made {ast.unparse(target)} after line {made[0]} had made the optimizer"  # type: ignore[attr-defined]
    return ""


def _thawed(found: list[Source]) -> tuple[Source, ast.AST, str] | None:
    """Where parameters begin to need a gradient that an optimizer of those that did was made without."""
    for source in found:
        for scope in source.scopes():
            made: ast.AST | None = None
            for node in own_nodes(scope):
                if isinstance(node, ast.Call) and of_optim(node) and "requires_grad" in ast.unparse(node):
                    made = node
                elif made is not None and _needs_gradient(node):
                    return source, node, source.place(made).words
    return None


def _needs_gradient(node: ast.AST) -> bool:
    """Whether a statement says that a parameter needs a gradient."""
    if isinstance(node, ast.Assign):
        target, value = node.targets[0], node.value
        true = isinstance(value, ast.Constant) and value.value is True
        return true and isinstance(target, ast.Attribute) and target.attr == "requires_grad"
    if called(node) != "requires_grad_" or not isinstance(node, ast.Call):
        return False
    return not node.args or (isinstance(node.args[0], ast.Constant) and node.args[0].value is True)


def _optimizer_made(trace: Trace) -> int | None:
    """The line that makes the cell's only optimizer."""
    made = [n.lineno for n in trace.nodes() if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)
            and of_optim(n.value)]  # fmt: skip
    return made[0] if len(made) == 1 else None


def _new_before_trained(trace: Trace, leaf: Leaf) -> bool:
    """Whether a module that this cell makes is read by what the optimizer's parameters are applied to."""
    root = leaf.name.partition(".")[0]
    if not leaf.module or not root.isidentifier() or made_at(trace, root) is None or _optimizer_made(trace) is None:
        return False
    for row in trace.rows:
        if row.reached and any(isinstance(r, Leaf) and r in trace.optimized and r.module for r in row.refs):
            inputs = [r for r in row.refs if isinstance(r, Row)]
            if leaf in ancestors(inputs):
                return True
    return False


def _behind_trained(trace: Trace, leaf: Leaf) -> bool:
    """Whether a module reads what parameters of the optimizer have computed, and is not in evaluation mode."""
    readers = trace.consumers()
    stack: list[Leaf | Row] = [leaf]
    seen: set[Leaf | Row] = {leaf}
    while stack and len(seen) < 64:
        for row in readers.get(stack.pop(), ()):
            if row in seen or not row.reached:
                continue
            seen.add(row)
            if trace.roots_of(row.path) in trace.evaluated or row.judged:
                continue
            others = [r for r in row.refs if isinstance(r, Row) and r not in seen]
            if any(isinstance(r, Leaf) and r in trace.optimized and r.module for r in ancestors(others)):
                return True
            stack.append(row)
    return False


def _put_to_sleep(trace: Trace, leaves: list[Leaf]) -> Row | None:
    """The first op that reads some parameters, where all that reads them is in evaluation mode."""
    rows = [row for row in trace.rows if row.reached and any(ref in leaves for ref in row.refs)]
    asleep = [row for row in rows if row.judged or trace.roots_of(row.path) in trace.evaluated]
    return rows[0] if rows and len(asleep) == len(rows) and rows[0].chain else None


def made_at(trace: Trace, attribute: str) -> int | None:
    """The line on which the cell sets an attribute of self, or a variable of that name."""
    for node in trace.nodes():
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            for part in target.elts if isinstance(target, ast.Tuple) else (target,):
                if getattr(part, "attr", getattr(part, "id", "")) == attribute:
                    return node.lineno
    return None


def _step_place(trace: Trace, leaves: list[Leaf]) -> tuple[int | None, int | None, str]:
    """Where a step ran; else where the first of the parameters is read."""
    if trace.steps.last_step:
        return where(trace, trace.steps.last_step)
    reader = next((row for row in trace.rows if any(ref in leaves for ref in row.refs)), None)
    return where(trace, reader.chain if reader is not None else ())
