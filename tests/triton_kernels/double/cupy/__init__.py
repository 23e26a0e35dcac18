"""A stand-in for CuPy over the fake libcuda: as strict as CuPy, with NumPy doing the arithmetic in "device" memory.

It offers the functions that CuPy 14.2 has (names.txt) and no others, refuses NumPy arrays among its operands, gives
0-d arrays where NumPy gives scalars, lets an index that is too large wrap around, and gets its memory, streams, events
and errors from the library in fake_cuda.c. ``FAKE_CUPY_LACKS="sort linalg.svd"`` takes functions away.
"""

import functools
import os
import pathlib
import types

import numpy as np

from . import cuda

__version__ = "14.2.0 (a stand-in)"

_lacks = set(os.environ.get("FAKE_CUPY_LACKS", "").split())
_names = {}
for _line in pathlib.Path(__file__).with_name("names.txt").read_text().splitlines()[1:]:
    if _line.endswith(":"):
        _of = _names.setdefault(_line[:-1], set())
    else:
        _of.update(_line.split())
_names["cupy"] -= {n for n in _lacks if "." not in n}
_ALLOCATE = cuda.memory.alloc


class _Flags:
    def __init__(self, flags):
        self.c_contiguous, self.f_contiguous, self.owndata = flags.c_contiguous, flags.f_contiguous, flags.owndata


class ndarray:
    __slots__ = ("__weakref__", "_h", "base", "data")
    __array_priority__ = 100
    __hash__ = None

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        dtype = np.dtype(dtype)
        if memptr is None:
            size = dtype.itemsize
            for n in shape if isinstance(shape, tuple | list) else (shape,):
                size *= n
            memptr = _ALLOCATE(size)
        self.data, self.base = memptr, None
        self._h = np.ndarray(shape, dtype, memptr.mem.buffer, memptr.offset, strides, order)

    shape = property(lambda self: self._h.shape, lambda self, shape: setattr(self._h, "shape", shape))
    strides = property(lambda self: self._h.strides)
    dtype = property(lambda self: self._h.dtype)
    ndim = property(lambda self: self._h.ndim)
    size = property(lambda self: self._h.size)
    itemsize = property(lambda self: self._h.itemsize)
    nbytes = property(lambda self: self._h.nbytes)
    flags = property(lambda self: _Flags(self._h.flags))
    device = property(lambda self: cuda.Device(self.data.device_id))
    T = property(lambda self: _wrap(self._h.T, (self,)))
    real = property(lambda self: _wrap(self._h.real, (self,)), lambda self, v: self.real.__setitem__(..., v))
    imag = property(lambda self: _wrap(self._h.imag, (self,)), lambda self, v: self.imag.__setitem__(..., v))

    def get(self, stream=None, order="C", out=None, blocking=True):
        out = np.empty(self.shape, self.dtype) if out is None else out
        cuda.check(cuda.lib.fake_copy(0, 0, 0, stream.ptr if stream else cuda.get_current_stream().ptr, blocking))
        out[...] = self._h
        return out

    def set(self, array, stream=None):
        self._h[...] = array

    def item(self, *args):
        return self.get().item(*args)

    def tolist(self):
        return self.get().tolist()

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy "
                        "array explicitly.")  # fmt: skip

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        if method == "__call__" and ufunc.__name__ not in _names["cupy"]:
            return NotImplemented
        return _call(function, *inputs, **kwargs)

    def __array_function__(self, function, types, args, kwargs):
        where = function.__module__.split(".")[1:] if function.__module__ else []
        found = _names.get(where[0] if where else "cupy", ())
        return _call(function, *args, **kwargs) if function.__name__ in found else NotImplemented

    def __getitem__(self, key):
        given, key = key, _key(key, self)
        if given is not Ellipsis and not any(k is Ellipsis for k in key):
            key = (*key, ...)  # a 0-d result is an array that shares the memory, as CuPy's is
        return _wrap(self._h[key], (self,))

    def __setitem__(self, key, value):
        if isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        cuda.check(cuda.lib.fake_copy(0, 0, 0, cuda.get_current_stream().ptr, 0))
        self._h[_key(key, self)] = _bare(value)

    def __iter__(self):
        return (self[i] for i in range(len(self._h)))

    def __len__(self):
        return len(self._h)

    def __repr__(self):
        return repr(self._h)

    def __bool__(self):
        return bool(self.get())

    def __int__(self):
        return int(self.get())

    def __float__(self):
        return float(self.get())

    def __complex__(self):
        return complex(self.get())


def _bare(a):
    """An operand as NumPy takes it; a NumPy array that is not 0-d is refused, as CuPy does."""
    if isinstance(a, ndarray):
        return a._h
    if isinstance(a, np.ndarray) and a.ndim:
        raise TypeError(f"Unsupported type {type(a)}")
    if isinstance(a, list | tuple):
        return type(a)([_bare(x) for x in a])
    return a


def _key(key, of):
    """An index as NumPy takes it: arrays of either kind; numbers of arrays wrap around."""
    keys = key if isinstance(key, tuple) else (key,)
    out, axis = [], 0
    for k in keys:
        k = k._h if isinstance(k, ndarray) else k
        if (
            isinstance(k, np.ndarray)
            and k.dtype.kind in "iu"
            and axis < of.ndim
            and not any(
                x is None or x is Ellipsis or getattr(getattr(x, "dtype", None), "kind", "") == "b" for x in keys
            )
        ):
            k = k % max(of.shape[axis], 1)
        axis += k.ndim if isinstance(k, np.ndarray) and k.dtype == bool else 1
        out.append(k)
    return tuple(out)


