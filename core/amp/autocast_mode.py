"""`autocast`, the decorators for custom functions, and the switches behind them."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any

from .. import cuda
from ..base import dtypes
from ..base.device import device as Device
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.source import warn
from ..base.uninterrupted import Around
from ..dispatch import autocast as casting
from ..tensors.tensor import Tensor

_HALVES = (dtypes.bfloat16, dtypes.float16)


def _known(device_type: Any) -> str:
    """Return the name of a device type; RuntimeError for one that is not there."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`\n  remedy: 'cpu' or 'cuda'")
    return Device(device_type).type


def _no_dtype(dtype: Any) -> str:
    return text(f"set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not {type(dtype).__name__}",
                op="autocast", needed="core.bfloat16 or core.float16")  # fmt: skip


class autocast(Around):
    """While the block (or the decorated function) runs, each op runs in the type that suits it.

    Matrix products and convolutions run in `dtype`; what loses too much that way runs in float32; everything else in
    the type of its operands (core/dispatch/autocast_table.py names every function). Weights stay as they are: a weight
    is cast once a block, and its gradient arrives in its own type. Run backward outside the block.

    device_type : "cpu" or "cuda": only tensors there are cast. Each thread has its own autocast.
    dtype : bfloat16 unless given on the CPU, float16 on a GPU.
    enabled : False for a stretch of plain types within a block.
    cache_enabled : whether the cast weights are kept until the outermost block ends.

    *Raises*: ValueError or RuntimeError for a device type that is none; TypeError for a dtype that is none. It warns,
    and does nothing, for a dtype other than the two half-precision types or a GPU that is not there.

    >>> import core
    >>> x = core.ones(2, 2)
    >>> with core.autocast("cpu"):
    ...     y = x @ x
    ...     with core.autocast("cpu", enabled=False):
    ...         z = x @ x
    >>> y.dtype, (y + x).dtype, z.dtype
    (core.bfloat16, core.float32, core.float32)
    """

    def __init__(self, device_type: str, dtype: Dtype | None = None, enabled: bool = True,
                 cache_enabled: bool | None = None) -> None:  # fmt: skip
        self.device = _known(device_type)
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        if not isinstance(self.fast_dtype, Dtype):
            raise TypeError(_no_dtype(dtype))
        self._cache_enabled = casting.state.cache_enabled if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and self._possible()
        self._before: list[tuple[bool, Dtype, bool, bool, int]] = []

    def _possible(self) -> bool:
        """Return whether the device is there and the dtype is a half one; a warning says why not."""
        why = ""
        if self.device == "cuda" and not cuda.is_available():
            why = f"CUDA is not available ({cuda.reason()}). Disabling autocast."
        elif self.fast_dtype not in _HALVES:
            name = self.device.upper()
            why = (f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n{name} Autocast "
                   f"only supports dtypes of {', '.join(map(str, _HALVES))} currently.")  # fmt: skip
        if why:
            warn(why)
        return not why

    def __enter__(self) -> autocast:
        s = casting.state
        self._before = [
            *self._before, (self.device in s.on, s.dtypes[self.device], s.cache_enabled, s.inside, s.nesting)
        ]  # fmt: skip
        try:
            casting.switch(self.device, self._enabled)
            s.dtypes[self.device], s.cache_enabled, s.inside = self.fast_dtype, self._cache_enabled, False
            s.nesting += 1
            return self
        except BaseException:  # Ctrl-C
            self._leave()
            raise

    def _leave(self) -> None:
        s = casting.state
        on, s.dtypes[self.device], s.cache_enabled, s.inside, s.nesting = self._before[-1]
        if not s.nesting:
            s.cache.clear()
        casting.switch(self.device, on)
        del self._before[-1]  # at the very end: a call that was interrupted is repeated

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise TypeError(text(f"autocast()(func) requires a callable, but got {type(func).__name__}.", op="autocast",
                                 remedy="with core.autocast('cpu'): y = model(x)"))  # fmt: skip

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            mode = copy.copy(self)  # several threads may be in the function
            mode._before = []
            with mode:
                return func(*args, **kwargs)

        return wrapper


# -- custom functions --------------------------------------------------------------------------------------------------


def _cast_all(value: Any, device_type: str, dtype: Dtype) -> Any:
    """Every floating tensor in nested containers in another dtype."""
    if isinstance(value, Tensor):
        eligible = value.is_floating_point() and value.device.type == device_type and value.dtype is not dtypes.float64
        return value.to(dtype) if eligible else value  # type: ignore[attr-defined]
    if isinstance(value, Mapping):
        return {k: _cast_all(v, device_type, dtype) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_cast_all(v, device_type, dtype) for v in value)
    return value


