"""What a rank does while a cell runs: collectives, optimizer's steps, batches, lines. Plain data, for a card of all.

A `RankLog` follows the program once a step and once a collective, and no ops, so that it costs hardly anything. Times
are those of this process's `time.perf_counter`; whoever compares ranks knows how far their clocks are apart.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
import threading
import time
import weakref
import zlib
from functools import cache
from types import FrameType
from typing import Any

import numpy as np

from ..base import source
from ..base.modes import state as mode
from ..events import observe
from ..nn.modules import everywhere
from ..nn.modules.module import Module
from ..tensors.tensor import Tensor
from . import reducer

__all__ = ["ROW", "RankLog"]

ROW = ("number", "group", "sequence", "op", "bytes", "bucket", "site", "begun", "waits", "done", "failed")
"""What the columns of a row are: one operation between processes."""

ROWS, CALLS, PARAMETERS, STEPS = 20_000, 64, 400, 64  # so many are kept at most; every STEPS-th step is compared
PIECE, PIECES = 1 << 14, 64  # of what is longer than 1 MiB the checksum takes so many pieces of so many bytes
LOOKS_S = 0.02  # between looks at the line
PAIRS = ("send", "recv", "isend", "irecv")
_LIBRARY = tuple(sysconfig.get_path(kind) + os.sep for kind in ("stdlib", "purelib"))
_REDUCER = vars(reducer)
_CELL = re.compile(r"In \[\d+\]")


def checksum(a: Any) -> int:
    """Return a number that is the same for the same bits: of all of a small array, of pieces of a large one.

    >>> checksum(np.arange(3)) == checksum(np.arange(3)), checksum(np.arange(3)) == checksum(np.arange(1, 4))
    (True, False)
    """
    a = np.ascontiguousarray(a)
    if not a.nbytes:
        return 0
    flat = a.reshape(-1).view(np.uint8)
    if flat.size <= PIECE * PIECES:
        return zlib.crc32(flat)
    found = 0
    for begin in np.linspace(0, flat.size - PIECE, PIECES, dtype=np.int64).tolist():
        found = zlib.crc32(flat[begin : begin + PIECE], found)
    return found


def users_frame(frame: FrameType | None) -> FrameType | None:
    """Return the nearest frame of a cell, outwards from `frame`; without one the nearest of the user's files."""
    other = None
    while frame is not None:
        kind = _kind(frame.f_code.co_filename)
        if kind == "cell":
            return frame
        if other is None and kind == "file":
            other = frame
        frame = frame.f_back
    return other


@cache
def _kind(name: str) -> str:
    """Return what a file is: a cell, a file of the user's, or neither."""
    if _CELL.fullmatch(name):
        return "cell"
    return "file" if os.path.isabs(name) and not (source.is_ours(name) or name.startswith(_LIBRARY)) else ""


