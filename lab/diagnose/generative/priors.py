"""Posteriors and their priors: divergences and log-probabilities that are turned, spreads and variances that are mixed
up, log-variances that are never negative, dropout that sleeps."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from core.base import syntax

from ...recorder.cell_trace import Row, Trace
from ..finding import Found
from ..order import text_rule
from ..reading.calls import mentions, name_of, operands, option, rows_under
from ..reading.expressions import Flow
from ..reading.scope import Index, Scope, flow_around, goals, indices, spread, stripped
from ..reading.sources import Source, called, key, names_in, sources
from .latent_losses import LOG_VARIANCE

POSTERIOR = re.compile(r"log_?(var_?)?(post(erior)?|variational(_\w+)?|q(_\w+)?|qw|qz)$|^log_?q", re.I)
PRIOR = re.compile(r"log_?(prior|p_?(w|z|theta|prior)?)s?$", re.I)
WHOLE = re.compile(f"({POSTERIOR.pattern})|({PRIOR.pattern})", re.I)
COMPLEXITY = re.compile(r"log_?(var_?)?(post|variational|q)", re.I)
SPREAD = re.compile(r"(^|_)(std|sd|sigma|scale|stddev)s?(_|\d|$)", re.I)
GROWN = re.compile(
    r"exp\((-?0\.5 \* |0\.5\*|-)?(self\.)?\w*log_?var|log_?var\w*(\.mul\(0?\.5\))?\.exp\(|log_?var \* 0?\.5"
)
RANDOM = {"dropout", "randn", "rand", "bernoulli", "normal", "randn_like", "rand_like", "multinomial", "uniform",
          "alpha_dropout", "feature_dropout", "dropout1d", "dropout2d", "bernoulli_", "normal_"}  # fmt: skip


@text_rule(408, "kl_divergence", trains=True)
def divergence_from_the_prior(scope: Scope) -> Iterator[Found]:
    """``kl_divergence(prior, posterior)``: the bound has the divergence of the posterior from the prior."""
    source, index = scope.source, scope.index
    for call in index.called("kl_divergence"):
        if len(call.args) != 2:
            continue
        fixed = [_fixed(source.text, index.flow, a) for a in call.args]
        if fixed != [True, False]:
            continue
        one, other = map(ast.unparse, call.args)
        message = (
            f"takes the divergence of the prior from the posterior (`{ast.unparse(call)}`): the bound has "
            "the other "
            f"one, and this punishes a narrow posterior without end, so {other} stays as wide as {one}."
        )
        yield scope.tell(call, "loss", message, f"Turn them round: kl_divergence({other}, {one}).")


def _fixed(text: str, flow: Flow, node: ast.expr) -> bool | None:
    """Whether a distribution is one of plain numbers; None where nobody can tell."""
    inner = flow.inner(node)
    if isinstance(inner, ast.Name | ast.Attribute):
        name = name_of(inner)
        made = re.search(rf"\b{re.escape(name)} = [\w.]*(Normal|Independent|Beta|Gamma|Laplace)\((.*)\)", text)
        if made is None:
            return True if re.search("prior", name) else False if re.search("post", name) else None
        inner = (
            syntax.expression(f"f({made.group(2)})") if made.group(2).count("(") == made.group(2).count(")") else inner
        )
    if not isinstance(inner, ast.Call):
        return None
    plain = {
        "zeros",
        "ones",
        "tensor",
        "zeros_like",
        "ones_like",
        "torch",
        "core",
        "Normal",
        "Independent",
        "eye",
        "full",
    }
    made_of = {name_of(n) for a in [*inner.args, *(k.value for k in inner.keywords)] for n in ast.walk(a)} - {""}
    if called(inner) in ("zeros_like", "ones_like"):
        return True
    likes = [n for n in ast.walk(inner) if called(n) in ("zeros_like", "ones_like")]
    made_of -= {name_of(m) for n in likes for m in ast.walk(n)}
    return not (made_of - plain)


@text_rule(409, "log", trains=True)
def prior_held_against(scope: Scope) -> Iterator[Found]:
    """``loss = nll + (log_prior - log_posterior)``: the complexity of a posterior has the other sign."""
    source, index = scope.source, scope.index
    for of in goals(source, index.flow) if "log_prob" in source.text else ():
        terms = list(index.flow.terms(of))
        drawn = [(t, _of_prior(source, t.node)) for t in terms if called(t.node) == "log_prob"]
        known = [(t, prior) for t, prior in drawn if prior is not None]
        turned = all((t.sign > 0) == prior for t, prior in known)
        if turned and len({prior for _, prior in known}) == 2 and len(terms) > len(known):
            one, other = (next(t.node for t, prior in known if prior is which) for which in (True, False))
            message = (
                f"gives the loss the prior's log-probability with a plus (`{ast.unparse(one)}`) and the posterior's "
                f"with a minus (`{ast.unparse(other)}`): that is minus the divergence, so each step makes the prior "
                "less likely and the posterior narrower."
            )
            sums: list[ast.expr] = [s for _, at in indices(scope.trace) for s in at.sums]
            both = [s for s in sums if {t.node for t in flow_around(source, s).terms(s)} == {one, other}]
            yield scope.tell(both[0] if both else of, "loss", message, "Turn them round: posterior - prior.")
    for of in goals(source, index.flow) if mentions(COMPLEXITY, source.text) else ():
        terms = list(index.flow.terms(of, whole=WHOLE))
        mine = [t for t in terms if POSTERIOR.search(name_of(t.node)) or POSTERIOR.search(called(t.node))]
        its = [t for t in terms if PRIOR.search(name_of(t.node)) or PRIOR.search(called(t.node))]
        if len(mine) != 1 or len(its) != 1 or len(terms) < 3 or mine[0].sign > 0 or its[0].sign < 0:
            continue
        names = ast.unparse(its[0].node), ast.unparse(mine[0].node)
        message = (
            f"gives the loss {names[0]} with a plus and {names[1]} with a minus (`{ast.unparse(of)}`): that "
            "is minus "
            "the divergence, so each step makes the prior less likely and the posterior narrower."
        )
        node = its[0].node if hasattr(its[0].node, "lineno") else of
        yield scope.tell(node, "loss", message, f"Turn them round: + {names[1]} - {names[0]}.")


def _of_prior(source: Source, node: ast.expr) -> bool | None:
    """Whether a log-probability is by a distribution of plain numbers, or by one of parameters; None of data."""
    owner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    if owner is None or not isinstance(node, ast.Call) or len(node.args) != 1:
        return None
    flow = flow_around(source, node)
    if not any(called(n) == "rsample" for n in spread(flow, node.args[0])):
        return None
    fixed = _fixed(source.text, flow, owner)
    if fixed is False and not any(called(n) == "rsample" and ast.unparse(n.func.value) == ast.unparse(owner)  # type: ignore[attr-defined]
                                  for n in spread(flow, node.args[0])):  # fmt: skip
        return None
    return fixed


@text_rule(435, "exp")
def never_below_one(scope: Scope) -> Iterator[Found]:
    """``logvar = F.relu(self.fc_logvar(h))``: a log-variance that is never negative is a variance of 1 and more."""
    source, index = scope.source, scope.index
    for call in scope.calls("exp"):
        of = operands(call)[0] if operands(call) else None
        made = index.flow.inner(of) if of is not None and LOG_VARIANCE.search(ast.unparse(of)) else None
        layers = _layers(source, made) if made is not None else []
        if layers and called(layers[-1]) in ("ReLU", "Softplus", "Sigmoid", "ReLU6"):
            message = (
                f"lets a log-variance be no smaller than 0 (`{ast.unparse(layers[-1])}` gives "
                f"{ast.unparse(of or call)}), and its exponential is taken: the variance is 1 or more for every "
                "sample, however sure the model could be."
            )
            yield scope.tell(
                layers[-1], "loss", message, "Leave it as the linear layer gives it: a logarithm may be negative."
            )
    for call in index.called("relu", "softplus", "sigmoid", "relu_"):
        given = operands(call)[0] if operands(call) else None
        names = {p.name for p in index.given if p.value is call}
        if isinstance(given, ast.Call):
            names.add(called(given))
        if not any(LOG_VARIANCE.search(re.sub(r"^(fc|lin|linear|head|to|net|enc)_?", "", n)) for n in names):
            continue
        if not mentions(GROWN, source.text):
            continue
        message = (
            f"lets a log-variance be no smaller than 0 (`{ast.unparse(call)}`), and its exponential is taken: the "
            "variance is 1 or more for every sample, however sure the encoder could be."
        )
        yield scope.tell(call, "loss", message, "Leave it as the layer gives it: a logarithm may be negative.")


def _layers(source: Source, node: ast.expr) -> list[ast.expr]:
    """The layers of the Sequential that a call runs, which an attribute or a variable was given."""
    func = node.func if isinstance(node, ast.Call) else None
    made = source.given.get(key(func), []) if func is not None else []
    return (
        list(made[0].args)
        if len(made) == 1 and isinstance(made[0], ast.Call) and called(made[0]) == "Sequential"
        else []
    )


@text_rule(437, "range(", ".eval()")
def sleeping_dropout(scope: Scope) -> Iterator[Found]:
    """``torch.stack([net(x) for _ in range(20)]).std(0)`` in evaluation mode: 20 times the same."""
    trace, source, index = scope.trace, scope.source, scope.index
    if any(_drops_always(call) for other in sources(trace) for call in other.calls.get("dropout", ())):
        return
    for given, again, turn in _repeated(source, index):
        while (
            isinstance(again, ast.Call)
            and called(again) in ("softmax", "sigmoid", "squeeze", "detach", "cpu", "numpy")
            and operands(again)
        ):
            again = operands(again)[0]
        if not isinstance(again, ast.Call) or name_of(turn) in names_in(given):
            continue
        rows = rows_under(trace, source, given)
        if not rows or any(r.op.lstrip("~") in RANDOM or _drops(trace, r) for r in rows):
            continue
        texts = " ".join(ast.unparse(n) for n in index.flow.nodes if isinstance(n, ast.Call))
        if not re.search(r"\.(std|var)\(|std\(|var\(", texts) and not mentions(r"std|var|uncert|entrop", source.text):
            continue
        message = (
            f"asks {ast.unparse(again.func)} again and again for the same (`{ast.unparse(given)}`): in "
            "evaluation mode "
            "dropout does nothing and nothing else is drawn, so all answers are equal and their spread is 0."
        )
        remedy = "Switch the dropout layers on again: for m in net.modules(): if isinstance(m, nn.Dropout): m.train()."
        yield scope.tell(given, "evaluation", message, remedy, rows=rows[:1])


def _drops_always(call: ast.Call) -> bool:
    """Whether a call of F.dropout drops in evaluation mode too."""
    mode = option(call, "training", 2)
    return mode is None or ast.unparse(mode) == "True"


def _drops(trace: Trace, row: Row) -> bool:
    """Whether an op multiplies by a mask in a layer of dropout, which has none in evaluation mode."""
    entered = trace.entered[row.path]
    return row.op == "mul" and bool(entered) and "Dropout" in entered[-1][0]


def _repeated(source: Source, index: Index) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """Yield what is computed in each round and gathered: the expression, what it is of, and the loop's variable."""
    for call in index.called("stack", "cat", "array"):
        given = index.flow.inner(operands(call)[0]) if operands(call) else None
        if isinstance(given, ast.ListComp) and called(given.generators[0].iter) == "range":
            yield given.elt, given.elt, given.generators[0].target
    for call in index.called("append"):
        loop = next((a for a in source.around(call) if isinstance(a, ast.For)), None)
        if loop is None or called(loop.iter) != "range" or len(call.args) != 1 or len(loop.body) != 1:
            continue
        yield call.args[0], call.args[0], loop.target


