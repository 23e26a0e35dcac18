"""Values of which there is one each: averages and largest values along a dimension of size 1, a bound that all values
are at, a weight that is one number for a whole batch."""

from __future__ import annotations

import linecache
import math
import re

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, capital, code_of, where
from ..order import rule

LARGEST = {"argmax", "argmin", "max", "min", "max_dim", "min_dim", "topk"}
COMPARES = {"eq", "ne", "cross_entropy", "nll_loss", "one_hot"}
PLACE = re.compile(r"argm(ax|in)|\)\[1\]|indices|^\s*_\w*, ")  # what asks for the place, and not for the value
SPREADS = {"std", "sqrt", "var", "norm", "vector_norm", "std_mean"}
DIVIDES = {"div", "div_", "__rtruediv__"}
LOSSES = {"cross_entropy", "nll_loss", "binary_cross_entropy", "binary_entropy", "binary_cross_entropy_with_logits",
          "binary_entropy_logits"}  # fmt: skip
BATCH = 2


def _shape(ref: Ref) -> tuple[int, ...]:
    return tuple(ref.shape)


def _seen(ref: Ref) -> Ref:
    while isinstance(ref, Row) and ref.view and ref.refs:
        ref = ref.refs[0]
    return ref


@rule(384)
def mean_of_one(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``adv - adv.mean(0, keepdim=True)`` of a tensor whose dimension 0 has size 1: all of it is 0."""
    for row in trace.rows:
        if row.op not in ("mean", "nanmean") or len(row.refs) != 1 or _shape(row.refs[0]) != row.shape:
            continue
        if math.prod(row.shape) < BATCH:
            continue
        less = [r for r in trace.rows if r.op in ("sub", "sub_") and len(r.refs) == 2 and r.shape == row.shape
                and r.refs[1] is row and r.refs[0] is row.refs[0]]  # fmt: skip
        if not less:
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} averages over a dimension of size 1 (`{code_of(trace, row)}`, of a tensor of "
            f"{' × '.join(map(str, row.shape))}): each value is its own mean, and what "
            f"{where(trace, less[0].chain)[2]} leaves of them (`{code_of(trace, less[0])}`) is 0."
        )
        remedy = "Average over the dimension that has the samples, or over all of them: x.mean()."
        return [Found("layout", "warning", line, col, message, remedy, [row])]
    return []


@rule(385)
def largest_of_one(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``torch.max(labels, 1)[1]`` of labels of (N, 1): the place of the only value, 0."""
    readers = trace.consumers()
    for row in trace.rows:
        if row.op not in LARGEST or not row.refs:
            continue
        given = _shape(row.refs[0])
        if math.prod(row.shape) != math.prod(given) or math.prod(given) < BATCH or 1 not in given:
            continue
        read = [r for r in readers.get(row, ()) if r.op in COMPARES]
        if not read or not PLACE.search(_text(trace, row)):
            continue
        if any(isinstance(ref, Leaf) and ref in trace.gradients for ref in ancestors([row])):
            continue  # what a model has predicted are no labels
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} takes the place of the largest value along a dimension of size 1 (`{code_of(trace, row)}`, of a "
            f"tensor of {' × '.join(map(str, given))}): that is 0 for all {math.prod(given):,} of them."
        )
        remedy = "Class numbers need no argmax: labels.squeeze(1); it is for one-hot labels of (N, C)."
        return [Found("layout", "warning", line, col, message, remedy, [row, read[0]])]
    return []


def _text(trace: Trace, row: Row) -> str:
    """The line at which an op was called."""
    if row.place is None:
        return ""
    if row.place.file in trace.files:
        lines, number = trace.texts(), row.place.line + trace.files[row.place.file]
        return lines[number - 1] if 0 < number <= len(lines) else ""
    return linecache.getline(row.place.file, row.place.line)


@rule(386)
def spread_at_its_bound(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``x.std(1).clamp(min=1.0)`` of values that vary by 0.01: the bound is what they are divided by."""
    readers = trace.consumers()
    for row in trace.rows:
        if row.op not in ("clamp", "clip", "clamp_min", "maximum") or row.stats is None or math.prod(row.shape) < 8:
            continue
        made = _seen(row.refs[0]) if row.refs else None
        spread = isinstance(made, Row) and made.op in SPREADS and made.stats is not None
        if not spread or not row.stats.min or row.stats.min != row.stats.max:
            continue
        stats = made.stats  # type: ignore[union-attr]
        if stats is None or stats.max is None or stats.min is None or not 0 < stats.min < stats.max < row.stats.min:
            continue
        below = [row, *(r for r in readers.get(row, ()) if r.view)]
        divides = [r for b in below for r in readers.get(b, ()) if r.op in DIVIDES and r.refs[-1] is b]
        if not divides or row.stats.min < 10 * stats.min:
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} holds all {math.prod(row.shape):,} spreads at the bound {row.stats.min:.3g} "
            f"(`{code_of(trace, row)}`), which are {stats.min:.2g} to {stats.max:.2g}: nothing is brought to one size "
            f"where {where(trace, divides[0].chain)[2]} divides by them."
        )
        remedy = "The bound is to keep a divisor from 0: clamp(min=1e-6)."
        return [Found("dtype", "warning", line, col, message, remedy, [row])]
    return []


@rule(387)
def weight_of_a_mean(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``(1 - torch.exp(-ce)) ** gamma * ce`` of a cross entropy that is averaged already: one weight for all."""
    for row in trace.rows:
        if row.op != "mul" or row.shape or len(row.refs) != 2 or not row.requires_grad:
            continue
        chains = [_steps(ref) for ref in row.refs]
        ends = [chain[-1] for chain in chains if chain]
        loss = ends[0] if len(ends) == 2 and ends[0] is ends[1] else None
        ops = [{r.op for r in chain} for chain in chains]
        weighs = any({"exp", "pow"} <= names for names in ops) and not all("exp" in names for names in ops)
        if not isinstance(loss, Row) or not weighs or not any(math.prod(_shape(r)) >= BATCH for r in loss.refs):
            continue
        line, col, place = where(trace, row.chain)
        there = where(trace, loss.chain)[2]
        message = capital(
            f"{place} weighs a loss by how well it is met (`{code_of(trace, row)}`), and {there} has averaged it over "
            f"the batch before (`{code_of(trace, loss)}`): all samples get one weight, and hard ones none of their own."
        )
        remedy = 'Keep the loss of each sample, reduction="none", and take the mean at the end.'
        return [Found("loss", "warning", line, col, message, remedy, [row, loss])]
    return []


def _steps(ref: Ref) -> list[Row]:
    """The single numbers that one was computed from, back to the loss that they are of; nothing where there is none."""
    found: list[Row] = []
    while isinstance(ref, Row) and len(found) < 12:
        found.append(ref)
        if ref.op in LOSSES:
            return found
        if ref.op == "mean" and ref.refs and isinstance(ref.refs[0], Row) and ref.refs[0].op in LOSSES:
            return [*found[:-1], ref.refs[0]]
        rows = [r for r in ref.refs if isinstance(r, Row)]
        if ref.shape or len(rows) != 1:
            return []
        ref = rows[0]
    return []
