"""PyTorch's names for tensors without values in a trace: nothing is one."""

from __future__ import annotations

import sys
from typing import Any

from .base.absent import absent_class
from .tensors.tensor import Tensor

__all__ = ["FakeTensor", "FakeTensorMode", "FunctionalTensor", "is_fake"]

fake_tensor = functional_tensor = meta_utils = sys.modules[__name__]  # PyTorch's files, whose names stand here
_META = "core.export captures a program from a call with values"
FakeTensor = absent_class("FakeTensor", __name__, "A tensor without values.", _META, Tensor)
FunctionalTensor = absent_class("FunctionalTensor", __name__, "A tensor that is not written to.", _META, Tensor)
FakeTensorMode = absent_class("FakeTensorMode", __name__, "A block of tensors without values.", _META)
MetaConverter = absent_class("MetaConverter", __name__, "What makes tensors without values.", _META)
UnsupportedFakeTensorException = type("UnsupportedFakeTensorException", (RuntimeError,), {"__doc__": "Never raised."})
DataDependentOutputException = type("DataDependentOutputException", (RuntimeError,), {"__doc__": "Never raised."})


def is_fake(x: Any) -> bool:
    """Return False: every tensor has its values."""
    return False


def mb_unwrap_functional_tensor(x: Any) -> Any:
    """Return a tensor as it is."""
    return x
