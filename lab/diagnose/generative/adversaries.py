"""Critics and generators that want the same, and margins that are turned."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.calls import name_of, operands
from ..reading.expressions import Flow, losses
from ..reading.scope import Scope, spread, stripped
from ..reading.sources import called, names_in

MADE = re.compile(r"fake|gen|synth|made|(^|_)g_", re.I)
REAL = re.compile(r"real|true|data", re.I)
NAMED = re.compile(f"{MADE.pattern}|{REAL.pattern}", re.I)
CRITIC = re.compile(r"^(self\.)?(d|c|dis|disc|discriminator|critic|netD|net_d|f)\d*$", re.I)


def _scores(flow: Flow, of: ast.expr) -> list[tuple[int, ast.Call]]:
    """The terms of a loss that are a critic's score as it is, with their signs."""
    found = []
    for term in flow.terms(of):
        inner = stripped(flow, term.node)
        if isinstance(inner, ast.Call) and CRITIC.match(ast.unparse(inner.func)) and len(inner.args) >= 1:
            found.append((term.sign, inner))
    return found


def _is_made(flow: Flow, call: ast.Call) -> bool:
    """Whether a critic is given what a generator has made."""
    for node in spread(flow, call.args[0], 60):
        if MADE.search(name_of(node)):
            return True
        if isinstance(node, ast.Call) and re.match(
            r"(self\.)?(g|gen|generator|netG|decoder)$", ast.unparse(node.func), re.I
        ):
            return True
    return False


@text_rule(484, "backward", trains=True)
def both_want_the_same(scope: Scope) -> Iterator[Found]:
    """``d_loss = D(x).mean() - D(fake).mean()`` and ``g_loss = -D(fake).mean()``: both want the same."""
    source, index = scope.source, scope.index
    critic = generator = None
    for of, node in losses(index.flow):
        scores = _scores(index.flow, of)
        made = [(s, c) for s, c in scores if _is_made(index.flow, c)]
        if len(scores) == 2 and len(made) == 1 and scores[0][0] != scores[1][0]:
            critic = made[0][0], made[0][1], node, of
        elif len(scores) == 1 and len(made) == 1:
            generator = made[0][0], made[0][1], node
    if critic is None or generator is None or critic[0] != generator[0]:
        return
    if ast.unparse(critic[1].func) != ast.unparse(generator[1].func):
        return
    does = "raise" if critic[0] < 0 else "lower"
    whole = index.flow.inner(critic[3])
    message = (
        f"lets the critic {does} the score of what is made (`{ast.unparse(whole)}`), as the generator does "
        f"({source.place(generator[1]).words}): nobody holds against it, and both losses fall without the samples "
        "getting better."
    )
    remedy = "Give it the opposite signs: loss = critic(fake).mean() - critic(real).mean(), generator -critic(fake)."
    yield scope.tell(whole, "loss", message, remedy)


@text_rule(485)
def margin_turned(scope: Scope) -> Iterator[Found]:
    """``F.relu(1 + real).mean() + F.relu(1 - fake).mean()``: the hinge of a critic, the two turned round."""
    source, index = scope.source, scope.index
    hinges = index.called("relu", "clamp", "clamp_min", "maximum")
    sums: list[ast.BinOp] = []
    for call in hinges if len(hinges) > 1 else ():
        above = [a for a in itertools.takewhile(lambda a: not isinstance(a, ast.stmt), source.around(call))
                 if isinstance(a, ast.BinOp) and isinstance(a.op, ast.Add)]  # fmt: skip
        sums += above[-1:]
    names = {p.name for p in index.given if any(c in hinges for c in ast.walk(p.value))} if hinges else set()
    sums += [n for n in index.binary.get(ast.Add, ()) if len(names & names_in(n)) > 1]
    for node in dict.fromkeys(sums):
        signs = {}
        for term in index.flow.terms(node):
            of = _hinged(index.flow, term.node)
            if of is None or term.sign < 0:
                continue
            for part in index.flow.terms(of, whole=NAMED):
                names = names_in(part.node) | {n for a in ast.walk(part.node) for n in [name_of(a)] if n}
                which = "made" if any(MADE.search(n) for n in names) else "real" if any(map(REAL.search, names)) else ""
                if which:
                    signs[which] = part.sign
        if signs != {"made": -1, "real": 1}:
            continue
        message = (
            f"punishes high scores of real samples and low ones of made samples (`{ast.unparse(node)}`): the "
            "critic "
            "learns them the wrong way round, and the generator is led away from the data."
        )
        remedy = "Turn the two signs: F.relu(1 - real).mean() + F.relu(1 + fake).mean()."
        yield scope.tell(node, "loss", message, remedy)


def _hinged(flow: Flow, node: ast.expr) -> ast.expr | None:
    """What a hinge is taken of: ``F.relu(of)``, ``of.clamp(min=0)``."""
    if called(node) == "relu" and operands(node):
        return flow.inner(operands(node)[0])
    if called(node) in ("clamp", "clamp_min", "maximum") and operands(node) and "0" in ast.unparse(node):
        return flow.inner(operands(node)[0])
    return None
