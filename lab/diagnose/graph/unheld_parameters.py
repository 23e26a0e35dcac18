"""Parameters that get a gradient and that no optimizer holds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import NamedTuple

from ...recorder.cell_trace import Leaf, Row, Trace, ancestors
from ..finding import Found, caller, capital, listed, made_to_train, verb, where
from ..order import rule
from ..reading.sources import Place, Source, called, own_nodes, sources
from ..training.left_unused import group_left_out
from ..training.training_steps import of_optim
from .target_networks import copies_of_trained, followers, is_of, twins_of_trained

QUOTED = 100  # characters of a call that a sentence still holds
_UNLISTED = re.compile(r"\w+(\.\w+)+\[[^\]]+\](\.|$)")  # a parameter in a module's plain list, or of a module there


class _Left(NamedTuple):
    """Parameters that an optimizer left out."""

    leaves: list[Leaf]
    kind: str
    """ "beside" others of the same model that it holds; "behind" what it trains; "before" it, made in this very cell;
    "copied" from what it trains; "alone"."""
    step: Place

    def stays(self) -> str:
        several = "the parameters get gradients and stay as they are"
        return verb(self.leaves, "the parameter gets a gradient and stays as it is", several)

    def them(self) -> str:
        return verb(self.leaves, "it", "them")

    def call(self) -> str:
        """The call that lists them, and a space; "model.parameters() " where that is not plain to see."""
        roots = list(dict.fromkeys(leaf.name.partition(".")[0] for leaf in self.leaves if "." in leaf.name))
        if len(roots) == 1 and roots[0].isidentifier() and roots[0] != "self":
            return f"{roots[0]}.parameters() "
        return "model.parameters() " if self.kind == "beside" else ""


Told = tuple[Place, str, str]
"""Where it is told, the message and the remedy."""


@rule(610)
def not_held(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Parameters that get a gradient and that no optimizer holds, beside others of the same model that it holds."""
    if not trace.optimized or trace.steps.idle is not None or trace.error is not None or trace.stopped:
        return []  # an error, or Stop, may have come before the step of another optimizer
    found = []
    for kind, leaves in _left_out(trace, explained).items():
        if not leaves:
            continue
        left = _Left(leaves, kind, _step_place(trace, leaves))
        place, message, remedy = next(told for tell in _TELLERS if (told := tell(trace, left)) is not None)
        severity = "note" if kind in ("alone", "copied") else "warning"
        found.append(Found("optimizer", severity, place.line, place.col, capital(message), remedy, [], leaves))
    return found


def _left_out(trace: Trace, explained: set[Leaf]) -> dict[str, list[Leaf]]:
    """Return the parameters that no optimizer holds, by how they stand to those that one does."""
    roots = {leaf.name.partition(".")[0] for leaf in trace.optimized if "." in leaf.name}
    got = {leaf for leaf, gradient in trace.gradients.items() if gradient.accumulated}
    left = [leaf for leaf in trace.parameters() if leaf in got and leaf not in trace.optimized]
    left = [leaf for leaf in left if leaf not in explained]
    kinds: dict[str, list[Leaf]] = {"beside": [], "behind": [], "before": [], "copied": [], "alone": []}
    copies = copies_of_trained(trace) if left else {}
    followed = followers(trace) | (set(left) if twins_of_trained(trace, left) else set()) if left else set()
    for leaf in left:
        if leaf in followed and not is_of(leaf, copies):
            continue
        if is_of(leaf, copies):
            kinds["copied"].append(leaf)
        elif leaf.name.partition(".")[0] in roots:
            kinds["beside"].append(leaf)
        elif made_to_train(leaf):
            behind, before = _behind_trained(trace, leaf), _new_before_trained(trace, leaf)
            kinds["behind" if behind else "before" if before else "alone"].append(leaf)
    if kinds["beside"]:  # what it holds in their place is no second mistake
        read = trace.consumers()
        explained.update(leaf for leaf in trace.optimized if leaf not in trace.gradients and leaf not in read)
    return kinds


def _unlisted(trace: Trace, left: _Left) -> Told | None:
    """Told of modules or parameters in a plain list or dictionary of a module."""
    unlisted = [leaf for leaf in left.leaves if _UNLISTED.match(leaf.name)]
    if not unlisted:
        return None
    kept = list(dict.fromkeys(leaf.name.partition("[")[0] for leaf in unlisted))
    owner, step = kept[0].partition(".")[0], left.step
    remedy = "Keep modules in nn.ModuleList or nn.ModuleDict."
    if all(leaf.name.endswith("]") for leaf in unlisted):
        remedy = "Keep parameters in nn.ParameterList or nn.ParameterDict."
    made = _attribute_made(trace, kept[0].rpartition(".")[2]) if len(kept) == 1 else None
    if made is None:
        plain = verb(kept, "is a plain list or dictionary", "are plain lists or dictionaries")
        message = (
            f"{step.words} steps an optimizer that does not hold {listed(left.leaves)}: {left.stays()}; "
            f"{listed(kept)} {plain}, of which {owner}.parameters() knows nothing."
        )
        return step, message, remedy
    message = (
        f"{made.words} keeps {kept[0]} in a plain list or dictionary, of which {owner}.parameters() knows nothing: "
        f"{step.words if step.line is not None else 'the step'} steps an optimizer that does not hold "
        f"{listed(left.leaves)}, and {verb(left.leaves, 'it stays as it is', 'they stay as they are')}."
    )
    return made, message, remedy


