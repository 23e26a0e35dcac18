"""Densities through invertible layers, and tokens that are drawn: a log-determinant with the other sign or of the whole
batch, a temperature that sharpens, candidates that are not left out, probabilities over the batch, a Gumbel turned."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found
from ..order import rule, text_rule
from ..reading.calls import mentions, name_of, operands, option, rows_at
from ..reading.expressions import Term, losses
from ..reading.scope import Index, Scope, flow_around, indices, spread, stripped, taken_out, told
from ..reading.sources import Function, Source, called

LOGDET = re.compile(r"log_?(abs_?)?det|ldj|(^|_)logabsdet|^ld$|log_j", re.I)
TEMPERATURE = re.compile(r"^(self\.)?(temperature|temp|tau|t|T)$")
DRAWS = {"multinomial", "Categorical", "choice"}
SOFT = {"softmax", "log_softmax"}


def _returned(index: Index) -> ast.expr | None:
    """The log-determinant that a layer returns behind its output."""
    scope = index.flow.scope
    if not isinstance(scope, Function) or re.search(r"inver|reverse|sample|backward", scope.name):
        return None
    for node in index.kinds.get(ast.Return, ()):
        if isinstance(node.value, ast.Tuple) and len(node.value.elts) == 2:
            return node.value.elts[1]
    return None


def _direction(index: Index, name: str) -> int:
    """1 where a layer multiplies with the exponential of a variable, -1 where it divides by it; 0 where neither."""
    for node in index.products + index.binary.get(ast.Div, []):
        for side in (node.left, node.right):
            inner = index.flow.inner(side)
            if called(inner) != "exp" or not operands(inner):
                continue
            of = operands(inner)[0]
            minus = isinstance(of, ast.UnaryOp)
            if ast.unparse(of.operand if isinstance(of, ast.UnaryOp) else of) != name:
                continue
            divides = isinstance(node.op, ast.Div) and side is node.right
            return -1 if minus != divides else 1
    return 0


def _layers(trace: Trace) -> list[tuple[Source, Index, ast.expr, int, str]]:
    """Each layer's log-determinant, its sign against the true one, and the variable it is the sum of."""
    found = []
    for source, index in indices(trace, "exp"):
        given = _returned(index) if index.called("exp") else None
        if given is None:
            continue
        terms = list(index.flow.terms(given, whole=re.compile(r"^(log_?)?s(cale)?(_\d)?$")))
        if len(terms) != 1:
            continue
        of = terms[0].node
        while isinstance(value := index.flow.value(of), ast.Name):
            of = value  # what a list of them holds
        name = ast.unparse(of)
        direction = _direction(index, name)
        if direction:
            found.append((source, index, given, terms[0].sign * direction, name))
    return found


def _second(source: Source, node: ast.expr) -> bool:
    """Whether a variable is the second of what a layer gives, which has given the first to the next one."""
    if not isinstance(node, ast.Name):
        return False
    taken = taken_out(flow_around(source, node), node)
    place = taken.slice if taken is not None else None
    return isinstance(place, ast.Constant) and place.value == 1


