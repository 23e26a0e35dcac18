"""Steps that train something else than was meant, or nothing: gradients that pile up, are cleared too early, belong to
tensors that no optimizer holds."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Chain, Leaf, OptimizerFacts, Trace, ancestors
from ..finding import Found, capital, last_line, listed, made_to_train, verb, where
from ..order import rule
from ..reading.sources import sources


@rule(570, proof="the steps and what they cleared were counted")
def piled_up(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """No zero_grad() between two steps."""
    chain = trace.steps.stale
    if chain is None:
        return []
    line, col, place = where(trace, chain)
    piled = trace.steps.piled
    moved = [leaf for leaf in trace.gradients if leaf not in trace.optimized]
    steps = piled.steps if piled is not None else -(-trace.steps.by_hand // max(len(moved), 1))
    name = optimizer_name(trace, piled) if piled is not None else ""
    several = len(trace.steps.optimizers) > 1 and name != "the optimizer"
    who = f"between the steps of {name}" if several else "between the steps"
    message = capital(
        f"{place} adds its gradients to those that a step has used already: nothing clears them {who}, so every step "
        f"goes by the sum of all batches so far ({steps:,} steps)."
    )
    remedy = f"Call {name if name != 'the optimizer' else 'optimizer'}.zero_grad() before backward()."
    clears = [at for at, _ in calls(trace, "zero_grad") if line is not None and _outside(trace, at, line)]
    if piled is not None and len(clears) == 1 and clears[0] < line and name in trace.texts()[clears[0] - 1]:  # type: ignore[operator]
        remedy = f"Move {name}.zero_grad() from line {clears[0]} into the loop, before backward()."
        message = capital(
            f"{place} adds its gradients to those that a step has used already: {name}.zero_grad() on line {clears[0]} "
            f"runs outside the loop over the batches, and {piled.stale:,} of {steps:,} steps go by sums of batches."
        )
    if piled is None:
        remedy = "Set the gradient back after each step: w.grad = None, or w.grad.zero_()."
    return [Found("zero-grad", "warning", line, col, message, remedy)]


def optimizer_name(trace: Trace, facts: OptimizerFacts) -> str:
    """What the line of its step calls an optimizer."""
    place = trace.own_place(facts.step_at)
    found = re.match(r"([\w.\[\]'\"]+)\.step\(", place.code) if place is not None else None
    return found[1] if found else "the optimizer"


@rule(260)
def other_stepped(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """An optimizer whose parameters get gradients and that is never stepped, in a cell that steps another."""
    facts = trace.steps
    if trace.error is not None or trace.stopped:  # its turn may have been to come
        return []
    for name, leaves in facts.unused or _unstepped(trace):
        trained = [leaf for leaf in leaves if leaf in trace.gradients and leaf not in explained]
        if not trained:
            continue
        # the backward() that is theirs: of those that reach them the one that reaches fewest others
        chains = [(len(ancestors(roots)), c) for c, roots in trace.roots.items() if trained[0] in ancestors(roots)]
        back = min(chains, key=lambda pair: pair[0])[1] if chains else trace.backwards[-1]
        after = facts.followed.get(back, facts.last_step)
        stepped = next((o for o in facts.optimizers if o.step_at == after), facts.optimizers[-1])
        line, col, place = where(trace, after)
        explained.update(trained)
        there, get = where(trace, back)[2], verb(trained, "gets a gradient", "get gradients")
        stays = verb(trained, "stays as it is", "stay as they are")
        message = capital(
            f"{place} steps {optimizer_name(trace, stepped)}, and nothing steps {name}, which holds {listed(trained)}: "
            f"{verb(trained, 'it', 'they')} {get} from backward() on {there} and {stays}."
        )
        remedy = f"Call {name}.step() after backward() on {there}."
        its = optimizer_name(trace, stepped)
        if len([at for at in calls(trace, "step") if trace.texts()[at[0] - 1].lstrip().startswith(its)]) > 1:
            remedy = f"Write {name}.step() on {place}."
        return [Found("optimizer", "warning", line, col, message, remedy, [], trained)]
    return []


def _unstepped(trace: Trace) -> list[tuple[str, list[Leaf]]]:
    """An optimizer inside a function, of which only the source tells: it is made and cleared, and never stepped."""
    left = [leaf for leaf in trace.parameters() if leaf in trace.gradients and leaf not in trace.optimized]
    left = [leaf for leaf in left if made_to_train(leaf)]
    if not left or not trace.steps.count:
        return []
    made = {
        ast.unparse(target)
        for node in trace.nodes()
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and of_optim(node.value)
        for target in (node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets)
    }
    used = {name: {ast.unparse(n.func.value) for n in trace.nodes()  # type: ignore[attr-defined]
                   if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == name}
            for name in ("zero_grad", "step")}  # fmt: skip
    names = sorted((made & used["zero_grad"]) - used["step"])
    return [(names[0], left)] if len(names) == 1 else []


def of_optim(call: ast.Call) -> bool:
    text = ast.unparse(call.func)
    return "optim." in text or text in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad")


@rule(200)
def cleared(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """zero_grad() between backward() and step()."""
    chain = trace.steps.cleared
    if chain is None:
        return []
    step, _, place = where(trace, chain)
    back = where(trace, trace.steps.last_backward)[0]
    if step is not None and back is not None and step < back and not _outside(trace, step, back):
        message = capital(
            f"{place} steps before backward() of the same pass ({where(trace, trace.steps.last_backward)[2]}): what "
            "the pass before has made is cleared by then, so step() has nothing to go by."
        )
        remedy = "The order of a step is zero_grad(), the loss, backward(), step()."
        return [Found("optimizer", "error", step, None, message, remedy)]
    spots = calls(trace, "zero_grad")
    clears = [at for at, _ in spots]
    before = back is not None and clears and all(at < back for at in clears)
    if before and len({_function(trace, at) for at in (*clears, back)}) == 1:  # type: ignore[arg-type]
        return []  # they are zero by themselves
    # in a function it stands elsewhere than between the two
    line, col = _call_between(trace, "zero_grad", back, step) or (spots[0] if len(spots) == 1 else (step, None))
    at = f"line {line}" if line != step else place
    message = capital(
        f"{at} clears the gradients after backward() has made them, so step() on {place} has nothing to go by and the "
        "parameters do not change."
    )
    return [Found("zero-grad", "error", line, col, message, "Call zero_grad() before backward(), not after it.")]


def _call_between(trace: Trace, name: str, first: int | None, last: int | None) -> tuple[int, int] | None:
    """Where the cell calls a method between two lines."""
    if first is None or last is None:
        return None
    return next((at for at in calls(trace, name) if first <= at[0] <= last), None)


@rule(240)
def nothing_held(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A step of tensors that got no gradient: backward() did not run, or the optimizer holds others."""
    always = trace.steps.idle_always
    if always is not None and not any(leaf in explained for leaf in always[2]):
        others = [leaf for leaf in trace.gradients if leaf not in trace.optimized and made_to_train(leaf)]
        if others:
            explained.update(others)
            explained.update(always[2])
            return [_others(trace, always[1], others)]
    if trace.steps.strangers[1] > 1 and trace.steps.strangers[1] >= (trace.steps.count - 1) // 2:
        line, col, place = where(trace, trace.steps.strangers[0])
        stepped = [leaf for leaf, at in trace.steps.stepped.items() if at == trace.steps.strangers[0]]
        if not any(leaf in explained for leaf in stepped) and not _ran_in_vain(trace, stepped):
            held = [leaf for leaf in trace.optimized if leaf in trace.gradients]
            message = capital(
                f"{place} steps an optimizer whose parameters get no gradient ({trace.steps.strangers[1]:,} of "
                f"{trace.steps.count:,} steps): backward() reaches others that no optimizer holds, made after it."
            )
            remedy = "Make the model once, before the loop, and the optimizer after it."
            explained.update(held)
            return [Found("optimizer", "error", line, col, message, remedy, [], held)]
    chain = trace.steps.idle
    if chain is None or trace.steps.cleared is not None or any(leaf in explained for leaf in trace.steps.idle_leaves):
        return []
    line, col, place = where(trace, chain)
    held = [leaf for leaf in trace.steps.idle_leaves if leaf.requires_grad]
    if any(leaf in trace.gradients for leaf in held):
        return []  # they got theirs in a later step
    others = [leaf for leaf in trace.gradients if leaf not in trace.optimized]
    if others and not _ran_in_vain(trace, held):
        explained.update(held)
        return [_others(trace, chain, others)]
    if not trace.backwards and not trace.failed:
        message = capital(f"{place} steps without gradients: backward() did not run, so the parameters do not change.")
        remedy = "Call loss.backward() before optimizer.step()."
        return [Found("optimizer", "error", line, col, message, remedy, [], held)]
    return []


