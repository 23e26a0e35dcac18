"""Lists and dicts of a node's arguments: not changed in place, so that a graph knows who uses what."""

from __future__ import annotations

from typing import Any, NoReturn

from ..base.errors import text

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError(
        text(f"'{type(self).__name__}' object does not support mutation", op="fx.Node.args",
             remedy="make a copy, change it and assign it: node.args = (list(node.args[0]) + [x],)"))  # fmt: skip


class immutable_list(list):  # type: ignore[type-arg]
    """A list that refuses to be changed.

    >>> from core.fx.immutable_collections import immutable_list
    >>> immutable_list([1, 2]) == [1, 2]
    True
    """

    __delitem__ = __iadd__ = __imul__ = __setitem__ = append = clear = extend = insert = _refuse
    pop = remove = reverse = sort = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return immutable_list, (list(self),)


class immutable_dict(dict):  # type: ignore[type-arg]
    """A dict that refuses to be changed."""

    __delitem__ = __ior__ = __setitem__ = clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))

    def __reduce__(self) -> Any:
        return immutable_dict, (dict(self),)
