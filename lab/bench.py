"""`python -m lab bench`: measurements too long or too noisy for tests, always as ratios of things timed in turn.

Machines are shared and their clocks move, so nothing is quoted alone: what is compared runs alternately, and a figure
is the median of the pairs' ratios with their middle half.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import core
from core import native

from . import bench_recording

Work = Callable[[], object]
PARTS = ("observer", "recording", "numpy", "torch")


class Ratio(NamedTuple):
    """A compared to B: the median of `a/b` over alternating rounds, its middle half, and both medians in µs."""

    name: str
    median: float
    low: float
    high: float
    a_us: float
    b_us: float

    def __str__(self) -> str:
        return (
            f"{self.name:44} {self.median:7.3f}   [{self.low:.3f} … {self.high:.3f}]   "
            f"{self.a_us:9.2f} / {self.b_us:9.2f} µs"
        )


def threads() -> int:
    """The threads that core's kernels use, so that both sides have as many."""
    return native.module.get_num_threads() if native.module is not None else 1


def seconds(work: Work, number: int) -> float:
    """One timing of `number` calls, per call."""
    start = time.perf_counter()
    for _ in range(number):
        work()
    return (time.perf_counter() - start) / number


def compare(name: str, a: Work, b: Work, rounds: int = 21) -> Ratio:
    """Time `a` and `b` in turn, the order swapped every round."""
    for work in (a, b):
        work()
    number = max(1, int(0.01 / max(seconds(a, 3), 1e-7)))
    pairs = []
    for i in range(rounds):
        first, second = (a, b) if i % 2 == 0 else (b, a)
        t1, t2 = seconds(first, number), seconds(second, number)
        pairs.append((t1, t2) if i % 2 == 0 else (t2, t1))
    return _ratio(name, pairs)


def _ratio(name: str, pairs: list[tuple[float, float]]) -> Ratio:
    ratios = sorted(x / y for x, y in pairs)
    quarter = len(ratios) // 4
    return Ratio(
        name,
        statistics.median(ratios),
        ratios[quarter],
        ratios[-1 - quarter],
        statistics.median(x for x, _ in pairs) * 1e6,
        statistics.median(y for _, y in pairs) * 1e6,
    )


_ADD = """
import sys, time, core
{extra}
a, b = core.ones(8, 8), core.ones(8, 8)
def once():
    start = time.perf_counter()
    for _ in range(20000): a + b
    return (time.perf_counter() - start) / 20000
once()
for line in sys.stdin:
    print(min(once() for _ in range(5)), flush=True)
"""


