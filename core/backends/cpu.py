"""The CPU's rows: op name -> C kernels. The elementwise ones are printed from the declarations when the package is built."""

from __future__ import annotations

from .. import native
from ..device import Kind
from ..expr import Program
from . import Kernel, Row

name = "C"

_CHAR = {"float32": "f", "float64": "d", "bool": "?"}


def map(program: Program, kind: Kind) -> Kernel | str:
    """The printed kernel of a program, or why there is none."""
    if native.module is None:
        return native.reason
    char = _CHAR.get(kind.dtype.name)
    if char is None or (char == "?" and "number" in program.kinds):
        return f"takes float32 and float64, got {kind.dtype.name}"
    found = native.module.maps.get((program.name, char))
    if found is None:
        return "declared after the extension was built; pip install -e . prints its kernel"
    return Kernel(found, f"{program.name}_{'f32' if char == 'f' else 'f64' if char == 'd' else 'bool'}", name)


def rows(name: str) -> tuple[Row, ...]:
    """The structured kernels that serve `name`."""
    return ()


def absent(name: str) -> str:
    """Why there is no row for `name` at all."""
    return native.reason or "no C kernel is written for this op"
