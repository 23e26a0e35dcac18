"""``python -m lab bench compile``: functions and training steps compiled, beside core and PyTorch as they are.

Functions that are mostly elementwise, with and without their gradients, and the training steps of `steps`; on one
thread, all contestants of a case in turn in one process, times on the processor as shares of core's own. Compiled
functions have stepped back to eager where they were no faster, as they do for a user: their share is then 1 and the
column "as" says so. Last the most memory that a GPT's step takes, compiled and not, each in a process of its own.
"""

from __future__ import annotations

import importlib
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import core

from ..console.options import Parser
from .memory import SIZES
from .steps import steps
from .timing import Work, in_turn

Function = Callable[..., Any]
NAMES = ("compiled", "PyTorch", "torch.compile")


def _chain(lib: Any, x: Any, y: Any) -> Any:
    z = lib.tanh(x) * y + 0.5 * x
    z = z * (1 / (1 + lib.exp(-z)))
    return z * z - lib.exp(-z * z) * y


def _rms_rope(lib: Any, x: Any, w: Any, cos: Any, sin: Any) -> Any:
    y = x * lib.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w
    a, b = y[..., :64], y[..., 64:]
    return lib.cat([a * cos - b * sin, b * cos + a * sin], -1)


def _physics(lib: Any, u: Any, k: Any) -> Any:
    lap = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
    r = lap * k + lib.sin(u[1:-1, 1:-1]) * lib.exp(-(u[1:-1, 1:-1] ** 2)) - 0.1 * u[1:-1, 1:-1]
    return (r * r).mean()


def _diffusion(lib: Any, x: Any, noise: Any, a: Any, found: Any) -> Any:
    noisy = lib.sqrt(a) * x + lib.sqrt(1 - a) * noise
    clean = ((noisy - lib.sqrt(1 - a) * found) / lib.sqrt(a)).clamp(-1, 1)
    return lib.sqrt(a * 0.9) * clean + lib.sqrt(1 - a * 0.9) * found, ((found - noise) ** 2).mean()


def _focal(lib: Any, x: Any, t: Any) -> Any:
    p = 1 / (1 + lib.exp(-x))
    ce = -(t * lib.log(p + 1e-7) + (1 - t) * lib.log(1 - p + 1e-7))
    pt = t * p + (1 - t) * (1 - p)
    return (0.25 * (1 - pt) ** 2 * ce).mean()


def _black_scholes(lib: Any, s: Any, k: Any, t: Any, r: Any, v: Any) -> Any:
    d1 = (lib.log(s / k) + (r + 0.5 * v * v) * t) / (v * lib.sqrt(t))
    d2 = d1 - v * lib.sqrt(t)

    def below(z: Any) -> Any:
        return 0.5 * (1 + lib.erf(z * 0.7071067811865476))

    return s * below(d1) - k * lib.exp(-r * t) * below(d2)


def _gated(lib: Any, a: Any, b: Any, w: Any) -> Any:
    h = a * lib.sigmoid(a) * b
    return h * w / (h.abs().amax(-1, keepdim=True) + 1e-6)


def _residual_norm(lib: Any, x: Any, r: Any, w: Any, b: Any) -> Any:
    h = x + 0.5 * r
    off = h - h.mean(-1, keepdim=True)
    return off * lib.rsqrt((off * off).mean(-1, keepdim=True) + 1e-5) * w + b


def _divergence(lib: Any, mean: Any, log: Any, mean2: Any, log2: Any) -> Any:
    return (0.5 * (log2 - log + ((lib.exp(log) + (mean - mean2) ** 2) / lib.exp(log2)) - 1)).sum(-1).mean()


def _huber(lib: Any, p: Any, t: Any, w: Any) -> Any:
    d = p - t
    a = d.abs()
    return (lib.where(a < 1, 0.5 * d * d, a - 0.5) * w).sum() / w.sum() + 0.01 * (p * p).mean()


def _normal(*shape: int) -> tuple[str, tuple[int, ...]]:
    return "normal", shape


def _between(low: float, high: float, *shape: int) -> tuple[Any, ...]:
    return "uniform", shape, low, high


