"""`Module`: what holds parameters, buffers and other modules, and can be called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Self, get_type_hints

from ...base.source import here
from ...dispatch.sparse import SparseTensor
from ...events import observe
from ...tensors.tensor import Tensor, storage_of
from ..parameter import Buffer, Parameter
from .calling import Calling
from .converting import Converting
from .everywhere import (
    Hooks,
    calls,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    registered,
    registrations,
)
from .state import State, _IncompatibleKeys

__all__ = [
    "Module",
    "_IncompatibleKeys",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


# PyTorch's tables of the hooks of all modules, to be read
_global_forward_hooks, _global_forward_pre_hooks = Hooks("forward", calls), Hooks("forward_pre", calls)
_global_backward_hooks, _global_backward_pre_hooks = Hooks("backward", calls), Hooks("backward_pre", calls)
_global_parameter_registration_hooks = Hooks("parameter", registrations)
_global_buffer_registration_hooks = Hooks("buffer", registrations)
_global_module_registration_hooks = Hooks("module", registrations)

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"  # PyTorch's name of what `get_extra_state` is saved under


def typename(x: Any) -> str:
    """Return the name of a value's type as messages say it: ``int``, ``core.FloatTensor``."""
    if isinstance(x, Tensor):
        short = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long",
                 "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool"}  # fmt: skip
        return f"core.{'cuda.' if x.is_cuda else ''}{short.get(x.dtype.name, x.dtype.name)}Tensor"
    t = type(x)
    return t.__qualname__ if t.__module__ == "builtins" else f"{t.__module__}.{t.__qualname__}"


def zeroed(g: Tensor) -> Tensor:
    """Return a gradient filled with zeros, without its history."""
    if g._requires_grad:
        g = g.detach()
    if observe.wanted("as ops") or isinstance(g, SparseTensor):
        return g.zero_()  # type: ignore[no-any-return, attr-defined]
    g._a[...] = 0
    storage_of(g).wrote("zero_grad", here())
    return g


def indented(text: str, spaces: int) -> str:
    """`text` with every line but the first moved to the right."""
    return text.replace("\n", "\n" + " " * spaces)


