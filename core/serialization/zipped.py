"""Zip archives as PyTorch's: records that are stored as they are, side by side.

Whoever reads one checks every place before anything is read, so that no record is larger than the file or lies over
another. Source: PKWARE's APPNOTE.TXT 6.3, sections 4.3 and 4.5.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..base.errors import LoadError, text
from .source import Source, broken

_LOCAL, _CENTRAL, _END, _END64, _WHERE64 = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_LIMIT = 0xFFFF_FFFF  # from here on a number stands in a field of 64 bits
_ALIGNMENT = 64  # of records, so that they can be mapped into memory


class Record(NamedTuple):
    """A file in the archive."""

    offset: int
    size_bytes: int
    crc: int
    packed: str  # what was done to the bytes, if they are not stored as they are


class Archive:
    """The records of an archive by name."""

    def __init__(self, source: Source) -> None:
        self.source = source
        tail = source.read(max(0, source.size - 65_557), min(source.size, 65_557))
        at = tail.rfind(_END)
        if at < 0 or at + 22 > len(tail):
            raise broken("a zip archive without its end: it was cut off while it was written or copied")
        count, size, start = struct.unpack("<HII", tail[at + 10 : at + 20])
        place = source.size - len(tail) + at
        if at >= 20 and tail[at - 20 : at - 16] == _WHERE64:
            (place,) = struct.unpack("<Q", tail[at - 12 : at - 4])
            end = source.read(place, 56)
            if end[:4] != _END64:
                raise broken("the 64-bit end of the zip archive is not where it is said to be")
            count, size, start = struct.unpack("<QQQ", end[32:56])
        if start + size > place or count * 46 > size:
            raise broken("the list of the zip archive's records is not where it is said to be")
        self.records = self._central(source.read(start, size), count)
        end_of_last = 0
        for name, (header, record) in sorted(self._places.items(), key=lambda item: item[1][0]):
            if header < end_of_last or record.offset + record.size_bytes > start:
                raise broken(f"the record {name[:80]!r} lies over another")
            end_of_last = record.offset + record.size_bytes

    def _central(self, data: bytes, count: int) -> dict[str, Record]:
        self._places: dict[str, tuple[int, Record]] = {}
        at = 0
        for _ in range(count):
            fields = data[at : at + 46]
            if len(fields) < 46 or fields[:4] != _CENTRAL:
                raise broken("the list of the zip archive's records is cut off")
            flags, method = struct.unpack("<HH", fields[8:12])
            crc, packed, size, name_n, extra_n, note_n = struct.unpack("<IIIHHH", fields[16:34])
            (header,) = struct.unpack("<I", fields[42:46])
            raw = data[at + 46 : at + 46 + name_n]
            extra = data[at + 46 + name_n : at + 46 + name_n + extra_n]
            at += 46 + name_n + extra_n + note_n
            packed, size, header = _wide(extra, packed, size, header)
            name = raw.decode("utf-8", "replace")
            how = "encrypted" if flags & 1 else "compressed" if method or packed != size else ""
            if name in self._places:
                raise broken(f"the record {name[:80]!r} stands twice")
            self._places[name] = (header, Record(self._data(name, raw, header), packed, crc, how))
        return {name: record for name, (_, record) in self._places.items()}

    def _data(self, name: str, raw: bytes, header: int) -> int:
        """Return where the bytes of a record begin: after its own header."""
        local = self.source.read(header, 30)
        name_n, extra_n = struct.unpack("<HH", local[26:30])
        if local[:4] != _LOCAL or self.source.read(header + 30, name_n) != raw:
            raise broken(f"the record {name[:80]!r} is not where it is said to be")
        return int(header + 30 + name_n + extra_n)

    def _found(self, name: str) -> Record:
        record = self.records.get(name)
        if record is None:
            raise broken(f"it lacks the record {name[:80]!r}")
        if record.packed:
            raise LoadError(text(f"the record {name[:80]!r} is {record.packed}", op="load",
                                 needed="records stored as they are, as torch.save writes them",
                                 remedy="unpack it and pack it again with zip -0"))  # fmt: skip
        return record

    def read(self, name: str) -> bytes:
        """Return the bytes of a record."""
        return self.memory(name).tobytes()

    def memory(self, name: str, mapped: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """Return the bytes of a record as memory of its own, or as a part of the mapped file, which is then not
        checked."""
        record = self._found(name)
        if mapped is not None and record.offset % 8 == 0:
            return mapped[record.offset : record.offset + record.size_bytes]
        out = np.empty(record.size_bytes, np.uint8)
        self.source.into(record.offset, out)
        if record.crc and zlib.crc32(out.data) != record.crc:  # 0: PyTorch was told to leave it out
            raise broken(f"the bytes of {name[:80]!r} are not those that were written")
        return out


def _wide(extra: bytes, packed: int, size: int, header: int) -> tuple[int, int, int]:
    """Return the sizes and the place, with those that stand in the field for 64-bit numbers."""
    at = 0
    while at + 4 <= len(extra):
        kind, n = struct.unpack("<HH", extra[at : at + 4])
        if kind == 1:
            numbers = [int(v) for (v,) in struct.iter_unpack("<Q", extra[at + 4 : at + 4 + n // 8 * 8])]
            wanted = [v == _LIMIT for v in (size, packed, header)]
            if sum(wanted) > len(numbers):
                raise broken("a zip record lacks its 64-bit sizes")
            size = numbers.pop(0) if wanted[0] else size
            packed = numbers.pop(0) if wanted[1] else packed
            header = numbers.pop(0) if wanted[2] else header
            break
        at += 4 + n
    return packed, size, header


class Writer:
    """Writes records one after another, without going back, so that any stream will do."""

    def __init__(self, f: BinaryIO) -> None:
        self.f, self.at = f, 0
        self.central: list[bytes] = []

    def _write(self, data: Any) -> None:
        self.f.write(data)
        self.at += len(data)

    def record(self, name: str, data: Any) -> None:
        """A record with these bytes, aligned."""
        data = memoryview(data)
        size, crc, raw, header = len(data), zlib.crc32(data), name.encode(), self.at
        wide = struct.pack("<HHQQ", 1, 16, size, size) if size >= _LIMIT else b""
        body = header + 30 + len(raw) + len(wide) + 4
        padding = b"FB" + struct.pack("<H", -body % _ALIGNMENT) + b"Z" * (-body % _ALIGNMENT)
        said = min(size, _LIMIT)
        common = struct.pack("<HHHHHIII", 0, 0x0800, 0, 0, 0x21, crc, said, said)  # 1980-01-01: the bytes tell no time
        self._write(_LOCAL + common + struct.pack("<HH", len(raw), len(wide) + len(padding)) + raw + wide + padding)
        self._write(data)
        far = struct.pack("<Q", header) if header >= _LIMIT else b""
        extra = wide[4:] + far
        extra = struct.pack("<HH", 1, len(extra)) + extra if extra else b""
        self.central.append(
            _CENTRAL + struct.pack("<H", 0) + common
            + struct.pack("<HHHHHII", len(raw), len(extra), 0, 0, 0, 0, min(header, _LIMIT)) + raw + extra
        )  # fmt: skip

    def close(self) -> None:
        """Write the list of the records."""
        start = self.at
        for entry in self.central:
            self._write(entry)
        size, count = self.at - start, len(self.central)
        if start >= _LIMIT or size >= _LIMIT or count >= 0xFFFF:
            place = self.at
            self._write(_END64 + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, size, start))
            self._write(_WHERE64 + struct.pack("<IQI", 0, place, 1))
        self._write(_END + struct.pack("<HHHHIIH", 0, 0, min(count, 0xFFFF), min(count, 0xFFFF), min(size, _LIMIT),
                                       min(start, _LIMIT), 0))  # fmt: skip
