"""Modules, parameters, losses and initialisation, with PyTorch's names: ``core.nn``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.lazy_import import lazy_attributes
from . import functional, init, modules, parameter
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

if TYPE_CHECKING:
    from . import attention, parallel, utils
    from .modules import *  # noqa: F403 - the names are listed in modules.__all__
    from .modules.older import factory_kwargs

# asked of `modules` when somebody first asks for one: rarer layers are imported then
_LATE = {
    **dict.fromkeys(modules.__all__, "modules"),
    **dict.fromkeys(["attention", "parallel", "utils"], ""),
    **dict.fromkeys(["intrinsic", "qat"], ".ao.nn"),
    "factory_kwargs": "modules.older",
}
if not TYPE_CHECKING:  # a type checker would take any name for a good one
    __getattr__, __dir__ = lazy_attributes(__name__, _LATE)

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
