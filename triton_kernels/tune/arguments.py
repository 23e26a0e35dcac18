"""Arguments of a launch, of whatever library, read into plain data: numbers, and views of regions of memory.

Views of one storage are views of one region, as q, k and v are that were made by one product: what a kernel writes by
one it may read by another. Read are PyTorch's tensors and core's, NumPy's and CuPy's arrays, Triton's tensor
descriptors, and tuples of these. What comes of it pickles, and a worker lays the regions anew (`laid`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from .pretend import device_of

ALIGNED = 64  # bytes: where a region begins in a worker, so that views lie as they did to multiples of 16
DTYPES: dict[str, Any] = {
    "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "fp64": np.float64, "i8": np.int8,
    "i16": np.int16, "i32": np.int32, "i64": np.int64, "u1": np.bool_, "u8": np.uint8, "u16": np.uint16,
    "u32": np.uint32, "u64": np.uint64, "fp8e4nv": ml_dtypes.float8_e4m3fn, "fp8e5": ml_dtypes.float8_e5m2,
    "fp8e4b8": ml_dtypes.float8_e4m3fnuz, "fp8e5b16": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip
"""NumPy's dtypes by Triton's names for them."""
FLOATING = ("fp64", "fp32", "fp16", "bf16", "fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16")  # from fine to coarse


class Unreadable(ValueError):
    """An argument that no launch is recorded with; the message says what it is and what to do."""


@dataclass(frozen=True)
class View:
    """A pointer: into which region, how many bytes from its start, and what for. Strides count elements."""

    region: int
    offset: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def numpy(self) -> np.dtype:
        """The dtype as NumPy has it."""
        return np.dtype(DTYPES[self.dtype])

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        step = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and stride != step:
                return False
            step *= n
        return True

    def array(self, memory: np.ndarray) -> np.ndarray:
        """Return the elements in the region's bytes, not copied."""
        item = self.numpy.itemsize
        return np.ndarray(self.shape, self.numpy, memory, self.offset, tuple(s * item for s in self.strides))

    def of(self, memory: np.ndarray) -> np.ndarray:
        """Return what is kept of each byte of the region for its elements, not copied: (..., bytes of one)."""
        item = self.numpy.itemsize
        strides = tuple(s * item for s in self.strides)
        return np.lib.stride_tricks.as_strided(memory[self.offset :], (*self.shape, item), (*strides, 1))


@dataclass(frozen=True)
class Described:
    """A `triton.tools.tensor_descriptor.TensorDescriptor` on a view."""

    base: View
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block_shape: tuple[int, ...]
    padding: str
    rounded: bool

    def on(self, base: Any) -> Any:
        """Return the descriptor on another pointer."""
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor(base, list(self.shape), list(self.strides), list(self.block_shape), self.padding,
                                self.rounded)  # fmt: skip


@dataclass
class Region:
    """Memory that arguments point into, where it lies now. names : of the arguments."""

    owner: Any
    start: int
    size: int
    names: list[str] = field(default_factory=list)

    def content(self) -> np.ndarray:
        """Return a copy of its bytes."""
        memory = self.here()
        return memory.copy() if memory is not None else self._bytes_of_device()

    def put(self, content: np.ndarray) -> None:
        """Write bytes into it."""
        memory = self.here()
        if memory is not None:
            memory[...] = content
        elif hasattr(self.owner, "untyped_storage"):
            storage = self.owner.untyped_storage()
            copy = storage.cpu()
            _at(copy.data_ptr(), self.size)[...] = content
            storage.copy_(copy)
        else:
            self.owner.set(content.view(self.owner.dtype).reshape(self.owner.shape))

    def here(self) -> np.ndarray | None:
        """Return its bytes, not copied; None for a device's."""
        return _at(self.start, self.size) if _on_host(self.owner) else None

    def _bytes_of_device(self) -> np.ndarray:
        if hasattr(self.owner, "untyped_storage"):
            copy = self.owner.untyped_storage().cpu()
            return _at(copy.data_ptr(), self.size).copy()
        if not self.owner.flags.c_contiguous:
            raise Unreadable(f"{self.names[0]}: CuPy's array is not contiguous. Remedy: cupy.ascontiguousarray(...)")
        found: np.ndarray = self.owner.get().reshape(-1).view(np.uint8)
        return found


