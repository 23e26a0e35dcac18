"""Trees of Python's containers, flattened to their leaves and built again, under PyTorch's path ``utils._pytree``.

Lists, tuples, named tuples, dicts, OrderedDicts, defaultdicts and deques are nodes; every other value is a leaf, None
too, until its class is registered by `register_pytree_node`.

>>> from core.utils import _pytree
>>> leaves, spec = _pytree.tree_flatten({"a": [1, 2], "b": (3,)})
>>> leaves, _pytree.tree_unflatten([10 * x for x in leaves], spec)
([1, 2, 3], {'a': [10, 20], 'b': (30,)})
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..base.errors import text
from .pytree_nodes import (  # noqa: F401 - PyTorch's file has them all
    SUPPORTED_NODES,
    GetAttrKey,
    MappingKey,
    NodeDef,
    SequenceKey,
    _defaultdict_flatten,
    _defaultdict_flatten_with_keys,
    _defaultdict_unflatten,
    _deque_flatten,
    _deque_unflatten,
    _deregister_pytree_node,
    _dict_flatten,
    _dict_flatten_with_keys,
    _dict_unflatten,
    _is_namedtuple_instance,
    _list_flatten,
    _list_flatten_with_keys,
    _list_unflatten,
    _namedtuple,
    _namedtuple_flatten,
    _namedtuple_flatten_with_keys,
    _namedtuple_unflatten,
    _ordereddict_unflatten,
    _private_register_pytree_node,
    _register_pytree_node,
    _tuple_flatten,
    _tuple_unflatten,
    is_constant_class,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq_class,
    is_structseq_instance,
    register_constant,
    register_dataclass,
    register_pytree_node,
)

__all__ = ["Context", "GetAttrKey", "LeafSpec", "MappingKey", "PyTree", "PyTreeSpec", "SUPPORTED_NODES", "SequenceKey",
           "TreeSpec", "arg_tree_leaves", "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance",
           "is_structseq_class", "is_structseq_instance", "key_get", "keystr", "map_only", "register_constant",
           "register_dataclass", "register_pytree_node", "tree_all", "tree_all_only", "tree_any", "tree_any_only",
           "tree_flatten", "tree_flatten_with_path", "tree_is_leaf", "tree_iter", "tree_leaves",
           "tree_leaves_with_path", "tree_map", "tree_map_", "tree_map_only", "tree_map_only_", "tree_map_with_path",
           "tree_structure", "tree_unflatten"]  # fmt: skip

Context = Any
PyTree = Any
IsLeaf = Callable[[Any], bool] | None


# -- structures --------------------------------------------------------------------------------------------------------


class TreeSpec:
    """The structure of a tree: its class, its context, and the structures of its children; a leaf has the class None.

    >>> from core.utils import _pytree
    >>> spec = _pytree.tree_structure([1, (2, 3)])
    >>> spec.num_leaves, spec.num_children, spec
    (3, 2, TreeSpec(list, None, [*, TreeSpec(tuple, None, [*, *])]))
    """

    def __init__(self, type: Any, context: Any = None, children_specs: Sequence[TreeSpec] = ()) -> None:
        self.type, self.context, self._children = type, context, list(children_specs)
        leaf = type is None
        self.num_children = len(self._children)
        self.num_nodes: int = 1 + sum(c.num_nodes for c in self._children)
        self.num_leaves: int = 1 if leaf else sum(c.num_leaves for c in self._children)

    @property
    def children_specs(self) -> list[TreeSpec]:
        """The structures of the children."""
        return self._children

    def children(self) -> list[TreeSpec]:
        """Return the structures of the children."""
        return self._children

    def child(self, index: int) -> TreeSpec:
        """Return the structure of a child."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Return whether it is a leaf's."""
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Build a tree of this structure.

        *Raises*: ValueError for leaves that are too many or too few.
        """
        many = list(leaves)
        if len(many) != self.num_leaves:
            raise ValueError(text(f"treespec.unflatten(leaves): `leaves` has length {len(many)} but the spec refers to "
                                  f"a pytree that holds {self.num_leaves} items ({self}).", op="tree_unflatten",
                                  came=f"{len(many)} leaves", needed=f"{self.num_leaves}"))  # fmt: skip
        return self._build(iter(many))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        values = [child._build(leaves) for child in self._children]
        node = SUPPORTED_NODES[_namedtuple if self.type not in SUPPORTED_NODES else self.type]
        return node.unflatten_fn(values, self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return the parts of a tree that stand where this structure has leaves.

        *Raises*: ValueError for a tree of another structure.
        """
        if self.type is None:
            return [tree]
        if _node_type(tree) is not self.type and not (_dicts(self.type) and _dicts(type(tree))):
            raise ValueError(text(f"Type mismatch; expected {self.type!r}, but got {type(tree)!r}.",
                                  op="flatten_up_to"))  # fmt: skip
        if _dicts(self.type):
            keys = self.context[1] if self.type is defaultdict else self.context
            if set(keys) != set(tree):
                raise ValueError(text("Node keys mismatch", op="flatten_up_to", came=f"{list(tree)}", needed=f"{keys}"))
            parts: Sequence[Any] = [tree[k] for k in keys]
        else:
            parts, context = _node(tree).flatten_fn(tree)
            if len(parts) != self.num_children or context != self.context:
                raise ValueError(text("Node arity or context mismatch", op="flatten_up_to", came=f"{len(parts)} parts",
                                      needed=f"{self.num_children}"))  # fmt: skip
        return [x for spec, part in zip(self._children, parts, strict=True) for x in spec.flatten_up_to(part)]

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        return f"TreeSpec({getattr(self.type, '__name__', self.type)}, {self.context}, {self._children})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self.type is other.type and self.context == other.context and self._children == other._children

    def __hash__(self) -> int:
        return hash((self.type, str(self.context), tuple(self._children)))


