"""Evaluation that takes longer than the training that it watches."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Chain, Leaf, Row
from ..finding import Found, capital
from ..reading.loaders import fetched_at
from ..reading.sources import Function, called, own_nodes, sources
from .op_costs import of_call
from .slow_loops import used_after
from .time_shares import Saving, Shares, common, less_time, quoted

MOSTLY = 0.5  # share of the cell's time
TURNS = 3  # evaluations
JUDGES = re.compile(r"eval|valid|test|accuracy|score|metric", re.I)
STEPS, TIMES, OFTEN = 16, 8, 0.8  # steps, times the batch of a step, and runs for each step
LEAST = 0.25  # share of the cell's time
FIRST = ("linear", "conv", "embedding", "matmul", "gru", "lstm")


def too_often(shares: Shares) -> Iterator[Saving]:
    """``for batch in loader: train(batch); if i % 5 == 0: evaluate()``, with a whole set each time."""
    trace = shares.trace
    passes = {fetched_at(trace, chain): f.passes for chain, f in trace.fetched.items()}
    for source in sources(trace):
        for scope in source.scopes():
            for loop in own_nodes(scope):
                if not isinstance(loop, ast.For) or not _trains(loop):
                    continue
                for statement in loop.body:
                    if not _judges(statement) or _learnt_from(loop, statement):
                        continue
                    first, last = statement.lineno, statement.end_lineno or statement.lineno
                    ns = shares.at_lines(source.name, first, last)
                    often = max((n for (name, line), n in passes.items()
                                 if name == source.name and first <= line <= last), default=0)  # fmt: skip
                    epochs = max(passes.get((source.name, loop.lineno), 1), 1)
                    turns = often or shares.beats_at(source.name, first)
                    left = min(epochs / often, 1.0) if often else 0.2
                    share = shares.worth((1 - left) * ns)
                    if ns < MOSTLY * shares.total or turns < TURNS or not share:
                        continue
                    line, col, place = source.place(statement)
                    times = f"{often:,} times, " if often else ""
                    message = capital(
                        f"{place} evaluates between the batches of {source.place(loop).words}: {times}"
                        f"{100 * ns / shares.total:.0f} % of this cell's time. Without that the cell would take "
                        f"{less_time(share)}."
                    )
                    remedy = "Evaluate once an epoch, less often, or on a part of the data."
                    yield Saving(share, Found("slow", "note", line, col, message, remedy))


def _trains(loop: ast.For) -> bool:
    """Whether a loop trains in each turn, and no loop in it does."""
    inner = [n for s in loop.body for n in ast.walk(s)]
    loops = [n for n in inner if isinstance(n, ast.For)]
    return any(called(n) == "backward" for n in inner) and not any(
        called(n) == "backward" for deeper in loops for n in ast.walk(deeper)
    )


def _judges(statement: ast.stmt) -> bool:
    """Whether a statement of a loop evaluates: a loop without gradients, or a function of such a name."""
    nodes = list(ast.walk(statement))
    if any(called(n) == "backward" for n in nodes) or isinstance(statement, Function):
        return False
    loops = any(isinstance(n, ast.For) for n in nodes)
    quiet = any(called(n) in ("no_grad", "inference_mode", "eval") for n in nodes)
    return (loops and quiet) or any(JUDGES.search(called(n)) for n in nodes if isinstance(n, ast.Call))


def _learnt_from(loop: ast.For, statement: ast.stmt) -> bool:
    """Whether a statement gives the value that backward() is called on.

    >>> loop = ast.parse("for i in order:\\n    loss = score_matching(net, x[i])\\n    loss.backward()").body[0]
    >>> [_learnt_from(loop, statement) for statement in loop.body]
    [True, False]
    """
    goals = {ast.unparse(n.func.value) for n in ast.walk(loop) if called(n) == "backward" and
             isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)}  # fmt: skip
    return isinstance(statement, ast.Assign) and any(ast.unparse(target) in goals for target in statement.targets)


def judged_each_step(shares: Shares) -> Iterator[Saving]:
    """``accuracy.append((net(X).argmax(1) == Y).float().mean())`` after each step on a batch."""
    trace = shares.trace
    steps = trace.steps.ran
    if steps < STEPS:
        return
    layers = [row for row in shares.rows if row.phase == "forward" and row.shape and row.op.startswith(FIRST) and
              any(isinstance(ref, Leaf) and ref in trace.optimized for ref in row.refs)]  # fmt: skip
    batch = max((row.shape[0] for row in layers if row.reached), default=0)
    large = [row for row in layers if not row.reached and row.shape[0] >= TIMES * batch > 0]
    by_call: dict[Chain, list[Row]] = {}
    for row in large:
        by_call.setdefault(row.chain[-1:], []).append(row)
    for rows in by_call.values():
        runs = max(row.runs for row in rows)
        by_loader = any(f.batches == runs and f.passes < OFTEN * steps for f in trace.fetched.values())
        if runs < OFTEN * steps or by_loader:  # as many batches of an evaluation once an epoch
            continue
        chain = common(row.chain for row in rows)
        ns = of_call(shares, chain)
        if not chain or shares.worth(ns) < LEAST:
            continue
        if next(used_after(shares), None) is not None or next(too_often(shares), None) is not None:
            return
        yield from shares.saving(
            0.95 * ns,
            chain,
            f"runs the model on {rows[0].shape[0]:,} rows after each of {steps:,} steps, which learn from {batch:,}: "
            f"{quoted(trace, chain)} is there to look at, and nothing learns from it.",
            "Evaluate once an epoch, or every so many steps, on a part of the data, under torch.no_grad().",
            rows[:1],
        )


IDIOMS = (too_often, judged_each_step)
