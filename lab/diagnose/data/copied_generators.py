"""A generator of random numbers that a data set keeps, and of which each worker of its loader gets a copy."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.sources import Function, Source, called, names_in, sources

MAKERS = {"default_rng", "RandomState", "Random"}
JUDGES = re.compile(r"val|test|eval|dev|held", re.I)


@rule(626, proof="the loader had workers")
def copied(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``self.rng = np.random.RandomState(0)`` in what a DataLoader with workers changes its samples by at random."""
    if not any(fetched.workers for fetched in trace.fetched.values()):
        return []
    found = sources(trace)
    for source in found:
        for loader, workers in _loaders(source):
            for home, one, make, drawn in ((s, *kept) for s in found for kept in _generators(s)):
                if one.name not in _made_of(source, loader):
                    continue
                line, col, place = home.place(make)
                again = " and the same again in every epoch" if "persistent_workers" not in ast.unparse(loader) else ""
                each = f"each of the {workers} workers" if workers > 1 else "the worker"
                message = capital(
                    f"{place} makes a generator (`{ast.unparse(make.value)}`) of which {each} of the loader "
                    f"({source.place(loader).words}) gets a copy: `{ast.unparse(drawn)}` ({home.place(drawn).words}) "
                    f"draws the same numbers in all of them{again}, so samples are changed in few ways only."
                )
                remedy = (
                    "Draw from NumPy's or Python's own generator there, which the loader sets anew for each worker and "
                    "epoch: np.random, random."
                )
                return [Found("loop", "warning", line, col, message, remedy)]
    return []


def _loaders(source: Source) -> Iterator[tuple[ast.Call, int]]:
    """Yield the loaders with workers that set no state in these and are not for judging, and how many they have."""
    for call in source.calls.get("DataLoader", ()):
        given = {k.arg: k.value for k in call.keywords}
        workers = given.get("num_workers")
        number = source.constants.get(workers.id) if isinstance(workers, ast.Name) else workers
        count = number.value if isinstance(number, ast.Constant) else 0
        parent = source.parents.get(call)
        name = ast.unparse(parent.targets[0]) if isinstance(parent, ast.Assign) else ""
        if isinstance(count, int) and count > 0 and "worker_init_fn" not in given and not JUDGES.search(name):
            yield call, count


def _generators(source: Source) -> Iterator[tuple[ast.ClassDef, ast.Assign, ast.Call]]:
    """Yield classes that make a generator in `__init__` and draw from it elsewhere: the class, the making, a draw."""
    for one in (n for n in source.nodes if isinstance(n, ast.ClassDef)):
        methods = {f.name: f for f in one.body if isinstance(f, Function)}
        begins = methods.pop("__init__", None)
        for make in ast.walk(begins) if begins is not None else ():
            if not isinstance(make, ast.Assign) or called(make.value) not in MAKERS:
                continue
            kept = ast.unparse(make.targets[0])
            draws = [n for f in methods.values() for n in ast.walk(f) if isinstance(n, ast.Call)
                     and isinstance(n.func, ast.Attribute) and ast.unparse(n.func.value) == kept]  # fmt: skip
            anew = [n for f in methods.values() for n in ast.walk(f) if isinstance(n, ast.Assign)
                    and ast.unparse(n.targets[0]) == kept]  # fmt: skip
            if kept.startswith("self.") and draws and not anew:
                yield one, make, draws[0]


def _made_of(source: Source, node: ast.AST) -> set[str]:
    """Return the names of what an expression is made of, and those of what these were given."""
    names: set[str] = set()
    stack: list[ast.AST] = [node]
    while stack:
        new = names_in(stack.pop()) - names
        names |= new
        stack.extend(value for name in new for value in source.given.get(name, ()))
    return names
