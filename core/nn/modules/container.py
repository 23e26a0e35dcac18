"""Modules that hold other modules: `Sequential`, `ModuleList`, `ModuleDict`."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Self

from .module import Module, indented

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


class _Numbered(Module):
    """What `Sequential` and `ModuleList` share: children that stand in a row, most often named "0", "1", ..."""

    def _key(self, index: Any) -> str:
        n, i = len(self._modules), operator.index(index)
        if not -n <= i < n:
            raise IndexError(f"index {i} is out of range")
        return list(self._modules)[i]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: int | slice) -> None:
        for key in list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]:
            delattr(self, key)
        self._modules = {str(i): m for i, m in enumerate(self._modules.values())}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Put a module before the one at `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self._modules)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        row = list(self._modules.values())
        row.insert(index if index >= 0 else index + n, module)
        self._modules = {str(i): m for i, m in enumerate(row)}
        return self

    def pop(self, key: int | slice) -> Any:
        """Take a module out."""
        taken = self[key]  # type: ignore[index]
        del self[key]
        return taken


class Sequential(_Numbered):
    """Modules called one after the other; given in a row, or named in an OrderedDict.

    >>> import core
    >>> core.nn.Sequential(core.nn.Linear(2, 3), core.nn.ReLU())
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else \
            ((str(i), m) for i, m in enumerate(args))  # fmt: skip
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add modules at the end."""
        for module in sequential:
            self.append(module)
        return self

    def _other(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return other

    def __add__(self, other: Any) -> Sequential:
        return Sequential(*self, *self._other(other))

    def __iadd__(self, other: Any) -> Self:
        return self.extend(list(self._other(other)))

    def _times(self, n: Any) -> int:
        if not isinstance(n, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(n)}")
        if n <= 0:
            raise ValueError(f"Non-positive multiplication factor {n} for {type(self)}")
        return n

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*(list(self) * self._times(other)))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        return self.extend(list(self) * (self._times(other) - 1))


class ModuleList(_Numbered):
    """A list of modules; each is a child with its index as its name.

    >>> import core
    >>> layers = core.nn.ModuleList(core.nn.Linear(4, 4) for _ in range(3))
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[self._key(index)]

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Put a module before the one at `index`; at the end where there is none."""
        row: list[Any] = list(self)
        row.insert(index, module)
        self._modules = {str(i): m for i, m in enumerate(row)}

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *list(other)])

    def __repr__(self) -> str:
        """Equal neighbours fold into one line: ``(0-2): 3 x Linear(...)``."""
        runs: list[tuple[int, int, str]] = []
        for i, text in enumerate(repr(m) for m in self):
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        if not runs:
            return self._get_name() + "()"
        lines = [indented(f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}", 2) for a, b, text in runs]
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """Modules by name.

    >>> import core
    >>> heads = core.nn.ModuleDict({"a": core.nn.Linear(2, 1)})
    >>> heads["b"] = core.nn.Identity()
    >>> list(heads)
    ['a', 'b']
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take every module out."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Take one module out."""
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Any]:
        """Names and modules."""
        return self._modules.items()

    def values(self) -> ValuesView[Any]:
        """Return the modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add modules from a mapping or from pairs."""
        for key, module in pairs(modules, "ModuleDict"):
            self[key] = module


def pairs(given: Any, what: str) -> Iterator[tuple[str, Any]]:
    """Keys and values of a mapping, or of a row of pairs; TypeError or ValueError for anything else."""
    if not isinstance(given, Iterable):
        raise TypeError(f"{what}.update should be called with an iterable of key/value pairs, but got "
                        f"{type(given).__name__}")  # fmt: skip
    if isinstance(given, Mapping) or hasattr(given, "items"):
        yield from given.items()
        return
    for j, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{what} update sequence element #{j} should be Iterable; is{type(pair).__name__}")
        both = tuple(pair)
        if len(both) != 2:
            raise ValueError(f"{what} update sequence element #{j} has length {len(both)}; 2 is required")
        yield both
