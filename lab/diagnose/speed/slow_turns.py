"""Many small ops in each turn of a loop inside of a step, where no turn needs what another gave."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from widgets.figures import time_text

from ...recorder.cell_trace import Chain, Leaf, Row, Trace
from ..finding import spot
from .busy_lines import Busy, busy_lines, in_loop_most
from .cost import of_rows
from .loop_recipes import recipe
from .op_costs import backward_of, for_all_turns, harder
from .sequential_loops import acts, carried_in_place, sequential
from .time_shares import Frame, Loop, Saving, Shares, busiest_loop, header, loops_around, quoted, spent

TURNS, RUNS = 8, 400  # turns of a loop each time it is come to, and ops in all, from which they are many
SMALL_NS = 250_000  # an op, with its gradient, of which most is the call
LEAST = 0.4  # share of a cell's time
INNER = 0.8  # share of a loop's time that a loop inside it has, where that is the one to change
ALONE = 0.5  # share of a loop's time on a line without ops, from which it is Python that takes it
LAYERS = 8  # layers of one shape
BATCH = 32  # rows of a batch, with which a model is run as it should be
COMPARING = {"eq", "ne", "ge", "gt", "le", "lt", "index", "masked_select", "nonzero"}
SCANNED = 1024  # values that are compared in each turn
Key = tuple[str, int, int]


@dataclass
class Turned:
    """A loop, and what its turns run."""

    loop: Loop
    rows: list[Row] = field(default_factory=list)
    lines: list[Busy] = field(default_factory=list)
    update_ns: float = 0.0
    """The time in which an optimizer steps the parameters of its layers, one after another."""

    @property
    def ns(self) -> float:
        """The time that passes in its body, and for what it makes."""
        return sum(busy.ns for busy in self.lines) + self.update_ns

    def own_ns(self, shares: Shares) -> float:
        """Of that, what is left where nobody listens."""
        rows = [row for busy in self.lines for row in busy.rows]
        met = sum(busy.met * shares.kept(busy.chain) for busy in self.lines)
        return met + backward_of(shares, rows) + self.update_ns


def small_turns(shares: Shares) -> Iterator[Saving]:
    """``for q, k, v in zip(self.q, self.k, self.v): outs.append(...)``: as many calls as there are turns."""
    trace = shares.trace
    found = [turned for turned in _loops(shares) if _many(shares, turned)]
    if not found:
        return
    longest = max(turned.ns for turned in found)
    turned = min((t for t in found if t.ns >= INNER * longest), key=lambda t: t.ns)
    busy = in_loop_most(trace, turned.lines, turned.loop) or max(turned.lines, key=lambda busy: busy.ns)
    if not busy.rows and busy.python > ALONE * turned.ns:
        return
    turns, runs = _turns(shares, turned.rows), sum(row.runs for row in turned.rows)
    at = spot_of_loop(trace, busy.chain, turned.loop)
    layers = _layers(turned.rows)
    what = f"{layers} layers of one shape" if layers else quoted(trace, busy.chain)
    scanned = _scanned(turned.rows)
    does = "runs small ops" if not scanned else f"goes through {scanned:,} values"
    both = ", forward and backward" if any(row.reached for row in turned.rows) else ""
    why = "" if scanned else f", and most of that is the calls{both}"
    left, strict = for_all_turns(shares, turned.rows, turns, over=bool(scanned)), harder(shares)
    most, least = turned.own_ns(shares) - left, strict.part(turned.own_ns(strict) - left)
    yield from shares.saving(
        most,
        busy.chain,
        f"{does} in each turn of the loop {at}(`{header(turned.loop)}`), though no turn needs what another gave: "
        f"{what} ran {runs:,} ops, {time_text(spent(turned.rows) / runs / 1e6)} each{why}.",
        _remedy(trace, turned, busy.chain, layers, scanned),
        sorted(turned.rows, key=lambda row: -spent([row]))[:1],
        least=least * shares.alone,
    )


def spot_of_loop(trace: Trace, chain: Chain, loop: Loop) -> str:
    """Return where a loop around a place begins, as a sentence says it; "" where the quoted line is the loop's."""
    for frame in chain:
        for around in loops_around(trace, frame):
            if around is loop:
                line = spot(trace, frame)
                own = f"line {loop.lineno}"
                return "" if line == own else f"of {line.rpartition('line ')[0]}{own} "
    return ""


