"""`@tune.auto` for kernels of one's own: a launch takes the config that was stored for its shape on this GPU.

Nothing is tuned in passing: what `tune.run`, `%%tune` or an import has stored is used, else the first config. A config
serves launches with the very shapes and integers that it was checked at, since of a kernel of the user's nobody
knows what another shape does to it; where the kernel declares that each config is right at any shape
(``any_shape=True``), the nearest shape's is taken too. The next launch of the kind finds it in a dict.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from . import calls, lookup
from .lookup import Chosen
from .own import space_of
from .sources import source_of
from .space import Config, Space, without_hooks
from .texts import chain_of, function_of, jitted

_MOST_KNOWN = 1024

if TYPE_CHECKING:
    from .own_c import CFunction


class Auto:
    """A kernel that knows its configs: ``kernel[grid](x, out, n)``; `grid` is a tuple, or a function of the config.

    Arrays are the device's (CuPy's; NumPy's in Triton's interpreter). `config_for` says which config a launch with
    these arguments takes. any_shape : that each config is right at any shape, by the word of who wrote the kernel.
    """

    def __init__(
        self, kernel: Any, space: Space, any_shape: bool = False, constants: Mapping[str, Any] | None = None
    ) -> None:
        self.kernel, self.space, self.any_shape, self.constants = kernel, space, any_shape, dict(constants or {})
        function = function_of(kernel)
        self.__doc__ = function.__doc__ or self.__doc__
        self._names = list(inspect.signature(function).parameters)
        self._launched = _untuned(kernel)
        self._hooks = [c for layer in chain_of(kernel) for c in getattr(layer, "configs", ()) if c.pre_hook]
        self._default = space.default
        self._memo: dict[Any, Config] = {}
        lookup.on_change.append(self._memo.clear)

    def __getitem__(self, grid: tuple[int, ...] | Callable[[Config], tuple[int, ...]]) -> Callable[..., Any]:
        def launch(*arguments: Any, **named: Any) -> Any:
            from ..runtime import Pointer

            config = self.config_for(*arguments, **named)
            sizes = _sizes(grid, config)
            if config is not self._default and not self._checked_with(grid, sizes, config):
                config = self._default
                sizes = _sizes(grid, config)

            def pointer(value: Any) -> Any:
                return Pointer(value) if calls.is_array(value) and not hasattr(value, "data_ptr") else value

            for each in self._hooks:
                if {**config, **without_hooks([each])[0]} == config:
                    each.pre_hook({**dict(zip(self._names, arguments, strict=False)), **named, **config})
            ready = [pointer(a) for a in arguments]
            also = {n: pointer(a) for n, a in named.items()}
            return self._launched[sizes](*ready, **also, **config)

        return launch

    def config_for(self, *arguments: Any, **named: Any) -> Config:
        """Return the config that a launch with these arguments takes. *Raises*: TypeError where none is an array."""
        given = {**dict(zip(self._names, arguments, strict=False)), **named}
        arrays = [id(value) for value in given.values() if calls.is_array(value)]
        if len(set(arrays)) < len(arrays):  # in place, as no config was checked
            return self._default
        key = tuple([(name, _told(value)) for name, value in given.items() if not isinstance(value, float)])
        try:
            return self._memo[key]
        except (KeyError, TypeError):  # TypeError: what cannot be a key, such as a tensor descriptor
            pass
        config = self._stored(given) or self._default
        with contextlib.suppress(TypeError):
            if len(self._memo) >= _MOST_KNOWN:  # a number that is another at each launch
                self._memo.clear()
            self._memo[key] = config
        return config

    def _stored(self, given: Mapping[str, Any]) -> Config | None:
        ordered = {n: given[n] if n in given else self.constants[n] for n in self._names
                   if (n in given or n in self.constants) and n not in self.space.names}  # fmt: skip
        array = next((a for a in ordered.values() if calls.is_array(a)), None)
        name = function_of(self.kernel).__name__
        if array is None:
            raise TypeError(f"{name}: a launch needs an array among its arguments, got none")
        try:
            call = None if self.any_shape else calls.of(ordered)
            shape = tuple(int(n) for n in array.shape)
            found = lookup.best(name, shape, calls.dtype_of(array), device(), lambda: source_of(jitted(self.kernel)),
                                call)  # fmt: skip
            if found is None:
                return None
            config = Chosen(self.space.complete(found))
            config.grid = getattr(found, "grid", None)
            return config
        except Exception:  # no GPU, or a result of another space: no launch may fail for want of a faster config
            return None

    def _checked_with(self, grid: Any, sizes: tuple[int, ...], config: Config) -> bool:
        """Return whether a choice was checked with so many programs; where that is not known, whether `grid` follows
        the config: a fixed grid is right for one config's blocks."""
        checked = getattr(config, "grid", None)
        return self.any_shape or (callable(grid) if checked is None else sizes == checked)


