"""How arguments and results are built: tensors apart from the rest, which is compared as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.device import device as Device
from ..base.dtypes import dtype as Dtype
from ..nn.parameter import Parameter
from ..tensors.tensor import Tensor
from .checks import spec_of
from .recording import Refusal

_PLAIN = (int, bool, str, bytes, complex, type(None), type(Ellipsis), Dtype, Device)


class Described:
    """Arguments: `key`, which is equal for calls that may run the same program, their tensors, and other objects."""

    __slots__ = ("key", "objects", "tensors")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.tensors: list[Tensor] = []
        self.objects: list[Any] = []
        parts: list[Any] = []
        for x in args:
            self._add(x, parts)
        for name, x in kwargs.items():
            parts.append(name)
            self._add(x, parts)
        tensors = self.tensors
        if len(tensors) > 1:
            at: dict[int, int] = {}
            parts += [at.setdefault(id(t), k) for k, t in enumerate(tensors)]
        self.key = tuple(parts)

    @classmethod
    def plainly(cls, args: tuple[Any, ...]) -> Described:
        """Return arguments of which is known that they fit: their tensors alone."""
        found = cls.__new__(cls)
        found.tensors, found.objects, found.key = [x for x in args if isinstance(x, Tensor)], [], ()
        return found

    def _add(self, x: Any, parts: list[Any]) -> None:
        kind = type(x)
        if kind is Tensor or kind is Parameter:
            self.tensors.append(x)
            parts.append(spec_of(x))
        elif kind is float:
            parts += (kind, x, str(x)) if x == 0 else (kind, x)
        elif kind in _PLAIN:
            parts += (kind, x)
        elif kind is list or kind is tuple:
            parts += (kind, len(x))
            for v in x:
                self._add(v, parts)
        elif kind is dict:
            parts += (kind, tuple(x))
            for v in x.values():
                self._add(v, parts)
        elif isinstance(x, Tensor):
            raise Refusal(f"an argument is a tensor of class {kind.__name__}")
        else:
            self.objects.append(x)
            parts += (kind, id(x))


Rebuilt = Callable[[Sequence[Any]], Any]


def taken_apart(x: Any, tensors: list[Tensor]) -> Rebuilt:
    """Return what builds a result anew from its tensors, which are added to `tensors`, each once."""
    if isinstance(x, Tensor):
        if type(x) is not Tensor:
            raise Refusal(f"a result is a {type(x).__name__} (return a tensor that ops made)")
        k = next((k for k, t in enumerate(tensors) if t is x), len(tensors))
        if k == len(tensors):
            tensors.append(x)
        return lambda made: made[k]
    if x is None or type(x) in (int, float, *_PLAIN):
        return lambda made: x
    if type(x) is dict:
        parts = {key: taken_apart(v, tensors) for key, v in x.items()}
        return lambda made: {key: part(made) for key, part in parts.items()}
    if type(x) in (list, tuple):
        kind = type(x)
        each = [taken_apart(v, tensors) for v in x]
        return lambda made: kind([part(made) for part in each])
    if isinstance(x, tuple) and hasattr(type(x), "_make"):
        make = getattr(type(x), "_make")  # noqa: B009 - no type checker knows it of a tuple
        each = [taken_apart(v, tensors) for v in x]
        return lambda made: make([part(made) for part in each])
    raise Refusal(f"a result is of class {type(x).__name__}")
