"""Samples that come one by one: a model that is trained on one in each step, rows of tensors in memory that a loader
fetches and stacks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import CodeType

from widgets.figures import time_text

from ...recorder.cell_trace import Chain, Leaf, Row, Trace, ancestors
from ...recorder.loader_waits import Fetched
from ..finding import Found, where
from ..reading.sources import Function, called, sources
from .op_costs import of_loop
from .time_shares import Frame, Saving, Shares, begun, in_loop, less_time, loop_around, quoted, spent

STEPS, SAMPLES = 64, 16  # steps of single samples, and samples there are, from which they should be batches
TAKING = {"getitem", "slice", "select", "index", "index_select", "narrow", "unbind", "unsqueeze", "view"}
FORM = {"cast", "to", "float", "reshape", "squeeze", "flatten", "clone", "contiguous"}
BATCH, LONGER = 32, 1.5  # samples of a batch, and how much longer than that of one its step takes
LONG_NS = 200_000  # ns of an op that is long as it is
SHARE, LEAST_NS = (
    0.3,
    100_000_000,
)  # of a cell's time, and in all, from which rows that come one by one are worth a word


def single_samples(shares: Shares) -> Iterator[Saving]:
    """A model that is trained on one sample in each step, though there are many."""
    trace = shares.trace
    first = [row for row in shares.rows if row.requires_grad and row.op.startswith(("linear", "conv", "embedding"))]
    runs = sum(row.runs for row in first)
    if trace.steps.ran < STEPS or not first or runs < STEPS or any(row.shape[:1] != (1,) for row in first):
        return
    if any(len(row.shape) < 2 for row in first) or trace.steps.count < 0.5 * len(trace.backwards):
        return
    taken: Row | None = None
    for ref in ancestors(first):
        many = isinstance(ref, Row) and ref.op in TAKING and ref.refs and isinstance(ref.refs[0], Leaf)
        if many and ref.refs[0].shape[:1] >= (SAMPLES,) and not ref.refs[0].requires_grad:  # type: ignore[union-attr]
            taken = ref  # type: ignore[assignment]
    if taken is None and not any(f.batches >= STEPS for f in trace.fetched.values()):
        return
    chain: Chain = taken.chain if taken is not None else min(first, key=lambda row: row.number).chain
    line, col, place = where(trace, chain)
    if taken is None:
        for source in sources(trace):
            for node in source.nodes:
                if called(node) == "DataLoader" and _by_one(node):
                    line, col, place = source.place(node)
    if shares.ran * spent(shares.rows) > LONG_NS * sum(row.runs for row in shares.rows):
        return  # the ops are long as they are
    step = in_loop(trace, trace.steps.last_step)
    loop = loop_around(trace, step[0]) if step and trace.samples else None
    steps = of_loop(shares, loop) if loop is not None else 0.8 * shares.total
    share = shares.part((1 - LONGER / BATCH) * steps)
    message = (
        f"{begun(place)} gives the model one sample at a time: {trace.steps.ran:,} steps, each of ops that take "
        f"{time_text(spent(first) / runs / 1e6)}, most of which is the call. In batches of {BATCH} the cell would take "
        f"{less_time(share)}."
    )
    remedy = (
        f"Train on batches: DataLoader(..., batch_size={BATCH}), or x[i : i + {BATCH}], with a mean over the batch."
    )
    yield Saving(share, Found("slow", "note", line, col, message, remedy, first[:1]))


def _by_one(node: ast.AST) -> bool:
    """Whether a DataLoader gives batches of one."""
    size = next((k.value for k in getattr(node, "keywords", ()) if k.arg == "batch_size"), None)
    if size is None:
        return len(getattr(node, "args", ())) < 2
    return isinstance(size, ast.Constant) and size.value == 1


def rows_fetched(shares: Shares) -> Iterator[Saving]:
    """``DataLoader(TensorDataset(x, y), ...)``: each row is taken out of a tensor, and a batch is stacked of them."""
    trace, ran = shares.trace, max(shares.total - shares.queue, 1)
    for chain, fetched in sorted(trace.fetched.items(), key=lambda pair: -pair[1].ns):
        waited = fetched.waited_ns
        if fetched.workers or waited < LEAST_NS or waited < SHARE * ran or fetched.batches < 3:
            continue
        if not fetched.in_memory and not _takes_rows(trace, fetched):
            continue
        yield from shares.saving(
            0.9 * waited * shares.total / ran,  # waits are told without what other programs had of them
            chain,
            f"waits {time_text(waited / 1e6)} for {fetched.batches:,} batches of data that are in memory: the loader "
            "takes their rows one by one and stacks them again.",
            "Take whole batches out of the tensors: for i in torch.randperm(len(x)).split(batch_size): xb, yb = x[i], "
            "y[i].",
        )
        return


def _takes_rows(trace: Trace, fetched: Fetched) -> bool:
    """Whether a set of the user's own does nothing but ``return self.x[i], self.y[i]``."""
    if len(fetched.makers) != 1:
        return False
    (code,) = fetched.makers
    line = code.co_firstlineno + trace.files.get(code.co_filename, 0)
    for source in sources(trace):
        for node in source.nodes:
            if isinstance(node, Function) and node.name == code.co_name and node.lineno == line:
                last = node.body[-1]
                parts = last.value.elts if isinstance(getattr(last, "value", None), ast.Tuple) else [last.value]  # type: ignore[attr-defined,union-attr]
                return len(node.body) == 1 and isinstance(last, ast.Return) and all(map(_row_of_self, parts))
    return False


