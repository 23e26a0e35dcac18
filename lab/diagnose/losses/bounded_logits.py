"""Logits that cannot become large: cosines given to a loss without a scale, or multiplied with a temperature."""

from __future__ import annotations

import math

from ...recorder.cell_trace import Leaf, Ref, Row, Trace
from ..finding import Found, capital, code_of, where
from ..order import rule

PRODUCTS = {"linear", "matmul", "mm", "bmm", "einsum"}
NORMS = {"vector_norm", "norm", "linalg_vector_norm", "linalg_norm"}
SCALES = {"mul", "div", "mul_", "div_"}
BETWEEN = {"where", "masked_fill", "masked_fill_", "cast", "float", "contiguous", "clone", "sub", "add"}
NEAR = 4  # ops between a norm and the division by it
MOST = 1.0  # a temperature of 0.5 is usual with thousands of samples to be told from
LEAST = 0.25  # a loss that can fall below this can become small


@rule(443)
def bounded(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Cosines as logits: at a scale of 1 the most that a softmax can say is far from certain."""
    for row in trace.rows:
        if row.op not in ("cross_entropy", "log_softmax", "nll_loss") or not row.reached or not row.refs:
            continue
        if len(row.refs[0].shape) != 2 or row.refs[0].shape[1] < 3:
            continue
        cosines, scaled, scale = _cosines(row.refs[0])
        if cosines is None or not 0 < scale <= MOST:
            continue
        classes = row.refs[0].shape[1]
        lowest = math.log1p((classes - 1) * math.exp(-2.0 * scale))
        if lowest < LEAST:
            continue
        line, col, place = where(trace, (scaled or cosines).chain)
        there = where(trace, row.chain)[2]
        times = "as they are" if scaled is None else f"times {scale:.3g}"
        message = capital(
            f"{place} gives the loss{'' if there == place else f' on {there}'} cosines {times} as logits "
            f"(`{code_of(trace, scaled or cosines)}`), which lie between {-scale:.3g} and {scale:.3g}: of {classes:,} "
            f"classes none can be told with certainty, and the loss cannot fall below {lowest:.2g} (it is "
            f"{math.log(classes):.3g} for a guess)."
        )
        remedy = "Scale them up: divide by a temperature of 0.05 to 0.1, or multiply by 10 to 30."
        return [Found("loss", "warning", line, col, message, remedy, [cosines, row])]
    return []


def _cosines(ref: Ref) -> tuple[Row | None, Row | None, float]:
    """Return the cosines that logits are, the op that scales them where there is one, and by how much."""
    scaled, scale = None, 1.0
    while isinstance(ref, Row) and ref.refs:
        if _is_cosine(ref):
            return ref, scaled, scale
        before = next((r for r in ref.refs if r.requires_grad), ref.refs[0])
        several = len([r for r in ref.refs if r.requires_grad and r.shape]) > 1
        if several or not (ref.view or ref.op in SCALES or ref.op in BETWEEN):
            return None, None, 0.0
        if ref.op in SCALES:
            scaled, scale = scaled or ref, scale * _factor(ref, before)
        ref = before
    return None, None, 0.0


def _factor(row: Row, before: Ref) -> float:
    """Return by what an op with a plain number multiplies; 0 where that is not known."""
    a, b = row.stats, getattr(before, "stats", None)
    if a is None or b is None or not a.std or not b.std:
        return 0.0
    return float(a.std / b.std)


def _is_cosine(row: Row) -> bool:
    """Whether an op gives cosines: a product of two normalised values."""
    if row.op == "cosine_similarity":
        return True
    if row.op == "sum" and isinstance(row.refs[0], Row) and row.refs[0].op == "mul":
        return len(row.refs[0].refs) == 2 and all(map(_normalised, row.refs[0].refs))
    return row.op in PRODUCTS and len(row.refs) == 2 and all(map(_normalised, row.refs))


def _normalised(ref: Ref) -> bool:
    """Whether values were divided by their norm."""
    while isinstance(ref, Row) and ref.view and ref.refs:
        ref = ref.refs[0]
    if not isinstance(ref, Row):
        return False
    if ref.op == "normalize":
        return True
    if ref.op != "div" or len(ref.refs) != 2:
        return False
    near: list[Ref] = [ref.refs[1]]
    for _ in range(NEAR):
        if any(isinstance(r, Row) and r.op in NORMS for r in near):
            return True
        near = [inner for r in near if isinstance(r, Row) for inner in r.refs]
    return False
