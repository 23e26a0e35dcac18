"""Signals and angles: decibels of the wrong kind, half of a spectrum, degrees in a sine, angles that are compared as
numbers on a line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Ref, Row, ancestors
from ..finding import Found
from ..order import text_rule
from ..reading.calls import mentions, name_of, operands, rows_at
from ..reading.expressions import DEEP, Flow
from ..reading.scope import Scope, spread, stripped
from ..reading.sources import called, names_in

DEGREES = re.compile(r"(^|_)(deg|degs|degree|degrees)(_|\d|$)|_deg$", re.I)
RADIANS = re.compile(r"rad|pi\b|/ 180|0\.0174|deg2rad", re.I)
POWER = re.compile(r"pow(er)?|energ|psd|(^|_)(sq|squared|var|mse|ratio|snr|num|den)(_|$)", re.I)
AMPLITUDE = re.compile(r"^(mag|mags|magnitude|magnitudes|amp|amps|amplitude|rms)(_|\d|$)", re.I)
SIZES = re.compile(r"(^|_)(mag|magnitude|power|psd|spec|spectrum|amplitude|amp|energy)s?(_|\d|$)", re.I)
ANGLE = re.compile(r"(^|_)(yaw|heading|azimuth|bearing|angle|angles|theta|phase|orientation)s?(_|\d|$)", re.I)
ANGLES = re.compile(r"yaw|heading|azimuth|bearing|angle|theta|phase|orientation", re.I)
ROUND = re.compile(
    rf"{ANGLES.pattern}|direction|(^|_)(wind_?)?dir(_|$)|latitude|longitude|(^|_)(lat|lon|lng|hue|course)(_|\d|$)", re.I
)
WHOLE_TURN = 5.0  # radians


def _squared(flow: Flow, node: ast.expr) -> bool:
    """Whether a value is a square or a sum of squares."""
    for one in spread(flow, node, 80):
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Pow) and ast.unparse(one.right) in ("2", "2.0"):
            return True
        if called(one) in ("pow", "square", "var", "mse_loss") or POWER.search(name_of(one)):
            return True
        if (
            isinstance(one, ast.BinOp)
            and isinstance(one.op, ast.Mult)
            and ast.unparse(one.left) == ast.unparse(one.right)
        ):
            return True
    return False


def _size(flow: Flow, node: ast.expr) -> bool:
    """Whether a value is an amplitude: the absolute value of a spectrum, or what is called one."""
    inner = stripped(flow, node)
    for _ in range(DEEP):
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Add | ast.Div):
            inner = stripped(flow, inner.left)
        elif isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult) and flow.number(inner.left) is not None:
            inner = stripped(flow, inner.right)
        elif called(inner) in ("clamp", "maximum", "clamp_min", "clip") and operands(inner):
            inner = stripped(flow, operands(inner)[0])
        else:
            break
    spectrum = any("fft" in called(n) or called(n) == "stft" for n in spread(flow, inner, 80))
    return (called(inner) == "abs" and spectrum) or bool(AMPLITUDE.search(name_of(inner)))


@text_rule(365, "log10")
def decibels_of_another_kind(scope: Scope) -> Iterator[Found]:
    """``10 * torch.log10(spectrum.abs())``: of an amplitude it is 20 times the logarithm, of a power 10 times."""
    index = scope.index
    for node in index.products:
        for number, call in ((node.left, node.right), (node.right, node.left)):
            call = index.flow.inner(call)
            if called(call) != "log10" or not operands(call):
                continue
            known, of = index.flow.number(number), operands(call)[0]
            halves = known == 10 and _size(index.flow, of) and not _squared(index.flow, of)
            twice = known == 20 and re.search(r"(^|_)(power|energy|psd)", name_of(stripped(index.flow, of)), re.I)
            if not halves and not twice:
                continue
            message = (
                f"takes {known:g} times the logarithm of {'an amplitude' if halves else 'a power'} "
                f"(`{ast.unparse(node)}`): those are {'half' if halves else 'twice'} the decibels."
            )
            yield scope.tell(node, "loss", message, f"Take {'20' if halves else '10'} * log10(...) of it.")


@text_rule(366, "fft", "real")
def half_of_the_spectrum(scope: Scope) -> Iterator[Found]:
    """``power = torch.fft.rfft(wave).real ** 2``: the part in phase with a cosine alone."""
    source, index = scope.source, scope.index
    for name, value, node in index.given:
        inner, squared = value, False
        while True:
            if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Pow | ast.Div | ast.Mult):
                squared = squared or isinstance(inner.op, ast.Pow)
                inner = inner.left
            elif isinstance(inner, ast.Call) and called(inner) in ("abs", "pow", "square", "sqrt") and operands(inner):
                squared = True
                inner = operands(inner)[0]
            else:
                break
        spectrum = inner.value if isinstance(inner, ast.Attribute) and inner.attr == "real" else None
        if called(inner) == "real" and operands(inner):
            spectrum = operands(inner)[0]
        if spectrum is None or not (squared or SIZES.search(name)):
            continue
        if mentions(r"\.imag\b|imag\(", source.text) or "ifft" in called(index.flow.inner(spectrum)):
            continue
        if not re.search(r"^(r?fft\d?|stft|fftn|rfftn)$", called(index.flow.inner(spectrum))):
            continue
        message = (
            f"drops the imaginary part of the spectrum for {name} (`{ast.unparse(value)}`): how large a "
            "frequency is "
            "then depends on where its wave begins, and a sine comes out as 0."
        )
        yield scope.tell(node, "data", message, "Take the absolute value: torch.fft.rfft(x).abs().")


@text_rule(367)
def degrees_for_radians(scope: Scope) -> Iterator[Found]:
    """``torch.sin(heading_deg)``: it takes radians."""
    trace, source, index = scope.trace, scope.source, scope.index
    for call in index.called("sin", "cos", "tan", "polar"):
        of = operands(call)[-1] if operands(call) else None
        if of is None:
            continue
        inner = index.flow.inner(of)
        text = " ".join(ast.unparse(n) for n in (of, inner))
        names = names_in(of) | {name_of(n) for n in ast.walk(of)}
        rows = [r for r in rows_at(trace, source, call) if r.op in ("sin", "cos", "tan") and r.refs]
        plain = isinstance(of, ast.Name | ast.Attribute | ast.Subscript) and any(_whole_circle(r.refs[0]) for r in rows)
        if plain and not any(DEGREES.search(n) for n in names):
            names |= {name_of(n) for n in ast.walk(inner)} | {str(getattr(n, "value", "")) for n in ast.walk(inner)}
            name = next((n for n in names if ROUND.search(n)), "")
        else:
            name = next((n for n in names if DEGREES.search(n) and not RADIANS.search(text)), "")
        if not name:
            continue
        name = name if plain is False or name in text else ast.unparse(of)
        message = (
            f"gives {called(call)} degrees (`{ast.unparse(call)}`): it takes radians, so {name} goes round "
            "the circle "
            "57 times as fast as it should."
        )
        yield scope.tell(call, "data", message, f"Bring it to radians: torch.deg2rad({name}).", rows=rows[:1])


def _variable(node: ast.expr) -> str:
    """The name of a variable, or of what is taken out of it."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return name_of(node)


