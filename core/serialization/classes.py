"""The classes whose objects a `.pt` file may hold beside data: modules, and dataclasses as their configurations.

A file holds of such an object the name of its class and its attributes. Nothing of it is imported or called: a class is
found only if the program has defined it by then, an object is made without its `__init__`, and what a module has as an
attribute may be data, a module, or one of core's own functions. They are read with ``weights_only=False`` alone.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from .. import nn
from ..base.errors import LoadError, text
from ..dispatch.publish import namespaces
from ..nn import functional
from ..nn.modules.module import Module
from . import allowed

_FUNCTIONS: dict[str, dict[str, Any]] = {
    "torch.nn.functional": {n: getattr(functional, n) for n in functional.__all__},
    "torch": namespaces[""],
}
_CALLED_OTHERWISE = {"NonDynamicallyQuantizableLinear": "Linear"}


def _is_kept(cls: Any) -> bool:
    return isinstance(cls, type) and (issubclass(cls, Module) or dataclasses.is_dataclass(cls))


def state_of(x: Any) -> dict[str, Any] | None:
    """Return the attributes that are saved of an object; None for one of another class than these."""
    if not _is_kept(type(x)):
        return None
    state = x.__getstate__()
    return {} if state is None else state if isinstance(state, dict) else None


def name_of(x: Any) -> tuple[str, str] | None:
    """Return the module and the name by which a file calls a class of these or a function of core's.

    None for others, and for a class that could not be found by its name again, as one made within a function.

    >>> import core
    >>> name_of(core.nn.Linear), name_of(core.nn.functional.relu), name_of(print)
    (('torch.nn', 'Linear'), ('torch.nn.functional', 'relu'), None)
    """
    name = getattr(x, "__name__", "")
    if isinstance(x, type):
        if getattr(nn, name, None) is x:
            return "torch.nn", name
        module, path = x.__module__, x.__qualname__
        return (module, path) if _is_kept(x) and _defined(module, path) is x else None
    return next(((module, name) for module, known in _FUNCTIONS.items() if known.get(name) is x), None)


def _defined(module: str, path: str) -> Any:
    """Return what stands under a name in a module that the program has imported; None if nothing does."""
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = vars(found).get(name) if hasattr(found, "__dict__") else None
    return found


def find(module: str, name: str) -> Any:
    """Return what a name in a file stands for. *Raises*: LoadError."""
    try:
        return allowed.find(module, name)
    except LoadError:
        found = _named(module, name)
        if found is None:
            raise
        return found


def _named(module: str, name: str) -> Any:
    if module in _FUNCTIONS:
        return _FUNCTIONS[module].get(name)
    layer = module == "torch.nn" or module.startswith("torch.nn.modules.")
    found = getattr(nn, _CALLED_OTHERWISE.get(name, name), None) if layer else _defined(module, name)
    return found if _is_kept(found) else None


def new(cls: Any, args: tuple[Any, ...]) -> Any:
    """Return an object of a class before it has its attributes. *Raises*: LoadError."""
    if not _is_kept(cls) or args:
        return allowed.new(cls, args)
    return object.__new__(cls)


def build(target: Any, state: Any) -> None:
    """Give an object its attributes. *Raises*: LoadError."""
    if not _is_kept(type(target)):
        allowed.build(target, state)
    elif not isinstance(state, dict) or not all(type(k) is str for k in state):
        raise LoadError(text(f"the attributes of a {type(target).__name__} are no dict", op="load"))
    elif isinstance(target, Module):
        target.__setstate__(state)
    else:
        target.__dict__.update(state)
