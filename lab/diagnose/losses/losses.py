"""Losses that compute something else than was meant: shapes that broadcast, a softmax too many, raw scores as
log-probabilities."""

from __future__ import annotations

import ast
import math
import re

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ...recorder.variable_names import operand
from ..finding import Found, capital, code_of, where
from ..order import rule
from ..reading.safe_forms import renamed, without
from ..reading.sources import Place
from ..reading.sources import sources as texts
from ..values.nonfinite_effects import sources

DIFFERENCES = {"sub", "squared_error", "absolute_error", "smooth_l1_error", "huber_error", "binary_entropy",
               "binary_entropy_logits", "pow", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
               "binary_cross_entropy", "binary_cross_entropy_with_logits"}  # fmt: skip
EACH = DIFFERENCES - {"sub", "pow"} | {"cross_entropy", "nll_loss", "kl_div"}
"""Losses that may be one for each sample."""
LOGS = {"log", "log1p", "log_softmax", "log_sigmoid", "logsigmoid", "gather"}
PROBABILITIES = {"softmax": "a softmax", "sigmoid": "a sigmoid", "log_softmax": "a log_softmax"}
CROSS_ENTROPY = {"cross_entropy", "log_softmax"}
LOGARITHMIC = {"nll_loss": "nll_loss", "kl_div": "kl_div", "divergence": "kl_div"}
ORDERED = {"cross_entropy": "cross_entropy", "binary_cross_entropy": "binary_cross_entropy",
           "binary_entropy": "binary_cross_entropy", "binary_entropy_logits": "binary_cross_entropy_with_logits",
           "binary_entropy_logits_pos": "binary_cross_entropy_with_logits",
           "binary_cross_entropy_with_logits": "binary_cross_entropy_with_logits"}  # fmt: skip
"""Losses whose prediction comes first."""
PASSING = {"log", "add", "clamp", "neg", "mul", "div", "dropout"}
"""Ops that hand probabilities on, element by element."""
WITH_LOGITS = {"binary_entropy_logits", "binary_entropy_logits_pos", "binary_cross_entropy_with_logits"}
LINEAR = {"linear", "addmm", "convolution", *(f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3))}
"""Ops of layers whose results are bounded by nothing, in core and in PyTorch."""


