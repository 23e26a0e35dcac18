"""The rows of the device `cuda`: op name -> Triton kernels. Arrays are CuPy's; NumPy's under Triton's interpreter.

A file an op family; the elementwise kernels are printed from the declarations.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.device import device as Device
from ...base.lazy_import import lazy_attributes
from ...base.shadowing import hidden
from .. import DeviceBackend, Kernel, Row, add
from ..reference import Reference
from . import faults, matmul
from .devices import count as device_count
from .devices import current, guarded, make_current, on
from .fallback import CupyReference, as_observed
from .maps import map, map_joint
from .memory import following, made
from .shared import array_library, availability, name, retell
from .transfer import copied

__all__ = ["FAMILIES", "absent", "array_library", "availability", "check", "device_count", "is_built", "map",
           "map_joint", "name", "rows", "table"]  # fmt: skip

# the files of rows; an op's are tried in this order
FAMILIES = ("reduce", "softmax", "matmul", "quantised", "attention", "loss", "indexing", "norm", "conv", "sort", "pool",
            "scan", "dropout", "recurrent")  # fmt: skip


if TYPE_CHECKING:
    from . import indexing
else:
    __getattr__ = lazy_attributes(__name__, {
        **dict.fromkeys(FAMILIES, ""),
        **dict.fromkeys(["SDPAParams", "can_use_flash_attention", "sdp_kernel"], "..nn.attention.older"),
    })[0]  # fmt: skip


@cache
def table() -> dict[str, tuple[Row, ...]]:
    """Return the rows of every op. Their files are imported by the first op on the device: most programs have none."""
    found: dict[str, tuple[Row, ...]] = {}
    families = [importlib.import_module(f".{family}", __name__) for family in FAMILIES]
    for named in (*(family.ROWS for family in families), indexing.SUMS):
        for op, row in named.items():
            found[op] = (*found.get(op, ()), row)
    return found


def is_built() -> bool:
    """Return whether there are kernels for a GPU: where triton can be imported, GPU or not."""
    if hidden("triton_kernels"):
        return False
    import triton_kernels

    return triton_kernels.availability().importable


def check(where: Device) -> Device:
    """`where` with its index; RuntimeError with the reason if it is not there."""
    there, reason = availability()
    if not there:
        raise RuntimeError(
            f"No CUDA GPUs are available\n  came: device {str(where)!r}; reason: {reason}; "
            "remedy: use the device 'cpu', or set TRITON_INTERPRET=1 to interpret the kernels"
        )
    index = current() if where.index is None else where.index
    if index >= device_count():
        raise RuntimeError(f"CUDA error: invalid device ordinal\n  came: {where}; devices there are: {device_count()}")
    return Device("cuda", index)


def rows(name: str) -> tuple[Row, ...]:
    """Return the structured kernels that serve `name`."""
    return table().get(name, ()) if availability()[0] else ()


def absent(name: str) -> str:
    """Why there is no row for `name` at all."""
    there, reason = availability()
    return "no Triton kernel is written for this op" if there else reason


def _kernels() -> tuple[Any, ...]:
    xp = array_library()
    reference = Reference("NumPy", np) if xp is np else CupyReference("CuPy", xp)
    return sys.modules[__name__], reference


class _Cuda(DeviceBackend):
    """GPUs, or Triton's interpreter in place of one."""

    def check(self, where: Device) -> Device:
        return check(where)

    def current(self) -> Device:
        return Device("cuda", current())

    def make_current(self, where: Device) -> None:
        make_current(where.index)  # type: ignore[arg-type]

    def on_device(self, run: Callable[..., Any], where: Device) -> Callable[..., Any]:
        return guarded(run, where)  # type: ignore[no-any-return]

    def with_our_errors(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Under the interpreter its results are counted as well, as a GPU's memory is."""

        def telling(*arrays: Any, **params: Any) -> Any:
            try:
                return run(*arrays, **params)
            except RuntimeError as error:
                retell(error)

        return following(telling)

    def as_observed(self, kernel: Kernel) -> Kernel:
        return as_observed(kernel)

    def allocated(self, where: Device, make: Callable[[Any], Any]) -> Any:
        try:
            with on(where):
                return made(make(array_library()))
        except RuntimeError as error:
            retell(error)

    def read(self, fetch: Callable[[], Any]) -> Any:
        try:
            value = fetch()
        except RuntimeError as error:
            retell(error)
        faults.waited()
        return value

    def copied(self, x: Any, to: Device, origin: Device, non_blocking: bool) -> Any:
        return copied(x, to, origin, non_blocking)


add(_Cuda("cuda", _kernels))