def _row_of_self(node: ast.AST | None) -> bool:
    """Whether an expression is ``self.x[i]``."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Attribute)
        and isinstance(node.slice, ast.Name)
        and ast.unparse(node.value.value) == "self"
    )


def stacked(shares: Shares) -> Iterator[Saving]:
    """``torch.cat(batch.state)`` of the single states that were drawn from a memory, in each step."""
    trace = shares.trace
    makers = {code for fetched in trace.fetched.values() for code in fetched.makers}
    loops = {chain[0] for chain in trace.fetched if chain}  # a loader stacks there: see `rows_fetched`
    lines: dict[Frame, list[Row]] = {}
    for row in shares.rows:
        own = row.chain and row.chain[0][0] not in makers and row.chain[0] not in loops
        if row.op in ("cat", "stack") and own and _of_samples(row) and not _computed_there(shares, row):
            lines.setdefault(row.chain[0], []).append(row)
    functions: dict[CodeType, list[tuple[float, list[Row]]]] = {}
    for frame, rows in lines.items():
        line = shares.line_of(frame)
        looks = sum(s.ns for s in trace.samples.values() if s.places and shares.line_of(s.places[0]) == line)
        met = looks / shares.looked * shares.total
        functions.setdefault(frame[0], []).append((max(met, float(spent(rows))), rows))
    for found in functions.values():
        ns, (_, rows) = sum(ns for ns, _ in found), found[0]
        runs = sum(row.runs for row in rows)
        if runs < STEPS:
            continue
        more = f" and {len(found) - 1} more like it" if len(found) > 1 else ""
        yield from shares.saving(
            0.9 * ns,
            rows[0].chain,
            f"puts each of {runs:,} batches together from {rows[0].shape[0]:,} tensors of one sample each: "
            f"{quoted(trace, rows[0].chain)}{more}, {time_text(ns / runs / 1e6)} a batch.",
            "Keep the samples as rows of a few large tensors, written where the oldest stand, and take a batch by "
            "index: index = torch.randint(0, size, (batch,)), states[index].",
            rows[:1],
        )


def _computed_there(shares: Shares, row: Row) -> bool:
    """Whether the parts are computed on the very line that puts them together: means of neighbours, and no samples."""
    line = shares.line_of(row.chain[0])
    parts = [ref for ref in row.refs[:4] if isinstance(ref, Row) and ref.chain and ref.op not in TAKING | FORM]
    return any(shares.line_of(part.chain[0]) == line for part in parts)


def _of_samples(row: Row) -> bool:
    """Whether an op puts many single samples together that nothing is trained through."""
    if row.requires_grad or row.phase != "forward" or not row.shape or row.shape[0] < SAMPLES:
        return False
    single = row.shape[1:] if row.op == "stack" else (1, *row.shape[1:])
    return bool(row.refs) and all(tuple(ref.shape) == single for ref in row.refs)


IDIOMS = (single_samples, rows_fetched, stacked)
