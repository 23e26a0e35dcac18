"""What this machine can do at most: copied bytes and operations of a float32 product a second, measured and kept.

The figures are measured when a card is first drawn, after the cell, in less than 0.3 s, and kept in the user's private
cache under the machine's name and its number of threads. A busy machine measures too little, so the first few sessions
measure again and the best counts, and so does a product of the user's own that was quicker.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Callable
from functools import cache, partial
from time import perf_counter
from typing import Any

import numpy as np

from core import backends, native
from core.backends import products
from core.declare.compile_c import cache_folder
from widgets.record import Machine, Record

SESSIONS = 3
SECONDS = 0.05  # for each of the two
COPIED = 1 << 25  # bytes of each array: more than most caches hold
SIDE = 512  # of the matrices
LONG_MS = 1.0
_measured: set[str] = set()  # keys that this process has measured
_repeated: set[str] = set()


@cache
def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            named = (line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
            return next(named, "") or platform.machine()
    except OSError:
        return platform.processor() or platform.machine()


def _this(device: str) -> Machine | None:
    """Return the machine without figures; None for one that has none of its own, as an interpreted GPU."""
    if device != "cuda":
        threads = native.module.get_num_threads() if native.module is not None else 1
        return Machine(_processor(), device, threads)
    try:
        xp = backends.array_module(device)
        if xp is np:
            return None
        name = xp.cuda.runtime.getDeviceProperties(xp.cuda.Device().id)["name"]
    except Exception:  # no GPU, or a library that does not answer: then nothing is known
        return None
    return Machine(name.decode() if isinstance(name, bytes) else str(name), device)


def known(device: str) -> Machine | None:
    """Return what is known of the machine, without measuring; None where nothing is."""
    machine = _this(device)
    if machine is None:
        return None
    entry = _read().get(_key(machine))
    if not isinstance(entry, dict):
        return None
    try:
        machine.bytes_per_s = float(entry["bytes_per_s"])
        machine.flops_per_s = {str(k): float(v) for k, v in entry["flops_per_s"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):  # not ours, or an older form
        return None
    return machine


def measured(device: str, again: bool = False) -> Machine | None:
    """Return what the machine can do, measured now where that has not been done often enough, or `again`."""
    machine = _this(device)
    if machine is None:
        return None
    key = _key(machine)
    before = known(device)
    entries = _read()
    entry = entries.get(key)
    times = entry.get("times", 0) if before is not None and isinstance(entry, dict) else 0
    if not again and (key in _measured or (before is not None and times >= SESSIONS)):
        return before
    _measured.add(key)
    work = _work(device)
    machine.bytes_per_s = max(_best(*work["copy"]), before.bytes_per_s if before else 0.0)
    for dtype in work:
        if dtype != "copy":
            was = before.flops_per_s.get(dtype, 0.0) if before else 0.0
            machine.flops_per_s[dtype] = max(_best(*work[dtype]), was)
    _keep(machine, int(times) + 1)
    return machine


def _keep(machine: Machine, times: int) -> None:
    figures = {"bytes_per_s": machine.bytes_per_s, "flops_per_s": machine.flops_per_s, "times": times}
    _write({**_read(), _key(machine): figures})


def add(record: Record) -> None:
    """Put what the machine can do into a record, measured if need be; a failure leaves it unsaid."""
    if record.machine is not None or not record.kernels:
        return
    try:
        machine = measured(record.device)
        if machine is not None and _passed(record, machine):
            # the measurement came at a bad time: once more, and where a kernel is still quicker, it is the measure
            key = _key(machine)
            if key not in _repeated:
                _repeated.add(key)
                machine = measured(record.device, again=True) or machine
            passed = _passed(record, machine)
            machine.flops_per_s |= passed
            if passed:
                _keep(machine, SESSIONS)
        record.machine = machine
    except Exception:  # the card is worth more than its scale
        record.machine = None


def _passed(record: Record, machine: Machine) -> dict[str, float]:
    """Return what kernels reached beyond the peak, by dtype, of those whose time is long enough to mean something."""
    passed: dict[str, float] = {}
    for k in record.kernels:
        peak = machine.flops_per_s.get(k.dtype)
        if peak and k.flops_per_s and k.flops_per_s > peak and k.device == machine.device and k.total_ms > LONG_MS:
            passed[k.dtype] = max(passed.get(k.dtype, 0.0), k.flops_per_s)
    return passed


# -- measuring ---------------------------------------------------------------------------------------------------------


def _work(device: str) -> dict[str, tuple[Callable[[], object], float, Callable[[], object]]]:
    """Return what is measured: the work, how much of it there is, and what waits for it."""
    if device == "cuda":
        xp: Any = backends.array_module(device)
        size, side = 1 << 28, 4096
        a, b = xp.ones(size, xp.uint8), xp.ones(size, xp.uint8)
        wait = xp.cuda.Device().synchronize
        found: dict[str, Any] = {"copy": (lambda: xp.copyto(b, a), 2 * size, wait)}
        for dtype in ("float32", "float16"):
            m = xp.ones((side, side), dtype)
            out = xp.empty((side, side), dtype)
            found[dtype] = (partial(xp.matmul, m, m, out=out), 2 * side**3, wait)
        return found
    # not zeros: those are one page of memory, which stays in the cache
    x, y = np.ones(COPIED // 4, np.float32), np.ones(COPIED // 4, np.float32)
    negate = native.module.maps.get(("neg", "f")) if native.module is not None else None  # it uses all threads
    copy: Any = (lambda: negate.into(y, x)) if negate is not None else (lambda: np.copyto(y, x))
    b = np.ones((SIDE, SIDE), np.float32)
    wait = lambda: None
    return {
        "copy": (copy, 2 * COPIED, wait),
        "float32": (lambda: products.product(b, b), 2 * SIDE**3, wait),
    }


def _best(work: Callable[[], object], amount: float, wait: Callable[[], object]) -> float:
    """Return the amount a second of the quickest run within `SECONDS`."""
    work()
    wait()
    best, end = 0.0, perf_counter() + SECONDS
    while not best or perf_counter() < end:
        start = perf_counter()
        work()
        wait()
        best = max(best, amount / (perf_counter() - start))
    return best


# -- the file ----------------------------------------------------------------------------------------------------------


def _key(machine: Machine) -> str:
    return f"{platform.node()} · {machine.name} · {machine.threads} threads · {machine.device}"


def _read() -> dict[str, Any]:
    try:
        found = json.loads((cache_folder() / "peaks.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):  # not there, damaged, or in a folder of somebody else's
        return {}
    return found if isinstance(found, dict) else {}


def _write(entries: dict[str, Any]) -> None:
    """Write the file whole or not at all: another session may read at the same time."""
    try:
        folder = cache_folder()
        handle, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(entries, file)
        os.replace(temporary, folder / "peaks.json")
    except (OSError, RuntimeError):  # a disk that takes nothing: it is measured again next time
        pass