def _whole_circle(ref: Ref) -> bool:
    """Whether values are degrees all round, by the least and the largest of them."""
    low, high = _span(ref)
    if low is None or high is None:
        return False
    return (-5 <= low <= 20 and 340 <= high <= 361) or (-181 <= low <= -165 and 165 <= high <= 181)


def _span(ref: Ref) -> tuple[float, float] | tuple[None, None]:
    """The least and the largest of the values of a tensor, where they are known."""
    while (
        isinstance(ref, Row) and ref.stats is None and ref.refs and (ref.view or ref.op.lstrip("~") in ("cast", "to"))
    ):
        ref = ref.refs[0]
    if isinstance(ref, Row):
        known = ref.stats
        if known is None or known.min is None or known.max is None:
            return None, None
        return known.min, known.max
    return ref.span or (None, None)


@text_rule(368, "loss", trains=True)
def angles_on_a_line(scope: Scope) -> Iterator[Found]:
    """``F.mse_loss(pred_yaw, yaw)`` of angles all round: -179 and 179 degrees are 358 apart there."""
    trace, source, index = scope.trace, scope.source, scope.index
    for pair in index.pairs if mentions(ANGLES, source.text) else ():
        named = [ANGLE.search(_variable(side)) is not None for side in (pair.one, pair.other)]
        beside = [r for side in (pair.node, pair.other) for r in rows_at(trace, source, side)]
        refs = [ref for r in beside for ref in (*r.refs, r) if not ref.requires_grad]
        round_ = any(map(_whole_circle, refs))
        if not any(named) or not (all(named) or round_):
            continue
        if mentions(r"atan2|wrap|remainder|fmod|% *\(?(2|360)", source.text):
            continue
        if not round_ and mentions(r"cos\(", source.text):
            continue
        roots = ancestors([ref for r in rows_at(trace, source, pair.node) for ref in r.refs])
        spans = [
            leaf.span for leaf in roots if isinstance(leaf, Leaf) and leaf.span is not None and len(leaf.shape) < 3
        ]
        stats = [r.stats for r in roots if not isinstance(r, Leaf) and r.stats is not None and not r.requires_grad]
        wide = [b - a for a, b in spans] + [s.max - s.min for s in stats if s.max is not None and s.min is not None]
        if not round_ and not any(WHOLE_TURN < w < 400 for w in wide):
            continue
        message = (
            f"compares angles as numbers on a line (`{ast.unparse(pair.node)}`), and they go all the way "
            "round: just "
            "left and just right of the seam is the largest error there is, and between them lies the opposite."
        )
        remedy = "Compare their sines and cosines, or wrap the difference: torch.atan2(d.sin(), d.cos())."
        yield scope.tell(pair.node, "loss", message, remedy, "note")
