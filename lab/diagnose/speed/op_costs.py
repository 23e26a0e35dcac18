"""What ops, calls and loops cost a cell, and what other ops would cost in their place.

An op costs what its runs take forward, what its gradients take backward with the engine around them, and its part of
the Python on its line: the calls, the module around it, the freeing of what it made. The last is what the cell was met
at on that line, without the time inside of the line's ops; of several ops it goes to each by its calls and its bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ...recorder.cell_trace import Chain, Leaf, Row, Trace
from ...recorder.repeats import PRODUCTS
from .busy_lines import busy_lines
from .time_shares import Loop, Shares, loops_around, own

CALL_NS, TORCH_CALL_NS = 5_000.0, 12_000.0  # ns of a small op with the Python that calls it, in core and in PyTorch
PACE = 25.0  # multiplications and additions in a nanosecond, in products of one thread
STREAM = 10.0  # bytes in a nanosecond that an op reads or writes
STEP_NS, TORCH_STEP_NS = 6_000.0, 40_000.0  # a step of a recurrent layer beside its products
ENGINE = 2.0  # times the time of the gradients themselves that a backward pass counts for at most


def harder(shares: Shares) -> Shares:
    """Return the shares of a cell's time if it takes thrice the usual to tell of an op, as it does of some: of tiny ops
    that is most of what they take while they are recorded."""
    return Shares(shares.trace, told=3.0)


def of_ops(shares: Shares, rows: Iterable[Row]) -> float:
    """Return the time of some ops: forward, backward, and their part of the Python on their lines."""
    chosen, found = dict.fromkeys(rows), 0.0
    for busy in busy_lines(shares):
        here = [row for row in busy.rows if row in chosen]
        if here:
            forward = sum(row.forward_ns for row in busy.rows)
            call = TORCH_CALL_NS if of_pytorch(shares.trace) else CALL_NS
            part = sum(_python(row, call) for row in here) / sum(_python(row, call) for row in busy.rows)
            took = sum(row.forward_ns for row in here) + part * max(busy.met - forward, 0.0)
            found += took * shares.kept(busy.chain)
    others = sum(row.forward_ns for row in chosen if row.phase != "forward" or not own(shares.trace, row.chain))
    return found + others + backward_of(shares, chosen)


def _python(row: Row, call: float) -> float:
    """Return for how much of what passes on a line beside its ops one of them stands: for its calls, and for the bytes
    that are freed there, which take as long as the op itself where they are many."""
    mean = row.sizes / max(row.count, 1)
    return row.runs * (call + mean / STREAM)


def backward_of(shares: Shares, rows: Iterable[Row]) -> float:
    """Return the time of the gradients of some ops, with their part of what a pass backward takes beside gradients."""
    trace = shares.trace
    known = sum(row.backward_ns for row in trace.rows)
    whole = min(max(trace.backward_ns / known, 1.0), ENGINE) if known else 1.0
    return whole * sum(map(shares.gradient_of, rows))


def of_call(shares: Shares, chain: Chain) -> float:
    """Return the time of a call that stands at the innermost place of a chain: all that runs below it, and backward."""
    below = [row for row in shares.rows if row.chain[-len(chain) :] == chain]
    met = shares.sampled(chain[0]) * shares.total if chain else 0.0
    return max(met, forward_of(shares, below)) + backward_of(shares, below)


def forward_of(shares: Shares, rows: Iterable[Row]) -> float:
    """Return the time of some ops themselves."""
    return sum(row.forward_ns * shares.kept(row.chain) for row in rows)


def of_loop(shares: Shares, loop: Loop) -> float:
    """Return the time that passes in a loop and in what it calls, and in the gradients of what it makes."""
    trace = shares.trace
    known = [s for s in trace.samples.values() if s.kind != "import" and s.places]
    looks = [s for s in known if stands_in(trace, s.places, loop)]
    files = {shares.line_of(f)[0] for s in looks for f in s.places if loop in loops_around(trace, f)}
    at = {(file, loop.lineno) for file in files}  # where it asks for the next value
    looks += [s for s in known if at & set(map(shares.line_of, s.places)) and s not in looks]
    met = sum(s.ns * shares.kept(s.places) for s in looks) / shares.looked * shares.total
    rows = [row for row in shares.rows if row.phase == "forward" and stands_in(trace, row.chain, loop)]
    forward = max(met, forward_of(shares, rows))
    if any(stands_in(trace, chain, loop) for chain in (*trace.backwards, *trace.spans)):
        return forward  # it was met in the passes backward as well
    return forward + backward_of(shares, rows)


def stands_in(trace: Trace, chain: Chain, loop: Loop) -> bool:
    """Return whether a place, or a call that led there, stands in a loop."""
    return any(loop in loops_around(trace, frame) for frame in chain)


def in_place(shares: Shares, calls: float, flops: float = 0.0, moved: float = 0.0, trained: bool = False) -> float:
    """Return what ops would cost in place of others: by their calls, their multiplications and the bytes they move;
    on a busy machine as much longer as this cell took."""
    call = TORCH_CALL_NS if of_pytorch(shares.trace) else CALL_NS
    forward = (calls * call + flops / PACE + moved / STREAM) / shares.ran
    return 3 * forward if trained else forward


def of_pytorch(trace: Trace) -> bool:
    """Return whether ops are PyTorch's."""
    return any(row.backend == "PyTorch" for row in trace.rows)


def for_all_turns(shares: Shares, rows: Iterable[Row], turns: float, over: bool = False) -> float:
    """Return what the ops of a loop would cost if each ran once for all turns: as many multiplications and bytes, or,
    where each turn goes `over` all of them, those of one."""
    known = list(rows)
    flops = sum(row.runs * flops_of(row) for row in known if row.op in PRODUCTS)
    moved = 2.0 * sum(row.runs * row.size for row in known)
    trained = any(row.reached for row in known)
    calls = sum(row.runs for row in known) / max(turns, 1)
    part = 1 / max(turns, 1) if over else 1.0
    return in_place(shares, calls, part * flops, part * moved, trained)


def layer_steps(shares: Shares, steps: int, trained: bool) -> float:
    """Return what steps of a recurrent layer take, in one call for all of a sequence, beside their products."""
    step = TORCH_STEP_NS if of_pytorch(shares.trace) else STEP_NS
    return steps * step * (3 if trained else 1) / shares.ran


def flops_of(row: Row) -> float:
    """Return the multiplications of one run of a product by a matrix, of a recurrent cell or of a layer of them."""
    weights = [ref for ref in row.refs if isinstance(ref, Leaf) and ref.requires_grad and len(ref.shape) == 2]
    rows = math.prod(row.shape[:-1])
    if weights:
        return float(rows * sum(math.prod(ref.shape) for ref in weights))
    inner = row.refs[0].shape[-1] if row.refs and row.refs[0].shape else 0
    return float(math.prod(row.shape) * inner)
