"""The safetensors format: a length, a JSON header, and the bytes of the tensors, without gaps.

Source: github.com/huggingface/safetensors, "Format". Written files equal that library's byte by byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, BinaryIO, NamedTuple

import ml_dtypes
import numpy as np

from ..base.errors import LoadError, text
from .source import Source, broken

# in the library's order, by which it sorts the tensors of a file (the last ones come first, for their alignment)
DTYPES = {
    name: np.dtype(d)
    for name, d in {
        "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "F8_E5M2": ml_dtypes.float8_e5m2,
        "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
        "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "F8_E8M0": ml_dtypes.float8_e8m0fnu, "I16": np.int16,
        "U16": np.uint16, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "I32": np.int32, "U32": np.uint32,
        "F32": np.float32, "C64": np.complex64, "F64": np.float64, "I64": np.int64, "U64": np.uint64,
    }.items()
}  # fmt: skip
NAMES = {d: name for name, d in DTYPES.items()}
_RANK = {name: k for k, name in enumerate(DTYPES)}
_MAX_HEADER = 100_000_000  # the library's own limit


class Entry(NamedTuple):
    """A tensor of a file that is written: its bytes are read when their turn comes."""

    key: str
    dtype: str
    shape: tuple[int, ...]
    data: Any  # a function of no arguments that gives the bytes

    @property
    def size_bytes(self) -> int:
        n = DTYPES[self.dtype].itemsize
        for d in self.shape:
            n *= d
        return n


class Part(NamedTuple):
    """A tensor of a file that is read."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    size_bytes: int


def write(f: BinaryIO, entries: Iterable[Entry], metadata: dict[str, str] | None = None) -> None:
    """Write the tensors, one at a time."""
    ordered = sorted(entries, key=lambda e: (-_RANK[e.dtype], e.key))
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    at = 0
    for e in ordered:
        header[e.key] = {"dtype": e.dtype, "shape": list(e.shape), "data_offsets": [at, at + e.size_bytes]}
        at += e.size_bytes
    try:
        said = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise ValueError(text("a key or string has half a surrogate pair, which UTF-8 cannot hold", op="save",
                              came=repr(error.object[error.start : error.end]),
                              remedy="save as .pt"))  from None  # fmt: skip
    said += b" " * (-len(said) % 8)
    if len(said) > _MAX_HEADER:
        raise ValueError(text("the header of a safetensors file is limited to 100 MB", op="save",
                              came=f"{len(said):,} bytes of names and plain values",
                              remedy="save long lists of numbers as a tensor"))  # fmt: skip
    f.write(len(said).to_bytes(8, "little") + said)
    for e in ordered:
        data = memoryview(e.data()).cast("B") if e.size_bytes else b""
        if len(data) != e.size_bytes:
            raise AssertionError(f"{e.key}: {len(data)} bytes for {e.size_bytes}")
        f.write(data)


def looks_like(start: bytes, size: int) -> bool:
    """Return whether the first nine bytes of a file are those of this format."""
    return len(start) >= 9 and start[8:9] == b"{" and int.from_bytes(start[:8], "little") <= size - 8


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _whole(x: Any) -> bool:
    return type(x) is int and 0 <= x < 2**63


def read_header(source: Source) -> tuple[dict[str, Part], dict[str, str]]:
    """Return the tensors of a file by name, and its metadata; every place is checked, so that nothing overlaps.

    *Raises*: LoadError.
    """
    n = int.from_bytes(source.read(0, 8), "little")
    if n > min(_MAX_HEADER, source.size - 8):
        raise broken(f"its header is said to have {n:,} bytes, and the file has {source.size:,}")
    try:
        header = json.loads(source.read(8, n).decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise broken(f"its header cannot be read ({type(error).__name__}: {str(error)[:200]})") from None
    if not isinstance(header, dict):
        raise broken("its header is no JSON object")
    metadata = header.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise broken("its metadata are not texts")
    parts = {key: _part(key, said, 8 + n) for key, said in header.items()}
    at = 8 + n
    for key, part in sorted(parts.items(), key=lambda kv: (kv[1].offset, kv[1].size_bytes)):
        if part.offset != at:
            raise broken(f"the bytes of {key!r} begin at {part.offset:,}, and those before it end at {at:,}")
        at += part.size_bytes
    if at != source.size:
        raise broken(f"its tensors end at {at:,}, and the file has {source.size:,} bytes")
    return parts, metadata


def _part(key: str, said: Any, base: int) -> Part:
    if not isinstance(said, dict) or {"dtype", "shape", "data_offsets"} - set(said):
        raise broken(f"{key!r} lacks its dtype, shape or place")
    name, shape, places = said["dtype"], said["shape"], said["data_offsets"]
    if not isinstance(name, str) or name not in DTYPES:
        raise LoadError(text(f"{key!r} has the dtype {str(name)[:40]!r}, which NumPy and ml_dtypes lack", op="load",
                             needed=", ".join(DTYPES)))  # fmt: skip
    if not isinstance(shape, list) or len(shape) > 64 or not all(map(_whole, shape)):
        raise broken(f"{key!r} has the shape {str(shape)[:80]}")
    if not isinstance(places, list) or len(places) != 2 or not all(map(_whole, places)) or places[0] > places[1]:
        raise broken(f"{key!r} is said to be at {str(places)[:80]}")
    d, count = DTYPES[name], 1
    for size in shape:
        count *= size
    if count * d.itemsize != places[1] - places[0]:
        raise broken(f"{key!r} of {name} {shape} needs {count * d.itemsize:,} bytes and has {places[1] - places[0]:,}")
    return Part(d, tuple(shape), base + places[0], places[1] - places[0])
