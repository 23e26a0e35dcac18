"""Values of a trace: what is done with one is written into a graph."""

from __future__ import annotations

import dis
import enum
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..base.device import device as Device
from ..base.dtypes import dtype as DType
from ..base.errors import text
from ..tensors import overriding
from ..tensors.tensor import Tensor
from .graph import Graph
from .node import Node, map_aggregate
from .printed import BINARY, OURS, PLACES, UNARY, qualified, resolve

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "TraceError", "TracerBase"]

PLAIN = (str, bytes, int, float, complex, bool, type(None), type(...), Device, DType, range, enum.Enum)


class TraceError(ValueError):
    """A trace that asked for what only a value has."""


def _refused(phrase: str, remedy: str) -> TraceError:
    return TraceError(text(phrase, op="fx.Tracer", came="a value of the trace, which has none yet", remedy=remedy))


class TracerBase:
    """Writes what is done with proxies into a graph."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = trace_asserts = param_shapes_constant = False
    proxy_buffer_attributes = False

    def create_node(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                    name: str | None = None, type_expr: Any = None) -> Node:  # fmt: skip
        """Write a node, and return it."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """Return a value of the trace for a node."""
        return Proxy(node, self)

    def create_proxy(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any],
                     name: str | None = None, type_expr: Any = None,
                     proxy_factory_fn: Callable[[Node], Proxy] | None = None) -> Any:  # fmt: skip
        """Write a node whose arguments may be values of the trace, and return its value."""
        node = self.create_node(kind, target, self.create_arg(tuple(args)), self.create_arg(dict(kwargs)), name,
                                type_expr)  # fmt: skip
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a: Any) -> Any:
        """Return what stands for a value among a node's arguments.

        *Raises*: NotImplementedError for objects that no argument can be.
        """
        return map_aggregate(a, self._part)

    def _part(self, a: Any) -> Any:
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, (*PLAIN, Node)) or callable(a):
            return a
        raise NotImplementedError(text(f"argument of type: {type(a)}", op="fx.Tracer.create_arg",
                                       needed="a value of the trace, a number, a name, a tensor, or these in lists",
                                       remedy="core.fx.wrap the function that takes it"))  # fmt: skip

    def to_bool(self, obj: Proxy) -> bool:
        """Return a value's truth: a trace has none, and refuses."""
        raise _refused(
            "symbolically traced variables cannot be used as inputs to control flow",
            "core.where, a leaf module, concrete_args for an argument, or core.export of a call",
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Go through a value: as many items as the program unpacks, ``a, b = x.shape``; otherwise refuse."""
        count = _unpacked(sys._getframe(2))
        if count is None:
            raise _refused("Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or "
                           "as a *args or **kwargs function argument",
                           "take the items by number, x[0], or unpack a known count")  # fmt: skip
        return (
            obj[k]  # type: ignore[index]
            for k in range(count)
        )

    def keys(self, obj: Proxy) -> Any:
        """Return what ``**value`` goes through: the call of its keys."""
        return Attribute(obj, "keys")()


def _unpacked(frame: Any) -> int | None:
    """Return how many names a line of a program is about to unpack into; None where it does something else."""
    found = next((i for i in dis.get_instructions(frame.f_code) if i.offset == frame.f_lasti), None)
    if found is None:
        return None
    if found.opname.startswith("UNPACK_SEQUENCE"):
        return found.arg
    return None


class GraphAppendingTracer(TracerBase):
    """Writes what is done with its proxies at the end of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """A value of a trace: every function, method and operator on it becomes a node.

    >>> import core
    >>> graph = core.fx.Graph()
    >>> x = core.fx.Proxy(graph.placeholder("x"))
    >>> y = core.sigmoid(x) * x.shape[0]
    >>> [node.op for node in graph.nodes], y.node
    (['placeholder', 'call_function', 'call_function', 'call_function', 'call_function'], mul)
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        if not overriding.active:
            overriding.activate()
        self.node, self.tracer = node, tracer or GraphAppendingTracer(node.graph)

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Any:
        if name in ("__array__", "__array_interface__", "__fx_create_arg__") or name.startswith("_is_"):
            raise AttributeError(name)
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        frame = sys._getframe(1)
        if self.tracer.trace_asserts and _asserts(frame):
            self.tracer.create_proxy("call_function", resolve(sys.modules[OURS], "_assert"), (self, ""), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """Return what ``**value`` goes through."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(text("'len' is not supported in symbolic tracing by default. If you want this call to be "
                                "recorded, please call torch.fx.wrap('len') at module scope", op="fx.Proxy",
                                remedy="x.shape[0]"))  # fmt: skip

    def __contains__(self, item: Any) -> bool:
        raise _refused("'in' of a value of the trace is control flow", "(x == item).any()")

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        return Proxy(self.node, self.tracer)

    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (),
                           kwargs: Mapping[str, Any] | None = None) -> Any:  # fmt: skip
        """Write a call of a function of core's as a node."""
        kwargs = kwargs or {}
        found: dict[TracerBase, None] = {}

        def note(x: Any) -> None:
            if isinstance(x, Proxy):
                found[x.tracer] = None

        map_aggregate((args, dict(kwargs)), note)
        if len(found) > 1:
            raise RuntimeError(text(f"Found multiple different tracers {list(found)} while trying to trace operations "
                                    f"{func}", op="fx.Proxy"))  # fmt: skip
        (tracer,) = found
        name = getattr(func, "__name__", "")
        if name == "einsum" and len(args) == 2 and isinstance(args[1], list | tuple):
            args = (args[0], *args[1])  # its tensors one by one, as in PyTorch's graphs
        if name == "__get__":
            name = getattr(func, "__self__", None).__name__  # type: ignore[union-attr]
            return tracer.create_proxy("call_function", getattr, (*args, name), kwargs)
        known = public_form(func)
        if known is None or qualified(known) == f"torch:Tensor.{name}":
            return tracer.create_proxy("call_method", name, args, kwargs)
        return tracer.create_proxy("call_function", known, args, kwargs)


