"""Work that a loop does in every turn and that only its last turn has any use of, or that no turn has."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...recorder.cell_trace import Trace
from ...recorder.user_files import shown_name
from ..finding import Found, capital
from ..reading.sources import Source, called, names_in, own_nodes, sources
from .op_costs import of_ops
from .time_shares import LEAST_NS, Saving, Shares, less_time

TURNS = 4
SHORT = "Fill up to the longest of each batch: pad_sequence in the collate function, of similar lengths."
PADDED, BATCHES = 0.4, 2  # share of places at which all samples of a batch are filled up, and batches looked at


def used_after(shares: Shares) -> Iterator[Saving]:
    """``for batch in loader: train(batch); error = test()``, of which the value after the loop alone is read."""
    trace = shares.trace
    for source in sources(trace):
        for scope in source.scopes():
            nodes = list(own_nodes(scope))
            for loop in nodes:
                if not isinstance(loop, ast.For):
                    continue
                for statement in loop.body:
                    if isinstance(statement, ast.For):
                        if not _summed_up(loop, statement, nodes):
                            continue
                    elif not _bound_alone(loop, statement, nodes):
                        continue
                    if _trains(trace, source, statement):
                        continue
                    ns = shares.at_lines(source.name, statement.lineno, statement.end_lineno or statement.lineno)
                    # at least, and of a loop those of the line where it was met most often
                    turns = max(shares.beats_at(source.name, line) for line in _lines(statement))
                    share = shares.worth((1 - 1 / max(turns, 1)) * ns)
                    if turns < TURNS or not share or ns < LEAST_NS:
                        continue
                    line, col, place = source.place(statement)
                    message = capital(
                        f"{place} runs in every turn of the loop of {source.place(loop).words}, and only what the last "
                        f"turn gives is used, after the loop (`{_first(statement)}`). Without that the cell would "
                        f"take {less_time(share)}."
                    )
                    remedy = "Move it behind the loop, one indentation less, or run it every so many turns."
                    yield Saving(share, Found("slow", "note", line, col, message, remedy))


def _lines(statement: ast.stmt) -> set[int]:
    """The lines on which a statement, and what is in it, begin."""
    return {statement.lineno, *(n.lineno for n in ast.walk(statement) if isinstance(n, ast.stmt))}


def _first(statement: ast.stmt) -> str:
    """The first line of a statement."""
    return ast.unparse(statement).partition("\n")[0].rstrip(":")


def _bound_alone(loop: ast.For, statement: ast.stmt, nodes: list[ast.AST]) -> bool:
    """Whether a statement gives a name what a call gives, and the loop has no use of it."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name) or not called(statement.value):
        return False
    return _idle(loop, statement, target.id, nodes) and target.id not in names_in(statement.value)


def _summed_up(loop: ast.For, inner: ast.For, nodes: list[ast.AST]) -> bool:
    """Whether a loop in a loop gathers what is begun anew in each turn and read after the last one alone.

    >>> text = "for x in train:\\n  fit(x)\\n  wrong = 0\\n  for t in test:\\n    wrong += judge(t)\\nprint(wrong)"
    >>> def found(text: str) -> bool:
    ...     loop = ast.parse(text).body[0]
    ...     return _summed_up(loop, loop.body[-1], list(ast.walk(ast.parse(text))))
    >>> found(text), found(text.replace("fit(x)", "fit(x, wrong)")), found(text.replace("wrong = 0", "pass"))
    (True, False, False)
    >>> found(text.replace("wrong += judge(t)", "at = go(at, t)\\n    wrong += at"))  # goes on from the turn before
    False
    """
    own = [n for part in (inner.target, *inner.body) for n in ast.walk(part)]
    if inner.orelse or any(isinstance(n, ast.Expr | ast.Return | ast.Yield | ast.Delete) for n in own):
        return False  # a call whose result nobody takes is there for what else it does
    if any(isinstance(n, ast.Attribute | ast.Subscript) and not isinstance(n.ctx, ast.Load) for n in own):
        return False
    bound = {n.id for n in own if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    within = set(map(id, ast.walk(inner)))
    rest = [n for s in loop.body for n in ast.walk(s) if id(n) not in within and isinstance(n, ast.Name)]
    if any(n.id in bound and isinstance(n.ctx, ast.Load) for n in rest):
        return False
    added = {n.target.id for n in own if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    begun = {t.id for s in loop.body if isinstance(s, ast.Assign) and s.lineno < inner.lineno
             for t in ast.walk(ast.Tuple(s.targets)) if isinstance(t, ast.Name)}  # fmt: skip
    carried = {name for a in own if isinstance(a, ast.Assign) for name in names_in(a.value)
               if any(isinstance(t, ast.Name) and t.id == name for t in ast.walk(ast.Tuple(a.targets)))}  # fmt: skip
    if carried - begun:
        return False
    end = loop.end_lineno or loop.lineno
    later = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.lineno > end}
    return bool(added) and added <= begun and bool(added & later)


def _trains(trace: Trace, source: Source, statement: ast.stmt) -> bool:
    """Whether a statement leads to a backward() or an optimizer's step: it has an effect in each turn."""
    for code, lasti in dict.fromkeys(f for chain in (*trace.backwards, trace.steps.last_step) for f in chain):
        place = trace.place(code, lasti)
        own = place.file in trace.files
        line = place.line + trace.files[place.file] if own else place.line
        if ("" if own else shown_name(place.file)) == source.name and in_lines(statement, line):
            return True
    return False


def in_lines(statement: ast.stmt, line: int) -> bool:
    """Return whether a line is one of a statement's."""
    return statement.lineno <= line <= (statement.end_lineno or statement.lineno)


def _idle(loop: ast.For, statement: ast.stmt, name: str, nodes: list[ast.AST]) -> bool:
    """Whether a loop binds a name in one statement alone and never reads it, and something after the loop does."""
    inside = [n for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id == name]
    reads = [n for n in inside if isinstance(n.ctx, ast.Load)]
    stores = [n for n in inside if isinstance(n.ctx, ast.Store)]
    end = loop.end_lineno or loop.lineno
    later = [n for n in nodes if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    return not reads and len(stores) == 1 and any(n.lineno > end for n in later)


def filled_up(shares: Shares) -> Iterator[Saving]:
    """Sequences that are filled up to the longest of the whole set, though those of a batch are short."""
    trace = shares.trace
    blank = [(row, share) for row, (looked, share) in trace.values.blank.items() if looked >= BATCHES]
    blank = [(row, share) for row, share in blank if share >= PADDED and row in trace.rows]
    if not blank:
        return
    row, part = max(blank, key=lambda pair: pair[1])
    ns = of_ops(shares, (r for r in shares.rows if r.path and r.phase == "forward"))
    share = shares.worth(0.9 * part * ns)
    if not share:
        return
    for source in sources(trace):
        for node in (n for n in source.nodes if _fills(n)):
            line, col, place = source.place(node)
            message = capital(
                f"{place} fills sequences up to one length for all (`{ast.unparse(node)}`): in the batches that were "
                f"looked at {part:.0%} of the places hold padding in every sample. Without that the cell would take "
                f"{less_time(share)}."
            )
            yield Saving(share, Found("slow", "note", line, col, message, SHORT, [row]))
            return
    yield from shares.saving(
        0.9 * part * ns,
        row.chain,
        f"gets sequences of which {part:.0%} of the places hold padding in every sample of the batch.",
        SHORT,
        [row],
    )


def _fills(node: ast.AST) -> bool:
    """Whether it is ``[PAD] * (n - len(t))`` or ``F.pad(t, (0, n - len(t)))``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = [s for s in (node.left, node.right) if isinstance(s, ast.List)]
        rest = node.right if sides and sides[0] is node.left else node.left
        return (
            bool(sides) and isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Sub) and "len(" in ast.unparse(rest)
        )
    text = ast.unparse(node) if isinstance(node, ast.Call) and called(node) == "pad" else ""
    return "- len(" in text or ("- " in text and (".shape[" in text or ".size(" in text))


IDIOMS = (used_after, filled_up)