@rule(401)
def volume_turned(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``y = x * s.exp()`` that returns ``-s.sum(1)``, and ``-(log_p + log_det)``: the volume is turned."""
    if not trace.steps.count:
        return []
    for source, index, given, sign, name in _layers(trace):
        value = index.flow.inner(given)
        for other, at in indices(trace, "backward"):
            for of, _ in losses(at.flow):
                terms = list(at.flow.terms(of, whole=LOGDET))
                dets = [t for t in terms if LOGDET.search(name_of(t.node)) or _second(other, t.node)]
                logs = [t for t in terms if called(t.node) == "log_prob" or re.search("log_?p", name_of(t.node))]
                if len(dets) != 1 or not any(t.sign < 0 for t in logs) or dets[0].sign * sign < 0:
                    continue
                right = sign > 0
                node: ast.AST = dets[0].node if right else value
                where = other if right else source
                message = (
                    f"gives the change of volume the other sign (`{ast.unparse(node)}`): the layer multiplies with "
                    f"exp({name}), so log |det| is plus the sum of {name}, and it belongs to log p(z) with a "
                    "plus: like "
                    "this the flow is paid for shrinking everything to a point."
                )
                remedy = f"Return {name}.sum(1), and take loss = -(log_prob + log_det).mean()."
                return told(where, node, "loss", message, remedy)
    return []


@rule(403)
def volume_of_the_batch(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``return z, log_s.sum()``, which is added to the log-probability of each sample."""
    for source, _, given, _, name in _layers(trace):
        call = given.operand if isinstance(given, ast.UnaryOp) else given
        if not isinstance(call, ast.Call) or called(call) != "sum" or len(operands(call)) > 1 or call.keywords:
            continue
        sums = [r for r in rows_at(trace, source, given) if r.op == "sum" and r.shape == () and r.refs]
        sums = [r for r in sums if len(r.refs[0].shape) > 1 and r.refs[0].shape[0] > 1]
        added = [
            r for r in trace.rows if r.op in ("add", "sub") and len(r.shape) == 1 and any(s in r.refs for s in sums)
        ]
        if not added or added[0].shape[0] != sums[0].refs[0].shape[0]:
            continue
        n = added[0].shape[0]
        message = (
            f"sums the logarithms of all samples (`{ast.unparse(given)}` is one number for {n}), and "
            f"line {added[0].line} adds that to each one's log-probability: the volume weighs {n} times as much as the "
            "density."
        )
        return told(
            source, given, "loss", message, f"Sum over the features of each sample: {name}.sum(1).", rows=sums[:1]
        )
    return []


@text_rule(404, "softmax")
def sharper_for_softer(scope: Scope) -> Iterator[Found]:
    """``F.softmax(logits * temperature, -1)`` with a temperature of 0.7: a low one is to sharpen."""
    source, index = scope.source, scope.index
    if "log_prob" in source.text and "Parameter" in source.text:
        return
    for call in index.called("softmax", "log_softmax", "cross_entropy", "Categorical"):
        for given in [*operands(call)[:1], *(k.value for k in call.keywords if k.arg == "logits")]:
            inner = index.flow.inner(given)
            if not isinstance(inner, ast.BinOp) or not isinstance(inner.op, ast.Mult):
                continue
            for factor in (inner.left, inner.right):
                if not TEMPERATURE.match(ast.unparse(factor)):
                    continue
                known = _number(source, index, factor)
                if known is None or not 0 < known < 1:
                    continue
                name = ast.unparse(factor)
                message = (
                    f"multiplies the logits with the temperature (`{ast.unparse(inner)}`, {name} is "
                    f"{known:g}): they "
                    "are divided by it, and so a temperature below 1, which is to make the choice sharper, "
                    "makes it "
                    "flatter."
                )
                yield scope.tell(inner, "loss", message, f"Divide by it: logits / {name}.")


def _number(source: Source, index: Index, node: ast.expr) -> float | None:
    """The number that a setting is: given in the function, by default, or where the class is made."""
    known = index.flow.number(node)
    name = name_of(node)
    functions = [n for n in source.nodes if isinstance(n, Function) and n.name == "__init__"]
    for scope in [index.flow.scope, *functions] if known is None else []:
        if not isinstance(scope, Function):
            continue
        args = scope.args.posonlyargs + scope.args.args
        pairs = [*zip(reversed(args), reversed(scope.args.defaults), strict=False)]
        pairs += [(a, d) for a, d in zip(scope.args.kwonlyargs, scope.args.kw_defaults, strict=True) if d is not None]
        for arg, default in pairs:
            if arg.arg == name and isinstance(default, ast.Constant) and isinstance(default.value, int | float):
                return float(default.value)
    return known


@text_rule(405, "softmax")
def candidates_kept(scope: Scope) -> Iterator[Found]:
    """``logits[logits < kth] = 0`` and a softmax: a logit of 0 is no small one."""
    index = scope.index
    soft = {ast.unparse(operands(c)[0]) for c in index.called("softmax", "Categorical", "log_softmax") if operands(c)}
    soft |= {ast.unparse(k.value) for c in index.called("Categorical") for k in c.keywords}
    for node in index.kinds.get(ast.Assign, ()):
        target = node.targets[0]
        if not isinstance(target, ast.Subscript) or ast.unparse(node.value) not in ("0", "0.0"):
            continue
        name, where = ast.unparse(target.value), index.flow.inner(target.slice)
        compares = isinstance(where, ast.Compare) and isinstance(where.ops[0], ast.Lt | ast.LtE)
        if not compares or not _ranked(index, where) or name not in soft:
            continue
        message = (
            f"sets the logits of what is to be left out to 0 (`{ast.unparse(node)}`): the softmax makes "
            "exp(0) = 1 of "
            f"each, which is more than of any below 0 that stays in."
        )
        yield scope.tell(node, "loss", message, f"Give them minus infinity: {ast.unparse(target)} = float('-inf').")
    for call in index.called("where", "masked_fill"):
        args = operands(call)
        cond, fill = (args[0], args[1]) if called(call) == "where" and len(args) == 3 else (
            (args[1], args[2]) if called(call) == "masked_fill" and len(args) == 3 else (None, None))  # fmt: skip
        if cond is None or fill is None or not _nothing(index.flow.inner(fill)):
            continue
        where = index.flow.inner(cond)
        less = isinstance(where, ast.Compare) and isinstance(where.ops[0], ast.Lt | ast.LtE)
        if not less or not _ranked(index, where):
            continue
        message = (
            f"sets the logits of what is to be left out to 0 (`{ast.unparse(call)}`): the softmax makes "
            "exp(0) = 1 of "
            "each, which is more than of any below 0 that stays in."
        )
        yield scope.tell(call, "loss", message, "Give them minus infinity: float('-inf').")


def _ranked(index: Index, node: ast.expr) -> bool:
    """Whether an expression has to do with the largest values of something."""
    return any(
        called(n) in ("topk", "sort", "kthvalue")
        for one in spread(index.flow, node, 60)
        for n in ([one] if not isinstance(one, ast.Name) else [one, *ast.walk(stripped(index.flow, one))])
    )


def _nothing(node: ast.expr) -> bool:
    """Whether an expression is 0."""
    return ast.unparse(node) in ("0", "0.0") or called(node) in ("zeros_like", "zeros")


@text_rule(406, "softmax")
def chances_over_the_batch(scope: Scope) -> Iterator[Found]:
    """``torch.softmax(logits, dim=0)`` of (N, V), of which each row is drawn from: the samples share one sum."""
    trace, source, index = scope.trace, scope.source, scope.index
    for call in index.called("softmax", "log_softmax"):
        along = option(call, "dim", 1)
        if along is None or ast.unparse(along) != "0":
            continue
        rows = [r for r in rows_at(trace, source, call) if r.op in SOFT and len(r.shape) == 2 and min(r.shape) > 1]
        users = [c for c in index.called("multinomial", "argmax", "Categorical") if any(
            n is call for o in [*c.args, *[k.value for k in c.keywords], *operands(c)[:1]]
            for n in spread(index.flow, o, 40))]  # fmt: skip
        by_row = [u for u in users if called(u) in ("multinomial", "Categorical")
                  or ast.unparse(option(u, "dim", 1) or u) in ("1", "-1")]  # fmt: skip
        if not rows or not by_row:
            continue
        n, v = rows[0].shape
        message = (
            f"takes a softmax over dimension 0 (`{ast.unparse(call)}` of {n}×{v}), and "
            f"`{ast.unparse(by_row[0])}` reads each row as one sample's: the {n} samples share a sum of 1 in every "
            f"column, and the {v} values of one do not."
        )
        yield scope.tell(call, "layout", message, "Take it over the last dimension: dim=-1.", rows=rows[:1])


@text_rule(407, "log", "rand")
def gumbel_turned(scope: Scope) -> Iterator[Found]:
    """``torch.log(-torch.log(u))``: minus a Gumbel variable."""
    index = scope.index
    for user in scope.calls("softmax", "log_softmax", "argmax", "gumbel_softmax"):
        given = operands(user)[0] if operands(user) else None
        while isinstance(given, ast.BinOp) and isinstance(given.op, ast.Div):
            given = index.flow.inner(given.left)  # by a temperature
        for term in index.flow.terms(index.flow.inner(given)) if given is not None else ():
            while isinstance(term.node, ast.BinOp) and isinstance(term.node.op, ast.Div):
                inner = index.flow.inner(term.node.left)
                term = next((t for t in index.flow.terms(inner) if _turned(index, t.node)), Term(term.sign, inner))
            if term.sign > 0 and _turned(index, term.node):
                yield _gumbel(scope, term.node)
    for call in scope.calls("log"):
        above = scope.source.parents.get(call)
        function = index.flow.scope
        named = (isinstance(function, Function) and "gumbel" in function.name.lower()) or any(
            "gumbel" in p.name.lower() for p in index.given if p.value is call
        )
        if _turned(index, call) and (_added(scope, call) or (named and not isinstance(above, ast.UnaryOp))):
            yield _gumbel(scope, call)


def _added(scope: Scope, call: ast.expr) -> bool:
    """Whether a function returns a value that is added wherever the function is called, in a program that chooses."""
    source, function = scope.source, scope.flow.scope
    ends = [scope.flow.inner(n.value) for n in scope.index.kinds.get(ast.Return, ()) if n.value is not None]
    if not isinstance(function, Function) or ends != [call] or not mentions(r"softmax|argmax", source.text):
        return False
    uses = [source.parents.get(c) for c in source.calls.get(function.name, ())]
    return bool(uses) and all(isinstance(u, ast.BinOp) and isinstance(u.op, ast.Add) for u in uses)


def _gumbel(scope: Scope, call: ast.expr) -> Found:
    message = (
        f"leaves out the outer minus (`{ast.unparse(call)}`): a Gumbel variable is -log(-log(u)), and its "
        "negative prefers small logits' tail, so the drawn classes have not the probabilities of the softmax."
    )
    return scope.tell(call, "loss", message, f"Put a minus before it: -{ast.unparse(call)}.")


def _turned(index: Index, call: ast.expr) -> bool:
    """Whether it is ``log(-log(u))`` of uniform numbers."""
    of = index.flow.inner(operands(call)[0]) if called(call) == "log" and operands(call) else None
    while isinstance(of, ast.BinOp) and isinstance(of.op, ast.Add):
        of = of.left
    of = index.flow.operator(of) if of is not None else None
    if not isinstance(of, ast.UnaryOp) or not isinstance(of.op, ast.USub):
        return False
    if called(index.flow.inner(of.operand)) != "log":
        return False
    return any(called(n) in ("rand", "rand_like", "uniform_", "uniform") for n in spread(index.flow, call, 60))
