"""Tracing: a module's forward, or a function, run once on values that have none, which write down what is done."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..base.errors import text
from ..base.signatures import signature
from ..nn.modules.container import Sequential
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ..tensors.tensor import Tensor
from .graph import Graph
from .graph_module import GraphModule
from .node import map_aggregate
from .printed import OURS, resolve
from .proxy import ParameterProxy, Proxy, TracerBase

__all__ = ["PH", "Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

PH = type("PHBase", (), {"__repr__": lambda self: "PH", "__doc__": "An argument that stays open in concrete_args."})()
_wrapped: dict[tuple[int, str], tuple[dict[str, Any], str]] = {}
_tracing = 0


def is_fx_tracing() -> bool:
    """Return whether a trace is going on."""
    return _tracing > 0


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Make a function of this module a leaf: traces write its call down and do not go into it.

    *Raises*: RuntimeError for neither a function nor a name; NotImplementedError within a function.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(text("Unsupported type for global function! Must be either a callable or string name",
                                op="fx.wrap", came=repr(fn_or_name)))  # fmt: skip
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError(text("wrap must be called at the top level of a module", op="fx.wrap",
                                       came=f"a call within {frame.f_code.co_name}"))  # fmt: skip
    _wrapped[id(frame.f_globals), name] = (frame.f_globals, name)
    return fn_or_name


class _Patches:
    """Names that are something else while a trace goes on."""

    def __init__(self) -> None:
        self._before: list[tuple[dict[str, Any], str, Any]] = []
        self._seen: set[int] = set()

    def put(self, names: dict[str, Any], name: str, value: Any) -> None:
        """Put a value in a name's place."""
        self._before.append((names, name, names.get(name, self)))
        names[name] = value

    def wrap_in(self, names: dict[str, Any], functions: set[int]) -> None:
        """Put leaves in the place of the functions of these ids in a module's names."""
        if id(names) in self._seen:
            return
        self._seen.add(id(names))
        for name, value in list(names.items()):
            if not name.startswith("_") and callable(value) and id(value) in functions:
                self.put(names, name, _leaf(value))

    def undo(self) -> None:
        """Put everything back."""
        for names, name, value in reversed(self._before):
            if value is self:
                names.pop(name, None)
            else:
                names[name] = value