FUNCTIONS: dict[str, tuple[Function, Sequence[Any]]] = {
    "chain of 1 M": (_chain, [_normal(1024, 1024)] * 2),
    "RMS norm and rotation 4x256x128": (_rms_rope, [_normal(4, 256, 128), _normal(128), *[_normal(256, 64)] * 2]),
    "physics loss 258x258": (_physics, [_normal(258, 258), _normal(256, 256)]),
    "diffusion step 16x3072": (_diffusion, [*[_normal(16, 3072)] * 2, _between(0.1, 0.9, 16, 1), _normal(16, 3072)]),
    "focal loss 512x512": (_focal, [_normal(512, 512), _between(0, 1, 512, 512)]),
    "Black-Scholes 256x256": (_black_scholes, [_between(50, 100, 256, 256), _between(50, 100, 256, 256),
                                               _between(0.1, 1, 256, 256), _between(0, 0.05, 256, 256),
                                               _between(0.1, 0.4, 256, 256)]),
    "gated unit with a largest 512x512": (_gated, [*[_normal(512, 512)] * 2, _normal(512)]),
    "residual and norm 512x768": (_residual_norm, [*[_normal(512, 768)] * 2, *[_normal(768)] * 2]),
    "divergence of normals 512x256": (_divergence, [_normal(512, 256)] * 4),
    "weighted Huber loss 512x512": (_huber, [*[_normal(512, 512)] * 2, _between(0.1, 1, 512, 512)]),
}  # fmt: skip
"""Ten functions, each on the arrays that it takes: how they are drawn, and their shapes."""


def arrays(drawn: Sequence[Any]) -> list[np.ndarray]:
    """Draw what a function takes."""
    rng = np.random.default_rng(0)
    found = []
    for how, shape, *limits in drawn:
        a = rng.standard_normal(shape) if how == "normal" else rng.uniform(limits[0], limits[1], shape)
        found.append(a.astype(np.float32))
    return found


def called(lib: Any, function: Function, given: Sequence[np.ndarray], gradient: bool) -> Work:
    """Return what calls a function of one library's tensors, and takes the gradient of its first argument."""
    tensors = [lib.tensor(a) for a in given]
    if not gradient:
        return partial(function, *tensors)
    tensors[0].requires_grad_()

    def run() -> Any:
        found = function(*tensors)
        found = found[0] if isinstance(found, tuple) else found
        return found, lib.autograd.grad(found.sum(), tensors[:1])[0]

    return run


def contestants(function: Function, drawn: Sequence[Any], gradient: bool, torch: Any,
                compiler: bool) -> tuple[dict[str, Work], Any]:  # fmt: skip
    """Return who takes part, by name, and core's compiled function."""
    given = arrays(drawn)
    compiled = core.compile(partial(function, core), check=3)
    works = {"core": called(core, partial(function, core), given, gradient),
             "compiled": called(core, compiled, given, gradient)}  # fmt: skip
    for _ in range(6):
        works["compiled"]()
    if torch is not None:
        works["PyTorch"] = called(torch, partial(function, torch), given, gradient)
        if compiler:
            torch._dynamo.reset()
            theirs = torch.compile(lambda *tensors: function(torch, *tensors))
            works["torch.compile"] = called(torch, theirs, given, gradient)
            for _ in range(3):
                works["torch.compile"]()
    return works, compiled


def functions(rounds: int, only: str, torch: Any, compiler: bool) -> Iterator[dict[str, Any]]:
    """Time every function, alone and with its gradient."""
    for gradient in (False, True):
        for name, (function, drawn) in FUNCTIONS.items():
            if only in name:
                works, compiled = contestants(function, drawn, gradient, torch, compiler)
                yield row(
                    name + (", gradient" if gradient else ""),
                    in_turn(works, rounds, 0.005, 0.0, clock=time.process_time),
                    compiled,
                )


