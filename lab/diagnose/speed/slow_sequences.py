"""Work of a sequence that is done step by step though all of it is there, and values that never change and are made
again in each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from widgets.figures import time_text

from ...recorder.cell_trace import Row, Trace
from ...recorder.repeats import PRODUCTS
from ..reading.calls import rows_under
from ..reading.scope import indices
from ..reading.sources import Function, Source, called, names_in
from .op_costs import flops_of, in_place, layer_steps, of_ops
from .time_shares import Saving, Shares, quoted, spent

RECURRENT = {"gru", "lstm", "rnn", "rnn_tanh", "rnn_relu", "gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell"}
STEPS = 16  # of a sequence, from which one call for all is worth it
LEAST = 0.15  # share of the cell's time
CHANGES = {"rand", "randn", "randint", "random", "uniform", "choice", "normal", "randperm", "time", "perf_counter",
           "next", "input", "read", "readline", "shuffle", "sample", "permutation", "empty"}  # fmt: skip


def one_step_at_a_time(shares: Shares) -> Iterator[Saving]:
    """``for c in range(n): out, h = rnn(text[:, c], h)`` of a text that is there as a whole."""
    trace = shares.trace
    if not any(row.op in RECURRENT for row in trace.rows):
        return
    for source, index in indices(trace):
        for loop in index.kinds.get(ast.For, ()):
            counter = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
            for node in (n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Assign)):
                call = node.value
                if not isinstance(call, ast.Call) or not _next_of(loop, call, counter):
                    continue
                rows = rows_under(trace, source, call)
                steps = [row for row in rows if row.op in RECURRENT]
                runs, passes = sum(row.runs for row in steps), max(len(trace.backwards), trace.steps.ran, 1)
                if not steps or not _carried(loop, call, node) or runs < STEPS * passes:
                    continue
                chain = min(steps, key=lambda row: row.number).chain
                at = next((k for k, f in enumerate(chain) if trace.place(*f).line == node.lineno), 0)
                yield from shares.saving(
                    of_ops(shares, rows) - _at_once(shares, rows, runs),
                    chain[at:],
                    f"gives a recurrent layer one step at a time: {quoted(trace, chain[at:])} ran {runs:,} times, "
                    f"{time_text(spent(rows) / runs / 1e6)} each, though all of {_whole(call, counter)} is there.",
                    f"Give it the whole sequence in one call: {called(call)}({_whole(call, counter)}, hidden).",
                    steps[:1],
                )
                return


def _at_once(shares: Shares, rows: list[Row], steps: int) -> float:
    """What a layer would take that is given all steps in one call."""
    trained, kinds = any(row.reached for row in rows), RECURRENT | PRODUCTS
    products = sum(row.runs * flops_of(row) for row in rows if row.op in kinds)
    return layer_steps(shares, steps, trained) + in_place(shares, 0, products, trained=trained)


def _next_of(loop: ast.For, call: ast.Call, counter: set[str]) -> bool:
    """Whether a call is given the next step of a sequence that the loop does not make: ``text[:, c]``."""
    made = {n.id for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    first = call.args[0] if len(call.args) > 1 else None
    if not isinstance(first, ast.Subscript) or names_in(first.value) & made:
        return False
    parts = first.slice.elts if isinstance(first.slice, ast.Tuple) else [first.slice]
    return any(names_in(part) & counter and _single(part) for part in parts)


def _single(part: ast.expr) -> bool:
    """Whether an index takes one step, and no window of several: ``c`` or ``c:c + 1``, not ``i:i + n``.

    >>> [_single(ast.parse(f"x[{text}]", mode="eval").body.slice) for text in ("c", "c:c + 1", "i:i + n")]
    [True, True, False]
    """
    if not isinstance(part, ast.Slice):
        return True
    end = part.upper
    one = isinstance(end, ast.BinOp) and isinstance(end.op, ast.Add) and ast.unparse(end.right) == "1"
    return one and part.lower is not None and ast.unparse(end.left) == ast.unparse(part.lower)  # type: ignore[union-attr]


def _whole(call: ast.Call, counter: set[str]) -> str:
    return ast.unparse(call.args[0].value)  # type: ignore[attr-defined]


def _carried(loop: ast.For, call: ast.Call, node: ast.Assign) -> bool:
    """Whether a call is given a state that it gives back, and nothing else that the loop makes."""
    given = {n.id for a in call.args[1:] for n in ast.walk(a) if isinstance(n, ast.Name)}
    back = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    made = {n.id for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return bool(given & back) and not (given & made) - back


def made_again(shares: Shares) -> Iterator[Saving]:
    """A function of the user's that is called with nothing that changes, in each step, and makes a tensor in Python."""
    trace = shares.trace
    if trace.steps.ran < STEPS:
        return
    for source, index in indices(trace):
        for call in (n for n in index.flow.nodes if isinstance(n, ast.Call)):
            function = source.functions.get(called(call)) if isinstance(call.func, ast.Name) else None
            if function is None or not _in_a_step(source, index.flow.scope, call) or not _fixed(source, call):
                continue
            loops = any(isinstance(n, ast.For | ast.ListComp) for n in ast.walk(function))
            if not loops or _changes(source, function):
                continue
            ns = shares.at_lines(source.name, function.lineno, function.end_lineno or function.lineno)
            chain = next((s.places[k:] for s in trace.samples.values() for k, place in enumerate(s.places)
                          if _is_at(trace, source, place, call)), ())  # fmt: skip
            if not chain or ns < LEAST * shares.total:
                continue
            yield from shares.saving(
                0.95 * ns,
                chain,
                f"makes the same in each step: {quoted(trace, chain)} is given nothing that changes.",
                f"Make it once, before the loop, and keep it: {called(call)}_made = {ast.unparse(call)}.",
            )
            return