def _leaf(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose call is written down where a value of a trace is among its arguments."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        found: list[Proxy] = []
        map_aggregate((args, kwargs), lambda x: found.append(x) if isinstance(x, Proxy) else None)
        if not found:
            return function(*args, **kwargs)
        return found[0].tracer.create_proxy("call_function", function, args, kwargs)

    return call


class Tracer(TracerBase):
    """Traces modules and functions; subclasses say what is a leaf (`is_leaf_module`) and how calls become nodes.

    autowrap_modules : modules of Python whose functions are leaves. autowrap_functions : functions that are.
    param_shapes_constant : the shapes of parameters are numbers in the trace.

    >>> import core
    >>> class Whole(core.fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return False
    >>> graph = Whole().trace(core.nn.Linear(2, 1))
    >>> [str(node) for node in graph.nodes]
    ['input_1', 'weight', 'bias', 'linear', 'output']
    """

    def __init__(self, autowrap_modules: tuple[types.ModuleType, ...] = (math,),
                 autowrap_functions: tuple[Callable[..., Any], ...] = (),
                 param_shapes_constant: bool = False) -> None:  # fmt: skip
        self._leaves = {id(f) for m in autowrap_modules for n, f in vars(m).items()
                        if not n.startswith("_") and callable(f)} | {id(f) for f in autowrap_functions}  # fmt: skip
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root: Module = Module()
        self.tensor_attrs: dict[int, str] = {}
        self._kept: list[Tensor] = []  # tensors that the program made, whose ids are known
        self._names_of_tensors: dict[int, str] = {}
        self._parameters: dict[int, tuple[str, Proxy]] = {}
        self._stack: dict[str, tuple[str, type]] = {}

    # -- what a subclass says ------------------------------------------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether a module's call is one node: those of `core.nn` are, a Sequential is not."""
        return m.__module__.startswith((f"{OURS}.nn", f"{OURS}.ao", "torch.nn", "torch.ao")) and \
            not isinstance(m, Sequential)  # fmt: skip

    def path_of_module(self, mod: Module) -> str:
        """Return the path of a module within the root.

        *Raises*: NameError where it is not in it.
        """
        if self.submodule_paths is not None and mod in self.submodule_paths:
            return self.submodule_paths[mod]
        found = next((n for n, m in self.root.named_modules() if m is mod), None)
        if found is None:
            raise NameError(text("module is not installed as a submodule", op="fx.Tracer", came=type(mod).__name__,
                                 remedy="set it as an attribute of the module in __init__"))  # fmt: skip
        return found

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Write the call of a leaf as a node; go into another."""
        path = self.path_of_module(m)
        before = self._stack
        self._stack = {**before, path: (path, type(m))}
        try:
            return forward(*args, **kwargs) if not self.is_leaf_module(m, path) else \
                self.create_proxy("call_module", path, args, kwargs)  # fmt: skip
        finally:
            self._stack = before

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Return what a module's attribute is in the trace: a parameter becomes a node."""
        is_buffer = self.proxy_buffer_attributes and isinstance(attr_val, Tensor)
        if not isinstance(attr_val, Parameter) and not is_buffer:
            return attr_val
        name = self._tensor_names().get(id(attr_val))
        if name is None:
            return attr_val
        if name not in parameter_proxy_cache:
            made = None
            if self.param_shapes_constant and not is_buffer:
                made = lambda node: ParameterProxy(self, node, name, attr_val)
            parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=made)
        return parameter_proxy_cache[name]

    def create_node(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                    name: str | None = None, type_expr: Any = None) -> Any:  # fmt: skip
        """Write a node, with the modules around it in ``meta["nn_module_stack"]``."""
        node = super().create_node(kind, target, args, kwargs, name, type_expr)
        if self._stack:
            node.meta["nn_module_stack"] = dict(self._stack)
        return node

    def create_arg(self, a: Any) -> Any:
        """Return what stands for a value among a node's arguments; a tensor is an attribute of the root."""
        return map_aggregate(a, self._argument)

    def _argument(self, a: Any) -> Any:
        if isinstance(a, Tensor):
            return self.create_node("get_attr", self._tensor_names().get(id(a)) or self._constant(a), (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return self._part(a)

    def _constant(self, a: Tensor) -> str:
        """Return the name of a tensor that the program made, which becomes an attribute of the root."""
        if id(a) not in self.tensor_attrs:
            k = 0
            while hasattr(self.root, f"_tensor_constant{k}"):
                k += 1
            self.tensor_attrs[id(a)] = f"_tensor_constant{k}"
            self._kept.append(a)
            setattr(self.root, f"_tensor_constant{k}", a)
        return self.tensor_attrs[id(a)]

    def _tensor_names(self) -> dict[int, str]:
        return self._names_of_tensors

    # -- the trace -----------------------------------------------------------------------------------------------------

    def trace(self, root: Module | Callable[..., Any], concrete_args: Mapping[str, Any] | None = None) -> Graph:
        """Return the graph of a module or a function.

        concrete_args : arguments that are given their values now; the graph asserts that it is called with these.

        *Raises*: TraceError where the program branches on a value or goes through one.
        """
        if isinstance(root, Module):
            self.root, fn = root, type(root).forward
            self.submodule_paths = {m: n for n, m in root.named_modules()}
        else:
            self.root, fn, self.submodule_paths = Module(), root, None
        self._names_of_tensors = _tensors(self.root)
        self.tensor_attrs, self._kept, self._parameters = {}, [], {}
        self.graph = Graph(tracer_cls=type(self))
        with self._patched(fn):
            fn, args = self.create_args_for_root(fn, isinstance(root, Module), concrete_args)
            self.create_node("output", "output", (self.create_arg(fn(*args)),), {})
        self.submodule_paths = None
        return self.graph

    def create_args_for_root(self, root_fn: Callable[..., Any], is_module: bool,
                             concrete_args: Mapping[str, Any] | None = None) -> tuple[Any, list[Any]]:  # fmt: skip
        """Return the function, and a placeholder for each of its arguments."""
        args: list[Any] = [self.root] if is_module else []
        parameters = list(signature(root_fn).parameters.values())
        named: dict[str, Any] = {}
        for p in parameters[1:] if is_module else parameters:
            stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
            default = () if p.default is p.empty else (p.default,)
            if concrete_args is not None and p.name in concrete_args:
                value = self._given(p.name, concrete_args[p.name], default)
            else:
                kind = None if isinstance(p.annotation, str) or p.annotation is p.empty else p.annotation
                value = self.create_proxy("placeholder", stars + p.name, default, {}, type_expr=kind)
            if p.kind is p.KEYWORD_ONLY:
                named[p.name] = value
            else:
                args.append(value)
        if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters) or named:
            return _starred(root_fn, parameters, named), args
        return root_fn, args

    def _given(self, name: str, value: Any, default: tuple[Any, ...]) -> Any:
        """Return an argument's given value, and write a node that asserts it."""
        out = self.create_proxy("placeholder", name, default, {})
        if value is PH:
            return out
        if isinstance(value, bool | int | float | str | type(None)):
            same = _is_none(out, name) if value is None else out == value
            said = f"{name} has been specialized to have value {value} but got another value"
            if value is not None:
                self.create_proxy("call_function", resolve(sys.modules[OURS], "_assert"), (same, said), {})
            return value
        found: list[Any] = []
        map_aggregate(value, lambda x: found.append(x) if x is PH else None)
        if found:
            raise NotImplementedError(
                text("open places within a list or dict of concrete_args are not here", op="fx.Tracer.trace",
                     came=f"{name}={value!r}",
                     remedy="a function that takes the parts, and puts them together"))  # fmt: skip
        return value

    @contextmanager
    def _patched(self, fn: Callable[..., Any]) -> Iterator[None]:
        """Hear calls of modules, reads of parameters and calls of leaves in the block."""
        global _tracing
        patches, cache = _Patches(), {}  # type: ignore[var-annotated]
        call, read = Module.__call__, Module.__getattr__

        def heard(mod: Module, *args: Any, **kwargs: Any) -> Any:
            patches.wrap_in(getattr(type(mod).forward, "__globals__", {}), self._leaves)
            return self.call_module(mod, lambda *a, **k: call(mod, *a, **k), args, kwargs)

        def seen(mod: Module, name: str) -> Any:
            return self.getattr(name, read(mod, name), cache)

        own = "__call__" in Module.__dict__
        Module.__call__, Module.__getattr__ = heard, seen  # type: ignore[method-assign, assignment]
        _tracing += 1
        try:
            for names, name in _wrapped.values():
                found = names.get(name, getattr(builtins, name, None))
                if found is not None:
                    patches.put(names, name, _leaf(found))
            for module in self._autowrap_search:
                patches.wrap_in(vars(module), self._leaves)
            patches.wrap_in(getattr(fn, "__globals__", {}), self._leaves)
            yield
        finally:
            _tracing -= 1
            patches.undo()
            Module.__getattr__ = read  # type: ignore[method-assign]
            if own:
                Module.__call__ = call  # type: ignore[method-assign]
            else:
                del Module.__call__


def _tensors(root: Module) -> dict[int, str]:
    """Return the paths of a module's parameters and tensors by their ids."""
    found: dict[int, str] = {}
    for path, module in root.named_modules():
        for group in (module._parameters, module._buffers, module.__dict__):
            for name, value in group.items():
                if isinstance(value, Tensor):
                    found.setdefault(id(value), f"{path}.{name}".lstrip("."))
    return found


def _is_none(out: Any, name: str) -> Any:
    said = f"{name} has been specialized to have value None but got another value"
    return out.tracer.create_proxy("call_function", _assert_is_none, (out, said), {})


def _assert_is_none(value: Any, msg: str) -> None:
    """Assert that an argument that was None in the trace is None."""
    assert value is None, msg


def _starred(fn: Callable[..., Any], parameters: Any, named: dict[str, Any]) -> Callable[..., Any]:
    """Return the code of a function with its *args and **kwargs as plain arguments: values of the trace stand for all
    of them."""
    code = fn.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    plain = code.replace(co_argcount=count + stars, co_kwonlyargcount=0, co_flags=flags)
    made = types.FunctionType(plain, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    order = [*code.co_varnames[code.co_argcount : count]]

    def call(*args: Any) -> Any:
        first, rest = args[: code.co_argcount], args[code.co_argcount :]
        return made(*first, *(named[n] for n in order), *rest)

    return call


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: Mapping[str, Any] | None = None) -> GraphModule:
    """Return a module or a function as a module whose code is printed from its graph.

    concrete_args : arguments that are given their values now, so that the program may branch on them.

    *Raises*: TraceError where the program branches on a value or goes through one; `core.export` captures such a
    program from a call.

    >>> import core
    >>> traced = core.fx.symbolic_trace(core.nn.Sequential(core.nn.Linear(2, 1), core.nn.ReLU()))
    >>> [node.op for node in traced.graph.nodes]
    ['placeholder', 'call_module', 'call_module', 'output']
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "GraphModule")
    return GraphModule(tracer.root, graph, name)
