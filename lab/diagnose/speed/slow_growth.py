"""Work that grows with the time a loop has run: tensors grown by cat, whole prefixes run again, hooks that pile up."""

from __future__ import annotations

import ast
import math
import traceback
from collections.abc import Iterator
from time import thread_time_ns
from typing import NamedTuple

from widgets.figures import size_text

from ...recorder.cell_trace import Chain, Row, Trace
from ...recorder.op_facts import JOINING
from ...recorder.user_files import is_users
from ..finding import Found, caller, listed
from ..reading.sources import called, sources
from .op_costs import in_place, of_call, of_ops, of_pytorch
from .slow_products import row_bytes
from .time_shares import (
    LEAST,
    LEAST_NS,
    Saving,
    Shares,
    begun,
    in_loop,
    less_time,
    loop_around,
    on_innermost,
    quoted,
    spent,
)

GROWING = ("np.append", "np.concatenate", "np.vstack", "np.hstack", "pd.concat")
STACKS, NODE_NS, TORCH_NODE_NS, LOOKED = (
    5,
    20_000.0,
    120_000.0,
    12.0,
)  # tries; ns of each op; bytes of gradients in a ns
TURNS = 12  # runs from which a growth is one
STEADY = 0.5  # share of the runs that made the largest result so far
RECURRENT = {"gru", "lstm", "rnn", "rnn_tanh", "rnn_relu"}
FEEDING = {"linear", "embedding"}
ATTENDING = {"scaled_dot_product_attention", "attention", "multi_head_attention_forward"}


class Copied(NamedTuple):
    """A place where each run copies what came before, what that takes, and the bytes of all runs and of the result."""

    rows: list[Row]
    ns: float
    moved: int
    largest: int


def grown(shares: Shares) -> Iterator[Saving]:
    """`bank = cat([bank, part])`: each run copies all that came before; several in one loop are mended together."""
    trace = shares.trace
    loops: dict[object, list[Copied]] = {}
    for (frame, op), rows in on_innermost(row for row in shares.rows if row.op in JOINING).items():
        runs = sum(row.count for row in rows)
        if runs < TURNS:
            continue
        largest, moved = max(row.largest for row in rows), sum(row.sizes for row in rows)
        steady = _risen(rows) >= STEADY * runs
        if not steady or moved < 4 * largest:
            continue
        loop = loop_around(trace, frame)
        copied = Copied(rows, (1 - largest / moved) * of_ops(shares, rows), moved, largest)
        loops.setdefault((frame, op) if loop is None else loop, []).append(copied)
    for places in loops.values():
        rows, _, moved, largest = max(places, key=lambda copied: copied.ns)
        own = any(row in trace.extended or any(ref in rows for ref in row.refs) for row in rows)
        what = "all that was gathered before" if own else "the whole list again"
        others = len(places) - 1
        more = f", and so {'does' if others == 1 else 'do'} {others} more of this loop" if others else ""
        yield from shares.saving(
            sum(copied.ns for copied in places),
            rows[0].chain,
            f"copies {what} in each of {sum(row.count for row in rows):,} runs: {quoted(trace, rows[0].chain)} moved "
            f"{size_text(moved)} for a result of {size_text(largest)}{more}.",
            f"Append the parts to a list and call {rows[0].op} once after the loop, or write them into a tensor made "
            "before.",
            rows[:1],
        )


def _risen(rows: list[Row]) -> int:
    """How many runs of a place made a larger result than all before."""
    if len(rows) == 1:
        return rows[0].grown
    top = risen = 0
    for row in rows:
        risen += row.grown if row.largest > top else 0
        top = max(top, row.largest)
    return risen


def prefixes(shares: Shares) -> Iterator[Saving]:
    """A sequence that grows by what a model gave runs through it from its begin each time."""
    trace = shares.trace
    heads: dict[Chain, list[Row]] = {}
    for row in shares.rows:
        if not row.requires_grad and row.op in RECURRENT | ATTENDING | {"softmax"} | FEEDING:
            chain = in_loop(trace, caller(row.chain)) or in_loop(trace, row.chain)  # a loop over layers does not grow
            if chain:
                heads.setdefault(chain, []).append(row)
    for chain, rows in heads.items():
        steady = [row for row in rows if row.count >= TURNS and row.grown >= STEADY * row.count]
        kinds = {row.op for row in steady}
        written_out = "softmax" in kinds and bool(kinds & FEEDING)  # with a cache only what attends grows
        if not (kinds & (RECURRENT | ATTENDING) or written_out):
            continue
        runs = max(row.count for row in steady)
        keeps = "state" if kinds & RECURRENT else "keys and values"
        remedy = (
            "Keep the hidden state that the layer returns, give it to the next call, and feed only what is new."
            if kinds & RECURRENT
            else "Keep the keys and values of what came before (a cache), and feed only the newest element."
        )
        yield from shares.saving(
            of_call(shares, chain) - _one_at_a_time(shares, chain, steady),
            chain,
            f"runs the whole sequence so far through the model for each new element: {quoted(trace, chain)} ran "
            f"{runs:,} times on an input that grew from run to run, and kept no {keeps}.",
            remedy,
            steady[:1],
        )