def custom_fwd(fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: Dtype | None = None) -> Any:
    """Decorator for the forward of a custom Function, so that `custom_bwd` finds autocast as it was.

    cast_inputs : under autocast, floating tensors come in this dtype, and autocast is off in the forward.

    >>> import core
    >>> class Double(core.autograd.Function):
    ...     @staticmethod
    ...     @core.amp.custom_fwd(device_type="cpu", cast_inputs=core.float32)
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @core.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> with core.autocast("cpu"):
    ...     Double.apply(core.ones(1, dtype=core.bfloat16)).dtype
    core.float32
    """
    where = _known(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        on = is_autocast_enabled(where)
        ctx._autocast = (on and cast_inputs is None, get_autocast_dtype(where))
        if not on or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        with autocast(where, enabled=False):
            return fwd(ctx, *_cast_all(args, where, cast_inputs), **_cast_all(kwargs, where, cast_inputs))

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorator for the backward of a custom Function: it runs with autocast as it was in `custom_fwd`'s forward.

    >>> import core
    >>> core.amp.custom_bwd(lambda ctx, g: g, device_type="cpu").__name__
    '<lambda>'
    """
    where = _known(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        on, dtype = ctx._autocast
        with autocast(where, enabled=on, dtype=dtype):
            return bwd(ctx, *args, **kwargs)

    return backward


# -- the switches ------------------------------------------------------------------------------------------------------


def is_autocast_available(device_type: str) -> bool:
    """Return whether there is an autocast for such devices.

    >>> import core
    >>> core.amp.is_autocast_available("cpu")
    True
    """
    return _known(device_type) in casting.DEVICES


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Return whether autocast is on in this thread for such devices.

    >>> import core
    >>> core.is_autocast_enabled("cpu")
    False
    """
    return _known(device_type) in casting.state.on


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Turn autocast on or off in this thread; the device type is "cuda" where it is left out.

    >>> import core
    >>> core.set_autocast_enabled("cpu", False)
    """
    if enabled is None:
        device_type, enabled = "cuda", bool(device_type)
    casting.switch(_known(device_type), bool(enabled))


def get_autocast_dtype(device_type: str) -> Dtype:
    """Return the dtype that autocast casts to on such devices.

    >>> import core
    >>> core.get_autocast_dtype("cpu"), core.get_autocast_dtype("cuda")
    (core.bfloat16, core.float16)
    """
    return casting.state.dtypes[_known(device_type)]


def set_autocast_dtype(device_type: str, dtype: Dtype) -> None:
    """Say what autocast casts to on such devices, in this thread.

    >>> import core
    >>> core.set_autocast_dtype("cpu", core.bfloat16)
    """
    if not isinstance(dtype, Dtype):
        raise TypeError(_no_dtype(dtype))
    casting.state.dtypes[_known(device_type)] = dtype


def is_autocast_cache_enabled() -> bool:
    """Return whether cast weights are kept within a block.

    >>> import core
    >>> core.is_autocast_cache_enabled()
    True
    """
    return casting.state.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Say whether cast weights are kept within a block.

    >>> import core
    >>> core.set_autocast_cache_enabled(True)
    """
    casting.state.cache_enabled = bool(enabled)


def clear_autocast_cache() -> None:
    """Forget the cast weights of this thread.

    >>> import core
    >>> core.clear_autocast_cache()
    """
    casting.state.cache.clear()


def autocast_increment_nesting() -> int:
    """Count one block more; the number of blocks that are open."""
    casting.state.nesting += 1
    return casting.state.nesting


def autocast_decrement_nesting() -> int:
    """Count one block less; the number of blocks that are open."""
    casting.state.nesting -= 1
    return casting.state.nesting


# PyTorch's older names, one a device


def is_autocast_cpu_enabled() -> bool:
    """Return whether autocast is on for the CPU."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Turn autocast on or off for the CPU."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> Dtype:
    """Return the dtype that autocast casts to on the CPU."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: Dtype) -> None:
    """Say what autocast casts to on the CPU."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> Dtype:
    """Return the dtype that autocast casts to on a GPU."""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: Dtype) -> None:
    """Say what autocast casts to on a GPU."""
    set_autocast_dtype("cuda", dtype)
