"""``python -m lab bench check``: whether core has become slower since the ratios that are committed.

Every case has a twin in NumPy that leans on the same part of the machine: small ops on the interpreter, large ones on
the memory, products on the arithmetic. Twin and core run in turn, in a process of their own, on one thread and in the
processor's time, the twin twice a round: how far its two times are apart is the noise of this run. A case fails when
its whole middle half lies beyond the committed ratio by more than that noise, and does so again in three more
processes. On a machine whose ratios are not committed, `ELSEWHERE` is allowed beyond that: processors differ, and what
they differ by is not known here.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import core
from core import nn

from .cases import normal
from .cpu import processor
from .steps import steps
from .timing import Spread, Work, in_turn

RESULTS = Path(__file__).parent / "results" / "check.json"
ELSEWHERE = 1.6
LEAST = 1.25
"""Less than a quarter is never said to be slower: from hour to hour a shared machine's ratios moved by up to a tenth,
which no run sees by itself, and layouts of memory differ as much from process to process."""
_ONE_THREAD = {"GRADLAB_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

F = nn.functional


def _normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def _small_op() -> tuple[Work, Work]:
    a, b = _normal(8, 8), _normal(8, 8, seed=1)
    x, y = core.tensor(a), core.tensor(b)
    return lambda: x + y, lambda: a + b


def _chain(both: bool) -> Callable[[], tuple[Work, Work]]:
    def make() -> tuple[Work, Work]:
        a, b = _normal(8, 8), _normal(8, 8, seed=1)
        x, y = core.tensor(a, requires_grad=True), core.tensor(b)

        def mine() -> None:
            z = x
            for _ in range(50):
                z = (z * 0.5 + y).tanh()
            if both:
                x.grad = None
                z.sum().backward()

        def twin() -> None:
            z = a
            for _ in range(50):
                z = np.tanh(z * 0.5 + b)

        return mine, twin

    return make


def _structured() -> tuple[Work, Work]:
    """Return the dispatch of ops that are not elementwise: what a step of a small model is made of."""
    a, w, b = _normal(8, 8), _normal(8, 8, seed=1), _normal(8, seed=2)
    x, v, c = (core.tensor(k, requires_grad=True) for k in (a, w, b))

    def twin() -> None:
        y = (a @ w.T + b).reshape(4, 16).swapaxes(0, 1)
        y[2:4].sum()

    return lambda: F.linear(x, v, c).reshape(4, 16).transpose(0, 1)[2:4].sum(), twin


def _large_op() -> tuple[Work, Work]:
    a, b = _normal(1 << 22), _normal(1 << 22, seed=1)
    x, y, out = core.tensor(a), core.tensor(b), np.empty_like(a)
    return lambda: x + y, lambda: np.add(a, b, out)


def _rows(name: str) -> Callable[[], tuple[Work, Work]]:
    """Return a kernel over rows, both ways, beside the least that NumPy would do for it."""

    def make() -> tuple[Work, Work]:
        a, g = _normal(512, 768), core.tensor(_normal(512, 768, seed=1))
        x, out = core.tensor(a, requires_grad=True), np.empty_like(a)
        forward: dict[str, Callable[[], Any]] = {
            "softmax": lambda: core.softmax(x, -1),
            "layer_norm": lambda: F.layer_norm(x, (768,)),
            "gelu": lambda: F.gelu(x),
        }

        def mine() -> None:
            x.grad = None
            forward[name]().backward(g)

        return mine, lambda: np.exp(np.multiply(a, a, out), out)

    return make


def _product() -> tuple[Work, Work]:
    a, b = _normal(512, 512), _normal(512, 512, seed=1)
    x, y = core.tensor(a), core.tensor(b)
    return lambda: x @ y, lambda: a @ b


def _training() -> tuple[Work, Work]:
    """Return the MLP's step of `bench short-steps`, beside its five products."""
    step = next(c for c in steps() if c.name == "MLP").make(core, "float32")
    x, w, v = (normal(core, core.float32, s, 3).numpy() for s in ((64, 64), (64, 128), (128, 64)))
    return step, lambda: [(x @ w) @ v for _ in range(5)]


CASES: dict[str, Callable[[], tuple[Work, Work]]] = {
    "a + b of 8x8": _small_op,
    "150 ops on 8x8": _chain(False),
    "150 ops on 8x8, both ways": _chain(True),
    "linear, reshape, transpose, slice, sum": _structured,
    "a + b of 4 M": _large_op,
    "softmax of 512x768, both ways": _rows("softmax"),
    "layer norm of 512x768, both ways": _rows("layer_norm"),
    "gelu of 512x768, both ways": _rows("gelu"),
    "a @ b of 512x512": _product,
    "a training step of an MLP": _training,
}


