"""What `quantize_` is to make of a layer: configs with torchao's names and arguments.

A config says in which form weights are kept, and whether inputs are rounded. What is not built (groups of 8-bit
weights, packings of one GPU or another) is refused with its reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ...base import dtypes
from ...base.errors import text
from ...base.source import warn
from ...nn.modules.linear import Identity, Linear
from ...ops.quantised.integers import MOST_TERMS
from ..nn.qat import FLOAT, TRAINED, RoundRows, RoundTrip, as_float
from ..nn.quantized.forms import Floats, Form, Ints
from ..nn.quantized.layers import kept_class
from .fake_quantize import FakeQuantize, FakeQuantizeBase
from .histogram import HistogramObserver
from .observer import MovingAverageMinMaxObserver

__all__ = ["AOBaseConfig", "BFloat16WeightOnlyConfig", "FakeQuantizeConfig", "Float8WeightOnlyConfig",
           "FromIntXQuantizationAwareTrainingConfig", "Int4WeightOnly", "Int4WeightOnlyConfig",
           "Int8DynamicActivationInt4WeightConfig", "Int8DynamicActivationInt8Weight",
           "Int8DynamicActivationInt8WeightConfig", "Int8DynamicActivationIntxWeightConfig",
           "Int8StaticActivationInt8WeightConfig", "Int8WeightOnly", "Int8WeightOnlyConfig",
           "IntXQuantizationAwareTrainingConfig", "IntxFakeQuantizeConfig", "IntxWeightOnlyConfig", "PerAxis",
           "PerGroup", "PerRow", "PerTensor", "PerToken", "QATConfig", "float8_weight_only",
           "from_intx_quantization_aware_training", "int4_weight_only", "int8_dynamic_activation_int4_weight",
           "int8_dynamic_activation_int8_weight", "int8_weight_only", "intx_quantization_aware_training"]  # fmt: skip

# -- which numbers share a scale -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PerTensor:
    """One scale for a tensor."""


@dataclass(frozen=True)
class PerAxis:
    """A scale for each place along a dimension: 0, a weight's rows."""

    axis: int = 0


@dataclass(frozen=True)
class PerRow:
    """A scale for each row."""


@dataclass(frozen=True)
class PerToken:
    """A scale for each row of the inputs."""


@dataclass(frozen=True)
class PerGroup:
    """A scale for each `group_size` numbers of a row."""

    group_size: int


# -- configs -----------------------------------------------------------------------------------------------------------


def _refuse(what: str, came: Any, needed: str) -> NoReturn:
    raise NotImplementedError(text(f"{what} is not built", op="quantize_", came=str(came), needed=needed))


def _group_within(row: int, most: int) -> int:
    """Return the greatest even part of a row that is at most `most` long; 0 where there is none."""
    return next((g for g in range(min(most, row), 1, -1) if row % g == 0 and g % 2 == 0), 0)


class AOBaseConfig:
    """What configs share. `change` makes of a layer what the config says, where it stands."""

    inputs = ""

    def wants(self, module: Any) -> bool:
        """Return whether a module is quantised where no filter is given: a `Linear`, and nothing made from it."""
        return type(module) is Linear

    def form(self, weight: Any) -> Form:
        """Return in which form a weight is kept."""
        raise NotImplementedError

    def forms(self, layer: Any) -> dict[str, Form]:
        """Return by each weight's name its form."""
        weights = {n: p for n, p in layer._parameters.items() if p is not None and p.ndim > 1}
        return {name: self.form(weight) for name, weight in weights.items()}

    def change(self, layer: Any, name: str) -> None:
        """Keep the layer's weights as this config says."""
        kept = kept_class(layer)
        if kept is None:
            raise TypeError(
                text(f"a {type(layer).__name__} has no weights that are kept in fewer bits", op="quantize_",
                     came=f"'{name}', chosen by filter_fn",
                     remedy="filter_fn=core.ao.quantization.every_layer, or leave it out"))  # fmt: skip
        forms = self.forms(layer)
        if _fit(layer, name, forms):
            keep(layer, kept, forms, self.inputs)


def _fit(layer: Any, name: str, forms: dict[str, Form]) -> bool:
    """Return whether all weights of a layer can be kept in their forms; warn where not."""
    reason = next((r for n, form in forms.items() if (r := form.fits(layer._parameters[n]))), "")
    if reason:
        warn(f"quantize_: '{name}' keeps its floating weights: {reason}")
    return not reason


