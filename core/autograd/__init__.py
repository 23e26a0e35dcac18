"""Automatic differentiation: `backward`, `grad`, grad modes, custom functions, gradient checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.lazy_import import lazy_attributes
from ..base.modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from . import anomaly, graph, stopping
from .anomaly import detect_anomaly, set_detect_anomaly
from .function import Function, once_differentiable
from .gradcheck import gradcheck, gradgradcheck
from .gradients import backward, grad
from .variable import Variable, _is_checkpoint_valid

__all__ = ["Function", "Variable", "backward", "detect_anomaly", "enable_grad", "forward_ad", "functional", "grad",
           "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_grad_enabled", "no_grad", "once_differentiable",
           "profiler", "set_detect_anomaly", "set_grad_enabled"]  # fmt: skip

if TYPE_CHECKING:
    from . import forward_ad, functional, profiler
else:  # what not every program uses is imported when it is asked for
    __getattr__, __dir__ = lazy_attributes(__name__, {
        "forward_ad": "", "functional": "", "profiler": "", "ProfilerActivity": ".profiler"})  # fmt: skip
