"""The same computed again: an op on values it had before, a frozen model on samples it has seen."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from ...recorder.cell_trace import Chain, Leaf, Ref, Row, Trace, ancestors
from ...recorder.repeats import LONG, RANDOM
from ...recorder.sampling import asks_for_next
from ..finding import last_line, listed, spot, where
from ..reading.calls import loops_around
from ..reading.safe_forms import parsed
from ..reading.sources import names_in, sources
from .op_costs import of_call, of_ops
from .time_shares import Saving, Shares, common, in_loop, quoted, spent

PICKS, FEW = {"getitem", "select", "index", "slice"}, 16  # ops that take a part, and elements that are hardly any
MANY = 1000  # runs from which a loop goes through elements
TURNS, MOSTLY = 3, 0.6  # runs, and the share of them that found values met before
WITH_GRADIENTS = 24  # runs, where their results have a history
ONCE = "Compute it once, before the loop, and keep the result (where its input does not change)."
SOLVES = {"solve", "linalg_solve", "linalg_solve_ex", "inverse", "linalg_inv", "linalg_inv_ex"}
FACTOR = (
    "Factor the matrix once, before the loop, and solve with the factor: L = torch.linalg.cholesky(A) and "
    "torch.cholesky_solve(b, L) where it is symmetric and positive, else torch.linalg.lu_factor and lu_solve."
)
COMPLETE = 0.6  # share of a call's time that is repeated, where the call is


def again(shares: Shares) -> Iterator[Saving]:
    """Ops that got the same values, and gave the same, again and again."""
    trace = shares.trace
    groups: dict[Chain, list[tuple[Row, float]]] = {}
    for row in shares.rows:
        looked, repeated, _ = trace.again.get(row, (0, 0, 0))
        runs = max(row.count, 1)
        if row.forward_ns < LONG / 4 * runs:
            continue  # the few runs that were looked at waited for a processor, and tell of no others
        if runs >= MANY and all(math.prod(ref.shape) <= FEW for ref in (row, *row.refs[row.op in PICKS :])):
            continue  # of elements that a loop goes through the calls cost, and not the computing
        trained = row.requires_grad and not _within_steps(trace, row)
        if repeated >= TURNS and repeated >= MOSTLY * looked and not trained:
            chain = in_loop(trace, row.chain) or row.chain
            groups.setdefault(chain, []).append((row, spent([row]) * repeated / max(looked, 1)))
        elif repeated and row.count == repeated == looked and runs == 1 and not row.requires_grad:
            chain = in_loop(trace, row.chain) or row.chain  # a row a run: the graph unrolled
            groups.setdefault(chain, []).append((row, float(row.forward_ns)))
    for loop, pairs in groups.items():
        ns = sum(ns for _, ns in pairs)
        rows = [row for row, _ in pairs]
        counts: dict[tuple[str, Chain], int] = {}
        for row in rows:  # at one place, so that two products of one function are no two runs of it
            counts[row.op, row.chain] = counts.get((row.op, row.chain), 0) + row.count
        runs = max(counts.values())
        if runs < TURNS:
            continue
        shown = max(pairs, key=lambda pair: pair[1])[0]
        whole = _whole(shares, pairs, len(loop))
        chain = whole or common(row.chain for row in rows)
        inside = where(trace, shown.chain)[2] if shown.chain != chain else ""
        deeper = f" (most of it is spent at {inside.rpartition('(')[2].rstrip(')')})" if inside else ""
        # of a call all of whose work is repeated, what it does between its ops is saved as well
        python = 0.0 if not whole else max(of_call(shares, chain) - _below(shares, chain), 0.0) * (1 - 1 / runs)
        part = ns / max(spent(rows), 1)
        least = max(ns + python, part * of_ops(shares, rows))
        follow = _that_follow(shares, rows)
        most = max(least, part * of_ops(shares, [*rows, *follow]))
        yield from shares.saving(
            most,
            chain,
            f"computes the same again and again: {quoted(trace, chain)} ran on the same values, and gave the same, in "
            f"most of {runs:,} runs{deeper}{_factored(trace, shown)}.",
            FACTOR if shown.op in SOLVES else _once(trace, chain),
            [shown],
            least=least if follow else None,
        )


def _once(trace: Trace, chain: Chain) -> str:
    """The remedy, with the attribute that keeps the result of what a method computes of its object's alone."""
    sample = next((frame for frame in chain if frame[0].co_name == "__getitem__"), None)
    if sample is not None:
        return (
            "Compute it once for each sample, before the loop, and keep the result: a list that __init__ fills, of "
            f"which __getitem__ ({spot(trace, sample)}) returns an element (unless the data is augmented)."
        )
    code = chain[0][0] if chain else None
    text = quoted(trace, chain).strip("`")
    if code is None or code.co_argcount == 0 or code.co_name == "__init__" or not (node := parsed(text)):
        return ONCE
    own = code.co_varnames[0]
    if own != "self" or names_in(node) & set(code.co_varnames) != {own} or not isinstance(node, ast.Call):
        return ONCE
    return (
        f"Compute it once, before the loop, and keep the result: self.kept = {text} in __init__, and self.kept here "
        "(where its input does not change)."
    )