def _group(trace: Trace, left: _Left) -> Told | None:
    """Told of a group of parameters that was filled and given to no optimizer."""
    left_out = group_left_out(sources(trace))
    if left_out is None:
        return None
    source, made, filled = left_out
    place, name = source.place(made), ast.unparse(made.targets[0])
    message = (
        f"{place.words} makes {name}, {source.place(filled).words} fills it, and no optimizer is given it: "
        f"{left.step.words} steps one that does not hold {listed(left.leaves)}: {left.stays()}."
    )
    return place, message, f"Put it among the groups, once it is full: groups.append({name})."


def _late(trace: Trace, left: _Left) -> Told | None:
    """Told of a layer that is put in after the optimizer has been made."""
    made = _optimizer_made(trace)
    if made is None:
        return None
    source, call = made
    parts = {leaf.name.rpartition(".")[0] for leaf in left.leaves}
    for node in ast.walk(source.program):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if not isinstance(target, ast.Attribute | ast.Subscript) or node.lineno <= call.lineno:  # type: ignore[attr-defined]
            continue
        text = ast.unparse(target).replace("[", ".").replace("]", "")
        if any(part == text or part.startswith(text + ".") for part in parts):
            place = source.place(node)
            message = (
                f"{place.words} makes {ast.unparse(target)} after {source.place(call).words} has made the optimizer, "
                f"which does not hold {listed(left.leaves)}: {left.step.words} steps it, and {left.stays()}."
            )
            return place, message, _make_of_all(left)
    return None


def _thawed(trace: Trace, left: _Left) -> Told | None:
    """Told of parameters that begin to need a gradient after an optimizer was made of those that did."""
    for source in sources(trace):
        for scope in source.scopes(earlier=True):
            made: ast.AST | None = None
            for node in own_nodes(scope):
                if isinstance(node, ast.Call) and of_optim(node) and "requires_grad" in ast.unparse(node):
                    made = node
                elif made is not None and sets_requires_grad(node, True):
                    place = source.place(node)
                    message = (
                        f"{place.words} lets {listed(left.leaves)} be trained after {source.place(made).words} has "
                        f"made the optimizer of those that needed a gradient then: {left.step.words} steps it without "
                        f"{left.them()}, and {verb(left.leaves, 'it stays as it is', 'they stay as they are')}."
                    )
                    remedy = (
                        f"Add {left.them()} there, optimizer.add_param_group({{'params': [...]}}), or make it of all "
                        "parameters: those without a gradient stay as they are."
                    )
                    return place, message, remedy
    return None


def _asleep(trace: Trace, left: _Left) -> Told | None:
    """Told of a module in evaluation mode whose gradients nobody takes."""
    if left.kind not in ("alone", "before"):
        return None
    row = _put_to_sleep(trace, left.leaves)
    if row is None:
        return None
    place = Place(*where(trace, caller(row.chain)))
    message = (
        f"{place.words} runs {listed(sorted({leaf.name.partition('.')[0] for leaf in left.leaves}))} in evaluation "
        f"mode, and no optimizer holds {verb(left.leaves, 'its parameter', 'its parameters')}: gradients are "
        f"computed for {left.them()} all the same, of which {left.step.words} takes none."
    )
    return place, message, "Run it under torch.no_grad(), or freeze it: .requires_grad_(False), and save that part."


def _copied(trace: Trace, left: _Left) -> Told | None:
    """Told of a target network: its weights come from the one that is trained, and its gradients are for nothing."""
    if left.kind != "copied":
        return None
    copies = copies_of_trained(trace)
    name = next(name for name in copies if is_of(left.leaves[0], [name]))
    reader = next((row for row in trace.rows if row.reached and left.leaves[0] in row.refs), None)
    place = Place(*where(trace, caller(reader.chain))) if reader is not None else left.step
    message = (
        f"{place.words} runs {name} so that gradients are computed for it, and nobody takes them: its weights are "
        f"those of {copies[name]}."
    )
    return place, message, "Run it under torch.no_grad(), or detach what it gives."


