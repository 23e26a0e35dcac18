"""Parametrizations: a module's tensor computed from others by modules, each time it is asked for."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any

from ...base.modes import no_grad
from ...tensors.tensor import Tensor
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

_caching = 0  # how many `cached` blocks are open
_cache: dict[tuple[int, str], Any] = {}


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Within it, every parametrized tensor is computed once.

    >>> import core
    >>> layer = core.nn.utils.parametrizations.weight_norm(core.nn.Linear(2, 3))
    >>> with core.nn.utils.parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    global _caching
    _caching += 1
    try:
        yield
    finally:
        _caching -= 1
        if not _caching:
            _cache.clear()


def _register(module: Module, name: str, t: Tensor) -> None:
    if isinstance(t, Parameter):
        module.register_parameter(name, t)
    else:
        module.register_buffer(name, t)


def _differs(what: str, first: str, before: Any, second: str, after: Any) -> ValueError:
    return ValueError(f"{what}\n{first}: {before}\n{second}: {after}")


class ParametrizationList(ModuleList):
    """The modules that compute one tensor, in the order they run, with the tensors that it is computed from.

    They are ``original``, or ``original0``, ``original1`` and so on where the `right_inverse` of the first module gives
    several.

    *Raises*: ValueError where shape or dtype change, unless `unsafe`.
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            new: Any = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        new = module.right_inverse(new)
        if not isinstance(new, Tensor | Sequence):
            raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                             f"{type(new).__name__}")  # fmt: skip
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if isinstance(new, Tensor):
            if new.dtype is not dtype:
                raise _differs("When `right_inverse` outputs one tensor, it may not change the dtype.",
                               "original.dtype", dtype, "right_inverse(original).dtype", new.dtype)  # fmt: skip
            original.data = new.data  # the same object, which optimizers may know
            _register(self, "original", original)
        else:
            for i, t in enumerate(new):
                if not isinstance(t, Tensor):
                    raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                                     f"Got element {i} of the sequence with type {type(t).__name__}.")  # fmt: skip
                if isinstance(original, Parameter):
                    t = Parameter(t, original.requires_grad)
                t.requires_grad_(original.requires_grad)
                _register(self, f"original{i}", t)
        if not unsafe:
            made = self()
            if not isinstance(made, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(made).__name__}.")
            said = "Registering a parametrization may not change the {} of the tensor, unless `unsafe` flag is enabled."
            if made.dtype is not dtype:
                raise _differs(said.format("dtype"), "unparametrized dtype", dtype, "parametrized dtype", made.dtype)
            if made.shape != shape:
                raise _differs(said.format("shape"), "unparametrized shape", shape, "parametrized shape", made.shape)

    def _originals(self) -> list[Any]:
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the tensor becomes `value`, by the modules' `right_inverse`, the last one first."""
        with no_grad():
            new: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                new = module.right_inverse(new)
            many = [new] if self.is_tensor else new
            if not isinstance(many, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(new).__name__}.")
            if len(many) != self.ntensors:
                raise ValueError(f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a "
                                 f"sequence of length {len(many)}.")  # fmt: skip
            for i, (t, original) in enumerate(zip(many, self._originals(), strict=True)):
                which = "" if self.is_tensor else str(i)
                if not isinstance(t, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(t).__name__}")
                if t.dtype is not original.dtype:
                    raise ValueError(f"Tensor{which} returned by `right_inverse` has dtype {t.dtype} while "
                                     f"`original{which}` has dtype {original.dtype}")  # fmt: skip
                original.data = t.data

    def forward(self) -> Tensor:
        x = self[0](*self._originals())
        for module in list(self)[1:]:
            x = module(x)
        return x  # type: ignore[no-any-return]


def _no_state(self: Module) -> Any:
    raise RuntimeError("Serialization of parametrized modules is only supported through state_dict(). See:\n"
                       "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
                       "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training")  # fmt: skip


def _copied(self: Module, memo: dict[int, Any]) -> Module:
    other = type(self).__new__(type(self))
    memo[id(self)] = other
    other.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return other


def _getter(name: str) -> Any:
    def get(self: Module) -> Any:
        found: Any = self.parametrizations[name]
        if not _caching:
            return found()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = found()
        return _cache[key]

    def put(self: Module, value: Tensor) -> None:
        found: Any = self.parametrizations[name]
        found.right_inverse(value)

    return property(get, put)