def training(rounds: int, only: str, torch: Any, compiler: bool) -> Iterator[dict[str, Any]]:
    """Time every training step that has one loss."""
    for case in steps():
        mine = case.make(core, "float32")
        if only not in case.name or len(mine.losses) != 1:
            continue
        step = core.compile_step(mine.losses[0], None, mine.optimizers[0], check=3)
        works: dict[str, Work] = {"core": case.make(core, "float32"), "compiled": step}
        for _ in range(6):
            step()
        if torch is not None:
            works["PyTorch"] = case.make(torch, "float32")
            works["PyTorch"]()
        if torch is not None and compiler:
            torch._dynamo.reset()
            theirs = case.make(torch, "float32")
            theirs.compile(torch.compile)
            for _ in range(3):
                theirs()
            works["torch.compile"] = theirs
        yield row(f"step: {case.name}", in_turn(works, rounds, 0.01, 0.0, clock=time.process_time), step)


def row(name: str, times: dict[str, list[float]], compiled: Any) -> dict[str, Any]:
    """Return the figures of a case: core's time, and the others' as shares of it, medians over the rounds."""
    base = times["core"]
    shares = {n: statistics.median(a / b for a, b in zip(found, base, strict=True))
              for n, found in times.items() if n != "core"}  # fmt: skip
    states = {v.state for v in compiled.explain().variants}
    return {"name": name, "core_us": statistics.median(base) * 1e6, "shares": shares,
            "as": "compiled" if states == {"compiled"} else "eager"}  # fmt: skip


_CHILD = """
import gc, json, sys
import core
from core import native
from core.compiled import variant
from lab.benchmarks.memory import resident
from lab.benchmarks.steps import gpt
compiled, sizes = sys.argv[1] == "compiled", json.loads(sys.argv[2])
core.set_num_threads(1)
a = core.ones(64, 64, requires_grad=True)
(a @ a).sum().backward()
before = resident("VmRSS")
step = gpt(core, "float32", sizes)
lasting = 16 * sum(p.numel() for group in step.optimizers[0].param_groups for p in group["params"])
step()
if compiled:
    variant._GAIN = float("inf")
    step = core.compile_step(step.losses[0], None, step.optimizers[0], check=3)
    for _ in range(6):
        step()
    assert step.explain().variants[0].state == "compiled", step.explain()
gc.collect()
native.module.release_memory()
with open("/proc/self/clear_refs", "w") as f:
    f.write("5")  # the peak from here on
for _ in range(4):
    step()
print(json.dumps({"peak": resident("VmHWM") - before - lasting}))
"""


def main(argv: list[str]) -> int:
    """Run the command line; 0."""
    parser = Parser(
        prog="python -m lab bench compile", description=__doc__, example="python -m lab bench compile --eager"
    )
    parser.add_argument("--only", default="", help="those cases with this text in their name")
    parser.add_argument("--eager", action="store_true", help="leave out torch.compile, which takes seconds a case")
    parser.add_argument("--rounds", type=int, default=15, help="timings of each contestant (15)")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args(argv)
    try:
        torch = importlib.import_module("torch")
        torch.set_num_threads(1)
    except ImportError:
        torch = None
    before = core.get_num_threads()
    core.set_num_threads(1)
    found = []
    print(f"{'':44} {'core':>11}" + "".join(f"{name:>15}" for name in NAMES) + "   as")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for part in (functions, training):
                for r in part(options.rounds, options.only, torch, not options.eager):
                    found.append(r)
                    cells = "".join(f"{r['shares'][n]:15.3f}" if n in r["shares"] else f"{'':15}" for n in NAMES)
                    print(f"{r['name']:44} {r['core_us']:8.1f} µs{cells}   {r['as']}", flush=True)
    finally:
        core.set_num_threads(before)
    for name, sizes in SIZES.items():
        if options.only in f"memory: {name}":
            peaks = {how: peak(how, sizes) for how in ("eager", "compiled")}
            share = peaks["compiled"] / peaks["eager"]
            print(f"memory: {name:36} {peaks['eager'] / 2**20:8.1f} MiB{share:14.3f}")
            found.append({"name": f"memory: {name}", "peak_bytes": peaks, "share": share})
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))
    return 0


def peak(how: str, sizes: dict[str, int]) -> int:
    """Return the bytes that a step has at most, beyond the weights, their gradients and the optimizer's moments."""
    command = [sys.executable, "-c", _CHILD, how, json.dumps(sizes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the steps failed\n{done.stderr.strip()[-500:]}")
    return int(json.loads(done.stdout.splitlines()[-1])["peak"])
