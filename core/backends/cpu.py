"""The CPU's rows: op name -> C kernels. The elementwise ones are printed from the declarations when the package is built."""

from __future__ import annotations

from ..device import Kind
from ..expr import Program
from . import Kernel, Row

name = "C"


def map(program: Program, kind: Kind) -> Kernel | str:
    """The printed kernel of a program, or why there is none."""
    return "the C extension has no kernels yet"


def rows(name: str) -> tuple[Row, ...]:
    """The structured kernels that serve `name`."""
    return ()


def absent(name: str) -> str:
    """Why there is no row for `name` at all."""
    return "no C kernel is written for this op"
