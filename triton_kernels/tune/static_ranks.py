"""How well kernels are ordered without a GPU: recorded times of real GPUs beside what is estimated for the same kernel.

The recorded kernel is a product of matrices in Triton, of which Inductor's autotuning printed the times of nineteen
configs at many shapes (`recorded_products.json`). Here the same algorithm is compiled for the same GPU, counted and
estimated. The figures of a space are those of constants that were fitted to all others.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ..resources import resources_of
from .declared import dtype_of
from .devices import DEVICES, occupancy
from .estimates import CONSTANTS, Constants, Launched, correlation, time_ms
from .measure_static import Argument, Code, code_says, estimate_ms, start_compiling
from .texts import made

RECORDED = Path(__file__).with_name("recorded_products.json")
_SLOWER = 1.3  # times the slowest known: what contestants are taken for that were not printed, for being slower
_BEGIN, _SHARES = Constants(1000.0, 2.0, 0.8, 0.5, 1.0), [2, 3]  # where a fit begins; what cannot exceed 1
_POINTER = {"float16": "fp16", "float32": "fp32"}

PRODUCT = """
import triton
import triton.language as tl


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, cm, cn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
            BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    program = tl.program_id(0)
    columns = tl.cdiv(N, BLOCK_N)
    width = GROUP_M * columns
    first = program // width * GROUP_M
    rows = min(tl.cdiv(M, BLOCK_M) - first, GROUP_M)
    m = (first + program % rows) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = program % width // rows * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a = a_ptr + (m % M)[:, None] * am + k[None, :] * ak
    b = b_ptr + k[:, None] * bk + (n % N)[None, :] * bn
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, K, BLOCK_K):
        total += tl.dot(tl.load(a), tl.load(b), input_precision="ieee")
        a += BLOCK_K * ak
        b += BLOCK_K * bk
    inside = (m < M)[:, None] & (n < N)[None, :]
    tl.store(c_ptr + m[:, None] * cm + n[None, :] * cn, total.to(c_ptr.dtype.element_ty), mask=inside)
"""
"""The recorded kernel's algorithm: whole tiles by columns of eight, the second operand's columns dense."""


@dataclass(frozen=True)
class Contestant:
    """A config of a space: its recorded time, `known` where it was printed, and what is estimated from."""

    config: str
    ms: float
    known: bool
    launched: Launched
    shared_bytes: int


@dataclass(frozen=True)
class Recording:
    """A space: a product at a shape on a GPU."""

    gpu: str
    target: str
    dtype: str
    shape: tuple[int, int, int]
    contestants: tuple[Contestant, ...]

    @property
    def name(self) -> str:
        """What it is called in the table."""
        return f"{self.gpu} {'x'.join(map(str, self.shape))} {self.dtype}"


def recordings(content: Mapping[str, Any] | None = None) -> list[Recording]:
    """Return the spaces of a file's content, with their configs as they were compiled when it was written."""
    content = json.loads(RECORDED.read_text()) if content is None else content
    found = []
    for space in content["spaces"]:
        times, contestants = space["times"], []
        compiled = content["compiled"][f"{space['target']} {space['dtype']}"]
        for config in space.get("tried", content["tried"]):
            registers, shared, spilled, *code = compiled[config]
            launched = _launched(space, config, registers, shared, spilled, Code(*code))
            if launched is not None:
                ms = times.get(config, _SLOWER * max(times.values()))
                contestants.append(Contestant(config, ms, config in times, launched, shared))
        found.append(Recording(space["gpu"], space["target"], space["dtype"], tuple(space["shape"]),
                               tuple(contestants)))  # fmt: skip
    return found


def compiled_anew(content: Mapping[str, Any], heard: Callable[[str], None]) -> dict[str, Any]:
    """Return a file's content with its configs compiled by the installed Triton; `heard` is told of each."""
    kernel = made(PRODUCT, "product")
    found: dict[str, dict[str, list[float]]] = {}
    for space in content["spaces"]:
        target, dtype = space["target"], space["dtype"]
        known = found.setdefault(f"{target} {dtype}", {})
        for config in space.get("tried", content["tried"]):
            if config not in known:
                heard(f"compiling {config} for {target}")
                known[config] = _compiled(kernel, target, dtype, config)
    return {**content, "compiled": found}


def written(content: Mapping[str, Any]) -> str:
    """Return a file's content as its text, a line a space and a compiled config."""
    head = {k: v for k, v in content.items() if k not in ("spaces", "compiled")}
    lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
    spaces = ",\n".join("  " + json.dumps(space) for space in content["spaces"])
    kinds = []
    for kind, configs in content["compiled"].items():
        rows = ",\n".join(f"   {json.dumps(config)}: {json.dumps(facts)}" for config, facts in configs.items())
        kinds.append(f"  {json.dumps(kind)}: {{\n{rows}\n  }}")
    lines += [f' "spaces": [\n{spaces}\n ]', ' "compiled": {\n' + ",\n".join(kinds) + "\n }"]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def parts_of(config: str) -> tuple[int, int, int, int, int]:
    """Return a config's sizes.

    >>> parts_of("64x128x32 s3 w4")
    (64, 128, 32, 3, 4)
    """
    bm, bn, bk, stages, warps = map(int, re.findall(r"\d+", config))
    return bm, bn, bk, stages, warps


