"""Gradients that cost more than they need to: thrown away, taken one by one, or dense where few rows are touched."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from statistics import median

from widgets.figures import size_text

from ...recorder.cell_trace import Chain, Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, listed, where
from ..reading.sources import Place, called, names_in, sources
from .loop_rows import wholes
from .op_costs import backward_of
from .time_shares import (
    LEAST,
    Loop,
    Saving,
    Shares,
    around,
    begun,
    common,
    each,
    less_time,
    loop_around,
    loops_around,
    quoted,
)

TURNS = 4
TABLE, TABLE_BYTES, TOUCHED = 10_000, 1 << 21, 0.1  # rows and bytes of a table, and the share of rows a batch reads
SPARSE = "Make it nn.Embedding(..., sparse=True), {steps}, or update only the rows that were read."
STEPPED = "with SGD or SparseAdam"
ADAM = "step it by torch.optim.SparseAdam, and the rest by {kind} as before"
DENSE = 0.8  # share of zeros in a gradient
MOSTLY, STEPS_NS = 0.6, 200_000_000  # share of the steps, and time, from which a table is told in a cell of other work


def wasted(shares: Shares) -> Iterator[Saving]:
    """backward() goes through a model whose gradients are cleared before any step uses them."""
    trace = shares.trace
    for chain, leaves in trace.wasted.items():
        times = max(leaves.values())
        if times < TURNS or chain not in trace.roots or chain in trace.chosen:
            continue  # what autograd.grad gives is asked for, and kept in no .grad
        back: dict[Ref, None] = ancestors(trace.roots[chain])
        models = {leaf.name.partition(".")[0] for leaf in leaves if "." in leaf.name}
        lost = {leaf for leaf in back if isinstance(leaf, Leaf) and leaf in trace.gradients and leaf in leaves}
        lost |= {ref for ref in back if isinstance(ref, Leaf) and ref.name.partition(".")[0] in models}
        alone = [row for row in back if isinstance(row, Row) and row.requires_grad and _only(row, lost)]
        used = [row for row in back if isinstance(row, Row) and row.requires_grad and row not in set(alone)]
        ends = [row for row in used if any(ref in alone for ref in row.refs)]
        kept = {r for row in used for r in ancestors([row]) if isinstance(r, Leaf) and r.requires_grad} - lost
        if not ends or not kept:
            continue
        joint = max(ends, key=lambda row: row.backward_ns)
        _, _, place = where(trace, chain)
        names = listed(sorted(models)) if models else "other parameters"
        source = next(ref for ref in joint.refs if ref in alone)
        made = where(trace, source.chain)[2] if isinstance(source, Row) else ""
        yield from shares.saving(
            backward_of(shares, alone),
            joint.chain,
            f"lets gradients into {names} that nobody uses: {quoted(trace, chain)} ({place}) goes back through what "
            f"{made} made, and those gradients are cleared before a step.",
            f"Give {quoted(trace, joint.chain)} a detached input (.detach()), or compute it under torch.no_grad().",
            [joint],
        )


def _only(row: Row, leaves: set[Leaf]) -> bool:
    """Whether all parameters a result was computed from are among these."""
    held = [ref for ref in ancestors([row]) if isinstance(ref, Leaf) and ref.requires_grad]
    return bool(held) and all(leaf in leaves for leaf in held)


def for_nobody(shares: Shares) -> Iterator[Saving]:
    """backward() goes through a part whose parameters no optimizer holds, before the part that is trained."""
    trace = shares.trace
    if not trace.optimized or trace.steps.count < TURNS or trace.steps.by_hand:
        return
    left = {leaf for leaf in trace.gradients if leaf.module and leaf not in trace.optimized and leaf.requires_grad}
    if not left or {leaf.name.partition(".")[0] for leaf in left} & {
        leaf.name.partition(".")[0] for leaf in trace.optimized
    }:
        return
    rows = [row for row in shares.rows if row.reached and row.requires_grad and _only(row, left)]
    chains = [row.chain for row in rows if row.chain]
    chain = common(chains)
    if not chain:
        return
    names = listed(sorted({leaf.name.partition(".")[0] for leaf in left}))
    yield from shares.saving(
        backward_of(shares, rows),
        chain,
        f"computes gradients that nobody uses: backward() goes on through {names} (`{_short(trace, chain)}`), whose "
        "parameters no optimizer holds.",
        f"Run it under torch.no_grad(), or freeze it: {sorted(left, key=lambda x: x.name)[0].name.partition('.')[0]}"
        ".requires_grad_(False).",
        rows[:1],
    )


def _short(trace: Trace, chain: Chain) -> str:
    return quoted(trace, chain).strip("`")


def one_by_one(shares: Shares) -> Iterator[Saving]:
    """autograd.grad, or backward(retain_graph=True), in a loop over the outputs."""
    trace = shares.trace
    for chain, (runs, ns) in trace.spans.items():
        turns = max(trace.steps.ran, 1)
        if not chain or runs < 3 * turns or runs < 2 * TURNS or loop_around(trace, chain[0]) is None:
            continue
        call = next((n for n in around(trace, chain[0]) if isinstance(n, ast.Call)), None)
        if call is None:
            continue
        kept = {k.arg for k in call.keywords if k.arg and getattr(k.value, "value", None) is True}
        if called(call) == "backward" and not kept & {"retain_graph", "create_graph"}:
            continue
        if 2 * _passes(trace, chain) > runs:
            continue  # each of a forward of its own
        whole = max(ns, shares.sampled(chain[0]) * shares.total)
        asked = [row for row in shares.rows if row.chain[:1] == chain[:1]]
        again = [row for row in asked if row.phase != "forward" or row.op == "grad"]  # gone back through once more
        yield from shares.saving(
            (1 - 2 * turns / runs) * (whole + backward_of(shares, again)),
            chain,
            f"goes back through the graph once for each output: {quoted(trace, chain)} ran {runs:,} times "
            f"({runs / turns:,.0f} in each step), {each(whole, runs)} each.",
            _of_sum(loop_around(trace, chain[0]), call)
            or _of_all(trace, chain, call)
            or "Take them in one pass: torch.func.jvp or jacfwd where there are few inputs, jacrev or "
            "grad(..., is_grads_batched=True) or vmap where there are many outputs.",
        )


def _of_all(trace: Trace, chain: Chain, call: ast.Call) -> str:
    """The remedy where another loop goes through the inputs, each of which is gone back to by itself."""
    outer = next((loop for loop in loops_around(trace, chain[0])[1:] if isinstance(loop, ast.For)), None)
    if outer is None or called(call) != "grad" or any(called(n) in ("step", "backward") for n in ast.walk(outer)):
        return ""
    rows = wholes([outer]).get(ast.unparse(outer.target), "") or "all inputs"
    return (
        f"Take all at once: torch.func.vmap(torch.func.jacrev(f))({rows}); or run f on {rows} as one batch, and for "
        "each output take one gradient of its sum over the batch."
    )


def _of_sum(loop: Loop | None, call: ast.Call) -> str:
    """The remedy where of each gradient the row of its own output alone is kept; "" where more of it is.

    >>> loop = ast.parse("for i in range(n):\\n    g = grad(e[i], p)[0]\\n    out.append(g[i])").body[0]
    >>> _of_sum(loop, loop.body[0].value.value)
    'Each output has a row of its own: take one gradient of their sum, grad(e.sum(), p), which holds them all.'
    """
    of = call.args[0] if call.args else None
    count = loop.target.id if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) else ""
    if not isinstance(of, ast.Subscript) or ast.unparse(of.slice) != count or called(call) != "grad":
        return ""
    names = {t.id for s in loop.body if isinstance(s, ast.Assign) for t in ast.walk(s.targets[0])  # type: ignore[union-attr]
             if isinstance(t, ast.Name) and any(n is call for n in ast.walk(s.value))}  # fmt: skip
    reads = [n for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load)]  # type: ignore[arg-type]
    rows = [n for n in ast.walk(loop) if isinstance(n, ast.Subscript) and ast.unparse(n.slice) == count]  # type: ignore[arg-type]
    if not reads or not all(any(row.value is n for row in rows) for n in reads):
        return ""
    total = ast.Call(ast.Attribute(of.value, "sum", ast.Load()), [], [])
    whole = ast.unparse(ast.Call(call.func, [total, *call.args[1:]], call.keywords))
    return f"Each output has a row of its own: take one gradient of their sum, {whole}, which holds them all."


def again_from_the_start(shares: Shares) -> Iterator[Saving]:
    """``loss = loss + part; loss.backward(retain_graph=True)`` in a loop: each pass goes through all turns so far."""
    trace = shares.trace
    for chain, (runs, ns) in trace.spans.items():
        passes = runs / max(trace.steps.ran, 1)
        loop = loop_around(trace, chain[0]) if chain else None
        call = next((n for n in around(trace, chain[0]) if isinstance(n, ast.Call)), None) if chain else None
        if passes < TURNS or not isinstance(loop, ast.For | ast.While) or called(call or loop) != "backward":
            continue
        loss = ast.unparse(getattr(call.func, "value", call.func))  # type: ignore[union-attr]
        if not any(k.arg == "retain_graph" for k in call.keywords) or not _adds_up(loop, loss):  # type: ignore[union-attr]
            continue
        yield from shares.saving(
            (1 - 2 / (passes + 1)) * max(ns, shares.sampled(chain[0]) * shares.total),
            chain,
            f"goes back through all that {loss} was added up from so far, in each of {passes:,.0f} turns: "
            f"{quoted(trace, chain)} ran {runs:,} times, {each(ns, runs)} each.",
            f"Call {loss}.backward() once, after the loop, without retain_graph.",
        )


def _adds_up(loop: ast.For | ast.While, name: str) -> bool:
    """Whether a loop adds to a variable, and never begins it anew."""
    added = False
    for node in (n for s in loop.body for n in ast.walk(s)):
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target) == name:
            added = True
        elif isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets):
            if name not in names_in(node.value) or not isinstance(node.value, ast.BinOp):
                return False
            added = True
    return added


def _passes(trace: Trace, chain: Chain) -> float:
    """How often the ops ran, the middle one of them, that are gone back through from a place."""
    runs: dict[object, int] = {}
    for ref in ancestors(trace.roots.get(chain, {})):
        if isinstance(ref, Row) and ref.requires_grad and ref.phase == "forward":
            key = ref.chain, ref.op, ref.path
            runs[key] = runs.get(key, 0) + ref.runs
    return median(runs.values()) if runs else 0


def dense_tables(shares: Shares) -> Iterator[Saving]:
    """An embedding of many rows of which a batch touches few, with a dense gradient."""
    trace = shares.trace
    size_of_all = sum(4 * math.prod(leaf.shape) for leaf in trace.optimized) or 1
    tables: dict[Leaf, list[Row]] = {}
    for row in shares.rows:
        table = next((ref for ref in row.refs if isinstance(ref, Leaf) and ref.requires_grad), None)
        if row.op in ("embedding", "embedding_bag", "index", "getitem", "index_select") and table is not None:
            tables.setdefault(table, []).append(row)
    for table, rows in tables.items():
        gradient = trace.gradients.get(table)
        size = 4 * math.prod(table.shape)
        if len(table.shape) != 2 or table.shape[0] < TABLE or size < TABLE_BYTES or gradient is None:
            continue
        trained = [row for row in rows if row.reached] or rows  # an evaluation's batches have no gradient
        touched = sum(math.prod(row.shape) // table.shape[1] for row in trained) / max(len(trained), 1)
        if gradient.zeros < DENSE or touched > TOUCHED * table.shape[0]:
            continue
        steps = trace.update_ns or sum(row.forward_ns for row in shares.rows if row.phase == "update")
        ns = sum(row.backward_ns for row in rows)
        rest = max(trace.backward_ns - sum(row.backward_ns for row in shares.rows), 0)  # the gradients' adding up
        ns += round((steps + rest) * min(size / size_of_all, 1.0)) if table in trace.optimized else 0
        share, of = shares.worth(0.9 * ns), "the cell"
        if not share and shares.ran * ns > STEPS_NS:  # little of a cell that makes the table, and most of its steps
            share, of = 0.9 * ns / max(_of_steps(shares), 1), "a step"
        if not share or (of == "a step" and share < MOSTLY):
            continue
        made = _made(trace, table)
        line, col, place = made if made is not None else where(trace, rows[0].chain)
        what = "makes a table whose gradient is" if made is not None else "reads a table whose gradient is"
        message = (
            f"{begun(place)} {what} dense ({table.name}), {size_text(size)} in each step and almost all zeros: of "
            f"{table.shape[0]:,} rows a batch reads about {touched:,.0f}, and backward() and step() go over them all. "
            f"Without that {of} would take {less_time(share)}."
        )
        share = share if of == "the cell" else max(0.9 * ns / shares.total, LEAST)
        yield Saving(share, Found("slow", "note", line, col, message, _sparse(trace), rows[:1], [table]))


def _sparse(trace: Trace) -> str:
    """The remedy, by the optimizers of the cell: Adam and AdamW take no sparse gradients, SGD and Adagrad do."""
    kinds = {facts.kind for facts in trace.steps.optimizers}
    if kinds and kinds <= {"SGD", "Adagrad"}:
        return SPARSE.format(steps=f"whose gradients {listed(sorted(kinds))} takes as they are")
    adams = sorted(kinds & {"Adam", "AdamW"})
    return SPARSE.format(steps=ADAM.format(kind=adams[0]) if adams else STEPPED)


def _of_steps(shares: Shares) -> int:
    """The time of the steps of training: forward, backward and update."""
    trace = shares.trace
    forward = sum(row.forward_ns for row in shares.rows if row.phase == "forward" and row.reached)
    return forward + trace.backward_ns + trace.update_ns


def _made(trace: Trace, table: Leaf) -> Place | None:
    """Where the user's code makes the embedding that a parameter belongs to."""
    attribute = table.name.split(".")[-2] if "." in table.name else table.name
    for source in sources(trace):
        for node in source.nodes:
            if isinstance(node, ast.Assign) and called(node.value).startswith("Embedding"):
                names = [getattr(t, "attr", getattr(t, "id", "")) for t in node.targets]
                if attribute in names:
                    return source.place(node)
    return None


IDIOMS = (wasted, for_nobody, again_from_the_start, one_by_one, dense_tables)
