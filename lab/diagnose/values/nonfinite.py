"""The first NaN or infinity: the op whose inputs were finite and whose output was not. Others only pass it on."""

from __future__ import annotations

import ast
import re

from widgets.figures import number
from widgets.record import Stats

from ...recorder.cell_trace import Bad, Leaf, Ref, Row, Trace
from ..finding import Found, capital, code_of, listed, where
from ..losses.losses import log_target
from ..order import rule
from ..reading.safe_forms import (
    VARIANCE,
    divided,
    exponential,
    in_floats,
    inside,
    logarithm,
    product_in_floats,
    root,
    variance,
)
from ..reading.sources import names_in
from ..speed.time_shares import around
from .hidden_samples import all_hidden
from .nonfinite_data import told, weights
from .nonfinite_effects import (
    FILLING,
    WRITING,
    Writers,
    behind,
    deliberate,
    ends,
    left_over,
    sources,
    unviewed,
    written,
)
from .origins import MASK, explained
from .unseen_losses import first_unseen

LOGARITHMS = {"log", "log2", "log10"}
EXPONENTIALS = {"exp": 88.7, "exp2": 128.0, "expm1": 88.7, "cosh": 89.4, "sinh": 89.4}  # overflow in float32
REMEDIES = {
    "log": "Keep the argument above 0 (x.clamp(min=1e-8)), or use log_softmax, logsumexp or cross_entropy on logits.",
    "exp": "Subtract the maximum first, or use softmax, logsumexp or sigmoid, which do.",
    "div": "Keep the divisor away from 0: add a small eps, or choose with where() before the division.",
    "sqrt": "Add a small eps inside the root: (x + 1e-12).sqrt().",
}
UNFILLED = {"new", "empty", "new_empty", "empty_like", "empty_strided"}  # what the memory held, and is written next
LINEAR = {"matmul", "linear", "mul", "add", "sub", "sum", "expand", "conv", "tanh", "relu", "sigmoid"}
PRODUCTS = {"mul", "matmul", "mm", "bmm", "mul_", "einsum", "mv"}
SUMS = {"sum", "mean", "select", "getitem", "index", "gather"}
COMPARING = {"squared_error", "mse_loss", "absolute_error", "l1_loss", "mean", "sum"}
SQUARES = {"pow", "square", "mul", "sum", "mean", "norm", "var", "matmul"}
NOT_FINITE = re.compile(r"\b(nan|inf|infinity|infinite)\b", re.IGNORECASE)
SPREADS = {"std", "var", "std_mean", "var_mean"}
SINGLE = "Leave out the last, smaller batch (drop_last=True in the loader), or divide by n (correction=0)."
INVERSES = {"acos": "-1 + 1e-6, 1 - 1e-6", "asin": "-1 + 1e-6, 1 - 1e-6", "atanh": "-1 + 1e-6, 1 - 1e-6",
            "acosh": "min=1 + 1e-6"}  # fmt: skip
"""What keeps the argument off the ends of where a function is defined, at which its slope is infinite."""
PRODUCT = "Add up logarithms instead of multiplying: p.log().sum()."
FACTORS = (
    "Work with logarithms throughout: add them up in place of multiplying, and take torch.logsumexp where "
    "probabilities are summed; or divide by the sum in each turn, and add up the logarithms of those sums."
)
POINT = "Keep its argument away from the point where it has no finite value: add a small eps."
GENERAL = "Lower the learning rate, clip the gradients, or bring the inputs to a smaller range."


