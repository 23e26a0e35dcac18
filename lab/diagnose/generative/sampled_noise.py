"""Diffusion, scores and Langevin steps: noise that is not the one added, levels that are a product of the wrong thing,
a walk in the wrong direction, a score with the other sign."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterator
from typing import TypeGuard

from ..finding import Found
from ..order import text_rule
from ..reading.calls import function_of, mentions, name_of, operands, rows_at, words_in
from ..reading.expressions import Flow
from ..reading.scope import Scope, spread, stripped
from ..reading.sources import Function, Source, called, names_in, own_nodes
from ..training.start_values import _range
from .latent_losses import UNIFORM, added
from .noise_schedules import DRAWN, LEVELS

FORWARD = re.compile(r"invert|inversion|encode|forward|add_noise|q_sample|noising", re.I)
MANY_STEPS = 10, 5000
LEFT = 0.25  # share of the variance that is clearly seen in the noisiest sample
SLOPE = re.compile(r"score|grad|energy|drift", re.I)


def _around(source: Source, node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a node stands in, up to its statement; and what the variable it is given to stands in."""
    for above in source.around(node):
        if isinstance(above, ast.Assign):
            names = {name_of(t) for t in above.targets}
            for use in source.nodes:
                if isinstance(use, ast.Name) and use.id in names and isinstance(use.ctx, ast.Load):
                    yield from itertools.takewhile(lambda n: not isinstance(n, ast.stmt), source.around(use))
        if isinstance(above, ast.stmt):
            return
        yield above


def _drawn(flow: Flow, node: ast.expr) -> ast.Call | None:
    """The call that draws normal noise, where an expression is that alone, or times a number."""
    inner = stripped(flow, node)
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult):
        for a in (inner.left, inner.right):
            of = stripped(flow, a)
            if called(of) in ("randn", "randn_like") and isinstance(of, ast.Call):
                return of
    return inner if called(inner) in ("randn", "randn_like") and isinstance(inner, ast.Call) else None


@text_rule(495, "randn", trains=True)
def noise_of_nobody(scope: Scope) -> Iterator[Found]:
    """``F.mse_loss(net(noisy), torch.randn_like(x))``: what is to be told is drawn anew, and nowhere added."""
    source, index = scope.source, scope.index
    for pair in index.pairs:
        for told_by, target in ((pair.one, pair.other), (pair.other, pair.one)):
            drawn = _drawn(index.flow, target)
            if drawn is None or called(stripped(index.flow, target)) not in DRAWN:
                continue
            if isinstance(target, ast.Name):
                reads = [n for n in index.flow.nodes if isinstance(n, ast.Name) and n.id == target.id
                         and isinstance(n.ctx, ast.Load) and n is not target]  # fmt: skip
                if reads:
                    continue
            calls = [n for n in spread(index.flow, told_by) if isinstance(n, ast.Call)]
            if drawn in calls:
                continue  # the prediction is of what it was added to, by a function that gives it back
            made: list[ast.AST] = [n for n in calls if called(n) in ("randn", "randn_like")]
            for own in (f for n in calls if (f := function_of(source, n)) is not None and f is not index.flow.scope):
                made += [n for n in own_nodes(own) if called(n) in ("randn", "randn_like")][:1]
            added = [n for n in made if any(isinstance(a, ast.BinOp) and isinstance(a.op, ast.Add)
                                            for a in _around(source, n))]  # fmt: skip
            if not added:
                continue
            made = added
            message = (
                f"compares the prediction with noise that is drawn for it (`{ast.unparse(pair.node)}`): what was "
                f"added to the data is another draw ({source.place(made[0]).words}), so nothing can tell it, "
                "and the "
                "model learns 0."
            )
            yield scope.tell(pair.node, "loss", message, "Draw it once, add that, and compare with the same.")


