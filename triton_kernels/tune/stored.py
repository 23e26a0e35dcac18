"""`@tune.auto` for kernels of one's own: a launch takes the config that was stored for its shape on this GPU.

Nothing is tuned in passing: what `tune.run`, `%%tune` or an import has stored is used, else the first config. A launch
looks it up by the shape and dtype of its first array, exact, then of the same bucket, then the nearest; the next launch
of that shape finds it in a dict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from . import lookup
from .own import space_of
from .sources import source_of
from .space import Config, Space

if TYPE_CHECKING:
    from .own_c import CFunction


class Auto:
    """A kernel that knows its configs: ``kernel[grid](x, out, n)``; `grid` is a tuple, or a function of the config.

    Arrays are the device's (CuPy's; NumPy's in Triton's interpreter). `config_for` says which config an array's shape
    and dtype would take.
    """

    def __init__(self, kernel: Any, space: Space) -> None:
        self.kernel, self.space = kernel, space
        self.__doc__ = kernel.fn.__doc__ or self.__doc__
        self._memo: dict[Any, Config] = {}
        lookup.on_change.append(self._memo.clear)

    def __getitem__(self, grid: tuple[int, ...] | Callable[[Config], tuple[int, ...]]) -> Callable[..., Any]:
        def launch(*arguments: Any, **named: Any) -> Any:
            from ..runtime import Pointer

            array = next(
                (a for a in (*arguments, *named.values()) if hasattr(a, "shape") and hasattr(a, "dtype")), None
            )
            if array is None:
                raise TypeError(f"{self.kernel.fn.__name__}: a launch needs an array among its arguments, got none")
            config = self.config_for(array.shape, array.dtype)
            ready = [Pointer(a) if hasattr(a, "shape") else a for a in arguments]
            also = {n: Pointer(a) if hasattr(a, "shape") else a for n, a in named.items()}
            return self.kernel[grid(config) if callable(grid) else grid](*ready, **also, **config)

        return launch

    def config_for(self, shape: Sequence[int], dtype: Any) -> Config:
        """The config of a launch whose first array has this shape and dtype."""
        key = (shape, dtype)
        try:
            return self._memo[key]
        except KeyError:
            pass
        config = self._memo[key] = self._stored(tuple(shape), dtype) or self.space.default
        return config

    def _stored(self, shape: tuple[int, ...], dtype: Any) -> Config | None:
        try:
            name = self.kernel.fn.__name__
            found = lookup.best(name, shape, dtype.name, device(), lambda: source_of(self.kernel))
            return None if found is None else self.space.complete(found)
        except Exception:  # no GPU, or a result of another space: no launch may fail for want of a faster config
            return None


def device() -> str:
    """What results of this process's GPU are filed under. *Raises*: RuntimeError where there is none."""
    from .. import runtime

    return runtime.device_name()


@overload
def auto(what: str, /, *, configs: Any = None, **arguments: Any) -> CFunction: ...
@overload
def auto(what: Any = None, /, *, configs: Any = None, **arguments: Any) -> Callable[[Any], Auto]: ...
def auto(what: Any = None, /, *, configs: Any = None, **arguments: Any) -> Any:
    """A kernel that takes the config stored for the shape it is called at: a decorator, or a C function.

    Above `@triton.jit`, ``@tune.auto(configs)``: launches take what is stored, else the first of `configs`:
    `triton.Config` objects, dicts, or a dict of lists, as `tune.run` takes them; without them what the kernel's
    constexprs suggest. arguments : constexprs that are no tunables.

    Of a C text, ``f = tune.auto(text)``: a function of NumPy arrays and numbers, compiled when it is first called;
    ``function`` and ``configs`` by name, as `tune.run` takes them.

    >>> class Kernel:  # what triton.jit makes has the function as `fn`
    ...     def fn(x, BLOCK): "Doubles."
    >>> auto({"BLOCK": (256, 512)})(Kernel).config_for((3,), __import__("numpy").dtype("float32"))
    {'BLOCK': 256}
    >>> auto("#define STEP 4  // tune: 1, 4\\nvoid zero(float *out) { for (int i = 0; i < STEP; i++) out[i] = 0; }")
    <C function zero(out): STEP=4>
    """
    if isinstance(what, str):
        from .own_c import CFunction

        return CFunction(what, configs, **arguments)
    configs = what if configs is None else configs
    if configs is not None and not isinstance(configs, Mapping | Sequence):
        raise TypeError("tune.auto: takes configs and gives a decorator: write @tune.auto(), with brackets")

    def decorate(kernel: Any) -> Auto:
        return Auto(kernel, space_of(kernel, arguments, configs))

    return decorate