def _fixed(source: Source, call: ast.Call) -> bool:
    """Whether a call is given plain numbers, settings in capitals and what its loop only gives to it alone."""
    values = [*call.args, *(k.value for k in call.keywords)]
    loops = [a for a in source.around(call) if isinstance(a, ast.For | ast.While)]
    inside = list(ast.walk(loops[-1])) if loops else []
    own = {id(v) for v in values}
    others = {n.id for n in inside if isinstance(n, ast.Name) and id(n) not in own}
    free = bool(loops)  # in forward() a name is an argument, or what was computed
    return all(
        isinstance(v, ast.Constant) or (isinstance(v, ast.Name) and (v.id.isupper() or (free and v.id not in others)))
        for v in values
    )


def _in_a_step(source: Source, scope: ast.AST, call: ast.Call) -> bool:
    """Whether a call stands in a loop that trains, or in forward()."""
    if isinstance(scope, Function):
        return scope.name == "forward"
    loops = [a for a in source.around(call) if isinstance(a, ast.For)]
    return any(called(n) == "backward" for loop in loops for n in ast.walk(loop))


def _changes(source: Source, function: Function, depth: int = 3) -> bool:
    """Whether what a function gives may change from call to call."""
    nodes = list(ast.walk(function))
    own = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own |= {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    outside = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)} - own
    known = {"range", "len", "torch", "core", "np", "numpy", "math", "enumerate", "zip", "int", "float", "list", "min",
             "max", "sum", "abs", "round", "product", "itertools", "tuple", "sorted"}  # fmt: skip
    drawn = any(called(n) in CHANGES for n in nodes)
    imported = {a.asname or a.name for n in source.nodes if isinstance(n, ast.ImportFrom) for a in n.names}
    for name in outside - known - imported:
        helper = source.functions.get(name)
        if not name.isupper() and (helper is None or not depth or _changes(source, helper, depth - 1)):
            return True
    return drawn


def _is_at(trace: Trace, source: Source, place: tuple[object, int], call: ast.Call) -> bool:
    """Whether a place at which the cell was met stands in a call."""
    at = trace.place(*place)  # type: ignore[arg-type]
    if source.name or at.file not in trace.files:
        return False
    return call.lineno <= at.line + trace.files[at.file] <= (call.end_lineno or call.lineno)


IDIOMS = (one_step_at_a_time, made_again)
