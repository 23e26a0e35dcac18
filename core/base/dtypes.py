"""Data types, their categories, and PyTorch's rules for mixing them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .errors import text


class dtype:
    """A data type: ``core.float32``. Its NumPy twin is `.numpy`.

    >>> import core
    >>> core.float32, core.float32.itemsize, core.int64.is_floating_point
    (core.float32, 4, False)
    """

    __slots__ = ("category", "itemsize", "moved", "name", "numpy")

    def __init__(self, name: str, numpy: Any, category: int) -> None:
        self.name, self.numpy, self.category = name, np.dtype(numpy), category
        self.itemsize = self.numpy.itemsize
        self.moved = name.startswith("float8")  # nothing is computed in it: it is stored, cast and moved

    @property
    def is_floating_point(self) -> bool:
        return self.category == 2

    @property
    def is_complex(self) -> bool:
        return self.category == 3

    @property
    def is_signed(self) -> bool:
        return self.name != "bool" and not self.name.startswith("uint")

    def to_real(self) -> dtype:
        """Return the dtype of the real parts; a real dtype is its own."""
        return _BY_NAME[{"complex64": "float32", "complex128": "float64"}.get(self.name, self.name)]

    def to_complex(self) -> dtype:
        """Return the complex dtype of such parts: complex64, of float64 complex128."""
        return complex128 if self.name in ("float64", "complex128") else complex64

    @property
    def scalar_type(self) -> str:
        """PyTorch's name of it in error messages: Float, Long, ..."""
        return _SCALAR_TYPES[self.name][0]

    @property
    def c_type(self) -> str:
        """PyTorch's other name of it in error messages: float, long int, ..."""
        return _SCALAR_TYPES[self.name][1]

    def __repr__(self) -> str:
        return f"core.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (named, (self.name,))


class _Name(dtype):
    """A dtype that no tensor has."""

    __slots__ = ()

    def __init__(self, name: str, itemsize: int, category: int) -> None:
        self.name, self.itemsize, self.category = name, itemsize, category

    @property
    def numpy(self) -> Any:  # type: ignore[override]
        raise RuntimeError(f"there are no tensors of {self} here\n  came: dtype={self}; remedy: another dtype")


# categories: 0 boolean, 1 integer, 2 floating, 3 complex
bool_ = dtype("bool", np.bool_, 0)
uint8, int8, int16, int32, int64 = (dtype(n, n, 1) for n in ("uint8", "int8", "int16", "int32", "int64"))
float16, float32, float64 = (dtype(n, n, 2) for n in ("float16", "float32", "float64"))
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16, 2)
complex64, complex128 = (dtype(n, n, 3) for n in ("complex64", "complex128"))
# what is there to be stored, cast and moved: no dtype of several, and of float8 no arithmetic (NO_ARITHMETIC)
uint16, uint32, uint64 = (dtype(n, n, 1) for n in ("uint16", "uint32", "uint64"))
float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz = NO_ARITHMETIC = tuple(
    dtype(n, getattr(ml_dtypes, n), 2) for n in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
)
stored_dtypes = (uint16, uint32, uint64, *NO_ARITHMETIC)
all_dtypes = (bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128)
# PyTorch's others, which programs compare with and list; no tensor here has one
complex32 = _Name("complex32", 4, 3)
qint8, quint8, qint32, quint4x2, quint2x4 = (
    _Name(n, size, 1) for n, size in (("qint8", 1), ("quint8", 1), ("qint32", 4), ("quint4x2", 1), ("quint2x4", 1))
)
int1, int2, int3, int4, int5, int6, int7 = (_Name(f"int{n}", 1, 1) for n in range(1, 8))
uint1, uint2, uint3, uint4, uint5, uint6, uint7 = (_Name(f"uint{n}", 1, 1) for n in range(1, 8))
float8_e8m0fnu, float4_e2m1fn_x2 = _Name("float8_e8m0fnu", 1, 2), _Name("float4_e2m1fn_x2", 1, 2)
absent_dtypes = (
    complex32, qint8, quint8, qint32, quint4x2, quint2x4, int1, int2, int3, int4, int5, int6, int7,
    uint1, uint2, uint3, uint4, uint5, uint6, uint7, float8_e8m0fnu, float4_e2m1fn_x2,
)  # fmt: skip
_SCALAR_TYPES = {
    **{d.name: (d.name, d.name) for d in absent_dtypes}, "complex32": ("ComplexHalf", "c10::complex<c10::Half>"),
    "bool": ("Bool", "bool"), "uint8": ("Byte", "unsigned char"), "int8": ("Char", "signed char"),
    "int16": ("Short", "short int"), "int32": ("Int", "int"), "int64": ("Long", "long int"),
    "float16": ("Half", "c10::Half"), "bfloat16": ("BFloat16", "c10::BFloat16"), "float32": ("Float", "float"),
    "float64": ("Double", "double"), "complex64": ("ComplexFloat", "c10::complex<float>"),
    "complex128": ("ComplexDouble", "c10::complex<double>"),
    **{f"uint{n}": (f"UInt{n}", f"uint{n}_t") for n in (16, 32, 64)},
    **{d.name: (d.name.capitalize(), f"c10::{d.name.capitalize()}") for d in NO_ARITHMETIC},
}  # fmt: skip
_FROM_NUMPY = {d.numpy: d for d in (*all_dtypes, *stored_dtypes)}
_BY_NAME = {d.name: d for d in (*all_dtypes, *stored_dtypes, *absent_dtypes)}

