"""Models in fewer bits: `quantize_` with torchao's configs, and PyTorch's eager flow of `prepare` and `convert`.

Layers that were quantised take and give floating numbers and hold whole ones inside: there are no tensors of int8 here
that know their scale. So ``qint8`` and ``quint8`` are names of ranges, `QuantStub` rounds and `DeQuantStub` passes, and
each layer rounds its own inputs, to steps that were watched at its entrance.

>>> import core
>>> q = core.ao.quantization
>>> model = q.QuantWrapper(core.nn.Sequential(core.nn.Linear(4, 8), core.nn.ReLU(), core.nn.Linear(8, 2))).eval()
>>> model.qconfig = q.get_default_qconfig("x86")
>>> prepared = q.prepare(model)
>>> for _ in range(4):
...     y = prepared(core.randn(16, 4))
>>> whole = q.convert(prepared)
>>> whole.module[0].weight_values.dtype
core.int8
"""

from __future__ import annotations

from ...base.absent import absent_names
from ...nn.quantized import DeQuantStub, QuantStub
from . import apply, configs, eager, fake_quantize, fusing, gptq, histogram, observer, qconfig, smoothing
from .apply import *  # noqa: F403
from .configs import *  # noqa: F403
from .eager import *  # noqa: F403
from .fake_quantize import *  # noqa: F403
from .fusing import *  # noqa: F403
from .gptq import *  # noqa: F403
from .histogram import *  # noqa: F403
from .observer import *  # noqa: F403
from .qconfig import *  # noqa: F403
from .smoothing import *  # noqa: F403

__all__ = ["DeQuantStub", "QuantStub"]
__all__ += apply.__all__
__all__ += configs.__all__
__all__ += eager.__all__
__all__ += fake_quantize.__all__
__all__ += fusing.__all__
__all__ += gptq.__all__
__all__ += histogram.__all__
__all__ += observer.__all__
__all__ += qconfig.__all__
__all__ += smoothing.__all__

__getattr__ = absent_names(__name__, "quantize_, prepare and convert, or run this part on PyTorch")
