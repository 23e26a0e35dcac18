"""What is left to say about slow code: the line or loop in which most of the time goes, and what it does there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from widgets.figures import time_text

from ...recorder.cell_trace import Chain, Leaf, Row, Trace
from ...recorder.repeats import RANDOM
from ..finding import Found, where
from ..order import rule
from .busy_lines import Busy, busy_lines
from .cost import of_batches, overhead, saved
from .loop_recipes import recipe
from .loop_waits import waits
from .sequential_loops import TURNS_ALONE, acts, sequential
from .slow_code import slow
from .slow_python import PASSIVE, known_call
from .slow_turns import small_turns
from .time_shares import Loop, Shares, begun, loop_around, quoted, spent

SAVED = 0.95  # of the time of Python on a line, where it is done for all values at once
LONG_NS, MOST, TURNS = 300_000_000, 0.5, 8  # a cell's time, the share of one line or loop, and the runs of a loop
ALONE = 0.7  # the share of a line that stands in no loop
SMALL_NS = 50_000  # an op that is mostly the call of it
DRAWS = re.compile(r"`(torch|core|np\.random)\.(rand|randn|randint|normal|uniform)(_like)?\(")  # data that is made up
ITERATIONS = 1000  # runs of a product outside of models from which it is the user's own algorithm
BODY = 0.25  # share of a loop that its longest line has
DEEP = 10  # layers of a model that somebody else has written
MODEL = ("linear", "conv", "matmul", "mm", "bmm", "addmm", "gru", "lstm", "rnn", "attention", "scaled_dot_product",
         "batch_norm", "layer_norm", "max_pool", "embedding")  # fmt: skip
REMEDIES = {
    "sort": "Where only the largest are wanted, torch.topk finds them without sorting all.",
    "argsort": "Where only the largest are wanted, torch.topk finds them without sorting all.",
    "cdist": "Compute it for fewer pairs, or in half precision; what does not change, once and before the loop.",
    "contiguous": "Copy once, before the loop, or keep the data in the order that the op wants.",
    "clone": "Copy only what is changed later.",
    "repeat": "Use expand, which copies nothing, or let the next op broadcast.",
    "repeat_interleave": "Use expand and reshape, or let the next op broadcast.",
    "nonzero": "Use torch.where or a mask, which need no count of what they find.",
    "unique": "Find them once, before the loop; for counts of small numbers take torch.bincount.",
    "eig": "For a symmetric matrix take eigh; where only values are wanted, eigvalsh.",
    "linalg_eig": "For a symmetric matrix take eigh; where only values are wanted, eigvalsh.",
    "linalg_svd": "Where only values are wanted take svdvals; for a few vectors, svd_lowrank.",
    "svd": "Where only values are wanted take svdvals; for a few vectors, svd_lowrank.",
    "inverse": "Solve in place of inverting, and factor once what does not change.",
    "linalg_inv": "Solve in place of inverting, and factor once what does not change.",
    "linalg_inv_ex": "Solve in place of inverting, and factor once what does not change.",
    "matrix_exp": "Compute it once where the matrix does not change.",
    "multinomial": "Draw all samples in one call.",
    "index_put_": "Write all places in one call, or gather in a list and stack once.",
    "scatter_add_": "Sort by index once and sum the pieces, or use bincount with weights.",
    "one_hot": "Index by the numbers themselves: nn.Embedding, gather, or a loss that takes class numbers.",
}
DEFAULT = "See whether it can be done once, before the loop, for all at once, or on fewer values."
CONVERGED = (
    "Each turn needs the one before: end the loop once a turn hardly changes anything (a tolerance), take larger "
    "steps, or compute several problems in one batch."
)
ELEMENTS = "Work on whole tensors in place of elements or rows: an op over all of them costs little more than over one."
PYTHON = "Do it for all values at once, by NumPy or tensor ops, or once, before the loop."


@rule(895)
def hottest(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A long cell with one line or loop that takes most of its time, where nothing else is known about it."""
    shares = Shares(trace)
    if trace.error is not None or trace.stopped or not shares.fair or shares.total - shares.queue < LONG_NS:
        return []
    if waits(trace, set()) or overhead(trace, set()) or slow(trace, set()):
        return []
    turned = next(small_turns(shares), None)
    if turned is not None:
        return [turned.found]
    lines = [busy for busy in busy_lines(shares) if not _meant(trace, busy)]
    training = _training_loops(trace)
    for busy in lines[:3]:
        share = min(busy.ns / shares.total, 0.99)
        inner = next((loop for loop in _loops(trace, busy.chain)), None)
        if shares.worth(busy.ns, busy.chain) >= (MOST if inner is not None else ALONE) and not _in_model(busy):
            found = _line(shares, busy, share)
            return [] if found.remedy is ELEMENTS and of_batches(busy.rows) else [found]
    loops: dict[tuple[str, int], tuple[Loop, list[Busy]]] = {}
    for busy in lines:
        for file, loop in _loops_with_files(trace, busy.chain):
            if (file, loop.lineno) not in training and not sequential(loop) and not acts(loop):
                loops.setdefault((file, loop.lineno), (loop, []))[1].append(busy)
    for loop, parts in sorted(loops.values(), key=lambda pair: -pair[0].lineno):
        ns = sum(busy.ns for busy in parts)
        first = max(parts, key=lambda busy: busy.ns)
        runs = max((row.runs for busy in parts for row in busy.rows), default=TURNS)
        if shares.worth(ns) < MOST or first.ns < BODY * ns or runs < TURNS or _in_model(first):
            continue
        found = _line(shares, first, ns / shares.total, loop)
        return [] if found.remedy is ELEMENTS and of_batches(first.rows) else [found]
    return []


