"""PyTorch's eager flow: a model is prepared with observers, sees data, and is converted.

What is converted takes and gives floating numbers, and each layer holds whole ones inside. So a layer rounds its inputs
by itself: `prepare` lets an observer watch them too (``activation_pre_process``), beside the one of the results
(``activation_post_process``) that PyTorch has.
"""

from __future__ import annotations

import copy
from typing import Any

from ... import nn
from ...base import dtypes
from ...base.errors import text
from ...base.source import warn
from ...nn.modules.batchnorm import _BatchNorm
from ...nn.modules.linear import NonDynamicallyQuantizableLinear
from ...nn.modules.module import Module
from ...nn.quantized import DeQuantStub, FloatFunctional, QuantStub
from ...ops.creation import ones
from ...tensors.tensor import Tensor
from ..nn import intrinsic
from ..nn.intrinsic import qat as joined_qat
from ..nn.qat import FLOAT, TRAINED, as_float
from ..nn.quantized.forms import Floats, Form, Ints
from ..nn.quantized.layers import KEPT
from ..nn.quantized.stubs import DeQuantize, Quantize
from .configs import forget, input_steps, keep
from .fake_quantize import (
    FakeQuantizeBase,
    default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_neg1to1_fake_quant,
)
from .observer import NoopObserver, ObserverBase, PlaceholderObserver
from .qconfig import (
    QConfig,
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
)

__all__ = ["QuantWrapper", "add_quant_dequant", "convert", "prepare", "prepare_qat", "propagate_qconfig_",
           "quantize", "quantize_dynamic", "quantize_qat"]  # fmt: skip

_FUSED = intrinsic._FusedModule
_RECURRENT = (nn.LSTM, nn.GRU, nn.RNN, nn.LSTMCell, nn.GRUCell, nn.RNNCell)
_ROUNDING = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
)  # these, and what is made of them, round their inputs
_WATCHED = {
    QuantStub, *KEPT, *FLOAT, nn.BatchNorm2d, nn.BatchNorm3d, nn.ELU, nn.GroupNorm,
    nn.Hardswish, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d,
    nn.LayerNorm, nn.LeakyReLU, nn.ReLU6, nn.PReLU,
    NonDynamicallyQuantizableLinear,
} - {*_RECURRENT, *(TRAINED[r] for r in _RECURRENT)}  # fmt: skip
_FIXED = {
    nn.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}
_TRAINED_JOINED = {getattr(intrinsic, name): getattr(joined_qat, name) for name in
                   ("LinearReLU", "LinearBn1d", *(f"{kind}{n}d" for kind in ("ConvReLU", "ConvBn", "ConvBnReLU")
                                                  for n in (1, 2, 3)))}  # fmt: skip
_FLOAT_JOINED = {getattr(joined_qat, c.__name__): c.of[0] for c in _TRAINED_JOINED}
_TRAINABLE = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


class QuantWrapper(Module):
    """A module between a `QuantStub` and a `DeQuantStub`."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.quant, self.dequant = QuantStub(qconfig), DeQuantStub(qconfig)
        self.module = module
        self.train(module.training)

    def forward(self, X: Any) -> Any:
        return self.dequant(self.module(self.quant(X)))


def add_quant_dequant(module: Any) -> Any:
    """Put each layer that has a qconfig between stubs; gives the module, or the wrapped one for a layer itself."""
    if not module._modules and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module


def propagate_qconfig_(module: Any, qconfig_dict: Any = None, prepare_custom_config_dict: Any = None) -> None:
    """Give every module within a qconfig: its own, that of its path or its type in the dict, or else its parent's."""
    _propagate(module, qconfig_dict or {}, None, "")


def _propagate(module: Any, chosen: Any, above: Any, path: str) -> None:
    mine = chosen.get(path, chosen.get(type(module), above))
    mine = module.__dict__.get("qconfig", mine)
    if mine is not None and not (hasattr(mine, "activation") and hasattr(mine, "weight")):
        raise TypeError(text("qconfig must be a QConfig", op="prepare", came=type(mine).__name__,
                             remedy="core.ao.quantization.get_default_qconfig()"))  # fmt: skip
    if mine is not None and any(isinstance(part, nn.Module) for part in mine):
        raise ValueError(text("QConfig received observer instance, please pass observer class instead", op="prepare",
                              came=", ".join(type(part).__name__ for part in mine),
                              remedy="MyObserver.with_args(x=1) gives arguments to what is made later"))  # fmt: skip
    module.qconfig = mine
    for name, child in module.named_children():
        _propagate(child, chosen, mine, f"{path}.{name}" if path else name)


