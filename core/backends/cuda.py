"""The rows of the device `cuda`: op name -> Triton kernels. Arrays are CuPy's, or NumPy's under Triton's interpreter."""

from __future__ import annotations

from typing import Any

from ..device import Kind, device as Device
from ..expr import Program
from . import Kernel, Row

name = "Triton"


def array_library() -> Any:
    """NumPy under the interpreter, CuPy on a GPU."""
    import numpy as np

    return np


def check(where: Device) -> Device:
    """`where` with its index, if it is there."""
    raise RuntimeError("no cuda yet")


def map(program: Program, kind: Kind) -> Kernel | str:
    """The Triton kernel of a program, or why there is none."""
    return "no kernels yet"


def rows(name: str) -> tuple[Row, ...]:
    return ()


def absent(name: str) -> str:
    return "no Triton kernel is written for this op"
