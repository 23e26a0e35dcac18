"""``python -m lab bench memory``: the most memory that a GPT's training step takes, in core and in PyTorch.

Each library runs in a process of its own. Counted is what becomes resident beyond what the process had when the library
was loaded and had run one small op: weights, the optimizer's moments, activations, gradients, work space, and what an
allocator keeps for later.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

SIZES = {
    "GPT of 4 layers, 128 wide, batch 16x64": {"layers": 4, "wide": 128, "heads": 4, "tokens": 64, "batch": 16,
                                               "words": 65},
    "GPT of 6 layers, 384 wide, batch 8x256": {"layers": 6, "wide": 384, "heads": 6, "tokens": 256, "batch": 8,
                                               "words": 65},
}  # fmt: skip
TARGET = 1.0

_CHILD = """
import importlib, json, sys
library, threads, steps, sizes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
lib = importlib.import_module(library)
lib.set_num_threads(threads)
from lab.benchmarks.memory import resident
from lab.benchmarks.steps import gpt
a = lib.ones(64, 64, requires_grad=True)
(a @ a).sum().backward()
before = resident("VmRSS")
step = gpt(lib, "float32", sizes)
step()
with open("/proc/self/clear_refs", "w") as f:
    f.write("5")  # the peak from here on: the first step's own arrangements are not what a training holds
for _ in range(steps):
    step()
print(json.dumps({"peak": resident("VmHWM") - before}))
"""


def resident(what: str) -> int:
    """Return the bytes of this process that are resident: VmRSS now, VmHWM at most so far."""
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith(what))


def peak(library: str, sizes: dict[str, int], threads: int, steps: int = 8) -> int:
    """Return the bytes that the steps had resident at most, beyond the library itself."""
    command = [sys.executable, "-c", _CHILD, library, str(threads), str(steps), json.dumps(sizes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the steps of {library} failed\n{done.stderr.strip()[-500:]}")
    return int(json.loads(done.stdout.splitlines()[-1])["peak"])


def run(threads: int, with_torch: bool, rounds: int = 3) -> list[dict[str, Any]]:
    """Return the peaks of both libraries, in turn; the median of the rounds. What a results file holds."""
    print(f"\nmemory\n{'':42} {'core':>10} {'PyTorch':>10} {'ratio':>7} {'wanted':>7}")
    found = []
    for name, sizes in SIZES.items():
        peaks: dict[str, list[int]] = {"core": [], "torch": []}
        for _ in range(rounds):
            for library in ("core", "torch") if with_torch else ("core",):
                peaks[library].append(peak(library, sizes, threads))
        mine, theirs = (sorted(row)[len(row) // 2] if row else None for row in peaks.values())
        assert mine is not None
        ratio = None if theirs is None else mine / theirs
        met = "" if ratio is None else "✓" if ratio <= TARGET else "✗"
        print(f"{name:42} {_mib(mine):>10} {_mib(theirs):>10} {'' if ratio is None else f'{ratio:.3f}':>7} "
              f"{TARGET:5.2f} {met}", flush=True)  # fmt: skip
        found.append({"name": name, "peak_bytes": {"core": mine, "eager": theirs}, "ratio": ratio, "target": TARGET})
    return found


def _mib(size_bytes: int | None) -> str:
    return "" if size_bytes is None else f"{size_bytes / 2**20:.1f} MiB"
