"""Critics and noise of generative models: a generator that goes the critic's way, a critic that nothing bounds, an
autoencoder that is to give the noise back, one draw or one time step for a whole batch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found
from ..order import rule, text_rule
from ..reading.calls import operands, option, rows_of
from ..reading.expressions import losses
from ..reading.recorded import entering
from ..reading.scope import Scope, scopes, spread
from ..reading.sources import called, sources
from .adversarial_steps import _made_by, _next_step, _optimizers

BOUNDS = re.compile(r"clamp_|clip_\(|clamp\(|spectral_norm|autograd\.grad|\bgrad\(|penalty|relu\(1|F\.relu")
NOISE = {"randn", "randn_like", "rand_like", "normal"}
SINGLE = {"(1,)", "[1]", "1"}


class Score(NamedTuple):
    """What a critic says of samples, as a term of a loss: whose step it is, its sign, and whether they are made."""

    step: str
    sign: int
    made: bool
    node: ast.expr
    place: ast.AST


def _scores(scope: Scope, critic: str, generator: str) -> Iterator[Score]:
    """Yield the plain means of what a critic says in the losses of a function."""
    for of, call in losses(scope.flow):
        step = _next_step(scope.flow, call) or ""
        for term in scope.flow.terms(of):
            node = scope.flow.inner(term.node)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == critic:
                made = _made_by(scope.flow, node, generator, scope.source)
                turned = isinstance(call, ast.Call) and bool(call.args)  # the sign is given to backward()
                yield Score(step, term.sign, made, term.node, call if turned else term.node)


@rule(778)
def critic_and_generator(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """The means of a Wasserstein critic's scores: both steps want the same of made samples, or nothing bounds them."""
    if not trace.steps.count:
        return []
    texts = "\n".join(source.text for source in sources(trace))
    makers = dict(_optimizers(sources(trace)))
    for scope in scopes(trace, "backward"):
        for own, critic in makers.items():
            for other, generator in makers.items():
                if own == other or critic == generator:
                    continue
                scores = list(_scores(scope, critic, generator))
                judged = [s for s in scores if s.step == own]
                made = {s.sign for s in judged if s.made}
                if made != {1} or not any(not s.made and s.sign not in made for s in judged):
                    continue
                wants = [s for s in scores if s.step == other and s.made]
                if wants and {s.sign for s in wants} == made:
                    sign = "lower" if wants[0].sign > 0 else "raise"
                    message = (
                        f"lets {generator} {sign} what {critic} says of its samples (`{ast.unparse(wants[0].node)}`), "
                        f"as the step of {critic} does: they are to move against each other."
                    )
                    remedy = f"Turn the sign: minimise -{critic}(...).mean() in the step of {generator}."
                    of = scope.flow.inner(wants[0].node)
                    shown = entering(trace, scope.source, of, wants[0].sign)
                    return [] if shown is None else [scope.tell(wants[0].place, "loss", message, remedy, rows=shown)]
                if wants and not BOUNDS.search(texts):
                    message = (
                        f"makes the difference of two mean scores small (`{ast.unparse(judged[0].node)}`), and nothing "
                        f"bounds what {critic} says: it can always be made smaller, by larger weights alone."
                    )
                    remedy = (
                        f"Add a penalty on the gradient at samples in between, or hold the weights of {critic} in "
                        "bounds: p.data.clamp_(-0.01, 0.01) after each step."
                    )
                    return [scope.tell(judged[0].node, "loss", message, remedy)]
    return []


@text_rule(779, trains=True)
def towards_the_noise(scope: Scope) -> Iterator[Found]:
    """``loss = mse(net(noisy), noisy)`` of ``noisy = clean + noise``: the noise is what is learnt."""
    flow = scope.flow
    for pair in scope.index.pairs:
        for one, other in ((pair.one, pair.other), (pair.other, pair.one)):
            value = flow.value(other) if isinstance(other, ast.Name) else None
            out = flow.inner(one)
            if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add) or not isinstance(out, ast.Call):
                continue
            noise = [any(called(n) in NOISE for n in spread(flow, side)) for side in (value.left, value.right)]
            if sum(noise) != 1 or ast.unparse(other) not in map(ast.unparse, out.args):
                continue
            clean = value.right if noise[0] else value.left
            message = (
                f"compares what is made of {ast.unparse(other)} with {ast.unparse(other)} itself "
                f"(`{ast.unparse(pair.node)}`), noise and all ({scope.place(value).words}): to give the noise back is "
                "what is learnt."
            )
            yield scope.tell(pair.node, "loss", message, f"Compare it with {ast.unparse(clean)}.")
            return


@text_rule(780, "randn")
def one_draw_for_all(scope: Scope) -> Iterator[Found]:
    """``eps = torch.randn(mu.size(1))`` and ``mu + eps * std`` of (N, d): all samples of a batch get one draw."""
    for node in scope.index.sums:
        for product in (node.left, node.right):
            sides = [product.left, product.right] if isinstance(product, ast.BinOp) else []
            for eps in (s for s in sides if isinstance(s, ast.Name)):
                made = scope.flow.value(eps)
                if called(made) != "randn" or not isinstance(made, ast.Call) or len(made.args) != 1:  # type: ignore[arg-type]
                    continue
                rows = [r for r in rows_of(scope.trace, scope.source, product) if r.op == "mul" and len(r.shape) > 1]
                shared = [r for r in rows if r.requires_grad and any(len(f.shape) < len(r.shape) for f in r.refs)]
                if not shared:
                    continue
                message = (
                    f"gives all {shared[0].shape[0]:,} samples of a batch one draw (`{ast.unparse(made)}` in "
                    f"`{ast.unparse(node)}`): what is to be random of each moves all of them alike."
                )
                other = next(s for s in sides if s is not eps)
                yield scope.tell(
                    made, "broadcast", message, f"Draw it for each: torch.randn_like({ast.unparse(other)})."
                )
                return


@text_rule(781, "randint", "sqrt", trains=True)
def one_step_for_all(scope: Scope) -> Iterator[Found]:
    """``t = torch.randint(0, T, (1,))``, by which a whole batch is noised."""
    flow, source = scope.flow, scope.source
    for call in scope.calls("randint"):
        size = option(call, "size", len(call.args) - 1)
        above = source.parents.get(call)
        name = ast.unparse(above.targets[0]) if isinstance(above, ast.Assign) else ""
        if not name.isidentifier() or size is None or ast.unparse(size) not in SINGLE or len(call.args) < 2:
            continue
        taken = [n for n in scope.index.kinds.get(ast.Subscript, ()) if ast.unparse(n.slice) == name]
        mixes = [n for n in scope.index.products if "sqrt" in ast.unparse(n)
                 and any(t in set(spread(flow, n)) for t in taken)]  # fmt: skip
        trained = any(called(n) == "backward" for loop in source.around(call) if isinstance(loop, ast.For)
                      for n in ast.walk(loop))  # fmt: skip
        if not taken or len(mixes) < 2 or not trained:
            continue
        message = (
            f"draws one time step for the whole batch (`{ast.unparse(call)}`): each step of the training is about that "
            "one alone, and the gradients are as noisy as those of one sample."
        )
        low = ", ".join(ast.unparse(a) for a in operands(call)[:-1])
        yield scope.tell(call, "data", message, f"Draw one for each sample: torch.randint({low}, (len(x),)).", "note")
        return