def observer_cost(rounds: int = 31) -> Ratio:
    """`a + b` on 8×8 in a process that loaded `lab`, and in one that did not, asked in turn."""

    def start(extra: str) -> Any:
        code = _ADD.format(extra=extra)
        return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(process: Any) -> float:
        process.stdin.write("go\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    bare, loaded = start(""), start("import lab, lab.magics, lab.recorder")
    try:
        pairs = []
        for i in range(rounds):
            if i % 2:
                b = ask(bare)
                pairs.append((ask(loaded), b))
            else:
                pairs.append((ask(loaded), ask(bare)))
    finally:
        for process in (bare, loaded):
            process.stdin.close()
            process.wait()
    return _ratio("a + b on 8x8: lab loaded / not loaded", pairs)


def chain(lib: Any, x: Any, c: Any, backward: bool) -> Work:
    """150 ops on 8×8: fifty times multiply, add, tanh."""

    def work() -> None:
        y = x
        for _ in range(50):
            y = (y * 0.5 + c).tanh()
        if backward:
            x.grad = None
            y.sum().backward()

    return work


def sum_of_leaves(lib: Any) -> Work:
    """a + b of two 8×8 leaves, forward and backward, their gradients made anew."""
    a, b = lib.ones(8, 8, requires_grad=True), lib.ones(8, 8, requires_grad=True)
    seed = lib.ones(8, 8)

    def work() -> None:
        a.grad = b.grad = None
        (a + b).backward(seed)

    return work


def beside(lib: Any) -> list[Ratio]:
    """core beside another library with the same names (PyTorch), or NumPy where only forward work compares."""
    results = []
    x, y = core.ones(8, 8), core.ones(8, 8)
    g = core.ones(8, 8, requires_grad=True)
    rng = np.random.default_rng(0)
    big = rng.standard_normal((1024, 768), dtype=np.float32)
    if lib is np:
        a, b = np.ones((8, 8), np.float32), np.ones((8, 8), np.float32)
        results.append(compare("a + b on 8x8, core / numpy", lambda: x + y, lambda: a + b))
        t = core.from_numpy(big)
        results.append(compare("tanh on 1024x768, core / numpy", lambda: t.tanh(), lambda: np.tanh(big)))
        return results
    p, q = lib.ones(8, 8), lib.ones(8, 8)
    h = lib.ones(8, 8, requires_grad=True)
    F, G = core.nn.functional, lib.nn.functional
    results.append(compare("a + b on 8x8", lambda: x + y, lambda: p + q))
    results.append(compare("a + b on 8x8, recorded", lambda: g + y, lambda: h + q))
    ours, theirs = sum_of_leaves(core), sum_of_leaves(lib)
    results.append(compare("a + b on 8x8, forward and backward", ours, theirs))
    results.append(compare("150-op chain, forward", chain(core, g, y, False), chain(lib, h, q, False)))
    results.append(compare("150-op chain, forward and backward", chain(core, g, y, True), chain(lib, h, q, True)))
    t, u = core.from_numpy(big), lib.from_numpy(big)
    for name, args in (("tanh", ()), ("softmax", (-1,)), ("gelu", ())):
        ours, theirs = partial(getattr(F, name), t, *args), partial(getattr(G, name), u, *args)
        results.append(compare(f"{name} on 1024x768", ours, theirs))
    results.append(compare("layer_norm on 1024x768", lambda: F.layer_norm(t, (768,)), lambda: G.layer_norm(u, (768,))))
    results.append(compare("MLP step 64-128-10, batch 64, AdamW", mlp_step(core), mlp_step(lib)))
    for kind, steps, batch, hidden in (("LSTM", 64, 32, 128), ("LSTM", 16, 8, 32), ("GRU", 64, 32, 128)):
        ours, theirs = (recurrent_pass(side, kind, steps, batch, hidden) for side in (core, lib))
        results.append(compare(f"{kind} {hidden}, {steps} steps, batch {batch}, both ways", ours, theirs))
    return results


def mlp_step(lib: Any) -> Work:
    """One training step of the tour's model."""
    lib.manual_seed(0)
    rng = np.random.default_rng(0)
    x = lib.from_numpy(rng.standard_normal((64, 64)).astype(np.float32))
    t = lib.from_numpy(rng.integers(0, 10, 64))
    model = lib.nn.Sequential(lib.nn.Linear(64, 128), lib.nn.ReLU(), lib.nn.Linear(128, 10))
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)

    def work() -> None:
        optimizer.zero_grad()
        lib.nn.functional.cross_entropy(model(x), t).backward()
        optimizer.step()

    return work


def recurrent_pass(lib: Any, kind: str, steps: int, batch: int, hidden: int) -> Work:
    """A recurrent layer over a whole sequence, forward and backward, the input's gradient with it."""
    lib.manual_seed(0)
    layer, x = getattr(lib.nn, kind)(hidden, hidden), lib.randn(steps, batch, hidden, requires_grad=True)

    def work() -> None:
        layer.zero_grad()
        x.grad = None
        layer(x)[0].sum().backward()

    return work


def main(argv: list[str] | None = None) -> int:
    """The command line; 0 when everything asked for was measured."""
    if argv and argv[0] == "tuning-replay":
        from .replay import main as replay

        return replay(argv[1:])
    if argv and argv[0] == "launch":
        from .bench_launch import main as launch

        return launch(argv[1:])
    parser = argparse.ArgumentParser(prog="python -m lab bench", description=__doc__)
    parser.add_argument(
        "what",
        nargs="*",
        metavar="|".join(PARTS),
        help="observer (lab's cost when nobody looks), recording (its cost when it does), numpy, torch; all that can "
        "be had if left out",
    )
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--device", default="cpu", help="cuda: its kernels beside PyTorch, eager and compiled")
    parser.add_argument("--only", default="", help="of cuda's cases those with this text in their name")
    options = parser.parse_args(argv)
    if options.device == "cuda":
        from . import bench_cuda

        return bench_cuda.main(options.json, options.only)
    if options.device != "cpu":
        parser.error(f"the devices are cpu and cuda; came: {options.device}")
    if unknown := set(options.what) - set(PARTS):
        parser.error(f"nothing is called {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    what = options.what or list(PARTS)
    results: list[Ratio] = []
    print(f"{'':44} {'ratio':>7}   middle half        median times")
    for name in what:
        if name == "observer":
            found = [observer_cost()]
        elif name == "recording":
            found = [_ratio(label, pairs) for label, pairs in bench_recording.measure()]
        elif name == "numpy":
            found = beside(np)
        else:
            try:
                import importlib

                other = importlib.import_module("torch")
            except ImportError:
                print("torch is not installed here: nothing to compare with; pip install torch")
                continue
            other.set_num_threads(threads())
            found = beside(other)
        for ratio in found:
            print(ratio, flush=True)
        results += found
    if options.json:
        with open(options.json, "w") as f:
            json.dump([r._asdict() for r in results], f, indent=1)
    return 0
