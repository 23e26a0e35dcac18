"""Which config a kernel should take: the one stored for its shape, the nearest, or none. Never raises.

What is asked for twice costs one look into a dict (about 0.15 us). The first time for a shape the entries of
``best.json`` are searched: the exact shape, then one in the same bucket of powers of two, then the nearest; and behind
them those that ship with the package for the device (`bundled`). Another shape's config is for kernels that are right
at any shape with any of their configs, as those of this project are. For all others a call is named (`calls`), and
only what was checked at that very call is found.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import bundled, calls, places
from .space import Config

VERSION = 1
FILE = "best.json"
SAME = ("kernel", "dtype", "device", "shape", "mode")
"""What two choices have in common where the later takes the place of the earlier."""
_FARTHEST = 4.0  # powers of two by which the sizes may differ in all, for another shape's config to be taken
_BEHIND = 1.0  # powers of two by which a bundled config must be nearer than one of the user's own
_MOST = 1 << 16

_memo: dict[tuple[str, tuple[int, ...], str, str, Any, str | None], Config | None] = {}
_entries: list[dict[str, Any]] = []
_held: list[tuple[str, dict[str, Any]]] = []  # by folder, what this process has chosen and could not write there
_read: tuple[str, int, int] | None = None  # the file that `_entries` are from, when it was written and how long it is
on_change: list[Callable[[], object]] = []
"""Called when results have changed: launchers forget the launches that they have frozen."""


class Chosen(dict[str, Any]):
    """A config that was found; `grid` is how many programs it was checked with, where that is known."""

    grid: tuple[int, ...] | None = None


def best(
    kernel: str,
    shape: tuple[int, ...],
    dtype: str,
    device: str,
    source: str | Callable[[], str] = "",
    call: str | None = None,
) -> Config | None:
    """Return the config stored for a kernel at a shape on a device, or None; not to be changed by the caller.

    source : the hash of the kernel's text, or what computes it if there is a result to compare, and then nothing is
    remembered here; results of another text do not count. call : as `calls.of` names it, and then no other call's
    config is given; None for a kernel that is right at any shape with any of its configs.

    >>> best("no such kernel", (1, 2), "float32", "no such device") is None
    True
    """
    try:
        return _memo[kernel, shape, dtype, device, source, call]
    except KeyError:
        pass
    except TypeError:  # a shape that is no tuple
        return None
    found = _find(kernel, shape, dtype, device, source, call)
    if isinstance(source, str):  # kernels of one name may have several texts: a printed one has a form a layout
        if len(_memo) >= _MOST:
            _memo.clear()
        _memo[kernel, shape, dtype, device, source, call] = found
    return found


def forget() -> None:
    """Read the results anew at the next question, and tell whoever keeps what followed from the old ones."""
    global _read
    _memo.clear()
    bundled.entries.cache_clear()
    _read = None
    for tell in on_change:
        tell()


def hold(folder: Path, entry: dict[str, Any]) -> None:
    """Have this process find a choice that could not be written into a store's folder."""
    _held[:] = [h for h in _held if h[0] != str(folder) or any(h[1].get(name) != entry[name] for name in SAME)]
    _held.append((str(folder), entry))


def _held_here() -> list[dict[str, Any]]:
    return [entry for folder, entry in _held if folder == str(places.data_folder())] if _held else []


def entries(path: Path | None = None) -> list[dict[str, Any]]:
    """Return the entries of a ``best.json``; none where it is missing, broken or of a newer version."""
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
    kernel: str, shape: tuple[int, ...], dtype: str, device: str, source: str | Callable[[], str], call: str | None
) -> Config | None:
    _refresh()
    near: list[tuple[float, int, Config]] = []
    for entries, behind in ((_held_here(), 0.0), (_entries, 0.0), (bundled.entries(device), _BEHIND)):
        for entry in entries:
            if (entry["kernel"], entry["dtype"], entry["device"]) != (kernel, dtype, device):
                continue
            if len(entry["shape"]) != len(shape):
                continue
            if call is not None and calls.served(str(entry.get("mode", ""))) != call:
                continue
            source = source if isinstance(source, str) else source()
            if source and entry["source"] != source:
                continue
            apart = distance(shape, tuple(entry["shape"]))
            if apart <= _FARTHEST:
                config = Chosen(entry["config"])
                config.grid = tuple(entry["grid"]) if isinstance(entry.get("grid"), list) else None
                near.append((apart + behind, len(near), config))
    return min(near)[2] if near else None


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
