"""Storages, PyTorch's names for the memory that tensors share: `UntypedStorage` in bytes, `TypedStorage` in elements.

Here memory belongs to the arrays behind tensors, and a storage is a look at the array that owns what a tensor views.
It is read, written and told apart by its address; it cannot be made smaller or larger.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.device import cpu
from ..base.device import device as Device
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..graph.node import Storage
from ..graph.versions import storage_of
from .tensor import Tensor, from_array

Bytes = np.ndarray[Any, Any]


def _memory(a: Any) -> Bytes:
    """Return the bytes of the array that owns what `a` views."""
    if not isinstance(a, np.ndarray):
        raise NotImplementedError(
            text("storages of tensors on a GPU are not here", op="untyped_storage",
                 remedy="x.cpu(), or x.data_ptr() to tell memory apart"))  # fmt: skip
    root: Bytes = a.view(np.ndarray)
    while isinstance(root.base, np.ndarray):
        root = root.base.view(np.ndarray) if type(root.base) is not np.ndarray else root.base
    if not (root.flags.c_contiguous or root.flags.f_contiguous):  # it has holes: all that it spans
        span = 1 + sum((n - 1) * st for n, st in zip(root.shape, root.strides, strict=True)) // root.itemsize
        return np.lib.stride_tricks.as_strided(root, (span,), (root.itemsize,)).view(np.uint8)
    return root.ravel(order="K").view(np.uint8)


class AnyStorage:
    """What both kinds have: bytes, and the counter by which autograd sees that they were written."""

    is_cuda = is_sparse = is_hpu = False
    filename: str | None = None
    _bytes: Bytes
    _counter: Storage | None

    @property
    def device(self) -> Device:
        """Where the memory is: the CPU."""
        return cpu

    @property
    def _cdata(self) -> int:
        """What tells storages apart: the address."""
        return self.data_ptr()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AnyStorage):
            return NotImplemented
        return type(self) is type(other) and (self.data_ptr(), self.nbytes()) == (other.data_ptr(), other.nbytes())

    def __hash__(self) -> int:
        return hash((self.data_ptr(), self.nbytes()))

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return int(self._bytes.size)

    def data_ptr(self) -> int:
        """Return the address of the first byte; 0 where there is none."""
        return int(self._bytes.ctypes.data) if self._bytes.size else 0

    def get_device(self) -> int:
        """Return -1: the CPU has no number."""
        return -1

    def is_shared(self) -> bool:
        """Return False: threads share memory as it is, and processes are sent copies."""
        return False

    def is_pinned(self, device: Any = None) -> bool:
        """Return False: no memory is pinned."""
        return False

    def _wrote(self, op: str) -> None:
        if not self._bytes.flags.writeable:
            raise RuntimeError(text("the memory is not writable", op=op, remedy="clone() the tensor first"))
        if self._counter is not None:
            self._counter.wrote(op, None)


class UntypedStorage(AnyStorage):
    """Memory in bytes: ``UntypedStorage(12)``, of a list of bytes, or a tensor's ``untyped_storage()``.

    >>> import core
    >>> x = core.arange(4)
    >>> x[2:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr(), x.untyped_storage().nbytes()
    (True, 32)
    """

    def __init__(self, *given: Any, device: Any = None) -> None:
        size = given[0] if given else 0
        self._counter = None
        self._bytes = np.zeros(size, np.uint8) if isinstance(size, int) else np.asarray(list(size), np.uint8)

    @classmethod
    def _of(cls, a: Bytes, counter: Storage | None = None) -> UntypedStorage:
        made = cls.__new__(cls)
        made._bytes, made._counter = a, counter
        return made

    @classmethod
    def from_file(cls, filename: str | Path, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Return the bytes of a file, mapped into memory; with `shared`, what is written goes to the file, which is
        made where there is none.

        *Raises*: RuntimeError where the file is shorter than `nbytes`.
        """
        path = Path(filename)
        if shared:
            with path.open("ab") as f:
                f.truncate(max(f.tell(), nbytes))
        if path.stat().st_size < nbytes:
            raise RuntimeError(text("the file is shorter than the storage", op="UntypedStorage.from_file",
                                    came=f"{path.stat().st_size} bytes", needed=f"{nbytes} bytes"))  # fmt: skip
        mapped = (
            np.memmap(path, np.uint8, "r+" if shared else "c", shape=(nbytes,)) if nbytes else np.zeros(0, np.uint8)
        )
        made = cls._of(mapped.view(np.ndarray))
        made.filename = str(path)
        return made

    def untyped(self) -> UntypedStorage:
        """Return the storage itself."""
        return self

    def size(self) -> int:
        """Return the number of bytes."""
        return self.nbytes()

    __len__ = size

    def element_size(self) -> int:
        """Return 1: elements are bytes."""
        return 1

    def __getitem__(self, at: Any) -> Any:
        found = self._bytes[at]
        return UntypedStorage._of(found, self._counter) if isinstance(at, slice) else int(found)

    def __setitem__(self, at: Any, value: Any) -> None:
        self._wrote("storage[...] = ")
        self._bytes[at] = value._bytes if isinstance(value, AnyStorage) else value

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """Return the bytes as numbers."""
        return self._bytes.tolist()  # type: ignore[no-any-return]

    def fill_(self, value: int) -> UntypedStorage:
        """Write one byte everywhere."""
        self[:] = value
        return self

    def copy_(self, source: AnyStorage, non_blocking: bool = False) -> UntypedStorage:
        """Write another storage's bytes here. *Raises*: RuntimeError where they are of another number."""
        if source.nbytes() != self.nbytes():
            raise RuntimeError(text("size does not match", op="copy_", came=f"{source.nbytes()} bytes",
                                    needed=f"{self.nbytes()} bytes"))  # fmt: skip
        self[:] = source
        return self

    def clone(self) -> UntypedStorage:
        """Return a copy in memory of its own."""
        return UntypedStorage._of(self._bytes.copy())

    def cpu(self) -> UntypedStorage:
        """Return the storage itself: it is on the CPU."""
        return self

    def share_memory_(self) -> UntypedStorage:
        """Return the storage itself: threads share it as it is, and processes are sent copies."""
        return self

    def resize_(self, size: int) -> UntypedStorage:
        """Leave the storage as it is. *Raises*: NotImplementedError for another size: arrays own their memory."""
        if size != self.nbytes():
            raise NotImplementedError(
                text("a storage cannot be made smaller or larger here", op="resize_", came=f"{size} bytes",
                     needed=f"{self.nbytes()} bytes", remedy="x.data = core.empty(0) lets memory go"))  # fmt: skip
        return self

    def __repr__(self) -> str:
        shown = "".join(f" {b}\n" for b in self.tolist())
        return f"{shown}[core.storage.UntypedStorage(device=cpu) of size {self.nbytes()}]"

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> UntypedStorage:
        return memo.setdefault(id(self), self.clone())  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        return UntypedStorage, (self.tolist(),)


class Typed(type):
    """The class of ``FloatStorage`` and its like: makes storages of its dtype, and knows them again."""

    _dtype: Dtype | None

    def __instancecheck__(cls, value: Any) -> bool:
        own = type.__getattribute__(cls, "_dtype")
        return issubclass(type(value), TypedStorage) and own in (None, getattr(value, "dtype", None))


class TypedStorage(AnyStorage, metaclass=Typed):
    """Memory in elements of a dtype: ``FloatStorage(3)``, of a list of numbers, or a tensor's ``storage()``.

    >>> import core
    >>> core.FloatStorage([1, 2]).tolist(), core.ones(2, 3).storage().size()
    ([1.0, 2.0], 6)
    """

    _dtype: Dtype | None = None
    dtype: Dtype

    def __init__(self, *given: Any, wrap_storage: UntypedStorage | None = None, dtype: Dtype | None = None,
                 device: Any = None, _internal: bool = False) -> None:  # fmt: skip
        self.dtype = dtype or type.__getattribute__(type(self), "_dtype") or dtypes.get_default_dtype()
        self._counter = None
        data = given[0] if given else 0
        if wrap_storage is not None:
            self._bytes, self._counter = wrap_storage._bytes, wrap_storage._counter
        elif isinstance(data, int):
            self._bytes = np.zeros(data, self.dtype.numpy).view(np.uint8)
        else:
            self._bytes = np.asarray(list(data)).astype(self.dtype.numpy).view(np.uint8)

    @classmethod
    def from_file(cls, filename: str | Path, shared: bool = False, size: int = 0) -> TypedStorage:
        """Return `size` elements of a file, mapped into memory, as `UntypedStorage.from_file` does its bytes."""
        dtype = type.__getattribute__(cls, "_dtype") or dtypes.get_default_dtype()
        return cls(wrap_storage=UntypedStorage.from_file(filename, shared, size * dtype.itemsize), dtype=dtype)

    @property
    def _elements(self) -> Bytes:
        return self._bytes[: self._bytes.size // self.dtype.itemsize * self.dtype.itemsize].view(self.dtype.numpy)

    def untyped(self) -> UntypedStorage:
        """Return the same memory in bytes."""
        return UntypedStorage._of(self._bytes, self._counter)

    _untyped_storage = property(untyped)

    def size(self) -> int:
        """Return the number of elements."""
        return int(self._elements.size)

    __len__ = _size = size

    def element_size(self) -> int:
        """Return the bytes of an element."""
        return self.dtype.itemsize

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            raise RuntimeError(text("slices are only supported in UntypedStorage", op="storage[a:b]",
                                    remedy="x[a:b] of the tensor"))  # fmt: skip
        return self.tolist()[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        self._wrote("storage[...] = ")
        self._elements[at] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """Return the elements as numbers."""
        return from_array(self._elements).tolist()  # type: ignore[no-any-return]

    def fill_(self, value: Any) -> TypedStorage:
        """Write a number everywhere."""
        self[:] = value
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> TypedStorage:
        """Write another storage's elements here."""
        self[:] = source._elements
        return self

    def clone(self) -> TypedStorage:
        """Return a copy in memory of its own."""
        return TypedStorage(wrap_storage=self.untyped().clone(), dtype=self.dtype)

    def type(self, dtype: Any = None) -> Any:
        """Return the name of its class; with a dtype, the elements as that."""
        if dtype is None:
            return f"core.{self.dtype.scalar_type}Storage"
        return TypedStorage(self._elements.astype(dtype.numpy), dtype=dtype)

    def cpu(self) -> TypedStorage:
        """Return the storage itself: it is on the CPU."""
        return self

    def share_memory_(self) -> TypedStorage:
        """Return the storage itself: threads share it as it is, and processes are sent copies."""
        return self

    def pickle_storage_type(self) -> str:
        """Return the name by which PyTorch's files call its class."""
        return f"{self.dtype.scalar_type}Storage"

    def __repr__(self) -> str:
        shown = "".join(f" {v}\n" for v in self.tolist())
        return f"{shown}[core.storage.TypedStorage(dtype={self.dtype}, device=cpu) of size {self.size()}]"

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        return memo.setdefault(id(self), self.clone())  # type: ignore[no-any-return]


# -- of tensors --------------------------------------------------------------------------------------------------------


def untyped_storage(self: Tensor) -> Any:
    """Return the memory that the tensor lies in, in bytes: a `core.UntypedStorage`."""
    if self.device.type == "meta":
        raise NotImplementedError(text("Cannot copy out of meta tensor; no data!", op="untyped_storage",
                                       came="a tensor without memory",
                                       remedy="x.nbytes for its size; module.to_empty(device='cpu')"))  # fmt: skip
    return UntypedStorage._of(_memory(self._a), storage_of(self))


def storage(self: Tensor) -> Any:
    """Return the memory that the tensor lies in, in elements of its dtype: a `core.TypedStorage`."""
    return TypedStorage(wrap_storage=untyped_storage(self), dtype=self.dtype)


def tensor_of(dtype: Dtype, source: Any, offset: int, size: Sequence[int] | None, stride: Any) -> Tensor:
    """Return a tensor over a storage, from element `offset` on; all of it in a row where no size is given.

    *Raises*: RuntimeError where it reaches past the storage's end.
    """
    shape = (source.nbytes() // dtype.itemsize - offset,) if size is None else tuple(map(builtins.int, size))
    steps = tuple(np.cumprod((1, *shape[:0:-1])).tolist()[::-1]) if stride is None else tuple(stride)
    last = offset + sum((n - 1) * st for n, st in zip(shape, steps, strict=True))
    if 0 not in shape and (last + 1) * dtype.itemsize > source.nbytes():
        raise RuntimeError(
            text(f"setStorage: sizes {list(shape)}, strides {list(steps)}, storage offset {offset} are out of bounds "
                 f"for storage of size {source.nbytes()}", op="set_"))  # fmt: skip
    strides = tuple(st * dtype.itemsize for st in steps)
    made = from_array(np.ndarray(shape, dtype.numpy, source._bytes, offset * dtype.itemsize, strides))
    made._storage = source._counter
    return made