def _factored(trace: Trace, shown: Row) -> str:
    """In words: the other places at which the matrix of a system of equations is factored anew."""
    others = [row for row in trace.rows if row.op in SOLVES and row is not shown and row.refs[:1] == shown.refs[:1]]
    places = dict.fromkeys(where(trace, row.chain)[2] for row in others if row.chain != shown.chain)
    return f", and {listed(list(places))} factors the same matrix again" if shown.op in SOLVES and places else ""


def _that_follow(shares: Shares, rows: list[Row]) -> list[Row]:
    """The ops that only go on with what is repeated, and so repeat it unless a number of Python's changes: many are
    over before anybody looks."""
    trace = shares.trace
    known = dict.fromkeys(rows)
    for row in shares.rows:
        before = [ref for ref in row.refs if isinstance(ref, Row)]
        same = all(ref in known if isinstance(ref, Row) else not ref.renewed for ref in row.refs)
        looked, repeated, _ = trace.again.get(row, (0, 0, 0))
        if row.requires_grad or row.phase != "forward" or row.op in RANDOM or repeated < MOSTLY * looked:
            continue
        if before and same:
            known[row] = None
    return [row for row in known if row not in rows]


def _below(shares: Shares, chain: Chain) -> float:
    """The time of the ops of a call, with their gradients."""
    return spent(row for row in shares.rows if row.chain[-len(chain) :] == chain)


def _within_steps(trace: Trace, row: Row) -> bool:
    """Whether an op that is trained gives the same several times in each step, between which it changes."""
    looked, repeated, _ = trace.again.get(row, (0, 0, 0))
    own = row in trace.again_of and trace.again_of[row].chain == row.chain
    return own and repeated >= WITH_GRADIENTS and looked - repeated >= 2


def _whole(shares: Shares, pairs: list[tuple[Row, float]], least: int) -> Chain:
    """The outermost call, no further out than a loop whose chain has `least` frames, of which all is repeated."""
    repeated: dict[Chain, float] = {}
    for row, ns in pairs:
        for k in range(len(row.chain) - least + 1):
            if asks_for_next(row.chain[k]):
                break  # a loop's line that waits for a batch is not what computes it
            repeated[row.chain[k:]] = repeated.get(row.chain[k:], 0.0) + ns
    known = {row for row, _ in pairs}
    whole: dict[Chain, float] = dict.fromkeys(repeated, 0.0)
    for row in shares.rows:
        for k in range(len(row.chain) - least + 1):
            if row.chain[k:] in whole:  # what is trained changes from turn to turn
                whole[row.chain[k:]] += spent([row]) if row in known or not _changes(shares, row) else math.inf
    for row in shares.rows:
        others = [ref for ref in row.refs if isinstance(ref, Row) and ref not in known]
        for k in range(1, len(row.chain) - least + 1):
            chain = row.chain[k:]
            if chain in whole and any(ref.chain[-len(chain) :] != chain and _renewed(ref) for ref in others):
                whole[chain] = math.inf  # the call is given something else each time
    complete = [chain for chain, ns in repeated.items() if ns >= COMPLETE * whole[chain]]
    most = max((repeated[chain] for chain in complete), default=1.0)
    return max(complete, key=lambda chain: (repeated[chain] >= 0.8 * most, -len(chain)), default=())


def _changes(shares: Shares, row: Row) -> bool:
    """Whether an op is trained, or reads what a step has changed: a head on a part that is frozen."""
    stepped = shares.trace.steps.stepped
    return bool(row.reached) or any(isinstance(ref, Leaf) and ref in stepped for ref in row.refs)


def _renewed(row: Row) -> bool:
    """Whether a value was computed from one that is another tensor each time."""
    return any(isinstance(ref, Leaf) and ref.renewed for ref in ancestors([row]))