PyTreeSpec = TreeSpec
_LEAF_SPEC = TreeSpec(None)


def LeafSpec() -> TreeSpec:
    """Return the structure of a leaf."""
    return _LEAF_SPEC


def treespec_leaf() -> TreeSpec:
    """Return the structure of a leaf."""
    return _LEAF_SPEC


def _dicts(cls: Any) -> bool:
    return cls in (dict, OrderedDict, defaultdict)


def _node_type(tree: Any) -> Any:
    return type(tree)


def _get_node_type(tree: Any) -> Any:
    """Return the class under which a value's node is found."""
    cls = type(tree)
    return _namedtuple if cls not in SUPPORTED_NODES and is_namedtuple_class(cls) else cls


def _node(tree: Any) -> NodeDef:
    return SUPPORTED_NODES[_get_node_type(tree)]


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Return whether a value is a leaf: by `is_leaf`, or because its class is no node."""
    return (is_leaf is not None and bool(is_leaf(tree))) or _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


# -- taking apart and putting together ---------------------------------------------------------------------------------


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of a tree, in order, and its structure."""
    leaves: list[Any] = []

    def spec_of(x: Any) -> TreeSpec:
        if tree_is_leaf(x, is_leaf):
            leaves.append(x)
            return _LEAF_SPEC
        children, context = _node(x).flatten_fn(x)
        return TreeSpec(type(x), context, [spec_of(child) for child in children])

    spec = spec_of(tree)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Build a tree of a structure from its leaves.

    *Raises*: TypeError for what is no structure; ValueError for leaves that are too many or too few.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(text("tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got "
                             f"item of type {type(treespec)}.", op="tree_unflatten"))  # fmt: skip
    return treespec.unflatten(leaves)


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """Yield the leaves of a tree."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
    else:
        for child in _node(tree).flatten_fn(tree)[0]:
            yield from tree_iter(child, is_leaf)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves of a tree."""
    return list(tree_iter(tree, is_leaf))


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """Return the leaves of all arguments of a call."""
    return [x for a in (*args, *kwargs.values()) for x in tree_iter(a)]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """Return the structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Apply a function to every leaf, and to what stands at its place in the other trees.

    >>> from core.utils import _pytree
    >>> _pytree.tree_map(lambda a, b: a + b, {"x": 1, "y": [2]}, {"x": 10, "y": [20]})
    {'x': 11, 'y': [22]}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *(spec.flatten_up_to(r) for r in rests)))


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Apply a function to every leaf for what it does, and return the tree."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for given in zip(leaves, *(spec.flatten_up_to(r) for r in rests), strict=True):
        func(*given)
    return tree


def map_only(chosen: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Return a decorator: the function for instances of these classes (or where this tells True), else the value."""
    wanted: Any = chosen if callable(chosen) and not isinstance(chosen, type) else lambda x: isinstance(x, chosen)

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: func(x) if wanted(x) else x

    return decorate


def tree_map_only(chosen: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Apply a function to the leaves of these classes."""
    return tree_map(map_only(chosen)(func), tree, is_leaf=is_leaf)


def tree_map_only_(chosen: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Apply a function to the leaves of these classes for what it does, and return the tree."""
    return tree_map_(map_only(chosen)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Return whether something holds of every leaf."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Return whether something holds of a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(chosen: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Return whether something holds of every leaf of these classes."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, chosen))


def tree_any_only(chosen: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Return whether something holds of a leaf of these classes."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, chosen))


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list[Any] | None:
    """Return the leaves of a tree, each as often as the structure has leaves in its place; None where they differ."""
    if treespec.is_leaf() or tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves if tree_is_leaf(tree, is_leaf) else None
    children, context = _node(tree).flatten_fn(tree)
    if type(tree) is not treespec.type or context != treespec.context or len(children) != treespec.num_children:
        return None
    found = [_broadcast_to_and_flatten(c, s, is_leaf) for c, s in zip(children, treespec.children(), strict=True)]
    return None if any(f is None for f in found) else [x for f in found if f is not None for x in f]


# -- with paths --------------------------------------------------------------------------------------------------------


def _paths(tree: Any, path: tuple[Any, ...], is_leaf: IsLeaf) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    node = _node(tree)
    if node.flatten_with_keys_fn is None:
        raise ValueError(text(f"Did not find a flatten_with_keys_fn for type: {type(tree)}.",
                              op="tree_flatten_with_path",
                              remedy="register_pytree_node(..., flatten_with_keys_fn=...)"))  # fmt: skip
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _paths(child, (*path, key), is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[tuple[Any, ...], Any]]:
    """Return the leaves of a tree, each after its path."""
    return list(_paths(tree, (), is_leaf))


def tree_flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """Return the leaves of a tree, each after its path, and its structure."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Apply a function to the path of every leaf, the leaf, and what stands at its place in the other trees.

    >>> from core.utils import _pytree
    >>> _pytree.tree_map_with_path(lambda path, x: _pytree.keystr(path), {"a": [0, 0]})
    {'a': ["['a'][0]", "['a'][1]"]}
    """
    found, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [p for p, _ in found], [x for _, x in found]
    return spec.unflatten(map(func, paths, leaves, *(spec.flatten_up_to(r) for r in rests)))


def keystr(kp: Iterable[Any]) -> str:
    """Return a path as text."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: Iterable[Any]) -> Any:
    """Return what stands at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj
