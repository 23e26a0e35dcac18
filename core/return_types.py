"""The named tuples that ops with several results give: ``x.max(dim=0).values``."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import TYPE_CHECKING, Any

from . import native

if TYPE_CHECKING:  # printed by core.stubs from the calls of `return_type`
    from .native.generated.return_types import *  # noqa: F403


@cache
def return_type(name: str, fields: str) -> Any:
    """Return a named tuple class for the results of the op `name`, printed as PyTorch prints its own.

    >>> return_type("max", "values indices")(1, 2)
    core.return_types.max(
    values=1,
    indices=2)
    """

    def text(self: Any) -> str:
        inside = ",\n".join(f"{n}={v!r}" for n, v in zip(self._fields, self, strict=True))
        return f"core.return_types.{name}(\n{inside})"

    base = namedtuple(name, fields)  # type: ignore[misc]
    cls = type(name, (base,), {"__slots__": (), "__repr__": text, "__module__": __name__})
    globals().setdefault(name, cls)  # so that it pickles
    if native.module is not None:
        native.module.register_result(name, cls)
    return cls