def keep(layer: Any, kept: type[Any], forms: dict[str, Form], inputs: str = "", packed: Any = None,
         activation: str | None = None) -> None:  # fmt: skip
    """Make a layer one with kept weights, where it stands."""
    if inputs and any(math.prod(p.shape[1:]) > MOST_TERMS for p in layer._parameters.values() if p is not None):
        _refuse("a sum of so many products of 8 bits", type(layer).__name__, f"at most {MOST_TERMS} inputs")
    if inputs not in kept.takes:
        _refuse(f"rounding the inputs of a {type(layer).__name__}", f"inputs {inputs}",
                "a config of weights alone, such as Int8WeightOnlyConfig()")  # fmt: skip
    layer.__class__ = kept
    layer.keep(forms, inputs, packed, activation)


@dataclass
class Int8WeightOnlyConfig(AOBaseConfig):
    """Weights of 8 bits with a scale for each row, inputs as they are. Source: Dettmers et al., arXiv 2208.07339."""

    group_size: int | None = None

    def form(self, weight: Any) -> Form:
        if self.group_size is not None:
            _refuse("a scale for each group of 8-bit weights", f"group_size={self.group_size}", "group_size=None")
        return Ints(8)


@dataclass
class Int4WeightOnlyConfig(AOBaseConfig):
    """Weights of 4 bits, two a byte, in groups from the least to the greatest in 15 steps; inputs as they are.

    group_size : numbers that share a scale and a zero. A row that is no whole number of groups is divided into the
    greatest even groups below. `gptq_` rounds with the inputs in view. Source: Frantar et al., arXiv 2210.17323.
    """

    group_size: int = 128

    def form(self, weight: Any) -> Form:
        return Ints(4, _group_within(math.prod(weight.shape[1:]), self.group_size) or None, symmetric=False)


@dataclass
class IntxWeightOnlyConfig(AOBaseConfig):
    """Weights of 2 to 8 bits, symmetric, with a scale for each row or group. Those of up to 4 bits lie in halves of
    bytes, the others in bytes."""

    weight_dtype: Any = dtypes.int8
    granularity: Any = field(default_factory=PerAxis)

    def form(self, weight: Any) -> Form:
        group = self.granularity.group_size if isinstance(self.granularity, PerGroup) else None
        return Ints(_bits(self.weight_dtype), group)


@dataclass
class Int8DynamicActivationInt8WeightConfig(AOBaseConfig):
    """Weights and inputs of 8 bits; each row of the inputs (for a convolution each sample) has the scale of its
    greatest magnitude. Recurrent layers keep their weights so and leave their inputs."""

    inputs = "dynamic"

    def form(self, weight: Any) -> Form:
        return Ints(8)


@dataclass
class Int8DynamicActivationInt4WeightConfig(AOBaseConfig):
    """Weights of 4 bits in groups, inputs rounded to 8 bits by rows: the numbers of such a product, in floating
    sums."""

    group_size: int = 32
    inputs = "dynamic"

    def form(self, weight: Any) -> Form:
        return Ints(4, _group_within(math.prod(weight.shape[1:]), self.group_size) or None)


@dataclass
class Int8DynamicActivationIntxWeightConfig(AOBaseConfig):
    """As `IntxWeightOnlyConfig`, with inputs rounded to 8 bits by rows."""

    weight_dtype: Any = dtypes.int8
    weight_granularity: Any = field(default_factory=PerAxis)
    inputs = "dynamic"

    def form(self, weight: Any) -> Form:
        return IntxWeightOnlyConfig(self.weight_dtype, self.weight_granularity).form(weight)


