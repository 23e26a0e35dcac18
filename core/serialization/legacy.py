"""The files that PyTorch wrote before 1.6: five pickles, then the memory of the tensors, one after another."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..base.errors import LoadError, text
from .source import Source, broken
from .torch_file import swapped
from .torch_tensors import Tensors, unpickled
from .unpickling import Machine, Stream

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001


def _refuse(*args: Any) -> Any:
    raise broken("its head is not what PyTorch writes")


def _plain(stream: Stream) -> Any:
    """Return a pickle without names, tensors or calls."""
    return Machine(stream, find=_refuse, call=_refuse, new=_refuse, build=_refuse,
                   persistent=_refuse).run()  # fmt: skip


def read(source: Source, map_location: Any, mmap: bool, weights_only: bool = True) -> Any:
    """Return the object in such a file. *Raises*: LoadError."""
    stream = Stream(source, 0, source.size)
    try:
        magic = _plain(stream)
    except LoadError:
        magic = None
    if magic != _MAGIC:
        phrase = "this is a pickle that torch.save did not write, and no pickle's code runs here"
        raise LoadError(text(phrase, op="load", came=source.name, remedy="pickle.load, if you trust the file"))
    if mmap:
        raise LoadError(text("mmap can only be used with files saved with "
                             "`torch.save(_use_new_zipfile_serialization=True)`", op="load", came=source.name,
                             remedy="mmap=False, or save it again"))  # fmt: skip
    if _plain(stream) != _PROTOCOL:
        raise broken("its protocol is not 1001")
    system = _plain(stream)
    little = system.get("little_endian") if isinstance(system, dict) else None
    if type(little) is not bool:
        raise broken("it does not say the order of its bytes")
    begin, order = stream.at, "little" if little else "big"
    # The memory comes after the object and can only be found when all dtypes are known: so the object is made twice.
    kinds: dict[str, tuple[np.dtype[Any], int]] = {}
    left = source.size

    def measured(key: str, dtype: np.dtype[Any], size_bytes: int) -> Any:
        nonlocal left
        left -= size_bytes
        if left < 0:
            raise broken("its tensors are said to have more bytes than the file")
        kinds[key] = (dtype, size_bytes)
        return np.empty(size_bytes, np.uint8)

    unpickled(stream, Tensors("cpu", measured), weights_only)
    names = _plain(stream)
    if not isinstance(names, list) or not all(isinstance(k, str) and k in kinds for k in names):
        raise broken("its list of memory is not that of its tensors")
    memory: dict[str, Any] = {}
    at = stream.at
    for key in names:
        dtype, size_bytes = kinds[key]
        if int.from_bytes(source.read(at, 8), order) * dtype.itemsize != size_bytes:  # type: ignore[arg-type]
            raise broken(f"the memory {key[:40]!r} has another size than its tensors need")
        root = np.empty(size_bytes, np.uint8)
        source.into(at + 8, root)
        memory[key] = root if order == sys.byteorder else swapped(root, dtype)
        at += 8 + size_bytes

    def found(key: str, dtype: np.dtype[Any], size_bytes: int) -> Any:
        if key not in memory:
            raise broken(f"it lacks the memory {key[:40]!r}")
        return memory[key]

    return unpickled(Stream(source, begin, source.size), Tensors(map_location, found), weights_only)