def _squared_error(flow: Flow, node: ast.expr) -> bool:
    """Whether an expression is the square of a difference."""
    inner = flow.inner(node)
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Pow) and ast.unparse(inner.right) in ("2", "2.0"):
        of: ast.expr | None = inner.left
    elif called(inner) in ("pow", "square") and operands(inner):
        of = operands(inner)[0]
    elif isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult):
        if _squared_error(flow, inner.left) and flow.number(inner.right) is not None:
            return True
        if _squared_error(flow, inner.right) and flow.number(inner.left) is not None:
            return True
        of = inner.left if ast.unparse(inner.left) == ast.unparse(inner.right) else None
    else:
        return called(inner) == "mse_loss"
    return of is not None and isinstance(flow.inner(of), ast.BinOp) and isinstance(flow.inner(of).op, ast.Sub)  # type: ignore[attr-defined]


@text_rule(449, "exp")
def precision_for_variance(scope: Scope) -> Iterator[Found]:
    """``log_var + (y - mu) ** 2 * torch.exp(log_var)``: the error is multiplied with the variance."""
    index = scope.index
    for node in index.products:
        for error, factor in ((node.left, node.right), (node.right, node.left)):
            inner = index.flow.inner(factor)
            if called(inner) != "exp" or not operands(inner) or not _squared_error(index.flow, error):
                continue
            of = operands(inner)[0]
            if not isinstance(of, ast.Name | ast.Attribute):
                continue
            whole = re.compile(rf"^{re.escape(ast.unparse(of))}$")
            beside = [t for s in index.sums if node in set(ast.walk(s)) for t in index.flow.terms(s, whole=whole)]
            if not any(ast.unparse(t.node) == ast.unparse(of) and t.sign > 0 for t in beside):
                continue
            name = ast.unparse(of)
            message = (
                f"multiplies the squared error with the variance (`{ast.unparse(node)}`), where the "
                "likelihood divides "
                f"by it: both this and {name} grow with the variance, so it shrinks for every sample, whatever the "
                "error is."
            )
            yield scope.tell(node, "loss", message, f"Take torch.exp(-{name}).")


