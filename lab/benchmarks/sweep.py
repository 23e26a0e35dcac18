"""``python -m lab bench sweep``: every op beside PyTorch, on small, middle and large tensors, forward and both ways.

The calls stand in sweep_ops.py. A row is a call at a size and in a direction; core and PyTorch eager take turns in one
process on one thread, and the processor's time counts. What core gives is held to PyTorch's float64 first (random
calls: to its shape), and a wrong row counts as slower. Told are the rows above 1, the share of those at most 1, and the
geometric mean.
"""

from __future__ import annotations

import importlib
import math
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import core

from ..console.options import Parser
from .cpu import error_of, machine, text_of
from .sweep_ops import FAMILIES, calls
from .timing import Spread, in_turn

LOOSE = 2e-3
"""How far off a result may be before its time counts, as a share of the largest: slips are looked for, not rounding."""
RANDOM = re.compile(r"rand|dropout|bernoulli|multinomial|normal[(_]|gumbel|uniform_|exponential_|t\.empty\(R, C\)$")
SIZES = {"small": (8, 8), "middle": (128, 256), "large": (1024, 1024)}
IMAGES = {"small": (1, 4, 8, 8), "middle": (2, 16, 32, 32), "large": (4, 64, 64, 64)}
VOLUMES = {"small": (1, 4, 4, 4, 4), "middle": (1, 8, 16, 16, 16), "large": (2, 16, 32, 32, 32)}
SIGNALS = {"small": (1, 4, 16), "middle": (2, 16, 1024), "large": (4, 64, 4096)}
STACKS = {"small": (2, 4, 4), "middle": (8, 64, 64), "large": (16, 256, 256)}
HEADS = {"small": (1, 2, 4, 8), "middle": (2, 4, 64, 64), "large": (4, 8, 256, 64)}
SMALL = {"small": (4, 4), "middle": (16, 16), "large": (64, 64)}
"""Shapes of matrices, images and the like by size; `SMALL` those of what grows faster than its input."""
Maker = Callable[["Inputs"], Any]


class Inputs:
    """The inputs of one size and library, made when a call asks for them by name.

    Floats want gradients where `both`, except targets and probabilities.
    """

    def __init__(self, lib: Any, dtype: str, size: str, both: bool) -> None:
        self.lib, self.dtype, self.size, self.both = lib, getattr(lib, dtype), size, both
        self.rows, self.columns = SIZES[size]
        self.leaves: list[Any] = []

    def floats(self, values: np.ndarray, grad: bool = True) -> Any:
        """Return the same numbers in either library and in every type."""
        made = self.lib.from_numpy(values.astype(np.float32)).to(self.dtype)
        if grad and self.both:
            self.leaves.append(made.requires_grad_())
        return made

    def normal(self, *shape: int, seed: int = 0, scale: float = 1.0) -> Any:
        """Return normal floats."""
        return self.floats(np.random.default_rng(seed).standard_normal(shape) * scale)

    def uniform(self, low: float, high: float, grad: bool = True) -> Any:
        """Return a matrix of floats between two bounds."""
        shape = (self.rows, self.columns)
        return self.floats(np.random.default_rng(3).uniform(low, high, shape), grad)

    def whole(self, most: int, *shape: int) -> Any:
        """Return whole numbers from 0 to `most` - 1."""
        return self.lib.from_numpy(np.random.default_rng(4).integers(0, most, shape))

    def of(self, values: np.ndarray) -> Any:
        """Return what needs no gradient and keeps its type."""
        return self.lib.from_numpy(values)


def _distinct(i: Inputs, seed: int, *shape: int) -> Any:
    """Return floats of which no two are equal: a sort's gradient is one alone."""
    n = math.prod(shape)
    return i.floats((np.random.default_rng(seed).permutation(n) * (4 / n) - 2).reshape(shape))


def _square(i: Inputs, n: int, seed: int = 5) -> Any:
    return i.floats(np.random.default_rng(seed).standard_normal((n, n)) / n**0.5 + 2 * np.eye(n))


def _definite(i: Inputs) -> Any:
    n = SMALL[i.size][0]
    root = np.random.default_rng(6).standard_normal((n, n)) / n**0.5
    return i.floats(root @ root.T + np.eye(n))


def _kernel(i: Inputs, channels: int, *window: int) -> Any:
    return i.normal(channels, channels, *window, seed=7, scale=(channels * math.prod(window)) ** -0.5)


