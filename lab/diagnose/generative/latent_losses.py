"""Variational autoencoders: a spread that is a variance, noise that is not normal, a divergence with the other sign,
and codes through which no gradient passes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.expressions import Flow, losses
from ..reading.recorded import entering
from ..reading.scope import Scope, flow_around
from ..reading.sources import Function, called, names_in

LOG_VARIANCE = re.compile(
    r"^(z_|q_|self\.)?(log_?var(iance)?|lv|log_?sigma_?(2|sq|squared)|logvars?)(_\w+)?$|_log_?var$", re.I
)
UNIFORM = {"rand_like", "rand"}
SPREAD = re.compile(r"(^|_)(std|sd|sigma|scale|stddev|dev|deviation)(_|$)|log_?v(ar)?(_|$)|log_?var", re.I)
LOSSES = {"mse_loss", "smooth_l1_loss", "l1_loss"}
DRAWS = {"randn_like", "randn", "normal", "normal_", "standard_normal"}


@text_rule(413)
def variance_as_spread(scope: Scope) -> Iterator[Found]:
    """``mu + torch.exp(logvar) * eps``: the exponential of a log-variance is a variance, and no standard deviation."""
    flow = scope.flow
    for spread in (flow.inner(given) for node in flow.nodes for given in _spreads(flow, node)):
        of = _exponential(spread)
        if of is None:
            continue
        name = ast.unparse(of)
        message = (
            f"takes a variance for a standard deviation: `{ast.unparse(spread)}` is the variance if "
            f"{name} is its logarithm, and what is drawn is multiplied with it: at a variance of 4 the samples "
            "spread four times as wide as at 1, and not twice."
        )
        remedy = f"Take half of it: torch.exp(0.5 * {name})."
        yield scope.tell(spread, "loss", message, remedy)


def _spreads(flow: Flow, node: ast.AST) -> list[ast.expr]:
    """By what a node multiplies noise, or what it gives a normal distribution as its standard deviation."""
    if called(node) == "addcmul" and isinstance(node, ast.Call):
        node = getattr(flow.operator(node), "right", node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = [node.left, node.right]
    elif isinstance(node, ast.Call) and called(node) in ("mul", "mul_") and len(node.args) == 1:
        sides = [getattr(node.func, "value", node.func), node.args[0]]
    elif isinstance(node, ast.Call) and called(node) in ("Normal", "normal") and len(node.args) == 2:
        return [node.args[1]]
    else:
        return []
    drawn = [called(flow.inner(side)) in DRAWS for side in sides]
    return [side for side, own in zip(sides, drawn, strict=True) if not own] if any(drawn) else []


def _exponential(node: ast.AST) -> ast.expr | None:
    """The variable whose exponential an expression is, where its name says that it is a logarithm of a variance."""
    if not isinstance(node, ast.Call) or called(node) != "exp":
        return None
    of = node.args[0] if node.args else getattr(node.func, "value", None)
    return of if isinstance(of, ast.Name | ast.Attribute) and LOG_VARIANCE.search(ast.unparse(of)) else None


@text_rule(415, trains=True)
def divergence_subtracted(scope: Scope) -> Iterator[Found]:
    """``loss = recon + 0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum()``: minus the divergence, which then grows."""
    flow, function = scope.flow, scope.flow.scope
    roots = [of for of, _ in losses(flow)]
    if isinstance(function, Function) and re.search("loss|criterion", function.name, re.I):
        roots += [n.value for n in flow.nodes if isinstance(n, ast.Return) and n.value is not None]
    for root in roots:
        parts = root.elts[:1] if isinstance(root, ast.Tuple) else [root]
        terms = [term for part in parts for term in flow.terms(part, whole=LOG_VARIANCE)]
        logs = [
            t
            for t in terms
            if isinstance(t.node, ast.Name | ast.Attribute) and LOG_VARIANCE.search(ast.unparse(t.node))
        ]
        grown = [t for t in terms if _exponential(t.node) is not None]
        if len(logs) != 1 or len(grown) != 1 or logs[0].sign != 1 or grown[0].sign != -1:
            continue
        if ast.unparse(_exponential(grown[0].node) or grown[0].node) != ast.unparse(logs[0].node):
            continue
        others = [t for t in terms if not names_in(t.node) & names_in(logs[0].node) and names_in(t.node)]
        if len(others) < 2:  # the squared mean, and what is reconstructed
            continue
        shown = entering(scope.trace, scope.source, grown[0].node, -1)
        if shown is None:
            continue
        message = (
            f"gives the divergence to the loss with the other sign: {ast.unparse(logs[0].node)} enters "
            f"the loss with a plus and its exponential with a minus, which is minus the divergence, so each "
            "step makes the divergence larger."
        )
        remedy = "Put a minus before it: -0.5 * torch.sum(1 + logvar - mu ** 2 - logvar.exp())."
        yield scope.tell(grown[0].node, "loss", message, remedy, rows=shown)


@text_rule(432)
def uniform_noise(scope: Scope) -> Iterator[Found]:
    """``mu + std * torch.rand_like(std)``: noise between 0 and 1, whose mean is 0.5, where a normal one is meant."""
    source, flow = scope.source, scope.flow
    for node in flow.nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        sides = [flow.inner(node.left), flow.inner(node.right)]
        drawn = next((side for side in sides if called(side) in UNIFORM), None)
        other = node.right if drawn is sides[0] else node.left
        if drawn is None or not any(map(SPREAD.search, _words(flow, other))):
            continue
        message = (
            f"draws uniform noise (`{ast.unparse(drawn)}`, from 0 to 1), and `{ast.unparse(node)}` "
            f"({source.place(node).words}) spreads it as if it were normal: its mean is 0.5 and no value is "
            "below 0, so all that is drawn lies on one side of the mean."
        )
        normal = ast.unparse(drawn).replace("rand_like", "randn_like").replace("rand(", "randn(")
        yield scope.tell(drawn, "loss", message, f"Draw normal noise: {normal}.")


def _words(flow: Flow, node: ast.expr) -> set[str]:
    """The names in an expression, and in what it was given where it is a variable."""
    parts = [n for inner in (node, flow.inner(node)) for n in ast.walk(inner)]
    return {name for n in parts if (name := getattr(n, "id", getattr(n, "attr", "")))}


@text_rule(433, trains=True)
def codes_without_gradient(scope: Scope) -> Iterator[Found]:
    """``q = codebook(distances.argmin(1))`` and ``decoder(q)``: what the decoder learns does not reach the encoder."""
    source, flow = scope.source, scope.flow
    if any(_straight_through(n) for n in source.nodes):
        return
    for node in flow.nodes:
        code = next((a for a in node.args if _looked_up(flow, a)), None) if isinstance(node, ast.Call) else None
        if code is None or not isinstance(code, ast.Name) or called(node) in LOSSES | {"len", "print"}:
            continue
        first: ast.Name = code  # where it was looked up, in a function of its own or in this one
        while isinstance(value := flow.value(first), ast.Name):
            first = value
        beside = [*flow.nodes, *flow_around(source, first).nodes]
        committed = [n for n in beside if called(n) in LOSSES and "detach" in ast.unparse(n)
                     and names_in(n) & {code.id, first.id}]  # fmt: skip
        if not committed:
            continue
        message = (
            f"reads the code that was looked up (`{ast.unparse(node)}`; "
            f"{source.place(flow.inner(code)).words} chooses it by an argmin): no gradient passes through a "
            "choice, so what is learnt behind it does not reach the encoder, which follows "
            f"`{ast.unparse(committed[0])}` alone."
        )
        remedy = f"Pass it straight through: {code.id} = z + ({code.id} - z).detach(), z of the encoder."
        yield scope.tell(node, "no-gradient", message, remedy)


def _straight_through(node: ast.AST) -> bool:
    """Whether a node is ``(q - z).detach()``, or the like."""
    of = getattr(node.func, "value", None) if isinstance(node, ast.Call) and called(node) == "detach" else None
    return isinstance(of, ast.BinOp) and isinstance(of.op, ast.Sub)


def _looked_up(flow: Flow, node: ast.expr) -> bool:
    """Whether a value was looked up in a table by the result of an argmin."""
    inner = flow.inner(node)
    if isinstance(inner, ast.Subscript):
        return called(flow.inner(inner.slice)) == "argmin"
    return isinstance(inner, ast.Call) and any(called(flow.inner(a)) == "argmin" for a in inner.args[:1])


@text_rule(448, trains=True)
def another_spread(scope: Scope) -> Iterator[Found]:
    """``1 + 2 * log_std - mu ** 2 - log_std.exp()``: the divergence has the exponential of the very term beside it."""
    for node in scope.nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub | ast.Add):
            continue
        terms = list(added(node))
        one = any(getattr(t, "value", None) in (1, 1.0) for _, t in terms)
        grown = [(t, of) for _, t in terms if (of := _times_in_exponent(t)) is not None]
        if not one or len(grown) != 1 or len(terms) < 4:
            continue
        exponential, (name, within) = grown[0]
        beside = [_times(t, name) for _, t in terms if t is not exponential]
        plain = [n for n in beside if n]
        if len(plain) != 1 or abs(plain[0] - within) < 1e-9:
            continue
        message = (
            f"has the exponential of {within:g} times {name} (`{ast.unparse(exponential)}`) beside "
            f"{plain[0]:g} times {name} (`{ast.unparse(node)}`): the divergence of two normal distributions "
            "has the logarithm of the variance and the variance itself: this is least at another spread than 1."
        )
        remedy = f"Take torch.exp({plain[0]:g} * {name})." if plain[0] != 1 else f"Take torch.exp({name})."
        yield scope.tell(exponential, "loss", message, remedy)


def added(node: ast.expr, sign: int = 1) -> Iterator[tuple[int, ast.expr]]:
    """Yield the terms of a sum as it is written, each with its sign."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from added(node.left, sign)
        yield from added(node.right, sign if isinstance(node.op, ast.Add) else -sign)
    else:
        yield sign, node