def public_form(func: Callable[..., Any]) -> Any:
    """Return the public function that a function is called by; None where it has none and is a tensor's method.

    What C asks with and the function behind autocast are not the objects that ``core.relu`` is.
    """
    if qualified(func) is not None:
        return func
    name = getattr(func, "__name__", "")
    for place in PLACES[:-1]:
        try:
            return resolve(sys.modules[OURS], f"{place}.{name}".strip("."))
        except AttributeError:
            continue
    return None if hasattr(Tensor, name) else func


def _asserts(frame: Any) -> bool:
    following = [i for i in dis.get_instructions(frame.f_code) if i.offset > frame.f_lasti and i.opname != "NOT_TAKEN"]
    # as one of the constants that every function knows from Python 3.14 on
    return any(i.opname == "LOAD_ASSERTION_ERROR" or i.argrepr == "AssertionError" for i in following[:2])


class Attribute(Proxy):
    """An attribute of a value of the trace: called, a method's call; otherwise a node when it is asked for."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter in a trace, whose shape is known: with `param_shapes_constant` programs may branch on it."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.name, self.param = name, param

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The shape."""
        return self.param.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.param.ndim  # type: ignore[no-any-return]

    def size(self, *args: Any) -> Any:
        """Return the shape, or the size of a dimension."""
        return self.param.size(*args)

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self.param.dim()  # type: ignore[no-any-return]

    def numel(self) -> int:
        """Return the number of elements."""
        return self.param.numel()  # type: ignore[no-any-return]

    def nelement(self) -> int:
        """Return the number of elements."""
        return self.param.numel()  # type: ignore[no-any-return]


def _operator(name: str) -> None:
    target = getattr(operator, name)
    setattr(Proxy, f"__{name.strip('_')}__",
            lambda self, *others: self.tracer.create_proxy("call_function", target, (self, *others), {}))  # fmt: skip


def _reflected(name: str) -> None:
    target = getattr(operator, name)
    setattr(Proxy, f"__r{name.strip('_')}__",
            lambda self, other: self.tracer.create_proxy("call_function", target, (other, self), {}))  # fmt: skip


for _name in (*BINARY, *UNARY, "getitem", "abs"):
    _operator(_name)
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and_", "or_",
              "xor"):  # fmt: skip
    _reflected(_name)