def _setitem(x: Any, index: Any, value: Any) -> Any:
    x[index] = value
    return x


def _parameters(i: Inputs) -> list[Any]:
    """Twelve parameters with gradients, as many items as the size's matrix has."""
    made = []
    for k in range(12):
        p = i.lib.nn.Parameter(i.lib.from_numpy(_numbers(i, k)).to(i.dtype))
        p.grad = i.lib.from_numpy(_numbers(i, 50 + k)).to(i.dtype)
        made.append(p)
    return made


def _numbers(i: Inputs, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(i.rows * i.columns // 12 + 1).astype(np.float32)


SHAPES: dict[str, Maker] = {
    "x": lambda i: i.normal(i.rows, i.columns, seed=10), "y": lambda i: i.normal(i.rows, i.columns, seed=11),
    "z": lambda i: i.normal(i.rows, i.columns, seed=12), "row": lambda i: i.normal(i.columns, seed=13),
    "flat": lambda i: _distinct(i, 14, i.rows * i.columns), "flat2": lambda i: _distinct(i, 15, i.rows * i.columns),
    "distinct": lambda i: _distinct(i, 16, i.rows, i.columns),
    "positive": lambda i: i.uniform(0.5, 1.5), "unit": lambda i: i.uniform(0.05, 0.95),
    "probability": lambda i: i.uniform(0.05, 0.95, grad=False),
    "mask": lambda i: i.of(np.random.default_rng(2).random((i.rows, i.columns)) < 0.3),
    "signs": lambda i: i.floats(np.random.default_rng(2).integers(0, 2, (i.rows, i.columns)) * 2 - 1, grad=False),
    "whole": lambda i: i.whole(10, i.rows, i.columns), "columns": lambda i: i.whole(i.columns, i.rows, i.columns),
    "down": lambda i: i.whole(i.rows, i.rows, i.columns), "rows": lambda i: i.whole(min(i.rows, i.columns), i.rows),
    "labels": lambda i: i.whole(i.columns, i.rows), "words": lambda i: i.whole(i.rows, i.rows // 4, 8),
    "order": lambda i: i.of(np.random.default_rng(2).permutation(i.rows)),
    "edges": lambda i: i.floats(np.linspace(-2, 2, 32), grad=False),
    "image": lambda i: i.normal(*IMAGES[i.size], seed=16), "channel": lambda i: i.normal(IMAGES[i.size][1], seed=17),
    "channels": lambda i: IMAGES[i.size][1],
    "mean": lambda i: i.floats(np.zeros(IMAGES[i.size][1]), grad=False),
    "spread": lambda i: i.floats(np.ones(IMAGES[i.size][1]), grad=False),
    "kernel": lambda i: _kernel(i, IMAGES[i.size][1], 3, 3), "point": lambda i: _kernel(i, IMAGES[i.size][1], 1, 1),
    "depth": lambda i: i.normal(IMAGES[i.size][1], 1, 3, 3, seed=18, scale=0.3),
    "signal": lambda i: i.normal(*SIGNALS[i.size], seed=19), "kernel1": lambda i: _kernel(i, SIGNALS[i.size][1], 3),
    "volume": lambda i: i.normal(*VOLUMES[i.size], seed=20),
    "kernel3": lambda i: _kernel(i, VOLUMES[i.size][1], 3, 3, 3),
    "grid": lambda i: i.floats(np.random.default_rng(8).uniform(-1, 1, (IMAGES[i.size][0], *IMAGES[i.size][2:], 2))),
    "batch": lambda i: i.normal(*STACKS[i.size], seed=21), "batch2": lambda i: i.normal(*STACKS[i.size], seed=22),
    "square3": lambda i: _square(i, STACKS[i.size][2]), "query": lambda i: i.normal(*HEADS[i.size], seed=23),
    "key": lambda i: i.normal(*HEADS[i.size], seed=24), "value": lambda i: i.normal(*HEADS[i.size], seed=25),
    "weight": lambda i: _square(i, i.columns), "square": lambda i: _square(i, min(i.rows, 512)),
    "square2": lambda i: _square(i, min(i.rows, 512), 9), "square4": lambda i: _square(i, i.columns),
    "square5": lambda i: _square(i, SMALL[i.size][0]), "definite": _definite,
    "small": lambda i: i.normal(*SMALL[i.size], seed=26), "small2": lambda i: i.normal(*SMALL[i.size], seed=27),
    "small5": lambda i: i.normal(*SMALL[i.size], seed=28), "cube": lambda i: i.normal(*[SMALL[i.size][0]] * 3, seed=29),
    "triples": lambda i: i.normal(i.rows * i.columns // 3, 3, seed=30),
    "triples2": lambda i: i.normal(i.rows * i.columns // 3, 3, seed=31),
    "targets": lambda i: i.of(np.random.default_rng(3).integers(1, STACKS[i.size][2], (STACKS[i.size][1], 1))),
    "lengths": lambda i: i.of(np.full(STACKS[i.size][1], STACKS[i.size][0])),
    "target_lengths": lambda i: i.of(np.full(STACKS[i.size][1], 1)),
    "array": lambda i: np.random.default_rng(1).standard_normal((i.rows, i.columns)).astype(np.float32),
    "numbers": lambda i: np.random.default_rng(1).standard_normal((i.rows, i.columns)).tolist(),
    "parameters": _parameters,
}  # fmt: skip
"""The inputs by the names that calls use."""


class Call:
    """A call of the sweep in one library: run it, it gives its result and, both ways, the gradients of its inputs.

    *Raises*: what the library has against the call.
    """

    def __init__(self, text: str, lib: Any, dtype: str, size: str, both: bool) -> None:
        expression, _, setup = text.partition(" :: ")
        code = compile(expression, f"<{expression}>", "eval")
        inputs = Inputs(lib, dtype, size, both)
        names = {*code.co_names, *re.findall(r"\w+", setup)}
        known: dict[str, Any] = {"t": lib, "F": lib.nn.functional, "R": inputs.rows, "C": inputs.columns,
                                 "N": inputs.rows * inputs.columns, "setitem": _setitem}  # fmt: skip
        for name in SHAPES:
            if name in names:
                known[name] = SHAPES[name](inputs)
        self.lib, self.leaves, self.seed = lib, inputs.leaves, None
        if expression.startswith("step("):
            known["step"] = self._stepping(inputs)
        if setup:
            name, _, made = setup.partition(" = ")
            with core.random.fork_rng():
                core.manual_seed(0, kind="torch") if lib is core else lib.manual_seed(0)
                layer = eval(made, known).to(inputs.dtype)
            for p in layer.parameters():
                p.requires_grad_(both)
            known[name] = layer
            self.leaves += list(layer.parameters()) if both else []
        self.forward: Callable[[], Any] = eval(f"lambda: {expression}", known)
        self.both = both

    def _stepping(self, inputs: Inputs) -> Callable[..., Any]:
        parameters = _parameters(inputs)
        optimizers: dict[Any, Any] = {}

        def step(kind: Any, **settings: Any) -> Any:
            if not optimizers:
                optimizers[kind] = kind(parameters, **settings)
            optimizers[kind].step()
            return parameters

        return step

    def __call__(self) -> Any:
        if not self.both:
            return self.forward()
        for x in self.leaves:
            x.grad = None
        y = self.forward()
        if isinstance(y, tuple):
            y = next(part for part in y if part.requires_grad)
        if self.seed is None:
            values = np.random.default_rng(99).standard_normal(tuple(y.shape)).astype(np.float32)
            self.seed = self.lib.from_numpy(np.asarray(values)).to(y.dtype)
        y.backward(self.seed)
        return y

    def differentiable(self) -> bool:
        """Whether there is a gradient to take."""
        y = self.forward()
        if not any(getattr(part, "requires_grad", False) for part in (y if isinstance(y, tuple) else (y,))):
            return False
        try:
            self()
        except RuntimeError as error:  # a node that says so only when it is asked
            return "not implemented" not in str(error)
        return True

    def results(self) -> list[np.ndarray]:
        """Return the result's parts and the gradients, as float64."""
        y = self()
        parts = list(y) if isinstance(y, tuple | list) else [y]
        found = [part.detach().to(self.lib.float64).numpy() if hasattr(part, "detach") else np.asarray(part, np.float64)
                 for part in parts]  # fmt: skip
        return found + [x.grad.to(self.lib.float64).numpy() for x in self.leaves if x.grad is not None]


@dataclass
class Row:
    """A call at a size and in a direction: medians in µs, the ratio to PyTorch, and why it counts as slower."""

    family: str
    call: str
    size: str
    both: bool
    core_us: float = math.nan
    torch_us: float = math.nan
    ratio: float = math.inf
    low: float = math.inf
    high: float = math.inf
    failed: str = ""

    @property
    def name(self) -> str:
        """What `--only` looks at."""
        return f"{self.call}, {self.size}{', both ways' if self.both else ''}"

    def __str__(self) -> str:
        if self.failed:
            return f"{'':7} {self.name:92} {self.failed}"
        return (f"{self.ratio:7.3f} {self.name:92} {self.core_us:10.2f} / {self.torch_us:10.2f} µs"
                f"  [{self.low:.2f} … {self.high:.2f}]")  # fmt: skip


def wrong(text: str, mine: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> str:
    """Return what is wrong with core's results; "" where nothing is."""
    if [a.shape for a in mine] != [b.shape for b in right]:
        return f"shapes {[a.shape for a in mine]} instead of {[b.shape for b in right]}"
    if RANDOM.search(text):
        return ""
    off = error_of(mine, right)
    return "" if off <= LOOSE else f"off by {off:.2g} of the largest"


def measure(row: Row, torch: Any, rounds: int, block_s: float = 0.003) -> Row | None:
    """Fill a row in; None where PyTorch has no gradient."""
    if row.both and not Call(row.call, torch, "float32", row.size, True).differentiable():
        return None
    right = Call(row.call, torch, "float64", row.size, row.both).results()
    try:
        mine, other = (Call(row.call, lib, "float32", row.size, row.both) for lib in (core, torch))
        row.failed = wrong(row.call, mine.results(), right)
    except Exception as error:
        row.failed = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
    if row.failed:
        return row
    times = in_turn({"core": mine, "torch": other}, rounds, block_s, calm_s=0.0, clock=time.process_time)
    row.core_us, row.torch_us = (statistics.median(found) * 1e6 for found in times.values())
    row.low, row.ratio, row.high = Spread.of([a / b for a, b in zip(times["core"], times["torch"], strict=True)])
    return row


def rows(families: Sequence[str], sizes: Sequence[str], only: str) -> Iterator[Row]:
    """Every row whose name has `only` in it."""
    for family in families:
        for text in calls(family):
            for size in sizes:
                for both in (False, True):
                    row = Row(family, text, size, both)
                    if only in row.name:
                        yield row


def summary_of(found: Sequence[Row]) -> str:
    """Return the share of rows at most 1 and the geometric mean."""
    timed = [r.ratio for r in found if not r.failed]
    if not timed:
        return "no row was timed"
    met = sum(r <= 1 for r in timed)
    return (f"{met} of {len(found)} rows at most PyTorch's time ({met / len(found):.1%}); "
            f"geometric mean {math.exp(statistics.fmean(map(math.log, timed))):.3f}; "
            f"{len(found) - len(timed)} not timed")  # fmt: skip


def main(argv: list[str]) -> int:
    """Run the command line; 1 where a row's result was wrong."""
    parser = Parser(prog="python -m lab bench sweep", description=__doc__,
                    example="python -m lab bench sweep reductions --size small")  # fmt: skip
    parser.add_argument("family", nargs="*", help=f"{', '.join(FAMILIES)}; all if left out")
    parser.add_argument("--size", action="append", choices=list(SIZES), help="this size alone; may be given again")
    parser.add_argument("--only", default="", help="those rows with this text in their name")
    parser.add_argument("--rounds", type=int, default=7, help="timings of each contestant (7)")
    parser.add_argument("--all", action="store_true", help="print all rows, not only those above 1")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args(argv)
    if unknown := [f for f in options.family if f not in FAMILIES]:
        parser.error(f"no family is called {', '.join(unknown)}: there are {', '.join(FAMILIES)}")
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        parser.error("PyTorch is not installed here, and there is nothing else to compare with: pip install torch")
    threads = core.get_num_threads()
    core.set_num_threads(1)
    torch.set_num_threads(1)
    found: list[Row] = []
    try:
        for asked in rows(options.family or list(FAMILIES), options.size or list(SIZES), options.only):
            row = measure(asked, torch, options.rounds)
            if row is None:
                continue
            found.append(row)
            if options.all or row.failed or row.ratio > 1:
                print(row, flush=True)
        about = machine(torch)
    finally:
        core.set_num_threads(threads)
    for name in FAMILIES:
        if part := [r for r in found if r.family == name]:
            print(f"{name:12} {summary_of(part)}")
    print(f"{'all':12} {summary_of(found)}")
    if options.json:
        Path(options.json).write_text(text_of({"machine": about, "results": [asdict(r) for r in found]}))
    print(f"{len({r.call for r in found})} calls", file=sys.stderr)
    return int(any(r.failed for r in found))