def _one_at_a_time(shares: Shares, chain: Chain, steady: list[Row]) -> float:
    """What a call at a place would take if it were given the newest element of a sequence alone."""
    rows = [row for row in shares.rows if row.chain[-len(chain) :] == chain]
    python = max(of_call(shares, chain) - spent(rows), 0.0)
    grew = [row for row in steady if row.sizes]
    mean = sum(row.sizes / row.largest for row in grew) / sum(row.count for row in grew) if grew else 0.5
    longest = max(row.count for row in steady) / (2 * max(1 - mean, 0.1))  # what it grew to, from what it was at first
    return python + in_place(shares, sum(row.runs for row in rows)) + spent(rows) / (mean * longest)


def hooks(shares: Shares) -> Iterator[Saving]:
    """One function registered as a hook again and again."""
    trace = shares.trace
    for name, times, code in trace.hooked:
        inside = [row for row in shares.rows if any(frame[0] is code for frame in row.chain)]
        seen = sum(s.ns for s in trace.samples.values() if any(frame[0] is code for frame in s.places))
        ns = max(spent(inside), seen / shares.looked * shares.total) * (1 - 2 / times)  # on average half of them ran
        share = shares.worth(ns)
        if not share:
            continue
        for source in sources(trace):
            calls = [n for n in source.nodes if called(n).startswith("register_") and "hook" in called(n)]
            calls = [n for n in calls if any(not isinstance(a, ast.Module) for a in source.around(n))]
            if calls:
                at = source.place(calls[0])
                message = (
                    f"{begun(at.words)} registers a hook each time it runs and none is removed: "
                    f"{times:,} of the same function are on a {name}, and each pass runs them all. Without that the "
                    f"cell would take {less_time(share)}."
                )
                remedy = "Register it once, before the loop, or call .remove() on the handle when it is done."
                yield Saving(share, Found("slow", "warning", at.line, at.col, message, remedy, inside[:1]))
                break


def anomaly(shares: Shares) -> Iterator[Saving]:
    """Anomaly detection that was left on."""
    trace = shares.trace
    if not trace.anomaly or trace.backward_ns < LEAST_NS:
        return
    for source in sources(trace):
        for node in source.nodes:
            if not called(node).endswith("detect_anomaly") or _off(node):
                continue
            at, share = source.place(node), min(shares.part(_searched(trace) / shares.ran), 0.9)
            takes = f"which takes less than {100 * LEAST:.0f} % of the time"
            if share >= LEAST:
                takes = f"without which the cell would take {less_time(share)}"
            message = (
                f"{begun(at.words)} keeps the search for NaN on (anomaly mode): every op notes where it was called, "
                f"and every gradient is looked through, {takes}."
            )
            remedy = "Take the line out, or put `with detect_anomaly():` around the one step that is being debugged."
            yield Saving(max(share, LEAST), Found("slow", "note", at.line, at.col, message, remedy))
            return


def _searched(trace: Trace) -> float:
    """What anomaly mode takes, as long as no other program runs: the pass backward goes from node to node in Python
    (core) or writes down the stack of every op (PyTorch), which is as deep here as where the cell ran, and each
    gradient is compared with itself."""
    each = NODE_NS
    if of_pytorch(trace):
        begin = thread_time_ns()
        for _ in range(STACKS):
            traceback.format_stack()
        each = TORCH_NODE_NS + (thread_time_ns() - begin) / STACKS
    reached = [row for row in trace.rows if row.reached]
    size = sum(row.runs * row_bytes(row) * math.prod(ref.shape) for row in reached for ref in row.refs
               if ref.requires_grad)  # fmt: skip
    return each * sum(row.runs for row in reached) + size / LOOKED


def _off(node: ast.AST) -> bool:
    """Whether a call switches it off."""
    values = [*getattr(node, "args", ()), *[k.value for k in getattr(node, "keywords", ())]]
    return any(isinstance(v, ast.Constant) and v.value is False for v in values[:1])


def python_growth(shares: Shares) -> Iterator[Saving]:
    """`a = np.append(a, x)`, `frame = pd.concat([frame, row])`: the same with arrays that are no tensors."""
    trace = shares.trace
    if not shares.fair:
        return
    spots: dict[tuple[str, int], tuple[int, Chain]] = {}
    for sample in trace.samples.values():
        own = next((k for k, f in enumerate(sample.places) if is_users(f[0].co_filename) or f[0].co_filename in
                    trace.files), None)  # fmt: skip
        if own is not None:
            place = trace.place(*sample.places[own])
            before = spots.get((place.file, place.line), (0, sample.places[own:]))
            spots[place.file, place.line] = before[0] + sample.ns, before[1]
    for ns, chain in spots.values():
        code = quoted(trace, chain, 200).strip("`")
        name = next((n for n in GROWING if n in code), "")
        if not name or not in_loop(trace, chain[:1]):
            continue
        yield from shares.saving(
            0.8 * ns / shares.looked * shares.total,
            chain,
            f"copies what was gathered before each time it adds to it: `{code[:70]}`.",
            f"Append to a list in the loop, and call {listed([name])} once after it.",
        )


IDIOMS = (grown, prefixes, hooks, anomaly, python_growth)
