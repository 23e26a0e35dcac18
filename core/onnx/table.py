"""The table of ONNX's ops: a function each, in core's ops, so that gradients flow through a loaded model.

A row is called with the `Call` (what the node says beside its inputs), the inputs in the node's order (None for one
that is left out) and the attributes by name; it returns a tensor, or a tuple where the node has several results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ..base import dtypes
from ..base.errors import text
from ..nn import functional
from ..tensors.tensor import Tensor, from_array

t: Any = sys.modules[__name__.partition(".")[0]]  # core: its public functions
F: Any = functional

ROWS: dict[str, Callable[..., Any]] = {}

DTYPES = {1: dtypes.float32, 2: dtypes.uint8, 3: dtypes.int8, 5: dtypes.int16, 6: dtypes.int32, 7: dtypes.int64,
          9: dtypes.bool_, 10: dtypes.float16, 11: dtypes.float64, 16: dtypes.bfloat16}  # fmt: skip
"""TensorProto.DataType -> dtype."""

FOREIGN: dict[int, Any] = {
    4: np.uint16, 12: np.uint32, 13: np.uint64, 17: ml_dtypes.float8_e4m3fn, 18: ml_dtypes.float8_e4m3fnuz,
    19: ml_dtypes.float8_e5m2, 20: ml_dtypes.float8_e5m2fnuz, 21: ml_dtypes.uint4, 22: ml_dtypes.int4,
}  # fmt: skip
"""Data types that core has not: values of theirs are NumPy arrays, which few ops take (Cast, QuantizeLinear ...)."""
FOREIGN |= {number: getattr(ml_dtypes, name) for number, name in
            [(23, "float4_e2m1fn"), (24, "float8_e8m0fnu"), (25, "uint2"), (26, "int2")]
            if hasattr(ml_dtypes, name)}  # fmt: skip


class OnnxError(RuntimeError):
    """A model that core.onnx cannot read or run, with the node and the reason."""


class Call(NamedTuple):
    """What a node says beside its inputs and attributes.

    op : its type. version : the opset of its domain. outputs : how many results it has. run : runs a graph of its
    attributes on inputs, seeing the values around it.
    """

    op: str
    version: int
    outputs: int
    run: Callable[..., tuple[Any, ...]]

    def refused(self, what: str, remedy: str = "") -> OnnxError:
        """Return the error for a form of an op that is not run."""
        return OnnxError(text(f"{self.op}: {what}", op=self.op, remedy=remedy))


def row(*ops: str, foreign: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Note a function as the row of these ops; `foreign` where it takes NumPy arrays of dtypes that core has not."""

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        for op in ops:
            ROWS[op] = function
        if foreign:
            TAKE_FOREIGN.add(function)
        return function

    return note


TAKE_FOREIGN: set[Callable[..., Any]] = set()


def ints(x: Any) -> list[int]:
    """Return the numbers of a tensor of integers: a shape, axes, pads."""
    return [int(v) for v in np.asarray(x._a if isinstance(x, Tensor) else x).reshape(-1).tolist()]


def number(x: Any) -> Any:
    """Return the one number of a tensor."""
    return np.asarray(x._a if isinstance(x, Tensor) else x).reshape(-1)[0].item()


def axes_of(axes: Any, given: Any, rank: int) -> list[int] | None:
    """Return axes, from an attribute in older opsets and from an input in newer ones, counted from the front."""
    found = given if axes is None else ints(axes)
    return None if found is None else [a % rank if rank else 0 for a in found]


def constant(x: Any, dtype: Any, like: Any = None) -> Any:
    """Return a tensor of numbers of this dtype, on the device of `like`."""
    made = from_array(np.array(x).astype(dtype.numpy))
    return made if like is None or like.device.type == "cpu" else made.to(like.device)


def of_array(a: Any) -> Any:
    """Return an array as a tensor, or as it is where core has not its dtype."""
    a = np.asarray(a)
    if any(a.dtype == d.numpy for d in DTYPES.values()):
        return from_array(np.array(a, order="C"))
    return a


def as_array(x: Any) -> Any:
    """Return a value as a NumPy array."""
    return np.asarray(x.detach().cpu()._a) if isinstance(x, Tensor) else x


def pairs(numbers: Sequence[int]) -> list[int]:
    """Return ONNX's pads (all starts, then all ends) as F.pad takes them, from the last dimension on."""
    n = len(numbers) // 2
    return [v for i in reversed(range(n)) for v in (numbers[i], numbers[n + i])]
