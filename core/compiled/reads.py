"""All that a function may read besides its arguments, as checks that it is still so.

Whatever its code names is followed: globals, variables around it, defaults, attributes of what these are, functions
that it calls. What is found there is checked before each replay. What cannot be followed, or would be done by the
code itself, is refused.
"""

from __future__ import annotations

import builtins
import enum
import functools
import types
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.device import device as Device
from ..base.dtypes import dtype as Dtype
from ..base.source import is_ours
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ..tensors.tensor import Tensor
from . import bytecode
from .checks import (
    ARRAY,
    ATTRIBUTE,
    CELL,
    GET,
    ITEM,
    KEYS,
    LENGTH,
    MISSING,
    OF_CLASS,
    SET,
    Check,
    check_runs,
    first_changed,
    holds,
    together,
    unchanged,
)
from .recording import Refusal

_MOST = 20_000  # checks
_SAFE = frozenset(
    [
        "abs",
        "all",
        "any",
        "bool",
        "bytes",
        "callable",
        "chr",
        "complex",
        "dict",
        "divmod",
        "enumerate",
        "filter",
        "float",
        "format",
        "frozenset",
        "getattr",
        "hasattr",
        "int",
        "isinstance",
        "issubclass",
        "iter",
        "len",
        "list",
        "map",
        "max",
        "min",
        "next",
        "ord",
        "pow",
        "range",
        "repr",
        "reversed",
        "round",
        "set",
        "slice",
        "sorted",
        "str",
        "sum",
        "super",
        "tuple",
        "type",
        "zip",
        "object",
        "property",
        "staticmethod",
        "classmethod",
        "NotImplemented",
        "Ellipsis",
        "__debug__",
    ]
)
_TRUSTED = frozenset(
    [
        "core",
        "math",
        "cmath",
        "operator",
        "itertools",
        "functools",
        "collections",
        "typing",
        "numbers",
        "abc",
        "enum",
        "string",
        "copy",
        "contextlib",
        "types",
        "dataclasses",
        "builtins",
        "numpy",
    ]
)
_UNSAFE = frozenset(["numpy.random", "core.random", "core.compiled", "core.distributed", "core.autograd",
                     "core.profiler", "core.utils.data", "core.serialization", "core.optim"])  # fmt: skip
_UNASKED = frozenset(
    [
        "__repr__",
        "__str__",
        "__format__",
        "__hash__",
        "__reduce__",
        "__reduce_ex__",
        "__getstate__",
        "__setstate__",
        "__copy__",
        "__deepcopy__",
        "__sizeof__",
        "__dir__",
        "__del__",
        "__setattr__",
        "__delattr__",
        "__init__",
        "__new__",
        "__post_init__",
        "__init_subclass__",
        "__class_getitem__",
        "__set_name__",
        "__replace__",
        "__getnewargs__",
    ]
)
"""Methods with double underscores that the code of a function does not run by itself."""
_LOOKING = ("BCELoss", "GaussianNLLLoss", "MultiLabelMarginLoss", "AdaptiveLogSoftmaxWithLoss", "TransformerEncoder",
            "Transformer", "FractionalMaxPool2d", "FractionalMaxPool3d")  # fmt: skip
_OF_MODULES = frozenset(Module().__dict__)
_TAKEN = ("core.autograd.function", "core.compiled.step")
_LEAVES = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic, np.dtype, Dtype, Device,
           enum.Enum, range, slice, types.GenericAlias)  # fmt: skip


