"""Modules, parameters, losses and initialisation, with PyTorch's names: ``core.nn``."""

from __future__ import annotations

from . import attention, functional, init, modules, parallel, parameter, utils
from .modules import *  # noqa: F403 - the names are listed in modules.__all__
from .modules.older import factory_kwargs
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "attention",
    "factory_kwargs",
    "functional",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
    *modules.__all__,
]
