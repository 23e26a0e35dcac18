"""Automatic differentiation: `backward`, `grad`, grad modes, custom functions, gradient checks."""

from __future__ import annotations

from ..base.modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from . import anomaly, functional, graph, stopping
from .anomaly import detect_anomaly, set_detect_anomaly
from .function import Function, once_differentiable
from .gradcheck import gradcheck, gradgradcheck
from .gradients import backward, grad
from .variable import Variable

__all__ = ["Function", "Variable", "backward", "detect_anomaly", "enable_grad", "functional", "grad", "gradcheck",
           "gradgradcheck", "graph", "inference_mode", "is_grad_enabled", "no_grad", "once_differentiable",
           "set_detect_anomaly", "set_grad_enabled"]  # fmt: skip
