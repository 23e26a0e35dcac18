"""Ops that are written out by hand, and that the library has as one: norms, softmax, GELU, SiLU, attention.

Each of their parts goes over all values, forward and backward, where the one op goes over them once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...recorder.cell_trace import Ref, Row
from .op_costs import of_ops
from .time_shares import Saving, Shares, on_innermost, quoted

# What the one op saves of the time of its parts, forward and backward at a million values on one thread: PyTorch, core.
SAVES = {"layer_norm": (0.65, 0.3), "rms_norm": (0.6, 0.3), "softmax": (0.7, 0.7), "gelu": (0.35, 0.6),
         "silu": (0.3, 0.5), "scaled_dot_product_attention": (0.2, 0.2)}  # fmt: skip
REMEDIES = {
    "layer_norm": "Use F.layer_norm(x, x.shape[-1:]) or nn.LayerNorm, which also have weight and bias.",
    "rms_norm": "Use F.rms_norm(x, x.shape[-1:]) or nn.RMSNorm, which also has the weight.",
    "softmax": "Use torch.softmax(x, dim), which takes the maximum off by itself.",
    "gelu": 'Use F.gelu(x), with approximate="tanh" for the form by tanh.',
    "silu": "Use F.silu(x).",
    "scaled_dot_product_attention": "Use F.scaled_dot_product_attention(q, k, v, ...), which takes scale, mask, "
    "is_causal and dropout.",
}
WORDS = {"layer_norm": "a layer norm", "rms_norm": "an RMS norm", "softmax": "a softmax", "gelu": "a GELU",
         "silu": "a SiLU", "scaled_dot_product_attention": "attention"}  # fmt: skip
SCALING = {"add", "sqrt", "rsqrt", "clamp", "clamp_min", "maximum"}
BETWEEN = {"mul", "div", "add", "masked_fill", "where", "dropout", "softmax", "float", "cast", "to", "type_as"}


class Written(NamedTuple):
    """An op that was found written out: its name, and the rows of its parts."""

    op: str
    rows: list[Row]


def written(shares: Shares) -> Iterator[Saving]:
    """Parts of an op there is, one after another."""
    trace = shares.trace
    found: dict[str, dict[Row, Written]] = {}
    for row, whole in parts(shares.rows).items():
        found.setdefault(whole.op, {})[row] = whole
    for op, by_row in found.items():
        for ends in on_innermost(by_row).values():
            rows = dict.fromkeys(part for end in ends for part in by_row[end].rows)
            saves = SAVES[op][0 if ends[0].backend == "PyTorch" else 1]
            chain = ends[0].chain
            yield from shares.saving(
                saves * of_ops(shares, rows),
                chain,
                f"ends {WORDS[op]} that is written out, {len(by_row[ends[0]].rows)} ops in place of one: "
                f"{quoted(trace, chain)}.",
                REMEDIES[op],
                ends[:1],
            )


def parts(rows: Iterable[Row]) -> dict[Row, Written]:
    """Return the ops that are written out among rows, by the row that ends each."""
    found = {}
    for row in rows:
        for match in (_norm, _softmax, _activation, _attention):
            if row.phase == "forward" and (whole := match(row)) is not None:
                found[row] = whole
    return found


def _row(ref: Ref | None, *ops: str) -> Row | None:
    """Return a value as a row if it is one of some ops."""
    return ref if isinstance(ref, Row) and ref.op in ops and not ref.cut else None


def _pair(row: Row) -> list[tuple[Ref, Ref]]:
    """Return the operands of a product or a quotient: of a product in both orders."""
    if len(row.refs) != 2:
        return []
    a, b = row.refs
    return [(a, b)] if row.op == "div" else [(a, b), (b, a)]


def _norm(row: Row) -> Written | None:
    """(x - mean) / sqrt(var + eps) over the last dimension, or x * rsqrt(mean(x ** 2) + eps)."""
    if row.op not in ("div", "mul"):
        return None
    for top, below in _pair(row):
        parts = [row]
        scale: Ref = below
        while (part := _row(scale, *SCALING)) is not None and part.refs:
            parts.append(part)
            scale = part.refs[0]
        roots = {part.op for part in parts[1:]} & {"sqrt", "rsqrt"}
        if (row.op == "mul") != ("rsqrt" in roots):
            continue
        base = _row(scale, "std") if not roots else _row(scale, "var", "mean")
        if base is None or not base.refs or tuple(base.shape) != (*row.shape[:-1], 1):
            continue
        squares = _row(base.refs[0], "pow", "square", "mul") if base.op == "mean" else None
        if base.op == "mean" and squares is None:
            continue
        parts += [part for part in (base, squares) if part is not None]
        of = squares.refs[0] if squares is not None else base.refs[0]
        centred = _row(top, "sub")
        if centred is None:
            if squares is not None and of is top:
                return Written("rms_norm", parts)
            continue
        mean = _row(centred.refs[-1], "mean")
        own = _row(of, "sub")  # `x - mean` once more, below the square
        if mean is None or mean.refs[0] is not centred.refs[0]:
            continue
        if of is not centred.refs[0] and (own is None or own.refs[0] is not centred.refs[0]):
            continue
        parts += [centred, mean, *([own] if own is not None and own is not centred else [])]
        return Written("layer_norm", parts)
    return None


def _softmax(row: Row) -> Written | None:
    """exp(x) / exp(x).sum(dim, keepdim=True)."""
    if row.op != "div" or len(row.refs) != 2:
        return None
    power, total = _row(row.refs[0], "exp"), _row(row.refs[1], "sum")
    if power is None or total is None or total.refs[0] is not power or len(total.shape) != len(power.shape):
        return None
    parts = [row, power, total]
    if (less := _row(power.refs[0], "sub")) is not None:
        if (top := _row(less.refs[-1], "max", "max_dim", "amax")) is None:
            return Written("softmax", parts)
        parts += [less, top]
    return Written("softmax", parts)


def _activation(row: Row) -> Written | None:
    """x * sigmoid(x); 0.5 * x * (1 + erf(...)) or with tanh."""
    if row.op != "mul":
        return None
    for x, other in _pair(row):
        if (gate := _row(other, "sigmoid")) is not None and gate.refs[0] is x:
            return Written("silu", [row, gate])
        half, sum_ = _row(x, "mul", "div"), _row(other, "add")
        bend = _row(sum_.refs[0], "erf", "tanh") if sum_ is not None and len(sum_.refs) == 1 else None
        if sum_ is None or bend is None:
            continue
        given = half.refs[0] if half is not None and len(half.refs) == 1 else x
        parts, inner = [row, sum_, bend, *([half] if half is not None else [])], bend.refs[0]
        waiting = [inner]
        while waiting:
            part = waiting.pop()
            if part is given or not isinstance(part, Row):
                continue
            if part.op not in ("mul", "div", "add", "pow") or len(parts) > 12:
                return None
            parts.append(part)
            waiting += part.refs
        return Written("gelu", parts) if parts[-1].refs and inner is not given else None
    return None


def _attention(row: Row) -> Written | None:
    """softmax(q @ k.transpose(-2, -1) * scale + mask) @ v."""
    if row.op not in ("matmul", "bmm") or len(row.refs) != 2 or len(row.shape) < 3:
        return None
    parts, at = [row], row.refs[0]
    while (part := _row(at, *BETWEEN)) is not None and part.refs and len(parts) < 8:
        parts.append(part)
        at = part.refs[0] if part.op != "where" else part.refs[-1]
    scores = _row(at, "matmul", "bmm")
    softmaxes = [part for part in parts if part.op == "softmax"]
    if scores is None or len(softmaxes) != 1 or len(scores.shape) != len(row.shape):
        return None
    return Written("scaled_dot_product_attention", [*parts, scores])


IDIOMS = (written,)