@rule(330, proof="the values were seen")
def first_nonfinite(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """At most one finding: what comes after the first is its consequence."""
    marked = [(row.bad, row, False) for row in trace.rows if row.bad and row.op not in UNFILLED]
    marked += [(row.bad_backward, row, True) for row in trace.rows if row.bad_backward]
    readers = trace.consumers()
    writers = written(trace)
    if marked and not _trips(trace):
        harmed = ends(trace, readers)
        if not harmed and not any(g.nonfinite for g in trace.gradients.values()):
            return _left_over(trace, readers)
        way = behind(harmed, writers)
        marked = [m for m in marked if m[2] or m[1] in way] or marked
    masked: dict[Row, None] = {}
    for bad, row, back in sorted(marked, key=lambda m: m[0].when):
        if not back and not readers.get(row) and not row.requires_grad and ".grad" in code_of(trace, row):
            continue  # a look at a gradient, whose size has a finding of its own
        if not back and log_target(trace, row) is not None:
            return []  # the logarithm of a logarithm, which has a finding of its own
        if not back and _hides(row, bad, masked, writers):
            masked[row] = None  # told below if no NaN comes of it
            continue
        if back:
            if not any(g.nonfinite for g in trace.gradients.values()):
                continue  # a zero slope behind it, chosen with where(), keeps it from the parameters
            return [_backward(trace, row, bad)]
        if _absorbed(row, readers):
            continue
        if bad.nan and (masks := [source for source in sources(row, writers) if source in masked]):
            return [_nothing_left(trace, row, bad, masks, writers)]
        return [_forward(trace, row, bad) if bad.inputs_finite else _given(trace, row, bad)]
    left = [row for row in masked if row.bad is not None and not _absorbed(row, readers)]
    return [(_forward if row.bad.inputs_finite else _given)(trace, row, row.bad) for row in left[:1] if row.bad]


@rule(333)
def overflow_divides(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``x * torch.rsqrt(x.pow(2).mean(-1))`` in float16, whose squares overflow: 1 / inf is 0, and so is all of it."""
    readers = trace.consumers()
    for row in trace.rows:
        bad = row.bad
        if bad is None or row.dtype != "float16" or row.op not in SQUARES or bad.nan or not bad.inputs_finite:
            continue
        if deliberate(trace, row) or (end := _divides(row, readers)) is None:
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} overflows float16 (`{code_of(trace, row)}`: {_count(bad)}), and {where(trace, end.chain)[2]} "
            f"divides by that (`{code_of(trace, end)}`): the result is 0."
        )
        remedy = f"Compute it in float32: x.float() before {row.op}."
        return [Found("nan", "warning", line, col, message, remedy, [row])]
    return []


def _divides(row: Row, readers: dict[Ref, list[Row]], depth: int = 8) -> Row | None:
    """The op that makes 0 of infinities as a divisor."""
    for after in readers.get(row, ()) if depth else ():
        if after.bad is None and not after.view:
            if after.op in ("rsqrt", "reciprocal") or (after.op == "div" and after.refs[-1] is row):
                return after
        elif not (after.bad and after.bad.nan) and (end := _divides(after, readers, depth - 1)) is not None:
            return end
    return None


def _trips(trace: Trace) -> bool:
    """Whether an error that ended the cell speaks of values that are not finite."""
    return trace.error is not None and NOT_FINITE.search(trace.error.detail or trace.error.message) is not None


def _left_over(trace: Trace, readers: dict[Ref, list[Row]]) -> list[Found]:
    """NaN that came to no loss and no gradient, and stays in a result: a note, for the first."""
    rows = [row for row in trace.rows if left_over(trace, row, readers)]
    first = min(rows, key=lambda row: row.bad.when if row.bad else 0, default=None)
    if first is None or first.bad is None:
        return []
    found = _forward(trace, first, first.bad)
    found.severity = "note"
    return [found]


def _hides(row: Row, bad: Bad, masked: dict[Row, None], writers: Writers) -> bool:
    """Whether the infinities were put there to hide values, as an attention mask does, or come from such a row."""
    if bad.nan:
        return False
    if row.op in WRITING or (row.op == "add" and not bad.inputs_finite):
        return True
    return any(source in masked for source in sources(row, writers)) or (row.op in FILLING and bad.inputs_finite)


def _absorbed(row: Row, readers: dict[Ref, list[Row]], depth: int = 100) -> bool:
    """Whether infinities end harmlessly, as those of an attention mask do in the softmax that follows."""
    if row.bad is None and not row.view:
        return True
    after = [r for r in readers.get(row, ()) if not r.cut]
    return (
        not (row.bad and row.bad.nan)
        and bool(after)
        and depth > 0
        and all(_absorbed(r, readers, depth - 1) for r in after)
    )


def _what(bad: Bad) -> str:
    return "NaN" if bad.nan else "infinity"


def _count(bad: Bad) -> str:
    n = bad.nan or bad.inf
    kind = "NaN" if bad.nan else "infinite"
    run = f", in run {bad.run:,}" if bad.run > 1 else ""
    return f"{n:,} of {bad.total:,} {'value' if bad.total == 1 else 'values'} {'is' if n == 1 else 'are'} {kind}{run}"


def _range(s: Stats | None) -> str:
    if s is None or s.min is None or s.max is None:
        return ""
    return number(s.min) if s.min == s.max else f"{number(s.min)} to {number(s.max)}"


def _reason(trace: Trace, row: Row, bad: Bad) -> tuple[str, str]:
    """Why an op gives what is not finite, from the range of its inputs, and the remedy."""
    op = row.op
    if bad.inputs_finite and bad.nan and deliberate(trace, row):
        return "filled with NaN", "Leave such rows out, or fill them with a finite value: torch.nan_to_num(x)."
    if bad.inputs_finite and deliberate(trace, row):
        return "filled with infinities", "Fill with a large finite number (-1e9) where the value is used as such."
    figures = [s for _, s in bad.inputs if s is not None and s.min is not None and s.max is not None]
    first = figures[0] if figures else None
    if op in SPREADS and bad.nan and bad.inputs_finite:
        return f"the {op} of a single value in each place (a batch of one sample), which has none", SINGLE
    before = sources(row)
    if op in LOGARITHMS and first is not None and first.min == 0 and before and before[0].op in ("prod", "cumprod"):
        return f"the {op} of a product (`{code_of(trace, before[0])}`) that has underflowed to 0", PRODUCT
    if op in LOGARITHMS and first is not None and first.min == 0 and (name := _multiplied(trace, row)):
        return f"the {op} of what is left of `{name}`, a product of many factors that has underflowed to 0", FACTORS
    if op in LOGARITHMS and first is not None and first.min is not None and first.min <= 0:
        return f"the {op} of values down to {number(first.min)}", logarithm(trace, row) or REMEDIES["log"]
    if op == "log1p" and first is not None and first.min is not None and first.min <= -1:
        return f"the log1p of values down to {number(first.min)}", REMEDIES["log"]
    if op in ("sqrt", "rsqrt", "pow") and first is not None and (first.min or 0) < 0 and variance(code_of(trace, row)):
        return (
            f"the root of values down to {number(first.min or 0)}, all that rounding has left of a variance",
            VARIANCE,
        )
    if op in ("sqrt", "rsqrt") and first is not None and first.min is not None and first.min <= 0:
        return f"the {op} of values down to {number(first.min)}", _written("sqrt", root(code_of(trace, row)))
    if op in EXPONENTIALS and first is not None and first.max is not None:
        why = f"the {op} of values up to {number(first.max)}, which overflows"
        return why, exponential(trace, row, trace.consumers()) or REMEDIES["exp"]
    if op in ("div", "reciprocal", "remainder", "fmod", "floor_divide"):
        divisor = next((s for name, s in bad.inputs if s is not None and (name == "1" or op == "reciprocal")), None)
        if divisor is not None and divisor.zeros:
            return "a division by 0", _written("div", divided(code_of(trace, row), _counts(row)))
    if op in ("pow", "square") and first is not None and not bad.nan and not first.zeros:
        largest = max(first.min or 0.0, first.max or 0.0, key=abs)
        return f"a power of values as large as {number(abs(largest))}, which overflows", GENERAL
    if op == "pow" and first is not None and first.min is not None and first.min <= 0:
        return f"a power of values down to {number(first.min)}", "Keep the base above 0, or use an integer exponent."
    if op in ("asin", "acos", "atanh") and first is not None:
        return f"the {op} of values of {_range(first)}", _inside(op, code_of(trace, row))
    if op in ("mean", "sum") and first is not None and first.max is not None and bad.inputs_finite:
        largest = max(abs(first.max), abs(first.min or 0.0))
        wider = in_floats(code_of(trace, row)) or "x.float().sum()"
        wide = f"Sum in float32, whose range is wider: {wider}." if row.dtype == "float16" else GENERAL
        return f"the {op} of values up to {number(largest)}, whose sum overflows {row.dtype}", wide
    if bad.inputs_finite and any(0 in ref.shape for ref in row.refs):
        return f"a {op} of nothing", "Look at what selects the values: none is left here."
    if not figures:
        return f"what {op} computes", GENERAL
    ranges = listed([r for r in map(_range, figures) if r], 3)
    if bad.nan or not bad.inputs_finite:
        return f"the {op} of values of {ranges}", GENERAL
    finite = [s for s in figures if s.min is not None and s.max is not None]
    if row.dtype != "float16" and max(max(abs(s.min or 0), abs(s.max or 0)) for s in finite) < 100:
        return f"the {op} of values of {ranges}, which is infinite there", POINT
    half = "Use bfloat16 or float32 here, or scale the values down."
    if row.op in PRODUCTS and (new := product_in_floats(code_of(trace, row))):
        half = f"Multiply in float32: {new}; or scale the values down before."
    return f"the {op} of values of {ranges}, which overflows {row.dtype}", half if row.dtype == "float16" else GENERAL


def _multiplied(trace: Trace, row: Row) -> str:
    """The variable that a loop multiplies in each turn, of which an op reads the value, a part or a sum, or ""."""
    ref = row.refs[0] if row.refs else None
    while isinstance(ref, Row) and (ref.view or ref.op in SUMS) and ref.refs:
        ref = ref.refs[0]
    if not isinstance(ref, Row) or ref.op not in PRODUCTS or not ref.chain:
        return ""
    nodes = around(trace, ref.chain[0])
    if not any(isinstance(n, ast.For | ast.While) for n in nodes):
        return ""
    statement = next((n for n in nodes if isinstance(n, ast.Assign | ast.AugAssign)), None)
    if isinstance(statement, ast.AugAssign):
        return ast.unparse(statement.target) if isinstance(statement.op, ast.Mult | ast.MatMult) else ""
    names = {t.id for t in statement.targets if isinstance(t, ast.Name)} if statement is not None else set()
    return next(iter(names & names_in(statement.value)), "") if statement is not None else ""


def _inside(op: str, code: str) -> str:
    """The remedy for a function whose slope is infinite at the ends of where it is defined."""
    low, _, high = INVERSES[op].partition(", ")
    new = inside(code, low, high) if high else ""
    return (
        "Clamp the argument to a little inside its range, where the slope is finite: "
        f"{new or f'x.clamp({INVERSES[op]})'}."
    )


def _written(kind: str, new: str) -> str:
    """A remedy with the expression written anew, where there is one."""
    if not new:
        return REMEDIES[kind]
    return f"Add a small eps inside the root: {new}." if kind == "sqrt" else f"Keep the divisor away from 0: {new}."


def _counts(row: Row) -> bool:
    """Whether what an op divides by are counts: whole numbers, or the sum of a mask."""
    ref = row.refs[-1] if row.refs else None
    while isinstance(ref, Row) and ref.dtype.startswith("float") and ref.op in (*SUMS, "cast", "sum") and ref.refs:
        ref = ref.refs[0]
    return ref is not None and ref.dtype.startswith(("int", "bool", "uint"))


def _reached(trace: Trace) -> tuple[str, list[Leaf]]:
    """The parameters whose gradients are spoilt."""
    leaves = [leaf for leaf, g in trace.gradients.items() if g.nonfinite]
    return (
        f", and it spoils the {'gradient' if len(leaves) == 1 else 'gradients'} of {listed(leaves)}" if leaves else ""
    ), leaves


def _forward(trace: Trace, row: Row, bad: Bad) -> Found:
    line, col, place = where(trace, row.chain)
    why, remedy = _reason(trace, row, bad)
    if remedy is GENERAL and bad.run == 1 and row.op in COMPARING:  # before any step
        remedy = "Bring the data to a smaller range first: (y - y.mean()) / y.std()."
    spoilt, leaves = _reached(trace)
    message = capital(
        f"{place} makes the first {_what(bad)}: `{code_of(trace, row)}` is {why} ({_count(bad)}){spoilt}."
    )
    if (known := weights(trace, row)) is not None:
        name, cause = known
        why, remedy = explained(cause)
        line, col, made = cause.source.place(cause.node)
        message = capital(
            f"{made} makes weights of classes that are not finite: {why}, and {place} averages by {name} "
            f"(`{code_of(trace, row)}`): {_count(bad)}{spoilt}."
        )
    severity = "error" if leaves or any(r.bad and r.bad.nan for r in trace.rows) else "warning"
    return Found("nan", severity, line, col, message, remedy, [row], leaves)


def _nothing_left(trace: Trace, row: Row, bad: Bad, masks: list[Row], writers: Writers) -> Found:
    """NaN made of infinities that a mask put there: of a row, say, that it hides whole."""
    line, col, place = where(trace, row.chain)
    first = masks[0]
    while before := [
        r for r in sources(first, writers) if r.bad is not None and first.bad and r.bad.when < first.bad.when
    ]:
        first = before[0]
    filled = f"`{code_of(trace, first)}`" + ("" if first.chain == row.chain else f" on {where(trace, first.chain)[2]}")
    soft = row.op in ("softmax", "log_softmax")
    why = f"a {row.op} over nothing but the -inf that {filled} put there" if soft else (
        f"the {row.op} of infinities that {filled} put there")  # fmt: skip
    spoilt, leaves = _reached(trace)
    message = capital(f"{place} makes the first NaN: `{code_of(trace, row)}` is {why} ({_count(bad)}){spoilt}.")
    return Found("nan", "error", line, col, message, MASK, [first, row], leaves)


def _given(trace: Trace, row: Row, bad: Bad) -> Found:
    """The values were bad when they came: the data, or weights that an update spoilt."""
    line, col, place = where(trace, row.chain)
    refs = [unviewed(ref) for ref in row.refs]
    leaves = [ref for ref in refs if isinstance(ref, Leaf)]
    if len(refs) == len(bad.inputs):
        guilty = [ref for ref, (_, s) in zip(refs, bad.inputs, strict=True) if s is not None and s.nonfinite]
        leaves = [ref for ref in guilty if isinstance(ref, Leaf)] if guilty else leaves
    names = [leaf.name for leaf in leaves]
    trained = any(leaf.kind == "parameter" for leaf in leaves)
    spoilt, hit = _reached(trace)
    if trained and (unseen := first_unseen(trace, spoilt, hit)) is not None:
        return unseen
    if trained and (update := _by_hand(trace, bad)) is not None:
        return _forward(trace, update, update.bad or bad)
    who = f"an input ({listed(names)})" if len(names) > 1 else f"`{names[0]}`" if names else "an input"
    what = f"{who} of `{code_of(trace, row)}`"
    if row.op in WRITING:
        message = capital(f"{place} writes {_what(bad)} into `{code_of(trace, row)}` ({_count(bad)}){spoilt}.")
        remedy = "Leave such rows out, or fill them with a finite value: torch.nan_to_num(x)."
        return Found("nan", "error", line, col, message, remedy, [row], hit)
    message = capital(f"{place} reads values that are not finite before any op has run on them: {what}{spoilt}.")
    remedy = "Look at the data: x.isnan().any(), and what was divided or parsed to make it."
    if len(leaves) == 1 and not trained and (known := told(trace, leaves[0], code_of(trace, row))) is not None:
        words, why, remedy, made = known
        message = capital(f"{place} reads data that are not finite in `{code_of(trace, row)}`: {words}{spoilt}.")
        if made is not None:
            line, col = made.line, None
            message = capital(
                f"{made.words} makes data that are not finite: {why}, and {words} when {place} reads them{spoilt}."
            )
    if trained:
        remedy = "Make the model anew: an earlier step has spoilt its weights (a lower learning rate, clip_grad_norm_)."
    return Found("nan", "error", line, col, message, remedy, [row], hit)


def _by_hand(trace: Trace, bad: Bad) -> Row | None:
    """The op without a graph that made the first value that is not finite, of finite ones, before weights held any: a
    part of an update that is written by hand."""
    made = [r for r in trace.rows if r.bad is not None and r.bad.inputs_finite and r.bad.when < bad.when]
    made = [r for r in made if not r.requires_grad and r.op not in UNFILLED and not deliberate(trace, r)]
    return min(made, key=lambda r: r.bad.when if r.bad else 0, default=None)


def _backward(trace: Trace, row: Row, bad: Bad) -> Found:
    line, col, place = where(trace, row.chain)
    kept: dict[str, list[str]] = {}
    for name, s in bad.inputs:
        if _range(s):
            kept.setdefault(name, []).append(_range(s))
    held = [f"its {name}{'s are' if len(r) > 1 else ' is'} {' and '.join(r)}" for name, r in kept.items()]
    at = f", where {listed(held, 3)}" if held else ""
    spoilt, leaves = _reached(trace)
    if (hidden := all_hidden(trace, row, spoilt, leaves)) is not None:
        return hidden
    message = capital(
        f"{place} makes the first {_what(bad)} in backward: the gradient of `{row.op}` in `{code_of(trace, row)}` "
        f"({_count(bad)}){at}, though all forward values are finite{spoilt}."
    )
    if row.op in INVERSES:
        return Found("nan", "error", line, col, message, _inside(row.op, code_of(trace, row)), [row], leaves)
    like = {"log": "log", "sqrt": "sqrt", "rsqrt": "sqrt", "div": "div", "norm": "sqrt", "pow": "sqrt"}
    general = "Keep its argument away from the point where the slope is infinite: add a small eps."
    if row.op in LINEAR:  # no slope of theirs is infinite
        general = (
            "The gradient grew on its way until it overflowed: start with smaller weights, or go back fewer steps."
        )
    kind, code = like.get(row.op, ""), code_of(trace, row)
    new = root(code) if kind == "sqrt" else divided(code, _counts(row)) if kind == "div" else ""
    remedy = (logarithm(trace, row) if kind == "log" else "") or REMEDIES.get(kind, general)
    if new:
        remedy = _written(kind, new)
    return Found("nan", "error", line, col, message, remedy, [row], leaves)
