"""Observers: modules that pass what they see and tell afterwards the scale and the zero point that suit it.

The names, the ranges and the arithmetic are PyTorch's. ``qint8`` and ``quint8`` are names here: they say in which range
the whole numbers lie.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...base import dtypes
from ...base.errors import text
from ...base.qschemes import (
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)
from ...base.source import warn
from ...nn.modules.module import Module
from ...ops.creation import full_like, ones_like, tensor, zeros, zeros_like
from ...ops.where import where
from ...tensors.tensor import Tensor

__all__ = ["FixedQParamsObserver", "MinMaxObserver", "MovingAverageMinMaxObserver",
           "MovingAveragePerChannelMinMaxObserver", "NoopObserver", "ObserverBase", "PerChannelMinMaxObserver",
           "PlaceholderObserver", "RecordingObserver", "ReuseInputObserver", "UniformQuantizationObserverBase",
           "get_observer_state_dict", "load_observer_state_dict"]  # fmt: skip

EPS = 1.1920928955078125e-07  # of float32
_PER_TENSOR, _PER_CHANNEL = (per_tensor_affine, per_tensor_symmetric), (per_channel_affine, per_channel_symmetric,
                                                                         per_channel_affine_float_qparams)  # fmt: skip
_RANGES = {"qint8": (-128, 127), "int8": (-128, 127), "quint8": (0, 255), "uint8": (0, 255),
           "qint32": (-(2**31), 2**31 - 1), "int32": (-(2**31), 2**31 - 1), "int16": (-(2**15), 2**15 - 1),
           "uint16": (0, 2**16 - 1), "quint4x2": (0, 15)}  # fmt: skip


class _PartialWrapper:
    """A class with some of its arguments given; what it makes is new at each call.

    >>> import core
    >>> made = core.ao.quantization.MinMaxObserver.with_args(dtype=core.qint8)
    >>> made().dtype, made() is made()
    (core.qint8, False)
    """

    def __init__(self, p: Any) -> None:
        self.p, self.callable_args = p, {}  # type: ignore[var-annotated]

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        late = {name: make() for name, make in self.callable_args.items() if name not in keywords}
        return self.p(*args, **{**late, **keywords})

    def __repr__(self) -> str:
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **kwargs: Any) -> _PartialWrapper:
        """Return one with more arguments given."""
        wrapper = _PartialWrapper(partial(self.p, **kwargs))
        wrapper.callable_args = {**self.callable_args}
        return wrapper

    def with_callable_args(self, **kwargs: Any) -> _PartialWrapper:
        """Return one with arguments that functions make at each call."""
        wrapper = _PartialWrapper(self.p)
        wrapper.callable_args = {**self.callable_args, **kwargs}
        return wrapper


class ObserverBase(Module):
    """What all observers have: a dtype, and `with_args`, by which a qconfig names one that is still to be made."""

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    def forward(self, x: Any) -> Any:
        """Look at x, and return it."""
        return x

    def calculate_qparams(self, **kwargs: Any) -> Any:
        """Return the scale and the zero point. *Raises*: RuntimeError where this observer has none."""
        raise RuntimeError(f"calculate_qparams should not be called for {type(self).__name__}")

    @classmethod
    def with_args(cls, **kwargs: Any) -> _PartialWrapper:
        """Return a maker of such observers with these arguments."""
        return _PartialWrapper(partial(cls, **kwargs))

    @classmethod
    def with_callable_args(cls, **kwargs: Any) -> _PartialWrapper:
        """Return a maker of such observers, of whose arguments these are made by functions at each call."""
        return _PartialWrapper(cls).with_callable_args(**kwargs)


def _range(dtype: Any, low: int | None, high: int | None, reduce: bool) -> tuple[int, int]:
    if low is None or high is None:
        low, high = _RANGES[dtype.name]
    elif not low <= 0 <= high or low == high:
        raise AssertionError(text("the range of whole numbers must include 0", op="observer", came=f"{low} to {high}"))
    return (low // 2, high // 2) if reduce else (low, high)


class UniformQuantizationObserverBase(ObserverBase):
    """What observers of a range share: from the least and the greatest value to a scale and a zero point.

    Symmetric schemes reach as far below 0 as above, in ``(quant_max - quant_min) / 2`` steps; affine ones from the
    least to the greatest value, 0 among them. Source: Jacob et al., arXiv 1712.05877.
    """

    _version = 3
    schemes: tuple[Any, ...] = _PER_TENSOR
    min_val: Tensor
    max_val: Tensor

    def __init__(self, dtype: Any = dtypes.quint8, qscheme: Any = per_tensor_affine, reduce_range: bool = False,
                 quant_min: int | None = None, quant_max: int | None = None, factory_kwargs: Any = None,
                 eps: float = EPS, is_dynamic: bool = False) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic)
        if qscheme not in self.schemes:
            raise NotImplementedError(
                text(f"{type(self).__name__}'s qscheme only support {' and '.join(map(str, self.schemes))}",
                     op=type(self).__name__, came=str(qscheme)))  # fmt: skip
        if dtype.name not in _RANGES:
            raise AssertionError(text("no whole numbers of this type are observed", op=type(self).__name__,
                                      came=str(dtype), needed=", ".join(_RANGES)))  # fmt: skip
        self.qscheme, self.reduce_range = qscheme, reduce_range
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        self.quant_min, self.quant_max = _range(dtype, quant_min, quant_max, reduce_range)
        self.register_buffer("eps", tensor([eps]))
        self.reset_min_max_vals()

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        for name, value in (("min_val", float("inf")), ("max_val", float("-inf"))):
            device = self._buffers["eps"].device  # type: ignore[union-attr]
            self.register_buffer(name, tensor(value, device=device))

    @property
    def is_symmetric(self) -> bool:
        """Whether the range reaches as far below 0 as above."""
        return self.qscheme in (per_tensor_symmetric, per_channel_symmetric)

    def seen(self) -> bool:
        """Return whether anything was looked at."""
        low: Any = self.min_val
        return bool(low.numel()) and bool((low <= self.max_val).all())

    def calculate_qparams(self, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Return the scale (float32) and the zero point, (1,) or one for each channel."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def _calculate_qparams(self, min_val: Any, max_val: Any) -> tuple[Tensor, Tensor]:
        if not self.seen():
            warn("must run observer before calling calculate_qparams. Returning default values.")
            return tensor([1.0]), tensor([0])
        steps = float(self.quant_max - self.quant_min)
        if self.qscheme is per_channel_affine_float_qparams:
            scale = (max_val - min_val) / steps
            scale = where(scale > self.eps, scale, ones_like(scale))
            return scale, -1 * min_val / scale
        low, high = min_val.clamp(max=0.0), max_val.clamp(min=0.0)
        if self.is_symmetric:
            scale = (-low).maximum(high) / (steps / 2)
            zero = zeros_like(scale, dtype=dtypes.int64)
            if self.dtype.name in ("quint8", "uint8"):
                zero = full_like(zero, (self.quant_min + self.quant_max) // 2 if self.has_customized_qrange else 128)
            scale = scale.maximum(self.eps)
        else:
            scale = ((high - low) / steps).maximum(self.eps)
            zero = (self.quant_min - (low / scale).round().to(dtypes.int64)).clamp(self.quant_min, self.quant_max)
        return scale.reshape(-1), zero.reshape(-1)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name in ("min_val", "max_val"):  # one for each channel, once something was seen
            found, mine = state_dict.get(prefix + name), self._buffers[name]
            if found is not None and mine is not None and found.shape != mine.shape:
                self._buffers[name] = zeros(found.shape, dtype=mine.dtype, device=mine.device)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


class MinMaxObserver(UniformQuantizationObserverBase):
    """Watches the least and the greatest value of all that passes.

    >>> import core
    >>> observer = core.ao.quantization.MinMaxObserver(dtype=core.quint8)
    >>> _ = observer(core.tensor([-1.0, 0.5, 4.1]))
    >>> observer.calculate_qparams()
    (tensor([0.0200]), tensor([50]))
    """

    def forward(self, x_orig: Any) -> Any:
        if x_orig.numel():
            x = x_orig.detach().to(self.min_val.dtype)
            if self.is_dynamic:
                self.reset_min_max_vals()
            low, high = x.aminmax()
            self._update(low, high)
        return x_orig

    def _update(self, low: Any, high: Any) -> None:
        self.min_val, self.max_val = low.minimum(self.min_val), high.maximum(self.max_val)


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Watches moving averages of the least and the greatest value: ``m + averaging_constant * (new - m)``."""

    def __init__(self, averaging_constant: float = 0.01, **kwargs: Any) -> None:
        self.__dict__["averaging_constant"] = averaging_constant
        super().__init__(**kwargs)
        if self.is_dynamic and averaging_constant != 1:
            raise NotImplementedError(
                text("MovingAverageMinMaxObserver doesn't support dynamic quantization for averaging constant of "
                     f"{averaging_constant}", op="MovingAverageMinMaxObserver", needed="1"))  # fmt: skip

    def _update(self, low: Any, high: Any) -> None:
        if self.seen():
            low = self.min_val + self.averaging_constant * (low - self.min_val)
            high = self.max_val + self.averaging_constant * (high - self.max_val)
        self.min_val, self.max_val = low, high


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """Watches the least and the greatest value of each place along the dimension `ch_axis`."""

    schemes = (*_PER_CHANNEL, *_PER_TENSOR)

    def __init__(self, ch_axis: int = 0, dtype: Any = dtypes.quint8, qscheme: Any = per_channel_affine,
                 **kwargs: Any) -> None:  # fmt: skip
        self.__dict__["ch_axis"] = ch_axis
        super().__init__(dtype=dtype, qscheme=qscheme, **kwargs)

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        self.register_buffer("min_val", tensor([]))
        self.register_buffer("max_val", tensor([]))

    def forward(self, x_orig: Any) -> Any:
        if x_orig.numel():
            x = x_orig.detach().to(self.min_val.dtype).transpose(0, self.ch_axis).flatten(1)
            self._update(*x.aminmax(dim=1))
        return x_orig

    def _update(self, low: Any, high: Any) -> None:
        if self.min_val.numel():  # type: ignore[attr-defined]
            low, high = low.minimum(self.min_val), high.maximum(self.max_val)
        self.min_val, self.max_val = low, high


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Watches moving averages of the least and the greatest value of each place along `ch_axis`."""

    def __init__(self, averaging_constant: float = 0.01, **kwargs: Any) -> None:
        self.__dict__["averaging_constant"] = averaging_constant
        super().__init__(**kwargs)

    def _update(self, low: Any, high: Any) -> None:
        if self.min_val.numel():  # type: ignore[attr-defined]
            low = self.min_val + self.averaging_constant * (low - self.min_val)
            high = self.max_val + self.averaging_constant * (high - self.max_val)
        self.min_val, self.max_val = low, high


class FixedQParamsObserver(ObserverBase):
    """Has a scale and a zero point from the beginning: for sigmoids, whose range is known."""

    def __init__(self, scale: float, zero_point: int, dtype: Any = dtypes.quint8, qscheme: Any = per_tensor_affine,
                 quant_min: int = 0, quant_max: int = 255, is_dynamic: bool = False) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic)
        self.qscheme, self.quant_min, self.quant_max = qscheme, quant_min, quant_max
        self.register_buffer("scale", tensor([scale]))
        self.register_buffer("zero_point", tensor([zero_point], dtype=dtypes.int32))

    def calculate_qparams(self, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Return what it was made with."""
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Watches nothing, and says by its settings what is wanted: float16, or inputs that are rounded as they come."""

    def __init__(self, dtype: Any = dtypes.float32, custom_op_name: str = "", compute_dtype: Any = None,
                 quant_min: int | None = None, quant_max: int | None = None, qscheme: Any = None, eps: float = EPS,
                 is_dynamic: bool = False) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic or compute_dtype is not None)
        self.qscheme = per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max, self.eps, self.custom_op = quant_min, quant_max, eps, custom_op_name


class RecordingObserver(ObserverBase):
    """Keeps a copy of all that passes, for looking at: `get_tensor_value`."""

    def __init__(self, dtype: Any = dtypes.quint8) -> None:
        super().__init__(dtype)
        self.tensor_val: list[Any] = []

    def forward(self, x: Any) -> Any:
        self.tensor_val.append(x.clone())
        return x

    def get_tensor_value(self) -> list[Any]:
        """Return what has passed."""
        return self.tensor_val


class NoopObserver(ObserverBase):
    """Watches nothing: what has it is not rounded, or to float16 alone."""

    def __init__(self, dtype: Any = dtypes.float16, custom_op_name: str = "") -> None:
        super().__init__(dtype)
        self.custom_op = custom_op_name


class ReuseInputObserver(ObserverBase):
    """Watches nothing: what has it gives what it takes in another shape, and its range is its input's."""

    def __init__(self) -> None:
        super().__init__(dtypes.quint8)


def get_observer_state_dict(mod: Any) -> dict[str, Any]:
    """Return the part of a state dict that observers keep."""
    return {k: v for k, v in mod.state_dict().items() if "observer" in k or "activation_post_process" in k}


def load_observer_state_dict(mod: Any, obs_dict: dict[str, Any]) -> None:
    """Load what `get_observer_state_dict` gave."""
    mod.load_state_dict({**mod.state_dict(), **obs_dict})