@rule(400)
def broadcast(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Predictions (N, 1) against targets (N,): every one against every other."""
    found = []
    for row in trace.rows:
        weighed = len(row.refs) == 2 and _weighed(row)
        if not row.reached or len(row.refs) != 2 or not (row.op in DIFFERENCES or weighed or _of_log(row)):
            continue
        a, b = (tuple(ref.shape) for ref in row.refs)
        if not (_crossed(a, b) or _crossed(b, a)):
            continue
        n = a[0] if _crossed(a, b) else b[0]
        if row.shape not in ((), (n, n)):
            continue  # a place that reads another pair each time: the parameters of a model, say
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} broadcasts inside the loss: `{code_of(trace, row)}` takes shapes {a} and {b} and compares "
            f"each of the {n:,} predictions with every one of the {n:,} targets."
        )
        column = 0 if _crossed(a, b) else 1
        remedy = "Give both one shape: prediction.squeeze(-1), or target.unsqueeze(-1)."
        if not row.refs[column].requires_grad and row.refs[1 - column].requires_grad:  # the target is the column
            remedy = "Give both one shape: target.squeeze(-1), or prediction.unsqueeze(-1)."
        name = operand(code_of(trace, row), column)
        if name and len(name) <= 40 and re.fullmatch(r"""[\w.]+(\[[\w"']+\])*""", name):
            remedy = f"Give both one shape: {name}.squeeze(-1)."
        if weighed:
            message = capital(
                f"{place} broadcasts inside the loss: `{code_of(trace, row)}` takes shapes {a} and {b} and weighs each "
                f"of the {n:,} samples' losses by every one of the {n:,} weights."
            )
            remedy = "Give both one shape: weights.squeeze(-1)."
        found.append(Found("broadcast", "warning", line, col, message, remedy, [row], []))
    return found[:1]


def _weighed(row: Row) -> bool:
    """A product or sum of the losses of single samples with something of theirs."""
    if row.op not in ("mul", "div", "add"):
        return False
    return any(
        (s := _source(ref)) is not None and s.requires_grad and len(ref.shape) == 1 and s.op in EACH for ref in row.refs
    )


def _of_log(row: Row) -> bool:
    """A product of a logarithm on the graph with data: the terms of a likelihood written by hand."""
    if row.op != "mul" or sum(isinstance(ref, Row) and ref.requires_grad for ref in row.refs) != 1:
        return False
    return any((s := _source(ref)) is not None and s.requires_grad and s.op in LOGS for ref in row.refs)


def _crossed(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether `a` is (N, 1) where `b` is (N,)."""
    return len(a) == len(b) + 1 and a[-1] == 1 and a[:-1] == b and b[-1:] != (1,) and len(b) == 1


@rule(410)
def doubled(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A loss on logits that is given probabilities, or log-probabilities that are none."""
    found = []
    readers = trace.consumers()
    for row in trace.rows:
        if not row.reached or not row.refs:
            continue
        if (one := _of_one(trace, row)) is not None:
            zero = {leaf for leaf, g in trace.gradients.items() if not g.max_abs and not g.nonfinite}
            explained.update(zero & ancestors([row]).keys())
            found.append(one)
        elif (one := _along(trace, row, readers) or log_target(trace, row)) is not None:
            found.append(one)
        if len(row.refs) > 1 and (other := _swapped(trace, row)) is not None:
            return [other]
        before = _source(row.refs[0])
        if before is None:
            continue
        said = None
        if row.op in CROSS_ENTROPY and before.op in ("softmax", "sigmoid"):
            said = _twice(trace, row, before, "cross_entropy takes logits and applies its own softmax", before.op)
        elif row.op in WITH_LOGITS and before.op in ("sigmoid", "softmax"):
            said = _twice(trace, row, before, "the loss with logits applies its own sigmoid", before.op)
        elif row.op == "nll_loss" and (soft := _across(row, before)) is not None:
            said = _wrong_dimension(trace, row, soft)
        elif row.op in LOGARITHMIC and before.op != "log_softmax":
            said = _no_log(trace, row, before)
        elif row.op == "logsumexp" and before.op in ("softmax", "sigmoid"):
            said = _twice(trace, row, before, "what takes logits normalises them by itself", before.op)
        elif (row.op == "cross_entropy" or row.op in WITH_LOGITS) and before.op == "relu":
            said = _clipped(trace, row, before)
        if said is not None:
            found.append(said)
    return found[:1]


def _swapped(trace: Trace, row: Row) -> Found | None:
    """A loss whose target is on the graph and whose prediction is not: the arguments are the wrong way round."""
    first, second = row.refs[:2]
    # cross_entropy of probabilities is made of ops, all called at one place
    made = row.op == "mul" and isinstance(first, Row) and first.op == "log_softmax" and first.chain == row.chain
    if first.requires_grad or not second.requires_grad or not (made or row.op in ORDERED):
        return None
    line, col, place = where(trace, row.chain)
    name = ORDERED.get(row.op, "cross_entropy")
    message = capital(
        f"{place} gives {name} its arguments the wrong way round (`{code_of(trace, row)}`): what comes first has no "
        "gradient, and the model's output comes second, where the target belongs."
    )
    return Found("loss", "warning", line, col, message, f"Write {name}(prediction, target).", [row], [])


def _of_one(trace: Trace, row: Row) -> Found | None:
    """A softmax over a single class, whose result is 1 whatever the model says."""
    s = row.stats
    if s is None or not s.min == s.max == (1.0 if row.op == "softmax" else 0.0):
        return None
    shape = tuple(row.refs[0].shape)
    if row.op in ("softmax", "log_softmax") and len(shape) > 2 and 1 in shape and math.prod(shape) > 1:
        return _of_size_one(trace, row, shape)
    if row.op not in ("softmax", "log_softmax", "cross_entropy") or len(shape) < 2 or shape[1] != 1:
        return None
    line, col, place = where(trace, row.chain)
    always = f"{'1' if row.op == 'softmax' else '0'} whatever the model says, and passes no gradient on"
    message = capital(
        f"{place} takes a softmax over one class (`{code_of(trace, row)}` of shape {shape}): it is {always}."
    )
    remedy = (
        "For two classes with one output use binary_cross_entropy_with_logits; else give the last layer more outputs."
    )
    return Found("loss", "warning", line, col, message, remedy, [row], [])


def _of_size_one(trace: Trace, row: Row, shape: tuple[int, ...]) -> Found:
    """Attention weights, say, that are all 1."""
    line, col, place = where(trace, row.chain)
    one = max(k for k, n in enumerate(shape) if n == 1)
    longest = max(range(1, len(shape)), key=lambda k: shape[k])
    always = "1" if row.op == "softmax" else "0"
    message = capital(
        f"{place} takes a softmax over a dimension of size 1 (`{code_of(trace, row)}` of shape {shape}, dimension "
        f"{one}): it is {always} everywhere and passes a gradient of exactly 0 on."
    )
    remedy = f"Take it over the dimension whose weights shall sum to 1: dim={longest}, of size {shape[longest]}."
    if shape[longest] == 1:  # so few are the data's parts, and another dimension would change nothing
        remedy = "It has one place to choose from: give it more of them, or leave the softmax out."
        return Found("loss", "note", line, col, message, remedy, [row], [])
    return Found("loss", "warning", line, col, message, remedy, [row], [])


def log_target(trace: Trace, row: Row) -> Found | None:
    """kl_div of a target that is given as logarithms."""
    target = _source(row.refs[1]) if row.op in ("kl_div", "divergence") and len(row.refs) > 1 else None
    s = target.stats if target is not None else None
    if target is None or s is None or s.max is None or s.max > 0 or not s.min:
        return None
    if any("log_target" in source.text for source in texts(trace)):  # PyTorch's rows do not say which of the two ran
        return None
    line, col, place = where(trace, row.chain)
    message = capital(
        f"{place} gives kl_div logarithms as the target (`{code_of(trace, target)}`, at most {s.max:.3g}): it takes "
        "probabilities there."
    )
    remedy = "Give it softmax of the target's logits, or say log_target=True."
    return Found("loss", "warning" if row.bad is None else "error", line, col, message, remedy, [target, row], [])


def _along(trace: Trace, row: Row, readers: dict[Ref, list[Row]]) -> Found | None:
    """A softmax over the samples whose probabilities are then picked by class, or over the queries of an attention."""
    if row.op not in ("softmax", "log_softmax") or row.sums is None or max(abs(t - 1) for t in row.sums) < 0.01:
        return None
    stack, seen = [row], {row}
    while stack:
        for after in readers.get(stack.pop(), ()):
            if after in seen or not after.reached:
                continue
            seen.add(after)
            if after.op in PASSING:
                stack.append(after)
            weighs = after.op == "matmul" and after.refs[0] in seen and row.op == "softmax"
            if not weighs and not _picked(after, row):
                continue
            line, col, place = where(trace, row.chain)
            there = where(trace, after.chain)[2]
            low, high = row.sums
            over, what = ("the keys", "weights of a query") if weighs else ("the classes", "probabilities of a sample")
            by = f"`{code_of(trace, after)}`" + ("" if there == place else f" ({there})")
            message = capital(
                f"{place} takes a softmax over another dimension than {over} (`{code_of(trace, row)}`): the {what} "
                f"that {by} reads sum to {low:.3g} to {high:.3g} and not to 1."
            )
            remedy = f"Take it over the last dimension, {over}: dim=-1."
            if row.path and (made := _layer(trace, row.op)) is not None:
                (line, col, at), layer = made
                message = capital(f"{at} makes `{layer}`, and {message[:1].lower()}{message[1:]}")
                remedy = f"Take it over the last dimension, {over}: {layer.partition('(')[0]}(dim=-1)."
            return Found("loss", "warning", line, col, message, remedy, [row, after], [])
    return None


def _layer(trace: Trace, op: str) -> tuple[Place, str] | None:
    """Where the one layer of the user's code is made that does an op, and its code."""
    kind = {"softmax": "Softmax", "log_softmax": "LogSoftmax"}.get(op, op)
    made = [(source.place(n), ast.unparse(n)) for source in texts(trace) for n in source.calls.get(kind, ())]
    return made[0] if len(made) == 1 else None


def _picked(row: Row, soft: Row) -> bool:
    """Whether an op picks the probability of a class of every sample."""
    if len(soft.shape) != 2 or soft.shape[1] < 2:
        return False
    return row.op in ("gather", "take_along_dim") or (row.op in ("getitem", "index") and row.shape == soft.shape[:1])


def _source(ref: Ref) -> Row | None:
    """The row whose values these are, looked at through views."""
    if not isinstance(ref, Row):
        return None
    if not ref.view:
        return ref
    found = sources(ref)
    return found[0] if found else None


def _twice(trace: Trace, row: Row, before: Row, why: str, op: str) -> Found:
    line, col, place = where(trace, row.chain)
    there = where(trace, before.chain)[2]
    at = "the same line" if there == place else there
    logits = without(code_of(trace, before), op)
    remedy = f"Leave out the {op} and give the loss the logits{f', {logits}' if logits else ''}."
    message = capital(
        f"{place} gives `{code_of(trace, row)}` the output of {PROBABILITIES[op]} (`{code_of(trace, before)}`, {at}): "
        f"{why}, so the gradients are small and the probabilities stay close to each other."
    )
    return Found("loss", "warning", line, col, message, remedy, [before, row], [])


def _no_log(trace: Trace, row: Row, before: Row) -> Found | None:
    s = before.stats
    if s is None or s.max is None or s.max <= 1e-6:
        return None
    line, col, place = where(trace, row.chain)
    kind = f"{PROBABILITIES[before.op]}" if before.op in PROBABILITIES else f"`{code_of(trace, before)}`"
    message = capital(
        f"{place} gives {LOGARITHMIC[row.op]} values up to {s.max:.3g}, the output of {kind}: it takes "
        "log-probabilities, which are at most 0, so this loss can fall for ever without the model getting better."
    )
    remedy = "Use cross_entropy on the logits, or log_softmax before nll_loss."
    if row.op != "nll_loss":
        logs = renamed(code_of(trace, before), "softmax", "log_softmax")
        what = f"log-probabilities first, {logs}" if logs else "log_softmax of the logits first"
        remedy = f"Give kl_div {what}, and the probabilities to compare with second."
    return Found("loss", "warning", line, col, message, remedy, [before, row], [])


def _across(row: Row, before: Row) -> Row | None:
    """The softmax of log-probabilities that do not sum to 1 over the classes of a sample."""
    if row.sums is None or max(abs(total - 1) for total in row.sums) < 0.01:
        return None
    logs = 0
    while before.op in ("log", "add", "clamp") and before.refs:
        inner = _source(before.refs[0])
        if inner is None:
            return None
        logs += before.op == "log"
        before = inner
    return before if (before.op == "softmax" and logs == 1) or before.op == "log_softmax" else None


def _wrong_dimension(trace: Trace, row: Row, before: Row) -> Found:
    assert row.sums is not None
    line, col, place = where(trace, before.chain)
    there = where(trace, row.chain)[2]
    low, high = row.sums
    message = capital(
        f"{place} takes a softmax over another dimension than the classes (`{code_of(trace, before)}`): the "
        f"probabilities that nll_loss{'' if there == place else f' on {there}'} gets for a sample sum to "
        f"{low:.3g} to {high:.3g} and not to 1."
    )
    remedy = "Take it over the classes, which nll_loss wants in dimension 1: dim=1."
    return Found("loss", "warning", line, col, message, remedy, [before, row], [])


def _clipped(trace: Trace, row: Row, before: Row) -> Found:
    line, col, place = where(trace, before.chain)
    message = capital(
        f"{place} ends the model with a relu (`{code_of(trace, before)}`) before {ORDERED[row.op]}: a logit below 0 "
        "becomes 0 and gets no gradient."
    )
    return Found("loss", "warning", line, col, message, "Leave out the relu after the last layer.", [before, row], [])