Rounds = tuple[list[float], list[float]]  # core / twin, and how far the twin's two times are apart, by round


def measure(name: str, rounds: int) -> Rounds:
    """Return the rounds of a case, in this process."""
    mine, twin = CASES[name]()
    works = {"core": mine, "twin": twin, "again": twin}
    times = in_turn(works, rounds, block_s=0.006, calm_s=0.0, clock=time.process_time)
    rows = list(zip(times["core"], times["twin"], times["again"], strict=True))
    return [2 * a / (b + c) for a, b, c in rows], [max(b / c, c / b) for _, b, c in rows]


def measured(name: str, rounds: int, processes: int) -> tuple[Spread, float]:
    """Return the ratio over fresh processes, whose layouts of memory differ, and the noise: what three of four
    rounds have at most. NumPy's BLAS takes its number of threads when it is loaded."""
    command = [sys.executable, "-m", "lab", "bench", "check", "--case", name, "--rounds", str(rounds)]
    ratios, apart = [], []
    for _ in range(processes):
        done = subprocess.run(command, env={**os.environ, **_ONE_THREAD}, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name} could not be measured\n{done.stderr.strip()}")
        more = json.loads(done.stdout)
        ratios += more[0]
        apart += more[1]
    return Spread.of(ratios), Spread.of(apart).high


def machine() -> str:
    """Return what ratios depend on: they are committed by processor and by the versions of Python and NumPy."""
    return f"{processor()}, Python {'.'.join(platform.python_version_tuple()[:2])}, NumPy {np.__version__[:3]}"


def slower(found: Spread, noise: float, committed: Spread, known: bool) -> float | None:
    """Return the limit that a ratio is beyond; None where it is not.

    >>> before = Spread(0.9, 1.0, 1.1)
    >>> slower(Spread(1.2, 1.4, 1.6), 1.3, before, True)
    >>> slower(Spread(1.5, 1.6, 1.7), 1.3, before, True)
    1.43
    >>> slower(Spread(1.5, 1.6, 1.7), 1.3, before, False)
    """
    limit = committed.high * max(noise, LEAST) * (1.0 if known else ELSEWHERE)
    return round(limit, 4) if found.low > limit else None


def main(argv: list[str]) -> int:
    """Run the command line: 0, or 1 where something has become slower."""
    parser = argparse.ArgumentParser(prog="python -m lab bench check", description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep this machine's ratios, to be committed")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--case", choices=CASES, help="the rounds of this case alone, as JSON")
    options = parser.parse_args(argv)
    if options.case:
        print(json.dumps(measure(options.case, options.rounds)))
        return 0
    content: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    here = machine()
    known = here in content
    base: dict[str, Any] = content.get(here) or next(iter(content.values()), {})
    if not options.write:
        print(f"{here}: {'its own ratios are committed' if known else 'compared with another machine'}")
    print(f"{'core / its twin in NumPy':42} {'now':>7} {'middle half':>17} {'noise':>6} {'committed':>9}")
    failed, fresh = [], {}
    for name in CASES:
        before = Spread(*base[name]) if name in base else None
        found, noise = measured(name, options.rounds, 3 if options.write else 1)
        limit = None if before is None or options.write else slower(found, noise, before, known)
        if before is not None and limit is not None:
            found, noise = measured(name, options.rounds, 3)
            limit = slower(found, noise, before, known)
        fresh[name] = [round(v, 4) for v in found]
        print(f"{name:42} {found.median:7.3f} [{found.low:6.3f} … {found.high:6.3f}] {noise:6.2f} "
              f"{before.median if before else float('nan'):9.3f}" + (f"  slower: beyond {limit}" if limit else ""),
              flush=True)  # fmt: skip
        if limit is not None:
            failed.append(name)
    if options.write:
        rows = json.dumps({**content, here: fresh}, indent=1)
        RESULTS.write_text(re.sub(r"\[\s+(\S+)\s+(\S+)\s+(\S+)\s+\]", r"[\1 \2 \3]", rows) + "\n")
        print(f"written to {RESULTS}")
    elif failed:
        print(f"slower than committed: {', '.join(failed)}; if it must be, python -m lab bench check --write")
    return int(bool(failed))
