"""``python -m tests.core.export.thirty [names]``: the thirty models of models.py, exported once and run everywhere.

Each is exported at size 5, and run at size 9 on other data: by core, from a saved file, by NumPy alone in a process
that cannot import core, as C (gcc; AddressSanitizer and UBSan; aarch64 under qemu-user), by onnxruntime. A cell is the
largest error as a part of the largest result; the exit status is 1 where one is above 1e-5 or something was refused.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import core

from .models import CASES
from .onnx_running import run_by_onnx
from .run_c import compiled, flat, is_there, ran
from .test_numpy import arrays, in_child

BOUND = 1e-5
EXPORTED, RUN = 5, 9


def _tensor(x: Any) -> bool:
    return isinstance(x, core.Tensor)


def error(found: Any, wanted: list[Any]) -> float:
    """Return the largest error as a part of the largest of each result."""
    worst = 0.0
    for a, b in zip(found, wanted, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape, f"shape {a.shape} in place of {b.shape}"
        if b.size:
            largest = max(float(np.abs(b.astype(float)).max()), 1e-30)
            worst = max(worst, float(np.abs(a.astype(float) - b.astype(float)).max()) / largest)
    return worst


def _arrays_in(x: Any) -> list[Any]:
    if isinstance(x, dict):
        x = list(x.values())
    return [a for part in x for a in _arrays_in(part)] if isinstance(x, list | tuple) else [x]


def by_core(program: Any, args: Any, wanted: list[Any], folder: Path) -> float:
    """Run it here."""
    return error(flat(program(*args), _tensor), wanted)


def from_a_file(program: Any, args: Any, wanted: list[Any], folder: Path) -> float:
    """Save it and load it."""
    program.save(folder / "model.gl")
    return error(flat(core.export.load(folder / "model.gl")(*args), _tensor), wanted)


def by_numpy(program: Any, args: Any, wanted: list[Any], folder: Path) -> float:
    """Run it where core cannot be imported."""
    (found,) = in_child(program.numpy(folder), [arrays(args)], folder)
    return error(_arrays_in(found), wanted)


def _by_c(build: str) -> Callable[..., float]:
    def run(program: Any, args: Any, wanted: list[Any], folder: Path) -> float:
        status, found = ran(compiled(program, folder, build), program, flat(args, _tensor), wanted, build)
        assert status == 0, f"exit status {status}"
        return error(found, wanted)

    return run


def by_onnxruntime(program: Any, args: Any, wanted: list[Any], folder: Path) -> float:
    """Run it by onnxruntime."""
    program.to_onnx(folder / "model.onnx")
    return error(run_by_onnx(program, folder / "model.onnx", args), wanted)


WAYS: dict[str, Callable[..., float]] = {
    "core": by_core, ".gl": from_a_file, "NumPy": by_numpy, "onnxruntime": by_onnxruntime,
    **{f"C {build}": _by_c(build) for build in ("gcc", "sanitized", "aarch64")},
}  # fmt: skip


def main(asked: list[str]) -> int:
    """Print the table; what is asked for are names of models, and of ways where not all."""
    names = [n for n in asked if n in CASES]
    ways = {way: run for way, run in WAYS.items() if not way.startswith("C ") or is_there(way[2:])}
    ways = {way: run for way, run in ways.items() if way in asked} or ways
    print(f"{'':26}" + "".join(f"{way:>13}" for way in ways), flush=True)
    wrong = 0
    for name in names or CASES:
        function, args, dynamic = CASES[name]()
        program = core.export(function, args(EXPORTED), dynamic)
        wanted = flat(function(*args(RUN)), _tensor)
        cells, reasons = [], []
        for way, run in ways.items():
            with tempfile.TemporaryDirectory() as folder:
                try:
                    off = run(program, args(RUN), wanted, Path(folder))
                    cells.append(f"{off:.1e}")
                    wrong += off > BOUND
                except Exception as e:
                    cells.append("refused")
                    reasons.append(f"    {way}: {type(e).__name__}: {e}")
                    wrong += 1
        print("\n".join([f"{name:26}" + "".join(f"{cell:>13}" for cell in cells), *reasons]), flush=True)
    print(f"{wrong} cells above {BOUND} or refused")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