def _sizes(grid: tuple[int, ...] | Callable[[Config], tuple[int, ...]], config: Config) -> tuple[int, ...]:
    sizes = grid(config) if callable(grid) else grid
    return tuple(sizes) if isinstance(sizes, Sequence) else (sizes,)


def _told(value: Any) -> Any:
    """Of an argument what a config's rightness may depend on."""
    if not calls.is_array(value):
        return value
    contiguous, strides = calls.laid_out(value)
    return tuple(value.shape), value.dtype, None if contiguous else strides


def _untuned(kernel: Any) -> Any:
    """Return a kernel without the autotuners above its function; heuristics stay."""
    if hasattr(kernel, "configs"):
        return _untuned(kernel.fn)
    if hasattr(kernel, "values") and not callable(kernel.values):
        return type(kernel)(_untuned(kernel.fn), kernel.arg_names, kernel.values)
    return kernel


def device() -> str:
    """Return what results of this process's GPU are filed under. *Raises*: RuntimeError where there is none."""
    from .. import runtime

    return runtime.device_name()


@overload
def auto(what: str, /, *, configs: Any = None, any_shape: bool = False, **arguments: Any) -> CFunction: ...
@overload
def auto(
    what: Any = None, /, *, configs: Any = None, any_shape: bool = False, **arguments: Any
) -> Callable[[Any], Auto]: ...
def auto(what: Any = None, /, *, configs: Any = None, any_shape: bool = False, **arguments: Any) -> Any:
    """Return a kernel that takes the config stored for the shape it is called at: a decorator, or a C function.

    Above `@triton.jit`, ``@tune.auto(configs)``: launches take what is stored, else the first of `configs`:
    `triton.Config` objects, dicts, or a dict of lists, as `tune.run` takes them; without them those of an
    `@triton.autotune` below, or what the kernel's constexprs suggest. arguments : constexprs that are no tunables.
    any_shape : that each config is right at any shape, so that one that was chosen at a shape near a launch's may serve
    it; else it serves what it was checked at.

    Of a C text, ``f = tune.auto(text)``: a function of NumPy arrays and numbers, compiled when it is first called;
    ``function`` and ``configs`` by name, as `tune.run` takes them.

    >>> class Kernel:  # what triton.jit makes has the function as `fn`
    ...     def fn(x, BLOCK): "Doubles."
    >>> auto({"BLOCK": (256, 512)})(Kernel).config_for(__import__("numpy").zeros(3))
    {'BLOCK': 256}
    >>> auto("#define STEP 4  // tune: 1, 4\\nvoid zero(float *out) { for (int i = 0; i < STEP; i++) out[i] = 0; }")
    <C function zero(out): STEP=4>
    """
    if isinstance(what, str):
        from .own_c import CFunction

        return CFunction(what, configs, any_shape=any_shape, **arguments)
    configs = what if configs is None else configs
    if configs is not None and not isinstance(configs, Mapping | Sequence):
        raise TypeError("tune.auto: takes configs and gives a decorator: write @tune.auto(), with brackets")

    def decorate(kernel: Any) -> Auto:
        return Auto(kernel, space_of(kernel, arguments, configs), any_shape, arguments)

    return decorate