def _at(address: int, size: int) -> np.ndarray:
    if not size:
        return np.empty(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _on_host(owner: Any) -> bool:
    if isinstance(owner, np.ndarray):
        return True
    return hasattr(owner, "untyped_storage") and str(device_of(owner) or "cpu").startswith("cpu")


def is_pointer(value: Any) -> bool:
    """Return whether an argument points to memory.

    >>> is_pointer(np.zeros(3)), is_pointer(np.float32(3)), is_pointer("x")
    (True, False, False)
    """
    return hasattr(value, "data_ptr") or isinstance(value, np.ndarray) or hasattr(value, "__cuda_array_interface__")


def as_numpy(name: str, value: Any) -> Any:
    """Return an argument with an array of NumPy in the place of another library's; the rest as it is. *Raises*:
    Unreadable."""
    if not is_pointer(value) or isinstance(value, np.ndarray):
        return value
    regions = Regions()
    view = regions.plain(name, value)
    return view.array(regions[0].content()).copy()


class Regions(list[Region]):
    """The regions of one launch, in the order in which its arguments name them."""

    def plain(self, name: str, value: Any) -> Any:
        """Return an argument as plain data, its memory being added to the regions. *Raises*: Unreadable."""
        if type(value).__name__ == "constexpr":
            value = value.value
        if hasattr(value, "block_shape") and hasattr(value, "base"):
            return Described(self._view(name, value.base), tuple(map(int, value.shape)),
                             tuple(map(int, value.strides)), tuple(map(int, value.block_shape)), value.padding,
                             getattr(value, "round_f32_to_tf32", False))  # fmt: skip
        if is_pointer(value):
            return self._view(name, value)
        if isinstance(value, tuple | list):
            parts = [self.plain(f"{name}[{i}]", each) for i, each in enumerate(value)]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return value.item() if isinstance(value, np.generic) else value

    def _view(self, name: str, value: Any) -> View:
        from triton._utils import canonicalize_dtype

        try:
            dtype = canonicalize_dtype(value.dtype)
            numpy = np.dtype(DTYPES[dtype])
        except KeyError:
            raise Unreadable(f"{name} is an array of {value.dtype}, which Triton has no pointers to. Remedy: one of "
                             f"{', '.join(np.dtype(d).name for d in DTYPES.values())}") from None  # fmt: skip
        value = getattr(value, "array", value)  # of runtime.Pointer
        holder = getattr(value, "base", value) if type(value).__name__ == "TensorWrapper" else value
        owner, start, size, address = _extent(name, holder)
        k = next((k for k, r in enumerate(self) if r.start == start and r.size == size), len(self))
        if k == len(self):
            self.append(Region(owner, start, size))
        self[k].names.append(name)
        if isinstance(holder, np.ndarray) or not hasattr(holder, "untyped_storage"):
            strides = tuple(s // numpy.itemsize for s in holder.strides)
        else:
            strides = tuple(map(int, holder.stride()))
        return View(k, address - start, dtype, tuple(map(int, holder.shape)), strides)


def _extent(name: str, value: Any) -> tuple[Any, int, int, int]:
    """Return who holds an array's memory, where it begins, how many bytes it has, and where the array begins."""
    if isinstance(value, np.ndarray):
        root = value
        while isinstance(root.base, np.ndarray):
            root = root.base
        low, high = np.lib.array_utils.byte_bounds(root)
        return root, low, high - low if root.size else 0, value.__array_interface__["data"][0]
    storage: Any = value.untyped_storage() if hasattr(value, "untyped_storage") else None
    if hasattr(storage, "nbytes"):  # which a bare address has not that a library wraps
        if str(device_of(value)) == "meta":
            raise Unreadable(f"{name} is a meta tensor, which has no content. Remedy: a tensor on the CPU or a GPU")
        return value, storage.data_ptr(), storage.nbytes(), value.data_ptr()
    if hasattr(value, "__cuda_array_interface__"):
        start = value.__cuda_array_interface__["data"][0]
        return value, start, value.nbytes, start
    raise Unreadable(f"{name} is a {type(value).__name__}, whose memory cannot be found. Remedy: a tensor of PyTorch "
                     "or core, or an array of NumPy or CuPy")  # fmt: skip


@dataclass
class Call:
    """A launch as plain data. arguments : all of them by name. regions : bytes before it. names : of the arguments that
    point into each. grid, options : as it was launched. tables : addresses that lie in memory, as (region, offset) of
    where they lie and of what they point to. beyond : what it reads outside of the regions, which changes no result."""

    arguments: dict[str, Any]
    regions: list[np.ndarray]
    names: list[str]
    grid: tuple[int, ...]
    options: dict[str, Any]
    tables: list[tuple[int, int, int, int]] = field(default_factory=list)
    beyond: str = ""

    def views(self) -> Iterator[tuple[str, View]]:
        """Every pointer with its name, those in tuples and descriptors too."""
        for name, value in self.arguments.items():
            yield from views_of(name, value)

    def changed(self, arguments: Mapping[str, Any], grid: tuple[int, ...]) -> Call:
        """Return the launch with other arguments and another grid, on the same memory."""
        return replace(self, arguments={**self.arguments, **arguments}, grid=grid)


def views_of(name: str, value: Any) -> Iterator[tuple[str, View]]:
    """Yield the pointers of one argument."""
    if isinstance(value, View):
        yield name, value
    elif isinstance(value, Described):
        yield name, value.base
    elif isinstance(value, tuple):
        for i, each in enumerate(value):
            yield from views_of(f"{name}[{i}]", each)


def with_pointers(value: Any, pointer: Callable[[View], Any]) -> Any:
    """Return an argument with something in the place of each view."""
    if isinstance(value, View):
        return pointer(value)
    if isinstance(value, Described):
        return value.on(pointer(value.base))
    if isinstance(value, tuple):
        parts = [with_pointers(each, pointer) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


class Named(str):
    """Triton's name of a dtype, with what descriptors ask of a dtype."""

    @property
    def itemsize(self) -> int:
        return np.dtype(DTYPES[self]).itemsize

    @property
    def is_floating_point(self) -> bool:
        return str(self) in FLOATING


class Address:
    """A pointer as Triton takes it."""

    def __init__(self, address: int, dtype: str) -> None:
        self.address, self.dtype = address, Named(dtype)

    def data_ptr(self) -> int:
        return self.address

    def ptr_range(self) -> int:
        return 0


def laid(xp: Any, sizes: Sequence[int]) -> list[Any]:
    """Return an array of bytes for each region, aligned. xp : NumPy, or CuPy."""
    found = []
    for size in sizes:
        memory = xp.empty(size + ALIGNED, np.uint8)
        skip = -address_of(memory) % ALIGNED
        found.append(memory[skip : skip + size])
    return found


def address_of(array: Any) -> int:
    """Return where an array of NumPy or CuPy begins."""
    interface = getattr(array, "__cuda_array_interface__", None) or array.__array_interface__
    return int(interface["data"][0])
