"""`export`: a function or a module as a program.

It is run several times, each time with other sizes along the axes that may vary and with other values, and the tapes of
these runs are laid side by side: a number that differs is a size of the run, a value that differs is refused, and so is
whatever else tells that a program would not do what the function does. At the end the program is run at a size and on
data that it was not made from, and has to give what the function gave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from operator import methodcaller
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import text
from ..base.modes import no_grad
from ..base.signatures import signature
from ..nn.modules.module import Module
from ..optim.optimizer import Optimizer
from ..tensors.tensor import Tensor, wrap
from .ir import ExportError, Tree, tree_of
from .joined import Joined, Undecided
from .program import Program
from .sizes import Formula, evaluate
from .tape import Tape

Dynamic = Mapping[str, Any]
Axes = dict[str, list[tuple[int, int]]]  # name of a size -> (number of an input, axis) of all that have it
_MOST_RUNS, _MOST_BLIND = 16, 8  # runs in all, and those up to which one more is made at sizes that are guessed
_TRIED = 6  # sizes at which it is tried, since the function may not run at the first
_FAR = 1 << 18  # elements of the arguments up to which a run at four times the sizes is made


def export(function: Callable[..., Any], args: Sequence[Any], dynamic: Dynamic | None = None, *,
           name: str | None = None) -> Program:  # fmt: skip
    """Return a function or a module as a program: its ops, which run without it.

    function : a module, in the mode it is in, or a function of tensors; a whole training step too, whose model and
        optimizer the program then holds and moves on itself.
    args : a tuple of arguments: tensors, numbers, texts, and lists, tuples and dicts of them.
    dynamic : of the arguments that may have other sizes, the names of those sizes by axis: ``{"x": {0: "batch"}}``;
        of an argument that is a list, tuple or dict of tensors the same with such dicts, or None, in their places.
        Axes of one name have one size.

    What the function holds (weights, buffers, constants) is copied: the program stays as it is when they change.

    Raises
    ------
    ExportError
        With the line and the reason: for values that Python reads (``if x.sum() > 0``, ``item()``, NumPy), random
        numbers, sizes that decide which ops run, and whatever else the program would not do as the function does.

    >>> import core
    >>> layer = core.nn.Linear(3, 2)
    >>> program = core.export(layer, (core.ones(4, 3),), dynamic={"input": {0: "batch"}})
    >>> x = core.rand(7, 3)
    >>> core.allclose(program(x), layer(x))
    True
    """
    if not isinstance(args, list | tuple):
        raise TypeError(text("export() takes the arguments as a tuple", op="export", came=type(args).__name__,
                             remedy="core.export(function, (x,))"))  # fmt: skip
    call = function.forward if isinstance(function, Module) else function
    parameters = _parameters(call, len(args))
    given: list[Tensor] = []
    tree = tree_of(tuple(args), lambda x: isinstance(x, Tensor), given, "the arguments")
    axes = _axes(parameters, tree, dynamic or {})
    holding = _held(function)
    runs = _runs(function, tree, given, axes, holding)
    if any(run.built != runs[0].built for run in runs):
        raise ExportError(text("cannot export this: the result is built otherwise at another size", op="export",
                               came=", ".join(str(run.built) for run in runs[:2])))  # fmt: skip
    title = name or _identifier(function)
    again = partial(_first_run, function, tree, given, axes, holding, like=runs[0])
    made = methodcaller("program", title, parameters, tree, runs[0].built, holding.name)
    program = _decided(runs, axes, again, made)
    _verify(program, tree, runs[-1].tensors, runs[-1].results)
    return program


def _identifier(function: Any) -> str:
    found = type(function).__name__ if isinstance(function, Module) else getattr(function, "__name__", "program")
    return found if found.isidentifier() else "program"


def _parameters(call: Any, count: int) -> list[str]:
    """Return the names of the first `count` parameters of a function."""
    try:
        known = list(signature(call).parameters.values())
    except (TypeError, ValueError):
        known = []
    names = [p.name for p in known if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    return names + [f"x{k}" for k in range(len(names), count)]


def _axes(parameters: list[str], tree: Tree, dynamic: Dynamic) -> Axes:
    """Return name of a size -> (number of an input, axis) of all that have it."""
    unknown = [n for n in dynamic if n not in parameters]
    if unknown:
        raise ValueError(text(f"dynamic names {unknown[0]!r}, which is no argument", op="export",
                              needed=f"names among {', '.join(parameters)}"))  # fmt: skip
    found: Axes = {}
    at = 0
    for name, part in zip(parameters, tree.parts, strict=True):
        at = _note_axes(found, part, dynamic.get(name), f"dynamic[{name!r}]", at)
    return found


def _note_axes(found: Axes, tree: Tree, said: Any, where: str, at: int) -> int:
    """Note the sizes that are named for a part of the arguments; return the number of the next tensor.

    Raise ValueError for what is built otherwise than the arguments."""
    if tree.kind == "tensor":
        for axis, size in (said or {}).items():
            found.setdefault(str(size), []).append((at, int(axis)))
        return at + 1
    if (
        said is not None
        and tree.kind != "value"
        and (isinstance(said, Mapping) != (tree.kind == "dict") or len(said) != len(tree.parts))
    ):
        raise ValueError(text(f"{where} is built otherwise than the argument", op="export",
                              came=f"{type(said).__name__} of {len(said)}",
                              needed=f"a {tree.kind} of {len(tree.parts)}, None where nothing varies"))  # fmt: skip
    keys = tree.value if tree.kind == "dict" else range(len(tree.parts))
    for key, part in zip(keys, tree.parts, strict=True):
        inner = None if said is None else said.get(key) if isinstance(said, Mapping) else said[key]
        at = _note_axes(found, part, inner, f"{where}[{key!r}]", at)
    return at


# -- several runs ------------------------------------------------------------------------------------------------------


class _Run(NamedTuple):
    """One run of the function."""

    sizes: dict[str, int]
    tensors: list[Tensor]
    tape: Tape
    results: list[Any]
    built: Tree


def _runs(function: Any, tree: Tree, given: list[Tensor], axes: Axes, held: _Held) -> list[_Run]:
    """Return a run as given, one with each size changed, and two with all: at the last the program is tried.

    Where the function raises at larger sizes (a table of positions that ends), smaller ones are tried; where it does on
    values in another order (a column of classes), rows in another order, then the values as they are.
    """
    for name, places in axes.items():
        k, axis = places[0]
        if axis >= given[k].ndim or axis < 0:
            raise ValueError(text(f"dynamic names axis {axis} as {name!r}", op="export",
                                  came=f"a tensor of shape {tuple(given[k]._a.shape)}"))  # fmt: skip
    base = {name: int(given[places[0][0]]._a.shape[places[0][1]]) for name, places in axes.items()}
    first = {name: n if n > 1 else 3 for name, n in base.items()}  # one of a size broadcasts where others do not
    for _ in range(2):  # what is made once and kept (a mask, a table of positions) is there in the second
        runs = [_run(function, tree, held, _resized(given, axes, first, "as it is", 0), first)]
    plans = [[name] for name in axes] + ([list(axes)] if len(axes) > 1 else []) + [list(axes)]
    failed: Exception | None = None
    for seed, changed in enumerate(plans, 1):
        last = seed == len(plans)
        for sizes, order in _attempts(first, changed, last):
            try:
                runs.append(_run(function, tree, held, _resized(given, axes, sizes, order, seed), sizes))
                break
            except ExportError:
                raise
            except Exception as error:
                failed = failed or error
    if axes and len({tuple(run.sizes.items()) for run in runs}) < 2 + len(axes):
        came = ", ".join(f"{n} = {v}" for n, v in first.items())
        wanted = "two sizes more, to see what depends on them: larger, smaller, twice, three times, half or a quarter"
        remedy = "leave `dynamic` out, or example arguments in the middle of the sizes that the function takes"
        phrase = "cannot export this: the function runs at none of the other sizes that were tried"
        raise ExportError(text(phrase, op="export", came=f"{came}; elsewhere {type(failed).__name__}: {failed}",
                               needed=wanted, remedy=remedy)) from failed  # fmt: skip
    for name, n in first.items():  # far away, for what changes with a size, but rarely
        if 4 * sum(t._a.size for t in given) < _FAR:
            more = _first_run(function, tree, given, axes, held, [{**first, name: 4 * n + 13}], runs[0])
            runs[1:1] = [more] if more is not None else []
    return runs


def _decided(runs: list[_Run], axes: Axes, again: Callable[[Iterator[dict[str, int]]], _Run | None],
             made: Callable[[Joined], Program]) -> Program:  # fmt: skip
    """Return the program of the runs, to which one is added as often as they do not tell by which of two formulas a
    number came about. Where the function runs at no size that tells, it may be either."""
    settled: list[tuple[Formula, Formula]] = []
    asks = {True, False}  # of which kinds of pairs (`Undecided.blind`) more runs are made
    while True:
        try:
            return made(Joined([run.tape for run in runs], [run.sizes for run in runs], axes, settled, asks))
        except Undecided as undecided:
            blind = undecided.blind
            if len(runs) >= (_MOST_BLIND if blind else _MOST_RUNS):
                asks.discard(blind)
                continue
            more = again(_near(runs) if blind else _apart(*undecided.formulas, runs[0].sizes))
            if more is not None:
                runs.insert(1, more)
            elif blind:
                asks.discard(blind)
            else:
                settled.append(undecided.pair)


def _first_run(function: Any, tree: Tree, given: list[Tensor], axes: Axes, held: _Held,
               tried: Iterable[dict[str, int]], like: _Run) -> _Run | None:  # fmt: skip
    """Return a run at the first of some sizes at which the function runs, and goes the way of another run; None where
    it does at none of them. Where a comparison of sizes comes out otherwise, the program's guard will say so."""
    for sizes in tried:
        for order in ("all", "rows", "as it is"):
            try:
                run = _run(function, tree, held, _resized(given, axes, sizes, order, 1), sizes)
            except ExportError:
                raise
            except Exception:
                continue
            if _way(run) == _way(like):
                return run
            break
    return None