class Reads:
    """What a function reads.

    checks : (kind, where, key, what was there), each of which has to hold for a replay to be what would happen.
    tensors : id -> a tensor that is reached.
    """

    def __init__(self, function: Any, arguments: Sequence[Any] = ()) -> None:
        self.names: set[str] = set()
        self.any_name = False  # whether code asks for attributes by names that it computes
        while True:
            known = len(self.names), self.any_name
            self.checks: list[Check] = []
            self.tensors: dict[int, Tensor] = {}
            self._seen: dict[int, Any] = {}
            self._lacking: set[type] = set()  # classes of which is checked what they do not have
            self.follow(function, "it")
            for x in arguments:
                self.follow(x, "an argument")
            if (len(self.names), self.any_name) == known:
                break
        self.checks = together(self.checks)
        self.runs = check_runs(self.checks)

    # -- checking ------------------------------------------------------------------------------------------------------

    def hold(self) -> bool:
        """Return whether all is as it was."""
        at = unchanged(self.checks, self.runs, MISSING)
        while at >= 0:
            if not holds(*self.checks[at]):
                return False
            at = first_changed(self.checks, at + 1, MISSING)
        return True

    # -- following -----------------------------------------------------------------------------------------------------

    def _check(self, kind: int, where: Any, key: Any, value: Any) -> None:
        if len(self.checks) >= _MOST:
            raise Refusal(f"the function reaches more than {_MOST} values")
        self.checks.append((kind, where, key, value))

    def follow(self, x: Any, name: str) -> None:
        """Follow a value that the function may read."""
        if isinstance(x, _LEAVES) or x is NotImplemented:
            return
        if id(x) in self._seen:
            return
        self._seen[id(x)] = x
        if isinstance(x, Tensor):
            if type(x) not in (Tensor, Parameter):
                raise Refusal(f"{name} is a tensor of class {type(x).__name__}")
            self.tensors[id(x)] = x
        elif isinstance(x, Module):
            self._module(x, name)
        elif type(x).__name__ == "PackedSequence":
            raise Refusal(f"{name} is a PackedSequence")
        elif isinstance(x, types.FunctionType):
            self._function(x, name)
        elif isinstance(x, types.MethodType):
            self.follow(x.__func__, name)
            self.follow(x.__self__, name)
        elif isinstance(x, functools.partial):
            self._check(ATTRIBUTE, x, "func", x.func)
            self.follow(x.func, name)
            self._items(x.args, name)
            self._items(x.keywords, name)
        elif isinstance(x, types.ModuleType):
            self._python_module(x, name)
        elif isinstance(x, type):
            self._class(x, name)
        elif type(x) in (list, tuple, dict, set, frozenset, OrderedDict) or isinstance(
            x, tuple | types.MappingProxyType
        ):
            self._items(x, name)
            if isinstance(x, tuple) and type(x) is not tuple:
                self._members(type(x), name, set())
        elif isinstance(x, np.ndarray):
            if x.size > 64 or x.dtype.hasobject:
                raise Refusal(f"{name} is an array of NumPy's (core.tensor it once)")
            self._check(ARRAY, x, None, (x.shape, x.dtype, x.tobytes()))
        elif _is_ours(x):
            self._of_core(x, name)
        elif callable(x) and isinstance(x, types.BuiltinFunctionType | types.MethodWrapperType | np.ufunc):
            self._builtin(x, name)
        elif hasattr(x, "__wrapped__") and type(x).__module__ == "functools":
            raise Refusal(f"{name} is a cache of functools")
        elif type(x).__flags__ & (1 << 9) and hasattr(x, "__dict__"):  # of a class written in Python
            self._object(x, name)
        else:
            raise Refusal(f"{name} is {_said(x)}, of which nobody knows what it will be at the next call")

    def _items(self, x: Any, name: str) -> None:
        if isinstance(x, dict | types.MappingProxyType):
            self._check(KEYS, x, None, tuple(x))
            for k, v in x.items():
                self._item(ITEM, x, k, v, f"{name}[{k!r}]")
        elif isinstance(x, set | frozenset):
            if not all(isinstance(v, _LEAVES) for v in x):
                raise Refusal(f"{name} is a set of more than numbers and texts")
            self._check(SET, x, None, frozenset(x))
        else:
            if type(x) is list:
                self._check(LENGTH, x, None, len(x))
            for k, v in enumerate(x):
                self._item(ITEM if type(x) is list else None, x, k, v, f"{name}[{k}]")

    def _item(self, kind: int | None, where: Any, key: Any, value: Any, name: str) -> None:
        if kind is not None:
            self._check(kind, where, key, value)
        self.follow(value, name)

    def _function(self, f: types.FunctionType, name: str) -> None:
        if is_ours(f.__code__.co_filename):
            if any(f.__module__.startswith(m) for m in _UNSAFE) and not f.__module__.startswith(_TAKEN):
                raise Refusal(f"{name} is {f.__module__}.{f.__name__}")
            if getattr(f, "compile_disabled", False):
                raise Refusal(f"{name} is marked with core.compiler.disable")
            for key, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
                self._item(CELL, cell, None, cell.cell_contents, key)
            return
        found = bytecode.read(f.__code__)
        for effect in found.effects:
            raise Refusal(f"{effect.line} {effect.what}")
        self._check(ATTRIBUTE, f, "__code__", f.__code__)
        self.names |= found.names
        self.any_name = self.any_name or found.by_name
        for key in found.globals:
            if key in f.__globals__:
                self._item(GET, f.__globals__, key, f.__globals__[key], key)
            else:
                self._check(GET, f.__globals__, key, MISSING)
                self._named_builtin(key)
        for key, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            self._item(CELL, cell, None, value, key)
        for defaults in (f.__defaults__, f.__kwdefaults__):
            if defaults is not None:
                self._items(defaults, f"a default of {f.__name__}")
        self._check(ATTRIBUTE, f, "__defaults__", f.__defaults__)
        if f.__dict__:
            self._attributes(f, f.__dict__, name)

    def _of_core(self, x: Any, name: str) -> None:
        """Follow an object of a class of core's: all that it has, since its code is not read."""
        if any(type(x).__module__.startswith(m) for m in _UNSAFE):
            wrapped = getattr(x, "__wrapped__", None)
            if wrapped is None or getattr(wrapped, "compile_disabled", False):
                raise Refusal(f"{name} is {_said(x)}")
            self.follow(wrapped, name)  # another compiled function, which runs as a part of this one
        elif type(x).__module__.startswith("core.native"):  # public functions
            return
        elif hasattr(x, "__dict__"):
            self._check(KEYS, x.__dict__, None, tuple(x.__dict__))
            for key, value in list(x.__dict__.items()):
                self._item(GET, x.__dict__, key, value, f"{name}.{key}")
        else:
            raise Refusal(f"{name} is {_said(x)}")

    def _named_builtin(self, key: str) -> None:
        value = getattr(builtins, key, MISSING)
        if value is MISSING:
            return
        if key not in _SAFE and not (isinstance(value, type) and issubclass(value, BaseException)):
            raise Refusal(f"the function calls {key}()")

    def _builtin(self, x: Any, name: str) -> None:
        module = str(getattr(x, "__module__", None) or type(getattr(x, "__self__", None)).__module__)
        if isinstance(x, np.ufunc):
            return
        if module == "builtins" and getattr(x, "__name__", "") in _SAFE:
            return
        root = module.partition(".")[0]
        if root in ("math", "cmath", "_operator", "operator", "_functools", "itertools", "numpy") and not (
            module.startswith("numpy.random")
        ):
            return
        raise Refusal(f"{name} is {_said(x)}")

    def _python_module(self, m: types.ModuleType, name: str) -> None:
        root = m.__name__.partition(".")[0]
        if any(m.__name__.startswith(u) for u in _UNSAFE):
            raise Refusal(f"{name} is the module {m.__name__}")
        space = vars(m)
        trusted = root in _TRUSTED
        if self.any_name and not trusted and len(space) > 200:
            raise Refusal(f"the function asks for attributes by names that it computes, with the module {m.__name__}")
        for key in sorted(space if self.any_name and not trusted else self.names):
            value = space.get(key, MISSING)
            if value is MISSING:
                continue
            if trusted and not isinstance(value, types.ModuleType | types.FunctionType):
                if root != "core" and isinstance(value, types.BuiltinFunctionType):
                    self._builtin(value, f"{m.__name__}.{key}")
                continue
            if trusted and isinstance(value, types.FunctionType) and root != "core":
                if value.__module__ and value.__module__.startswith("numpy.random"):
                    raise Refusal(f"{m.__name__}.{key} is random")
                continue
            self._item(GET, space, key, value, f"{m.__name__}.{key}")

    def _class(self, c: type, name: str) -> None:
        if c.__module__.partition(".")[0] in _TRUSTED or _is_ours(c):
            return
        if not c.__flags__ & (1 << 9):
            if c.__module__ == "builtins":
                return
            raise Refusal(f"{name} is {_said(c)}")
        self._members(c, name, {"__init__", "__new__", "__post_init__"})

    def _members(self, c: type, name: str, more: set[str]) -> None:
        """Follow what a class of the user's has under names that the code asks for, and what Python asks for."""
        for base in c.__mro__:
            if base is object or _is_ours(base) or base.__module__.partition(".")[0] in _TRUSTED:
                continue
            if not base.__flags__ & (1 << 9):
                raise Refusal(f"{name} is of the class {base.__name__}")
            space = base.__dict__
            if base not in self._lacking:  # a method, or an attribute, may yet come before that of a class behind it
                self._lacking.add(base)
                for key in sorted((self.names | more).difference(space)):
                    self._check(OF_CLASS, base, key, MISSING)
            for key, value in list(space.items()):
                implicit = key.startswith("__") and key.endswith("__") and isinstance(value, types.FunctionType)
                named = key in self.names or (self.any_name and key not in _UNASKED)
                if not ((implicit and key not in _UNASKED) or named or key in more):
                    continue
                if isinstance(value, staticmethod | classmethod):
                    self._check(OF_CLASS, base, key, value)
                    value = value.__func__
                elif isinstance(value, property):
                    self._check(OF_CLASS, base, key, value)
                    value = value.fget
                elif isinstance(value, functools.cached_property):
                    raise Refusal(f"{name}.{key} is a cached property")
                elif key.startswith("__") and not isinstance(value, types.FunctionType):
                    continue
                elif type(value).__module__ == "builtins" and hasattr(type(value), "__get__") \
                        and not isinstance(value, types.FunctionType):  # fmt: skip
                    continue  # a slot, a wrapper of C
                else:
                    self._check(OF_CLASS, base, key, value)
                if value is not None:
                    self.follow(value, f"{name}.{key}")

    def _module(self, m: Module, name: str) -> None:
        own = type(m)
        if any(base.__name__ in _LOOKING for base in own.__mro__) or getattr(m, "max_norm", None):
            raise Refusal(f"{name} is a {own.__name__}, which looks at values")
        ours = _is_ours(own)
        space = m.__dict__
        self._check(KEYS, space, None, tuple(space))
        for key, value in list(space.items()):
            if key in ("_parameters", "_buffers", "_modules"):
                self._check(GET, space, key, value)
                self._items(value, f"{name}.{key}" if name else key)
            elif key.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called")):
                if "state_dict" in key:
                    continue
                if value:
                    raise Refusal(f"{name} has hooks")
                self._check(LENGTH, value, None, 0)
            elif key in _OF_MODULES or ours or key in self.names or self.any_name:
                self._item(GET, space, key, value, f"{name}.{key}")
        self._check(ATTRIBUTE, m, "__class__", own)
        if not ours:
            built = own.__mro__[1:]
            overridden = {k for c in built if _is_ours(c) and c is not Module for k in c.__dict__} - _UNASKED
            self._members(own, name, {"forward"} | overridden)

    def _object(self, x: Any, name: str) -> None:
        if isinstance(x, BaseException | types.GeneratorType):
            raise Refusal(f"{name} is {_said(x)}")
        self._check(ATTRIBUTE, x, "__class__", type(x))
        self._attributes(x, x.__dict__, name)
        for base in type(x).__mro__:
            if "__getattr__" in base.__dict__ or ("__getattribute__" in base.__dict__ and base is not object):
                raise Refusal(f"{name} finds its attributes by code")
            if base.__dict__.get("__slots__"):
                raise Refusal(f"{name} has slots")
        if isinstance(x, list | dict | set):
            raise Refusal(f"{name} is of a class made of {type(x).__mro__[-2].__name__}")
        self._members(type(x), name, set())

    def _attributes(self, x: Any, space: dict[str, Any], name: str) -> None:
        self._check(KEYS, space, None, tuple(space))
        for key, value in list(space.items()):
            if key in self.names or self.any_name:
                self._item(GET, space, key, value, f"{name}.{key}")


def _is_ours(x: Any) -> bool:
    """Return whether something is core's own."""
    module = getattr(x, "__module__", None) if isinstance(x, type) or callable(x) else None
    module = module if isinstance(module, str) else type(x).__module__
    return isinstance(module, str) and module.partition(".")[0] == "core"


def _said(x: Any) -> str:
    name = getattr(x, "__qualname__", None) or type(x).__qualname__
    return f"{name} of {getattr(x, '__module__', None) or type(x).__module__}"