@text_rule(496, "range(")
def towards_the_noise(scope: Scope) -> Iterator[Found]:
    """``for t in range(T)`` in a sampler: it takes the noise off in the order in which it was put on."""
    index = scope.index
    function = index.flow.scope
    if isinstance(function, Function) and FORWARD.search(function.name):
        return
    for loop in index.kinds.get(ast.For, ()):
        head = loop.iter
        while called(head) in ("tqdm", "list", "enumerate") and isinstance(head, ast.Call) and head.args:
            head = head.args[0]
        if (
            called(head) not in ("range", "arange")
            or not isinstance(head, ast.Call)
            or not isinstance(loop.target, ast.Name)
        ):
            continue
        if len(head.args) == 3 or "-1" in ast.unparse(head).replace(" - 1", ""):
            continue
        t = loop.target.id
        inside = [n for s in loop.body for n in ast.walk(s)]
        levels = [n for n in inside if isinstance(n, ast.Subscript) and ast.unparse(n.slice) == t
                  and LEVELS.search(ast.unparse(n.value))]  # fmt: skip
        taken = [n for n in inside if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)
                 and re.search(r"model|net|eps|unet|denois|score", ast.unparse(n.value.func), re.I)]  # fmt: skip
        if not levels or not taken or any(called(n) == "backward" for n in inside):
            continue
        predicted = {name_of(x) for n in taken for x in n.targets}
        off = any(
            isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub) and predicted & names_in(n.right) for n in inside
        )
        if not off:
            continue
        message = (
            f"goes from the cleanest step to the noisiest (`{ast.unparse(loop.iter)}`), and takes off noise "
            "in each "
            f"(`{ast.unparse(levels[0])}`): a sample begins as noise alone, at the last level, and is to come down."
        )
        yield scope.tell(loop, "loss", message, f"Go backwards: for {t} in reversed({ast.unparse(head)}).")


def _summed_logarithms(flow: Flow, call: ast.Call) -> ast.expr | None:
    """Of ``x.log().cumsum(0).exp()`` the x."""
    of = flow.inner(operands(call)[0]) if operands(call) else call
    if called(of) != "cumsum" or not operands(of):
        return None
    of = flow.inner(operands(of)[0])
    return operands(of)[0] if called(of) == "log" and operands(of) else None


def _below_half(scope: Scope, call: ast.Call) -> bool:
    """Whether a product of ten factors and more has none above one half, and its root is taken: a level of noise."""
    rows = [r for r in rows_at(scope.trace, scope.source, call) if r.op in ("cumprod", "log") and r.refs]
    spans = [(_range(r.refs[0]), r) for r in rows]
    small = any(s is not None and 0 < s[0] < s[1] < 0.5 and r.shape[-1:] > (9,) for s, r in spans)
    return small and mentions(r"sqrt\(|\*\* ?0?\.5", scope.source.text)


@text_rule(497)
def product_of_betas(scope: Scope) -> Iterator[Found]:
    """``torch.cumprod(betas, 0)``: what is kept of the signal is the product of 1 - beta."""
    index = scope.index
    for call in index.called("cumprod"):
        of = stripped(index.flow, operands(call)[0]) if operands(call) else call
        given = operands(call)[0] if operands(call) else call
        if not re.match(r"^betas?(_t)?$", name_of(given), re.I) or (
            isinstance(of, ast.BinOp) and "1" in ast.unparse(of)[:4]
        ):
            continue
        message = (
            f"multiplies the betas (`{ast.unparse(call)}`), which are the shares of noise: after two steps "
            "nothing is "
            "left of the signal, and all levels are the same."
        )
        yield scope.tell(call, "loss", message, f"Multiply what is kept: torch.cumprod(1 - {ast.unparse(given)}, 0).")
    for call in index.called("cumprod", "exp"):
        rates = _summed_logarithms(index.flow, call) if called(call) == "exp" else next(iter(operands(call)), None)
        if rates is None or not _below_half(scope, call):
            continue
        message = (
            f"multiplies shares of noise (`{ast.unparse(call)}`; none of `{ast.unparse(rates)}` is above one half): "
            "after a few steps nothing is left of the signal, and all levels are the same."
        )
        remedy = f"Multiply what is kept: torch.cumprod(1 - {ast.unparse(rates)}, 0)."
        yield scope.tell(call, "loss", message, remedy)


