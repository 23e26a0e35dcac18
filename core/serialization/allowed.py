"""The names that a pickle may use, and what each makes: data, and nothing else."""

from __future__ import annotations

import argparse
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np

from ..base.device import device as Device
from ..base.dtypes import all_dtypes
from ..base.errors import LoadError, text
from ..base.layouts import by_name
from ..base.shape import Size
from . import keys
from .source import short
from .structure import FACTORIES, SCALARS

_EXTRA = {n: np.dtype(n) for n in ("uint16", "uint32", "uint64")} | {
    n: np.dtype(getattr(ml_dtypes, n)) for n in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
                                                 "float8_e5m2fnuz", "float8_e8m0fnu")}  # fmt: skip
_STORAGES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}  # fmt: skip
_REFUSALS = {
    "Q": ("quantised tensors have no counterpart here", "x.dequantize() in PyTorch before torch.save"),
    "sparse": ("sparse tensors of blocks have no counterpart here", "x.to_dense() in PyTorch before torch.save"),
    "nested": ("nested tensors have no counterpart here", "x.unbind() in PyTorch before torch.save"),
    "meta": ("a tensor on the device 'meta' has no values", "x.to_empty(device='cpu') in PyTorch before torch.save"),
}


class Symbol:
    """A name of PyTorch's that stands for a function of ours, or for memory of a dtype."""

    __slots__ = ("dtype", "name")

    def __init__(self, name: str, dtype: np.dtype[Any] | None = None) -> None:
        self.name, self.dtype = name, dtype

    def __repr__(self) -> str:
        return f"<{self.name}>"


def refused(name: str) -> LoadError:
    """Return the error for a name that is not in the list."""
    module, _, last = name.rpartition(".")
    if module in ("torch", "torch._utils"):
        kind = ("Q" if (last.startswith("Q") and last.endswith("Storage")) or "qtensor" in last or last.startswith("q")
                else next((k for k in ("sparse", "nested", "meta") if k in last), None))  # fmt: skip
        if kind:
            phrase, remedy = _REFUSALS[kind]
            return LoadError(text(f"Unsupported: {phrase} ({name})", op="load", remedy=remedy))
    return LoadError(
        text(
            f"Unsupported global: GLOBAL {name[:200]} was not an allowed global by default: the file holds an object "
            "of this class, or calls this function, and no file runs code here (with weights_only=False neither)",
            op="load",
            needed="tensors, arrays, numbers, texts and containers",
            remedy="save model.state_dict() instead of the model, where the file was made; or weights_only=False for "
            "modules whose classes this program has defined; or core.serialization.add_safe_globals([Class]) for a "
            "class of data that you trust",
        )
    )


# -- classes that a person has said are safe ---------------------------------------------------------------------------

_trusted: dict[str, Any] = {}