def _compiled(kernel: Any, target: str, dtype: str, config: str) -> list[float]:
    """Registers, bytes of shared memory and of spills, and what the instructions say."""
    bm, bn, bk, stages, warps = parts_of(config)
    start_compiling(target)
    a = Argument(_POINTER[dtype])
    sizes = (4096, 4096, 4096, 4096, 1, 1, 4096, 4096, 1)
    compiled = kernel.run(a, a, a, *sizes, BLOCK_M=bm, BLOCK_N=bn, BLOCK_K=bk, GROUP_M=8, num_warps=warps,
                          num_stages=stages, grid=(1,), warmup=True)  # fmt: skip
    r = resources_of(compiled)
    return [r.registers, r.shared_bytes, r.spill_bytes, *astuple(code_says(compiled))]


def _launched(
    space: dict[str, Any], config: str, registers: int, shared_bytes: int, spilled: int, code: Code
) -> Launched | None:
    """Return a launch at a space's shape; None for one that does not fit the GPU."""
    device, dtype = DEVICES[space["target"]], space["dtype"]
    bm, bn, bk, _, warps = parts_of(config)
    full = occupancy(device, registers, shared_bytes, warps)
    if shared_bytes > device.shared_limit or not full.blocks:
        return None
    flops, asked, programs = counts_at(space["shape"], dtype, bm, bn, bk)
    m, n, k = space["shape"]
    more = 2.0 * spilled * device.lanes * warps * programs
    least = dtype_of(dtype).itemsize * (m * k + k * n + m * n)
    return Launched(dtype, flops, least + more, asked + more, programs, warps, code.flying, full, code.fed,
                    code.pipelined)  # fmt: skip


def counts_at(shape: Sequence[int], dtype: str, bm: int, bn: int, bk: int) -> tuple[float, float, int]:
    """Return what `counting` finds for the kernel: operations, bytes that are asked for, programs."""
    m, n, k = shape
    programs, deep, size = math.ceil(m / bm) * math.ceil(n / bn), math.ceil(k / bk) * bk, dtype_of(dtype).itemsize
    return 2.0 * programs * bm * bn * deep, float(size * (programs * deep * (bm + bn) + m * n)), programs


# -- the fit -----------------------------------------------------------------------------------------------------------


def error(constants: Constants, spaces: Sequence[Recording]) -> float:
    """Return the root of the mean square of ln(estimate / time), each space counting alike."""
    squares = []
    for space in spaces:
        device = DEVICES[space.target]
        logs = [math.log(time_ms(device, c.launched, constants) / c.ms) for c in space.contestants if c.known]
        squares.append(sum(x * x for x in logs) / len(logs))
    return math.sqrt(sum(squares) / len(squares))


def fitted(spaces: Sequence[Recording], tries: int = 400, seed: int = 0) -> Constants:
    """Return the constants of the least error: steps at random from where it is least so far, ever smaller ones.

    They begin at round figures, not at what other spaces were fitted to, and no share exceeds 1.
    """
    rng, best = np.random.default_rng(seed), _BEGIN
    least, count = error(best, spaces), len(astuple(best))
    for k in range(tries):
        step = 0.5 * 0.99**k + 0.02
        moved = np.array(astuple(best)) * np.exp(rng.normal(0.0, step, count) * (rng.random(count) < 0.5))
        moved[_SHARES] = np.minimum(moved[_SHARES], 1.0)
        new = Constants(*moved.tolist())
        if (now := error(new, spaces)) < least:
            best, least = new, now
    return best


# -- the table ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ranked:
    """A way to order a space: its rank correlation with the times, how much slower than the best its first and the best
    of its first ten are, and the middle of its error where it says times."""

    way: str
    correlation: float
    first: float
    ten: float
    off: float = math.nan


def ranked(way: str, space: Recording, estimates: Sequence[float], times: bool = True) -> Ranked:
    """Judge estimates of a space's contestants. Of equal estimates the mean of what they may give counts."""
    ms = [c.ms for c in space.contestants]
    best = min(ms)
    off = [abs(math.log(e / c.ms)) for e, c in zip(estimates, space.contestants, strict=True) if c.known]
    first, ten = (max(_regret(estimates, ms, count) / best - 1.0, 0.0) for count in (1, 10))
    return Ranked(way, correlation(estimates, ms), first, ten, math.exp(median(off)) - 1.0 if times else math.nan)


def _regret(estimates: Sequence[float], ms: Sequence[float], count: int, draws: int = 200) -> float:
    """Return the least time among the first `count`, on average over the orders of equal estimates."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(draws):
        order = np.lexsort((rng.random(len(ms)), np.asarray(estimates)))[:count]
        found.append(min(ms[k] for k in order))
    return float(np.mean(found))


def judged(space: Recording, constants: Constants) -> list[Ranked]:
    """Return how the estimate, the roofline with occupancy, the roofline alone and chance order a space."""
    device, contestants = DEVICES[space.target], space.contestants
    static = [time_ms(device, c.launched, constants) for c in contestants]
    before, roof = [], []
    for c in contestants:
        n = c.launched
        moved = max(n.moved, n.asked / 3.0)  # as it is reckoned where bytes are not counted: from L2 a third
        before.append(estimate_ms(device, n.dtype, n.flops, moved, n.programs, n.num_warps, n.full, c.shared_bytes))
        roof.append(max(n.moved / device.bytes_per_s, n.flops / device.flops[n.dtype]) * 1e3)
    return [ranked("static", space, static), ranked("roofline and occupancy", space, before),
            ranked("roofline", space, roof), ranked("random", space, [1.0] * len(contestants), False)]  # fmt: skip


def as_committed(spaces: Sequence[Recording]) -> list[list[Ranked]]:
    """Judge each space with the constants that the tuner uses."""
    return [judged(space, CONSTANTS) for space in spaces]


def left_out(spaces: Sequence[Recording], tries: int = 400) -> list[list[Ranked]]:
    """Judge each space with constants fitted to the others."""
    return [judged(space, fitted([s for s in spaces if s is not space], tries)) for space in spaces]