class Module(Calling, Converting, State):
    """Base of all modules: assign parameters and modules as attributes, write `forward`, call the module.

    >>> import core
    >>> class Affine(core.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.w = core.nn.Parameter(core.tensor(2.0))
    ...     def forward(self, x):
    ...         return self.w * x
    >>> m = Affine()
    >>> [name for name, _ in m.named_parameters()], m(core.tensor(3.0)).item()
    (['w'], 6.0)
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]

    dump_patches = False
    call_super_init = False  # for classes with other bases beside: hand the arguments of __init__ on to them

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            if kwargs:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                                f"'{next(iter(kwargs))}'")  # fmt: skip
            if args:
                raise TypeError(f"{type(self).__name__}.__init__() takes 1 positional argument but "
                                f"{len(args) + 1} were given")  # fmt: skip
        put = super().__setattr__  # past our own __setattr__, which needs these to be there
        put("training", True)
        put("_parameters", {})
        put("_buffers", {})
        put("_non_persistent_buffers_set", set())
        put("_modules", {})
        self._init_hooks(put)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self._init_hooks(self.__dict__.setdefault)  # what is missing from states that older versions saved

    # -- registering ---------------------------------------------------------------------------------------------------

    def _check_name(self, what: str, name: Any, among: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in among:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain "."' + (f", got: {name}" if what == "module" else ""))
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is no parameter; it moves with the module and, if `persistent`, is saved with its state."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{typename(tensor)}' object to buffer '{name}' "
                            "(torch Tensor or None required)")  # fmt: skip
        self._buffers[name] = registered("buffer", self, name, tensor) if registrations else tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None to keep its place."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(f"cannot assign '{typename(param)}' object to parameter '{name}' "
                                "(core.nn.Parameter or None required)")  # fmt: skip
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    "explicitly. "
                    f"To express '{name}' as a function of another Tensor, compute the value in the forward() method."
                )
        if registrations and param is not None:
            param = registered("parameter", self, name, param)
        self._parameters[name] = param

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module."""
        if not isinstance(module, Module) and module is not None:
            unpacked = isinstance(module, list)
            remedy = "\n  remedy: a list of layers is given unpacked: nn.Sequential(*layers)" if unpacked else ""
            raise TypeError(f"{typename(module)} is not a Module subclass{remedy}")
        self._check_name("module", name, self._modules)
        self._modules[name] = registered("module", self, name, module) if registrations else module

    def register_module(self, name: str, module: Module | None) -> None:
        """As `add_module`."""
        self.add_module(name, module)

    # -- attributes ----------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:  # only reached where the ordinary lookup found nothing
        own = self.__dict__
        for group in ("_parameters", "_buffers", "_modules"):
            if group in own and name in own[group]:
                return own[group][name]
        # with both, Python asks "Did you mean" by the names of parameters and layers too
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        parameters, modules, buffers = own.get("_parameters"), own.get("_modules"), own.get("_buffers")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_buffers", "_modules")
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(f"cannot assign '{typename(value)}' as parameter '{name}' "
                                "(core.nn.Parameter or None expected)")  # fmt: skip
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_parameters", "_buffers")
            modules[name] = registered("module", self, name, value) if registrations else value
        elif modules is not None and name in modules:
            if value is not None:
                raise TypeError(f"cannot assign '{typename(value)}' as child module '{name}' "
                                "(core.nn.Module or None expected)")  # fmt: skip
            modules[name] = registered("module", self, name, None) if registrations else None
        elif isinstance(value, Buffer) or (buffers is not None and name in buffers):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign '{typename(value)}' as buffer '{name}' "
                                "(core.nn.Buffer, core.Tensor or None expected)")  # fmt: skip
            persistent = value.persistent if isinstance(value, Buffer) else name not in self._non_persistent_buffers_set  # type: ignore[attr-defined]
            self.register_buffer(name, value, persistent)
        else:
            super().__setattr__(name, value)

    def _forget(self, name: str, *groups: str) -> None:
        own = self.__dict__
        own.pop(name, None)
        for group in groups:
            own[group].pop(name, None)
        own["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(n for n in names if not n[0].isdigit())

    # -- going through -------------------------------------------------------------------------------------------------

    def _members(self, group: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        seen = set()
        for path, module in self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse \
                else [(prefix, self)]:  # fmt: skip
            for name, value in module.__dict__[group].items():
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(self, prefix: str = "", recurse: bool = True,
                         remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:  # fmt: skip
        """Return the parameters with their names, such as ``0.weight``."""
        return self._members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters of this module and, with `recurse`, of all within."""
        for _, p in self.named_parameters(recurse=recurse):
            yield p

    def named_buffers(self, prefix: str = "", recurse: bool = True,
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:  # fmt: skip
        """Return the buffers with their names."""
        return self._members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers of this module and, with `recurse`, of all within."""
        for _, b in self.named_buffers(recurse=recurse):
            yield b

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules directly in this one, each once, with their names."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yield the modules directly in this one."""
        for _, module in self.named_children():
            yield module

    def named_modules(self, memo: set[Module] | None = None, prefix: str = "",
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:  # fmt: skip
        """This module and all within, with their paths."""
        memo = set() if memo is None else memo
        if self not in memo:
            if remove_duplicate:
                memo.add(self)
            yield prefix, self
            for name, module in self._modules.items():
                if module is not None:
                    path = f"{prefix}.{name}" if prefix else name
                    yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all within, each once unless `remove_duplicate` is False."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def get_submodule(self, target: str) -> Module:
        """Return the module at a path such as ``"encoder.0"``; AttributeError if there is none."""
        found: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(found, name):
                raise AttributeError(f"{found._get_name()} has no attribute `{name}`")
            found = getattr(found, name)
            if not isinstance(found, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return found  # type: ignore[no-any-return]

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a path; with `strict` something must be there already."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a path such as ``"0.weight"``; AttributeError if there is none."""
        return self._get_member(target, lambda m, n: isinstance(getattr(m, n), Parameter), "an nn.Parameter")

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a path; AttributeError if there is none."""
        return self._get_member(target, lambda m, n: n in m._buffers, "a buffer")

    def _get_member(self, target: str, fits: Callable[[Module, str], bool], what: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if not fits(module, name):
            raise AttributeError(f"`{name}` is not {what}")
        return getattr(module, name)

    # -- changing all of it --------------------------------------------------------------------------------------------

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call `fn` on every module within, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set training mode here and within: dropout drops."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode here and within."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say whether gradients are wanted for the parameters."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of the parameters, or fill them with zeros."""
        for p in self.parameters():
            if p._grad is not None:
                p._grad = None if set_to_none else zeroed(p._grad)

    # -- text ----------------------------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return what the repr says of this module itself."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        own = extra.split("\n") if extra else []
        children = [f"({name}): {indented(repr(module), 2)}" for name, module in self._modules.items()]
        if len(own) == 1 and not children:
            return f"{self._get_name()}({own[0]})"
        lines = own + children
        return self._get_name() + "(" + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"


for _base in (Calling, Converting, State):  # errors about their arguments speak of Module
    for _name, _f in vars(_base).items():
        if isinstance(_f, FunctionType):
            _f.__qualname__ = f"Module.{_name}"


Module.__annotations__ = get_type_hints(Module)  # as objects: packages evaluate them among names of their own