def _back_by_variance(flow: Flow, asked: ast.Call, wanted: ast.expr) -> bool:
    """Whether a model is asked at a noisy place, and is to give the way there divided by a square: ``(noisy - x) /
    sigma ** 2``."""
    top = flow.inner(wanted.left) if isinstance(wanted, ast.BinOp) and isinstance(wanted.op, ast.Div) else None
    square = (
        isinstance(wanted, ast.BinOp) and isinstance(wanted.right, ast.BinOp) and isinstance(wanted.right.op, ast.Pow)
    )
    if not square or not isinstance(top, ast.BinOp) or not isinstance(top.op, ast.Sub):
        return False
    return ast.unparse(top.left) in map(ast.unparse, asked.args) and ast.unparse(top.right) != ast.unparse(top.left)


@text_rule(498)
def score_turned(scope: Scope) -> Iterator[Found]:
    """``score(x + noise)`` compared with ``noise / sigma ** 2``: a score points back to the data."""
    source, index = scope.source, scope.index
    for pair in index.pairs:
        for own, target in ((pair.one, pair.other), (pair.other, pair.one)):
            asked = stripped(index.flow, own)
            wanted = index.flow.inner(target)
            moved = isinstance(asked, ast.Call) and _back_by_variance(index.flow, asked, wanted)
            if not isinstance(asked, ast.Call) or not (moved or re.search("score", ast.unparse(asked.func), re.I)):
                continue
            terms = list(index.flow.terms(wanted))
            if len(terms) != 1 or terms[0].sign < 0:
                continue
            of = terms[0].node
            divided = isinstance(wanted, ast.BinOp) and isinstance(wanted.op, ast.Div)
            top = wanted.left if divided and isinstance(wanted, ast.BinOp) else of
            if not divided or (_drawn(index.flow, top) is None and not moved):
                continue
            upwards = mentions(r"\+ [^-\n]*score\w*\(", source.text)
            message = (
                f"learns the score with the other sign (`{ast.unparse(wanted)}` in "
                f"`{ast.unparse(pair.node)}`): the "
                "gradient of the log-density of x + noise is -noise / sigma ** 2, which points back to the "
                "data, and "
                "steps along this one lead away from it."
            )
            severity = "warning" if upwards else "note"
            yield scope.tell(target, "loss", message, f"Compare with -{ast.unparse(wanted)}.", severity)


@text_rule(499, "randn")
def quiet_walk(scope: Scope) -> Iterator[Found]:
    """``x + step * score(x) + step * torch.randn_like(x)``: the noise of a Langevin step goes with a root."""
    source, index = scope.source, scope.index
    for node in index.sums:
        if isinstance(source.parents.get(node), ast.BinOp):
            continue
        parts = [p for _, one in added(node) for p in [index.flow.inner(one)] if _is_product(p)]
        noisy = [(f, r) for p in parts for f, r in _sides(p) if called(index.flow.inner(r)) in ("randn", "randn_like")]
        if len(noisy) != 1:
            continue
        scale = ast.unparse(noisy[0][0])
        if not re.fullmatch(r"[\w.]+", scale) or re.search(
            r"sqrt|\*\* 0\.5|2", ast.unparse(index.flow.inner(noisy[0][0]))
        ):
            continue
        drift = [r for p in parts for f, r in _sides(p) if ast.unparse(f) == scale and r is not noisy[0][1]]
        if not any(SLOPE.search(w) for r in drift for w in names_in(r) | {name_of(n) for n in ast.walk(r)}):
            continue
        message = (
            f"adds {scale} times the noise beside {scale} times the slope (`{ast.unparse(node)}`): the noise of a "
            "Langevin step has the variance 2 * step, and with so little of it the walk runs into the nearest mode."
        )
        yield scope.tell(node, "loss", message, f"Take its root: (2 * {scale}) ** 0.5 * torch.randn_like(x).")


def _samples_backwards(scope: Scope) -> bool:
    """Whether a loop of the program goes down the steps from noise that is drawn for it."""
    backwards = [c for c in scope.source.calls.get("range", ()) if len(c.args) == 3 and "-1" in ast.unparse(c.args[2])]
    return "randn" in scope.source.calls and bool(backwards or "reversed" in scope.source.calls)


