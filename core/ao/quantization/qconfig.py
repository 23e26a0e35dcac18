"""What a module is to be watched with: pairs of observers, or of fake quantisers, for its results and its weights."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...base import dtypes
from ...base.errors import text
from ...base.qschemes import per_channel_affine_float_qparams, per_channel_symmetric, per_tensor_symmetric
from ...nn.modules.linear import Identity
from .fake_quantize import (
    FakeQuantize,
    FusedMovingAvgObsFakeQuantize,
    default_dynamic_fake_quant,
    default_embedding_fake_quant,
    default_fake_quant,
    default_fused_act_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_per_channel_weight_fake_quant,
    default_weight_fake_quant,
)
from .histogram import HistogramObserver
from .observer import (
    FixedQParamsObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    NoopObserver,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
    RecordingObserver,
    ReuseInputObserver,
)

__all__ = ["QConfig", "QConfigAny", "default_activation_only_qconfig", "default_debug_observer",
           "default_debug_qconfig", "default_dynamic_qat_qconfig", "default_dynamic_qconfig",
           "default_dynamic_quant_observer", "default_embedding_qat_qconfig",
           "default_fixed_qparams_range_0to1_observer", "default_fixed_qparams_range_neg1to1_observer",
           "default_float_qparams_observer", "default_float_qparams_observer_4bit",
           "default_histogram_observer", "default_observer", "default_per_channel_qconfig",
           "default_per_channel_symmetric_qnnpack_qconfig", "default_per_channel_weight_observer",
           "default_placeholder_observer", "default_qat_qconfig", "default_qat_qconfig_v2", "default_qconfig",
           "default_reuse_input_observer", "default_reuse_input_qconfig", "default_symmetric_qnnpack_qconfig",
           "default_weight_observer", "default_weight_only_qconfig", "float16_dynamic_qconfig",
           "float16_static_qconfig", "float_qparams_weight_only_qconfig",
           "float_qparams_weight_only_qconfig_4bit", "get_default_qat_qconfig", "get_default_qconfig",
           "per_channel_dynamic_qconfig", "per_channel_weight_observer_range_neg_127_to_127", "qconfig_equals",
           "weight_observer_range_neg_127_to_127"]  # fmt: skip


class QConfig(NamedTuple):
    """What watches a layer's results and its weights: two classes, or functions that make their instances.

    >>> import core
    >>> q = core.ao.quantization
    >>> config = q.QConfig(q.MinMaxObserver.with_args(dtype=core.qint8), q.default_weight_observer)
    >>> config.activation().quant_min
    -128
    """

    activation: Any
    weight: Any


QConfigAny = QConfig | None

default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_reuse_input_observer = ReuseInputObserver
default_weight_observer = MinMaxObserver.with_args(dtype=dtypes.qint8, qscheme=per_tensor_symmetric)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(dtype=dtypes.qint8,
                                                                         qscheme=per_channel_symmetric)  # fmt: skip
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(dtype=dtypes.qint8, qscheme=per_tensor_symmetric,
                                                                quant_min=-127, quant_max=127, eps=2**-12)  # fmt: skip
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=dtypes.qint8, qscheme=per_channel_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(dtype=dtypes.quint8, quant_min=0, quant_max=255,
                                                               is_dynamic=True)  # fmt: skip
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=dtypes.quint8, qscheme=per_channel_affine_float_qparams, ch_axis=0
)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(
    dtype=dtypes.quint4x2, qscheme=per_channel_affine_float_qparams, ch_axis=0
)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(scale=2.0 / 256.0, zero_point=128)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(scale=1.0 / 256.0, zero_point=0)

default_qconfig = QConfig(default_observer, default_weight_observer)
default_debug_qconfig = QConfig(default_debug_observer, default_weight_observer)
default_per_channel_qconfig = QConfig(default_observer, default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
per_channel_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_per_channel_weight_observer)
float16_dynamic_qconfig = QConfig(PlaceholderObserver.with_args(dtype=dtypes.float16, is_dynamic=True),
                                  PlaceholderObserver.with_args(dtype=dtypes.float16))  # fmt: skip
float16_static_qconfig = QConfig(PlaceholderObserver.with_args(dtype=dtypes.float16),
                                 PlaceholderObserver.with_args(dtype=dtypes.float16))  # fmt: skip
float_qparams_weight_only_qconfig = QConfig(default_placeholder_observer, default_float_qparams_observer)
float_qparams_weight_only_qconfig_4bit = QConfig(default_placeholder_observer, default_float_qparams_observer_4bit)
default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)
default_qat_qconfig_v2 = QConfig(default_fused_act_fake_quant, default_fused_wt_fake_quant)
default_dynamic_qat_qconfig = QConfig(default_dynamic_fake_quant, default_weight_fake_quant)
default_weight_only_qconfig = QConfig(Identity, default_weight_fake_quant)
default_activation_only_qconfig = QConfig(default_fake_quant, Identity)
default_embedding_qat_qconfig = QConfig(NoopObserver.with_args(dtype=dtypes.float32), default_embedding_fake_quant)
default_reuse_input_qconfig = QConfig(default_reuse_input_observer, NoopObserver)
default_symmetric_qnnpack_qconfig = QConfig(HistogramObserver.with_args(dtype=dtypes.qint8, eps=2**-12),
                                            weight_observer_range_neg_127_to_127)  # fmt: skip
default_per_channel_symmetric_qnnpack_qconfig = QConfig(HistogramObserver.with_args(dtype=dtypes.qint8, eps=2**-12),
                                                        per_channel_weight_observer_range_neg_127_to_127)  # fmt: skip

_REDUCED = {"x86": True, "fbgemm": True, "onednn": False, "qnnpack": False}


def _reduced(backend: str) -> bool:
    if backend not in _REDUCED:
        raise AssertionError(text(f"backend: {backend} not supported. backend must be one of {list(_REDUCED)}",
                                  op="get_default_qconfig", remedy='"x86"'))  # fmt: skip
    return _REDUCED[backend]


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """Return what PyTorch watches with for a backend: histograms of results, and weights by their channels.

    >>> import core
    >>> core.ao.quantization.get_default_qconfig("x86").activation().quant_max
    127
    """
    if version != 0:
        raise AssertionError(f"Version number: {version} in get_default_qconfig is not supported. "
                             "Version number must be 0")  # fmt: skip
    weight = default_weight_observer if backend == "qnnpack" else default_per_channel_weight_observer
    return QConfig(HistogramObserver.with_args(reduce_range=_reduced(backend)), weight)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """Return what PyTorch trains with for a backend: fake quantisers that follow moving averages.

    >>> import core
    >>> core.ao.quantization.get_default_qat_qconfig().weight().qscheme
    core.per_channel_symmetric
    """
    if version not in (0, 1):
        raise AssertionError(f"Version number: {version} in get_default_qat_qconfig is not supported. "
                             "Version number must be 0 or 1")  # fmt: skip
    kind: Any = FusedMovingAvgObsFakeQuantize if version else FakeQuantize
    activation = kind.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255,
                                reduce_range=_reduced(backend))  # fmt: skip
    whole, channels = (default_weight_fake_quant, default_per_channel_weight_fake_quant)
    if version:
        whole, channels = default_fused_wt_fake_quant, default_fused_per_channel_wt_fake_quant
    return QConfig(activation, whole if backend == "qnnpack" else channels)


def qconfig_equals(q1: QConfigAny, q2: QConfigAny) -> bool:
    """Return whether two qconfigs make the same: the same classes with the same arguments."""
    if q1 is None or q2 is None:
        return q1 is q2
    return all(_same(a, b) for a, b in zip(q1, q2, strict=True))


def _same(a: Any, b: Any) -> bool:
    p, q = getattr(a, "p", None), getattr(b, "p", None)
    if p is None or q is None:
        return a is b
    return p is q or (p.func is q.func and p.keywords == q.keywords)
