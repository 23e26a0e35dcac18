"""Where the tuner keeps things, for the user alone, and what this machine is called.

Results lie in ``$XDG_DATA_HOME/gradlab/tuning`` (``~/.local/share`` without the variable), compiled C in
``$XDG_CACHE_HOME/gradlab/tuning`` (``~/.cache``).
"""

from __future__ import annotations

import functools
import os
import platform
import stat
from pathlib import Path


def data_folder() -> Path:
    """The folder of the results; it may not exist yet."""
    return _base("XDG_DATA_HOME", ".local/share") / "gradlab" / "tuning"


def cache_folder() -> Path:
    """The folder of compiled C, made if need be. *Raises*: OSError where what lies there is not this user's own."""
    return private(_base("XDG_CACHE_HOME", ".cache") / "gradlab" / "tuning")


def _base(variable: str, otherwise: str) -> Path:
    given = os.environ.get(variable, "")
    # the specification of XDG has relative paths ignored
    return Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~")) / otherwise


def private(folder: Path) -> Path:
    """Make a folder that its owner alone may enter: what lies in it is loaded and run."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(
            f"{folder} is not a folder of this user's own. Remedy: set XDG_CACHE_HOME and XDG_DATA_HOME to folders "
            "that are yours."
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)
    return folder


def free_bytes() -> int | None:
    """The memory that programs may still take on this machine; None where nobody tells."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            facts = dict(line.split(":", 1) for line in file if ":" in line)
        return int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def cpu_count() -> int:
    """The processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def cpu_name() -> str:
    """The processor's name and how many of it there are, as results are filed by: ``"AMD EPYC 9654 x2"``."""
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
    """The instruction sets, which code for ``-march=native`` depends on."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return platform.machine()
