"""Sums of losses whose terms do not go together: a critic that raises its score for everything, a divergence that is
summed beside a reconstruction that is averaged, a penalty that is subtracted."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Row, Trace, ancestors
from ..finding import Found, capital, code_of, where
from ..order import rule
from ..reading.expressions import losses
from ..reading.recorded import AVERAGING, by_values
from ..reading.safe_forms import of_sums
from ..reading.scope import Scope, scopes
from .losses import DIFFERENCES

GATHERED = {"stack", "cat"}  # of one step each
PICKED = {"gather", "index", "getitem", "take_along_dim", "neg", "squeeze", *GATHERED}
PENALTIES = re.compile(r"\.(norm|abs|pow|square)\(|\*\* ?2")
FEW = 16  # values of a sample from which a mean and a sum are different things
COLLAPSED = 0.02  # nats of a latent dimension that has nothing to say


@rule(412)
def same_sign(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A critic's loss in which the scores of real and of made samples have one sign."""
    for root in dict.fromkeys(row for rows in trace.roots.values() for row in rows):
        ends = list(_linear(root))
        for k, (one, sign) in enumerate(ends):
            for other, its in ends[k + 1 :]:
                if one is other or sign != its or not _one_critic(one, other) or one.op != "linear":
                    continue
                line, col, place = where(trace, root.chain)
                does = "raises" if sign < 0 else "lowers"
                message = capital(
                    f"{place} {does} the score of all samples alike: in `{code_of(trace, root)}` both terms, of "
                    f"`{code_of(trace, one)}` on data and on what another network makes, have the same sign, so "
                    "nothing "
                    "tells the one from the other."
                )
                remedy = "Give them opposite signs: loss = critic(fake).mean() - critic(real).mean()."
                return [Found("loss", "warning", line, col, message, remedy, [root])]
    return []


def _linear(root: Row, sign: int = 1, depth: int = 0) -> Iterator[tuple[Row, int]]:
    """Yield the outputs that a loss is a sum of, with their signs."""
    if depth > 12:
        return
    rows = [ref for ref in root.refs if isinstance(ref, Row) and ref.requires_grad]
    if root.path and root.op not in AVERAGING and not root.view:
        yield root, sign
    elif root.op in ("add", "sub") and len(root.refs) == 2:
        for ref, turn in zip(root.refs, (1, -1 if root.op == "sub" else 1), strict=True):
            if isinstance(ref, Row) and ref.requires_grad:
                yield from _linear(ref, sign * turn, depth + 1)
    elif len(rows) == 1 and len(root.refs) == 1:
        turn = 1
        if root.op in ("neg", "mul", "div"):
            turn = by_values(root, rows[0])
        elif root.op not in AVERAGING and not root.view and root.op not in ("add", "sub"):
            return
        if turn:
            yield from _linear(rows[0], sign * turn, depth + 1)


def _one_critic(one: Row, other: Row) -> bool:
    """Whether two outputs are one layer's, of which one saw what another network made and no gradient goes there."""
    layers = [{ref for ref in row.refs if isinstance(ref, Leaf) and ref.module} for row in (one, other)]
    if not layers[0] or layers[0] != layers[1]:
        return False
    all_of = [ancestors([row]) for row in (one, other)]
    trained = [{r for r in refs if isinstance(r, Leaf) and r.module and _wanted(row, r)}
               for row, refs in zip((one, other), all_of, strict=True)]  # fmt: skip
    made = [any(isinstance(r, Row) and r.cut in ("detach", "data") for r in refs) or
            any(isinstance(r, Leaf) and r.module and r not in trained[k] for r in refs)
            for k, refs in enumerate(all_of)]  # fmt: skip
    return trained[0] == trained[1] and made[0] != made[1]


def _wanted(row: Row, leaf: Leaf) -> bool:
    """Whether a gradient can go from a row to a leaf."""
    stack: list[Row] = [row]
    seen: set[Row] = set()
    while stack:
        one = stack.pop()
        for ref in one.refs:
            if ref is leaf:
                return True
            if isinstance(ref, Row) and ref.requires_grad and not ref.cut and ref not in seen:
                seen.add(ref)
                stack.append(ref)
    return False


