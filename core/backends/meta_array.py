"""`MetaArray`: an array that has a shape, a dtype and strides, and no memory; and what NumPy's functions give of it.

Its elements lie at addresses that are set aside and never filled, so that views of it are NumPy's own, with their
strides. What would compute gives an array of the shape and the dtype of the result. An op's reference, run on such
arrays, is the op's shape rule: there is no second one.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..base.errors import text
from ..base.shape import broadcast_shapes

_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


class NoData(NotImplementedError):
    """Values were asked of what has none."""


def no_data(op: str = "item") -> NoData:
    """Return the error for what needs values."""
    if op in ("item", "bool"):
        return NoData(text("Tensor.item() cannot be called on meta tensors", op=op, came="a tensor without memory",
                           needed="values", remedy="module.to_empty(device='cpu'), then its weights"))  # fmt: skip
    return NoData(text(f"{op}: the shape of the result depends on values, and a meta tensor has none", op=op,
                       came="a tensor on the device meta", needed="a shape rule",
                       remedy="run it on device='cpu'"))  # fmt: skip


class _Room:
    """Addresses for all meta arrays. They are given out in turn, and again from the beginning when all were: nothing is
    ever kept there."""

    def __init__(self) -> None:
        self.size, self.at = 1 << 46, 0
        while True:
            try:
                self.memory = mmap.mmap(-1, self.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
                break
            except (OSError, ValueError, OverflowError):  # a limit on addresses
                self.size >>= 2

    def take(self, nbytes: int) -> int:
        if nbytes > self.size:
            raise RuntimeError(text("meta: a tensor is larger than all addresses", op="empty", came=f"{nbytes} bytes"))
        if self.at + nbytes > self.size:
            self.at = 0
        start, self.at = self.at, self.at + (nbytes + 63) // 64 * 64
        return start


@cache
def _room() -> _Room:
    return _Room()


def made(shape: Any, dtype: Any = float) -> MetaArray:
    """Return an array of that shape and dtype, in row-major order.

    >>> made((2, 3), np.float32).strides
    (12, 4)
    """
    shape = (int(shape),) if np.ndim(shape) == 0 else tuple(map(int, shape))
    dtype, room = np.dtype(dtype), _room()
    start = room.take(math.prod(shape) * dtype.itemsize)
    return np.ndarray.__new__(MetaArray, shape, dtype, room.memory, start)


def as_meta(a: Any) -> Any:
    """Return arrays as meta ones: the views that NumPy made of one, and new ones in place of others; the rest as it
    is."""
    if isinstance(a, MetaArray):
        return a
    if isinstance(a, tuple | list):
        return type(a)(map(as_meta, a)) if not hasattr(a, "_fields") else type(a)(*map(as_meta, a))
    if isinstance(a, np.ndarray):
        return a.view(MetaArray) if _is_meta(a) else made(a.shape, a.dtype)
    return made((), a.dtype) if isinstance(a, np.generic) else a


def _is_meta(a: np.ndarray[Any, Any]) -> bool:
    base: Any = a
    while isinstance(base, np.ndarray):
        if isinstance(base, MetaArray):
            return True
        base = base.base
    return False


def _dtype_of(run: Callable[..., Any], *operands: Any, **more: Any) -> Any:
    """Return the dtype of what NumPy gives of such operands, from arrays with one element of ones."""
    few = [np.ones((1,) * max(1, o.ndim), o.dtype) if isinstance(o, np.ndarray) else o for o in operands]
    found = run(*few, **more)
    return tuple(f.dtype for f in found) if isinstance(found, tuple) else found.dtype


def _shape_without(a: Any, axis: Any, keepdims: bool) -> tuple[int, ...]:
    axes = range(a.ndim) if axis is None else [axis] if np.ndim(axis) == 0 else axis
    gone = {np.lib.array_utils.normalize_axis_index(int(k), a.ndim) for k in axes}
    return tuple(1 if k in gone else n for k, n in enumerate(a.shape) if keepdims or k not in gone)


def _product_shape(a: Any, b: Any) -> tuple[int, ...]:
    """Return the shape of ``a @ b``."""
    left, right = a.shape, b.shape
    if not left or not right or left[-1] != right[-2 if len(right) > 1 else 0]:
        raise ValueError(f"matmul: shapes {left} and {right} do not go together")
    lead = broadcast_shapes(left[:-2], right[:-2], op="matmul")
    return (*lead, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


def _indexed(a: Any, index: Any) -> tuple[int, ...]:
    """Return the shape of ``a[index]`` where arrays are among the indices."""
    items = list(index) if isinstance(index, tuple) else [index]
    for k in items:
        if _is_boolean(k) and isinstance(k, MetaArray):
            raise no_data("index")
    full = [p for k in items for p in (np.nonzero(k) if _is_boolean(k) else [k])]
    taken = sum(1 for k in full if k is not None and k is not Ellipsis)
    at = next((n for n, k in enumerate(full) if k is Ellipsis), None)
    if at is None:
        full.append(Ellipsis)
        at = len(full) - 1
    full[at : at + 1] = [slice(None)] * (a.ndim - taken)
    arrays = [n for n, k in enumerate(full) if isinstance(k, np.ndarray | list | int | np.integer)]
    found = [np.shape(full[n]) for n in arrays]
    joint = broadcast_shapes(*found, op="index")
    together = arrays == list(range(arrays[0], arrays[0] + len(arrays)))
    out: list[int] = [] if together else list(joint)
    dim = 0
    for n, k in enumerate(full):
        if k is None:
            out.append(1)
            continue
        if isinstance(k, slice):
            out.append(len(range(*k.indices(a.shape[dim]))))
        elif together and n == arrays[0]:
            out.extend(joint)
        dim += 1
    return tuple(out)


def _is_boolean(k: Any) -> bool:
    return isinstance(k, np.ndarray) and k.dtype == bool


_Array: Any = np.ndarray  # whose methods are overloads, which these need not be


class MetaArray(_Array):  # type: ignore[misc]
    """A NumPy array whose elements are nowhere."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **more: Any) -> Any:
        given = [i if isinstance(i, MetaArray) or not isinstance(i, np.ndarray) else np.asarray(i) for i in inputs]
        more.pop("where", None)
        if method == "at":
            return None
        if out is not None:
            return out[0] if len(out) == 1 else out
        first = given[0]
        keep = {k: v for k, v in more.items() if k in ("dtype", "casting")}
        if method == "__call__":
            shapes = [np.shape(i) for i in given]
            shape = _product_shape(*given) if ufunc is np.matmul else broadcast_shapes(*shapes, op=ufunc.__name__)
            dtype = _dtype_of(ufunc, *given, **keep)
        elif method == "outer":
            shape, dtype = (*np.shape(given[0]), *np.shape(given[1])), _dtype_of(ufunc, *given, **keep)
        else:
            dtype = _dtype_of(ufunc.reduce, first, **keep)
            axis = more.get("axis", 0)
            shape = first.shape
            if method == "reduce":
                shape = _shape_without(first, axis, more.get("keepdims", False))
            elif method == "reduceat":
                shape = (*shape[:axis], len(given[1]), *shape[axis + 1 :])
        return tuple(made(shape, d) for d in dtype) if isinstance(dtype, tuple) else made(shape, dtype)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        below = (func.__module__ or "numpy").removeprefix("numpy").lstrip(".")
        rule = RULES.get(f"{below}.{func.__name__}" if below else func.__name__)
        if rule is not None:
            return rule(*args, **kwargs)
        if func.__name__ in COMPOSED and func.__module__ == "numpy":
            return as_meta(func._implementation(*args, **kwargs))
        raise no_data(func.__name__)

    def __getitem__(self, index: Any) -> Any:
        items = index if isinstance(index, tuple) else (index,)
        if any(isinstance(k, np.ndarray | list) for k in items):
            return made(_indexed(self, index), self.dtype)
        found = np.ndarray.__getitem__(self, index)
        return found if isinstance(found, np.ndarray) else made((), self.dtype)

    def __setitem__(self, index: Any, value: Any) -> None:
        pass

    def copy(self, order: Any = "C") -> Any:
        return made(self.shape, self.dtype)

    def __deepcopy__(self, memo: Any) -> Any:
        return made(self.shape, self.dtype)

    def astype(
        self, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        return self if not copy and np.dtype(dtype) == self.dtype else made(self.shape, dtype)

    def reshape(self, *shape: Any, order: Any = "C", **more: Any) -> Any:
        shape = shape[0] if len(shape) == 1 else shape
        try:
            return np.ndarray.reshape(self, shape, copy=False)
        except ValueError:
            return np.ndarray.reshape(made(self.shape, self.dtype), shape)  # which says it where sizes do not fit

    def ravel(self, order: Any = "C") -> Any:
        return self.reshape(-1)

    def flatten(self, order: Any = "C") -> Any:
        return made((self.size,), self.dtype)

    def fill(self, value: Any) -> None:
        pass

    def sort(self, axis: Any = -1, kind: Any = None, order: Any = None, **more: Any) -> None:
        pass

    partition = sort

    def argsort(self, axis: Any = -1, kind: Any = None, order: Any = None, **more: Any) -> Any:
        return made(self.size if axis is None else self.shape, np.int64)

    def argmax(self, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        return made(_shape_without(self, axis, keepdims), np.int64)

    argmin = argmax

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
        if axis is None:
            return made(np.shape(indices), self.dtype)
        axis %= self.ndim
        return made((*self.shape[:axis], *np.shape(indices), *self.shape[axis + 1 :]), self.dtype)

    def cumsum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        return made(self.size if axis is None else self.shape, dtype or _dtype_of(np.cumsum, self))

    cumprod = cumsum

    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        if np.ndim(repeats) or isinstance(repeats, MetaArray):
            raise no_data("repeat")
        a = self.reshape(-1) if axis is None else self
        axis = 0 if axis is None else axis % a.ndim
        return made((*a.shape[:axis], a.shape[axis] * int(repeats), *a.shape[axis + 1 :]), self.dtype)

    def round(self, decimals: int = 0, out: Any = None) -> Any:
        return made(self.shape, self.dtype)

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **more: Any) -> Any:
        return made(broadcast_shapes(self.shape, np.shape(min), np.shape(max)), self.dtype)

    def dot(self, b: Any, out: Any = None) -> Any:
        return _dot(self, b)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
        return self.diagonal(offset, axis1, axis2).sum(-1)

    def nonzero(self) -> Any:
        raise no_data("nonzero")

    def item(self, *where: Any) -> Any:
        raise no_data()

    def tolist(self) -> Any:
        raise no_data("tolist")

    def tobytes(self, order: Any = "C") -> Any:
        raise no_data("tobytes")

    def _no_number(self) -> Any:
        raise no_data()

    __bool__ = __int__ = __float__ = __index__ = __complex__ = _no_number


def _dot(a: Any, b: Any, out: Any = None) -> Any:
    dtype = _dtype_of(np.multiply, a, b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return made(broadcast_shapes(np.shape(a), np.shape(b)), dtype)
    if b.ndim < 3:
        return made((*a.shape[:-1], *b.shape[1:]), dtype)
    return made((*a.shape[:-1], *b.shape[:-2], b.shape[-1]), dtype)


def _joined(arrays: Any, axis: Any = 0, out: Any = None, dtype: Any = None, casting: Any = None) -> Any:
    arrays = list(arrays)
    axis = 0 if axis is None else axis % max(arrays[0].ndim, 1)
    sizes = [list(a.shape) for a in arrays]
    total = sum(s[axis] for s in sizes)
    if any(s[:axis] + s[axis + 1 :] != sizes[0][:axis] + sizes[0][axis + 1 :] for s in sizes):
        raise ValueError(f"cat: shapes {[tuple(s) for s in sizes]} differ beyond dimension {axis}")
    sizes[0][axis] = total
    return made(sizes[0], dtype or np.result_type(*[a.dtype for a in arrays]))


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None:
        raise no_data("nonzero")
    few = [np.ones(1, v.dtype) if isinstance(v, np.ndarray | np.generic) else v for v in (x, y)]
    return made(broadcast_shapes(*map(np.shape, (condition, x, y)), op="where"), np.where([True], *few).dtype)


def _einsum(equation: str, *operands: Any, out: Any = None, **more: Any) -> Any:
    few = [np.broadcast_to(np.ones((), o.dtype), (1,) * o.ndim) for o in operands]
    dtype = np.einsum(equation, *few).dtype
    left, arrow, right = equation.replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for term, o in zip(left.split(","), operands, strict=True):
        if "." in term:
            raise no_data("einsum")
        sizes.update({c: n for c, n in zip(term, o.shape, strict=True) if n != 1 or c not in sizes})
    if not arrow:
        right = "".join(sorted(c for c in sizes if left.count(c) == 1))
    return made([sizes[c] for c in right], dtype)


def _like(a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, **more: Any) -> Any:
    return made(a.shape if shape is None else shape, dtype or a.dtype)


def _full_like(a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None,
               **more: Any) -> Any:  # fmt: skip
    return _like(a, dtype, shape=shape)


def _lexsort(keys: Any, axis: int = -1) -> Any:
    return made(keys[0].shape, np.int64)


def _searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    return made(np.shape(v), np.int64)


def strided(x: Any, shape: Any = None, strides: Any = None, subok: bool = False, writeable: bool = True) -> Any:
    start = x.__array_interface__["data"][0] - made((), np.uint8).__array_interface__["data"][0] + _room().at - 64
    return np.ndarray.__new__(MetaArray, x.shape if shape is None else tuple(shape), x.dtype, _room().memory, start,
                              x.strides if strides is None else tuple(strides))  # fmt: skip


def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    shape = (shape,) if np.ndim(shape) == 0 else tuple(shape)
    if broadcast_shapes(array.shape, shape) != shape:
        raise ValueError(f"operands could not be broadcast together with remapped shapes {array.shape} and {shape}")
    lead = len(shape) - array.ndim
    strides = (0,) * lead + tuple(0 if n == 1 and shape[lead + k] != 1 else array.strides[k]
                                  for k, n in enumerate(array.shape))  # fmt: skip
    return strided(array, shape, strides)


def _nothing(*given: Any, **more: Any) -> None:
    return None


def _yes(*given: Any, **more: Any) -> bool:
    return False


def _square(a: Any) -> Any:
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise RuntimeError(f"linalg: A must be batches of square matrices, but they are {a.shape[-2:]}")
    return made(a.shape, a.dtype)


def _qr(a: Any, mode: str) -> Any:
    if mode == "raw":
        raise no_data("geqrf")
    m, n = a.shape[-2:]
    k = m if mode == "complete" else min(m, n)
    r = made((*a.shape[:-2], k, n), a.dtype)
    return r if mode == "r" else (made((*a.shape[:-2], m, k), a.dtype), r)


def _counted(x: Any, weights: Any, minlength: int) -> Any:
    """Return the counts as the ops in which their number is known ask for them."""
    if not minlength:
        raise no_data("bincount")
    return made(minlength, np.int64 if weights is None else np.float64)


def _resized(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    axis %= len(shape)
    return (*shape[:axis], size, *shape[axis + 1 :])


# what NumPy computes in C, or with the values in hand
RULES: dict[str, Callable[..., Any]] = {
    "concatenate": _joined, "where": _where, "dot": _dot, "einsum": _einsum, "lexsort": _lexsort, "copyto": _nothing,
    "putmask": _nothing, "place": _nothing, "put_along_axis": _nothing, "empty_like": _like, "zeros_like": _like,
    "ones_like": _like, "full_like": _full_like, "searchsorted": _searchsorted, "as_strided": strided,
    "broadcast_to": _broadcast_to, "shares_memory": _yes, "may_share_memory": _yes,
    "take_along_axis": lambda arr, indices, axis=-1: made(
        indices.shape if axis is None else broadcast_shapes(
            indices.shape, (*arr.shape[: axis % arr.ndim], 1, *arr.shape[axis % arr.ndim + 1 :])), arr.dtype),
    "inner": lambda a, b: _dot(a, np.swapaxes(b, -1, -2) if b.ndim > 1 else b),
    "vdot": lambda a, b: made((), np.result_type(a, b)),
    "ndim": lambda a: a.ndim, "shape": lambda a: a.shape, "size": lambda a, axis=None: a.size if axis is None else
    a.shape[axis], "result_type": lambda *a: np.result_type(*[x.dtype if isinstance(x, np.ndarray) else x for x in a]),
    "can_cast": lambda f, to, casting="safe": np.can_cast(f.dtype if hasattr(f, "dtype") else f, to, casting),
    "iscomplexobj": lambda x: x.dtype.kind == "c", "isrealobj": lambda x: x.dtype.kind != "c",
    "sort": lambda a, axis=-1, **more: made(a.size if axis is None else a.shape, a.dtype),
    "partition": lambda a, kth, axis=-1, **more: made(a.shape, a.dtype),
    "argpartition": lambda a, kth, axis=-1, **more: made(a.shape, np.int64),
    "copy": lambda a, order="K", subok=False: made(a.shape, a.dtype),
    "nan_to_num": lambda x, **more: made(x.shape, x.dtype),
    "isposinf": lambda x, out=None: made(x.shape, bool), "isneginf": lambda x, out=None: made(x.shape, bool),
    "isin": lambda element, among, **more: made(np.shape(element), bool),
    "bincount": lambda x, weights=None, minlength=0: _counted(x, weights, minlength),
    "linalg.cholesky": _square, "linalg.inv": _square, "linalg.det": lambda a: made(_square(a).shape[:-2], a.dtype),
    "linalg.slogdet": lambda a: (made(_square(a).shape[:-2], a.dtype), made(a.shape[:-2], a.real.dtype)),
    "linalg.solve": lambda a, b: made((*broadcast_shapes(_square(a).shape[:-2], b.shape[:-2]), *b.shape[-2:]),
                                      np.result_type(a, b)),
    "linalg.eigh": lambda a, UPLO="L": (made(_square(a).shape[:-1], a.real.dtype), made(a.shape, a.dtype)),
    "linalg.qr": lambda a, mode="reduced": _qr(a, mode),
    "fft.fftn": lambda a, s=None, axes=None, norm=None, out=None: made(a.shape, _dtype_of(np.fft.fft, a)),
    "fft.ifftn": lambda a, s=None, axes=None, norm=None, out=None: made(a.shape, _dtype_of(np.fft.fft, a)),
    "fft.fft": lambda a, n=None, axis=-1, norm=None, out=None: made(
        a.shape if n is None else _resized(a.shape, axis, n), _dtype_of(np.fft.fft, a)),
    "fft.ifft": lambda a, n=None, axis=-1, norm=None, out=None: made(
        a.shape if n is None else _resized(a.shape, axis, n), _dtype_of(np.fft.ifft, a)),
    "fft.rfft": lambda a, n=None, axis=-1, norm=None, out=None: made(
        _resized(a.shape, axis, (a.shape[axis] if n is None else n) // 2 + 1), _dtype_of(np.fft.rfft, a)),
    "fft.irfft": lambda a, n=None, axis=-1, norm=None, out=None: made(
        _resized(a.shape, axis, 2 * (a.shape[axis] - 1) if n is None else n), _dtype_of(np.fft.irfft, a, n=1)),
}  # fmt: skip
# what NumPy writes in other functions of its own
COMPOSED = frozenset({
    "all", "amax", "amin", "angle", "any", "append", "argmax", "argmin", "argsort", "around", "array_split",
    "atleast_1d", "atleast_2d", "atleast_3d", "average", "clip", "column_stack", "count_nonzero", "cross", "cumprod",
    "cumsum", "diagonal", "diff", "dsplit", "dstack", "expand_dims", "flip", "fliplr", "flipud", "hsplit", "hstack",
    "imag", "kron", "max", "mean", "min", "moveaxis", "outer", "pad", "prod", "ptp", "ravel", "real", "repeat",
    "reshape", "roll", "rollaxis", "rot90", "round", "split", "squeeze", "stack", "std", "sum", "swapaxes", "take",
    "tensordot", "tile", "trace", "transpose", "trapezoid", "tril", "triu", "var", "vsplit", "vstack",
    "broadcast_arrays", "matrix_transpose", "permute_dims", "concat", "cumulative_sum",
})  # fmt: skip
