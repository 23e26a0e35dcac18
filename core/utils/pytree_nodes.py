"""The classes that `utils._pytree` takes apart: how, by which keys, and how a further class is registered."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..base.errors import text


class SequenceKey(NamedTuple):
    """A step of a path: an index of a list or a tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """Return what stands there."""
        return sequence[self.idx]


class MappingKey(NamedTuple):
    """A step of a path: a key of a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """Return what stands there."""
        return mapping[self.key]


class GetAttrKey(NamedTuple):
    """A step of a path: an attribute of an object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """Return what stands there."""
        return getattr(obj, self.name)


class NodeDef(NamedTuple):
    """How a class is taken apart and put together."""

    type: Any
    flatten_fn: Callable[[Any], tuple[Sequence[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None


def _list_flatten(d: list[Any]) -> tuple[list[Any], Any]:
    return d, None


def _list_unflatten(values: Iterable[Any], context: Any) -> list[Any]:
    return list(values)


def _list_flatten_with_keys(d: Sequence[Any]) -> tuple[list[tuple[Any, Any]], Any]:
    return [(SequenceKey(i), x) for i, x in enumerate(d)], None


def _tuple_flatten(d: tuple[Any, ...]) -> tuple[list[Any], Any]:
    return list(d), None


def _tuple_unflatten(values: Iterable[Any], context: Any) -> tuple[Any, ...]:
    return tuple(values)


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d), type(d)


def _namedtuple_unflatten(values: Iterable[Any], context: Any) -> Any:
    return context(*values)


def _namedtuple_flatten_with_keys(d: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return [(GetAttrKey(name), x) for name, x in zip(d._fields, d, strict=True)], type(d)


def _dict_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], context: Any) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d: Any) -> tuple[list[tuple[Any, Any]], Any]:
    values, context = _dict_flatten(d)
    return [(MappingKey(k), x) for k, x in zip(context, values, strict=True)], context


def _ordereddict_unflatten(values: Iterable[Any], context: Any) -> OrderedDict[Any, Any]:
    return OrderedDict(zip(context, values, strict=True))


def _defaultdict_flatten(d: Any) -> tuple[list[Any], Any]:
    values, keys = _dict_flatten(d)
    return values, [d.default_factory, keys]


def _defaultdict_unflatten(values: Iterable[Any], context: Any) -> defaultdict[Any, Any]:
    return defaultdict(context[0], _dict_unflatten(values, context[1]))


def _defaultdict_flatten_with_keys(d: Any) -> tuple[list[tuple[Any, Any]], Any]:
    values, context = _defaultdict_flatten(d)
    return [(MappingKey(k), x) for k, x in zip(context[1], values, strict=True)], context


def _deque_flatten(d: deque[Any]) -> tuple[list[Any], Any]:
    return list(d), d.maxlen


def _deque_unflatten(values: Iterable[Any], context: Any) -> deque[Any]:
    return deque(values, maxlen=context)


_namedtuple: Any = "a named tuple"  # the node of all named tuples that are not registered themselves
SUPPORTED_NODES: dict[Any, NodeDef] = {
    node.type: node
    for node in (
        NodeDef(list, _list_flatten, _list_unflatten, _list_flatten_with_keys),
        NodeDef(tuple, _tuple_flatten, _tuple_unflatten, _list_flatten_with_keys),
        NodeDef(_namedtuple, _namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys),
        NodeDef(dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys),
        NodeDef(OrderedDict, _dict_flatten, _ordereddict_unflatten, _dict_flatten_with_keys),
        NodeDef(defaultdict, _defaultdict_flatten, _defaultdict_unflatten, _defaultdict_flatten_with_keys),
        NodeDef(deque, _deque_flatten, _deque_unflatten, _list_flatten_with_keys),
    )
}
_constants: set[type] = set()


def is_namedtuple_class(cls: Any) -> bool:
    """Return whether a class is one of named tuples."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_namedtuple_instance(obj: Any) -> bool:
    """Return whether a value is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    """Return whether a value or a class is a named tuple's."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Return whether a class is one of C's tuples with names, as ``time.struct_time`` is."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "n_fields", None), int)


def is_structseq_instance(obj: Any) -> bool:
    """Return whether a value is one of C's tuples with names."""
    return is_structseq_class(type(obj))


_is_namedtuple_instance = is_namedtuple_instance


def register_pytree_node(cls: Any, flatten_fn: Callable[..., Any], unflatten_fn: Callable[..., Any], *,
                         flatten_with_keys_fn: Callable[..., Any] | None = None, **ignored: Any) -> None:  # fmt: skip
    """Make the instances of a class nodes.

    flatten_fn : from an instance to (children, context); unflatten_fn : from (children, context) to an instance.
    flatten_with_keys_fn : as flatten_fn, each child with its key.

    The names by which PyTorch writes a class to a file (`serialized_type_name` and its kin) are taken and not needed.

    *Raises*: ValueError for a class that is one already.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(text(f"{cls} is already registered as pytree node.", op="register_pytree_node",
                              remedy="register a class once"))  # fmt: skip
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


def _register_pytree_node(cls: Any, flatten_fn: Callable[..., Any], unflatten_fn: Callable[..., Any],
                          *ignored: Any, **more: Any) -> None:  # fmt: skip
    register_pytree_node(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn=more.get("flatten_with_keys_fn"))


_private_register_pytree_node = _register_pytree_node


def _deregister_pytree_node(cls: Any) -> None:
    SUPPORTED_NODES.pop(cls, None)


def register_dataclass(cls: Any, *, field_names: Sequence[str] | None = None, drop_field_names: Sequence[str] = (),
                       **ignored: Any) -> None:  # fmt: skip
    """Make the instances of a dataclass nodes, whose children are the values of its fields.

    *Raises*: ValueError for what is no dataclass.
    """
    if not dataclasses.is_dataclass(cls):
        raise ValueError(text(f"{cls} is no dataclass", op="register_dataclass", remedy="register_pytree_node"))
    names = list(field_names or [f.name for f in dataclasses.fields(cls) if f.init])
    names = [n for n in names if n not in drop_field_names]

    def flatten(x: Any) -> tuple[list[Any], Any]:
        return [getattr(x, n) for n in names], names

    def with_keys(x: Any) -> tuple[list[tuple[Any, Any]], Any]:
        return [(GetAttrKey(n), getattr(x, n)) for n in names], names

    make: Any = cls
    register_pytree_node(cls, flatten, lambda values, context: make(**dict(zip(context, values, strict=True))),
                         flatten_with_keys_fn=with_keys)  # fmt: skip


def register_constant(cls: type) -> None:
    """Make the instances of a class nodes without children: what they are is a part of the structure."""
    _constants.add(cls)
    register_pytree_node(cls, lambda x: ([], x), lambda values, context: context)


def is_constant_class(cls: type) -> bool:
    """Return whether a class was registered by `register_constant`."""
    return cls in _constants
