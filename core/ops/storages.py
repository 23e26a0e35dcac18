"""The memory of tensors, by PyTorch's names: bytes (`UntypedStorage`) and elements of a dtype (`TypedStorage`).

Here memory belongs to tensors; a storage is a view of all that a tensor's memory holds, made when it is asked for. Two
storages are equal where they are of the same memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.device import device as Device
from ..base.errors import text
from ..declare.kinds import Data
from ..dispatch.publish import public
from ..graph.versions import storage_of
from ..tensors.tensor import Tensor, from_array, wrap
from . import creation
from .legacy_types import made
from .placing import _address, _root

__all__ = ["TypedStorage", "UntypedStorage"]


class UntypedStorage:
    """The bytes that a tensor shares with its views.

    >>> import core
    >>> x = core.tensor([1, 2, 3], dtype=core.uint8)
    >>> x.untyped_storage().tolist(), x[1:].untyped_storage() == x.untyped_storage()
    ([1, 2, 3], True)
    """

    def __init__(self, size: int | Tensor = 0) -> None:
        of = size if isinstance(size, Tensor) else creation.empty(int(size), dtype=dtypes.uint8)
        self._array, self._device = _root(of._a), of.device

    @property
    def device(self) -> Device:
        """Where the memory is."""
        return self._device

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU's."""
        return self._device.type == "cuda"

    @property
    def _cdata(self) -> int:
        """A number that is the same for all storages of one memory."""
        return self.data_ptr()

    def data_ptr(self) -> int:
        """Return the address of the first byte."""
        return _address(self._array)

    def nbytes(self) -> int:
        """Return how many bytes there are."""
        return int(self._array.nbytes)

    size = __len__ = nbytes

    def element_size(self) -> int:
        """Return the size of an element: 1 byte."""
        return 1

    def tolist(self) -> list[int]:
        """Return the bytes as numbers."""
        host = self._array if isinstance(self._array, np.ndarray) else self._array.get()
        return list(host.tobytes("A"))

    def clone(self) -> UntypedStorage:
        """Return a copy of the memory."""
        return UntypedStorage(from_array(self._array.copy(), self._device))

    def resize_(self, size: int) -> UntypedStorage:
        """Refuse another size: memory belongs to tensors. *Raises*: RuntimeError where it is not the size it has."""
        if size != self.nbytes():
            raise RuntimeError(text("memory cannot be made larger or smaller", op="UntypedStorage.resize_",
                                    came=f"{size} bytes for {self.nbytes()}", remedy="a new tensor"))  # fmt: skip
        return self

    def __getitem__(self, index: int) -> int:
        return self.tolist()[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UntypedStorage):
            return NotImplemented
        return (self.data_ptr(), self.nbytes(), self._device) == (other.data_ptr(), other.nbytes(), other._device)

    def __hash__(self) -> int:
        return hash((self.data_ptr(), self.nbytes()))

    def __repr__(self) -> str:
        return f"<core.UntypedStorage of {self.nbytes()} bytes on {self._device}>"


class TypedStorage:
    """The elements of a dtype that a tensor shares with its views.

    >>> import core
    >>> x = core.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x[1].storage().tolist(), x.storage().size()
    ([1.0, 2.0, 3.0, 4.0], 4)
    """

    def __init__(self, of: Tensor) -> None:
        self._untyped, self.dtype = UntypedStorage(of), of.dtype
        self._tensor = wrap(_root(of._a).reshape(-1), of._kind)

    @property
    def device(self) -> Device:
        """Where the memory is."""
        return self._untyped.device

    def untyped(self) -> UntypedStorage:
        """Return the bytes."""
        return self._untyped

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self._untyped.data_ptr()

    def nbytes(self) -> int:
        """Return how many bytes there are."""
        return self._untyped.nbytes()

    def size(self) -> int:
        """Return how many elements there are."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    def element_size(self) -> int:
        """Return the bytes of an element."""
        return self.dtype.itemsize

    def tolist(self) -> list[Any]:
        """Return the elements as numbers."""
        return self._tensor.tolist()  # type: ignore[no-any-return]

    def __getitem__(self, index: int) -> Any:
        return self.tolist()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        return f"<core.TypedStorage of {self.size()} elements of {self.dtype} on {self.device}>"


def is_storage(obj: Any) -> bool:
    """Return whether it is a storage.

    >>> import core
    >>> core.is_storage(core.ones(2).untyped_storage()), core.is_storage(core.ones(2))
    (True, False)
    """
    return isinstance(obj, UntypedStorage | TypedStorage)


@public(namespace=None)
def untyped_storage(input: Tensor) -> UntypedStorage:
    """Return the bytes that `input` shares with its views.

    >>> import core
    >>> core.ones(2, 3).untyped_storage().nbytes()
    24
    """
    return UntypedStorage(input)


@public(namespace=None)
def storage(input: Tensor) -> TypedStorage:
    """Return the elements that `input` shares with its views.

    >>> import core
    >>> len(core.ones(2, 3)[1].storage())
    6
    """
    return TypedStorage(input)


@public(namespace=None)
def as_subclass(input: Tensor, cls: type) -> Any:
    """Return a tensor of a subclass of `core.Tensor`, with the memory and the history of `input`.

    *Raises*: TypeError for a class that is no subclass.

    >>> import core
    >>> class Points(core.Tensor):
    ...     pass
    >>> type(core.ones(2).as_subclass(Points)).__name__
    'Points'
    """
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise TypeError(text("cls must be a type (not an instance) that is a subclass of Tensor", op="as_subclass",
                             came=repr(cls)))  # fmt: skip
    out = Tensor.__new__(cls)
    seen = input.view_as(input) if input.requires_grad else input
    out._a, out._kind, out._storage = seen._a, seen._kind, storage_of(seen)
    if input.requires_grad:
        out._node, out._requires_grad = seen._node, True
    return out


def _make_subclass(cls: type, data: Tensor, require_grad: bool = False) -> Any:
    """Return a tensor of a subclass with the memory of `data`, which is a leaf."""
    out = as_subclass(data.detach(), cls)
    return out.requires_grad_() if require_grad else out


Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]


@public(namespace=None)
def new(input: Tensor, *data: Data) -> Tensor:
    """Return a tensor of the dtype and device of `input`: of sizes, or of numbers.

    `new_empty` and `new_tensor` are newer.

    >>> import core
    >>> core.ones(2).new([3, 4]), core.ones(2).new(2, 3).shape
    (tensor([3., 4.]), core.Size([2, 3]))
    """
    return made("new", input.dtype, data).to(input.device)
