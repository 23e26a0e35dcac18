"""Modules that hold parameters in a row or by name: `ParameterList`, `ParameterDict`."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, KeysView
from typing import Any, Self

from ...tensors.tensor import Tensor
from ..parameter import Parameter
from .container import pairs
from .module import Module, typename


def _line(key: Any, value: Any, kind: str) -> str:
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    what = "Parameter" if isinstance(value, Parameter) else "Tensor"
    where = f" ({value.device})" if value.is_cuda else ""
    return f"  ({key}): {what} containing: [{kind} of size {'x'.join(map(str, value.shape))}{where}]"


def _trained(value: Any) -> Any:
    """Return a tensor put into one of these becomes a parameter; anything else stays as it is."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


class ParameterList(Module):
    """A list of parameters; tensors put in become parameters, other values are only kept.

    >>> import core
    >>> core.nn.ParameterList([core.ones(2), core.ones(2, 3)])
    ParameterList(
        (0): Parameter containing: [core.float32 of size 2]
        (1): Parameter containing: [core.float32 of size 2x3]
    )
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _key(self, index: Any) -> str:
        i = operator.index(index)
        if not -self._size <= i < self._size:
            raise IndexError(f"index {i} is out of range")
        return str(i % self._size)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(self[i] for i in range(*index.indices(self._size)))
        return getattr(self, self._key(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._key(index), _trained(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self._size))

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def append(self, value: Any) -> Self:
        """Add a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_line(i, v, repr(getattr(v, "dtype", ""))) for i, v in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """Parameters by name; tensors put in become parameters, other values are only kept.

    >>> import core
    >>> weights = core.nn.ParameterDict({"left": core.ones(2)})
    >>> list(weights), weights["left"].requires_grad
    (['left'], True)
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        self._check_key(key)
        if key not in self._keys:  # an AttributeError and no KeyError, as in PyTorch
            raise AttributeError(f"'ParameterDict' object has no attribute '{key}'")
        return getattr(self, key)

    def _check_key(self, key: Any) -> None:
        if not isinstance(key, str):
            raise TypeError("Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                            f"'{type(key).__name__}').")  # fmt: skip

    def __setitem__(self, key: str, value: Any) -> None:
        self._check_key(key)
        self._keys[key] = None
        setattr(self, key, _trained(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Another dict of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of `key`, which is put in if it is not there."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Take everything out."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take one value out."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take the last one out."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of `key`, or `default`."""
        return getattr(self, key) if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a new dict in which every key has the same value."""
        return ParameterDict((k, default) for k in keys)

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._keys.keys()

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names and values."""
        return ((k, self[k]) for k in self._keys)

    def values(self) -> Iterator[Any]:
        """Return the values."""
        return (self[k] for k in self._keys)

    def update(self, parameters: Any) -> None:
        """Add values from a mapping (an unordered one is sorted) or from pairs."""
        many = pairs(parameters, "ParameterDict")
        if type(parameters) is dict:
            many = iter(sorted(many))
        for key, value in many:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(_line(k, v, typename(v)) for k, v in self.items())

    def __or__(self, other: ParameterDict) -> ParameterDict:
        both = self.copy()
        both.update(other)
        return both

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        both = other.copy()
        both.update(self)
        return both

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")