def _ran_in_vain(trace: Trace, leaves: list[Leaf]) -> bool:
    """Whether ops read parameters that no gradient ever came to: not the optimizer is at fault, but the way between."""
    readers = trace.consumers()
    return any(
        row.phase == "forward" for leaf in leaves if leaf not in trace.gradients for row in readers.get(leaf, ())
    )


def _others(trace: Trace, chain: Chain, others: list[Leaf]) -> Found:
    line, col, place = where(trace, chain)
    remade = _made_after(trace, others)
    held = [leaf for leaf in trace.optimized if leaf not in others]
    named = {leaf.name.partition(".")[0] for leaf in held if "." in leaf.name}
    holds = f"what it holds ({listed(held)})" if named and not remade else "what it holds"
    copied = _copied(trace, {leaf.name.partition(".")[0] for leaf in others})
    message = capital(
        f"{place} steps an optimizer that holds other tensors than those that were trained: {listed(others)} "
        f"{verb(others, 'gets a gradient', 'get gradients')} and {verb(others, 'is', 'are')} not in it; {holds} got "
        f"none{remade}{copied}."
    )
    remedy = f"Make the optimizer after the model, of the parameters of the model that runs{_made_earlier(trace)}."
    roots = list(dict.fromkeys(leaf.name.partition(".")[0] for leaf in others if "." in leaf.name))
    if named and roots and not remade and not named & set(roots):
        made = [n for n in trace.nodes() if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)]
        at = [n.lineno for n in made if isinstance(n.value, ast.Call) and of_optim(n.value)]
        there = f"on line {at[0]} " if len(at) == 1 else ""
        remedy = f"Give the optimizer {there}the parameters that train: {roots[0]}.parameters()."
    return Found("optimizer", "error", line, col, message, remedy, [], others)