_default = float32


def named(name: str) -> dtype:
    """Return the dtype of that name."""
    return _BY_NAME[name]


def from_numpy(d: Any) -> dtype:
    """Return the dtype of a NumPy dtype; TypeError where there is none."""
    found = _FROM_NUMPY.get(np.dtype(d).newbyteorder("="))
    if found is None:
        known = ", ".join(x.name for x in (*all_dtypes, *stored_dtypes))
        raise TypeError(f"can't convert an array of dtype {np.dtype(d)} to a tensor: the supported types are {known}")
    return found


def get_default_dtype() -> dtype:
    """Return the dtype of floating-point tensors made from Python numbers (float32 unless set)."""
    return _default


def set_default_dtype(d: dtype) -> None:
    """Set the default floating-point dtype: float16, bfloat16, float32 or float64."""
    global _default
    if not isinstance(d, dtype) or not d.is_floating_point or d in NO_ARITHMETIC:
        raise TypeError(f"only floating-point types are supported as the default type, got {d!r}")
    _default = d


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """Return the smallest dtype that holds both, as PyTorch has it: a higher category wins whole.

    >>> promote_types(int64, float32), promote_types(uint8, int8), promote_types(float16, bfloat16)
    (core.float32, core.int16, core.float32)
    """
    a, b = type1, type2
    if a is b:
        return a
    _need_promotion(a, b)
    if a.category != b.category:
        high, low = (a, b) if a.category > b.category else (b, a)
        if high.category == 3 and low is float64:
            return complex128
        return high
    if bfloat16 in (a, b):
        other = b if a is bfloat16 else a
        return float32 if other is float16 else other
    return _FROM_NUMPY[np.promote_types(a.numpy, b.numpy)]


def _need_promotion(a: dtype, b: dtype) -> None:
    """Raise RuntimeError for two dtypes of which one is there to be stored: PyTorch defines no common one."""
    for family, name in ((NO_ARITHMETIC, "Float8 Types"), (stored_dtypes, "uint16, uint32, uint64 types")):
        if (a in family or b in family) and not (family is stored_dtypes and 2 in (a.category, b.category)):
            raise RuntimeError(
                text(f"Promotion for {name} is not supported, attempted to promote {a.scalar_type} and {b.scalar_type}",
                     remedy=f"x.to({(b if a in family else a)!r}), or another dtype that holds both"))  # fmt: skip


def of_number(x: Any) -> dtype:
    """Return the dtype that a Python number stands for."""
    if isinstance(x, bool | np.bool_):
        return bool_
    if isinstance(x, int | np.integer):
        return int64
    if isinstance(x, float | np.floating):
        return _default
    if isinstance(x, complex | np.complexfloating):
        return complex128 if _default is float64 else complex64
    raise TypeError(f"expected a number, got {type(x).__name__}")


def result_type(dimmed: list[dtype], zero_dim: list[dtype], numbers: list[dtype]) -> dtype:
    """PyTorch's promotion: tensors with dimensions decide before 0-d tensors, these before Python numbers;
    the latter count only where their category is higher."""
    result: dtype | None = None
    for group in (dimmed, zero_dim, numbers):
        if not group:
            continue
        low = group[0]
        for d in group[1:]:
            low = promote_types(low, d)
        if result is None:
            result = low
        elif low.category > result.category:
            if low.category == 3 and result.category == 2:
                result = complex128 if result is float64 else complex64
            else:
                result = promote_types(result, low)
    assert result is not None
    return result
