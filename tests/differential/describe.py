"""Values as text that can be compared between two processes: no address and no clock is in it."""

from __future__ import annotations

import copy
import gc
import hashlib
import io
import os
import pickle
import random
import re
import signal
import sys
import threading
import types
import warnings
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

DEPTH, MANY = 5, 200
# whose objects hold numbers of files, processes and threads
OPAQUE = {
    "multiprocessing",
    "threading",
    "asyncio",
    "concurrent",
    "logging",
    "_thread",
    "subprocess",
    "_asyncio",
    "matplotlib",
    "mpl_toolkits",
}
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


def plain(text: str) -> str:
    """A text without what differs from process to process: addresses, names of temporary files and of cells.

    >>> plain("<object at 0x7f00deadbeef>")
    '<object at 0x...>'
    """
    text = _ADDRESS.sub("0x...", text)
    text = re.sub(r"<ipython-input-(\d+)-[0-9a-f]+>", r"<cell \1>", text)
    text = re.sub(r"\bIn \[(\d+)\]", r"<cell \1>", text)  # what the lab, once loaded, calls it
    text = re.sub(r"%%autograd --no-card", "# a cell", text)
    text = re.sub(r"^(CPU times|Wall time): .*", r"\1: ...", text, flags=re.MULTILINE)  # the clock of %%time
    return re.sub(r"(/tmp|/var/tmp)/[\w./-]+", "/tmp/...", text)


def lines(text: str, folder: Path) -> list[str]:
    """The lines of an output, without the frames of printed tracebacks that are not of the program's own files."""
    kept, skipping = [], False
    for line in text.splitlines():
        if found := re.match(r'( +)File "([^"]+)", line \d+', line):
            skipping = not found.group(2).startswith((str(folder), "<"))
        elif not line.startswith("    "):
            skipping = False
        if not skipping:
            kept.append(plain(line))
    return kept


def digest(data: bytes) -> str:
    """The first sixteen digits of a hash."""
    return hashlib.sha256(data).hexdigest()[:16]


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor, of core or of PyTorch."""
    return all(hasattr(type(value), name) for name in ("requires_grad", "detach", "is_leaf"))


def tensor(t: Any) -> dict[str, Any]:
    """What can be seen of a tensor: its values to the bit, its flags, its gradient, how it was made."""
    told: dict[str, Any] = {"type": type(t).__name__, "shape": tuple(t.shape), "dtype": str(t.dtype)}
    told["values"] = attempt(lambda: digest(_bytes(t)))
    for name in ("requires_grad", "is_leaf", "_version", "retains_grad"):
        told[name] = attempt(lambda name=name: getattr(t, name))
    if attempt(lambda: t.is_leaf or t.retains_grad) is True:
        told["grad"] = attempt(lambda: None if t.grad is None else digest(_bytes(t.grad)))
    told["graph"] = attempt(lambda: graph(t.grad_fn))
    told["attributes"] = sorted(k for k in getattr(t, "__dict__", {}) if not k.startswith("_"))
    told["hooks"] = attempt(lambda: len(t._backward_hooks or ()))
    return told


def _bytes(t: Any) -> bytes:
    t = t.detach()
    if "bfloat16" in str(t.dtype):
        t = t.float()
    return np.ascontiguousarray(t.numpy()).tobytes()


def graph(node: Any, most: int = 60) -> list[str]:
    """The names of the nodes behind a tensor, breadth first."""
    names, queue = [], deque([node])
    seen: dict[int, Any] = {}  # kept alive: an id is used again
    while queue and len(names) < most:
        node = queue.popleft()
        if node is None or id(node) in seen:
            continue
        seen[id(node)] = node
        names.append(node.name() if callable(getattr(node, "name", None)) else type(node).__name__)
        queue.extend(following for following, _ in node.next_functions)
    return names


def attempt(work: Any) -> Any:
    """A result, or the exception as text."""
    try:
        return work()
    except Exception as error:
        return plain(f"{type(error).__name__}: {error}")


# A loader's pass knows which of its workers was done first, a tuner how long each config took: no run is like another.
MADE_OF_CHANCE = (
    "core.utils.data.passes", "core.utils.data.pool", "torch.utils.data.dataloader", "triton_kernels.tune.",
)  # fmt: skip


def value(v: Any, depth: int = DEPTH, seen: frozenset[int] = frozenset()) -> Any:
    """A value as JSON holds it."""
    if type(v) is int and 0x7F0000000000 <= v < 0x800000000000:
        return "(an address)"
    if v is None or isinstance(v, bool | int | str | float | complex | bytes):
        return plain(repr(v))[:4000]
    if id(v) in seen:
        return "(itself)"
    if depth == 0:
        return type(v).__name__
    seen = seen | {id(v)}
    if isinstance(v, type | types.FunctionType | types.BuiltinFunctionType | types.ModuleType | types.MethodType):
        return f"{type(v).__name__} {getattr(v, '__name__', '')}"
    if is_tensor(v):
        return tensor(v)
    if isinstance(v, np.ndarray | np.generic):
        a = np.ascontiguousarray(v)
        return ["array", a.shape, str(a.dtype), plain(repr(v)) if a.dtype == object else digest(a.tobytes())]
    if isinstance(v, dict):
        return {"type": type(v).__name__, "items": [
            [value(k, depth - 1, seen), value(w, depth - 1, seen)] for k, w in list(v.items())[:MANY]]}  # fmt: skip
    if isinstance(v, list | tuple | deque):
        return [type(v).__name__, len(v), *(value(w, depth - 1, seen) for w in list(v)[:MANY])]
    if isinstance(v, set | frozenset):
        return [type(v).__name__, *sorted(str(value(w, depth - 1, seen)) for w in v)]
    module = type(v).__module__
    if module.partition(".")[0] in OPAQUE or module.startswith(MADE_OF_CHANCE) or type(v).__name__ == "RemovableHandle":
        return type(v).__name__
    own = getattr(v, "__dict__", None)
    told: dict[str, Any] = {"type": f"{type(v).__module__}.{type(v).__name__}"}
    if isinstance(own, dict) and not isinstance(v, types.GeneratorType | threading.Thread):
        told["vars"] = {
            # hooks are kept by numbers that count up through the process
            k: value(list(w.values()) if k.endswith("_hooks") and isinstance(w, dict) else w, depth - 1, seen)
            for k, w in list(own.items())[:MANY]
        }
    return told


class _Pickler(pickle.Pickler):
    """Which of two equal strings are one object depends on what else the process has interned: here all are."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.strings: dict[str, str] = {}

    def persistent_id(self, v: Any) -> str | None:
        return self.strings.setdefault(v, v) if type(v) is str else None

    @classmethod
    def length(cls, v: Any) -> int:
        file = io.BytesIO()
        cls(file).dump(v)
        return len(file.getvalue())