def _times(node: ast.expr, name: str) -> float:
    """Return how many times a variable a term is; 0 where it is anything else."""
    if ast.unparse(node) == name:
        return 1.0
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for number, of in ((node.left, node.right), (node.right, node.left)):
            if isinstance(number, ast.Constant) and isinstance(number.value, int | float) and ast.unparse(of) == name:
                return float(number.value)
    return 0.0


def _times_in_exponent(node: ast.expr) -> tuple[str, float] | None:
    """Return the variable that a term is the exponential of, and how many times.

    >>> of = lambda code: _times_in_exponent(ast.parse(code, mode="eval").body)
    >>> of("x.exp() ** 2"), of("(2 * x).exp()"), of("mu.pow(self.two)")
    (('x', 2.0), ('x', 2.0), None)
    """
    power = 1.0
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant):
        power = float(node.right.value)  # type: ignore[arg-type]
        node = node.left
    elif called(node) in ("pow", "square") and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        given = getattr(node.args[0], "value", None) if node.args else None
        power = 2.0 if called(node) == "square" else float(given) if isinstance(given, int | float) else 1.0
        node = node.func.value
    if called(node) != "exp" or not isinstance(node, ast.Call):
        return None
    of = node.args[0] if node.args else getattr(node.func, "value", None)
    if of is None:
        return None
    names = [n for n in ast.walk(of) if isinstance(n, ast.Name | ast.Attribute)]
    name = ast.unparse(names[0]) if names else ""
    times = _times(of, name)
    return (name, times * power) if times else None