def _named(given: Any) -> tuple[str, Any]:
    if isinstance(given, tuple):
        thing, name = given
        return str(name), thing
    return f"{given.__module__}.{given.__qualname__}", given


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let `load` make objects of these classes: their own code runs, so trust the classes, if not the file.

    safe_globals : classes or functions, or pairs of one and the full name by which files call it.
    """
    _trusted.update(map(_named, safe_globals))


def clear_safe_globals() -> None:
    """Take back what `add_safe_globals` allowed."""
    _trusted.clear()


def get_safe_globals() -> list[Any]:
    """Return what `add_safe_globals` allowed."""
    return list(_trusted.values())


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """For the length of the block `load` may make objects of these classes.

    >>> import core, datetime
    >>> with core.serialization.safe_globals([datetime.date]):
    ...     core.serialization.get_safe_globals()
    [<class 'datetime.date'>]
    """
    before = dict(_trusted)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _trusted.clear()
        _trusted.update(before)


# -- what is made ------------------------------------------------------------------------------------------------------


def _dict(*args: Any) -> dict[Any, Any]:
    """From nothing, a dict, or a list of pairs."""
    (items,) = args or ((),)
    pairs = items.items() if isinstance(items, dict) else items
    return {keys.checked(k): v for k, v in pairs}


def _members(items: Any = ()) -> list[Any]:
    if not isinstance(items, list | tuple | set | frozenset):
        raise TypeError("members are no list")
    return [keys.checked(x) for x in items]


def _defaultdict(factory: Any = None, *args: Any) -> Any:
    if factory is not None and factory not in FACTORIES.values():
        raise refused(f"defaultdict of {short(factory)}")
    return defaultdict(factory, _dict(*args))


def _encode(x: str, encoding: str = "latin1") -> bytes:
    if encoding not in ("latin1", "latin-1", "ascii", "utf-8", "utf8"):
        raise ValueError("encoding")
    return str.encode(x, encoding)


def _bytes(*args: Any) -> bytes:
    if not args:
        return b""
    if isinstance(args[0], str):
        return _encode(*args)
    if isinstance(args[0], bytes | bytearray) and len(args) == 1:
        return bytes(args[0])
    if isinstance(args[0], list) and len(args) == 1:
        return bytes(bytearray(args[0]))
    raise TypeError("bytes")  # of a number they would be as many as it says


def _numbers(make: Callable[..., Any], *plain: type) -> Callable[..., Any]:
    """Return a constructor whose arguments are only of these types."""

    def checked(*args: Any) -> Any:
        if not all(type(a) in plain for a in args):
            raise TypeError(f"{make.__name__} of {short(args)}")
        return make(*args)

    return checked


def _deque(items: Any = (), maxlen: Any = None) -> Any:
    if not isinstance(items, list | tuple) or (maxlen is not None and type(maxlen) is not int):
        raise TypeError("deque")
    return deque(items, maxlen)


def _size(items: Any = ()) -> Size:
    if not isinstance(items, list | tuple) or not all(type(n) is int for n in items):
        raise TypeError("Size")
    return Size(items)


def _device(kind: Any, index: Any = None) -> Device:
    if type(kind) is not str or (index is not None and type(index) is not int):
        raise TypeError("device")
    return Device(f"{kind}:{index}") if index is not None and kind != "cpu" else Device(kind)


# -- NumPy -------------------------------------------------------------------------------------------------------------


def _dtype(said: Any, align: Any = False, copy: Any = True) -> np.dtype[Any]:
    if not isinstance(said, str | type) or (isinstance(said, type) and said not in _ML_TYPES):
        raise TypeError("dtype")
    d = np.dtype(said)
    if (d.kind not in SCALARS + "UV" or d.hasobject or d.names is not None or d.subdtype or d.itemsize > 1 << 20
            or (d.kind == "V" and not isinstance(said, type))):  # fmt: skip
        raise refused(f"numpy.dtype {str(said)[:40]}")
    return np.dtype(d.str if isinstance(said, str) else d, copy=True)


_UNITS = (b"generic", b"Y", b"M", b"W", b"D", b"h", b"m", b"s", b"ms", b"us", b"ns", b"ps", b"fs", b"as")


def _dtype_state(d: np.dtype[Any], state: Any) -> None:
    """Only the order of bytes and the unit of times may be said; fields and objects inside may not."""
    if not isinstance(state, tuple) or len(state) < 5 or state[1] not in ("<", ">", "|", "=") or \
            any(x is not None for x in state[2:5]) or (d.kind == "V" and state[1] == ">"):  # fmt: skip
        raise refused("numpy.dtype with fields")
    more: tuple[Any, ...] = ()
    if d.kind in "mM" and len(state) > 8:
        _, (unit, *counts) = state[8]
        if unit not in _UNITS or len(counts) != 3 or not all(type(n) is int and 0 < n < 2**31 for n in counts):
            raise ValueError("the unit of times")
        more = (({}, (unit, *counts)),)
    elif state[1] != ">":
        return
    size = (d.itemsize, d.alignment, 8) if d.kind == "U" else (-1, -1, 0)
    d.__setstate__((4 if more else 3, state[1], None, None, None, *size, *more))  # type: ignore[attr-defined]


def _reconstruct(cls: Any, shape: Any, code: Any) -> Any:
    if cls is not np.ndarray:
        raise refused(f"numpy array of class {short(cls)}")
    return np.empty(0, np.int8)


def _array_state(a: Any, state: Any) -> None:
    _version, shape, d, fortran, data = state if len(state) == 5 else (1, *state)
    if not isinstance(d, np.dtype) or d.hasobject:
        raise refused(f"numpy array of {d if isinstance(d, np.dtype) else short(d)}")
    if isinstance(data, str):
        data = data.encode("latin1")
    count = _count(shape)
    if not isinstance(data, bytes | bytearray) or len(data) != count * d.itemsize:
        raise ValueError("the bytes of a NumPy array are more or fewer than its shape needs")
    a.__setstate__((1, shape, d, bool(fortran), bytes(data)))


def _count(shape: Any) -> int:
    if not isinstance(shape, tuple) or len(shape) > 64 or not all(type(n) is int and 0 <= n < 2**62 for n in shape):
        raise ValueError("the shape of a NumPy array")
    count = 1
    for n in shape:
        count *= n
    return count


def _frombuffer(data: Any, d: Any, shape: Any, order: Any, *axes: Any) -> Any:
    if not isinstance(d, np.dtype) or d.hasobject or len(data) != _count(shape) * d.itemsize or axes:
        raise ValueError("the bytes of a NumPy array are more or fewer than its shape needs")
    return np.frombuffer(bytearray(data), d).reshape(shape, order="F" if order == "F" else "C")


def _scalar(d: Any, data: Any) -> Any:
    if isinstance(data, str):
        data = data.encode("latin1")
    if not isinstance(d, np.dtype) or d.hasobject or len(data) != d.itemsize:
        raise ValueError("a NumPy number")
    return np.frombuffer(data, d)[0]


# -- the list ----------------------------------------------------------------------------------------------------------

_ML_TYPES = tuple(t for t in vars(ml_dtypes).values() if isinstance(t, type) and t.__module__ == "ml_dtypes")
_BUILTINS = {
    dict: _dict, set: lambda *a: set(_members(*a)), frozenset: lambda *a: frozenset(_members(*a)),
    list: _numbers(list, list, tuple), tuple: _numbers(tuple, list, tuple), bytes: _bytes,
    bytearray: lambda *a: bytearray(_bytes(*a)), complex: _numbers(complex, int, float),
    range: _numbers(range, int), slice: _numbers(slice, int, type(None)), int: _numbers(int, int, float, bool),
    float: _numbers(float, int, float, bool), bool: _numbers(bool, int, float, bool), str: _numbers(str, str),
}  # fmt: skip
MAKERS: dict[Any, Callable[..., Any]] = {
    **_BUILTINS,
    OrderedDict: lambda *a: OrderedDict(_dict(*a)),
    Counter: lambda *a: Counter(_dict(*a)),
    defaultdict: _defaultdict,
    deque: _deque,
    np.dtype: _dtype,
    Size: _size,
    Device: _device,
    argparse.Namespace: argparse.Namespace,
    types.SimpleNamespace: types.SimpleNamespace,
}
NAMES: dict[str, Any] = {
    **{f"builtins.{t.__name__}": t for t in _BUILTINS},
    **{f"collections.{t.__name__}": t for t in (OrderedDict, Counter, defaultdict, deque)},
    **{f"torch.{d.name}": d for d in all_dtypes},
    **{f"torch.{n}": Symbol(f"torch.{n}", d) for n, d in _EXTRA.items()},
    **{f"{module}.{n}": Symbol(f"torch.{n}", np.dtype(getattr(ml_dtypes, d, d)))
       for n, d in _STORAGES.items() for module in ("torch", "torch.cuda")},
    **{f"{module}.{n}": Symbol(f"torch.{n}", np.dtype(np.uint8))
       for n in ("UntypedStorage", "_UntypedStorage") for module in ("torch", "torch.storage")},
    **{f"ml_dtypes.{t.__name__}": t for t in _ML_TYPES},
    "builtins.xrange": range, "builtins.unicode": str, "builtins.long": int,
    "torch.Size": Size, "torch.device": Device, "numpy.dtype": np.dtype, "numpy.ndarray": np.ndarray,
    "argparse.Namespace": argparse.Namespace, "types.SimpleNamespace": types.SimpleNamespace,
}  # fmt: skip


def _function(name: str, make: Callable[..., Any], *names: str) -> None:
    symbol = Symbol(name)
    MAKERS[symbol] = make
    NAMES.update(dict.fromkeys((name, *names), symbol))


def _layout(name: Any) -> Any:
    found = by_name.get(str(name).rpartition(".")[2])
    if found is None:
        raise refused(f"torch.{str(name)[:40]}")
    return found


_function("_codecs.encode", _encode)
_function("torch.serialization._get_layout", _layout)
_function("numpy._core.multiarray._reconstruct", _reconstruct, "numpy.core.multiarray._reconstruct")
_function("numpy._core.multiarray.scalar", _scalar, "numpy.core.multiarray.scalar")
_function("numpy._core.numeric._frombuffer", _frombuffer, "numpy.core.numeric._frombuffer")


_NEW_NAMES = {"__builtin__": "builtins", "copy_reg": "copyreg"}  # Python 2's are in all pickles of protocol 2


def find(module: str, name: str) -> Any:
    """Return what a name stands for. *Raises*: LoadError for one that is not in the list."""
    full = f"{_NEW_NAMES.get(module, module)}.{name}"
    if full in _trusted:
        return _trusted[full]
    found = NAMES.get(full)
    if found is None:
        raise refused(full)
    return found


def call(function: Any, args: tuple[Any, ...], more: dict[Any, Callable[..., Any]]) -> Any:
    """Return what calling it makes; `more` are the functions that know the file's memory."""
    if isinstance(function, Symbol | type):
        make = more.get(function) or MAKERS.get(function)
        if make is not None:
            return make(*args)
    if any(function is t for t in _trusted.values()):
        return _run(function, *args)
    raise refused(f"a call of {function if isinstance(function, Symbol | type) else short(function)}")


