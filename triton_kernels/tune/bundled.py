"""Configs that ship with the package: what the tuner chose on a device, in ``triton_kernels/bundled/<device>.json``.

A launch takes them where its user has tuned nothing near. They are made on a machine with that device: tune, then
``python -m lab tune export bundle -o triton_kernels/bundled/<device>.json``, whose name `file_of` says.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import re
from pathlib import Path
from typing import Any

Record = dict[str, Any]
FOLDER = Path(__file__).parents[1] / "bundled"
VERSION = 1
_PACKAGES = ("triton", "cupy-cuda13x", "cupy-cuda12x", "gradlab")
_KEPT = ("kernel", "source", "device", "shape", "dtype", "mode")


def file_of(device: str) -> str:
    """Return the name of a device's file.

    >>> file_of("NVIDIA H100 80GB HBM3 (sm_90)")
    'nvidia-h100-80gb-hbm3-sm_90.json'
    """
    return re.sub(r"[^a-z0-9_]+", "-", device.lower()).strip("-") + ".json"


@functools.cache
def entries(device: str) -> tuple[Record, ...]:
    """Return what ships for a device, as ``best.json`` has it; nothing where the file is missing or is not readable."""
    from . import lookup

    return tuple(e for e in lookup.entries(FOLDER / file_of(device)) if e["device"] == device)


def to_bundle(problems: list[Record]) -> str:
    """Return the choices for the families' kernels on one device as such a file, where their text is still what was
    tuned.

    *Raises*: ValueError where there is none, or of several devices.
    """
    from .declared import kernels
    from .sources import source_of

    texts = {name: source_of(kernel.kernel) for name, kernel in kernels().items()}
    chosen = [p for p in problems if p["winner"] and p["mode"].startswith("cuda")]
    chosen = [p for p in chosen if texts.get(p["kernel"]) == p["source"]]
    devices = sorted({p["device"] for p in chosen})
    if not devices:
        raise ValueError("a bundle holds what was chosen on a GPU for kernels of triton_kernels as they are now, and "
                         "there is no such choice. Remedy: tune them on the GPU first")  # fmt: skip
    if len(devices) > 1:
        raise ValueError(f"a bundle holds one device's choices; there are those of {'; '.join(devices)}. "
                         "Remedy: --device, with one of these names")  # fmt: skip
    rows = []
    for p in sorted(chosen, key=lambda p: (p["kernel"], p["dtype"], p["shape"])):
        winner = {"config": p["winner"]["config"], "ratio": round(p["winner"]["ratio"], 4)}
        rows.append(json.dumps({name: p[name] for name in _KEPT} | winner))
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    head = json.dumps({"version": VERSION, "device": devices[0], "made_with": versions}, indent=1)
    return head.removesuffix("\n}") + ',\n "entries": [\n  ' + ",\n  ".join(rows) + "\n ]\n}\n"