def _way(run: _Run) -> list[Any]:
    """Return how the comparisons of sizes came out."""
    return [(c.symbol, c.left, c.right, c.truth) for c in run.tape.comparisons]


def _apart(one: Formula, other: Formula, first: dict[str, int]) -> Iterator[dict[str, int]]:
    """Yield a few sizes at which two formulas differ: multiples, then the nearest."""
    found = 0
    steps = (way * k for k in range(1, 64) for way in (1, -1))
    near = ({name: n + step * (k + 1) for k, (name, n) in enumerate(first.items())} for step in steps)
    for sizes in chain(_multiples(first), near):
        if min(sizes.values()) < 2:
            continue
        try:
            differ = evaluate(one, sizes) != evaluate(other, sizes)
        except ArithmeticError:
            continue
        if differ:
            yield sizes
            found += 1
        if found == _TRIED:
            return


def _near(runs: Sequence[_Run]) -> Iterator[dict[str, int]]:
    """Yield sizes near the first run's at which none was made, where nobody can say at which two formulas differ; then
    multiples of them, where the function may run that halves a size several times."""
    first = runs[0].sizes
    near = [{name: n + step * (k + 1) for k, (name, n) in enumerate(first.items())} for step in (1, -1, 2, 4, -2)]
    for sizes in (*near, *_multiples(first)):
        if min(sizes.values()) > 1 and all(run.sizes != sizes for run in runs):
            yield sizes