def left(space: dict[str, Any], before: set[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The names that a program left behind, with their values; and whether its tensors can be pickled and copied."""
    values, copies = {}, {}
    for name, v in sorted(space.items()):
        if name.startswith("_") or name in before or isinstance(v, types.ModuleType):
            continue
        values[name] = attempt(lambda v=v: value(v))
        if is_tensor(v) or hasattr(v, "state_dict"):
            copies[name] = [
                attempt(lambda v=v: _Pickler.length(v)),
                attempt(lambda v=v: type(copy.deepcopy(v)).__name__),
            ]
    return values, copies


def randomness() -> dict[str, Any]:
    """The state of every source of random numbers."""
    legacy = np.random.get_state()  # noqa: NPY002 - programs use it
    told = {
        "python": digest(repr(random.getstate()).encode()),
        "numpy": digest(repr([np.asarray(part).tolist() for part in legacy]).encode()),
    }
    for name in ("core", "torch"):
        library = sys.modules.get(name)
        if library is not None:
            told[name] = attempt(lambda library=library: digest(_bytes(library.get_rng_state())))
    return told


def process() -> dict[str, Any]:
    """What else a program shares with the rest of its process, and a recorder could leave changed."""
    told = {
        "gc": [gc.isenabled(), gc.get_threshold()],
        "SIGINT": plain(repr(signal.getsignal(signal.SIGINT))),
        "trace": [plain(repr(sys.gettrace())), plain(repr(sys.getprofile())), plain(repr(threading.gettrace()))],
        "hooks": [getattr(hook, "__name__", "?") for hook in (sys.excepthook, sys.unraisablehook, sys.displayhook)],
        "recursion": sys.getrecursionlimit(),
        "switch": sys.getswitchinterval(),
        "threads": sorted(t.name for t in threading.enumerate() if _of_the_lab(t)),
        "filters": [plain(repr(entry)) for entry in warnings.filters],
        "argv": [plain(part) for part in sys.argv],
        "folder": plain(os.getcwd()),
        "environment": {k: plain(v) for k, v in sorted(os.environ.items())},
        "timer": signal.getitimer(signal.ITIMER_REAL)[0] > 0,
    }
    for name in ("core", "torch"):
        library = sys.modules.get(name)
        if library is not None and hasattr(library, "is_grad_enabled"):
            told[name] = [library.is_grad_enabled(), str(library.get_default_dtype())]
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "overrides"):
        module = vars(sys.modules["torch.nn.modules.module"])
        hooks = [name for name in sorted(module) if name.startswith("_global_") and isinstance(module[name], dict)]
        told["torch hooks"] = {name: len(module[name]) for name in hooks}
        told["torch modes"] = len(torch.overrides._get_current_function_mode_stack())
        function, parameter = torch.autograd.Function, torch.nn.Parameter
        told["torch classes"] = [function.apply.__func__.__module__, parameter.__new__.__module__]
    return told


def _of_the_lab(thread: threading.Thread) -> bool:
    modules = type(thread).__module__, getattr(getattr(thread, "_target", None), "__module__", None)
    return any((name or "").partition(".")[0] in ("lab", "widgets") for name in modules)


def files(folder: Path) -> dict[str, str]:
    """The files below a folder, by name, with a hash of their bytes."""
    return {str(p.relative_to(folder)): digest(p.read_bytes()) for p in sorted(folder.rglob("*"))
            if p.is_file() and "__pycache__" not in p.parts}  # fmt: skip
