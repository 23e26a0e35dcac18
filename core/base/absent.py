"""Classes of PyTorch's that are not here, for programs that ask ``isinstance(x, ...)``: nothing is one of them."""

from __future__ import annotations

import sys
import types
from typing import Any, NoReturn

from .errors import text

MARK = "__absent__"  # what only raises has it
ASKED_OF_ANY = ("__", "pytest", "setUp", "setup", "tearDown", "teardown")  # what tools ask every module for


def is_absent(found: Any) -> bool:
    """Return whether something stands for a name of PyTorch's that is not here, and only raises.

    >>> from core.base.absent import absent_function, is_absent
    >>> is_absent(absent_function("f", "core.somewhere", "Something.", "do without")), is_absent(len)
    (True, False)
    """
    return isinstance(found, AbsentModule) or MARK in getattr(found, "__dict__", ())


def absent_class(name: str, module: str, doc: str, remedy: str, *bases: type) -> Any:
    """Return a class that nothing is an instance of: to make one raises NotImplementedError.

    >>> from core.base.absent import absent_class
    >>> isinstance(3, absent_class("Shard", "core.somewhere", "A part of a tensor.", "keep it whole"))
    False
    """

    def refuse(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(text(f"{name} is not here", op=f"{module}.{name}", remedy=remedy))

    return type(name, bases or (object,), {"__new__": refuse, "__module__": module, "__qualname__": name, MARK: True,
                                           "__doc__": f"{doc} Not here: making one raises."})  # fmt: skip


def absent_function(name: str, module: str, doc: str, remedy: str) -> Any:
    """Return a function that raises NotImplementedError when it is called."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(text(f"{name} is not here", op=f"{module}.{name}", remedy=remedy))

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__, refuse.__doc__ = module, f"{doc} Not here: raises NotImplementedError."
    setattr(refuse, MARK, True)
    return refuse


class AbsentModule(types.ModuleType):
    """A module of PyTorch's that is not here: its names can be imported, and raise where they are used.

    Names with a capital are classes that nothing is an instance of, the others functions.
    """

    def __init__(self, name: str, remedy: str = "do without it, or run this part on PyTorch") -> None:
        super().__init__(
            name, f"Names of {name}, which is not here: they raise NotImplementedError where they are used."
        )
        self.__dict__.update(_remedy=remedy, __path__=[])

    def __getattr__(self, name: str) -> Any:
        if name.startswith(ASKED_OF_ANY):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = self.__dict__[name] = absent(name, self.__name__, self.__dict__["_remedy"])
        return found


def absent(name: str, module: str, remedy: str) -> Any:
    """Return what stands for a name that is not here: a class for one with a capital, else a function."""
    if name == "is_available":
        return lambda: False
    make = absent_class if name.lstrip("_")[:1].isupper() else absent_function
    return make(name, module, "A name of PyTorch's.", remedy)


def absent_names(module: str, remedy: str) -> Any:
    """Return a module's ``__getattr__``: what it lacks of PyTorch's can be imported, and raises where it is used."""

    def find(name: str) -> Any:
        if name.startswith(ASKED_OF_ANY):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = absent(name, module, remedy)
        setattr(sys.modules[module], name, found)
        return found

    return find
