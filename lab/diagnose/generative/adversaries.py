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
from ..reading.recorded import entering
from ..reading.scope import Scope, spread, stripped
from ..reading.sources import Function, called, names_in

MADE = re.compile(r"fake|gen(?!uine)|synth|made|(^|_)g_", re.I)
REAL = re.compile(r"real|true|data|genuine", re.I)
NAMED = re.compile(f"{MADE.pattern}|{REAL.pattern}", re.I)
CRITIC = re.compile(r"^(self\.)?(d|c|dis|disc|discriminator|critic|netD|net_d|f)\d*$", re.I)


def _scores(flow: Flow, of: ast.expr) -> list[tuple[int, ast.Call]]:
    """The terms of a loss that are a critic's score as it is, with their signs."""
    found = []
    for term in flow.terms(of):
        inner = stripped(flow, term.node)
        if isinstance(inner, ast.Call) and inner.args and _asked(inner):
            found.append((term.sign, inner))
    return found


def _asked(call: ast.Call) -> bool:
    """Whether a call may ask a critic: a name, or an attribute of self, is called, and no function of a package."""
    return isinstance(call.func, ast.Name) or ast.unparse(call.func).startswith("self.")


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
    top = not isinstance(index.flow.scope, Function)
    critics: list[tuple[int, ast.Call, ast.expr]] = []
    generators: list[tuple[int, ast.Call]] = []
    for flow in [one.flow for one in index.scopes] if top else [index.flow] if source.name else []:
        for of, _ in losses(flow):
            scores = _scores(flow, of)
            asked = [ast.unparse(call.func) for _, call in scores]
            both = [score for score, name in zip(scores, asked, strict=True) if asked.count(name) == 2]
            made = [score for score in both or scores if _is_made(flow, score[1])]
            if len(both) == 2 and len(made) == 1 and both[0][0] != both[1][0]:
                critics.append((*made[0], flow.inner(of)))
            elif len(scores) == len(made) == 1:
                generators.append(made[0])
    pairs = [(c, g) for c in critics for g in generators if ast.unparse(c[1].func) == ast.unparse(g[1].func)]
    if not pairs or any(c[0] != g[0] for c, g in pairs):
        return
    critic, generator = pairs[0]
    does = "raise" if critic[0] < 0 else "lower"
    whole = critic[2]
    message = (
        f"lets the critic {does} the score of what is made (`{ast.unparse(whole)}`), as the generator does "
        f"({source.place(generator[1]).words}): nobody holds against it, and both losses fall without the samples "
        "getting better."
    )
    remedy = "Give it the opposite signs: loss = critic(fake).mean() - critic(real).mean(), generator -critic(fake)."
    shown = entering(scope.trace, source, generator[1], generator[0])
    if shown is not None:
        yield scope.tell(whole, "loss", message, remedy, rows=shown)


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
