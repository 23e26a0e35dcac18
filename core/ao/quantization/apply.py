"""`quantize_`: a model in fewer bits, where it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import text
from ...nn.modules.module import Module
from ..nn.qat import FLOAT
from ..nn.quantized.layers import KEPT
from .configs import AOBaseConfig

__all__ = ["every_layer", "quantize_"]


def every_layer(module: Any, name: str) -> bool:
    """Return whether a module is a layer whose weights can be kept in fewer bits: a filter for `quantize_`.

    Linear layers, convolutions, tables and recurrent layers are, exactly these and not what is made from them.
    """
    return type(module) in KEPT or type(module) in FLOAT


def quantize_(model: Module, config: Any, filter_fn: Callable[[Module, str], bool] | None = None,
              device: Any = None) -> None:  # fmt: skip
    """Keep a model's weights in fewer bits, where it stands; its inputs and outputs stay floating numbers.

    Parameters
    ----------
    config : what is made of a layer, e.g. `core.ao.quantization.Int8WeightOnlyConfig()`; all names are torchao's.
    filter_fn : called with a module and its path, says which are changed. Without one these are the `Linear` layers, as
        in torchao; ``filter_fn=core.ao.quantization.every_layer`` takes convolutions, tables and recurrent layers too.
    device : where the model is moved to first.

    A changed layer holds whole numbers and scales as buffers (``weight_values``, ``weight_scale``), its bias stays a
    parameter, and ``layer.weight`` gives the weight as numbers. Gradients reach inputs and biases: freeze what is
    quantised and train a few parameters beside it (LoRA) as beside a floating layer. A state dict is loaded into a
    fresh model after the same call of `quantize_`.

    *Raises*: TypeError for what is no config, or a module that `filter_fn` chose and that has no such weights.

    >>> import core
    >>> model = core.nn.Sequential(core.nn.Linear(64, 32), core.nn.ReLU(), core.nn.Linear(32, 10))
    >>> core.quantize_(model, core.ao.quantization.Int8DynamicActivationInt8WeightConfig())
    >>> model
    Sequential(
      (0): QuantizedLinear(in_features=64, out_features=32, bias=True, weight=8 bits, inputs=dynamic)
      (1): ReLU()
      (2): QuantizedLinear(in_features=32, out_features=10, bias=True, weight=8 bits, inputs=dynamic)
    )
    """
    if not isinstance(config, AOBaseConfig):
        raise TypeError(text("quantize_ takes a config", op="quantize_", came=type(config).__name__,
                             remedy="core.ao.quantization.Int8WeightOnlyConfig()"))  # fmt: skip
    if device is not None:
        model.to(device)
    for name, module in list(model.named_modules()):
        chosen = config.wants(module) if filter_fn is None else filter_fn(module, name)
        if chosen:
            config.change(module, name)
