"""Rounding in training: modules that give each number as it would be after whole numbers, and let gradients pass."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...base import dtypes
from ...base.errors import text
from ...base.qschemes import (
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from ...ops.creation import tensor, zeros
from ...rarer_names import fake_quantize_per_channel_affine, fake_quantize_per_tensor_affine
from ...tensors.tensor import Tensor
from .histogram import HistogramObserver
from .observer import (
    FixedQParamsObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    _PartialWrapper,
)

__all__ = ["FakeQuantize", "FakeQuantizeBase", "FixedQParamsFakeQuantize", "FusedMovingAvgObsFakeQuantize",
           "LearnableFakeQuantize", "default_dynamic_fake_quant", "default_embedding_fake_quant",
           "default_fake_quant", "default_fixed_qparams_range_0to1_fake_quant",
           "default_fixed_qparams_range_neg1to1_fake_quant", "default_fused_act_fake_quant",
           "default_fused_per_channel_wt_fake_quant", "default_fused_wt_fake_quant",
           "default_histogram_fake_quant", "default_per_channel_weight_fake_quant",
           "default_weight_fake_quant", "disable_fake_quant", "disable_observer", "enable_fake_quant",
           "enable_observer"]  # fmt: skip


class FakeQuantizeBase(Module):
    """What fake quantisers share: two switches, for rounding and for watching, that a state dict keeps."""

    fake_quant_enabled: Tensor
    observer_enabled: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", tensor([1], dtype=dtypes.uint8))
        self.register_buffer("observer_enabled", tensor([1], dtype=dtypes.uint8))
        self._rounds = self._watches = True

    def calculate_qparams(self, **kwargs: Any) -> Any:
        """Return the scale and the zero point."""
        raise NotImplementedError

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Round from now on, or no longer."""
        self._rounds = bool(enabled)
        self.fake_quant_enabled = tensor([int(enabled)], dtype=self.fake_quant_enabled.dtype)

    def disable_fake_quant(self) -> None:
        """Let numbers pass as they are."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Watch from now on, or no longer."""
        self._watches = bool(enabled)
        self.observer_enabled = tensor([int(enabled)], dtype=self.observer_enabled.dtype)

    def disable_observer(self) -> None:
        """Keep the scale as it is."""
        self.enable_observer(False)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name in ("scale", "zero_point"):  # one for each channel, once something was seen
            found, mine = state_dict.get(prefix + name), self._buffers.get(name)
            if found is not None and mine is not None and found.shape != mine.shape:
                self._buffers[name] = zeros(found.shape, dtype=mine.dtype, device=mine.device)
        super()._load_from_state_dict(state_dict, prefix, *rest)
        self._rounds, self._watches = bool(self.fake_quant_enabled[0]), bool(self.observer_enabled[0])

    @classmethod
    def with_args(cls, **kwargs: Any) -> _PartialWrapper:
        """Return a maker of such modules with these arguments."""
        return _PartialWrapper(partial(cls, **kwargs))


