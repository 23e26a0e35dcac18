"""The idx files of MNIST and its kin: a magic number, the sizes, the values.

*Source*: Y. LeCun, C. Cortes, C. Burges, "The MNIST database", file formats.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import text

_DTYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def contents(path: Path) -> bytes:
    """Return the bytes of a file, unpacked where it is gzip's.

    *Raises*: RuntimeError that names the file when it is no whole gzip file.
    """
    data = path.read_bytes()
    if data[:2] != b"\x1f\x8b":
        if path.suffix == ".gz":
            raise _broken(path, 0, f"the bytes {data[:2]!r}", "1f 8b, with which a gzip file begins")
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _broken(
            path, len(data), f"{error}", "a whole gzip file", "it was cut off or damaged: copy it anew"
        ) from None


def read_idx(path: Path, shape: tuple[int | None, ...] | None = None) -> Any:
    """Return the array that an idx file, plain or gzip, holds, in the machine's byte order.

    shape : what it must be; None stands for any size.

    *Raises*: RuntimeError that names file and byte for a wrong magic number, a truncated or a too long file, or another
    shape.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "labels")
    >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
    >>> read_idx(path)
    array([7, 9], dtype=uint8)
    """
    data = contents(path)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _DTYPES:
        raise _broken(path, 0, f"the magic number {data[:4].hex(' ') or 'of an empty file'}",
                      "00 00, a type of 08, 09, 0b, 0c, 0d or 0e, and the number of dimensions",
                      "is it an idx file?")  # fmt: skip
    dtype, ndim = np.dtype(_DTYPES[data[2]]), data[3]
    begin = 4 + 4 * ndim
    if len(data) < begin:
        raise _broken(path, len(data), "the end of the file", f"{ndim} sizes, up to byte {begin}")
    sizes = struct.unpack(f">{ndim}I", data[4:begin])
    if shape is not None and (
        len(shape) != ndim or any(s not in (None, n) for s, n in zip(shape, sizes, strict=False))
    ):
        want = "×".join("n" if s is None else str(s) for s in shape)
        raise _broken(path, 4, f"the sizes {'×'.join(map(str, sizes))}", want,
                      "images and labels mistaken for each other?")  # fmt: skip
    want_bytes = begin + math.prod(sizes) * dtype.itemsize
    if len(data) != want_bytes:
        extra = len(data) - want_bytes
        raise _broken(path, min(len(data), want_bytes), f"{extra} bytes more" if extra > 0 else "the end of the file",
                      f"{want_bytes} bytes for {'×'.join(map(str, sizes))} values", "copy the file anew")  # fmt: skip
    array = np.frombuffer(data, dtype, offset=begin).reshape(sizes)
    return array.astype(dtype.newbyteorder("="))


def _broken(path: Path, at: int, came: str, needed: str, remedy: str = "") -> RuntimeError:
    return RuntimeError(
        text(f"Dataset not found or corrupted. {path} is broken at byte {at}", op="idx", came=came, needed=needed,
             remedy=remedy)
    )  # fmt: skip