def _logs(flow: Flow, node: ast.expr) -> Iterator[tuple[float, str]]:
    """Yield, of the terms of a sum, each logarithm of a spread: how many times, and of what."""
    for weight, term in _weighed(flow, node, 1.0, 6):
        if called(term) == "log" and operands(term):
            yield weight, ast.unparse(operands(term)[0])


def _weighed(flow: Flow, node: ast.expr, weight: float, depth: int) -> Iterator[tuple[float, ast.expr]]:
    """Yield the terms of a sum with the numbers that they are multiplied with."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and depth:
        yield from _weighed(flow, node.left, weight, depth - 1)
        yield from _weighed(flow, node.right, weight if isinstance(node.op, ast.Add) else -weight, depth - 1)
        return
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and depth:
        for number, rest in ((node.left, node.right), (node.right, node.left)):
            known = flow.number(number)
            if known is not None:
                yield from _weighed(flow, rest, weight * known, depth - 1)
                return
    if isinstance(node, ast.Name) and depth and (value := flow.value(node)) is not None:
        yield from _weighed(flow, value, weight, depth - 1)
        return
    yield weight, node


@text_rule(452, "log(")
def spread_for_variance(scope: Scope) -> Iterator[Found]:
    """``log(sigma) + (y - mu) ** 2 / (2 * sigma)``: the error is divided by the spread, and not by its square."""
    source, index = scope.source, scope.index
    spreads = [c for c in index.called("log") if any(name_of(o) for o in operands(c)[:1])]
    for node in index.sums if spreads else ():
        if isinstance(source.parents.get(node), ast.BinOp):
            continue
        logs = {name: w for w, name in _logs(index.flow, node) if re.fullmatch(r"[\w.]+", name)}
        for weight, term in _weighed(index.flow, node, 1.0, 6) if logs else ():
            if not isinstance(term, ast.BinOp) or not isinstance(term.op, ast.Div):
                continue
            if not _squared_error(index.flow, term.left):
                continue
            bottom = term.right
            if isinstance(bottom, ast.BinOp) and isinstance(bottom.op, ast.Mult):
                known = index.flow.number(bottom.left)
                if known:
                    weight, bottom = weight / known, bottom.right
            name = ast.unparse(bottom)
            if name not in logs or abs(logs[name] - weight) < 1e-9:
                continue
            message = (
                f"divides the squared error by {name} (`{ast.unparse(term)}`) beside the logarithm of it: if "
                "that is a "
                "standard deviation its square belongs there, and if it is a variance, half of the logarithm."
            )
            yield scope.tell(term, "loss", message, f"Divide by the square: / (2 * {name} ** 2).")


@text_rule(453, "softmax")
def softened_too_late(scope: Scope) -> Iterator[Found]:
    """``F.softmax(logits, 1) / temperature``: probabilities that no longer sum to 1."""
    index = scope.index
    for node in index.binary.get(ast.Div, ()):
        last = ast.unparse(node.right).rpartition(".")[2]
        if not re.match(r"^(temperature|temp|tau|T)$", last) or called(stripped(index.flow, node.left)) not in (
            "softmax",
        ):
            continue
        message = (
            f"divides probabilities by the temperature (`{ast.unparse(node)}`): that makes none of them sharper or "
            "softer than the others, and they no longer sum to 1."
        )
        yield scope.tell(node, "loss", message, f"Divide the logits: softmax(logits / {ast.unparse(node.right)}, -1).")
