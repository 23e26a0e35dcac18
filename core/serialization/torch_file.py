"""PyTorch's own files: a zip archive of a pickle and of the memory of its tensors. Read and written without pickle."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from ..base.errors import LoadError, text
from .pickling import Pickler
from .source import Source, broken
from .torch_tensors import Tensors, unpickled
from .unpickling import Stream
from .zipped import Archive, Writer


def read(source: Source, map_location: Any, mmap: bool, weights_only: bool = True) -> Any:
    """Return the object in a file that `torch.save` wrote. *Raises*: LoadError."""
    archive = Archive(source)
    names = archive.records
    root = next((name.partition("/")[0] for name in names if "/" in name), "")
    if f"{root}/data.pkl" not in names:
        what = "NumPy's .npz" if any(n.endswith(".npy") for n in names) else "a zip archive of another kind"
        raise LoadError(text(f"this is {what}, not a file of torch.save", op="load", came=source.name,
                             needed="a record data.pkl", remedy="numpy.load reads .npz"))  # fmt: skip
    if f"{root}/constants.pkl" in names:
        raise LoadError(text("this is a TorchScript archive, which holds a program", op="load", came=source.name,
                             remedy="torch.save(torch.jit.load(f).state_dict(), ...) in PyTorch"))  # fmt: skip
    order = archive.read(f"{root}/byteorder").decode("latin1") if f"{root}/byteorder" in names else "little"
    if order not in ("little", "big"):
        raise broken(f"the order of its bytes is {order[:20]!r}")
    mapped = source.mapped() if mmap and order == sys.byteorder else None

    def memory(key: str, dtype: np.dtype[Any], size_bytes: int) -> Any:
        found = archive.memory(f"{root}/data/{key}", mapped)
        if found.nbytes < size_bytes:
            raise broken(f"the memory {key[:40]!r} has {found.nbytes:,} bytes and is said to have {size_bytes:,}")
        return found if order == sys.byteorder else swapped(found, dtype)

    tensors = Tensors(map_location, memory)
    return unpickled(Stream.of(source, archive.read(f"{root}/data.pkl")), tensors, weights_only)


def swapped(memory: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> Any:
    """Memory of the other order of bytes, in this machine's."""
    size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    whole = memory[: memory.nbytes // size * size].view(np.dtype(f"u{size}"))
    return whole.byteswap().view(np.uint8)


def writer(obj: Any, name: str) -> Callable[[BinaryIO], None]:
    """Return a function that writes `obj` so that PyTorch reads it. *Raises*: TypeError for what no file should
    hold."""
    program, memories = Pickler().dumped(obj)

    def write(f: BinaryIO) -> None:
        archive = Writer(f)
        archive.record(f"{name}/data.pkl", program)
        archive.record(f"{name}/.format_version", b"1")
        archive.record(f"{name}/.storage_alignment", b"64")
        archive.record(f"{name}/byteorder", sys.byteorder.encode())
        for key, block in enumerate(memories):
            archive.record(f"{name}/data/{key}", block.bytes())
        archive.record(f"{name}/version", b"3\n")
        archive.close()

    return write
