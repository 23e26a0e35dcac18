"""Whether a NaN or an infinity came to anything: to a loss, to a gradient, to what a model gives.

Many programs compute with them on purpose (the mask of an attention, a table of distances or of a decoder, missing
values that are taken out later): these come to nothing, and are no mistake.
"""

from __future__ import annotations

import re

from ...recorder.cell_trace import Leaf, Ref, Row, Trace
from ..finding import code_of
from ..graph.path_to_loss import discrete

WRITING = {"copy", "copy_", "setitem_", "fill", "fill_", "index_put_"}
FILLING = {"where", "masked_fill", "masked_fill_"}
_IN_PLACE = re.compile(r"\.[a-z]\w*[a-z]_\(")
_NAMED = re.compile(r"\b(inf|infinity|nan)\b", re.IGNORECASE)

Readers = dict[Ref, list[Row]]
Writers = dict[Ref, list[Row]]


def unviewed(ref: Ref) -> Ref:
    """What a view is a view of."""
    while isinstance(ref, Row) and ref.view and ref.refs:
        ref = ref.refs[0]
    return ref


def deliberate(trace: Trace, row: Row) -> bool:
    """Whether an op puts values there that are not finite because it was told to: its own text names them.

    `where` and writes take what they are given.
    """
    return row.op in WRITING or row.op in FILLING or _NAMED.search(code_of(trace, row)) is not None


def ends(trace: Trace, readers: Readers) -> list[Row]:
    """Where values that are not finite did harm: in what backward() ran on or went through; where it did not run, in
    what was computed with a graph, and NaN in what a model gives."""
    spoilt = any(g.nonfinite for g in trace.gradients.values())
    roots = {root for chain in (*trace.backwards, *trace.chosen) for root in trace.roots.get(chain, ())}
    found = [row for row in trace.rows if row.bad is not None and (row in roots or (spoilt and row.reached))]
    if trace.failed:
        found += [ref for ref, _ in trace.failed if isinstance(ref, Row) and ref.bad is not None]
    if found or spoilt or trace.backwards or trace.chosen:
        return found
    left = [row for row in trace.rows if row.bad is not None and _last(row, readers)]
    return [row for row in left if _of_a_model(trace, row)]


def _last(row: Row, readers: Readers) -> bool:
    """Whether no op takes what is not finite any further."""
    return not any(not after.cut and (after.bad is not None or after.view) for after in readers.get(row, ()))


def _of_a_model(trace: Trace, row: Row) -> bool:
    """Whether a result was computed from parameters: NaN of any; an infinity with a graph, that nobody put there."""
    assert row.bad is not None
    if not row.bad.nan and (not row.requires_grad or deliberate(trace, row) or not _computed(trace, row)):
        return False
    seen: set[Ref] = {row}
    stack: list[Ref] = [row]
    while stack:
        ref = stack.pop()
        if isinstance(ref, Leaf):
            if ref.module or ref.requires_grad:
                return True
        elif not discrete(ref):
            new = [r for r in ref.refs if r not in seen]
            seen.update(new)
            stack.extend(new)
    return False


def _computed(trace: Trace, row: Row) -> bool:
    """Whether infinities began at an op that was given finite values and no infinity."""
    way = [r for r in behind([row], written(trace)) if isinstance(r, Row) and r.bad is not None]
    return any(r.bad is not None and r.bad.inputs_finite and not deliberate(trace, r) for r in way)


def written(trace: Trace) -> Writers:
    """For a tensor: the ops that wrote what is not finite into it, or into a view of it; those that read it afterwards
    go by its old name."""
    found: dict[Ref, list[Row]] = {}
    for row in trace.rows:
        if row.bad is None or row.cut:
            continue
        if row.op in WRITING or row.op.endswith("_"):
            into = row.refs[:1]
        elif _IN_PLACE.search(code_of(trace, row)):  # a method in place that is made of several ops
            into = row.refs
        else:
            continue
        for ref in into:
            while isinstance(ref, Row) and (ref.view or ref.cut) and ref.refs:
                ref = ref.refs[0]
            found.setdefault(ref, []).append(row)
    return found


def sources(row: Row, writers: Writers | None = None) -> list[Row]:
    """The rows that a row reads, looked at through views, whose values are their input's, and those that wrote what is
    not finite into them."""
    found: list[Row] = []
    stack = list(row.refs)
    while stack:
        ref = stack.pop()
        found.extend((writers or {}).get(ref, ()))
        if isinstance(ref, Row):
            if ref.view:
                stack.extend(ref.refs)
            else:
                found.append(ref)
    return found


def behind(rows: list[Row], writers: Writers) -> dict[Ref, None]:
    """All through which values that are not finite came to some rows: ops that gave such values, views, writes."""
    seen: dict[Ref, None] = {}
    stack: list[Ref] = list(rows)
    while stack:
        ref = stack.pop()
        if ref in seen:
            continue
        seen[ref] = None
        stack.extend(writers.get(ref, ()))
        if isinstance(ref, Row):
            stack.extend(r for r in ref.refs if isinstance(r, Leaf) or r.bad is not None or r.view or r in writers)
    return seen


def left_over(trace: Trace, row: Row, readers: Readers) -> bool:
    """Whether an op made NaN of finite values, nobody told it to, and it stays in a result that the cell keeps."""
    if row.bad is None or not row.bad.nan or not row.bad.inputs_finite or deliberate(trace, row):
        return False
    seen, stack = {row}, [row]
    while stack:
        at = stack.pop()
        after = [r for r in readers.get(at, ()) if not r.cut]
        if not after:
            return True
        for r in after:
            if r not in seen and (r.view or (r.bad is not None and r.bad.nan)):
                seen.add(r)
                stack.append(r)
    return False