@dataclass
class Int8StaticActivationInt8WeightConfig(AOBaseConfig):
    """Weights and inputs of 8 bits, with a scale of the inputs that is given or was watched.

    step : "prepare" lets an observer watch each layer's inputs; run the model on some batches, and then give the same
    config with "convert". act_quant_scale : a scale for all layers instead, symmetric; 1.0 also serves for a fresh
    model that loads a state dict. observer : what watches, e.g. `MinMaxObserver.with_args(dtype=core.qint8)`.
    """

    act_quant_scale: Any = None
    step: str | None = None
    observer: Any = None
    inputs = "static"

    def wants(self, module: Any) -> bool:
        if self.step == "convert" and self.act_quant_scale is None:
            return "input_observer" in module._modules
        return type(module) is Linear

    def form(self, weight: Any) -> Form:
        return Ints(8)

    def change(self, layer: Any, name: str) -> None:
        """Watch the layer's inputs, or keep its weights and the scale that was watched."""
        kept = kept_class(layer)
        if kept is not None and "static" not in kept.takes:
            _refuse(f"a given scale for the inputs of a {type(layer).__name__}", f"'{name}'",
                    "Linear, Conv1d, Conv2d, Conv3d")  # fmt: skip
        if self.step == "prepare" and kept is not None:
            watching = self.observer or HistogramObserver.with_args(dtype=dtypes.qint8)
            layer.input_observer = watching()
            layer.register_forward_pre_hook(watch_input)
            return
        watched = layer._modules.pop("input_observer", None)
        if watched is None and self.act_quant_scale is None:
            raise RuntimeError(
                text("no scale of the inputs is known", op="quantize_", came=f"'{name}' was not watched",
                     remedy='the config with step="prepare", some batches, then step="convert"'))  # fmt: skip
        forget(layer, watch_input)
        super().change(layer, name)
        if watched is None:
            layer.set_inputs(float(self.act_quant_scale), 0)
        else:
            layer.set_inputs(*input_steps(watched))


def watch_input(module: Any, args: Any) -> None:
    """Show a layer's input to its observer: a hook before its forward."""
    module.input_observer(args[0])


def forget(module: Any, hook: Any) -> None:
    """Take a hook from a module."""
    for hooks in (module._forward_pre_hooks, module._forward_hooks):
        for key in [k for k, found in hooks.items() if getattr(found, "hook", found) is hook]:
            del hooks[key]


def input_steps(watched: Any) -> tuple[float, int, tuple[int, int]]:
    """Return the scale, the zero and the limits that an observer chose, as for numbers from -128 to 127.

    A range of 7 bits is left to those of 8, which cut less off, unless a fake quantiser cut there in training.
    """
    scale, zero = watched.calculate_qparams()
    if scale.numel() != 1:
        _refuse("a scale for each channel of the inputs", f"{scale.numel()} scales", "a per_tensor qscheme")
    shift = 128 if watched.dtype in (dtypes.quint8, dtypes.uint8) else 0
    low, high = watched.quant_min, watched.quant_max
    if high - low >= 127 and not isinstance(watched, FakeQuantizeBase):
        low, high = -128 + shift, 127 + shift
    return float(scale), int(zero) - shift, (low - shift, high - shift)


@dataclass
class Float8WeightOnlyConfig(AOBaseConfig):
    """Weights in a floating type of 8 bits, with a scale for each row. They are widened at each call: memory is saved,
    and no time."""

    weight_dtype: Any = dtypes.float8_e4m3fn

    def form(self, weight: Any) -> Form:
        if self.weight_dtype not in (dtypes.float8_e4m3fn, dtypes.float8_e5m2):
            _refuse("this type", self.weight_dtype, "core.float8_e4m3fn or core.float8_e5m2")
        return Floats(self.weight_dtype)


@dataclass
class BFloat16WeightOnlyConfig(AOBaseConfig):
    """Weights in bfloat16, or another floating type of 16 bits, widened at each call: memory is saved, and no time."""

    weight_dtype: Any = dtypes.bfloat16

    def form(self, weight: Any) -> Form:
        return Floats(self.weight_dtype)


# -- training with rounding --------------------------------------------------------------------------------------------


def _bits(dtype: Any) -> int:
    name = getattr(dtype, "name", str(dtype))
    if not name.startswith("int") or not name[3:].isdigit() or not 2 <= int(name[3:]) <= 8:
        _refuse("this type of weights", dtype, "core.int2 to core.int8")
    return int(name[3:])


@dataclass
class IntxFakeQuantizeConfig:
    """How numbers are rounded in training.

    dtype : core.int2 to core.int8. granularity : "per_token" for inputs, "per_channel" or "per_group" (or `PerAxis`,
    `PerGroup(n)`) for weights; with `group_size` it may be left out.
    """

    dtype: Any
    granularity: Any = None
    group_size: int | None = None
    is_symmetric: bool = True
    is_dynamic: bool = True

    def weights(self) -> Any:
        """Return the module that rounds weights so."""
        group = self.granularity.group_size if isinstance(self.granularity, PerGroup) else self.group_size
        return RoundTrip(Ints(_bits(self.dtype), group, self.is_symmetric))

    def activations(self) -> Any:
        """Return the module that rounds inputs so."""
        if _bits(self.dtype) != 8 or not self.is_symmetric:
            _refuse("such a rounding of inputs", self, "core.int8, symmetric")
        return RoundRows() if self.is_dynamic else _static_rounding()