def _loops(shares: Shares) -> list[Turned]:
    """The loops of the user's around ops and lines, but those that train, and those whose turns follow on another."""
    trace = shares.trace
    known: dict[Frame, list[tuple[Key, Loop]]] = {}

    def around(chain: Chain) -> dict[Key, Loop]:
        for frame in chain:
            if frame not in known:
                file = frame[0].co_filename
                known[frame] = [((file, n.lineno, n.col_offset), n) for n in loops_around(trace, frame)]
        return {key: loop for frame in chain for key, loop in known[frame]}

    asked = set(trace.chosen) if trace.steps.ran else set()
    chains = [c for c in (*trace.backwards, *trace.spans, trace.steps.last_step) if c and c not in asked]
    training = {key for chain in chains for key in around(chain)}
    found: dict[Key, Turned] = {}
    for row in shares.rows:
        for key, loop in around(row.chain).items() if row.phase == "forward" else ():
            found.setdefault(key, Turned(loop)).rows.append(row)
    for busy in busy_lines(shares):
        for key in around(busy.chain):
            if key in found:
                found[key].lines.append(busy)
    for turned in found.values():
        if _layers(turned.rows):
            held = {ref for row in turned.rows for ref in row.refs if ref in trace.optimized}
            turned.update_ns = trace.update_ns * len(held) / max(len(trace.optimized), 1)
    left = [turned for key, turned in found.items() if key not in training]
    return [t for t in left if not (sequential(t.loop) or carried_in_place(t.loop) or acts(t.loop))]


def _many(shares: Shares, turned: Turned) -> bool:
    """Whether a loop runs many small ops, and takes much of the cell's time."""
    if not turned.lines or isinstance(turned.loop, ast.While):
        return False
    runs = sum(row.runs for row in turned.rows)
    small = shares.ran * spent(turned.rows) <= SMALL_NS * runs or _scanned(turned.rows)
    if runs < RUNS or not small or shares.worth(turned.ns) < LEAST:
        return False
    if _whole_batches(turned):
        return False
    busiest = busiest_loop(shares.trace, turned.rows, INNER)  # the innermost that runs most of them
    return (busiest is None or busiest.loop is turned.loop) and _turns(shares, turned.rows) >= TURNS


def _whole_batches(turned: Turned) -> bool:
    """Whether a loop gives a model whole batches, or the same one again and again, as its samples are drawn."""
    loop = turned.loop
    targets = [loop.target] if isinstance(loop, ast.For | ast.AsyncFor) else [g.target for g in loop.generators]  # type: ignore[union-attr]
    names = {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    reads = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    layers = [row for row in turned.rows if row.path and row.shape and row.shape[0] >= BATCH]
    single = any(of_rows(row) for row in turned.rows)
    return not names & reads or (spent(layers) >= 0.5 * spent(turned.rows) and not single and not _layers(turned.rows))


def _turns(shares: Shares, rows: list[Row]) -> float:
    """How often a place of a loop ran in each step."""
    runs: dict[tuple[Chain, str], int] = {}
    for row in rows:
        key = row.chain, row.op
        runs[key] = runs.get(key, 0) + row.runs
    return max(runs.values(), default=0) / max(shares.trace.steps.ran, 1)


def _layers(rows: list[Row]) -> int:
    """How many weights of one shape ops at one place are given."""
    weights: dict[tuple[Chain, str, tuple[int, ...]], set[Leaf]] = {}
    for row in rows:
        for ref in row.refs:
            if isinstance(ref, Leaf) and ref.module and len(ref.shape) > 1:
                weights.setdefault((row.chain, row.op, tuple(ref.shape)), set()).add(ref)
    most = max(map(len, weights.values()), default=0)
    return most if most >= LAYERS else 0


def _remedy(trace: Trace, turned: Turned, chain: Chain, layers: int, scanned: int) -> str:
    """What to do instead, by what the turns do."""
    if layers:
        convolves = any(row.op.startswith("conv") for row in turned.rows)
        one = "one convolution with groups=" if convolves else "one nn.Linear with all outputs side by side"
        return f"Compute all in one call: {one}, or torch.einsum over weights kept as one parameter."
    if any(ops_ahead(turned, chain) for chain in trace.chosen):
        return (
            "Give all points to the model at once, and take one gradient of the sum of what it gives: each point gets "
            "its own part."
        )
    if known := recipe(trace, chain, any(row.path for row in turned.rows)):
        return known
    if scanned:
        return (
            "Do not go through all values once for each group: index_add, scatter_reduce or bincount by the group's "
            "number, or searchsorted in sorted values."
        )
    return (
        "Give all of them to the ops at once, along a dimension of their own: broadcasting, gather, index_add, or "
        "torch.func.vmap of the function."
    )


def ops_ahead(turned: Turned, chain: Chain) -> bool:
    """Return whether gradients are asked for inside of a loop."""
    frames = {frame[0] for row in turned.rows for frame in row.chain[:1]}
    lines = range(turned.loop.lineno, (turned.loop.end_lineno or turned.loop.lineno) + 1)
    return bool(chain) and chain[0][0] in frames and any(line in lines for line in _lines(chain[0]))


def _lines(frame: Frame) -> list[int]:
    """The line at which a frame stands."""
    code, lasti = frame
    return [line for start, end, line in code.co_lines() if line is not None and start <= lasti < end]


def _scanned(rows: list[Row]) -> int:
    """How many values are compared in each turn, where these are many."""
    compared = [math.prod(row.refs[0].shape) for row in rows if row.op in COMPARING and row.refs]
    return max((size for size in compared if size >= SCANNED), default=0)
