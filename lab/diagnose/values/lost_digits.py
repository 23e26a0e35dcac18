"""Numbers of which a dtype keeps too few digits: a variance as a difference of squares, seconds since 1970 in float32,
a sum that stands still, an optimizer's eps that is zero in float16."""

from __future__ import annotations

import ast
import math
import re

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ...recorder.value_facts import EPS
from ..finding import Found, capital, code_of, listed, where
from ..order import rule
from ..reading.safe_forms import as_floats
from ..reading.scope import flow_around
from ..reading.sources import assigned, called, sources

SQUARES = {"pow", "square", "pow_", "square_"}
WHOLE = re.compile(r"\.(long|int)\(\)|int(64|32)\b")
PRODUCTS = {"matmul", "mm", "bmm", "einsum", "linear"}
AVERAGES = {"mean", "sum", "div", "div_", "add", "add_", "mul", "mul_", "lerp_", "lerp"}
SPREADS = {"sqrt", "pow", "clamp", "clamp_min", "add", "add_", "relu", "maximum", "cast"}
SCALED = 1e3  # beyond what samples are in units of their spread
STILL = 8  # runs of a sum without a change from which it is said
LOST = 0.01  # share of a sum that has to be missing
SMALLEST = 2.0**-25  # what is at most this large is 0 in float16
NETWORK = re.compile(r"net|model|param|policy|coder|sequential|lm\b|\bm\b", re.I)
NARROWED = re.compile(r"float32|\.float\(\)|FloatTensor|torch\.Tensor\(|half|bfloat16|float16")
IN_PLACE = re.compile(r"\+=|add_\(")
EPS_OF = {"Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "RAdam", "Adamax", "Adadelta"}


@rule(298)
def distances_expanded(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Squared distances as ``a ** 2 + b ** 2 - 2 * a @ b.T`` of points that are far from 0 and close to each other."""
    for row, lost in trace.values.lost.items():
        if row in trace.rows and row.op == "sub" and len(row.refs) == 2 and lost.share > 0.25 and _expanded(*row.refs):
            spoilt = any(bad.bad is not None and row in ancestors([bad]) for bad in trace.rows)
            return [_distances(trace, row, lost.largest, "error" if spoilt else "warning")]
    return []


@rule(370)
def lost_digits(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A difference of numbers that are large beside it."""
    for row, lost in trace.values.lost.items():
        if row not in trace.rows or row.into is not None:
            continue
        if _is_variance(trace, row):
            return [_variance(trace, row, lost.largest)]
        if row.op == "sub" and len(row.refs) == 2 and _expanded(*row.refs):
            continue  # told by itself
        if lost.whole and lost.share > 0.5 and lost.largest * EPS[row.dtype] >= 1:
            return [_coarse(trace, row, lost.largest)]
    for row, largest in trace.values.cancelled.items():
        if row in trace.rows and row.into is None and _is_variance(trace, row) and _divides(trace, row):
            return [_variance(trace, row, largest)]
    return []


def _is_variance(trace: Trace, row: Row) -> bool:
    """Whether a difference is a mean of squares less the square of a mean."""
    if row.op != "sub" or len(row.refs) != 2 or not _squared(row.refs[1]):
        return False
    return _mean_of_squares(row.refs[0], trace.consumers()) or _kept_average(row.refs[0])


def _divides(trace: Trace, row: Row) -> bool:
    """Whether large values come out of a division by the root of a variance: what it was taken of is not constant."""
    readers, found = trace.consumers(), [row]
    for one in found:
        for after in readers.get(one, ()):
            if after.op in ("div", "div_") and after.refs[-1] is one and after.stats is not None:
                if after.bad is not None and after.bad.inf:
                    return True
                if max(abs(after.stats.min or 0.0), abs(after.stats.max or 0.0)) > SCALED:
                    return True
            elif (after.view or after.op in SPREADS) and after not in found:
                found.append(after)
    return False


def _expanded(added: Ref, product: Ref) -> bool:
    """Whether a difference is that of squared norms and twice a product: squared distances, written out."""
    near: list[Ref] = [product]
    for _ in range(3):
        if any(isinstance(r, Row) and r.op in PRODUCTS for r in near):
            break
        near = [inner for r in near if isinstance(r, Row) for inner in r.refs[:1]]
    else:
        return False
    sums = [_unviewed(r) for r in added.refs] if isinstance(added, Row) and added.op == "add" else []
    return len(sums) == 2 and all(isinstance(r, Row) and r.op == "sum" and r.refs and _squared(r.refs[0]) for r in sums)


def _distances(trace: Trace, row: Row, largest: float, severity: str) -> Found:
    line, col, place = where(trace, row.chain)
    message = capital(
        f"{place} takes squared distances as the difference of large numbers (`{code_of(trace, row)}`): the squared "
        f"norms are near {largest:.3g}, where the numbers of {row.dtype} are {spacing(largest, row.dtype):.3g} "
        "apart, and smaller distances than that are lost; some come out below 0."
    )
    remedy = "Subtract the mean from the points first, take torch.cdist of them, or the differences themselves."
    return Found("dtype", severity, line, col, message, remedy, [row])


def _squared(ref: Ref) -> bool:
    """Whether a value is the square of another one."""
    ref = _unviewed(ref)
    return isinstance(ref, Row) and (
        ref.op in SQUARES or (ref.op in ("mul", "mul_") and len(ref.refs) == 2 and ref.refs[0] is ref.refs[1])
    )


def _unviewed(ref: Ref) -> Ref:
    while isinstance(ref, Row) and ref.view and ref.refs:
        ref = ref.refs[0]
    return ref


def _mean_of_squares(ref: Ref, readers: dict[Ref, list[Row]]) -> bool:
    """Whether a value is an average that squares went into; of a running one only the last addition may be known."""
    seen, stack = 0, [ref]
    while stack and seen < 12:
        one = _unviewed(stack.pop())
        seen += 1
        if isinstance(one, Row) and one.op in AVERAGES:
            if any(_squared(r) for r in one.refs):
                return True
            stack.extend(one.refs)
        elif isinstance(one, Leaf):  # a buffer, to which squares are added in place
            added = [r for r in readers.get(one, ()) if r.op in ("add", "add_", "lerp_")]
            stack.extend(ref for r in added[:4] for ref in r.refs if ref is not one)
            if any(_squared(ref) for r in added[:4] for ref in r.refs):
                return True
    return False


def _kept_average(ref: Ref) -> bool:
    """Whether a value is a sum from an earlier cell, divided by a count."""
    one = _unviewed(ref)
    return (
        isinstance(one, Row)
        and one.op in ("div", "mul")
        and bool(one.refs)
        and isinstance(_unviewed(one.refs[0]), Leaf)
    )


def _variance(trace: Trace, row: Row, largest: float) -> Found:
    line, col, place = where(trace, row.chain)
    message = capital(
        f"{place} loses all digits of a variance: `{code_of(trace, row)}` subtracts numbers near {largest:.3g} "
        "from each "
        f"other, which {row.dtype} holds to {largest * EPS[row.dtype]:.2g}, and what is left is of that size."
    )
    remedy = (
        "Take the mean of (x - mean) ** 2 (x.var()), or Welford's update for a running one; or subtract a first value "
        "and add up in float64."
    )
    return Found("dtype", "warning", line, col, message, remedy, [row])


def spacing(value: float, dtype: str) -> float:
    """Return the distance between a number and the next one."""
    return float(2.0 ** math.floor(math.log2(value)) * EPS[dtype])


def _coarse(trace: Trace, row: Row, largest: float) -> Found:
    line, col, place = where(trace, row.chain)
    what = "the remainder" if row.op in ("remainder", "fmod") else "a small difference"
    message = capital(
        f"{place} takes {what} of large numbers: `{code_of(trace, row)}` is given values near {largest:.3g}, where the "
        f"numbers of {row.dtype} are {spacing(largest, row.dtype):.3g} apart, so the result is 0 or a multiple of "
        f"that{_made_narrow(trace, row)}."
    )
    remedy = "Subtract (or take the first value away) in float64 or int64, and make it float32 after that."
    return Found("dtype", "warning", line, col, message, remedy, [row])


def _made_narrow(trace: Trace, row: Row) -> str:
    """In words: where what an op is given was put into float32, which is where its digits went."""
    names = {leaf.name for leaf in map(_unviewed, row.refs) if isinstance(leaf, Leaf)}
    for source in sources(trace):
        for pair in assigned(ast.walk(source.program) if not source.name else source.nodes):
            if pair.name in names and NARROWED.search(ast.unparse(pair.value)):
                return f"; {source.place(pair.node).words} makes {pair.name} {row.dtype}"
    return ""


@rule(374)
def numbers_rounded(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``table[:, 0].long()`` of a float32 table whose numbers are beyond 2**24: neighbours have become one."""
    for row in trace.rows:
        ref = _unviewed(row.refs[0]) if row.op in ("cast", "~cast") and len(row.refs) == 1 else None
        stats = ref.stats if isinstance(ref, Row) else None
        largest = max(abs(stats.min or 0.0), abs(stats.max or 0.0)) if stats is not None else _largest(ref)
        held = str(getattr(ref, "dtype", ""))
        if ref is None or held not in EPS or largest * EPS[held] < 2.0:
            continue
        if not row.dtype.startswith("int") and not (row.cut and WHOLE.search(code_of(trace, row))):
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} makes whole numbers of {held} values as large as {largest:.3g} (`{code_of(trace, row)}`), where "
            f"its numbers are {spacing(largest, held):.3g} apart: neighbouring ones have been rounded to one before."
        )
        remedy = "Keep such numbers as int64 from the start; float64 holds whole numbers up to 2**53."
        return [Found("dtype", "warning", line, col, message, remedy, [row])]
    return []


def _largest(ref: Ref | None) -> float:
    """The size of the largest value of a leaf."""
    span = getattr(ref, "span", None)
    return max(map(abs, span)) if span is not None else 0.0


@rule(371)
def wraps(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A difference or a sum of bytes that leaves 0 to 255 and goes on as a size."""
    readers = trace.consumers()
    for row, share in trace.values.wrapped.items():
        inside = row.refs[:1] if IN_PLACE.search(code_of(trace, row)) else ()  # it is read by its old name
        read = [r for ref in (row, *inside) for r in readers.get(ref, ()) if r is not row]
        after = {r.op for r in read} | {r.cut for r in read}
        if share < LOST or not after & {"abs", "float", "cast", "to", "mean", "sum", "pow", "div", "double", "item"}:
            continue
        line, col, place = where(trace, row.chain)
        below = row.op == "sub"
        message = capital(
            f"{place} computes in uint8, which holds 0 to 255 (`{code_of(trace, row)}`): {share:.0%} of the results "
            f"{'are below 0 and come out near 255' if below else 'are above 255 and come out near 0'}."
        )
        sign = "-" if below else "+"
        new = as_floats(code_of(trace, row)) or f"a.float() {sign} b.float()"
        remedy = f"Make them float (or int16) first: {new}."
        return [Found("dtype", "warning", line, col, message, remedy, [row])]
    return []


@rule(372)
def stands_still(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A sum that is so large that what is added to it is rounded away."""
    for row, still in trace.values.still.items():
        if row not in trace.rows or still.runs < STILL or still.lost < LOST * abs(still.value):
            continue
        line, col, place = where(trace, row.chain)
        bits = {"bfloat16": 8, "float16": 11}.get(row.dtype, 24)
        message = capital(
            f"{place} adds to a sum that stands still: in {row.dtype}, which has {bits} bits for the digits, "
            f"{still.value:g} + {still.added:g} is {still.value:g}; {still.runs:,} of {row.count:,} additions changed "
            "nothing."
        )
        remedy = "Add up in float32 (float64 for very many) or in a Python number: total += loss.item()."
        return [Found("dtype", "warning", line, col, message, remedy, [row])]
    return []


@rule(373)
def steps_round_away(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Weights in bfloat16 or float16 that are stepped by less than half the spacing of their numbers."""
    coarse = [leaf for leaf in trace.optimized if _dtype(leaf) in ("bfloat16", "float16") and leaf in trace.gradients]
    lost = [leaf for leaf in coarse if 0 < _step(trace, leaf) < _half_a_place(leaf) * trace.weights.get(leaf, 0.0)]
    if not lost or len(lost) < 0.3 * len(coarse):
        return []
    line, col, place = where(trace, trace.steps.last_step)
    steps = place
    kind = _dtype(lost[0])
    size = trace.steps.lr if trace.steps.adaptive else trace.steps.lr * trace.gradients[lost[0]].rms
    roots = {leaf.name.partition(".")[0] for leaf in lost}
    for source in sources(trace):
        made = {pair.value: pair.name for pair in assigned(source.nodes)}
        for node in source.nodes:
            cast = called(node) in ("to", "bfloat16", "half") and isinstance(node, ast.Call)
            of = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            given = (
                [flow_around(source, node).inner(a) for a in node.args] if cast and isinstance(node, ast.Call) else []
            )
            to = " ".join(map(ast.unparse, [node, *given])) if cast else ""
            own = {of.partition(".")[0], made.get(node, "")} & roots  # type: ignore[call-overload]
            if cast and re.search(r"float16|half", to) and (own or NETWORK.search(of)):
                line, col, place = source.place(node)
    message = capital(
        f"{place} keeps the weights in {kind}, and {steps} steps them by about {size:.2g}: {listed(lost)} hold "
        f"numbers of {trace.weights[lost[0]]:.2g} on average, which are {2 * _half_a_place(lost[0]):.2g} of their size "
        "apart, so most steps round away."
    )
    remedy = "Keep the weights in float32 and compute under torch.autocast, or keep a float32 copy that is stepped."
    return [Found("dtype", "warning", line, col, message, remedy, [], lost)]


def _step(trace: Trace, leaf: Leaf) -> float:
    """How large a step of a weight is: of Adam and its kin the learning rate, else at most ten times a gradient's."""
    size = 1.0 if trace.steps.adaptive else 10 * trace.gradients[leaf].rms
    return trace.steps.lr * size


def _half_a_place(leaf: Leaf) -> float:
    """Half the spacing of a dtype's numbers as a share of their size, at its least."""
    return EPS[_dtype(leaf)] / 4


def _dtype(leaf: Leaf) -> str:
    """What a parameter's dtype is by now."""
    t = leaf.tensor()
    return str(t._kind.dtype.name) if t is not None else leaf.dtype


@rule(205)
def no_eps(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """An optimizer of float16 parameters whose eps is 0 there: where a gradient is 0, the step is 0 / 0."""
    half = [leaf for leaf in trace.optimized if _dtype(leaf) == "float16"]
    kinds = {o.kind for o in trace.steps.optimizers if 0 < o.eps <= SMALLEST}
    if not half or not kinds & EPS_OF or trace.steps.lr == 0:
        return []
    broken = any(row.bad is not None for row in trace.rows if row.op in ("embedding", "linear", "matmul", "conv2d"))
    broken = broken or any(g.nonfinite for g in trace.gradients.values())
    for source in sources(trace):
        made = [n for n in source.nodes if isinstance(n, ast.Call) and called(n) in kinds]
        if not made:
            continue
        line, col, place = source.place(made[0])
        kind = called(made[0])
        then = "where PyTorch computes the step in float16, it is 0 / 0"
        if broken:
            then = "such a step is 0 / 0, and the weights are no numbers any more"
        eps = next(o.eps for o in trace.steps.optimizers if o.kind == kind)
        message = capital(
            f"{place} makes {kind} for parameters in float16, where its eps of {eps:g} is 0 and small squares of "
            f"gradients are 0 too: {then}."
        )
        remedy = f"Keep the parameters in float32 and use autocast; or at least {kind}(..., eps=1e-4)."
        return [Found("dtype", "error" if broken else "note", line, col, message, remedy, [], half)]
    return []
