"""Outputs that are read as something else: the place of the largest of one column, probabilities held against 0 or
compared with labels as they are."""

from __future__ import annotations

import re

from ...recorder.cell_trace import Leaf, Ref, Trace, ancestors
from ..finding import Found, capital, code_of, where
from ..losses.losses import _source
from ..order import rule

CHOOSES = {"argmax", "max", "max_dim", "topk"}
PROBABLE = {"sigmoid": "a sigmoid", "softmax": "a softmax", "exp": "an exponential", "softplus": "a softplus"}
ZERO = re.compile(r">=?\s*0(\.0*)?(?![\d.])|\b(gt|ge)\([^()]*\b0(\.0*)?\)")
OUTPUTS = {"sigmoid", "softmax", "linear", "addmm", "log_softmax", "tanh"}


def _learnt(ref: Ref) -> bool:
    """Whether a model's parameters made a value."""
    return any(isinstance(leaf, Leaf) and leaf.module for leaf in ancestors([ref]))


@rule(752)
def one_column(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``net(x).argmax(1)`` of a net with one output: the largest of one is always the first."""
    for row in trace.rows:
        if row.op not in CHOOSES or not row.refs or row.reached or len(row.refs[0].shape) < 2:
            continue
        shape = tuple(row.refs[0].shape)
        if shape[-1] != 1 or row.shape not in (shape[:-1], shape) or shape[0] < 2 or not _learnt(row.refs[0]):
            continue
        code = code_of(trace, row)
        if not re.search(r"(1|dim)\b.*\)|argmax|topk", code):
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} takes the place of the largest in a dimension of size 1 (`{code}` of shape {shape}): that "
            "is 0 for "
            "every sample, whatever the model says."
        )
        remedy = "With one output hold the logit against 0: (out.squeeze(1) > 0).long()."
        return [Found("evaluation", "warning", line, col, message, remedy, [row])]
    return []


@rule(753)
def always_true(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``torch.sigmoid(out) > 0``: true of every probability."""
    for row in trace.rows:
        if row.op not in ("gt", "ge") or row.requires_grad or not row.refs:
            continue
        made = _source(row.refs[0])
        if made is None or made.op not in PROBABLE or not _learnt(made) or not ZERO.search(code_of(trace, row)):
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} holds the output of {PROBABLE[made.op]} against 0 (`{code_of(trace, row)}`): it is above 0 "
            "always, "
            "so every sample is of the one class."
        )
        remedy = "Hold probabilities against 0.5, or the logits against 0."
        return [Found("evaluation", "warning", line, col, message, remedy, [row])]
    return []


@rule(754)
def never_equal(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``(torch.sigmoid(out) == y).sum()``: a probability is no label."""
    for row in trace.rows:
        if row.op not in ("eq", "ne") or len(row.refs) != 2 or row.reached:
            continue
        sides = [_source(ref) for ref in row.refs]
        made = next((s for s in sides if s is not None and s.op in OUTPUTS and _learnt(s)), None)
        other = next((ref for ref, s in zip(row.refs, sides, strict=True) if s is not made), None)
        if made is None or other is None or _learnt(other) or not other.shape:
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} compares outputs of the model with labels as they are (`{code_of(trace, row)}`): a number "
            "between "
            "two classes is equal to neither, so next to nothing counts as right."
        )
        remedy = "Make classes of them first: (prob > 0.5) == y, or out.argmax(1) == y."
        return [Found("evaluation", "warning", line, col, message, remedy, [row])]
    return []
