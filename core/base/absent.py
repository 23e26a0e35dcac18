"""Classes of PyTorch's that are not here, for programs that ask ``isinstance(x, ...)``: nothing is one of them."""

from __future__ import annotations

from typing import Any, NoReturn

from .errors import text


def absent_class(name: str, module: str, doc: str, remedy: str, *bases: type) -> Any:
    """Return a class that nothing is an instance of: to make one raises NotImplementedError.

    >>> from core.base.absent import absent_class
    >>> isinstance(3, absent_class("Shard", "core.somewhere", "A part of a tensor.", "keep it whole"))
    False
    """

    def refuse(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(text(f"{name} is not here", op=f"{module}.{name}", remedy=remedy))

    return type(name, bases or (object,), {"__new__": refuse, "__module__": module, "__qualname__": name,
                                           "__doc__": f"{doc} Not here: to make one raises NotImplementedError."})  # fmt: skip


def absent_function(name: str, module: str, doc: str, remedy: str) -> Any:
    """Return a function that raises NotImplementedError when it is called."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(text(f"{name} is not here", op=f"{module}.{name}", remedy=remedy))

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__, refuse.__doc__ = module, f"{doc} Not here: raises NotImplementedError."
    return refuse
