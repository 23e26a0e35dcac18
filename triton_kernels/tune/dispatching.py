"""One choice for many shapes: several shapes tuned together, and a small tree that says which config a call takes.

Each shape is tuned with what the shapes before it have taught (`recall`); then every winner is measured at every shape,
and the tree is grown from these times. At each boundary of the tree both sides' configs are checked and timed: a config
that is wrong there is taken for none of them, and a boundary moves to where the faster one changes.
"""

from __future__ import annotations

import json
import keyword
import math
import textwrap
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from . import dispatch_tree as trees
from .attempt import BUILD_LIMIT_S
from .dispatch_tree import Leaf, Shape, Split, Tree
from .measure import Failed
from .problem import Problem, find, known, parse_shape
from .session import Session, seconds_of
from .space import Config
from .store import Store
from .worker import worker_for

OF_EACH = 3  # configs of a shape's session that are measured at all shapes, its winner first
_ROUNDS, _ROUND_LIMIT_S = 7, 120.0
_CLEAR = 1.02  # a config is faster beyond a boundary if the other takes so much longer there


@dataclass(frozen=True)
class Boundary:
    """What was seen at a split: at the shape just on its nearer side the config there takes `ratio` of the time of the
    one beyond; `moved` is the value that the tree had been grown with, where it was moved."""

    axis: str
    shape: Shape
    ratio: float
    moved: Any = None


@dataclass
class Dispatch:
    """A tree of configs for a kernel, and how good it is.

    times : ms by shape and config, infinite where one failed. regret : by shape, how much longer the tree's config
    takes than the best that was measured there; `mean_regret` of them. default : the kernel's own, in place of a config
    that was wrong at a boundary.
    """

    kernel: str
    dtype: str
    device: str
    axes: tuple[str, ...]
    tree: Tree
    default: Config
    shapes: tuple[Shape, ...]
    configs: tuple[Config, ...]
    times: np.ndarray
    boundaries: list[Boundary] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def config(self, *shape: Any) -> Config:
        """Return the config for a shape."""
        if len(shape) != len(self.axes):
            raise ValueError(f"{self.kernel} has the sizes {', '.join(self.axes)}; came: {shape}")
        return trees.leaf_of(self.tree, shape).config

    @property
    def leaves(self) -> int:
        """How many leaves the tree has."""
        return sum(1 for _ in trees.leaves(self.tree))

    @property
    def regret(self) -> dict[Shape, float]:
        """How much longer the tree's config takes at each shape than the best there, as a share."""
        best = self.times.min(axis=1)
        chosen = [self.times[k, self.configs.index(self.config(*s))] for k, s in enumerate(self.shapes)]
        return {s: float(c / b - 1.0) for s, c, b in zip(self.shapes, chosen, best, strict=True)}

    @property
    def mean_regret(self) -> float:
        """Return the mean of the shapes' regrets, as a share."""
        return float(np.mean(list(self.regret.values())))

    def of_one(self) -> float:
        """Return the mean regret of the one config that is best for all shapes together."""
        ratios = self.times / self.times.min(axis=1, keepdims=True)
        return float(ratios.mean(axis=0).min() - 1.0)

    # -- as text -------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        """The tree, and a line for each shape."""
        lines = [self.to_python(), "", f"{'shape':>20}  {'ms':>10}  {'own best':>10}  regret"]
        for k, (shape, regret) in enumerate(self.regret.items()):
            ms, best = self.times[k, self.configs.index(self.config(*shape))], self.times[k].min()
            lines.append(f"{'x'.join(map(str, shape)):>20}  {ms:10.4g}  {best:10.4g}  {100 * regret:5.1f} %")
        lines.append(f"mean regret {100 * self.mean_regret:.1f} % with {self.leaves} configs; "
                     f"{100 * self.of_one():.1f} % with the best single one")  # fmt: skip
        return "\n".join(lines + self.notes)

    def to_python(self, name: str = "choose") -> str:
        """Return a Python function of the sizes that returns the config.

        >>> tree = Split(0, 22, Leaf({"B": 1}, ((8,),)), Leaf({"B": 2}, ((64,),)))
        >>> times = np.array([[1.0, 2.0], [2.0, 1.0]])
        >>> made = Dispatch("k", "float32", "a GPU", ("n",), tree, {"B": 1}, ((8,), (64,)), ({"B": 1}, {"B": 2}), times)
        >>> print(made.to_python())
        def choose(n):
            \"""Return the config of k in float32 on a GPU: measured at 2 shapes, mean regret 0.0 %.\"""
            if n <= 22:
                return {'B': 1}
            return {'B': 2}
        """
        said = (f'"""Return the config of {self.kernel} in {self.dtype} on {self.device}: measured at '
                f'{len(self.shapes)} shapes, mean regret {100 * self.mean_regret:.1f} %."""')  # fmt: skip
        return "\n".join([f"def {name}({', '.join(self.axes)}):", f"    {said}",
                          *trees.as_lines(self.tree, self.axes, lambda c: f"return {c!r}")])  # fmt: skip

    def to_triton(self) -> str:
        """Return what stands above a `@triton.jit` kernel whose arguments have the axes' names: its heuristics."""
        sizes = ", ".join(f'args["{a}"]' for a in self.axes)
        given = [f'    "{name}": lambda args: choose({sizes})["{name}"],' for name in self.default]
        return "\n".join(["import triton", "", "", self.to_python(), "", "", "@triton.heuristics({", *given, "})"])

    def to_json(self) -> str:
        """Return the tree and what it rests on; `from_json` reads it."""
        times = [[t if math.isfinite(t) else None for t in row] for row in self.times.tolist()]
        return json.dumps({"kernel": self.kernel, "dtype": self.dtype, "device": self.device, "axes": self.axes,
                           "tree": trees.to_json(self.tree), "default": self.default, "shapes": self.shapes,
                           "configs": self.configs, "times_ms": times, "notes": self.notes}, indent=1)  # fmt: skip