def _line(shares: Shares, busy: Busy, share: float, loop: Loop | None = None) -> Found:
    """The finding: where, how much, what kind of work, and what may be done."""
    trace = shares.trace
    line, col, place = where(trace, busy.chain)
    code = quoted(trace, busy.chain)
    rows = sorted(busy.rows, key=lambda row: -spent([row]))
    runs, ns = sum(row.runs for row in rows), spent(rows)
    known = known_call(code)
    remedy, least, turned = known.remedy if known is not None else PYTHON, None, False
    if not rows or busy.python > 0.6 * busy.ns:
        does = f"{code} runs in Python and hardly any op of tensors"
        if known is not None:
            does = f"{code} {known.does}"
    elif shares.ran * ns < SMALL_NS * runs and runs >= 100 * TURNS:
        does = f"{code} ran {runs:,} ops, {time_text(ns / runs / 1e6)} each, and Python between them"
        remedy = ELEMENTS
    else:
        row = rows[0]
        size = "×".join(map(str, row.shape)) or "one number"
        times = "once" if row.runs == 1 else f"{row.runs:,} times"
        does = f"{code} ran {times}, mostly {row.op} ({size}), {time_text(spent([row]) / row.runs / 1e6)} each"
        remedy, least, known = REMEDIES.get(row.op, DEFAULT), 0.0, None
        around = next(_loops(trace, busy.chain), None)
        if row.runs >= ITERATIONS and around is not None and sequential(around):
            remedy = CONVERGED
    if remedy is ELEMENTS and (own := next(_loops(trace, busy.chain), None)) is not None and sequential(own):
        remedy = TURNS_ALONE
    replaced = remedy in (PYTHON, ELEMENTS, TURNS_ALONE, DEFAULT) or (known is not None and known.single)
    if replaced and (form := recipe(trace, busy.chain, any(r.path for r in rows))):
        remedy, turned = form, True
    what = "" if loop is None else f" with the rest of the loop of line {loop.lineno}"
    message = f"{begun(place)}{what} takes about {100 * share:.0f} % of this cell's time: {does}."
    # what takes the place of Python's turns is known, of an op it is not
    turned = turned or remedy in (PYTHON, ELEMENTS)
    message += saved(SAVED * share if turned or known is not None else share, 0.0 if remedy is TURNS_ALONE else least)
    return Found("slow", "note", line, col, message, remedy, rows[:1])


def _meant(trace: Trace, busy: Busy) -> bool:
    """Whether a line is what training is made of: the pass backward, a step, a loop over a loader."""
    timed = {chain[0] for chain in (*trace.spans, *trace.backwards, trace.steps.last_step, *trace.fetched) if chain}
    code = quoted(trace, busy.chain, 400)
    return busy.chain[0] in timed or PASSIVE.search(code) is not None or DRAWS.match(code) is not None


def _in_model(busy: Busy) -> bool:
    """Whether most of what runs on a line are layers, called as they are meant to be, or draws of random numbers."""
    rows = [row for row in busy.rows if row.phase == "forward"]
    layers = [
        row for row in rows if (row.op.startswith(MODEL) and not _own_iteration(row)) or row.op in RANDOM
        or (row.path and busy.chain[0][0].co_name != "forward")
    ]  # fmt: skip
    deep = len({row.path for row in layers if row.path}) >= DEEP  # Python between its layers is the model's own
    return bool(rows) and (deep or busy.python < 0.5 * busy.ns) and spent(layers) >= 0.5 * spent(rows)


def _own_iteration(row: Row) -> bool:
    """Whether a product belongs to an iteration of the user's own, and to no model."""
    return not row.path and not row.requires_grad and row.runs >= ITERATIONS


def _loops(trace: Trace, chain: Chain) -> Iterator[Loop]:
    return (loop for _, loop in _loops_with_files(trace, chain))


def _loops_with_files(trace: Trace, chain: Chain) -> Iterator[tuple[str, Loop]]:
    """Yield the loops around a place and around the calls that led there, innermost first, one a frame."""
    for frame in chain:
        loop = loop_around(trace, frame)
        if loop is not None:
            yield frame[0].co_filename, loop


def _training_loops(trace: Trace) -> set[tuple[str, int]]:
    """The loops in which gradients are computed or steps are made."""
    chains = (*trace.backwards, *trace.spans, trace.steps.last_step)
    return {(file, loop.lineno) for chain in chains for file, loop in _loops_with_files(trace, chain)}
