"""Modules that ran in the wrong mode: trained in evaluation mode, or judged in training mode."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Row, Trace
from ..evaluation.kept_graphs import dropping
from ..finding import Found, capital, code_of, where
from ..losses.losses import DIFFERENCES, EACH
from ..order import rule
from ..reading.scope import calls
from ..reading.sources import called, sources

DROPS = {"dropout", "alpha_dropout", "feature_dropout"}
JUDGED = {"argmax", "eq", "topk", "max", "gt", "ge", "round"}
COMPARES = (DIFFERENCES | EACH) - {"pow"} | {
    "eq",
    "ne",
    "cosine_similarity",
    "triplet_margin_loss",
    "hinge_embedding_loss",
}
"""Ops that hold what a model gives against something else."""


@rule(700)
def wrong_mode(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Dropout and batch norm that compute what is not meant."""
    return _trained_in_evaluation(trace) or dropping(trace) or _judged_in_training(trace)


def _trained_in_evaluation(trace: Trace) -> list[Found]:
    paths = trace.steps.in_evaluation
    if not paths:
        return []
    rows = [row for row in trace.rows if row.path in paths and row.reached]
    if not rows:  # dropout that is off is no op: what else its model runs tells the line
        roots = {trace.paths[path].partition(".")[0] for path in paths}
        rows = [r for r in trace.rows if r.reached and r.path and trace.paths[r.path].partition(".")[0] in roots]
    first = min(rows, key=lambda r: r.number, default=None)
    chain = first.chain if first is not None else trace.steps.last_step
    line, col, place = _outermost(trace, first) if first is not None else where(trace, chain)
    steps = max(paths.values())
    name = _model(trace, min(paths))
    some = "every step" if steps >= trace.steps.count else f"{steps:,} of {trace.steps.count:,} steps"
    message = capital(
        f"{place} trains {name} in evaluation mode ({some}): dropout is off and batch norm goes by its stored averages "
        f"and never renews them{_turned_off(trace, name)}."
    )
    remedy = f"Call {name}.train() before each training pass; model.eval() lasts until train() is called."
    return [Found("mode", "warning", line, col, message, remedy, [first] if first is not None else [])]


def _turned_off(trace: Trace, name: str) -> str:
    """Which line of a file or an earlier cell has put a model into evaluation mode, if only one can have."""
    found = [(source, node) for source, node in calls(trace, "eval") if not node.args]
    if len(found) != 1 or not found[0][0].name:
        return ""
    source, node = found[0]
    return f": {source.place(node).words} (`{ast.unparse(node)}`) is the last word on that"


def _drops(trace: Trace, row: Row) -> bool:
    """Whether an op is a dropout; where PyTorch's own numbers are drawn it is the product with their mask."""
    return row.op in DROPS or (row.op == "mul" and "dropout" in code_of(trace, row))


def _judged_in_training(trace: Trace) -> list[Found]:
    if any(called(n) == "update_bn" for s in sources(trace) for n in s.nodes):
        return []  # it runs the model in training mode, without gradients, for the averages of its batch norm
    readers = trace.consumers()
    for row in trace.rows:
        seen = trace.modes.get(row.path)
        functional = _drops(trace, row) and (seen is None or row.judged) and not row.requires_grad
        if seen is None and not functional:
            continue
        quiet = seen is not None and seen.get((True, False), 0) > _run_for_averages(trace, row, readers)
        careless = seen is not None and not trace.backwards and not trace.failed and seen.get((True, True), 0)
        if not (quiet or careless or functional) or row.reached:
            continue
        if row.judged and not functional:
            continue  # this op ran in evaluation mode: its model was run in the other one elsewhere
        if row.requires_grad and not careless:
            continue  # the run with gradients is another row
        after = _after(row, readers)
        trained = any(r.reached or (r.requires_grad and not careless) for r in after)
        judged = any(r.op in JUDGED for r in after)
        figure = (
            (quiet or functional) and trace.backwards and any(r.cut == "item" for r in after) and _compared(row, after)
        )
        if trained or not (judged or figure) or _drawn_on_purpose(row, after):
            continue
        if _drops(trace, row) and _left_on(trace):
            continue
        line, col, place = where(trace, row.chain) if functional else _outermost(trace, row)
        name = _model(trace, row.path)
        if functional:
            return [_in_every_mode(trace, row)]
        message = (
            f"{place} judges {name} in training mode: {_what_differs(trace, name)}, so the figure is another one "
            "each time."
        )
        remedy = f"Call {name}.eval() before, and {name}.train() afterwards."
        return [Found("mode", "warning", line, col, capital(message), remedy, [row])]
    return []


def _what_differs(trace: Trace, name: str) -> str:
    """In words: what a model has that computes something else in training mode."""
    own = [row for row in trace.rows if row.path and _model(trace, row.path) == name]
    norms = any(row.op.startswith("batch_norm") for row in own)
    drops = not norms or any(_drops(trace, row) for row in own)
    parts = [("dropout drops values", drops), ("batch norm goes by this very batch", norms)]
    return " and ".join(said for said, has in parts if has)


