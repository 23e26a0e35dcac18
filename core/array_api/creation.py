"""Arrays made of shapes, numbers and other arrays, by the array API standard's signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base import dtypes
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..dispatch.publish import namespaces
from ..ops import conversion, creation
from ..tensors.tensor import Tensor

_f = namespaces[""]


def asarray(obj: Any, /, *, dtype: Dtype | None = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return an array of what a number, nested sequences, or an object with a buffer, ``__array_interface__`` or
    ``__dlpack__`` holds; of an array the array itself, if nothing has to change.

    *Raises*: ValueError where `copy` is False and a copy is needed.

    >>> import core.array_api as xp
    >>> xp.asarray([[1, 2], [3, 4]], dtype=xp.float64)
    tensor([[1., 2.],
            [3., 4.]], dtype=core.float64)
    """
    return conversion.asarray(obj, dtype=dtype, device=device, copy=copy)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return an array over the memory of an object with ``__dlpack__``, or a copy of it, on `device`.

    >>> import core.array_api as xp
    >>> xp.from_dlpack(xp.ones(2))
    tensor([1., 1.])
    """
    return _f["from_dlpack"](x, device=device, copy=copy)  # type: ignore[no-any-return]


def arange(start: float, /, stop: float | None = None, step: float = 1, *, dtype: Dtype | None = None,
           device: Any = None) -> Tensor:  # fmt: skip
    """Return the numbers from `start` (0 if it is alone) to before `stop` by steps; none where they lead away.

    >>> import core.array_api as xp
    >>> xp.arange(3), xp.arange(5, 2, 1).shape
    (tensor([0, 1, 2]), core.Size([0]))
    """
    start, stop = (0, start) if stop is None else (start, stop)
    if dtype is None and all(isinstance(n, int) for n in (start, stop, step)):
        dtype = dtypes.int64
    elif dtype is None:
        dtype = dtypes.get_default_dtype()
    if step and (stop - start) / step < 0:
        stop = start
    return creation.arange(start, stop, step, dtype=dtype, device=device)


def _size(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _filled(name: str) -> Callable[..., Tensor]:
    make = getattr(creation, name)

    def function(shape: int | tuple[int, ...], *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
        return make(_size(shape), dtype=dtype, device=device)  # type: ignore[no-any-return]

    return named(function, name)


def _filled_like(name: str) -> Callable[..., Tensor]:
    make = getattr(creation, name)

    def function(x: Tensor, /, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
        return make(x, dtype=dtype, device=device)  # type: ignore[no-any-return]

    return named(function, name)


def named(function: Callable[..., Any], name: str, op: str = "") -> Callable[..., Any]:
    """Return a function that was printed for `name`, with the name and a docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return what ``core.{op or name}`` gives, by the standard's signature and promotion."
    return function


empty, ones, zeros = map(_filled, ("empty", "ones", "zeros"))
empty_like, ones_like, zeros_like = map(_filled_like, ("empty_like", "ones_like", "zeros_like"))


def full(shape: int | tuple[int, ...], fill_value: complex, *, dtype: Dtype | None = None,
         device: Any = None) -> Tensor:  # fmt: skip
    """Return an array filled with a number.

    >>> import core.array_api as xp
    >>> xp.full(2, 7)
    tensor([7, 7])
    """
    return creation.full(_size(shape), fill_value, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: complex, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return an array of the shape of `x`, and of its dtype if none is given, filled with a number.

    >>> import core.array_api as xp
    >>> xp.full_like(xp.ones(2), 7)
    tensor([7., 7.])
    """
    return creation.full_like(x, fill_value, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Dtype | None = None,
        device: Any = None) -> Tensor:  # fmt: skip
    """Return a matrix with ones on its diagonal number `k` and zeros elsewhere.

    >>> import core.array_api as xp
    >>> xp.eye(2, 3, k=1)
    tensor([[0., 1., 0.],
            [0., 0., 1.]])
    """
    n_cols = n_rows if n_cols is None else n_cols
    if not k:
        return creation.eye(n_rows, n_cols, dtype=dtype, device=device)
    k = max(-n_rows, min(k, n_cols))  # beyond, there are zeros alone
    rows = creation.arange(n_rows, device=device).unsqueeze(1)  # type: ignore[attr-defined]
    ones = rows + k == creation.arange(n_cols, device=device)
    return ones.to(dtypes.get_default_dtype() if dtype is None else dtype)  # type: ignore[no-any-return]


def linspace(start: complex, stop: complex, /, num: int, *, dtype: Dtype | None = None, device: Any = None,
             endpoint: bool = True) -> Tensor:  # fmt: skip
    """Return `num` numbers at equal distances from `start` to `stop`, which is left out if not `endpoint`.

    >>> import core.array_api as xp
    >>> xp.linspace(0, 1, 4, endpoint=False)
    tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    if isinstance(start, complex) or isinstance(stop, complex):
        kind = dtypes.of_number(1j) if dtype is None else dtype
        real, imag = (
            linspace(a, b, num, dtype=kind.to_real(), device=device, endpoint=endpoint)
            for a, b in ((complex(start).real, complex(stop).real), (complex(start).imag, complex(stop).imag))
        )
        return _f["complex"](real, imag)  # type: ignore[no-any-return]
    if endpoint or not num:
        return creation.linspace(start, stop, num, dtype=dtype, device=device)
    return creation.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]  # type: ignore[no-any-return]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Return coordinate matrices of coordinate vectors: of shape (len(second), len(first), ...) for "xy".

    >>> import core.array_api as xp
    >>> xp.meshgrid(xp.arange(2), xp.arange(3))[0].shape
    core.Size([3, 2])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(text(f"indexing must be 'xy' or 'ij', not {indexing!r}", op="meshgrid"))
    return list(_f["meshgrid"](*arrays, indexing=indexing)) if arrays else []


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return matrices with zeros above diagonal number `k`.

    >>> import core.array_api as xp
    >>> xp.tril(xp.ones((2, 2)))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return _f["tril"](x, k)  # type: ignore[no-any-return]


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return matrices with zeros below diagonal number `k`.

    >>> import core.array_api as xp
    >>> xp.triu(xp.ones((2, 2)))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return _f["triu"](x, k)  # type: ignore[no-any-return]