def _multiples(first: dict[str, int]) -> list[dict[str, int]]:
    """Return sizes at which a function may run that halves a size several times."""
    ways: tuple[tuple[str | int, bool], ...] = (("multiples", False), (32, False), (32, True), ("multiples", True))
    return [{name: _another(n, 0, way, last) for name, n in first.items()} for way, last in ways]


def _attempts(first: dict[str, int], changed: list[str], last: bool) -> Iterator[tuple[dict[str, int], str]]:
    """Yield sizes, and orders of the values, to try in turn: a little larger, multiples of the size and of 32 and 64,
    a little smaller, half."""
    for way in ("larger", "multiples", 32, 64, "smaller", "half"):
        sizes = dict(first)
        for k, name in enumerate(first):
            if name in changed:
                sizes[name] = _another(first[name], k, way, last)
        if min(sizes.values(), default=2) < 2:
            continue
        for order in ("all", "rows", "as it is"):
            yield sizes, order


def _another(n: int, k: int, way: str | int, last: bool) -> int:
    """Return another size than n for the axis number k; for the last run one that no run before it had."""
    if isinstance(way, int):
        return (n // way + (2 if last else 1)) * way
    if way == "larger":
        return n + (7 + 3 * k if last else 3 + 2 * k)
    if way == "multiples":
        return (3 if last else 2) * n
    if way == "smaller":
        return n - (2 if last else 1)
    return n // (4 if last else 2)


def _resized(given: list[Tensor], axes: Axes, sizes: dict[str, int], order: str, seed: int) -> list[Tensor]:
    """Return the tensors at other sizes: what there is, repeated or cut, and its values in another order."""
    out = []
    for k, t in enumerate(given):
        a = t._a
        rng = np.random.default_rng(seed)
        for name, places in axes.items():
            for i, axis in places:
                if i == k:
                    a = np.take(a, np.arange(sizes[name]) % a.shape[axis], axis=axis)
                    a = rng.permutation(a, axis=axis) if order == "rows" else a
        a = np.array(a, order="C")
        if order == "all" and a.size:
            a = rng.permutation(a.reshape(-1)).reshape(a.shape)
        fresh = wrap(a, t._kind)
        fresh._requires_grad = t.requires_grad
        out.append(fresh)
    return out


def _run(function: Any, tree: Tree, held: _Held, tensors: list[Tensor], sizes: dict[str, int]) -> _Run:
    """Return one run: its tape, the arrays of its results and how they stand in the result."""
    kept = [wrap(t._a.copy(), t._kind) for t in tensors]
    tape = Tape(varies=bool(sizes))
    found: list[Tensor] = []
    arrays: list[Any] = []

    def whole(*given: Any) -> Tree:
        built = tree_of(function(*given), lambda x: isinstance(x, Tensor), found)
        arrays.extend(np.array(t._a) for t in found)  # now: an argument that was written is put back afterwards
        return built

    with held.kept():
        built = tape.run(whole, tree.built(iter(tensors)), tensors)
        held.check()
    tape.finish(found)
    if tape.error is not None:
        raise tape.error
    return _Run(sizes, kept, tape, arrays, built)


# -- what a function holds ---------------------------------------------------------------------------------------------


class _Held:
    """The modules, optimizers and tensors that a function reaches by its closure, its module or as itself."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.modules: list[Module] = []
        self.optimizers: list[tuple[str, Optimizer]] = []
        self.tensors: list[Tensor] = []

    def add(self, name: str, x: Any) -> None:
        if isinstance(x, Module):
            self.modules.append(x)
            for key, t in (*x.named_parameters(remove_duplicate=False), *x.named_buffers(remove_duplicate=False)):
                self.note(f"{name}.{key}" if name else key, t)
        elif isinstance(x, Optimizer):
            self.optimizers.append((name, x))
            for p, state in x.state.items():
                for key, t in state.items():
                    if isinstance(t, Tensor):
                        self.note(f"{name}.{self.names.get(id(p), 'p')}.{key}", t)
        elif isinstance(x, Tensor):
            self.note(name, x)

    def name(self, t: Tensor) -> str:
        """Return what a tensor is called."""
        return self.names.get(id(t), "constant")

    def note(self, name: str, t: Tensor) -> None:
        if id(t) not in self.names:
            self.names[id(t)] = name
            self.tensors.append(t)

    def check(self) -> None:
        """Raise ExportError where an optimizer made its state in this run: a program holds it from the start."""
        for name, optimizer in self.optimizers:
            held = [t for s in optimizer.state.values() for t in s.values() if isinstance(t, Tensor)]
            if any(id(t) not in self.names for t in held):
                raise ExportError(text(f"cannot export this: {name} makes its state in its first step", op="export",
                                       remedy="run one step before the export"))  # fmt: skip

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Put back, at the end of the block, the gradients of the parameters and the state of the optimizers."""
        gradients = [(t, t._grad, None if t._grad is None else t._grad._a.copy()) for t in self.tensors]
        states = [(o, {p: dict(s) for p, s in o.state.items()}) for _, o in self.optimizers]
        try:
            yield
        finally:
            for t, g, a in gradients:
                t._grad = g
                if g is not None:
                    g._a[...] = a
            for o, state in states:
                o.state.clear()
                o.state.update(state)


def _held(function: Any) -> _Held:
    held = _Held()
    if isinstance(function, Module):
        held.add("", function)
        return held
    if isinstance(getattr(function, "__self__", None), Module):
        held.add("", function.__self__)
    code = getattr(function, "__code__", None)
    found: dict[str, Any] = {}
    if code is not None:
        cells = function.__closure__ or ()
        for name, cell in zip(code.co_freevars, cells, strict=True):
            try:
                found[name] = cell.cell_contents
            except ValueError:
                continue
        found |= {n: function.__globals__[n] for n in code.co_names if n in function.__globals__}
    for kind in (Module, Optimizer, Tensor):
        for name, x in found.items():
            if isinstance(x, kind):
                held.add(name, x)
    return held


def _verify(program: Program, tree: Tree, tensors: list[Tensor], expected: list[Any]) -> None:
    """Raise ExportError unless the program gives, on data that it was not made from, what the function gave."""
    kept = dict(program.state)
    args = tree.built(iter([wrap(t._a.copy(), t._kind) for t in tensors]))
    with no_grad():
        try:
            found: list[Tensor] = []
            tree_of(program(*args), lambda x: isinstance(x, Tensor), found)
        finally:
            program.state.clear()
            program.state.update(kept)
    for value, t, wanted in zip(program.outputs, found, expected, strict=True):
        if t._a.shape != wanted.shape or not np.allclose(t._a, wanted, rtol=1e-3, atol=1e-4, equal_nan=True):
            phrase = "cannot export this: on other data the program gives something else than the function"
            raise ExportError(text(phrase, op="export", came=f"the result {value!r} differs",
                                   needed="what depends on the arguments computed by ops of core",
                                   remedy="no values kept from run to run: caches, counters, globals"))  # fmt: skip
