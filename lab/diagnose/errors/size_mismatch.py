"""Errors about sizes: which earlier line gave a tensor the shape that does not fit, and what would."""

from __future__ import annotations

import math
import re

from widgets.record import ErrorRow

from ...recorder.cell_trace import Leaf, Ref, Row, Trace
from ...recorder.variable_names import operand
from ..finding import Found, capital, code_of, where
from ..models.dimension_order import _moved as moved
from ..models.dimension_order import _words as words
from ..models.dimension_order import remedy_of
from .size_origins import size_of
from .torch_errors import failed_at

_PRODUCT = re.compile(r"shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)")
_BATCHES = re.compile(r"Expected input batch_size \((\d+)\) to match target batch_size \((\d+)\)")
_TARGETS = re.compile(r"Expected target size \[([\d, ]+)\], got \[([\d, ]+)\]")
_READS = re.compile(r"a layout that reads as \(([\d, ]+)\)")
_CLASS = re.compile(r"Target (-?\d+) is out of bounds")
VOID = 255  # what data sets of pictures have where a pixel has no class
JOINS = {"cat", "concat", "concatenate", "vstack", "row_stack"}


def mismatched(trace: Trace, error: ErrorRow) -> list[Found]:
    """A finding for an error whose cause the shapes tell."""
    row = next((r for r in reversed(trace.rows) if r.error and error.message and error.message in r.error), None)
    if row is None or not row.refs:
        return []
    text = " ".join(error.detail.split())
    for look in (_joined, _uneven, _flat, _viewed, _column, _batches, _targets, _indices, _classes, _bytes):
        found = look(trace, error, row, text)
        if found is not None:
            return [found]
    return []


def _told(trace: Trace, error: ErrorRow, row: Row, why: str, remedy: str, line: int | None = None) -> Found:
    message = f"{capital(failed_at(trace, error, row))} fails in `{code_of(trace, row)}`: {why}."
    return Found("error", "error", line or error.line, None, message, remedy, [row])


def _source(ref: Ref) -> Ref:
    """What made the values that a row reads, looked at through views that keep the shape."""
    while isinstance(ref, Row) and ref.view and ref.refs and tuple(ref.refs[0].shape) == tuple(ref.shape):
        ref = ref.refs[0]
    return ref


def _joined(trace: Trace, error: ErrorRow, row: Row, text: str) -> Found | None:
    """Features that were joined along the samples."""
    match = _PRODUCT.search(text)
    before = _source(row.refs[0])
    if match is None or not isinstance(before, Row) or before.op not in JOINS or len(before.refs) < 2:
        return None
    wanted, parts = int(match[3]), [tuple(ref.shape) for ref in before.refs]
    if len({p[:-1] for p in parts}) > 1 or sum(p[-1] for p in parts) != wanted or before.shape[-1] == wanted:
        return None
    _, _, place = where(trace, before.chain)
    listed = " and ".join(f"({words(p)})" for p in parts[:2])
    why = (
        f"`{code_of(trace, before)}` ({place}) puts {listed} one below the other, ({words(before.shape)}), and the "
        f"layer takes {wanted} features"
    )
    return _told(trace, error, row, why, "Join along the features: torch.cat([...], dim=-1).")


def _uneven(trace: Trace, error: ErrorRow, row: Row, text: str) -> Found | None:
    """Tensors that agree in all dimensions but one, joined along another."""
    match = re.search(r"must match except in dimension (\d+)", text)
    shapes = [shape for shape, _, _ in row.given]
    if match is None or len(shapes) < 2 or len({len(s) for s in shapes}) > 1:
        return None
    differ = [k for k, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1]
    if len(differ) != 1 or differ[0] == int(match[1]):
        return None
    listed = " and ".join(f"({words(s)})" for s in shapes[:2])
    why = f"it joins {listed} along dimension {match[1]}, and they differ in dimension {differ[0]}"
    return _told(trace, error, row, why, f"Join along the dimension that differs: dim={differ[0]}.")