class FakeQuantize(FakeQuantizeBase):
    """Gives ``(clamp(round(x / scale) + zero_point, quant_min, quant_max) - zero_point) * scale``, and the scale is
    what an observer chooses from what passes.

    Gradients pass where the whole number was within its range. Source: Jacob et al., arXiv 1712.05877.

    >>> import core
    >>> fake = core.ao.quantization.FakeQuantize(core.ao.quantization.MovingAverageMinMaxObserver, 0, 3)
    >>> fake(core.tensor([0.0, 1.0, 1.4, 3.0]))
    tensor([0., 1., 1., 3.])
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(self, observer: Any = MovingAverageMinMaxObserver, quant_min: int | None = None,
                 quant_max: int | None = None, is_dynamic: bool = False, **observer_kwargs: Any) -> None:  # fmt: skip
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise AssertionError(text("quant_min must be less than or equal to quant_max", op="FakeQuantize",
                                          came=f"{quant_min} and {quant_max}"))  # fmt: skip
            observer_kwargs |= {"quant_min": quant_min, "quant_max": quant_max}
        self.activation_post_process = watching = observer(**observer_kwargs, **({"is_dynamic": True} if is_dynamic
                                                                                  else {}))  # fmt: skip
        self.quant_min, self.quant_max, self.is_dynamic = watching.quant_min, watching.quant_max, watching.is_dynamic
        self.dtype, self.qscheme, self.ch_axis = watching.dtype, watching.qscheme, getattr(watching, "ch_axis", -1)
        self.is_per_channel = self.qscheme not in (per_tensor_affine, per_tensor_symmetric)
        whole = dtypes.float32 if self.qscheme is per_channel_affine_float_qparams else dtypes.int32
        self.register_buffer("scale", tensor([1.0]))
        self.register_buffer("zero_point", tensor([0], dtype=whole))

    def calculate_qparams(self, **kwargs: Any) -> Any:
        """Return the scale and the zero point that the observer chooses."""
        return self.activation_post_process.calculate_qparams()

    def forward(self, X: Any) -> Any:
        if self._watches:
            self.activation_post_process(X.detach())
            scale, zero = self.calculate_qparams()
            self.scale = scale.detach().to(self.scale.device)
            self.zero_point = zero.to(device=self.scale.device, dtype=self.zero_point.dtype)
        if not self._rounds:
            return X
        if self.is_per_channel:
            return fake_quantize_per_channel_affine(X, self.scale, self.zero_point, self.ch_axis, self.quant_min,
                                                    self.quant_max)  # fmt: skip
        return fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, self.quant_min, self.quant_max)

    def extra_repr(self) -> str:
        return (f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
                f"quant_min={self.quant_min}, quant_max={self.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, "
                f"ch_axis={self.ch_axis}, scale={self.scale}, zero_point={self.zero_point}")  # fmt: skip


class FixedQParamsFakeQuantize(FakeQuantize):
    """A `FakeQuantize` whose scale is given from the beginning."""

    def __init__(self, observer: Any) -> None:
        super().__init__(observer)
        self.scale, self.zero_point = self.activation_post_process.scale, self.activation_post_process.zero_point

    def calculate_qparams(self, **kwargs: Any) -> Any:
        """Return what it was made with."""
        return self.scale, self.zero_point


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """A `FakeQuantize` with an observer of moving averages; in PyTorch one kernel, whose symmetric
    scales are up to 0.4 % others, here the same steps."""

    def __init__(self, observer: Any = MovingAverageMinMaxObserver, quant_min: int = 0, quant_max: int = 255,
                 **observer_kwargs: Any) -> None:  # fmt: skip
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        if not isinstance(self.activation_post_process,
                          MovingAverageMinMaxObserver | MovingAveragePerChannelMinMaxObserver):  # fmt: skip
            raise AssertionError(text("Fused observer+fake_quant module only works with MovingAverageMinMaxObserver",
                                      op="FusedMovingAvgObsFakeQuantize", remedy="FakeQuantize"))  # fmt: skip


class LearnableFakeQuantize(FakeQuantize):
    """A `FakeQuantize` whose scale is a parameter after the first batches: it learns with the weights.

    warmup : how many batches the observer watches before the scale is learned. The scale's gradient is that of the
    rounded number with the rounding taken as constant, divided by sqrt(numbers * quant_max). Source: Esser et al.,
    arXiv 1902.08153.

    >>> import core
    >>> fake = core.ao.quantization.LearnableFakeQuantize(core.ao.quantization.MinMaxObserver, 0, 3, warmup=1)
    >>> _ = fake(core.tensor([0.0, 3.0]))
    >>> fake(core.tensor([0.4, 9.0])).sum().backward()
    >>> fake.learned_scale.grad
    tensor([1.0614])
    """

    def __init__(self, observer: Any = MovingAverageMinMaxObserver, quant_min: int | None = None,
                 quant_max: int | None = None, warmup: int = 10, **observer_kwargs: Any) -> None:  # fmt: skip
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        self.warmup = warmup
        self.register_parameter("learned_scale", None)

    def forward(self, X: Any) -> Any:
        if self.learned_scale is None:
            y = super().forward(X)
            self.warmup -= 1
            if self.warmup <= 0 and self._watches:
                self.learn()
            return y
        if not self._rounds:
            return X
        shape = [1] * X.ndim
        if self.is_per_channel:
            shape[self.ch_axis] = -1
        share = 1 / (X.numel() * max(self.quant_max, 1)) ** 0.5
        scale: Any = self.learned_scale.abs().clamp(min=1e-8).reshape(shape)
        scale = (scale - scale * share).detach() + scale * share
        steps = X / scale + self.zero_point.reshape(shape)
        steps = steps.clamp(self.quant_min, self.quant_max)
        steps = steps + (steps.round() - steps).detach()
        return (steps - self.zero_point.reshape(shape)) * scale

    def learn(self) -> None:
        """Make the scale a parameter now; an optimizer made before does not know it."""
        self.learned_scale = Parameter(self.scale.clone())


default_fake_quant = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255,
                                            dtype=dtypes.quint8, qscheme=per_tensor_affine,
                                            reduce_range=True)  # fmt: skip
default_weight_fake_quant = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127,
                                                   dtype=dtypes.qint8, qscheme=per_tensor_symmetric,
                                                   reduce_range=False)  # fmt: skip
default_dynamic_fake_quant = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255,
                                                    is_dynamic=True, dtype=dtypes.quint8,
                                                    averaging_constant=1)  # fmt: skip
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=dtypes.qint8,
    qscheme=per_channel_symmetric, reduce_range=False, ch_axis=0,
)  # fmt: skip
default_histogram_fake_quant = FakeQuantize.with_args(observer=HistogramObserver, quant_min=0, quant_max=255,
                                                      dtype=dtypes.quint8, qscheme=per_tensor_affine,
                                                      reduce_range=True)  # fmt: skip
default_embedding_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, qscheme=per_channel_affine_float_qparams, dtype=dtypes.quint8,
    quant_min=0, quant_max=255, ch_axis=0, averaging_constant=1,
)  # fmt: skip
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=FixedQParamsObserver.with_args(scale=2.0 / 256.0, zero_point=128)
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=FixedQParamsObserver.with_args(scale=1.0 / 256.0, zero_point=0)
)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageMinMaxObserver,
                                                                       quant_min=0, quant_max=255,
                                                                       dtype=dtypes.quint8)  # fmt: skip
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageMinMaxObserver,
                                                                      quant_min=-128, quant_max=127,
                                                                      dtype=dtypes.qint8,
                                                                      qscheme=per_tensor_symmetric)  # fmt: skip
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=dtypes.qint8,
    qscheme=per_channel_symmetric,
)  # fmt: skip


def _each(name: str) -> Any:
    def switch(mod: Any) -> None:
        if isinstance(mod, FakeQuantizeBase):
            getattr(mod, name)()

    switch.__name__ = switch.__qualname__ = name
    switch.__doc__ = f"Call `{name}` of a module that rounds in training; for ``model.apply({name})``."
    return switch


disable_fake_quant, enable_fake_quant = _each("disable_fake_quant"), _each("enable_fake_quant")
disable_observer, enable_observer = _each("disable_observer"), _each("enable_observer")
