"""Samples that are less random than they seem: a seed that is set in each turn, batches that hold one class each."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital, listed, where
from ..order import rule
from ..reading.sources import Function, Source, called, names_in, own_nodes, sources

SEEDS = {"manual_seed", "manual_seed_all", "seed", "seed_everything", "set_seed", "seed_all"}
DRAWS = {"randn", "rand", "randint", "randperm", "randn_like", "rand_like", "randint_like", "normal", "normal_",
         "uniform_", "bernoulli", "multinomial", "choice", "choices", "shuffle", "sample", "random", "uniform",
         "standard_normal", "dropout", "permutation", "integers", "gauss"}  # fmt: skip
STARTS = re.compile(r"^(__init__|main|setup|train\w*|fit\w*|run\w*|seed\w*|set_seed\w*|build\w*|make_(model|net)\w*)$")
JUDGES = re.compile(r"eval|valid|test|val_|_val|bench|plot|show|demo", re.I)
BATCHES, SAMPLES, CLASSES = 12, 8, 3  # of one class each, samples in one, and classes in all, from which it is said


@rule(562)
def seeded_again(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``torch.manual_seed(0)`` in the training loop, or in a function that it calls: the same draws each time."""
    if trace.steps.count < 2:
        return []
    found = sources(trace)
    for source in found:
        for scope in source.scopes():
            for node in own_nodes(scope):
                if not isinstance(node, ast.Call) or called(node) not in SEEDS or not node.args:
                    continue
                if not all(isinstance(a, ast.Constant) for a in node.args):
                    continue
                drawn = _drawn_in_loop(source, node, scope) or _drawn_in_function(found, node, scope)
                if drawn is None:
                    continue
                line, col, place = source.place(node)
                message = capital(
                    f"{place} sets the random state to the same number in each turn (`{ast.unparse(node)}`): what is "
                    f"drawn after it (`{ast.unparse(drawn)}`, {source.place(drawn).words}) is the same every time."
                )
                remedy = "Set the seed once, before the loop; for draws of their own make one torch.Generator there."
                return [Found("loop", "warning", line, col, message, remedy)]
    return []


@rule(564)
def seeded_by_sample(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``np.random.seed(i)`` in the ``__getitem__`` of a set that changes its samples at random."""
    for source in sources(trace):
        for method in (n for n in source.nodes if isinstance(n, Function) and n.name == "__getitem__"):
            nodes = list(own_nodes(method))
            index = {arg.arg for arg in method.args.args[1:]}
            stored = [n for n in nodes if isinstance(n, ast.Subscript) and ast.unparse(n.value).startswith("self.")]
            for node in nodes:
                if not isinstance(node, ast.Call) or called(node) not in SEEDS or not node.args or not stored:
                    continue
                tests = [ast.unparse(a.test) for a in source.around(node) if isinstance(a, ast.If)]
                tests += [a.name for a in source.around(node) if isinstance(a, ast.ClassDef)]
                read = names_in(node.args[0]) - {"self"}
                if not read or not read <= index or any(JUDGES.search(t) or "not " in t for t in tests):
                    continue  # what judges a model is to be the same each time
                drawn = [n for n in nodes if called(n) in DRAWS and n.lineno >= node.lineno and n is not node]  # type: ignore[attr-defined]
                if not drawn:
                    continue
                line, col, place = source.place(node)
                message = capital(
                    f"{place} sets the random state by the number of the sample each time one is loaded "
                    f"(`{ast.unparse(node)}`): what is drawn after it (`{ast.unparse(drawn[0])}`, "
                    f"{source.place(drawn[0]).words}) is the same for a sample in every epoch, so it is changed in one "
                    "way only, which the model learns by heart."
                )
                remedy = "Leave the random state alone there, or keep one generator that goes on from sample to sample."
                return [Found("loop", "warning", line, col, message, remedy)]
    return []


def _drawn_in_loop(source: Source, seed: ast.Call, scope: ast.AST) -> ast.Call | None:
    """What a training loop draws after it has set the seed; None where each turn trains a model of its own."""
    for above in source.around(seed):
        if above is scope:
            return None
        if isinstance(above, ast.For | ast.While):
            calls = [n for n in ast.walk(above) if isinstance(n, ast.Call)]
            trains = any(called(n) == "backward" for n in calls)
            makes = any(re.match(r"[A-Z]\w+$", called(n)) and "parameters" in ast.unparse(n) for n in calls)
            drawn = [n for n in calls if called(n) in DRAWS and n.lineno >= seed.lineno]
            return min(drawn, key=lambda n: n.lineno) if trains and not makes and drawn else None
    return None


def _drawn_in_function(found: list[Source], seed: ast.Call, scope: ast.AST) -> ast.Call | None:
    """What a function draws that sets the seed at its beginning and runs in each turn of a training loop."""
    if not isinstance(scope, Function) or STARTS.match(scope.name) or JUDGES.search(scope.name):
        return None
    calls = [n for n in own_nodes(scope) if isinstance(n, ast.Call)]
    if any(called(n) == "backward" or "parameters" in ast.unparse(n.func) for n in calls):
        return None
    drawn = [n for n in calls if called(n) in DRAWS and (n.lineno, n.col_offset) > (seed.lineno, seed.col_offset)]
    runs = scope.name == "__getitem__" or any(
        isinstance(loop, ast.For | ast.While)
        and any(called(n) == "backward" for n in ast.walk(loop))
        and any(called(n) == scope.name for n in ast.walk(loop))
        for source in found
        for loop in source.nodes
    )
    return drawn[0] if drawn and runs else None


@rule(552)
def one_class_each(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Batches in which all samples are of one class, though there are several: the set is sorted and not shuffled."""
    for row, (looked, single, classes) in trace.values.classes.items():
        if row not in trace.rows or looked < BATCHES or single < 0.8 * looked or len(classes) < CLASSES:
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} gets batches of one class each: in {single:,} of {looked:,} all targets were the same, and "
            f"{len(classes)} classes ({listed([str(c) for c in sorted(classes)])}) came one after the other. A step "
            "unlearns what those before have learnt."
        )
        made = [(s, n) for s in sources(trace) for n in s.nodes if called(n) == "DataLoader" and _in_order(n)]
        if made:
            line, col, begins = made[0][0].place(made[0][1])
            message = capital(f"{begins} loads the samples in the order in which they stand; {message}")
        remedy = "Shuffle: DataLoader(..., shuffle=True), or draw an order in each epoch: torch.randperm(n)."
        return [Found("loop", "warning", line, col, message, remedy, [row])]
    return []


def _in_order(node: ast.AST) -> bool:
    """Whether a loader goes through its set as it is."""
    given = {k.arg: ast.unparse(k.value) for k in getattr(node, "keywords", ())}
    return given.get("shuffle", "False") == "False" and not {"sampler", "batch_sampler"} & given.keys()
