"""Pickles of tensors and plain data, instruction by instruction, with PyTorch's names: what `torch.load` reads with
``weights_only=True``. No class of this package is named in them. Source: CPython's Lib/pickletools.py, protocol 2."""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..base.device import device as Device
from ..base.dtypes import dtype
from ..base.errors import text
from ..base.shape import Size
from ..dispatch.sparse import SparseTensor
from ..nn.parameter import Parameter
from ..tensors.tensor import Tensor
from . import classes
from .memory import Block, address, array_of, blocks
from .structure import FACTORIES, refused

_STORAGES = {
    "float64": "DoubleStorage", "float32": "FloatStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage",
    "int64": "LongStorage", "int32": "IntStorage", "int16": "ShortStorage", "int8": "CharStorage",
    "uint8": "ByteStorage", "bool": "BoolStorage", "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
}  # fmt: skip
_OLD_NAMES = {"builtins": "__builtin__"}  # protocol 2 is Python 2's
_BATCH = 1000


class Pickler:
    """One object on its way into a pickle."""

    def __init__(self) -> None:
        self.out: list[bytes] = [b"\x80\x02"]
        self.memo: dict[int, tuple[int, Any]] = {}  # id -> its number, and the object, that the id stay its own
        self.texts: dict[str, int] = {}
        self.tensors: list[tuple[int, Tensor]] = []  # where in `out` each of them belongs
        self.count = 0

    def dumped(self, obj: Any) -> tuple[bytes, list[Block]]:
        """Return the pickle, and the memory that it names by number. *Raises*: TypeError, ValueError, RuntimeError."""
        try:
            self.save(obj, "")
        except RecursionError:
            raise ValueError(text("the object is nested too deeply", op="save", remedy="flatten it")) from None
        self.out.append(b".")
        arrays = [array_of(t) for _, t in self.tensors]
        of = blocks([(a, t.device) for a, (_, t) in zip(arrays, self.tensors, strict=True)])
        numbers: dict[int, int] = {}
        memories: list[Block] = []
        for (at, t), a, block in zip(self.tensors, arrays, of, strict=True):
            if id(block) not in numbers:
                numbers[id(block)] = len(memories)
                memories.append(block)
            self.out[at] = self._tensor(t, a, block, str(numbers[id(block)]))
        return b"".join(self.out), memories

    # -- instructions --------------------------------------------------------------------------------------------------

    def _put(self) -> int:
        k = self.count
        self.count += 1
        self.out.append(b"q" + bytes([k]) if k < 256 else b"r" + struct.pack("<I", k))
        return k

    def _get(self, k: int) -> None:
        self.out.append(b"h" + bytes([k]) if k < 256 else b"j" + struct.pack("<I", k))

    def _remember(self, x: Any) -> None:
        self.memo[id(x)] = (self._put(), x)

    def _global(self, module: str, name: str) -> None:
        self.out.append(f"c{_OLD_NAMES.get(module, module)}\n{name}\n".encode())

    def _call(self, module: str, name: str, args: Iterable[Any], path: str) -> None:
        self._global(module, name)
        self._arguments(args, path)
        self.out.append(b"R")

    def _arguments(self, args: Iterable[Any], path: str) -> None:
        self.out.append(b"(")
        for a in args:
            self.save(a, path)
        self.out.append(b"t")

    # -- values --------------------------------------------------------------------------------------------------------

    def save(self, x: Any, path: str) -> None:
        """Append the instructions that make `x`."""
        if x is None or x is True or x is False:
            self.out.append(b"N" if x is None else b"\x88" if x else b"\x89")
        elif type(x) is int:
            self.out.append(_int(x))
        elif type(x) is float:
            self.out.append(b"G" + struct.pack(">d", x))
        elif type(x) is str or isinstance(x, np.str_):
            self._text(str(x))
        elif id(x) in self.memo:
            self._get(self.memo[id(x)][0])
        elif isinstance(x, Tensor):
            self._place(x, path)
        elif type(x) in (list, tuple, dict, OrderedDict, Counter, defaultdict, set, frozenset, deque, Size):
            self._container(x, path)
        else:
            self._rarer(x, path)

    def _text(self, x: str) -> None:
        if x in self.texts:
            self._get(self.texts[x])
            return
        data = x.encode("utf-8", "surrogatepass")
        self.out.append(b"X" + struct.pack("<I", len(data)) + data)
        self.texts[x] = self._put()

    def _container(self, x: Any, path: str) -> None:
        kind = type(x)
        if kind is list:
            self.out.append(b"]")
            self._remember(x)
            self._items(x, path)
        elif kind is dict:
            self.out.append(b"}")
            self._remember(x)
            self._pairs(x, path)
        elif kind is tuple:
            self._arguments(x, path)
            if id(x) in self.memo:  # met again within itself, through a list: it was made there
                self.out.append(b"0")
                self._get(self.memo[id(x)][0])
            else:
                self._remember(x)
        elif kind is OrderedDict:
            self._call("collections", "OrderedDict", (), path)
            self._remember(x)
            self._pairs(x, path)
            if x.__dict__:
                self.save(x.__dict__, path)
                self.out.append(b"b")
        elif kind is defaultdict:
            factory = x.default_factory
            if factory is not None and FACTORIES.get(getattr(factory, "__name__", "")) is not factory:
                raise refused(factory, path)
            self._global("collections", "defaultdict")
            self.out.append(b"(" if factory is not None else b")")
            if factory is not None:
                self._global(factory.__module__, factory.__name__)
                self.out.append(b"t")
            self.out.append(b"R")
            self._remember(x)
            self._pairs(x, path)
        else:
            made: dict[Any, tuple[str, str, Callable[[], tuple[Any, ...]]]] = {
                Counter: ("collections", "Counter", lambda: (dict(x),)),
                set: ("builtins", "set", lambda: (list(x),)),
                frozenset: ("builtins", "frozenset", lambda: (list(x),)),
                deque: ("collections", "deque", lambda: (list(x), x.maxlen)),
                Size: ("torch", "Size", lambda: (tuple(x),)),
            }
            module, name, args = made[kind]
            self._call(module, name, args(), path)
            self._remember(x)

    def _items(self, x: list[Any], path: str) -> None:
        for start in range(0, len(x), _BATCH):
            self.out.append(b"(")
            for i, v in enumerate(x[start : start + _BATCH], start):
                self.save(v, f"{path}[{i}]")
            self.out.append(b"e")

    def _pairs(self, x: dict[Any, Any], path: str, named: bool = False) -> None:
        pairs = list(x.items())
        for start in range(0, len(pairs), _BATCH):
            self.out.append(b"(")
            for k, v in pairs[start : start + _BATCH]:
                self.save(k, path)
                self.save(v, f"{path}{k}" if named else f"{path}[{k!r:.40}]")
            self.out.append(b"u")

    def _rarer(self, x: Any, path: str) -> None:
        if isinstance(x, dtype):
            self._global("torch", x.name)
        elif isinstance(x, Device):
            self._call("torch", "device", (x.type,) if x.index is None else (x.type, x.index), path)
        elif type(x) is complex:
            self._call("builtins", "complex", (x.real, x.imag), path)
        elif type(x) is bytes:
            self._call("_codecs", "encode", (x.decode("latin1"), "latin1"), path)
        elif type(x) is bytearray:
            self._call("builtins", "bytearray", (x.decode("latin1"), "latin-1"), path)
        elif type(x) in (range, slice):
            name = "xrange" if type(x) is range else "slice"
            self._call("builtins", name, (x.start, x.stop, x.step), path)
        elif isinstance(x, type) and x in FACTORIES.values():
            self._global(x.__module__, x.__name__)
        elif type(x) is np.ndarray or isinstance(x, np.generic | np.dtype):
            self._numpy(x, path)
        elif (known := classes.name_of(x)) is not None:
            self._global(*known)
        else:
            self._object(x, path)
            return
        self._remember(x)

    def _object(self, x: Any, path: str) -> None:
        """A module or a dataclass: an empty object of its class, and its attributes."""
        state, name = classes.state_of(x), classes.name_of(type(x))
        if state is None:
            raise refused(x, path)
        if name is None:
            cls = type(x)
            raise TypeError(text(f"cannot save an object of class {cls.__module__}.{cls.__qualname__}"
                                 f"{f' at {path}' if path else ''}: load would not find the class by this name",
                                 op="save",
                                 remedy="define it at the top of a module, or save its state_dict()"))  # fmt: skip
        self._global(*name)
        self.out.append(b")\x81")
        self._remember(x)
        self.out.append(b"}")
        self._put()
        self._pairs(state, f"{path}." if path else "", named=True)
        self.out.append(b"b")

    def _numpy(self, x: Any, path: str) -> None:
        reduced: Any = type(x).__reduce__
        if isinstance(x, np.dtype):
            if x.hasobject or x.names or x.subdtype:
                raise refused(x, path)
            _, args, state = reduced(x)
            self._global("numpy", "dtype")
        elif x.dtype.hasobject or x.dtype.names:
            raise TypeError(text(f"cannot save a NumPy array of {x.dtype}{f' at {path}' if path else ''}", op="save",
                                 needed="an array of numbers or texts", remedy="x.tolist()"))  # fmt: skip
        elif isinstance(x, np.generic):
            args, state = (x.dtype, x.tobytes()), None
            self._global("numpy._core.multiarray", "scalar")
        else:
            _, args, state = reduced(x)
            self._global("numpy._core.multiarray", "_reconstruct")
            self.out.append(b"(")
            self._global("numpy", "ndarray")
            self.save((0,), path)
            self.save(b"b", path)
            self.out.append(b"t")
            args = None
        if args is not None:
            self.out.append(b"(")
            for a in args:
                if isinstance(a, type):
                    self._global(a.__module__, a.__name__)
                else:
                    self.save(a, path)
            self.out.append(b"t")
        self.out.append(b"R")
        if state is not None:
            self.save(state, path)
            self.out.append(b"b")

    # -- tensors -------------------------------------------------------------------------------------------------------

    def _place(self, t: Tensor, path: str) -> None:
        """Leave a place for the tensor: which memory is its own is known when all of them are."""
        if type(t) is SparseTensor:
            self._sparse(t, path)
            return
        if type(t) not in (Tensor, Parameter):
            raise refused(t, path)
        if type(t) is Parameter:
            self._global("torch._utils", "_rebuild_parameter")
        self.tensors.append((len(self.out), t))
        self.out.append(b"")
        if type(t) is Parameter:
            self.out.append(b"\x88" if t.requires_grad else b"\x89")
            self._call("collections", "OrderedDict", (), path)
            self.out.append(b"\x87R")
        self._remember(t)

    def _sparse(self, t: SparseTensor, path: str) -> None:
        """A sparse tensor is its places, its values and its size."""
        a = t._a
        self._global("torch._utils", "_rebuild_sparse_tensor")
        self.out.append(b"(")
        self._call("torch.serialization", "_get_layout", ("torch." + a.layout,), path)
        more = (bool(a.coalesced),) if a.layout == "sparse_coo" else ()
        self._arguments((*t._places, t._held.detach(), Size(a.shape), *more), path)
        self.out.append(b"tR")
        self._remember(t)

    def _tensor(self, t: Tensor, a: Any, block: Block, key: str) -> bytes:
        """Return the instructions for a tensor, without the memo, whose numbers are given out by now."""
        size = a.itemsize
        offset = (address(a) - block.low) // size if a.size else 0
        flag = t.requires_grad and type(t) is not Parameter
        named = t.dtype.name in _STORAGES  # the others are bytes, and say their dtype at the end
        storage = f"ctorch\n{_STORAGES[t.dtype.name]}\n".encode() if named else b"ctorch.storage\nUntypedStorage\n"
        return b"".join(
            (
                b"ctorch._utils\n_rebuild_tensor_v2\n((" if named else b"ctorch._utils\n_rebuild_tensor_v3\n((",
                _short("storage"),
                storage,
                _short(key),
                _short(str(t.device)),
                _int(block.size_bytes // size if named else block.size_bytes),
                b"tQ",
                _int(offset),
                _ints(a.shape),
                _ints(st // size for st in a.strides),
                b"\x88" if flag else b"\x89",
                b"ccollections\nOrderedDict\n)R" + (b"" if named else f"ctorch\n{t.dtype.name}\n".encode()) + b"tR",
            )
        )


def _short(x: str) -> bytes:
    data = x.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def _ints(numbers: Iterable[int]) -> bytes:
    return b"(" + b"".join(_int(int(n)) for n in numbers) + b"t"


def _int(n: int) -> bytes:
    if 0 <= n < 256:
        return b"K" + bytes([n])
    if 0 <= n < 65536:
        return b"M" + struct.pack("<H", n)
    if -(2**31) <= n < 2**31:
        return b"J" + struct.pack("<i", n)
    data = n.to_bytes(n.bit_length() // 8 + 1, "little", signed=True)
    return (b"\x8a" + bytes([len(data)]) if len(data) < 256 else b"\x8b" + struct.pack("<i", len(data))) + data