def _flat(trace: Trace, error: ErrorRow, row: Row, text: str) -> Found | None:
    """Images that were not flattened before a linear layer, or by another number of features."""
    match = _PRODUCT.search(text)
    given = row.given[0][0] if row.given else tuple(row.refs[0].shape)
    if match is None or len(given) < 2:
        return None
    features, wanted = int(match[2]), int(match[3])
    if len(given) > 2 and math.prod(given[1:]) == wanted:
        why = f"the layer takes {wanted} features of each sample and gets ({words(given)}), which is not flattened"
        return _told(trace, error, row, why, "Flatten all but the batch first: x.flatten(1).")
    if len(given) == 2 and given[0] == wanted:
        why = f"the layer takes {wanted} features, and ({words(given)}) has them in dimension 0"
        return _told(trace, error, row, why, "Give it x.T, with the samples first.")
    before = _source(row.refs[0])
    if isinstance(before, Row) and before.view and before.refs and len(before.refs[0].shape) > 2:
        whole = tuple(before.refs[0].shape)
        if len(given) == 2 and math.prod(whole[1:]) == features:
            why = (
                f"({words(whole)}) flattened (`{code_of(trace, before)}`, {where(trace, before.chain)[2]}) are "
                f"{features} features, and the layer takes {wanted}"
            )
            return _told(trace, error, row, why, f"Make the layer for them: nn.Linear({features}, {match[4]}).")
    return None