class RankLog(observe.Follower):
    """Hears a program between `start` and `stop`. `space` are the user's variables, by which parameters have names."""

    def __init__(self, space: dict[str, Any]) -> None:
        self.space = space
        self.rows: list[list[Any]] = []
        self.sites: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.calls: list[list[Any]] = []  # of the outermost module, the first for training: time, items, checksum, site
        self.passes = self.stepped_n = self.left_out = 0
        self.lines: dict[int, list[float]] = {}  # site → seconds of its own, seconds in which it waits for others
        self.blocked: list[Any] = []  # the work that is waited for
        self.started = self.stopped = 0.0
        self.error = ""
        self._known: dict[tuple[str, int, str], int] = {}
        self._of: dict[int, list[Any]] = {}  # id of a work → its row
        self._groups: dict[int, tuple[Any, list[int], str]] = {}
        self._count: dict[str, int] = {}  # of collectives of a group
        self._changed: dict[int, list[Any]] = {}
        self._names: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._seen: weakref.WeakSet[Module] = weakref.WeakSet()
        self._optimizers: dict[int, tuple[int, int]] = {}
        self._depth, self._handles, self._end = 0, [], threading.Event()  # type: int, list[Any], threading.Event
        self._lock = threading.Lock()
        self._main = threading.main_thread().ident
        self._watch: threading.Thread | None = None

    def failed(self, error: Exception) -> None:
        """Keep what ended it: the card says so."""
        self.error = f"{type(error).__name__}: {error}"

    # -- begin and end -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to hear."""
        observe.follow(self)
        self._handles = [everywhere.register_module_forward_pre_hook(self._called),
                         everywhere.register_module_forward_hook(self._returned, always_call=True)]  # fmt: skip
        self._watch = threading.Thread(target=self._look, name="core.distributed.rank_log", daemon=True)
        self.started = time.perf_counter()
        self._watch.start()

    def stop(self) -> None:
        """Hear no more."""
        self.stopped = time.perf_counter()
        observe.unfollow(self)
        self._unhook()
        self._end.set()
        if self._watch is not None:
            self._watch.join()

    def _unhook(self) -> None:
        for handle in self._handles:
            handle.remove()

    def told(self) -> dict[str, Any]:
        """Return what was heard, as plain data."""
        return {"steps": self.steps, "calls": self.calls,
                "passes": self.passes, "stepped": self.stepped_n,
                "left_out": self.left_out, "lines": [[k, *map(float, v)] for k, v in self.lines.items()],
                "final": self._final(), "loaders": self._loaders(), "seed": _seed(),
                "error": self.error}  # fmt: skip

    def changed(self) -> dict[str, Any]:
        """Return the rows that have changed since the last call, and where the program is."""
        with self._lock:
            rows, self._changed = [list(r) for r in self._changed.values()], {}
        span = self.started, self.stopped or time.perf_counter()
        return {"rows": rows, "sites": list(self.sites), "place": self.place(), "span": span}

    # -- places --------------------------------------------------------------------------------------------------------

    def site(self, frame: FrameType | None) -> int:
        """Return the number of the user's line; -1 where there is none."""
        frame = users_frame(frame)
        if frame is None:
            return -1
        key = frame.f_code.co_filename, frame.f_lineno, ""
        if key not in self._known:
            self._known[key] = len(self.sites)
            self.sites.append({"file": key[0], "line": key[1], "text": linecache.getline(*key[:2]).strip()[:160]})
        return self._known[key]

    def place(self) -> dict[str, Any]:
        """Return the line on which the program is, with the operation that it waits for."""
        if self.stopped:
            return {}
        k = self.site(sys._current_frames().get(self._main or 0))
        found = dict(self.sites[k]) if k >= 0 else {}
        if self.blocked and (row := self._of.get(id(self.blocked[-1]))) is not None:
            found |= {"op": row[3], "number": row[0]}
        return found

    def _look(self) -> None:
        """Note again and again on which line the program is."""
        before = time.perf_counter()
        while not self._end.wait(LOOKS_S):
            now = time.perf_counter()
            k = self.site(sys._current_frames().get(self._main or 0))
            if k >= 0:
                self.lines.setdefault(k, [0.0, 0.0])[bool(self.blocked)] += now - before
            before = now

    # -- operations between processes ----------------------------------------------------------------------------------

    def collective(self, work: Any, what: str) -> None:
        """Note an operation between processes."""
        now = time.perf_counter()
        if what == "begun":
            self._begun(work, now)
            return
        row = self._of.get(id(work))
        if what == "waits":
            self.blocked.append(work)
        else:
            self.blocked = [w for w in self.blocked if w is not work]
        if row is None:
            return
        row[{"waits": 8}.get(what, 9)] = now
        if what == "failed":
            row[10] = True
        if what != "waits":
            del self._of[id(work)]
        with self._lock:
            self._changed[row[0]] = row

    def _begun(self, work: Any, now: float) -> None:
        if len(self.rows) >= ROWS or work.group is None:
            self.left_out += 1
            return
        at: FrameType | None = sys._getframe(3)
        bucket = False
        while at is not None and source.is_ours(at.f_code.co_filename):
            bucket = bucket or at.f_globals is _REDUCER
            at = at.f_back
        group = self._groups.get(id(work.group))
        if group is None:
            ranks = list(work.group.ranks)
            group = self._groups[id(work.group)] = work.group, ranks, f"{work.group.group_name} {ranks}"
        sequence = -1
        if work.op not in PAIRS:
            sequence = self._count[group[2]] = self._count.get(group[2], -1) + 1
        n = len(self.rows)
        row = [n, group[1], sequence, work.op, work.size_bytes, bucket, self.site(at), now, None, None, False]
        self.rows.append(row)
        self._of[id(work)] = row
        with self._lock:
            self._changed[n] = row

    # -- steps, passes, batches ----------------------------------------------------------------------------------------

    def passed(self, roots: tuple[Any, ...]) -> None:
        """Count a backward pass."""
        self.passes += 1
        self._pass = time.perf_counter(), self.site(sys._getframe(2))

    _pass: tuple[float, int] = (0.0, -1)

    def stepping(self, optimizer: Any) -> None:
        """Take the checksums of gradients and parameters before a step."""
        which, n = self._optimizers.get(id(optimizer), (len(self._optimizers), 0))
        self._optimizers[id(optimizer)] = which, n = which, n + 1
        self.stepped_n += 1
        if not (n & (n - 1) == 0 or n % STEPS == 0) or len(self.steps) >= STEPS:
            return
        many = self._parameters(optimizer)
        grads = {name: p.grad for name, p in many if p.grad is not None}
        self.steps.append({
            "optimizer": which, "step": n, "begun": time.perf_counter(), "passed": self._pass[0],
            "backward": self._pass[1], "site": self.site(sys._getframe(2)),
            "bytes": sum(g.nbytes for g in grads.values()),
            "before": _sums(many), "gradients": _sums(grads.items()), "after": {},
            "lr": [float(g.get("lr", 0.0)) for g in optimizer.param_groups]})  # fmt: skip

    def stepped(self, optimizer: Any) -> None:
        """Take the checksums of parameters after a step."""
        which, n = self._optimizers.get(id(optimizer), (-1, 0))
        if self.steps and (self.steps[-1]["optimizer"], self.steps[-1]["step"]) == (which, n):
            self.steps[-1]["after"] = _sums(self._parameters(optimizer))
            self.steps[-1]["done"] = time.perf_counter()

    def _parameters(self, optimizer: Any) -> list[tuple[str, Any]]:
        many = [p for group in optimizer.param_groups for p in group["params"]][:PARAMETERS]
        if any(id(p) not in self._names for p in many):
            self._name()
        found = []
        for p in many:
            if id(p) not in self._names or self._names[id(p)][0]() is not p:
                self._names[id(p)] = weakref.ref(p), f"parameter {len(self._names)}"
            found.append((self._names[id(p)][1], p))
        return found

    def _name(self) -> None:
        """Give parameters the names that the user has for them."""
        for variable, value in list(self.space.items()):
            if isinstance(value, Module) and not variable.startswith("_"):
                for name, p in value.named_parameters():
                    if id(p) not in self._names or self._names[id(p)][0]() is not p:
                        self._names[id(p)] = weakref.ref(p), f"{variable}.{name}".replace(".module.", ".")

    def _called(self, module: Any, args: Any) -> None:
        if threading.get_ident() != self._main:
            return
        self._depth += 1
        if self._depth > 1 or not (mode.enabled and module.training):
            return
        if module not in self._seen:
            self._seen.add(module)
            self._name()
            for name, p in module.named_parameters():
                if id(p) not in self._names:
                    self._names[id(p)] = weakref.ref(p), name.removeprefix("module.")
        found = next((a for a in args if isinstance(a, Tensor)), None)
        if found is None or not found.ndim:
            return
        sum_ = checksum(found._a) if isinstance(found._a, np.ndarray) else None
        self.calls.append([time.perf_counter(), found.shape[0], sum_, self.site(sys._getframe(1))])
        if len(self.calls) == CALLS:  # from now on no module's call is heard, which has its cost
            self._unhook()

    def _returned(self, module: Any, args: Any, output: Any) -> None:
        if threading.get_ident() == self._main:
            self._depth -= 1

    def _final(self) -> dict[str, int]:
        return _sums([(name, p) for ref, name in self._names.values() if (p := ref()) is not None][:PARAMETERS])

    def _loaders(self) -> list[dict[str, Any]]:
        """Return the data loaders among the user's variables."""
        data = sys.modules.get("core.utils.data")
        kind: Any = getattr(data, "DataLoader", ()) if data else ()
        return [{"name": name, "sampler": type(value.sampler).__name__} for name, value in self.space.items()
                if kind and isinstance(value, kind)]  # fmt: skip


def _sums(many: Any) -> dict[str, int]:
    return {name: checksum(t._a) for name, t in many if isinstance(t._a, np.ndarray)}


def _seed() -> int:
    random = sys.modules.get("core.random")
    return int(random.initial_seed()) if random is not None else 0
