"""Values that a type or a bound swallows: fractions in whole numbers, small ones beside 1 or beside an eps, all of them
at the bound of a clamp, differences of running sums."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Row, Trace, ancestors
from ...recorder.value_facts import EPS
from ..data.padding_read import cut_to_whole
from ..finding import Found, capital, code_of, listed, where
from ..order import rule, text_rule
from ..reading.scope import Index, Scope, flow_around, indices
from ..reading.sources import Function, called, sources

SHARE = re.compile(
    r"^(beta|alpha|kl_?(weight|w|coef)|kld_weight|anneal\w*|ratio|frac\w*|progress|weight|acc|accuracy|coef\w*|lam\w*|warm\w*|"
    r"eps|epsilon|prob|p|percent\w*|lr_scale|scale|factor|temperature|w_kl)$", re.I,
)  # fmt: skip
WHOLE = ("int64", "int32", "int16", "int8", "uint8")
TO_WHOLE = re.compile(r"\.(long|int|short|byte)\(\)|int(64|32|16|8)\b|LongTensor|IntTensor|torch\.long")
SMALL = 1e-3  # an eps, and no bias
ADDING = re.compile(r"\+|\badd\b")


@text_rule(369, "//")
def share_of_whole_numbers(scope: Scope) -> Iterator[Found]:
    """``beta = step // total``: 0 until the very end."""
    index = scope.index
    function = index.flow.scope
    returned = [(function.name, r.value, r) for r in index.kinds.get(ast.Return, ()) if isinstance(function, Function)]
    for name, value, node in [*index.given, *returned]:
        if not SHARE.match(name.rpartition(".")[2]) or value is None:
            continue
        inner = value
        if called(inner) in ("min", "max", "float") and isinstance(inner, ast.Call):
            inner = next((a for a in inner.args if isinstance(a, ast.BinOp)), inner)
        floored = [n for n in ast.walk(inner) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.FloorDiv)]
        if not floored or floored[0] is not inner:
            continue
        if isinstance(floored[0].right, ast.Constant):
            if name.lower() in ("p", "scale", "weight", "factor"):
                continue
            if not _counted(index, floored[0].left):  # a tenth of all steps is a number of steps
                continue
        now = scope.trace.space.get(name)
        if isinstance(now, int | float) and abs(now) > 1:
            continue
        proof = "it is 0 at the end" if isinstance(now, int | float) and now == 0 else ""
        message = (
            f"divides whole numbers without a rest (`{ast.unparse(node)}`): {name} is 0 as long as "
            f"{ast.unparse(floored[0].left)} is below {ast.unparse(floored[0].right)}, and never in between."
        )
        remedy = f"Divide with a rest: {ast.unparse(inner).replace('//', '/')}."
        yield scope.tell(node, "dtype", message, remedy, proof=proof)


def _counted(index: Index, node: ast.expr) -> bool:
    """Whether an expression has a name that a loop counts, or a function is given."""
    loops = [n.target for n in index.kinds.get(ast.For, ())]
    loops += [n.target for n in index.kinds.get(ast.AugAssign, ())]
    counted = {n.id for target in loops for n in ast.walk(target) if isinstance(n, ast.Name)}
    function = index.flow.scope
    if isinstance(function, Function):
        counted |= {a.arg for a in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]}
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return bool(names & counted) or any(isinstance(n, ast.Attribute) for n in ast.walk(node))