@text_rule(615, earlier=True)
def too_few_steps(scope: Scope) -> Iterator[Found]:
    """``torch.linspace(1e-4, 0.02, 100)``: the betas of a thousand steps, of which a tenth leaves the data visible."""
    for pair in scope.index.given:
        call = pair.value
        if (
            not re.match(r"^betas?(_t)?$", pair.name, re.I)
            or called(call) != "linspace"
            or not isinstance(call, ast.Call)
        ):
            continue
        numbers = [scope.flow.number(a) for a in call.args]
        numbers += [scope.flow.number(k.value) for k in call.keywords if k.arg == "steps"]
        if len(numbers) != 3 or any(n is None for n in numbers):
            continue
        low, high, many = (float(n) for n in numbers if n is not None)
        if not (0 < low < high < 1) or not MANY_STEPS[0] <= many <= MANY_STEPS[1]:
            continue
        steps = int(many)
        if "cumprod" not in scope.source.calls or not _samples_backwards(scope):
            continue
        left = math.prod(1 - low - (high - low) * k / (steps - 1) for k in range(steps))
        if left < LEFT:
            continue
        message = (
            f"spreads the noise of so many steps that {left:.0%} of the data's variance is left after all {steps} of "
            f"them (`{ast.unparse(call)}`): a sampler that begins with noise alone begins where the model has never "
            "been."
        )
        ends = f"{low * 1000 / steps:g}, {high * 1000 / steps:g}"
        remedy = f"Scale both ends to the number of steps: torch.linspace({ends}, T)."
        yield scope.tell(call, "loss", message, remedy, "note")


def _uniform(scope: Scope, node: ast.expr) -> ast.Call | None:
    """The call that draws numbers between 0 and 1, where an expression is that alone: also of an argument that is drawn
    where none is given."""
    of = stripped(scope.flow, node)
    drawn = [p.value for p in scope.index.given if isinstance(of, ast.Name) and p.name == of.id] or [of]
    for value in drawn:
        for one in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
            if isinstance(one, ast.Call) and called(one) == "default":
                one = next((a.body for a in one.args if isinstance(a, ast.Lambda)), one)
            if isinstance(one, ast.Call) and called(one) in UNIFORM:
                return one
    return None


def _is_root(flow: Flow, node: ast.expr) -> bool:
    """Whether a factor is a square root, by what it is or by its name."""
    for factor in flow.factors(node):
        of = stripped(flow, factor.node)
        power = isinstance(of, ast.BinOp) and isinstance(of.op, ast.Pow) and flow.number(of.right) == 0.5
        if power or called(of) == "sqrt" or any("sqrt" in word for word in words_in(factor.node)):
            return True
    return False


@text_rule(465, "rand")
def uniform_by_a_root(scope: Scope) -> Iterator[Found]:
    """``a.sqrt() * x + (1 - a).sqrt() * torch.rand_like(x)``: the root of a share is for noise of mean 0 and variance
    1."""
    for node in scope.index.products:
        for factor, noise in _sides(node):
            drawn = _uniform(scope, noise)
            if drawn is None or not _is_root(scope.flow, factor):
                continue
            sums = [a for a in (node, *_around(scope.source, node)) if isinstance(a, ast.BinOp) and a is not node]
            if not any(isinstance(a.op, ast.Add) and scope.flow.number(a.left) is None for a in sums):
                continue
            message = (
                f"draws uniform noise (`{ast.unparse(drawn)}`, from 0 to 1), and `{ast.unparse(node)}` "
                f"({scope.place(node).words}) weighs it by a root, as noise of mean 0 and variance 1 is: all of "
                "it lies on one side, and a sampler that begins with normal noise meets none like it."
            )
            normal = ast.unparse(drawn).replace("rand_like(", "randn_like(").replace("rand(", "randn(")
            yield scope.tell(drawn, "loss", message, f"Draw normal noise: {normal}.")


def _is_product(node: ast.expr) -> TypeGuard[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


def _sides(node: ast.BinOp) -> list[tuple[ast.expr, ast.expr]]:
    """The two sides of a product, either way round."""
    return [(node.left, node.right), (node.right, node.left)]