def from_json(text: str) -> Dispatch:
    """Return what `Dispatch.to_json` wrote. *Raises*: ValueError."""
    try:
        found = json.loads(text)
        times = np.array([[math.inf if t is None else t for t in row] for row in found["times_ms"]], float)
        return Dispatch(found["kernel"], found["dtype"], found["device"], tuple(found["axes"]),
                        trees.from_json(found["tree"]), found["default"], tuple(tuple(s) for s in found["shapes"]),
                        tuple(found["configs"]), times, notes=list(found["notes"]))  # fmt: skip
    except (KeyError, TypeError) as error:
        raise ValueError(f"this is no dispatch: {type(error).__name__}: {error}") from None


def dispatch(
    kernel: str | Callable[[Shape], Problem],
    shapes: Sequence[str | Shape],
    dtype: str = "float32",
    *,
    axes: Sequence[str] = (),
    leaves: int = 6,
    budget: float | str = "120s",
    target: str | None = None,
    store: Store | None = None,
    say: Callable[[str], object] = lambda line: None,
    **options: Any,
) -> Dispatch:
    """Tune several shapes of a kernel together, and return the tree that chooses among their configs.

    kernel : a name that `find` knows, or a function that makes the problem of a shape. axes : what the sizes are
    called, as in the kernel's arguments; by default what `known` says. leaves : at most so many. budget : seconds for
    all shapes' searches. store : where trials are kept, by default the user's own; it is how a shape learns from
    another. say : is told what is being done. options : `Session`'s.

    *Raises*: ValueError where fewer than two shapes came, or none of the configs runs at one of them.
    """
    sizes = [parse_shape(s) if isinstance(s, str) else tuple(s) for s in shapes]
    if len(set(sizes)) < 2:
        raise ValueError(f"dispatch chooses among shapes: at least two are needed, came: {len(set(sizes))}")
    problem_at = kernel if callable(kernel) else lambda shape: find(kernel, shape, dtype, target)
    problems = [problem_at(shape) for shape in sizes]
    each = seconds_of(budget) / len(problems)
    with store or Store() as kept:
        candidates = [problems[0].space.default]
        for shape, problem in zip(sizes, problems, strict=True):
            session = Session(problem, budget=each, store=kept if problem.measure.apart else None, **options)
            for _ in session:
                pass
            candidates += _of(session)
            say(f"{'x'.join(map(str, shape))}: {session.result.verdict if session.result else 'stopped'}")
    configs = [c for k, c in enumerate(candidates) if c not in candidates[:k]]
    say(f"{len(configs)} configs at {len(sizes)} shapes")
    times = np.array([times_at(problem, configs) for problem in problems])
    first = problems[0]
    named = tuple(axes) or _axes(first.kernel, len(sizes[0]))
    made = Dispatch(first.kernel, first.dtype, first.device, named, trees.grow(sizes, configs, times, leaves),
                    first.space.default, tuple(sizes), tuple(configs), times)  # fmt: skip
    _look_at_boundaries(made, problem_at, say)
    return made