@rule(375)
def fractions_written_into_whole(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``returns = torch.zeros_like(rewards)`` of whole numbers, and ``returns[t] = 0.9``: the fraction is gone."""
    lost: list[Row] = []
    for row in trace.rows:
        if (
            row.op not in ("copy", "copy_", "index_put", "setitem", "setitem_")
            or row.dtype not in WHOLE
            or len(row.refs) < 2
        ):
            if row in trace.values.fractions:
                lost.append(row)
            continue
        given = row.refs[-1]
        while isinstance(given, Row) and given.refs and (given.op.lstrip("~") in ("cast", "detach") or given.view):
            given = given.refs[0]
        spans = (
            [given.span]
            if isinstance(given, Leaf)
            else [
                (r.stats.min, r.stats.max)
                for r in trace.rows
                if r.stats is not None
                and (r is given or (row.op == "setitem_" and r.line == given.line and r.shape == given.shape))
            ]
        )
        if given.dtype not in (*EPS, "float64"):
            if _fraction_given(trace, row):
                lost.append(row)
            continue
        if any(v is not None and v != round(v) for span in spans if span is not None for v in span):
            lost.append(row)
    if not lost:
        return []
    row = lost[0]
    line, col, place = where(trace, row.chain)
    name = re.sub(r"\[.*", "", code_of(trace, row)).partition(" ")[0]
    made = ""
    for source, index in indices(trace):
        for pair in index.given:
            if pair.name == name and not source.name:
                made = f"; {source.place(pair.node).words} makes {name} so (`{ast.unparse(pair.node)}`)"
    message = capital(
        f"{place} writes fractions into a tensor of {row.dtype} (`{code_of(trace, row)}`), which keeps their "
        "whole part "
        f"alone{made}."
    )
    remedy = f"Make it of float32: torch.zeros({'...' if not made else 'n'}), or zeros_like(..., dtype=torch.float32)."
    return [Found("dtype", "warning", line, col, message, remedy, [row])]


def _fraction_given(trace: Trace, row: Row) -> bool:
    """Whether a plain number that is written into a tensor is a product with a fraction, or a quotient."""
    line = row.line
    source = sources(trace)[0]
    for node in (n for n in source.nodes if isinstance(n, ast.Assign) and n.lineno == line):
        flow = flow_around(source, node)
        if isinstance(node.targets[0], ast.Subscript) and isinstance(node.value, ast.Name):
            value = flow.inner(node.value)
            factors = [p for s in ast.walk(value) if isinstance(s, ast.BinOp) and isinstance(s.op, ast.Mult)
                       for p in (s.left, s.right)]  # fmt: skip
            known = [flow.number(p) for p in factors]
            return any(k is not None and k != int(k) for k in known)
    return False


@rule(376)
def cut_to_zero(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``torch.rand(64).long()``: of shares between 0 and 1 nothing is left."""
    if cut_to_whole(trace, set()):
        return []  # of targets it says more
    for row in trace.rows:
        if row.op not in ("cast", "~cast") or len(row.refs) != 1 or not row.shape:
            continue
        if row.dtype not in WHOLE and not (row.cut and TO_WHOLE.search(code_of(trace, row))):
            continue
        ref = row.refs[0]
        stats = ref.stats if isinstance(ref, Row) else None
        span = (stats.min, stats.max) if stats is not None else getattr(ref, "span", None)
        held = str(getattr(ref, "dtype", ""))
        if held not in (*EPS, "float64") or span is None or span[0] is None or span[1] is None:
            continue
        if not -1 < span[0] < span[1] < 1 or row.shape == (1,):
            continue
        line, col, place = where(trace, row.chain)
        if line is None:
            continue
        message = capital(
            f"{place} makes whole numbers of values from {span[0]:.3g} to {span[1]:.3g} "
            f"(`{code_of(trace, row)}`): the part "
            "behind the point is cut off, and all of them are 0."
        )
        return [
            Found(
                "dtype",
                "warning",
                line,
                col,
                message,
                "Keep them as float32; .long() is for numbers of classes.",
                [row],
            )
        ]
    return []


@rule(377)
def beside_a_larger_eps(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``x / (x.norm() + 1e-8)`` of values near 1e-12: the eps is what it is divided by."""
    for row in trace.rows:
        if row.op != "add" or len(row.refs) != 1 or row.stats is None or row.stats.min is None or row.dtype not in EPS:
            continue
        ref = row.refs[0]
        stats = ref.stats if isinstance(ref, Row) else None
        if stats is None or stats.max is None or stats.min is None or stats.min < 0 or stats.max <= 0:
            continue
        eps = row.stats.min - stats.min
        if not 0 < eps <= SMALL or stats.max > 0.1 * eps:
            continue
        read = [
            r
            for r in trace.rows
            if row in r.refs and r.op in ("div", "rsqrt", "reciprocal", "sqrt") and r.refs[-1] is row
        ]
        line, col, place = where(trace, row.chain)
        if not read or line is None or not ADDING.search(code_of(trace, row)):
            continue  # a library's own: clip_grad_norm_ takes no factor above 1
        message = capital(
            f"{place} adds {eps:.1g} to values of at most {stats.max:.2g} (`{code_of(trace, row)}`) and divides "
            "by that: what "
            "was to keep a divisor from 0 is the divisor, and the result is too small by as much."
        )
        remedy = "Bring the data to a size near 1 first (other units), or take an eps far below them."
        return [Found("dtype", "warning", line, col, message, remedy, [row])]
    return []


@rule(378)
def beside_one(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``torch.log(1 + rate)`` of rates near 1e-9: 1 + rate is 1."""
    for row in trace.rows:
        if row.op not in ("add", "sub") or len(row.refs) != 1 or row.stats is None or row.dtype not in EPS:
            continue
        ref = row.refs[0]
        span = (
            (ref.stats.min, ref.stats.max)
            if isinstance(ref, Row) and ref.stats is not None
            else getattr(ref, "span", None)
        )
        if (
            span is None
            or span[0] is None
            or span[1] is None
            or row.stats.min is None
            or row.stats.min != row.stats.max
        ):
            continue
        if span[0] == span[1] or not 0 < max(map(abs, span)) < 1e-2 or len(row.shape) == 0:
            continue
        if abs(row.stats.min) > 10:  # a mask
            continue
        line, col, place = where(trace, row.chain)
        if line is None:
            continue
        message = capital(
            f"{place} adds values of at most {max(map(abs, span)):.2g} to {row.stats.min:.3g} in {row.dtype} "
            f"(`{code_of(trace, row)}`): all results are {row.stats.min:.3g}, and the values are lost."
        )
        remedy = "Take torch.log1p(x) for log(1 + x), torch.expm1(x) for exp(x) - 1, or compute it in float64."
        return [Found("dtype", "warning", line, col, message, remedy, [row])]
    return []


@rule(379)
def all_at_the_bound(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``log_std.clamp(-2, 2)`` of values at -5: no gradient passes, so they never come back."""
    for row in trace.rows:
        if (
            row.op not in ("clamp", "clip", "hardtanh", "clamp_min", "clamp_max")
            or not row.requires_grad
            or row.stats is None
        ):
            continue
        ref = row.refs[0]
        if not row.stats.min or row.stats.min != row.stats.max or not row.reached:
            continue
        behind = [
            leaf for leaf in ancestors([ref]) if isinstance(leaf, Leaf) and leaf.module and leaf in trace.gradients
        ]
        if not behind or any(trace.gradients[leaf].max_abs for leaf in behind):
            continue
        line, col, place = where(trace, row.chain)
        if line is None:
            continue
        message = capital(
            f"{place} holds all values at the bound {row.stats.min:.3g} (`{code_of(trace, row)}`): the slope of "
            "a clamp is 0 "
            f"there, so {listed(behind)} {'gets' if len(behind) == 1 else 'get'} a gradient of 0 and never "
            f"{'comes' if len(behind) == 1 else 'come'} back."
        )
        remedy = "Start between the bounds, or bound it smoothly: low + (high - low) * torch.sigmoid(x)."
        return [Found("vanishing", "warning", line, col, message, remedy, [row], behind)]
    return []


@rule(380)
def running_sums_apart(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``c[w:] - c[:-w]`` of a cumsum that has grown large: its digits do not reach down to the difference."""
    for row in trace.rows:
        if row.op != "sub" or len(row.refs) != 2 or row.dtype not in EPS or row.stats is None or row.stats.std is None:
            continue
        sums = [_unviewed(r) for r in row.refs]
        if (
            not all(isinstance(s, Row) and s.op == "cumsum" and s.stats is not None for s in sums)
            or sums[0] is not sums[1]
        ):
            continue
        stats = sums[0].stats  # type: ignore[union-attr]
        if stats is None or stats.max is None or stats.min is None:
            continue
        largest = max(abs(stats.max), abs(stats.min))
        if EPS[row.dtype] * largest < 0.3 * row.stats.std:
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} takes sums over windows as differences of a running sum (`{code_of(trace, row)}`), which "
            "grows to "
            f"{largest:.3g}: there the numbers of {row.dtype} are {EPS[row.dtype] * largest:.2g} apart, as much as the "
            "windows differ."
        )
        remedy = "Take the mean off first, sum in float64 (x.double().cumsum(0)), or x.unfold(0, w, 1).mean(1)."
        return [Found("dtype", "warning", line, col, message, remedy, [row])]
    return []


def _unviewed(ref: Row | Leaf) -> Row | Leaf:
    """What a view is a view of."""
    while isinstance(ref, Row) and ref.view and ref.refs:
        ref = ref.refs[0]
    return ref


@text_rule(347, "//")
def whole_part_of_a_quotient(scope: Scope) -> Iterator[Found]:
    """``-math.log(10000.0) / d // 2``, where ``/ (d // 2)`` is meant: // takes the whole part of what / gives."""
    for node in scope.index.binary.get(ast.FloorDiv, ()):
        left = node.left
        if not isinstance(left, ast.BinOp) or not isinstance(left.op, ast.Div):
            continue
        real = [n for n in ast.walk(left.left) if called(n) in ("log", "sqrt", "exp") or
                (isinstance(n, ast.Constant) and isinstance(n.value, float))]  # fmt: skip
        if not real or not isinstance(scope.source.parents.get(node), ast.BinOp | ast.Call):
            continue
        a, b, c = (ast.unparse(part) for part in (left.left, left.right, node.right))
        message = (
            f"takes the whole part of a quotient (`{ast.unparse(node)}`): / comes first, and // makes a whole number "
            "of what it gives, which is 0 or -1 where that is below 1."
        )
        remedy = f"Put the two that belong together in brackets, {a} / ({b} // {c}), or divide once: {a} / {b}."
        yield scope.tell(node, "dtype", message, remedy)


@text_rule(348, "255")
def shift_within_the_factor(scope: Scope) -> Iterator[Found]:
    """``x * (2 / 255 - 1)``, where ``x * (2 / 255) - 1`` is meant: the 1 is taken from the factor."""
    for node in scope.index.products:
        for of, factor in ((node.left, node.right), (node.right, node.left)):
            less = isinstance(factor, ast.BinOp) and isinstance(factor.op, ast.Sub)
            share = factor.left if less else None  # type: ignore[attr-defined]
            whole = share.right if isinstance(share, ast.BinOp) and isinstance(share.op, ast.Div) else None
            if whole is None or ast.unparse(whole) not in ("255", "255.0", "127.5"):
                continue
            shift = ast.unparse(factor.right)  # type: ignore[attr-defined]
            message = (
                f"takes {shift} from the factor and not from the product (`{ast.unparse(node)}`): 0 stays 0, and 255 "
                f"comes out far below -{shift}."
            )
            remedy = f"Take it from the product: {ast.unparse(of)} * ({ast.unparse(share)}) - {shift}."  # type: ignore[arg-type]
            row = scope.row(node)
            yield scope.tell(node, "dtype", message, remedy, rows=[row] if row is not None else [])