@rule(702)
def frozen_but_not_still(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Batch norm of a part whose weights are frozen, below layers that are trained: it goes by the batch and renews its
    averages."""
    readers = trace.consumers()
    for row in trace.rows if trace.optimized else ():
        weights = [ref for ref in row.refs if isinstance(ref, Leaf) and ref.module]
        if not row.op.startswith("batch_norm") or row.requires_grad or len(weights) < 2:
            continue
        runs = trace.modes.get(row.path, {}).get((True, True), 0)
        if runs < 2 or any(_wants_gradient(leaf) for leaf in weights):
            continue
        if not any(ref in trace.optimized for r in _after(row, readers) for ref in r.refs if isinstance(ref, Leaf)):
            continue  # a second network that is compared with, and meant so
        model, part = _model(trace, row.path), trace.paths[row.path].rpartition(".")[0]
        part = re.sub(r"\.(\d+)", r"[\1]", part)  # net.0 is net[0]
        line, col, place = _outermost(trace, row)
        anew = any(isinstance(n, ast.Name) and n.id == model and isinstance(n.ctx, ast.Store) for n in trace.nodes())
        for source in sources(trace):
            if anew and source.name.startswith("In ["):
                continue  # another model had the name there
            calls = [n for n in source.nodes if called(n) == "train" and ast.unparse(n) == f"{model}.train()"]
            if calls:
                line, col, place = source.place(calls[0])
                break
        message = capital(
            f"{place} puts what is frozen into training mode too: the weights of {trace.paths[row.path]} stay as they "
            f"are, but it goes by each batch and renews its averages ({runs:,} runs), so in evaluation the part "
            "computes something else than before."
        )
        remedy = f"Call {part}.eval() after {model}.train()." if part != model else "Call eval() of the frozen part."
        return [Found("mode", "note", line, col, message, remedy, [row])]
    return []


def _run_for_averages(trace: Trace, row: Row, readers: dict) -> int:
    """How many passes of a layer give what nobody takes: in training mode they renew the averages of its batch norm."""
    if not trace.modes[row.path].get((False, False), 0):
        return 0  # it never ran in evaluation mode
    others = [r for r in trace.rows if r.path == row.path and r is not row and not r.requires_grad]
    return max((r.count for r in others if not any(a.op in JUDGED for a in _after(r, readers))), default=0)


def _wants_gradient(leaf: Leaf) -> bool:
    """Whether a parameter is to get a gradient now; it may have been frozen after it was first met."""
    t = leaf.alive()
    return leaf.requires_grad if t is None else bool(t._requires_grad)


def _compared(row: Row, after: set[Row]) -> bool:
    """Whether what a model gives is held against something that it did not give: the figure is about the model, and
    not about its features."""
    given = {row, *after}
    return any(r.op in COMPARES and any(ref not in given for ref in r.refs) for r in after)


def _drawn_on_purpose(row: Row, after: set[Row]) -> bool:
    """Whether several passes are put together and their spread is taken: Monte Carlo dropout."""
    joined = {r.op for r in after} & {"stack", "cat"}
    return row.count > 2 and bool(joined) and bool({r.op for r in after} & {"std", "var", "std_mean", "var_mean"})


def _left_on(trace: Trace) -> bool:
    """Whether the user's text sets dropouts alone into training mode: ``if isinstance(m, nn.Dropout): m.train()``."""
    for source in sources(trace):
        for one in (n for n in source.nodes if isinstance(n, ast.If)):
            asked = ast.unparse(one.test)
            trains = any(called(n) == "train" for part in one.body for n in ast.walk(part))
            if trains and "isinstance" in asked and "Dropout" in asked:
                return True
    return False


def _in_every_mode(trace: Trace, row: Row) -> Found:
    """F.dropout without the module's mode."""
    line, col, place = where(trace, row.chain)
    message = f"{place} drops values while the model is judged: `{code_of(trace, row)}` drops them in every mode."
    remedy = "Give it training=self.training, or use nn.Dropout, which knows the mode."
    return Found("mode", "warning", line, col, capital(message), remedy, [row])


def _model(trace: Trace, path: int) -> str:
    """What a whole model is called: `self.net` of `self.net.0`."""
    parts = trace.paths[path].split(".")
    return ".".join(parts[:2] if parts[0] == "self" else parts[:1]) or "the model"


def _after(row: Row, readers: dict) -> set[Row]:
    """Everything that is computed from a row."""
    seen: set[Row] = set()
    stack = [row]
    while stack:
        for r in readers.get(stack.pop(), ()):
            if r not in seen:
                seen.add(r)
                stack.append(r)
    return seen


def _outermost(trace: Trace, row: Row) -> tuple[int | None, int | None, str]:
    """The cell's own line that runs the model, and not the line of a class in it."""
    own = [pair for pair in row.chain if pair[0].co_filename in trace.files]
    inside = [k for k, (code, _) in enumerate(own) if code.co_name == "forward"]
    return where(trace, tuple(own[inside[-1] + 1 if inside else 0 :][:1]) or tuple(own[-1:]) or row.chain)