FakeQuantizeConfig = IntxFakeQuantizeConfig


def _static_rounding() -> Any:
    return FakeQuantize(MovingAverageMinMaxObserver, -128, 127, dtype=dtypes.qint8)


@dataclass
class QATConfig(AOBaseConfig):
    """Training with the rounding of `base_config`, or of the two others: first step "prepare", then, trained,
    "convert".

    After "convert" the layers are what `base_config` makes of them, and give the same numbers; without it they are
    floating ones again. Source: Jacob et al., arXiv 1712.05877.
    """

    base_config: Any = None
    activation_config: Any = None
    weight_config: Any = None
    step: str = "prepare"

    def __post_init__(self) -> None:
        if self.step not in ("prepare", "convert"):
            raise ValueError(text('step must be "prepare" or "convert"', op="QATConfig", came=repr(self.step)))
        chosen = self.activation_config is not None or self.weight_config is not None
        if self.step == "prepare" and chosen == (self.base_config is not None):
            raise ValueError(text("give base_config, or activation_config and weight_config", op="QATConfig",
                                  came="both" if chosen else "neither"))  # fmt: skip

    def wants(self, module: Any) -> bool:
        return type(module) in FLOAT if self.step == "convert" else type(module) is Linear

    def change(self, layer: Any, name: str) -> None:
        """Let the layer round in training, or make of it what was trained for."""
        if self.step == "convert":
            self._convert(layer, name)
            return
        if type(layer) not in TRAINED:
            raise TypeError(text(f"a {type(layer).__name__} has no weights to round", op="quantize_", came=f"'{name}'",
                                 remedy="filter_fn=core.ao.quantization.every_layer"))  # fmt: skip
        if self.base_config is not None and not _fit(layer, name, self.base_config.forms(layer)):
            return
        weight, inputs = self._roundings(layer)
        layer.__class__ = TRAINED[type(layer)]
        layer.rounded_by(weight, inputs)

    def _roundings(self, layer: Any) -> tuple[Any, Any]:
        base = self.base_config
        if base is None:
            given, w = self.activation_config, self.weight_config
            return Identity() if w is None else w.weights(), None if given is None else given.activations()
        kept: Any = kept_class(layer)
        if "static" in kept.takes and base.inputs:
            inputs = RoundRows(1 + getattr(kept, "n", 0)) if base.inputs == "dynamic" else _static_rounding()
        else:
            inputs = None
        return RoundTrip(next(iter(base.forms(layer).values()))), inputs

    def _convert(self, layer: Any, name: str) -> None:
        if type(layer) not in FLOAT:
            raise TypeError(text(f"a {type(layer).__name__} was not prepared", op="quantize_", came=f"'{name}'",
                                 remedy='QATConfig(..., step="prepare") first'))  # fmt: skip
        watched = layer._modules.get("activation_fake_quant")
        as_float(layer)
        if self.base_config is None:
            return
        if self.base_config.inputs == "static":
            layer.input_observer = watched
        self.base_config.change(layer, name)


def IntXQuantizationAwareTrainingConfig(activation_config: Any = None, weight_config: Any = None) -> QATConfig:
    """Return the older spelling's `QATConfig` with step "prepare"."""
    return QATConfig(None, activation_config, weight_config)


def FromIntXQuantizationAwareTrainingConfig() -> QATConfig:
    """Return the older spelling's `QATConfig` with step "convert", which gives floating layers."""
    return QATConfig(step="convert")


# -- older spellings ---------------------------------------------------------------------------------------------------

Int8WeightOnly, Int4WeightOnly = Int8WeightOnlyConfig, Int4WeightOnlyConfig
Int8DynamicActivationInt8Weight = Int8DynamicActivationInt8WeightConfig
int8_weight_only, int4_weight_only = Int8WeightOnlyConfig, Int4WeightOnlyConfig
int8_dynamic_activation_int8_weight = Int8DynamicActivationInt8WeightConfig
int8_dynamic_activation_int4_weight = Int8DynamicActivationInt4WeightConfig
float8_weight_only = Float8WeightOnlyConfig
intx_quantization_aware_training = IntXQuantizationAwareTrainingConfig
from_intx_quantization_aware_training = FromIntXQuantizationAwareTrainingConfig
