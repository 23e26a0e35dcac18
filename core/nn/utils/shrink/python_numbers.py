"""Numbers of Python's that have to change with the shapes: ``self.num_heads``, ``x.view(b, t, self.heads, -1)``.

While the model is traced, the whole numbers that its modules hold and the sizes of tensors remember where they come
from (`core.export.sizes.Dim`). What an op is called with is then a formula of attributes and sizes, and it is known
what it has to be once something is removed: the number of indices that are left of an axis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

from ....export.sizes import COMPARISONS, Dim, Formula, evaluate, formula_of, leaves
from ...modules.module import Module
from .atoms import Axis

_OURS = {
    "groups",
    "num_groups",
    "num_heads",
    "embed_dim",
    "num_features",
    "num_channels",
    "unflattened_size",
    "d_model",
}  # what core.nn's decide by


class Attribute(NamedTuple):
    """A whole number that a module holds: in `holder` (its `__dict__`, or a settings object's) under `name`; in a tuple
    or list the one at `place`."""

    owner: str
    name: str
    place: int | None = None

    def __str__(self) -> str:
        return f"{self.owner}.{self.name}".lstrip(".") + ("" if self.place is None else f"[{self.place}]")


class Number(NamedTuple):
    """A formula and what it has to be: the number of indices left of an axis, or of another axis, or as it compared."""

    formula: Formula
    left_of: Axis | None
    op: str
    place: Any
    other: Any = None  # an axis that has to keep as many; of a comparison (symbol, the other side, truth)

    @property
    def attribute(self) -> Any:
        """The attribute that the formula is, where it is nothing more."""
        f = self.formula
        bare = self.other is None and isinstance(f, tuple) and f[0] == "size" and f[2] == "attribute"
        return f[1] if bare else None


class Held:
    """The whole numbers of a model's modules, which can be made to remember whose they are, and be set."""

    def __init__(self, model: Module) -> None:
        self._places: dict[Attribute, tuple[Any, Any]] = {}  # -> what holds it (a dict), its key
        self.values: dict[Attribute, int] = {}
        seen: set[int] = set()
        for path, module in model.named_modules():
            ours = type(module).__module__.startswith("core.nn.")
            self._note(path, vars(module), seen, _OURS if ours else None)

    def _note(self, path: str, held: dict[str, Any], seen: set[int], only: set[str] | None) -> None:
        for name, value in held.items():
            if name.startswith("_") or (only is not None and name not in only):
                continue
            if type(value) is int:
                self._places[Attribute(path, name)] = held, name
                self.values[Attribute(path, name)] = value
            elif type(value) in (tuple, list):
                for k, v in enumerate(value):
                    if type(v) is int:
                        self._places[Attribute(path, name, k)] = held, name
                        self.values[Attribute(path, name, k)] = v
            elif id(value) not in seen and only is None:
                settings = dataclasses.is_dataclass(value) and not isinstance(value, type)
                if settings or isinstance(value, SimpleNamespace) or type(value) is dict:
                    seen.add(id(value))
                    inner = value if type(value) is dict else vars(value)
                    if all(isinstance(k, str) for k in inner):
                        self._note(f"{path}.{name}".lstrip("."), inner, seen, None)

    def set(self, values: Mapping[Attribute, int]) -> None:
        """Give attributes other numbers."""
        for attribute, number in values.items():
            holder, key = self._places[attribute]
            if attribute.place is None:
                holder[key] = number
            else:
                held = list(holder[key])
                held[attribute.place] = number
                holder[key] = type(holder[key])(held)

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """In the block the numbers remember which attribute they are."""
        self.set({a: Dim(n, ("size", a, "attribute")) for a, n in self.values.items()})
        try:
            yield
        finally:
            self.set(self.values)


def needed(number: Number, left: Callable[[Axis], int], sizes: Callable[[Any, Any], int]) -> bool:
    """Return whether a number will be what it has to be. `left` counts what is left of an axis; `sizes` gives the
    attributes and sizes that formulas ask for."""
    try:
        if number.other is None:
            return bool(evaluate(number.formula, {}, sizes) == left(number.left_of))  # type: ignore[arg-type]
        if isinstance(number.other, tuple):
            symbol, right, truth = number.other
            return COMPARISONS[symbol](evaluate(number.formula, {}, sizes), evaluate(right, {}, sizes)) == truth
        return left(number.left_of) == left(number.other)  # type: ignore[arg-type]
    except ArithmeticError:
        return False


def asked(number: Number) -> set[Any]:
    """Return the ``("size", ...)`` that a number asks for."""
    found = leaves(number.formula)
    return found | leaves(number.other[1]) if isinstance(number.other, tuple) else found


def trusted(x: Any, elements: int) -> bool:
    """Return whether a number says where it comes from; not so one that was worked out for -1 from the `elements`."""
    f = formula_of(x)
    return isinstance(f, tuple) and not (f[0] == "//" and f[1] == elements)
