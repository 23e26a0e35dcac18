"""Where the tuner keeps things, for the user alone, and what this machine is called.

Results lie in ``$XDG_DATA_HOME/gradlab/tuning`` (``~/.local/share`` without the variable), compiled C in
``$XDG_CACHE_HOME/gradlab/tuning`` (``~/.cache``), or in the folder for temporary files where that
cannot be written to.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import platform
import stat
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path


def data_folder() -> Path:
    """Return the folder of the results; it may not exist yet."""
    return _base("XDG_DATA_HOME", ".local/share") / "gradlab" / "tuning"


class PlaceWarning(UserWarning):
    """Something is kept elsewhere than usual; the message says where and why."""


def cache_folder() -> Path:
    """Return the folder of compiled C, made if need be: where the user's own cannot be written to, one in the folder
    for temporary files, which a warning says once. *Raises*: OSError where what lies there is not this user's own."""
    wanted = _base("XDG_CACHE_HOME", ".cache") / "gradlab" / "tuning"
    try:
        folder = private(wanted)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(f"{folder} cannot be written to")
        return folder
    except NotOurs:
        raise
    except OSError as error:
        return temporary_cache(error)


def temporary_cache(why: OSError) -> Path:
    """Return the folder of compiled C where the user's own is of no use. *Raises*: OSError."""
    folder = private(temporary_folder() / "tuning")
    if str(folder) not in _told:
        _told.add(str(folder))
        warnings.warn(f"compiled C is kept in {folder}, since its usual folder cannot be used: {why}. Remedy: set "
                      "XDG_CACHE_HOME to a folder that can be written to", PlaceWarning, stacklevel=2)  # fmt: skip
    return folder


def temporary_folder() -> Path:
    """This user's own within the folder for temporary files. *Raises*: OSError."""
    return private(Path(tempfile.gettempdir()) / f"gradlab-{os.getuid()}")


_told: set[str] = set()  # which folders were warned of


def _base(variable: str, otherwise: str) -> Path:
    given = os.environ.get(variable, "")
    # the specification of XDG has relative paths ignored
    if os.path.isabs(given):
        return Path(given)
    home = os.path.expanduser("~")
    # a user without a home: nothing can be made in /dev/null, where "~" would be a folder within the current one
    return Path(home if os.path.isabs(home) else os.devnull) / otherwise


class NotOurs(PermissionError):
    """What lies in a folder's place is not this user's own."""


def private(folder: Path) -> Path:
    """Make a folder that its owner alone may enter: what lies in it is loaded and run."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise NotOurs(
            f"{folder} is not a folder of this user's own. Remedy: set XDG_CACHE_HOME and XDG_DATA_HOME to folders "
            "that are yours."
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)
    return folder


@contextlib.contextmanager
def locked(
    path: Path, patience_s: float, alone: bool = True, stopping: threading.Event | None = None
) -> Iterator[bool]:
    """Hold a file's lock, alone or with others that share it; whether it was had before the patience ended.

    The system's kernel gives a lock back when its process dies, so that it needs no care afterwards.
    """
    with contextlib.ExitStack() as stack:
        held = False
        with contextlib.suppress(OSError, RuntimeError):
            file = stack.enter_context(open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)))
            held = _locked(file.fileno(), alone, time.monotonic() + patience_s, stopping)
        yield held


def _locked(descriptor: int, alone: bool, until: float, stopping: threading.Event | None) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until or (stopping is not None and stopping.is_set()):
                return False
            time.sleep(0.003)


def process_name() -> str:
    """This process, as others may look for it with `still_runs`: the machine, its number, when it began.

    >>> still_runs(process_name()), still_runs(f"{platform.node()} 1 2")
    (True, False)
    """
    return f"{platform.node()} {os.getpid()} {_began(os.getpid())}"


def still_runs(process: str) -> bool:
    """Return whether a process of this machine runs; one of another may."""
    node, number, began = process.rsplit(" ", 2)
    return node != platform.node() or (_began(int(number)) == began and began != "0")


def _began(process: int) -> str:
    """When a process began, in the system's ticks; "0" where there is none, or nobody tells."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return "0" if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        return "0"


def free_bytes() -> int | None:
    """Return the memory that programs may still take on this machine; None where nobody tells."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            facts = dict(line.split(":", 1) for line in file if ":" in line)
        return int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def cpu_count() -> int:
    """Return the processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def cpu_name() -> str:
    """Return the processor's name and how many of it there are, as results are filed by: ``"AMD EPYC 9654 x2"``."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            facts = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines() if ":" in line)
        facts = {key.strip(): value.strip() for key, value in facts.items()}
        name = facts.get("model name") or name
        if "model" in facts:  # a virtual machine hides the name, and the family tells more
            name += f" ({facts.get('cpu family', '?')}.{facts['model']})"
    except OSError:
        pass
    return f"{name} x{cpu_count()}"


@functools.cache
def cpu_features() -> str:
    """Return the instruction sets, which code for ``-march=native`` depends on."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return platform.machine()