# -- watching ----------------------------------------------------------------------------------------------------------


def _after(module: Any, args: Any, output: Any) -> Any:
    seen = module.activation_post_process(output)
    if isinstance(seen, Tensor):
        seen._watched_by = module.activation_post_process  # type: ignore[attr-defined]
    return seen


def _before(module: Any, args: Any) -> Any:
    """Watch a layer's input, and remember whose result it is: then its steps are those of that result."""
    module.activation_pre_process(args[0])
    source = getattr(args[0], "_watched_by", None)
    first = module.__dict__.setdefault("_source", source)
    if first is not source:
        module.__dict__["_source"] = None


def _before_alone(module: Any, args: Any) -> Any:
    return (module.activation_post_process(args[0]), *args[1:])


def _plain(watching: Any) -> Any:
    """Return an observer that watches as a fake quantiser does, and does not round."""
    return watching.activation_post_process if isinstance(watching, FakeQuantizeBase) else watching


def _observe(module: Any, special: Any = None) -> None:
    config = module.qconfig
    if config is None or isinstance(module, DeQuantStub):
        return
    made = (special or config.activation)()
    if not isinstance(made, Module):
        raise TypeError(text("a qconfig makes modules", op="prepare", came=type(made).__name__))
    module.activation_post_process = made
    if getattr(made, "is_dynamic", False):
        module.register_forward_pre_hook(_before_alone, prepend=True)
        return
    module.register_forward_hook(_after, prepend=True)
    kind = module.of[0] if isinstance(module, _FUSED) else type(module)
    if issubclass(kind, _ROUNDING) and hasattr(made, "calculate_qparams") and not isinstance(
            made, PlaceholderObserver | NoopObserver):  # fmt: skip
        module.activation_pre_process = _plain(config.activation())
        module.register_forward_pre_hook(_before, prepend=True)


def _watch(module: Any, kinds: Any, non_leaf: Any) -> None:
    for child in module.children():
        kind = type(child)
        if kind is nn.Dropout or isinstance(child, ObserverBase | FakeQuantizeBase):
            continue
        if isinstance(child, FloatFunctional):
            if child.qconfig is not None:
                child.activation_post_process = child.qconfig.activation()
        elif isinstance(child, _FUSED) or kind in non_leaf:
            _observe(child)
        elif kind in _FIXED:
            _observe(child, _FIXED[kind])
        else:
            _watch(child, kinds, non_leaf)
    if not module._modules and type(module) in kinds and "activation_post_process" not in module._modules:
        _observe(module)


def prepare(model: Any, inplace: bool = False, allow_list: Any = None, observer_non_leaf_module_list: Any = None,
            prepare_custom_config_dict: Any = None) -> Any:  # fmt: skip
    """Return a copy of the model in which observers watch the layers that have a qconfig.

    inplace : change the model itself. allow_list : of which types layers are watched.

    Set ``model.qconfig`` first; then run the prepared model on some data, and `convert` it.
    """
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    if not any(getattr(m, "qconfig", None) for m in model.modules()):
        warn("None of the submodule got qconfig applied. Make sure you passed correct configuration through "
             "`qconfig_dict` or by assigning the `.qconfig` attribute directly on submodules")  # fmt: skip
    _watch(model, _WATCHED if allow_list is None else set(allow_list), set(observer_non_leaf_module_list or ()))
    return model


# -- training ----------------------------------------------------------------------------------------------------------


def prepare_qat(model: Any, mapping: Any = None, inplace: bool = False) -> Any:
    """Return a copy of a model in training mode in which weights and results are rounded in each forward.

    *Raises*: AssertionError for a model in evaluation.
    """
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    _train_rounding(model)
    return prepare(model, inplace=True, observer_non_leaf_module_list=[*_FLOAT_JOINED, *FLOAT])


def _train_rounding(module: Any) -> None:
    for name, child in module.named_children():
        if child.qconfig is None and not isinstance(child, _FUSED):
            _train_rounding(child)
        elif type(child) in _TRAINED_JOINED and child.qconfig is not None:
            module._modules[name] = _trained_as_one(child)
        elif type(child) in _TRAINABLE:
            child.__class__ = TRAINED[type(child)]
            child.rounded_by(child.qconfig.weight())
        elif not isinstance(child, _FUSED):
            _train_rounding(child)


def _trained_as_one(fused: Any) -> Any:
    layer, *rest = fused
    layer.__class__ = _TRAINED_JOINED[type(fused)]
    layer.weight_fake_quant, layer.qconfig = fused.qconfig.weight(), fused.qconfig
    norm = next((m for m in rest if isinstance(m, _BatchNorm)), None)
    if norm is not None:
        layer.bn = norm
    return layer


