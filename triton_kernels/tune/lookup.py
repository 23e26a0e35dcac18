"""Which config a kernel should take: the one stored for its shape, the nearest, or none. Never raises.

What is asked for twice costs one look into a dict (about 0.15 us). The first time for a shape the entries of
``best.json`` are searched: the exact shape, then one in the same bucket of powers of two, then the nearest; and behind
them those that ship with the package for the device (`bundled`).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import bundled, places
from .space import Config

VERSION = 1
FILE = "best.json"
_FARTHEST = 4.0  # powers of two by which the sizes may differ in all, for another shape's config to be taken
_BEHIND = 1.0  # powers of two by which a bundled config must be nearer than one of the user's own
_MOST = 1 << 16

_memo: dict[tuple[str, tuple[int, ...], str, str, Any], Config | None] = {}
_entries: list[dict[str, Any]] = []
_read: tuple[str, int, int] | None = None  # the file that `_entries` are from, when it was written and how long it is
on_change: list[Callable[[], object]] = []
"""Called when results have changed: launchers forget the launches that they have frozen."""


def best(
    kernel: str, shape: tuple[int, ...], dtype: str, device: str, source: str | Callable[[], str] = ""
) -> Config | None:
    """The config stored for a kernel at a shape on a device, or None; not to be changed by the caller.

    source : the hash of the kernel's text, or what computes it if there is a result to compare, and then nothing is
    remembered here; results of another text do not count.

    >>> best("no such kernel", (1, 2), "float32", "no such device") is None
    True
    """
    try:
        return _memo[kernel, shape, dtype, device, source]
    except KeyError:
        pass
    except TypeError:  # a shape that is no tuple
        return None
    found = _find(kernel, shape, dtype, device, source)
    if isinstance(source, str):  # kernels of one name may have several texts: a printed one has a form a layout
        if len(_memo) >= _MOST:
            _memo.clear()
        _memo[kernel, shape, dtype, device, source] = found
    return found


def forget() -> None:
    """Read the results anew at the next question, and tell whoever keeps what followed from the old ones."""
    global _read
    _memo.clear()
    bundled.entries.cache_clear()
    _read = None
    for tell in on_change:
        tell()


def entries(path: Path | None = None) -> list[dict[str, Any]]:
    """The entries of a ``best.json``; none where it is missing, broken or of a newer version."""
    try:
        content = json.loads((path or places.data_folder() / FILE).read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("version") != VERSION:
            return []
        return [e for e in content["entries"] if _whole(e)]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def _whole(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(name), str) for name in ("kernel", "dtype", "device", "source"))
        and isinstance(entry.get("config"), dict)
        and isinstance(entry.get("shape"), list)
        and all(isinstance(n, int) and n > 0 for n in entry["shape"])
    )


def _find(
    kernel: str, shape: tuple[int, ...], dtype: str, device: str, source: str | Callable[[], str]
) -> Config | None:
    _refresh()
    near: list[tuple[float, int, Config]] = []
    for entries, behind in ((_entries, 0.0), (bundled.entries(device), _BEHIND)):
        for entry in entries:
            if (entry["kernel"], entry["dtype"], entry["device"]) != (kernel, dtype, device):
                continue
            if len(entry["shape"]) != len(shape):
                continue
            source = source if isinstance(source, str) else source()
            if source and entry["source"] != source:
                continue
            apart = distance(shape, tuple(entry["shape"]))
            if apart <= _FARTHEST:
                near.append((apart + behind, len(near), entry["config"]))
    return dict(min(near)[2]) if near else None


def distance(a: tuple[int, ...], b: tuple[int, ...]) -> float:
    """How far apart two shapes are: the sum of the logarithms of their ratios; less than any other in one bucket.

    >>> distance((512, 512), (512, 1024)), distance((512, 500), (512, 512)) < 0.01
    (1.0, True)
    """
    if a == b:
        return 0.0
    apart = sum(abs(math.log2(max(n, 1) / max(m, 1))) for n, m in zip(a, b, strict=True))
    return apart / 1000.0 if bucket(a) == bucket(b) else apart


def bucket(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Each size as the next power of two.

    >>> bucket((512, 500, 3))
    (512, 512, 4)
    """
    return tuple(1 << max(n - 1, 0).bit_length() for n in shape)


def _refresh() -> None:
    """Read the file if it is not the one that was read last."""
    global _entries, _read
    try:
        path = places.data_folder() / FILE
        found = os.stat(path)
    except (OSError, RuntimeError):
        _entries, _read = [], None
        return
    stamp = (str(path), found.st_mtime_ns, found.st_size)
    if stamp != _read:
        _entries, _read = entries(path), stamp