def new(cls: Any, args: tuple[Any, ...]) -> Any:
    """Return an object before its state is given, of a class that is plain data or that a person trusts."""
    if any(cls is t for t in _trusted.values()):
        return _run(cls.__new__, cls, *args)
    return call(cls, args, {})


def _run(function: Any, *args: Any) -> Any:
    """Return a class that a person trusts; whatever it raises is the file's fault."""
    try:
        return function(*args)
    except Exception as error:
        raise LoadError(text(f"{function!r:.80} cannot be made ({type(error).__name__}: {str(error)[:200]})",
                             op="load")) from error  # fmt: skip


def build(target: Any, state: Any) -> None:
    """Complete an object by its saved state."""
    if type(target) is np.ndarray:
        _array_state(target, state)
    elif isinstance(target, np.dtype):
        _dtype_state(target, state)
    elif type(target) in (OrderedDict, argparse.Namespace, types.SimpleNamespace):
        if not isinstance(state, dict) or not all(type(k) is str for k in state):
            raise TypeError("a state that is no dict")
        for name, value in state.items():
            if not hasattr(type(target), name):  # data beside the class's own, such as _metadata; never in its place
                target.__dict__[name] = value
    elif type(target) in _trusted.values():
        _run(getattr(target, "__setstate__", target.__dict__.update), state)
    else:
        raise TypeError(f"a {type(target).__name__} is completed by a state")
