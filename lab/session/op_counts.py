"""The count-only form of `%autograd`: what a cell did in one line, read off counters that cost its ops nothing.

No observer listens. Ops are the numbers that graph nodes were given, so those that record no history are not among
them; passes and steps are counted once each. When the cell has run, the user's own tensors and the parameters of their
modules are looked at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

from core.base.pytorch import pytorch
from core.events import observe
from core.graph import node
from core.tensors.tensor import Tensor

from ..adapters.arrays import values
from ..recorder import tensor_stats
from ..recorder.variable_names import is_module

NAMED = 3  # parameters that a remark names
LOOKED_AT = 1 << 26  # values that are looked at when a cell has run


@dataclass(frozen=True)
class Counts:
    """What one cell did: ops recorded on the graph, backward passes, steps of optimizers, and what is amiss."""

    ops: int
    passes: int
    steps: int
    wall_ms: float
    remarks: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.ops or self.passes or self.steps)

    def __str__(self) -> str:
        """One line, and one for each remark.

        >>> print(Counts(1067, 12, 12, 1300.0, ["fc.weight holds NaN"]))
        autograd: 1,067 ops recorded, 12 backward passes, 12 optimizer steps in 1.30 s
          fc.weight holds NaN: %%autograd on this cell shows where it began
        """
        parts = [f"{count:,} {_plural(name, count)}{after}" for name, count, after in (
            ("op", self.ops, " recorded"), ("backward pass", self.passes, ""), ("optimizer step", self.steps, ""))
            if count]  # fmt: skip
        took = f"{self.wall_ms / 1000:.2f} s" if self.wall_ms >= 1000 else f"{self.wall_ms:.1f} ms"
        lines = [f"autograd: {', '.join(parts)} in {took}"]
        lines += [f"  {remark}: %%autograd on this cell shows where it began" for remark in self.remarks]
        return "\n".join(lines)


class Counter:
    """Counts from its making to `stop`.

    >>> import core
    >>> counter = Counter()
    >>> w = core.ones(2, requires_grad=True)
    >>> (w * w).sum().backward()
    >>> counts = counter.stop({"w": w})
    >>> counts.ops, counts.passes, counts.steps, counts.remarks
    (2, 1, 0, [])
    """

    def __init__(self, space: Mapping[str, Any] | None = None) -> None:
        self._known = {} if space is None else _known(space)
        self._ops, self._other = node.newest(), _other()
        self._passes, self._steps = observe.tally.passes, observe.tally.steps
        self._start = perf_counter_ns()

    def stop(self, space: Mapping[str, Any]) -> Counts:
        """Return what was done since then; `space` holds the user's variables."""
        wall_ms = (perf_counter_ns() - self._start) / 1e6
        ops = node.newest() - self._ops
        other = _other()
        if other is not None and self._other is not None:
            ops += max(other - self._other - 1, 0)  # asking is an op of its own
        passes, steps = observe.tally.passes - self._passes, observe.tally.steps - self._steps
        counts = Counts(ops, passes, steps, wall_ms)
        return Counts(ops, passes, steps, wall_ms, remarks(space, self._known)) if counts else counts


def _known(space: Mapping[str, Any]) -> dict[str, Any]:
    """Return what shows, when the cell has run, whether it is the cell's doing: each module's gradients, each loose
    NaN."""
    known: dict[str, Any] = {owner: _graded(space[owner]) for owner in _modules(space)}
    for name, value in list(space.items()):
        if not name.startswith("_") and _is_tensor(value) and _size(value) == 1 and _wrong(value):
            known[name] = id(value)
    return known


def _graded(module: Any) -> list[tuple[int, int] | None]:
    """Return which gradients its parameters have, and how often they were written into."""
    grads = [p.grad for p in module.parameters() if p.requires_grad]
    return [None if g is None else (id(g), g._version) for g in grads]


def _wrong(t: Any) -> str:
    """Of a tensor of one value: that it is NaN, or infinite; "" of others."""
    a = _array(t)
    if a.dtype.kind != "f" or tensor_stats.finite(a):
        return ""
    return "NaN" if bool((a != a).any()) else "infinite"


def _other() -> int | None:
    """Return the number that PyTorch, where it is imported, gives to the next op; None where it cannot be asked."""
    library = pytorch()
    if library is None or not hasattr(library, "autograd"):
        return None
    try:
        with library.enable_grad():
            return int((library.ones((), requires_grad=True) * 1).grad_fn._sequence_nr())
    except Exception:  # another version, or a package of the same name
        return None


def remarks(space: Mapping[str, Any], known: Mapping[str, Any] | None = None) -> list[str]:
    """Return what is plainly amiss with the user's tensors: values that are not finite, parameters left without
    gradient.

    known : what `_known` said before the cell; what has stayed as it was is not told again.

    >>> import core
    >>> remarks({"loss": core.tensor(float("nan")), "x": core.ones(2)})
    ['loss is NaN']
    """
    found: list[str] = []
    bad: list[str] = []
    without: list[str] = []
    budget = LOOKED_AT
    for owner in _modules(space):
        parameters = [(f"{owner}.{name}", p) for name, p in space[owner].named_parameters() if p.requires_grad]
        graded = [p.grad is not None for _, p in parameters]
        if any(graded) and (known or {}).get(owner) != _graded(space[owner]):
            without += [name for (name, _), has in zip(parameters, graded, strict=True) if not has]
        for name, p in parameters:
            budget -= _size(p)
            if budget >= 0 and not tensor_stats.finite(_array(p)):
                bad.append(name)
    for name, value in list(space.items()):
        if not name.startswith("_") and _is_tensor(value) and _size(value) == 1:
            wrong = _wrong(value)
            if wrong and (known or {}).get(name) != id(value):
                found.append(f"{name} is {wrong}")
    if bad:
        found.append(f"{_some(bad)} {'holds' if len(bad) == 1 else 'hold'} NaN or infinity")
    if without:
        found.append(f"{_some(without)} got no gradient, others of the same module did")
    return found


def _modules(space: Mapping[str, Any]) -> Iterator[str]:
    """Yield the variables that are modules, each module once, those inside another one left out."""
    named = {k: v for k, v in list(space.items()) if not k.startswith("_") and is_module(v) and not isinstance(v, type)}
    inner = {id(m) for v in named.values() for m in list(v.modules())[1:]}
    seen: set[int] = set()
    for name, module in named.items():
        if id(module) not in inner and id(module) not in seen:
            seen.add(id(module))
            yield name


def _is_tensor(value: Any) -> bool:
    if isinstance(value, Tensor):
        return True
    library = pytorch()
    return library is not None and isinstance(value, getattr(library, "Tensor", ()))


def _size(t: Any) -> int:
    return int(t._a.size if isinstance(t, Tensor) else t.numel())


def _array(t: Any) -> Any:
    return t._a if isinstance(t, Tensor) else values(t)


def _some(names: list[str]) -> str:
    more = len(names) - NAMED
    if more <= 0:
        return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"{', '.join(names[:NAMED])} and {more} more"


def _plural(name: str, count: int) -> str:
    return name if count == 1 else name + ("es" if name.endswith("s") else "s")
