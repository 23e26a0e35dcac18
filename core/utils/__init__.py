"""PyTorch's ``utils``: data loading, checkpoints of activations; and runs that can be killed and go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.lazy_import import lazy_attributes
from . import checkpoint, data
from .resumable import Resumable

__all__ = [
    "Resumable",
    "checkpoint",
    "cpp_extension",
    "data",
    "dlpack",
    "flop_counter",
    "hooks",
    "model_zoo",
    "swap_tensors",
]

if TYPE_CHECKING:
    from . import cpp_extension, dlpack, flop_counter, hooks, model_zoo
    from .swapping import swap_tensors
else:  # what not every program uses is imported when it is asked for
    __getattr__, __dir__ = lazy_attributes(__name__, {"swap_tensors": "swapping"} | dict.fromkeys(
        ["_contextlib", "_python_dispatch", "_pytree", "cpp_extension", "dlpack", "flop_counter", "hooks", "weak",
         "benchmark", "model_zoo", "tensorboard"], ""))  # fmt: skip