def _of(session: Session) -> list[Config]:
    """Return the best configs of a session, the winner first."""
    result = session.result
    if result is None:
        return []
    return [place.config for place in result.top[:OF_EACH]]


def _axes(kernel: str, count: int) -> tuple[str, ...]:
    """Return what a kernel's sizes are called: those that `known` says where they are names in Python."""
    words = known().get(kernel, "").partition(",")[0].split("x")
    named = len(words) == count and all(w.isidentifier() and not keyword.iskeyword(w) for w in words)
    return tuple(words) if named else tuple(f"n{k}" for k in range(count))


# -- measuring ---------------------------------------------------------------------------------------------------------


def times_at(problem: Problem, configs: Sequence[Config]) -> list[float]:
    """Return the time of each config at a problem's shape in ms, taken in turn; infinite where one is not right."""
    times = [math.inf] * len(configs)
    worker = worker_for(problem.measure, threading.Event())
    try:
        right = []
        for k, config in enumerate(configs):
            try:
                worker.call("build", config, limit_s=BUILD_LIMIT_S)
                worker.call("check", config, 0, False, limit_s=BUILD_LIMIT_S)
                right.append(k)
            except (Failed, KeyError):  # recorded spaces of several devices need not have the same configs
                continue
        asked = [configs[k] for k in right]
        rounds = 1 if problem.measure.steady else _ROUNDS
        found = worker.call("rounds", asked, rounds, 0, limit_s=_ROUND_LIMIT_S) if asked else []
    finally:
        worker.close()
    for k, each in zip(right, found, strict=True):
        times[k] = float(np.median(each))
    return times


def _look_at_boundaries(made: Dispatch, problem_at: Callable[[Shape], Problem], say: Callable[[str], object]) -> None:
    """Check and time both sides' configs at each boundary; move it, and take the default for a config that is wrong."""

    def look(tree: Tree) -> Tree:
        if not isinstance(tree, Split) or isinstance(tree.at, str):
            return tree
        k = tree.axis
        low = max(trees.leaves(tree.then), key=lambda leaf: max(s[k] for s in leaf.shapes))
        high = min(trees.leaves(tree.other), key=lambda leaf: min(s[k] for s in leaf.shapes))
        nearest = max(low.shapes, key=lambda s: s[k])
        if tree.at == nearest[k]:  # nothing lies between the shapes that were measured
            return tree
        at, beyond = ((*nearest[:k], n, *nearest[k + 1 :]) for n in (tree.at, tree.at + 1))
        try:
            mine, other = times_at(problem_at(at), [low.config, high.config])
            (after,) = times_at(problem_at(beyond), [high.config])
        except ValueError as error:  # a size between two others that the kernel does not take
            made.notes.append(f"not looked at: {made.axes[k]} = {tree.at} ({error})")
            return tree
        for leaf, time, shape in ((low, mine, at), (high, after, beyond)):
            if math.isinf(time):
                made.notes.append(f"{leaf.config} is not right at {shape}: the default is taken in its place")
                tree = trees.changed(tree, partial(_in_place_of, leaf, made.default))
        moved = None
        if isinstance(tree, Split) and mine > _CLEAR * other:  # the other side's config is faster here already
            moved, tree = tree.at, replace(tree, at=trees.between(nearest[k], tree.at))
        share = mine / other if math.isfinite(mine) and math.isfinite(other) else math.nan
        made.boundaries.append(Boundary(made.axes[k], at, share, moved))
        say(f"at {made.axes[k]} = {at[k]} the config takes {share:.2f} of the one beyond")
        return tree

    made.tree = trees.changed(made.tree, look)


def _in_place_of(leaf: Leaf, config: Config, part: Tree) -> Tree:
    return Leaf(config, leaf.shapes) if part is leaf else part


def described(made: Dispatch) -> str:
    """Return in words what the tree rests on, wrapped."""
    worst = max(made.regret.items(), key=lambda item: item[1])
    moved = [f"{b.axis} = {b.moved}" for b in made.boundaries if b.moved is not None]
    said = (
        f"{made.kernel} in {made.dtype} on {made.device}: {made.leaves} configs for {len(made.shapes)} shapes, mean "
        f"regret {100 * made.mean_regret:.1f} %, most {100 * worst[1]:.1f} % at {'x'.join(map(str, worst[0]))}; "
        f"one config for all: {100 * made.of_one():.1f} %."
    )
    if moved:
        said += f" Boundaries that were moved down: {'; '.join(moved)}."
    return "\n".join(textwrap.wrap(said, 100))