# -- converting --------------------------------------------------------------------------------------------------------


def convert(module: Any, mapping: Any = None, inplace: bool = False, remove_qconfig: bool = True,
            is_reference: bool = False, convert_custom_config_dict: Any = None,
            use_precomputed_fake_quant: bool = False) -> Any:  # fmt: skip
    """Return a copy of a prepared model whose layers hold whole numbers, by what their observers saw.

    mapping : by types of layers classes with a `from_float` that make others of them. Layers without a qconfig, and
    those that only pass numbers on, stay as they are. The model takes and gives floating numbers.

    *Raises*: NotImplementedError for qconfigs that no layer here can follow: weights with a zero point, inputs with a
    scale for each channel.

    >>> import core
    >>> q = core.ao.quantization
    >>> model = q.QuantWrapper(core.nn.Linear(2, 2)).eval()
    >>> model.qconfig = q.default_qconfig
    >>> ready = q.prepare(model)
    >>> _ = ready(core.tensor([[0.0, 12.7]]))
    >>> q.convert(ready).module
    QuantizedLinear(in_features=2, out_features=2, bias=True, weight=8 bits, inputs=static)
    """
    module = module if inplace else copy.deepcopy(module)
    _convert(module, mapping)
    if remove_qconfig:
        _remove_qconfig(module)
    return module


def _convert(module: Any, mapping: Any) -> None:
    for name, child in list(module.named_children()):
        if getattr(child, "qconfig", None) is None or not (isinstance(child, _FUSED) or type(child) in _FLOAT_JOINED):
            _convert(child, mapping)
        if getattr(child, "qconfig", None) is not None:
            module._modules[name] = _swapped(child, mapping)


def _swapped(child: Any, mapping: Any) -> Any:
    kind, watched = type(child), child._modules.get("activation_post_process")
    if mapping is not None and hasattr(mapping.get(kind), "from_float"):
        return mapping[kind].from_float(child)
    if kind is QuantStub and watched is not None:
        scale, zero = watched.calculate_qparams()
        return Quantize(scale, zero, watched.dtype)
    if kind is DeQuantStub:
        return DeQuantize()
    layer, activation = child, None
    if kind in _FLOAT_JOINED:
        activation = "relu" if "ReLU" in kind.__name__ else None
    elif isinstance(child, _FUSED) and kind.of[0] in KEPT:
        layer, activation = child[0], "relu"
    elif kind not in KEPT and kind not in FLOAT:
        return child
    _keep(layer, child, activation)
    return layer


def _keep(layer: Any, watched: Any, activation: str | None) -> None:
    """Keep a layer's weight as its qconfig says; `watched` has the observers."""
    config, kind = watched.qconfig, type(layer)
    rounding = layer._modules.get("weight_fake_quant")
    if kind in _FLOAT_JOINED:
        if "bn" in layer._modules:
            layer.fold()
            del layer._modules["bn"]
        layer._modules.pop("weight_fake_quant", None)
        layer.__class__ = _FLOAT_JOINED[kind]
    elif kind in FLOAT:
        as_float(layer)
    inputs, steps = _inputs(layer, config, watched)
    form, packed = _weights(layer, config, config.weight() if rounding is None else rounding)
    for name in ("activation_post_process", "activation_pre_process"):
        layer._modules.pop(name, None)
    for hook in (_after, _before, _before_alone):
        forget(layer, hook)
    keep(layer, KEPT[type(layer)], dict.fromkeys(_names(layer), form), inputs, packed, activation)
    if steps is not None:
        layer.set_inputs(*steps)


def _names(layer: Any) -> list[str]:
    return [n for n, p in layer._parameters.items() if p is not None and p.ndim > 1]


def _inputs(layer: Any, config: QConfig, watched: Any) -> tuple[str, Any]:
    """Return how the layer's inputs are rounded, and to which steps."""
    if not issubclass(type(layer), _ROUNDING):
        return "", None
    before = watched._modules.get("activation_pre_process")
    if before is not None:
        return "static", input_steps(watched.__dict__.get("_source") or before)
    made = watched._modules.get("activation_post_process") or config.activation()
    whole = getattr(made, "dtype", None) in (dtypes.quint8, dtypes.qint8, dtypes.uint8, dtypes.int8)
    return ("dynamic" if whole and getattr(made, "is_dynamic", False) else ""), None


