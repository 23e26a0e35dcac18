"""The kinds of arguments that public functions take: the small vocabulary in which their headers are written.

    def sum(input: Tensor, dim: Dims | None = None, keepdim: Flag = False, *, dtype: Dtype | None = None) -> Tensor

A kind is an alias that a type checker understands, and a name that `core.declare.signature` reads from the header: the
C reader of the arguments, the error for a wrong one, and the stubs of editors follow from it. Python's own `int`,
`bool`, `float` and `str` are the kinds Int, Flag, Number and Text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    from ..base.device import device
    from ..base.dtypes import dtype
    from ..ops.queries import layout, memory_format
    from ..rng.generator import Generator as _Generator
    from ..tensors.tensor import Tensor as _Tensor

Tensor: TypeAlias = "_Tensor"
Tensors: TypeAlias = "Sequence[_Tensor]"
Number: TypeAlias = "float | np.number"  # a real number; what stands for one bit more is a Scalar
Scalar: TypeAlias = "complex | np.number | np.bool_"  # any number, a truth and a complex one too
Operand: TypeAlias = "_Tensor | complex | np.number | np.bool_ | np.ndarray"  # of an elementwise op
Dim: TypeAlias = int  # one dimension, counted from the end where it is negative
Dims: TypeAlias = "int | Sequence[int]"  # one dimension or several
Int: TypeAlias = int
Ints: TypeAlias = "int | Sequence[int]"  # one number for all dimensions, or one each: a stride, a window
Flag: TypeAlias = bool
Size: TypeAlias = "int | Sequence[int]"  # of *size: f(2, 3) and f((2, 3))
Sizes: TypeAlias = "Sequence[int]"
Text: TypeAlias = str
Dtype: TypeAlias = "dtype | type[float] | type[complex]"
Device: TypeAlias = "device | str | int"
Generator: TypeAlias = "_Generator"
MemoryFormat: TypeAlias = "memory_format"
Layout: TypeAlias = "layout"
Data: TypeAlias = Any  # nested lists of numbers, arrays: whatever core.tensor reads
Index: TypeAlias = Any  # what stands in brackets
Function: TypeAlias = Callable[..., Any]


class Kind(NamedTuple):
    """What PyTorch's errors call a kind."""

    said: str


KINDS: dict[str, Kind] = {
    "Tensor": Kind("Tensor"),
    "Tensors": Kind("tuple of Tensors"),
    "Number": Kind("Number"),
    "Scalar": Kind("Number"),
    "Operand": Kind("Tensor"),
    "Dim": Kind("int"),
    "Dims": Kind("tuple of ints"),
    "Int": Kind("int"),
    "Ints": Kind("tuple of ints"),
    "Flag": Kind("bool"),
    "Size": Kind("tuple of ints"),
    "Sizes": Kind("tuple of ints"),
    "Text": Kind("str"),
    "Dtype": Kind("core.dtype"),
    "Device": Kind("core.device"),
    "Generator": Kind("Generator"),
    "MemoryFormat": Kind("core.memory_format"),
    "Layout": Kind("core.layout"),
    "Data": Kind("anything"),
    "Index": Kind("anything"),
    "Function": Kind("callable"),
    "Any": Kind("anything"),
}

# Python's own types, and other ways of writing a kind
SAME = {
    "int": "Int",
    "bool": "Flag",
    "float": "Number",
    "complex": "Scalar",
    "str": "Text",
    "Sequence[int]": "Sizes",
    "Sequence[Tensor]": "Tensors",
}