@text_rule(612, "exp", trains=True, earlier=True)
def log_variance_squared(scope: Scope) -> Iterator[Found]:
    """``mu ** 2 + logvar ** 2 - log(logvar ** 2) - 1``: what is the logarithm elsewhere is the spread here."""
    for node in scope.nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub | ast.Add):
            continue
        if isinstance(scope.source.parents.get(node), ast.BinOp):
            continue
        terms = list(added(node))
        squares = [(t, of) for _, t in terms if (of := _squared(t)) is not None]
        wrong = next(((t, of) for t, of in squares if LOG_VARIANCE.search(of)), None)
        one = any(getattr(t, "value", None) in (1, 1.0) for _, t in terms)
        if wrong is None or not one or len(squares) < 2 or len(terms) < 4:
            continue
        term, name = wrong
        last = re.escape(name.rpartition(".")[2])
        texts = [ast.unparse(n) for n in ast.walk(scope.source.program) if called(n) == "exp"]
        if not any(re.search(rf"\b{last}\b", text) for text in texts):
            continue
        message = (
            f"has the square of {name} (`{ast.unparse(term)}` in `{ast.unparse(node)}`), which is the logarithm of the "
            "variance where the code is drawn: this is no divergence, and is least at another spread than 1."
        )
        yield scope.tell(term, "loss", message, f"Take the variance: torch.exp({name}), and {name} for its logarithm.")


def _squared(node: ast.expr) -> str | None:
    """The variable of which a term is the square."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and getattr(node.right, "value", None) == 2:
        return ast.unparse(node.left)
    if isinstance(node, ast.Call) and called(node) in ("pow", "square") and isinstance(node.func, ast.Attribute):
        of = node.args[0] if ast.unparse(node.func.value) in ("torch", "core") else node.func.value
        power = 2 if called(node) == "square" else getattr(node.args[-1], "value", None) if node.args else None
        return ast.unparse(of) if power == 2 else None
    return None