def _plain_tensor(trace: Trace, left: _Left) -> Told | None:
    """Told of a module's attribute that is no parameter."""
    bare = [leaf for leaf in left.leaves if not leaf.module and left.kind == "beside" and "." in leaf.name]
    if not bare:
        return None
    made = _attribute_made(trace, bare[0].name.rpartition(".")[2]) if len(bare) == 1 else None
    message = (
        f"{left.step.words} steps an optimizer that does not hold {listed(left.leaves)}: {left.stays()}; "
        f"{listed(bare)} {verb(bare, 'is a plain tensor', 'are plain tensors')} and no nn.Parameter, so parameters() "
        f"leaves {verb(bare, 'it', 'them')} out."
    )
    if made is not None:
        message = (
            f"{made.words} makes {bare[0].name} a plain tensor and no nn.Parameter, so parameters() leaves it out: "
            f"{left.step.words} steps an optimizer that does not hold {listed(left.leaves)}, and {left.stays()}."
        )
    remedy = f"Make {verb(bare, 'it a parameter', 'them parameters')}: self.name = nn.Parameter(...)."
    return made or left.step, message, remedy


def _made_without(trace: Trace, left: _Left) -> Told | None:
    """Told of the line that makes the only optimizer, of other parameters."""
    made = _optimizer_made(trace)
    if made is None or left.kind == "alone":
        return None
    source, call = made
    place = source.place(call)
    code = ast.unparse(call)
    quoted = f" (`{code}`)" if len(code) <= QUOTED else ""
    message = (
        f"{place.words} makes the optimizer without {listed(left.leaves)}{quoted}: {left.step.words} "
        f"steps it, and {left.stays()}."
    )
    return place, message, _make_of_all(left)


def _stepped_without(trace: Trace, left: _Left) -> Told:
    """Told of the step."""
    message = f"{left.step.words} steps an optimizer that does not hold {listed(left.leaves)}: {left.stays()}."
    return left.step, message, _make_of_all(left)


def _make_of_all(left: _Left) -> str:
    """The remedy where nothing more is known than that the optimizer does not hold them."""
    listing = left.call()
    if left.kind != "beside" and listing:
        return f"Give the optimizer {listing}too, or freeze {left.them()}."
    every = listing or "these "
    parts = list(dict.fromkeys(leaf.name.rpartition(".")[0] for leaf in left.leaves))
    if listing and len(parts) <= 3 and all(part.count(".") >= 1 for part in parts):
        missing = listed([re.sub(r"\.(\d+)", r"[\1]", part) + ".parameters()" for part in parts])
        return (
            f"Give the optimizer {missing} as well: make it of all of {every}once the model is complete, or freeze "
            f"{left.them()} with requires_grad_(False)."
        )
    return (
        f"Make the optimizer of all of {every}once the model is complete, or freeze {left.them()} with "
        "requires_grad_(False)."
    )


_TELLERS = (_copied, _unlisted, _group, _late, _thawed, _asleep, _plain_tensor, _made_without, _stepped_without)


def sets_requires_grad(node: ast.AST, value: bool = False) -> bool:
    """Return whether a statement says of parameters that they need a gradient, or that they need none."""
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        of_argument = not value and ast.unparse(node.value).startswith("not ")  # ``p.requires_grad = not freeze``
        same = isinstance(node.value, ast.Constant) and node.value.value is value
        return (same or of_argument) and isinstance(target, ast.Attribute) and target.attr == "requires_grad"
    if called(node) != "requires_grad_" or not isinstance(node, ast.Call):
        return False
    given = node.args[0] if node.args else None
    return value if given is None else isinstance(given, ast.Constant) and given.value is value


def _optimizer_made(trace: Trace) -> tuple[Source, ast.Call] | None:
    """Return the call that makes the only optimizer, and its source."""
    made = [
        (source, node)
        for source in sources(trace)
        for calls in source.calls.values()
        for node in calls
        if of_optim(node)
    ]
    places = {source.place(call).words: (source, call) for source, call in made}
    return next(iter(places.values())) if len(places) == 1 else None


def _attribute_made(trace: Trace, attribute: str) -> Place | None:
    """Return where the user's code sets an attribute, or a variable of that name."""
    for source in sources(trace):
        node = _setting(ast.walk(source.program) if not source.name else source.nodes, attribute)
        if node is not None:
            return source.place(node)
    return None


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
    node = _setting(trace.nodes(), attribute)
    return node.lineno if node is not None else None


def _setting(nodes: Iterable[ast.AST], attribute: str) -> ast.Assign | None:
    """Return the first statement that gives a value to an attribute, or a variable, of a name."""
    for node in nodes:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            for part in target.elts if isinstance(target, ast.Tuple) else (target,):
                if getattr(part, "attr", getattr(part, "id", "")) == attribute:
                    return node  # type: ignore[return-value]
    return None


def _step_place(trace: Trace, leaves: list[Leaf]) -> Place:
    """Where a step ran; else where the first of the parameters is read."""
    if trace.steps.last_step:
        return Place(*where(trace, trace.steps.last_step))
    reader = next((row for row in trace.rows if any(ref in leaves for ref in row.refs)), None)
    return Place(*where(trace, reader.chain if reader is not None else ()))
