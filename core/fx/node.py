"""A node of a graph: one step of a program, its arguments, and the nodes that use it."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..base.errors import text
from .immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

Target = Argument = BaseArgumentTypes = Any  # PyTorch's names of types
OPCODES = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output", "root")
_with_side_effects: set[Any] = set()


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Keep calls of a function in a graph though nothing uses them; return the function."""
    _with_side_effects.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Return a value with a function of each part in its place, through tuples, lists, dicts and slices.

    >>> import core
    >>> core.fx.node.map_aggregate((1, [2, 3]), lambda x: x * 10)
    (10, [20, 30])
    """
    if isinstance(a, tuple):
        parts = [map_aggregate(x, fn) for x in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return immutable_list(map_aggregate(x, fn) for x in a)
    if isinstance(a, dict):
        return immutable_dict((k, map_aggregate(x, fn)) for k, x in a.items())
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Return arguments with a function of each node in its place."""
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


class Node:
    """One step: `op` is placeholder, get_attr, call_function, call_method, call_module or output.

    name : the variable's. target : the function, or the method's, module's, attribute's or argument's name. args,
    kwargs : what it is called with. users : the nodes that use it, in a dict's order. meta : what passes leave here.
    """

    def __init__(self, graph: Graph, name: str, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                 return_type: Any = None) -> None:  # fmt: skip
        if op not in OPCODES:
            raise ValueError(text("unknown op of a node", op="fx.Node", came=repr(op), needed=", ".join(OPCODES[:-1])))
        if op == "call_function" and not callable(target):
            raise ValueError(text("a call_function's target is called", op="fx.Node", came=f"{target!r}",
                                  needed="a function"))  # fmt: skip
        if op not in ("call_function", "root") and not isinstance(target, str):
            raise ValueError(text(f"a {op}'s target is a name", op="fx.Node", came=f"{target!r}", needed="a str"))
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = immutable_dict()
        self._prev = self._next = self
        self._erased = False
        self._take(args, kwargs)

    # -- arguments -----------------------------------------------------------------------------------------------------

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments."""
        return self._args

    @args.setter
    def args(self, given: Any) -> None:
        self._take(given, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by name."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, given: Any) -> None:
        self._take(self._args, given)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    def _take(self, args: Any, kwargs: Any) -> None:
        """Set the arguments, and with them who uses whom."""
        for used in self._input_nodes:
            used.users.pop(self, None)
        self._input_nodes = {}

        def note(x: Node) -> Node:
            self._input_nodes[x] = None
            x.users[self] = None
            return x

        self._args, self._kwargs = map_arg(tuple(args), note), map_arg(dict(kwargs), note)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Set the positional argument at a place."""
        self.args = (*self.args[:idx], arg, *self.args[idx + 1 :])

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Put a positional argument before the one at a place."""
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Set the argument of a name."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use another node wherever this one used `old_input`."""
        put = lambda x: new_input if x is old_input else x
        self._take(map_arg(self.args, put), map_arg(self.kwargs, put))

    def replace_all_uses_with(self, replace_with: Node, delete_user_cb: Callable[[Node], bool] = lambda user: True, *,
                              propagate_meta: bool = False) -> list[Node]:  # fmt: skip
        """Let those that use this node use another; return them. `delete_user_cb` says of each whether it shall."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError("propagate_meta needs a replacement whose meta is empty")
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # -- place in the graph --------------------------------------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move a node to the place before this one."""
        if x.graph is not self.graph:
            raise AssertionError(text("Attempting to move a Node into a different Graph", op="fx.Node.prepend",
                                      remedy="graph.node_copy(node)"))  # fmt: skip
        if x is self:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x

    def append(self, x: Node) -> None:
        """Move a node to the place after this one."""
        if x is not self._next:
            self._next.prepend(x)

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def _after(self) -> Iterator[Node]:
        """Yield the nodes behind this one, up to the root."""
        node = self._next
        while node.op != "root":
            yield node
            node = node._next

    def __lt__(self, other: Node) -> bool:
        return any(x is other for x in self._after())

    def __gt__(self, other: Node) -> bool:
        return other < self

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or other < self

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """The lines of the program that the node was traced from, where a tracer kept them."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node does more than give a value: it stays though nothing uses it."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _with_side_effects or getattr(self.target, "__name__", "") == "_assert"
        if self.op == "call_module" and self.graph.owning_module is not None:
            return bool(getattr(self.graph.owning_module.get_submodule(self.target), "is_impure", False))
        return False

    def format_node(self, placeholder_names: list[str] | None = None, maybe_return_typename: list[str] | None = None,
                    *, include_tensor_metadata: bool = False) -> str | None:  # fmt: skip
        """Return the node as a line of text."""
        if self.op == "placeholder":
            line = f"%{self.name} : [num_users={len(self.users)}] = placeholder[target={self.target}]"
            if placeholder_names is not None:
                placeholder_names.append(f"%{self.name}")
                return None
            return line
        if self.op == "output":
            return f"return {shown(self.args[0] if self.args else None)}"
        line = f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={target_name(self.target)}]"
        if self.op == "get_attr":
            return line
        return line + f"(args = {shown(self.args)}, kwargs = {shown(self.kwargs)})"

    def _rename(self, candidate: str) -> None:
        """Take another name, or one like it that is free."""
        if candidate != self.name:
            self.name = self.graph._names.create(candidate)

    def __repr__(self) -> str:
        return self.name


def shown(a: Any) -> str:
    """Return arguments as text, nodes by their names behind a percent sign."""
    if isinstance(a, tuple):
        return f"({', '.join(map(shown, a))}{',' if len(a) == 1 else ''})"
    if isinstance(a, list):
        return f"[{', '.join(map(shown, a))}]"
    if isinstance(a, dict):
        return "{" + ", ".join(f"{k}: {shown(x)}" for k, x in a.items()) + "}"
    return f"%{a.name}" if isinstance(a, Node) else str(a)


def target_name(target: Any) -> str:
    """Return a target as text: a name, or the function's module and name."""
    if isinstance(target, str):
        return target
    name = getattr(target, "__name__", repr(target))
    for module in (operator, math, builtins):
        if getattr(module, name, None) is target:
            return f"{'_operator' if module is operator else module.__name__}.{name}".removeprefix("builtins.")
    return f"{getattr(target, '__module__', None)}.{name}"
