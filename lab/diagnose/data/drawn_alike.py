"""Test samples that are the training samples once more, as both are drawn with one seed."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Trace
from ...recorder.tensor_stats import on_host
from ..finding import Found
from ..order import rule
from ..reading.calls import name_of
from ..reading.scope import scope_around, tell
from ..reading.sources import assigned, called, sources
from .held_out import TEST, TRAIN

SEEDED = {"manual_seed", "default_rng", "RandomState", "seed", "Random"}
DRAWS = re.compile(r"rand|normal|uniform|standard_normal|integers|choice|poisson")
ROWS = 64  # of each part that are held against each other


@rule(764)
def drawn_alike(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``make_data(300)`` and ``make_data(100)`` of one seed: the test samples are the first training samples."""
    for source in sources(trace):
        if not SEEDED & source.calls.keys():
            continue
        seeding = [scope_around(source, n) for name in SEEDED for n in source.calls.get(name, ())]
        made = {n.name: n for n in seeding if isinstance(n, ast.FunctionDef) and _seeds(n)}
        for name, function in made.items():
            parts: list[tuple[list[str], ast.Call]] = []
            for source_of in sources(trace):
                for node in source_of.calls.get(name, ()):
                    above = source_of.parents.get(node)
                    while isinstance(above, ast.Call | ast.Attribute | ast.Starred):
                        above = source_of.parents.get(above)
                    target = above.targets[0] if isinstance(above, ast.Assign) else ast.Pass()
                    names = [name_of(n) for n in ast.walk(target) if isinstance(n, ast.Name)]
                    parts.append((names, node))
            train = [n for names, n in parts if names and all(TRAIN.search(t) and not TEST.search(t) for t in names)]
            test = [n for names, n in parts if names and all(TEST.search(t) and not TRAIN.search(t) for t in names)]
            if not train or not test or not _one_seed(function, train[0], test[0]):
                continue
            if _differ(trace, *(names for names, n in parts if n in (train[0], test[0]))):
                continue
            says = (
                f"draws the test samples with the seed of the training samples (`{ast.unparse(test[0])}` and "
                f"`{ast.unparse(train[0])}`, {name}() sets it): they are the same draws, so the model has seen them."
            )
            return tell(source, test[0], "evaluation", "warning", says, "Give the test part a seed of its own.")
    return []


def _seeds(function: ast.FunctionDef) -> str | None:
    """The seed that a function sets, a number or an argument of its own, for all that it draws."""
    names = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
    draws = [n for n in ast.walk(function) if isinstance(n, ast.Call) and DRAWS.match(called(n))]
    for node in ast.walk(function):
        if called(node) in SEEDED and isinstance(node, ast.Call) and len(node.args) == 1 and draws:
            if (own := _generators(function, node)) and not all(_draws_from(n, own) for n in draws):
                continue  # of other draws, the samples' say, it knows nothing
            seed = node.args[0]
            if isinstance(seed, ast.Constant) or name_of(seed) in names:
                return ast.unparse(seed)
    return None


def _generators(function: ast.FunctionDef, seeding: ast.Call) -> set[str]:
    """The names of the one generator that a call seeds, and its own text; nothing where it seeds the global one."""
    of = seeding.func.value if isinstance(seeding.func, ast.Attribute) else None
    makes = called(seeding) in ("default_rng", "RandomState", "Random")
    if not makes and called(of or seeding) != "Generator" and not isinstance(of, ast.Name):
        return set()
    if not makes and isinstance(of, ast.Name):
        made = [p for p in assigned(ast.walk(function)) if p.name == of.id and called(p.value) == "Generator"]
        return {of.id} if made else set()
    return {ast.unparse(seeding)} | {p.name for p in assigned(ast.walk(function)) if p.value is seeding}


def _draws_from(call: ast.Call, own: set[str]) -> bool:
    """Whether a draw is made by one of these generators: a method of it, or a function that is given it."""
    of = call.func.value if isinstance(call.func, ast.Attribute) else None
    given = [k.value for k in call.keywords if k.arg == "generator"]
    return any(node is not None and ast.unparse(node) in own for node in (of, *given))


def _differ(trace: Trace, train: list[str], test: list[str]) -> bool:
    """Whether the samples of two parts were seen, and are not the same."""
    leaves = {leaf.name: leaf for leaf in trace.leaves if not leaf.requires_grad}
    compared = False
    for pair in zip(train, test, strict=False):
        one, other = (leaves[name].alive() if name in leaves else None for name in pair)
        if one is None or other is None or one._a.shape[1:] != other._a.shape[1:] or not one._a.ndim:
            continue
        rows = min(len(one._a), len(other._a), ROWS)
        a, b = on_host(one._a[:rows]), on_host(other._a[:rows])
        if a.dtype.kind == "f" and (a == b).all(axis=tuple(range(1, a.ndim))).any():
            return False
        compared |= bool(a.dtype.kind == "f")
    return compared


def _one_seed(function: ast.FunctionDef, one: ast.Call, other: ast.Call) -> bool:
    """Whether two calls differ in a number of samples alone."""
    seed = _seeds(function)
    places = [a.arg for a in function.args.args]

    def told(node: ast.Call) -> dict[str, str]:
        return {
            **dict(zip(places, map(ast.unparse, node.args), strict=False)),
            **{k.arg or "": ast.unparse(k.value) for k in node.keywords},
        }

    a, b = told(one), told(other)
    if a.get(seed or "") != b.get(seed or ""):
        return False
    differ = {key for key in a.keys() | b.keys() if a.get(key) != b.get(key)}
    return all(re.match(r"n|size|count|num|len|m$|samples", key) for key in differ)