def frozen(shares: Shares) -> Iterator[Saving]:
    """A part without gradients that gets the samples of a few batches in every epoch."""
    trace = shares.trace
    starts = []
    for row, (samples, different) in trace.single.items():
        if row in trace.again and trace.again[row][1] >= MOSTLY * trace.again[row][0]:
            continue
        if _stays(row.refs):
            continue  # what is looked at is a matrix by which each sample is multiplied, and no batch
        growing = row.count > 2 and 2 * row.grown >= row.count
        if row.phase == "forward" and samples >= 2 * different and not growing:
            starts.append((row, samples, different))
    if not starts:
        return
    first, samples, different = max(starts, key=lambda found: found[0].forward_ns)
    reached: dict[Ref, None] = dict.fromkeys(row for row, _, _ in starts)
    for row in trace.rows:
        if row.requires_grad or row.cut or row.phase != "forward":
            continue
        known = all(ref in reached or _still(ref, trace) for ref in row.refs)
        if known and any(ref in reached for ref in row.refs):
            reached[row] = None
    rows = [row for row in reached if isinstance(row, Row)]
    # what prepares the samples stands beside the call, and is no part of it
    chain = common(row.chain for row in rows) or common(r.chain for r in rows if r.chain[-1:] == first.chain[-1:])
    if not chain or _carried(trace, chain):
        return
    below = [row for row in shares.rows if row.chain[-len(chain) :] == chain]
    if 2 * spent(rows) < spent(below) and any(_changes(shares, row) for row in below):
        return  # most of what is quoted reads weights that a step changes
    of_each = first.runs * first.refs[0].shape[0] if first.refs and first.refs[0].shape else samples
    times = max(samples, of_each) / _in_all(samples, different)
    whole = of_call(shares, chain) if spent(rows) >= COMPLETE * _below(shares, chain) else of_ops(shares, rows)
    yield from shares.saving(
        (1 - 1 / times) * whole,
        chain,
        f"computes what cannot change anew for each epoch: {quoted(trace, chain)} trains nothing, and of {samples:,} "
        f"samples that were looked at {different:,} are different, each met {times:.0f} times.",
        "Run it once over the data, before the epochs, and train on what it gives (unless the data is augmented).",
        [first],
    )


def _stays(refs: tuple[Ref, ...]) -> bool:
    """Whether an op is given one tensor throughout, and beside it others that are made anew."""
    first = refs[0] if refs else None
    anew = any(isinstance(ref, Row) or ref.renewed for ref in refs[1:])
    return isinstance(first, Leaf) and not first.renewed and anew


def _carried(trace: Trace, chain: Chain) -> bool:
    """Whether a call of this cell is given what an earlier turn of a loop around it has made anew: ``e_step(x, mu)``,
    where ``mu = m_step(x, ...)`` comes after it."""
    line, source = where(trace, chain)[0], sources(trace)[0]
    if line is None or source.name:
        return False
    calls = [n for n in source.nodes if isinstance(n, ast.Call) and n.lineno <= line <= last_line(n)]
    for call in calls:
        given = {name for part in (*call.args, *(k.value for k in call.keywords)) for name in names_in(part)}
        for loop in loops_around(source, call):
            stores = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Name) and n.id in given
                      and isinstance(n.ctx, ast.Store)]  # fmt: skip
            before = {n.id for n in stores if n.lineno < call.lineno}
            if any(n.id not in before for n in stores):
                return True
    return False


def _in_all(samples: int, different: int) -> float:
    """Return how many samples there are, where of some that were looked at so many were different.

    >>> round(_in_all(1000, 500)), round(_in_all(1000, 100))
    (628, 100)
    """
    low, high = float(different), 4.0 * different
    for _ in range(40):  # of n samples, 1 - exp(-looks / n) are met
        n = (low + high) / 2
        low, high = (n, high) if n * (1 - math.exp(-samples / n)) < different else (low, n)
    return low


def _still(ref: Ref, trace: Trace) -> bool:
    """Whether a value is one that nothing trains."""
    return isinstance(ref, Leaf) and ref not in trace.gradients


def twice(shares: Shares) -> Iterator[Saving]:
    """The same model on the same batch at two places of one step."""
    trace = shares.trace
    pairs: dict[tuple[Chain, Chain], list[Row]] = {}
    for row, first in trace.again_of.items():
        looked, repeated, _ = trace.again.get(row, (0, 0, 0))
        if first.chain == row.chain or first not in trace.rows or repeated < 0.8 * looked:
            continue
        if row.requires_grad and not first.requires_grad:
            continue  # a step's forward after an evaluation, whose result has no graph
        pairs.setdefault((row.chain[-1:], first.chain[-1:]), []).append(row)
    for (_, _), rows in pairs.items():
        ns = of_ops(shares, rows)
        chain = common(row.chain for row in rows)
        if not chain or shares.worth(ns) < 0.15:
            continue
        first = trace.again_of[rows[0]]
        _, _, there = where(trace, first.chain[-1:])
        yield from shares.saving(
            ns,
            chain,
            f"computes what {there} has computed: {quoted(trace, chain)} runs the same ops on the same values.",
            "Keep the first result in a variable and use it in both places.",
            rows[:1],
        )


IDIOMS = (again, frozen, twice)