@rule(414)
def summed_beside_averaged(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A variational autoencoder whose divergence weighs as much as all values of a sample together, and has won."""
    for root in dict.fromkeys(row for rows in trace.roots.values() for row in rows):
        terms = list(_terms(root))
        means = [(row, size) for row in terms if (size := _averaged(row)) is not None]
        sums = [(row, size) for row in terms if (size := _divergence(row)) is not None]
        if len(means) != 1 or len(sums) != 1:
            continue
        (mean, values), (kl, latents) = means[0], sums[0]
        last = kl.stats.mean if kl.stats is not None else None
        if values < FEW or last is None or not 0 <= last < COLLAPSED * latents:
            continue
        line, col, place = where(trace, mean.chain)
        there = where(trace, root.chain)[2]
        samples = _samples(kl)
        of_all = f" and {samples:,} samples" if samples > 1 else ""
        message = capital(
            f"{place} averages `{code_of(trace, mean)}` over the {values:,} values of a sample, and "
            f"{'' if there == place else there + ' '}adds a divergence to it that is summed over {latents:,} latents"
            f"{of_all} and so weighs {values * samples:,} times as much; it has come down to {last:.2g}, and what is "
            "decoded knows nothing of the input."
        )
        summed = of_sums(code_of(trace, mean)) or "F.mse_loss(..., reduction='sum') / len(x)"
        remedy = f"Sum the reconstruction over a sample too: {summed}."
        if samples > 1:
            remedy = f"Sum the reconstruction over samples and values too: {summed.rpartition(' / ')[0]}."
        return [Found("loss", "warning", line, col, message, remedy, [root, mean, kl])]
    return []


def _terms(root: Row, depth: int = 0) -> Iterator[Row]:
    if root.op == "add" and len(root.refs) == 2 and not root.shape and depth < 4:
        for ref in root.refs:
            if isinstance(ref, Row):
                yield from _terms(ref, depth + 1)
    else:
        yield root


def _averaged(row: Row) -> int | None:
    """Over how many values of a sample a loss is averaged."""
    inner = row
    if row.op == "mean":
        inner = row.refs[0]  # type: ignore[assignment]
        if not isinstance(inner, Row) or inner.op not in DIFFERENCES | {"pow", "square", "abs"}:
            return None
    elif row.op not in DIFFERENCES or row.shape or not row.refs or row.op == "sub":
        return None
    shape = tuple(inner.shape or inner.refs[0].shape)
    stats, given = row.stats, inner.stats
    if inner is row and stats is not None and (stats.mean or 0) > 50:
        return None  # reduction="sum"
    if inner is not row and (stats is None or given is None):
        return None
    return math.prod(shape[1:]) if len(shape) > 1 else None


def _same(row: Row) -> bool:
    """Whether a product leaves the one value as it is: a weight of 1."""
    before = row.refs[0].stats if row.refs and isinstance(row.refs[0], Row) else None
    return not row.shape and before is not None and row.stats is not None and before.mean == row.stats.mean


def _divergence(row: Row) -> int | None:
    """Over how many latents a divergence between normal distributions is summed, with no factor of somebody's."""
    chain, one = [row], row
    while one.op != "sum" and len(one.refs) == 1 and isinstance(one.refs[0], Row) and len(chain) < 6:
        one = one.refs[0]
        chain.append(one)
    if one.op != "sum" or not one.refs or len(one.refs[0].shape) != 2 or one.stats is None or row.stats is None:
        return None
    ops = _near(one, 6)
    if "exp" not in ops or not ops & {"pow", "square", "mul"}:
        return None
    halves = [r for r in (*chain, one.refs[0]) if isinstance(r, Row) and r.op in ("mul", "div") and not _same(r)]
    if len(halves) != 1:
        return None
    before, after = one.stats.mean, row.stats.mean
    scale = abs(after / before) if before and after is not None else 0.0
    if len(one.shape) == 0 and scale < 0.4:
        return None
    factor = 0.5 if halves[0] in chain else 1.0
    return one.refs[0].shape[1] if abs(scale - factor) < 0.05 * factor else None


def _samples(kl: Row) -> int:
    """Over how many samples a divergence is summed as well; 1 where it is averaged over them."""
    row = kl
    while row.op != "sum" and row.refs and isinstance(row.refs[0], Row):
        if row.op == "mean":
            return 1
        row = row.refs[0]
    return 1 if row.shape or not row.refs else row.refs[0].shape[0]


def _near(row: Row, depth: int) -> set[str]:
    """The ops that a row was computed by, a few steps back."""
    found, level = set(), [row]
    for _ in range(depth):
        level = [ref for one in level for ref in one.refs if isinstance(ref, Row)]
        found |= {one.op for one in level}
    return found


@rule(416)
def advantage_on_graph(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A policy's loss that trains the critic as well: the advantage is on the graph."""
    for row in trace.rows:
        if row.op != "mul" or not row.reached or len(row.refs) != 2 or len(row.shape) != 1:
            continue
        for logs, advantage in (row.refs, row.refs[::-1]):
            log = _log_probability(logs)
            if log is None or not isinstance(advantage, Row) or advantage.op != "sub" or not advantage.requires_grad:
                continue
            sides = [ref for ref in advantage.refs if isinstance(ref, Row) and ref.requires_grad]
            if len(sides) != 1 or len(advantage.refs) != 2 or not _of_width_one(sides[0]):
                continue
            of_policy = {r for r in ancestors([log]) if isinstance(r, Leaf)}
            of_critic = {r for r in ancestors([sides[0]]) if isinstance(r, Leaf) and r.module} - of_policy
            critic = min(of_critic, key=lambda leaf: leaf.name, default=None)
            if critic is None or not _wanted(row, critic):
                continue
            line, col, place = where(trace, row.chain)
            there = where(trace, advantage.chain)[2]
            message = capital(
                f"{place} weighs log-probabilities by an advantage that is on the graph: `{code_of(trace, advantage)}` "
                f"({there}) passes the policy's loss on to {critic.name}, which then says what makes "
                "that loss small and not what a state is worth."
            )
            remedy = "Detach it there: advantage = returns - values.detach()."
            return [Found("loss", "warning", line, col, message, remedy, [advantage, row])]
    return []


def _log_probability(ref: object) -> Row | None:
    """The log-probabilities of what was done, picked out of all."""
    for _ in range(6):
        if not isinstance(ref, Row) or not ref.refs:
            return None
        if ref.op in ("log_softmax",) or (
            ref.op == "sub" and any(getattr(r, "op", "") == "logsumexp" for r in ref.refs)
        ):
            return ref
        if not (ref.view or ref.op in PICKED):
            return None
        ref = ref.refs[0]
    return None


def _of_width_one(row: Row) -> bool:
    """Whether values come from a layer with one output."""
    while (row.view or row.op in GATHERED) and row.refs and isinstance(row.refs[0], Row):
        row = row.refs[0]
    return row.op == "linear" and row.shape[-1:] == (1,)


@rule(442)
def penalty_subtracted(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``loss = data - 1e-4 * sum(p.norm() for p in model.parameters())``: each step makes the weights larger."""
    if not trace.steps.count:
        return []
    read = next((one for scope in scopes(trace) for one in _penalties_read(scope)), None)
    if read is not None:
        return [read]
    for root in (row for rows in trace.roots.values() for row in rows):
        for sign, row, at in _summands(root):
            if sign < 0 and at is not None and _of_weights(row):
                line, col, place = where(trace, at.chain)
                message = (
                    f"takes a penalty of the weights away from the loss (`{code_of(trace, at)}`): each step makes the "
                    "loss smaller, and the weights larger with it."
                )
                message = capital(f"{place} {message}")
                return [Found("loss", "warning", line, col, message, "Add it: loss = data + penalty.", [at, root])]
    return []


def _summands(root: Row) -> Iterator[tuple[int, Row, Row | None]]:
    """Yield the terms of a loss: the sign, the term, and the difference that gives it a minus."""
    stack: list[tuple[int, Row, Row | None, int]] = [(1, root, None, 0)]
    while stack:
        sign, row, at, depth = stack.pop()
        refs = [r for r in row.refs if isinstance(r, Row)]
        if row.op in ("sub", "sub_") and len(row.refs) == 2 and depth < 12:
            stack += [
                (sign if r is row.refs[0] else -sign, r, at if r is row.refs[0] else row, depth + 1) for r in refs
            ]
        elif row.op in ("add", "add_") and depth < 12:
            stack += [(sign, r, at, depth + 1) for r in refs]
        elif row.op in ("mul", "div", "neg") and len(refs) == 1 == len(row.refs) and depth < 12 and not refs[0].shape:
            turned = by_values(row, refs[0]) < 0
            stack.append((-sign if turned else sign, refs[0], row if turned else at, depth + 1))
        else:
            yield sign, row, at


def _of_weights(row: Row) -> bool:
    """Whether a number is made of matrices that are trained alone, and by their squares or sizes."""
    above = [row, *ancestors([row])]
    leaves = [r for r in above if isinstance(r, Leaf) and r.requires_grad]
    squares = {r.op for r in above if isinstance(r, Row)} & {
        "pow",
        "square",
        "abs",
        "vector_norm",
        "norm",
        "linalg_norm",
    }
    others = [r for r in above if isinstance(r, Leaf) and not r.requires_grad and r.shape]
    return (
        bool(leaves and squares)
        and not others
        and all(r.module and len(r.shape) > 1 for r in leaves)
        and row.shape == ()
    )


def _penalties_read(scope: Scope) -> Iterator[Found]:
    """Told of a penalty of all parameters that the text takes away from a loss."""
    flow = scope.flow
    for of, _ in losses(flow):
        terms = list(flow.terms(of))
        for sign, node in terms:
            text = " ".join(ast.unparse(flow.inner(n)) for n in ast.walk(node) if isinstance(n, ast.expr))
            if sign > 0 or len(terms) < 2 or "parameters()" not in text or not PENALTIES.search(text):
                continue
            message = (
                f"takes a penalty of the weights away from the loss (`{ast.unparse(node)}`): each step "
                "makes the loss smaller, and the weights larger with it."
            )
            yield scope.tell(node, "loss", message, "Add it: loss = data + penalty.")