def _retype(module: Module, original: type, names: Sequence[str]) -> None:
    """Give a module the class that computes its tensors `names`; a class of its own, for copies may share it."""
    own = {"__getstate__": _no_state, "__deepcopy__": _copied, "__module__": __name__}
    module.__class__ = type(f"Parametrized{original.__name__}", (original,),
                            {**own, **{n: _getter(n) for n in names}})  # fmt: skip


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a tensor of the module is computed, or the one of that name."""
    found = module.__dict__.get("_modules", {}).get("parametrizations")
    if found is None or not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def type_before_parametrizations(module: Module) -> type:
    """Return the module's class as it was before anything was registered."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def _check_next(module: Module, name: str, parametrization: Any) -> None:
    y = getattr(module, name)
    x = parametrization(y)
    if not isinstance(x, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(x).__name__}.")
    said = "Registering a parametrization may not change the {} of the tensor, unless the `unsafe` flag is enabled."
    for what in ("dtype", "shape"):
        if getattr(x, what) != getattr(y, what):
            raise _differs(said.format(what), f"module.{name}.{what}", getattr(y, what),
                           f"parametrization(module.{name}).{what}", getattr(x, what))  # fmt: skip
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        z = parametrization.right_inverse(x)
    except NotImplementedError:
        return
    if not isinstance(z, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(z).__name__}")
    for what in ("dtype", "shape"):
        if getattr(z, what) != getattr(y, what):
            raise _differs(f"The tensor returned by parametrization.right_inverse must have the same {what} as "
                           f"module.{name}, unless the `unsafe` flag is enabled.", f"module.{name}.{what}",
                           getattr(y, what), f"returned {what}", getattr(z, what))  # fmt: skip


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *,
                             unsafe: bool = False) -> Module:  # fmt: skip
    """Make a parameter or buffer of a module the result of another module, of which it becomes the input.

    What was the parameter is then ``module.parametrizations.<name>.original``, and is trained in its place. Registering
    again adds another module behind. Assigning to the tensor goes through `right_inverse`.

    *Raises*: ValueError where the tensor is not there, or, unless `unsafe`, changes its shape or dtype.

    >>> import core
    >>> class Positive(core.nn.Module):
    ...     def forward(self, x):
    ...         return x.exp()
    ...     def right_inverse(self, y):
    ...         return y.log()
    >>> layer = core.nn.Linear(2, 3)
    >>> layer.weight.data = core.ones(3, 2)
    >>> layer = core.nn.utils.parametrize.register_parametrization(layer, "weight", Positive())
    >>> bool((layer.weight > 0).all()), list(layer.state_dict())
    (True, ['bias', 'parametrizations.weight.original'])
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(module, tensor_name, parametrization)
        found: Any = module.parametrizations[tensor_name]
        found.append(parametrization)
        found.unsafe |= unsafe
    elif tensor_name in module._parameters or tensor_name in module._buffers:
        original = getattr(module, tensor_name)
        if original is None:
            raise ValueError(f"Module '{module}' has no parameter or buffer with name '{tensor_name}'")
        listed = ParametrizationList([parametrization], original, unsafe)
        delattr(module, tensor_name)
        before = type_before_parametrizations(module)
        names = list(module.parametrizations) if is_parametrized(module) else []
        if not names:
            module.parametrizations = ModuleDict()
        _retype(module, before, [*names, tensor_name])
        module.parametrizations[tensor_name] = listed
    else:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
                         f"'{tensor_name}'")  # fmt: skip
    return module


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a computed tensor a parameter or buffer again: with the value it has, or the one it was computed from.

    *Raises*: ValueError where nothing is registered, or where the value came from several tensors and is not to stay.

    >>> import core
    >>> from core.nn.utils import parametrizations, parametrize
    >>> layer = parametrizations.weight_norm(core.nn.Linear(2, 3))
    >>> list(parametrize.remove_parametrizations(layer, "weight").state_dict())
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    found: Any = module.parametrizations[tensor_name]
    if found.is_tensor:
        original = found.original
        if leave_parametrized:
            with no_grad():
                original.data = getattr(module, tensor_name).data
    elif leave_parametrized:
        made = getattr(module, tensor_name)
        original = Parameter(made) if made.requires_grad else made
    else:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in "
                         "terms of a sequence of tensors.")  # fmt: skip
    before = type_before_parametrizations(module)
    del module.parametrizations[tensor_name]
    names = list(module.parametrizations)
    if names:
        _retype(module, before, names)
    else:
        del module.parametrizations
        module.__class__ = before  # type: ignore[assignment]
    _register(module, tensor_name, original)
    return module


def transfer_parametrizations_and_params(from_module: Module, to_module: Module,
                                         tensor_name: str | None = None) -> Module:  # fmt: skip
    """Register the parametrizations of one module, all or those of one tensor, on another, with the values."""
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source: Any = from_module.parametrizations[name]
        for module in source:
            register_parametrization(to_module, name, module)
        target: Any = to_module.parametrizations[name]
        for key in ["original"] if source.is_tensor else [f"original{i}" for i in range(source.ntensors)]:
            setattr(target, key, getattr(source, key))
    return to_module


__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
           "transfer_parametrizations_and_params", "type_before_parametrizations"]  # fmt: skip
