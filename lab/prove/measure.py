"""What a trial measures while a cell runs, apart from the recorder: losses, gradients, steps, times, values.

The process is thrown away afterwards, so `backward` may be wrapped and statements may be marked. The measuring's own
time is kept apart.
"""

from __future__ import annotations

import ast
import gc
import math
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, Self

import numpy as np

from core.base import syntax
from core.base.pytorch import libraries

from .values import digest, histories

NODES = 20_000  # of a graph that are looked at for leaves
OURS = 2  # references to a leaf that nobody else has: the row's, and the question's own
LARGE = 1 << 18  # values of a tensor
EVERY = 8  # the graph is looked at anew in the first passes of each line, and in one of so many later ones


class Enough(BaseException):
    """The cell has run as many backward passes as it was asked to."""


class _Marker(ast.NodeTransformer):
    """Puts a call that notes the line before every statement."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            old = getattr(node, field, None)
            if isinstance(old, list) and old and isinstance(old[0], ast.stmt):
                new: list[ast.stmt] = []
                for k, statement in enumerate(old):
                    text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                    future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
                    if not (k == 0 and text) and not future:
                        name = ast.Name(self.mark, ast.Load())
                        call = ast.Call(name, [ast.Constant(statement.lineno)], [])
                        new.append(ast.copy_location(ast.Expr(call), statement))
                    new.append(statement)
                setattr(node, field, new)
        return node


def marked(python: str, file: str, mark: str) -> ast.Module:
    """Return the tree of a text in which every statement calls `mark` with its line when it begins."""
    tree = _Marker(mark).visit(syntax.parse(python, file))
    return ast.fix_missing_locations(tree)  # type: ignore[no-any-return]


class _Leaf:
    """A tensor that backward() reached, and what has become of it since."""

    def __init__(self, tensor: Any) -> None:
        self.tensor, self.first = tensor, _sum(tensor)
        self.last, self.had, self.graded, self.stepped = self.first, False, False, False
        self.finite, self.rms = True, 0.0

    def before(self) -> tuple[bool, bool]:
        """Whether a gradient is left from before a step, and whether one has gone without a step."""
        now, has = _sum(self.tensor), _norm(self.tensor.grad) != 0.0
        moved = now != self.last
        self.stepped |= moved
        return has and moved and self.had, self.had and not has and not moved

    def row(self, name: str, held: bool, optimized: bool, reached: bool = True) -> dict[str, Any]:
        """Return what is told of it; `held`: a module or an optimizer has it, `optimized`: an optimizer does."""
        moved = self.stepped or _sum(self.tensor) != self.first
        return {"name": name, "shape": list(self.tensor.shape), "graded": self.graded, "finite": self.finite,
                "held": held, "optimized": optimized, "reached": reached, "moved": moved, "rms": self.rms}  # fmt: skip

    def after(self) -> None:
        norm = _norm(self.tensor.grad)
        self.had, self.last = norm != 0.0, _sum(self.tensor)
        self.finite &= math.isfinite(norm)
        if self.had and math.isfinite(norm):
            if not self.graded:
                self.rms = norm / max(self.tensor.numel(), 1) ** 0.5
            self.graded = True


class Measured:
    """Watches a cell's run. `with` it around the run; `told()` is what was measured."""

    MARK = "__gradlab_ran__"

    def __init__(self, space: dict[str, Any], steps: int = 0) -> None:
        self.space, self.steps = space, steps
        self.lines: Counter[int] = Counter()
        self.there: Counter[int] = Counter()  # of another source that a patch changes
        self.losses: list[float] = []
        self.passes = self.taken = self.empty = self.stale = self.wasted = self.inside = self.in_eval = self.bare = 0
        self.own_ns = 0
        self.leaves: dict[int, _Leaf] = {}
        self.began: Counter[tuple[Any, int]] = Counter()  # passes by the place in the code that asks for them
        self.held: set[int] = set()  # what an optimizer steps
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        for library in libraries():
            if hasattr(library, "Tensor"):
                self._wrap(library.Tensor, "backward", scalar=True)
                self._wrap(library.autograd, "grad", scalar=False)
                with suppress(AttributeError):
                    handle = library.optim.optimizer.register_optimizer_step_pre_hook(self._stepping)
                    self._undo.append(handle.remove)
        return self

    def __exit__(self, *_: object) -> None:
        for undo in self._undo:
            undo()

    def _wrap(self, owner: Any, name: str, scalar: bool) -> None:
        was = getattr(owner, name)

        @wraps(was)
        def backward(*args: Any, **keywords: Any) -> Any:
            if self.inside:  # the one calls the other
                return was(*args, **keywords)
            tensor = args[0] if args else keywords.get("outputs")
            own = time.process_time_ns()
            frame = sys._getframe(1)
            self._before(tensor, (frame.f_code, frame.f_lineno))
            self.own_ns += time.process_time_ns() - own
            self.inside += 1
            try:
                out = was(*args, **keywords)
            finally:
                self.inside -= 1
            own = time.process_time_ns()
            self._after(tensor, scalar)
            self.own_ns += time.process_time_ns() - own
            if self.steps and self.passes >= self.steps:
                raise Enough
            return out

        setattr(owner, name, backward)
        self._undo.append(lambda: setattr(owner, name, was))

    def _before(self, tensor: Any, place: tuple[Any, int]) -> None:
        self.bare += getattr(tensor, "is_leaf", False)  # a loss that nothing leads to
        if self.began[place] < 3 or self.began[place] % EVERY == 0:
            for leaf in _leaves(tensor):
                self.leaves.setdefault(id(leaf), _Leaf(leaf))
        self.began[place] += 1
        looked = [leaf.before() for leaf in self.leaves.values()]
        self.stale += any(stale for stale, _ in looked)
        self.wasted += any(wasted for _, wasted in looked)

    def _after(self, tensor: Any, scalar: bool) -> None:
        self.passes += 1
        if scalar and tensor.numel() == 1:
            self.losses.append(float(tensor.detach()))
        for leaf in self.leaves.values():
            leaf.after()
        roots = [v for v in self.space.values() if hasattr(v, "named_parameters") and not isinstance(v, type)]
        mine = set(self.leaves)
        self.in_eval += any(not r.training and any(id(p) in mine for p in r.parameters()) for r in roots)

    def _stepping(self, optimizer: Any, *_: Any) -> None:
        own = time.process_time_ns()
        self.taken += 1
        held = [p for group in optimizer.param_groups for p in group["params"]]
        self.held.update(map(id, held))
        self.empty += not any(_norm(p.grad) != 0.0 for p in held)
        self.own_ns += time.process_time_ns() - own

    def _living(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the rows without those of leaves that are gone and that another one of their shape has followed."""
        gc.collect()  # optimizers and models that are gone may have been in circles
        gone = [sys.getrefcount(leaf.tensor) <= OURS for leaf in self.leaves.values()]
        shapes = [row["shape"] for row, dead in zip(rows, gone, strict=True) if not dead]
        return [row for row, dead in zip(rows, gone, strict=True) if not dead or row["shape"] not in shapes]

    def ran(self, line: int) -> None:
        """A statement of a line begins."""
        self.lines[line] += 1

    def ran_there(self, line: int) -> None:
        """A statement of the other source begins."""
        self.there[line] += 1

    def told(self) -> dict[str, Any]:
        """Return all that was measured, as JSON has it."""
        for leaf in self.leaves.values():
            leaf.stepped |= _sum(leaf.tensor) != leaf.last
        names, listed = _names(self.space)
        held = {id(p): p for p in listed}
        rows = [
            leaf.row(names.get(key, "a tensor"), key in held or key in self.held, key in self.held)
            for key, leaf in self.leaves.items()
        ]
        rows = self._living(rows)
        rows += [_Leaf(p).row(names[key], True, False, False) for key, p in held.items() if key not in self.leaves]
        self.space.pop(self.MARK, None)
        return {
            "losses": self.losses, "passes": self.passes, "steps": self.taken, "empty": self.empty, "stale": self.stale,
            "wasted": self.wasted, "in_eval": self.in_eval, "bare": self.bare, "leaves": rows,
            "lines": sorted(self.lines.items()), "there": sorted(self.there.items()),
            "values": {name: d for name, value in self.space.items() if (d := digest(name, value)) is not None},
            "history": histories(self.space),
        }  # fmt: skip


def _names(space: dict[str, Any]) -> tuple[dict[int, str], list[Any]]:
    """Names of parameters by their identity, and those of them that modules list."""
    names: dict[int, str] = {}
    listed = []
    for name, value in list(space.items()):
        if name.startswith("_") or isinstance(value, type):
            continue
        if hasattr(value, "named_parameters"):
            for inner, p in value.named_parameters():
                if id(p) not in names and p.requires_grad:
                    names[id(p)] = f"{name}.{inner}"
                    listed.append(p)
        elif getattr(value, "is_leaf", False) and getattr(value, "requires_grad", False):
            names.setdefault(id(value), name)
    return names, listed


def _leaves(tensor: Any) -> list[Any]:
    """The leaves that a backward pass from a tensor, or from several, will reach."""
    roots = tensor if isinstance(tensor, list | tuple) else [tensor]
    found = [t for t in roots if getattr(t, "is_leaf", False) and getattr(t, "requires_grad", False)]
    stack = [t.grad_fn for t in roots if getattr(t, "grad_fn", None) is not None]
    seen: set[Any] = set()
    while stack and len(seen) < NODES:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.append(variable)
        with suppress(Exception):  # a graph that is freed
            stack += [following for following, _ in node.next_functions if following is not None]
    return found


def _sum(tensor: Any) -> float:
    """A number that a change of a tensor changes; of a large one the sum of its bits, in a tenth of the time."""
    with suppress(Exception):
        if tensor.numel() > LARGE:
            return float(tensor.detach().numpy().ravel().view(np.int32).sum(dtype=np.int64))
    with suppress(Exception):
        flat = tensor.detach().double()
        return float(flat.sum()) + 0.5 * float((flat * flat).sum())
    return 0.0


def _norm(grad: Any) -> float:
    """The 2-norm of a gradient; 0.0 where there is none."""
    if grad is None:
        return 0.0
    with suppress(Exception):
        flat = grad.detach()
        flat = flat.coalesce().values() if getattr(flat, "is_sparse", False) else flat
        if flat.numel() > LARGE and math.isfinite(norm := float(np.linalg.norm(flat.numpy().ravel()))):
            return norm
        return float((flat.double() ** 2).sum()) ** 0.5
    return 0.0