def _wrap(result, sources=()):
    """What NumPy gave as this library's: a view of a source's memory stays one, anything else is copied in."""
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*[_wrap(r, sources) for r in result])
    if isinstance(result, list | tuple):
        return type(result)([_wrap(r, sources) for r in result])
    if isinstance(result, np.generic):
        result = np.asarray(result)
    if not isinstance(result, np.ndarray):
        return result
    at = result.__array_interface__["data"][0]
    for s in sources:
        if isinstance(s, ndarray):
            if result is s._h:
                return s
            low = s.data.mem.ptr
            if low <= at < low + max(s.data.mem.size, 1) and result.size:
                out = object.__new__(ndarray)
                out._h, out.base = result, s if s.base is None else s.base
                out.data = cuda.memory.MemoryPointer(s.data.mem, at - low)
                return out
    out = ndarray(result.shape, result.dtype, order="F" if result.flags.fnc else "C")
    cuda.check(cuda.lib.fake_copy(0, 0, 0, cuda.get_current_stream().ptr, 0))
    out._h[...] = result
    return out


def _arrays(values):
    for v in values:
        if isinstance(v, ndarray):
            yield v
        elif isinstance(v, list | tuple):
            yield from _arrays(v)


def _call(function, *args, **kwargs):
    sources = list(_arrays([*args, *kwargs.values()]))
    away = {s.data.device_id for s in sources} - {cuda.runtime.getDevice()}
    result = function(*[_bare(a) for a in args], **{k: _bare(v) for k, v in kwargs.items()})
    out = _wrap(result, sources)
    if away and not (isinstance(out, ndarray) and (out.base is not None or any(out is s for s in sources))):
        raise ValueError(  # of views there is nothing to compute
            f"Array device must be same as the current device: array device = {max(away)} while "
            f"current = {cuda.runtime.getDevice()}."
        )
    return out


def _method(name):
    function = getattr(np.ndarray, name)

    @functools.wraps(function)
    def method(self, *args, **kwargs):
        for a in args:
            if isinstance(a, np.ndarray) and a.ndim:
                raise TypeError(f"Unsupported type {type(a)}")
        return _call(function, self, *args, **kwargs)

    return method


for _name in _names["ndarray"]:
    _plain = _name not in vars(ndarray) and _name not in dir(object) and not _name.startswith("__array")
    if callable(getattr(np.ndarray, _name, None)) and (_plain or _name in {f"__{o}__" for o in
            ("eq", "ne", "lt", "le", "gt", "ge")}):  # fmt: skip
        setattr(ndarray, _name, _method(_name))


def empty(shape, dtype=float, order="C"):
    return ndarray(shape, dtype, order=order)


def array(obj, dtype=None, copy=True, order="K", subok=False, ndmin=0, *, blocking=False):
    if isinstance(obj, ndarray) and obj.data.device_id != cuda.runtime.getDevice():
        if not (obj._h.flags.c_contiguous or obj._h.flags.f_contiguous):
            raise NotImplementedError("CuPy cannot copy non-contiguous array between devices.")
        return _wrap(np.array(obj._h, dtype))
    given = _bare_list(obj)
    if isinstance(obj, ndarray) and not copy and (dtype is None or obj.dtype == dtype):
        return obj
    return _wrap(np.array(given, dtype, order=order, ndmin=ndmin))


def _bare_list(obj):
    if isinstance(obj, ndarray):
        return obj._h
    return [_bare_list(o) for o in obj] if isinstance(obj, list | tuple) else obj


def asarray(a, dtype=None, order=None, *, blocking=False):
    return array(a, dtype, copy=False, order=order or "K")


def asnumpy(a, stream=None, order="C", out=None, *, blocking=True):
    return a.get(stream, order, out, blocking) if isinstance(a, ndarray) else np.asarray(a)


def ascontiguousarray(a, dtype=None):
    if isinstance(a, ndarray) and a._h.flags.c_contiguous and (dtype is None or a.dtype == dtype) and a.ndim:
        return a
    return _wrap(np.ascontiguousarray(_bare_list(a), dtype).copy())


def get_default_memory_pool():
    return cuda.memory.default


def get_default_pinned_memory_pool():
    return types.SimpleNamespace(free_all_blocks=lambda: None)


def _function(numpy_one, name):
    @functools.wraps(numpy_one)
    def function(*args, **kwargs):
        return _call(numpy_one, *args, **kwargs)

    return function


def _offered(module, numpy_module):
    def __getattr__(name):
        if name not in _names[module] or (name if module == "cupy" else f"{module}.{name}") in _lacks:
            raise AttributeError(f"module '{module}' has no attribute {name!r}")
        found = getattr(numpy_module, name)
        return found if isinstance(found, type) or not callable(found) else _function(found, name)

    return __getattr__


linalg, fft = types.ModuleType("cupy.linalg"), types.ModuleType("cupy.fft")
linalg.__getattr__, fft.__getattr__ = _offered("linalg", np.linalg), _offered("fft", np.fft)


def _as_strided(x, shape=None, strides=None):
    return _wrap(np.lib.stride_tricks.as_strided(x._h, shape, strides), (x,))


lib = types.SimpleNamespace(stride_tricks=types.SimpleNamespace(as_strided=_as_strided))
__getattr__ = _offered("cupy", np)
