"""GPU kernels in Triton, one file an op family, each with its tuning space and its launcher.

Importing the package does not import triton. `availability` says in words what this machine can do, `mode` what a
launch would do now: ``"interpret"`` (NumPy arrays, ``TRITON_INTERPRET=1``), ``"cuda"`` or None.
"""

from __future__ import annotations

import importlib.util
import os
from typing import NamedTuple

DISTRIBUTION = "gradlab"  # another distribution has a package of this name: whoever imports us can tell the two apart

# Files of that other package. Found beside ours, both were installed into one folder and half of each is overwritten.
_FOREIGN = ("matmul_ogs.py", "tensor.py", "numerics.py", "specialize.py", "swiglu.py", "target_info.py", "topk.py")


def check_ours(folders: list[str] | None = None) -> None:
    """Raise ImportError where the files of another `triton_kernels` lie among ours."""
    folders = list(__path__) if folders is None else folders
    for folder in folders:
        if found := [name for name in _FOREIGN if os.path.exists(os.path.join(folder, name))]:
            raise ImportError(
                f"triton_kernels: {folder} mixes gradlab's kernels with another distribution of the same package name "
                f"(found {', '.join(found)}). Remedy: pip uninstall triton-kernels, then reinstall gradlab."
            )


check_ours()


class Availability(NamedTuple):
    """What this process can do with Triton, and why."""

    importable: bool
    interpreted: bool
    version: str | None
    reason: str


def interpreting() -> bool:
    """Return whether ``TRITON_INTERPRET`` asks for the interpreter. Triton reads it once, at its first import."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes", "y")


def availability() -> Availability:
    """Say whether triton can be imported and interpreted here; if not, why. Imports nothing.

    >>> from triton_kernels import availability
    >>> availability().reason != ""
    True
    """
    import importlib.metadata  # 20 ms: not for who imports this for a lookup

    if importlib.util.find_spec("triton") is None:
        reason = "the package triton is not installed. Remedy: pip install triton (Linux), or gradlab[gpu]."
        return Availability(False, False, None, reason)
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        reason = "a folder named triton can be imported but is no installed distribution: something shadows triton."
        return Availability(False, False, None, reason)
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < (3, 6):
        reason = f"triton {version} is older than 3.6, the oldest supported. Remedy: pip install -U triton."
        return Availability(False, False, version, reason)
    if interpreting():
        reason = f"triton {version} interprets kernels over NumPy arrays (TRITON_INTERPRET=1)."
        return Availability(True, True, version, reason)
    reason = f"triton {version} compiles for a GPU; set TRITON_INTERPRET=1 before it is imported to interpret instead."
    return Availability(True, False, version, reason)


def mode() -> str | None:
    """Return what a launch does now: ``"interpret"``, ``"cuda"`` (a host is connected), or None (no kernel can run)."""
    if not availability().importable:
        return None
    from . import runtime

    return runtime.mode()