def _weights(layer: Any, config: QConfig, watching: Any) -> tuple[Form, Any]:
    """Return the form that a weight's observer asks for, and the weight packed by its scale, where it has one."""
    dtype = getattr(watching, "dtype", None)
    if dtype in (dtypes.float16, dtypes.bfloat16):
        return Floats(dtype), None
    if isinstance(layer, (nn.Embedding, nn.EmbeddingBag, *_RECURRENT)):
        return (Ints(4, symmetric=False) if dtype is dtypes.quint4x2 else Ints(8)), None
    if not hasattr(watching, "calculate_qparams"):  # an Identity
        return Ints(8), None
    weight: Any = layer._parameters["weight"]
    watching(weight.detach())
    scale, zero = watching.calculate_qparams()
    if dtype not in (dtypes.qint8, dtypes.int8) or bool((zero != 0).any()):
        raise NotImplementedError(
            text("weights with a zero point are not built", op="convert",
                 came=f"an observer of {dtype}, {watching.qscheme}",
                 needed="core.qint8 and core.per_tensor_symmetric or core.per_channel_symmetric"))  # fmt: skip
    axis = getattr(watching, "ch_axis", 0)
    if scale.numel() > 1 and axis != 0:
        raise NotImplementedError(text("weights have a scale for each row", op="convert", came=f"ch_axis={axis}",
                                       needed="ch_axis=0"))  # fmt: skip
    scale = scale * ones(len(weight), device=weight.device)
    q = (weight.detach() * (1.0 / scale).reshape(-1, *[1] * (weight.ndim - 1))).round()  # as PyTorch rounds
    q = q.clamp(watching.quant_min, watching.quant_max)
    return Ints(8), {"weight": {"values": q.to(dtypes.int8), "scale": scale}}


def _remove_qconfig(module: Any) -> None:
    for child in module.children():
        _remove_qconfig(child)
    for name in ("qconfig", "_source"):
        module.__dict__.pop(name, None)
    if isinstance(module, FloatFunctional):
        module.activation_post_process = nn.Identity()
        return
    for name in ("activation_post_process", "activation_pre_process"):
        module._modules.pop(name, None)
    for hook in (_after, _before, _before_alone):
        forget(module, hook)


# -- in one call -------------------------------------------------------------------------------------------------------


def quantize(model: Any, run_fn: Any, run_args: Any, mapping: Any = None, inplace: bool = False) -> Any:
    """Prepare a model, show it data by ``run_fn(model, *run_args)``, and convert it."""
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


def quantize_qat(model: Any, run_fn: Any, run_args: Any, inplace: bool = False) -> Any:
    """Prepare a model for training with rounding, train it by ``run_fn(model, *run_args)``, and convert it."""
    model = model if inplace else copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, inplace=True)


def quantize_dynamic(model: Any, qconfig_spec: Any = None, dtype: Any = dtypes.qint8, mapping: Any = None,
                     inplace: bool = False) -> Any:  # fmt: skip
    """Return a copy of the model that keeps weights in fewer bits and rounds inputs as they come.

    qconfig_spec : a set of types or paths, or a dict from them to qconfigs; without it linear and recurrent layers, or
    for ``dtype=core.quint8`` tables. Recurrent layers keep their weights in 8 bits, and leave x and h as they are.

    >>> import core
    >>> model = core.nn.Sequential(core.nn.Linear(4, 2))
    >>> core.ao.quantization.quantize_dynamic(model, {core.nn.Linear}, dtype=core.qint8)[0]
    QuantizedLinear(in_features=4, out_features=2, bias=True, weight=8 bits, inputs=dynamic)
    """
    by_dtype = {dtypes.qint8: default_dynamic_qconfig, dtypes.float16: float16_dynamic_qconfig,
                dtypes.quint8: float_qparams_weight_only_qconfig,
                dtypes.quint4x2: float_qparams_weight_only_qconfig_4bit}  # fmt: skip
    if not isinstance(qconfig_spec, dict):
        if dtype not in by_dtype:
            raise ValueError(f"Don't know how to quantize with default settings for {dtype}. Provide full qconfig "
                             f"please\n  needed: one of {', '.join(map(str, by_dtype))}")  # fmt: skip
        usual = {nn.Embedding, nn.EmbeddingBag} if dtype in (dtypes.quint8, dtypes.quint4x2) else {
            nn.Linear, *_RECURRENT}  # fmt: skip
        qconfig_spec = dict.fromkeys(usual if qconfig_spec is None else qconfig_spec, by_dtype[dtype])
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    return convert(model, mapping, inplace=True)