def _viewed(trace: Trace, error: ErrorRow, row: Row, text: str) -> Found | None:
    """view() of a tensor whose elements lie in another order, to a shape that would mix its dimensions."""
    if "view size is not compatible" not in text or not row.given:
        return None
    match = _READS.search(text)
    after = tuple(int(n) for n in match[1].split(",") if n.strip()) if match else tuple(row.shape)
    before = row.given[0][0]
    if after.count(-1) == 1:
        rest = -math.prod(after)
        after = tuple(math.prod(before) // rest if n == -1 and rest else n for n in after)
    size = moved(before, after) if math.prod(before) == math.prod(after) else None
    if size is None:
        return None
    why = (
        f"({words(before)}) read as ({words(after)}) would spread the dimension of {size} over others, and reshape() "
        "would do so without an error"
    )
    return _told(trace, error, row, why, remedy_of(before, after))


def _column(trace: Trace, error: ErrorRow, row: Row, text: str) -> Found | None:
    """Class numbers as a column, or as one-hot rows."""
    if "multi-target not supported" not in text or len(row.refs) < 2:
        return None
    given = [shape for shape, _, _ in row.given] if len(row.given) >= 2 else [tuple(ref.shape) for ref in row.refs]
    prediction, target = given[0], given[1]
    if len(prediction) != 2 or len(target) != 2:
        return None
    name = operand(code_of(trace, row), 1)
    name = name if name and len(name) <= 40 else "target"
    if target[1] == 1:
        why = f"the targets are a column, ({words(target)}), and it takes a class number a sample, ({target[0]},)"
        return _told(trace, error, row, why, f"Take the column off: {name}.squeeze(1).")
    why = f"the targets are rows of {target[1]}, ({words(target)}), of integers: it takes class numbers, ({target[0]},)"
    return _told(trace, error, row, why, f"Make class numbers of one-hot rows: {name}.argmax(1).")


def _batches(trace: Trace, error: ErrorRow, row: Row, text: str) -> Found | None:
    """Predictions of another number than the targets: the line from which on there are so many."""
    match = _BATCHES.search(text)
    if match is None:
        return None
    many, wanted = int(match[1]), int(match[2])
    if any(shape == () for shape, *_ in row.given):
        why = f"the scores are of {many}, and the target is a number without a dimension for the samples"
        return _told(trace, error, row, why, "Give it one: target.unsqueeze(0).")
    ref: Ref = row.refs[0]
    while isinstance(ref, Row) and ref.refs:
        read = [r for r in ref.refs if isinstance(r, Row) and tuple(r.shape[:2]) == (wanted, many)]
        path = trace.second.get(ref.path, trace.second.get(read[0].path) if read else None)
        if path is not None:
            kind = trace.entered[path][-1][0]
            why = (
                f"there are {many} predictions and {wanted} targets, since {trace.paths[path]} ({kind}) has no "
                "batch_first=True and takes dimension 0 of its input for time"
            )
            return _told(trace, error, row, why, f"Make it with batch_first=True: nn.{kind}(..., batch_first=True).")
        before = next(
            (r for r in ref.refs if not (isinstance(r, Leaf) and r.module) and r.shape[:1] == (wanted,)), None
        )
        if before is not None and ref.shape[:1] == (many,):
            why = (
                f"there are {many} predictions and {wanted} targets: `{code_of(trace, ref)}` "
                f"({where(trace, ref.chain)[2]}) makes ({words(ref.shape)}) of ({words(tuple(before.shape))})"
            )
            remedy = "Keep the samples in dimension 0: x.flatten(1), or x.view(len(x), -1)."
            if not ref.view:
                remedy = "Let it keep the samples in dimension 0."
            return _told(trace, error, row, why, remedy)
        ref = next((r for r in ref.refs if isinstance(r, Row)), ref.refs[0])
    return None


def _targets(trace: Trace, error: ErrorRow, row: Row, text: str) -> Found | None:
    """Classes that are not in dimension 1."""
    if _TARGETS.search(text) is None or len(row.given) < 2:
        return None
    scores, target = row.given[0][0], row.given[1][0]
    if len(scores) != 3 or scores[:2] != target:
        return None
    why = (
        f"it reads dimension 1 of the scores ({words(scores)}) as the classes, and the target ({words(target)}) has as "
        "many as dimension 1: the classes are last"
    )
    remedy = f"Flatten both: logits.reshape(-1, {scores[2]}) and target.reshape(-1); or give it logits.transpose(1, 2)."
    return _told(trace, error, row, why, remedy)


def _indices(trace: Trace, error: ErrorRow, row: Row, text: str) -> Found | None:
    """An index that a table does not have."""
    if "index out of range in self" not in text:
        return None
    asked = next((s for _, _, s in row.given if s is not None and s.max is not None), None)
    table = next((shape for shape, kind, _ in row.given if len(shape) == 2 and kind.startswith(("float", "bf"))), None)
    if asked is None or table is None or asked.min is None or asked.max is None:
        return None
    n, bad = table[0], asked.min if asked.min < 0 else asked.max
    why = f"it is asked for row {bad:.0f} of a table of {n} rows, which go from 0 to {n - 1}"
    remedy = f"Make the table larger, nn.Embedding({bad + 1:.0f}, {table[1]}), or number the indices from 0."
    if bad < 0:
        remedy = "An index is 0 or more: give padding a row of its own (padding_idx)."
    elif bad > 4 * n:
        remedy = f"Number what is looked up from 0 to {n - 1}: a mapping from ids to rows."
    origin = size_of(trace, code_of(trace, row).partition("(")[0])
    if origin is not None and not origin.code.isdigit():
        why += f"; their number is `{origin.code}` ({origin.words})"
        if bad == n and origin.code.startswith("len("):
            remedy = f"Where numbers begin with 1, the table needs a row more: {origin.code} + 1."
    return _told(trace, error, row, why, remedy)


def _classes(trace: Trace, error: ErrorRow, row: Row, text: str) -> Found | None:
    """Class numbers that the model has no output for."""
    match = _CLASS.search(text)
    if match is None or len(row.given) < 2:
        return None
    scores, s = row.given[0][0], row.given[1][2]
    if s is None or s.min is None or s.max is None:
        return None
    n = scores[1] if len(scores) > 1 else scores[0]
    why = f"class numbers go from {s.min:.0f} to {s.max:.0f}, and the model has {n} outputs, for 0 to {n - 1}"
    remedy = f"Give the last layer {s.max + 1:.0f} outputs, or number the classes from 0."
    if s.min >= 1 and s.max - s.min < n:
        remedy = f"Number the classes from 0: target - {s.min:.0f}."
    elif s.min < 0:
        remedy = f"Number the classes from 0; for samples without a class say ignore_index={s.min:.0f}."
    elif s.max == VOID > n:
        remedy = f"Where {VOID} marks what has no class, leave it out: CrossEntropyLoss(ignore_index={VOID})."
    last = row.refs[0]
    origin = size_of(trace, code_of(trace, last).partition("(")[0]) if isinstance(last, Row) else None
    if origin is not None and not origin.code.isdigit():
        why += f"; their number is `{origin.code}` ({origin.words})"
    return _told(trace, error, row, why, remedy)


def _bytes(trace: Trace, error: ErrorRow, row: Row, text: str) -> Found | None:
    """Images of bytes, or integers, where a layer takes floating-point values."""
    kinds = [kind for _, kind, _ in row.given]
    mixed = "should be the same" in text or "scalar type" in text or "same dtype" in text
    if not mixed or len(kinds) < 2 or not kinds[0].startswith(("uint", "int")) or not kinds[1].startswith("float"):
        return None
    why = f"it takes {kinds[1]} and gets {kinds[0]}"
    remedy = "Convert the images once: x.float() / 255." if kinds[0] == "uint8" else "Convert the data once: x.float()."
    return _told(trace, error, row, why, remedy)