def _made_earlier(trace: Trace) -> str:
    """In words: the line of an earlier cell or a file that made the only optimizer."""
    made = {s.place(call).words for s in sources(trace) for calls in s.calls.values() for call in calls
            if of_optim(call)}  # fmt: skip
    there = made.pop() if len(made) == 1 else "line"
    return "" if there.startswith("line") else f": it was made on {there}"


def _made_after(trace: Trace, others: list[Leaf]) -> str:
    """In words: the line that made the model, where it stands after the one that made the optimizer."""
    roots = {leaf.name.partition(".")[0] for leaf in others if "." in leaf.name}
    models = [n for n in trace.nodes() if isinstance(n, ast.Assign) and roots & {ast.unparse(t) for t in n.targets}]
    optimizers = [
        n for n in trace.nodes() if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and of_optim(n.value)
    ]
    if not models or len(optimizers) != 1 or not optimizers[0].lineno < models[-1].lineno:
        return ""
    name = ast.unparse(models[-1].targets[0])
    return f" (line {optimizers[0].lineno} made it before line {models[-1].lineno} made {name})"


@rule(220, proof="the steps of each optimizer were counted")
def made_anew(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """An optimizer with averages that is made for each step, so that they never come to be."""
    facts = trace.steps
    if len(facts.anew) < 2 or len(facts.anew) < facts.count - 1:
        return []
    name = facts.anew[-1]
    step, _, place = where(trace, facts.last_step)
    line, col = next(iter(calls(trace, name)), (step, None))
    message = capital(
        f"line {line} makes a new {name} for every step ({facts.count:,} steps{f', {place}' if line != step else ''}): "
        "what it remembers of the steps before begins at zero each time."
    )
    return [Found("optimizer", "warning", line, col, message, "Make the optimizer once, before the loop.")]


@rule(230)
def remade(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A model and its optimizer that are made anew in every iteration: each makes one step."""
    facts = trace.steps
    made = facts.optimizers
    if len(made) < 3 or facts.anew or any(o.steps > 1 or o.kind != made[0].kind for o in made):
        return []
    if len({o.step_at for o in made}) > 1 or len({o.rates[0] for o in made}) > 1 or trace.error is not None:
        return []
    line, col, place = where(trace, facts.last_step)
    names = {leaf.name.partition(".")[0] for leaf in trace.optimized}
    back = where(trace, facts.last_backward)[0]
    nodes = [n for n in trace.nodes() if isinstance(n, ast.Assign) and names & {ast.unparse(t) for t in n.targets}]
    looped = [n for n in nodes if _looped(trace, n, back)]
    does = f"{place} steps a model that is made anew"
    if not looped and len(nodes) == 1:
        looped = _made_by_call(trace, nodes[0], back)
    for node in (looped or (nodes if len(nodes) == 1 else []))[-1:]:  # one in a function may be called in a loop
        line, col = node.lineno, node.col_offset
        does = f"line {line} makes the model anew"
    message = capital(
        f"{does} in every iteration: {len(made):,} models made one step each ({place}), and what a step learns is gone "
        "with its model."
    )
    remedy = "Make the model and the optimizer once, before the loop."
    return [Found("optimizer", "warning", line, col, message, remedy, [], list(trace.optimized))]


def _copied(trace: Trace, names: set[str]) -> str:
    """Where what was trained is made as a copy, in words."""
    for source in sources(trace):
        for node in source.calls.get("deepcopy", ()):
            above = source.parents.get(node)
            if isinstance(above, ast.Assign) and names & {ast.unparse(t) for t in above.targets}:
                return f" ({source.place(node).words} makes a copy that knows nothing of it, `{ast.unparse(above)}`)"
    return ""


def _made_by_call(trace: Trace, made: ast.stmt, back: int | None) -> list[ast.Assign]:
    """The statement in the loop that calls the function which makes a model."""
    source = sources(trace)[0]
    function = next((n for n in source.around(made) if isinstance(n, ast.FunctionDef)), None)
    uses = source.calls.get(function.name, []) if function is not None else []
    found = [n for n in trace.nodes() if isinstance(n, ast.Assign) and n.value in uses and _looped(trace, n, back)]
    return found if len(uses) == 1 else []


def _looped(trace: Trace, node: ast.stmt, back: int | None) -> bool:
    """Whether a statement and backward() are in one loop."""
    loops = (n for n in trace.nodes() if isinstance(n, ast.For | ast.While))
    return any(n.lineno < node.lineno <= last_line(n) for n in loops) and back is not None


@rule(210, proof="the gradients that no step used were counted")
def dropped(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Gradients of several batches before one step, of which zero_grad() leaves the last alone."""
    facts = trace.steps
    if len(facts.dropped) < max(facts.count, 1) or facts.dropped_runs < 2 or _reads_gradients(trace):
        return []
    runs = facts.dropped_runs + facts.count
    back, col, place = where(trace, facts.dropped[-1])
    step, step_col, at = where(trace, facts.last_step)
    clears = calls(trace, "zero_grad")
    if len(clears) > 1:  # the one that follows step() under its condition is where it belongs
        clears = [at for at in clears if _unconditional(trace, at[0], back)] or clears
    lost = f"{facts.dropped_runs:,} of {runs:,} batches count for nothing"
    if _outside(trace, step, back):
        message = (
            f"{at} steps after the loop that runs backward() ({place}), and in it the gradients are cleared: {lost}."
        )
        remedy = "Step inside the loop, after backward(); or clear the gradients outside it, to step by their sum."
        return [Found("zero-grad", "warning", step, step_col, capital(message), remedy)]
    line, column = clears[0] if len(clears) == 1 else (back, col)
    there = f"line {line} clears" if len(clears) == 1 else f"{place} finds cleared"
    message = (
        f"{there} gradients that no step has used: backward() ({place}) ran {runs:,} times and step() {facts.count:,}, "
        f"so {lost}."
    )
    remedy = "Call zero_grad() right after step(), under the same condition, so that the gradients add up in between."
    return [Found("zero-grad", "warning", line, column, capital(message), remedy)]


def _unconditional(trace: Trace, line: int, back: int | None) -> bool:
    """Whether a line runs whenever backward() does: it stands before it, and under no `if` of its own."""
    ifs = [n for n in trace.nodes() if isinstance(n, ast.If) and n.lineno <= line <= last_line(n)]
    return back is not None and line <= back and all(n.lineno <= back <= last_line(n) for n in ifs)


def _reads_gradients(trace: Trace) -> bool:
    """Whether the user's code looks at .grad itself: then clearing it before a step may be meant."""
    nodes = {n: None for source in sources(trace) for n in source.nodes} | dict.fromkeys(trace.nodes())
    reads = (n for n in nodes if isinstance(n, ast.Attribute) and n.attr == "grad")
    looks = (isinstance(n.ctx, ast.Load) and ast.unparse(n.value).rpartition(".")[2] != "autograd" for n in reads)
    return trace.tree() is None or any(looks)  # of a cell that cannot be read it may


def calls(trace: Trace, name: str) -> list[tuple[int, int]]:
    """Where the cell calls a method."""
    calls = (n for n in trace.nodes() if isinstance(n, ast.Call))
    return sorted((n.lineno, n.col_offset) for n in calls if getattr(n.func, "attr", getattr(n.func, "id", "")) == name)


def _outside(trace: Trace, step: int | None, back: int | None) -> bool:
    """Whether the innermost loop around `back` does not contain `step`."""
    around = [
        (n.lineno, last_line(n))
        for n in trace.nodes()
        if isinstance(n, ast.For | ast.While) and back is not None and n.lineno <= back <= last_line(n)
    ]
    return bool(around) and step is not None and not max(around)[0] <= step <= max(around)[1]


@rule(250, proof="backward() ran, and no step did")
def never_stepped(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A cell that makes an optimizer, runs backward() again and again, and calls no step()."""
    if trace.steps.count or trace.steps.by_hand or not trace.backwards or trace.error is not None:
        return []
    times = min((g.count for leaf, g in trace.gradients.items() if leaf in trace.waiting or leaf.module), default=0)
    if times < 3:
        return []
    if rebound := _rebound(trace):
        return rebound
    if not trace.waiting and not _makes_an_optimizer(trace):
        return []
    line, col, place = where(trace, trace.backwards[-1])
    message = capital(
        f"{place} runs backward() {times:,} times, and no optimizer.step() follows: the parameters stay as they are."
    )
    remedy = "Call optimizer.step() after backward()."
    lines = trace.code.splitlines()
    idle = [at for at in calls(trace, "step") if "sched" not in lines[at[0] - 1]]
    if idle:
        line, col = idle[0]
        message = (
            f"Line {line} never runs, which steps the optimizer: backward() ({place}) ran {times:,} times, and the "
            "parameters stay as they are."
        )
        remedy = "Look at the condition that it stands under."
    if named := _named_only(trace):
        line, col, text = named
        message = f"Line {line} names {text} and does not call it: the parameters stay as they are ({times:,} passes)."
        remedy = f"Write {text}()."
    return [Found("optimizer", "warning", line, col, message, remedy)]


def _makes_an_optimizer(trace: Trace) -> bool:
    """Whether the cell calls the class of an optimizer, and clears gradients."""
    made = [ast.unparse(n.func) for n in trace.nodes() if isinstance(n, ast.Call)]
    return any("optim." in name for name in made) and bool(calls(trace, "zero_grad"))


def _named_only(trace: Trace) -> tuple[int, int, str] | None:
    """A statement that names a method `step` without calling it."""
    for node in trace.nodes():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Attribute) and node.value.attr == "step":
            return node.lineno, node.col_offset, ast.unparse(node.value)
    return None


def _rebound(trace: Trace) -> list[Found]:
    """``for p in model.parameters(): p = p - lr * p.grad``: the name is bound to a new tensor, no parameter changes."""
    for loop in (n for n in trace.nodes() if isinstance(n, ast.For)):
        names = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
        for node in (n for n in ast.walk(loop) if isinstance(n, ast.Assign)):
            name = node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
            if name in names and f"{name}.grad" in ast.unparse(node.value):
                message = (
                    f"Line {node.lineno} binds the name {name} to a new tensor (`{ast.unparse(node)}`) and leaves the "
                    "parameter as it is."
                )
                remedy = f"Change it in place: {name} -= lr * {name}.grad, under no_grad."
                return [Found("optimizer", "warning", node.lineno, node.col_offset, message, remedy)]
    return []


@rule(270, proof="step() and backward() were recorded on their lines")
def clipped_late(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Gradients that are clipped where no step uses them: after the step, or before backward()."""
    clips = [*calls(trace, "clip_grad_norm_"), *calls(trace, "clip_grad_value_")]
    step, back = where(trace, trace.steps.last_step)[0], where(trace, trace.steps.last_backward)[0]
    if len(clips) != 1 or step is None or back is None:
        return []
    (line, col), clears = clips[0], [at for at, _ in calls(trace, "zero_grad")]
    function = _function(trace, line)
    if {_function(trace, step), _function(trace, back)} != {function}:
        return []
    if sum(_function(trace, at) == function for at, _ in calls(trace, "backward")) > 1:
        return []  # of several losses, each with its own optimizer: which of them is clipped, the lines do not say
    if _outside(trace, step, back) or _outside(trace, line, back):
        return []
    order = sorted(
        [(line, col, "clip"), (step, 0, "step"), (back, 0, "backward"), *((at, 0, "clear") for at in clears)]
    )
    names = [name for _, _, name in order]
    at = names.index("clip")
    after = next((name for name in [*names[at + 1 :], *names[:at]] if name != "clip"), "step")
    same = [at for at, _, _ in order]
    if after == "step" or len(set(same)) < len(same):
        return []
    when = f"after step() on line {step}" if back < step < line else f"before backward() on line {back}"
    message = f"Line {line} clips the gradients {when}: no step uses what it has clipped."
    burst = any(
        row.bad is not None or row.bad_backward is not None for row in trace.rows
    )  # what clipping is to prevent
    severity = "error" if burst else "warning"
    return [Found("optimizer", severity, line, col, message, "Clip between backward() and step().")]


def _function(trace: Trace, line: int) -> int:
    """Where the innermost function around a line begins; 0 for none."""
    around = [
        n.lineno
        for n in trace.nodes()
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.lineno <= line <= last_line(n)
    ]
    return max(around, default=0)
