"""`python -m lab bench`: measurements too long or too noisy for tests, always as ratios of things timed in turn.

Sections (all of them if none is named): `overhead`, `ops`, `layers`, `short-steps`, `steps` (core beside NumPy and
PyTorch, eager and compiled, at what an op costs, at the kernels, at layers, at training steps of small models and of
eight networks), `memory` (the peak of a training step),
`observer` and `recording` (lab's cost when nobody looks, and when it does), `small` (layers of 8 and 4 bits beside
float32, onnxruntime and PyTorch). Commands of their own: `check` (has core become slower than the committed ratios?),
`launch` and `--device cuda` (a GPU's), `tuning-replay` (the tuner's search on recorded spaces), `static-ranks` (how
well configs are ordered without a GPU), `c-kernels` and `c-dispatch` (the tuner on four C kernels, beside all of their
configs), `serving` (`lab serve` beside LitServe), `small-accuracy` (what fewer bits cost three models), `distributed`
(sums over processes beside PyTorch's gloo), `winograd-error` (3x3 convolutions beside float64), `compile` (functions
and steps compiled), `sweep` (460 calls of ops by three sizes beside PyTorch, forward and both ways: how many take at
most its time).
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import core

from ..console.options import Parser, meant
from . import cpu, cuda, memory, plot, recording, small, watching
from .timing import Ratio, ratio

SECTIONS = (*cpu.SECTIONS, "memory", "observer", "recording", "small")
COMMANDS = {"check": "check", "launch": "launch", "tuning-replay": "tuning_replay", "static-ranks": "static_ranks",
            "c-kernels": "c_kernels", "c-dispatch": "c_dispatch", "serving": "serving",
            "small-accuracy": "small_accuracy", "distributed": "distributed",
            "winograd-error": "winograd_error", "compile": "compiled", "sweep": "sweep"}  # fmt: skip

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

    bare, loaded = start(""), start("import lab, lab.notebook.magics, lab.recorder.observer")
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
    return ratio("a + b on 8x8: lab loaded / not loaded", pairs)


def _lab_costs(name: str, only: str) -> list[dict[str, Any]]:
    """Return what lab itself costs: `observer` or `recording`, of the cells with this text in their name."""
    print(f"\n{name}\n{'':44} {'ratio':>7}   middle half        median times")
    found: list[Ratio] = []
    step = recording.measure() if only in "GPT step" else []
    rows = chain((ratio(*row) for row in step), watching.measure(only))
    for row in [observer_cost()] if name == "observer" else rows:
        print(row, flush=True)
        found.append(row)
    return [row._asdict() for row in found]


def main(argv: list[str] | None = None) -> int:
    """Run the command line; 0 when everything asked for was measured, 1 where a result was wrong or a case
    failed."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in COMMANDS:
        return int(importlib.import_module(f".{COMMANDS[argv[0]]}", __package__).main(argv[1:]))
    parser = Parser(prog="python -m lab bench", description=__doc__, example="python -m lab bench ops --only softmax")
    parser.add_argument("what", nargs="*", metavar="SECTION", help=f"{', '.join(SECTIONS)}; all if left out")
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--svg", help="write a plot of the ratios to this file")
    parser.add_argument("--device", default="cpu", help="cuda: its kernels beside PyTorch, eager and compiled")
    parser.add_argument("--only", default="", help="those cases with this text in their name or size")
    parser.add_argument("--eager", action="store_true", help="leave out torch.compile, which takes seconds a case")
    parser.add_argument("--threads", type=int, default=0, help="of core and PyTorch (as many as core takes by itself)")
    parser.add_argument("--rounds", type=int, default=15, help="timings of each contestant (15)")
    options = parser.parse_args(argv)
    if options.device == "cuda":
        return cuda.main(options.json, options.only)
    if options.device != "cpu":
        parser.error(f"the devices are cpu and cuda; came: {options.device}")
    if unknown := [w for w in options.what if w not in SECTIONS]:
        known = ", ".join([*SECTIONS, *COMMANDS])
        near = meant(unknown[0], (*SECTIONS, *COMMANDS))
        parser.error(f"nothing is called {', '.join(unknown)}: there are {known}{near}")
    if options.rounds < 3:
        parser.error(f"a middle half needs 3 rounds at least; came: {options.rounds}")
    if options.threads:
        core.set_num_threads(options.threads)
    what = options.what or list(SECTIONS)
    timed = [w for w in SECTIONS if w in what and w in cpu.SECTIONS]
    content: dict[str, Any] = {"machine": {}, "results": []}
    if timed:
        content = cpu.run(timed, options.only, not options.eager, options.rounds)
    if "memory" in what:
        content["memory"] = memory.run(core.get_num_threads(), cpu.torch_or_none() is not None)
    for name in ("observer", "recording"):
        if name in what:
            content[name] = _lab_costs(name, options.only)
    if "small" in what:
        content["small"] = small.run(options.rounds, options.only)
    if options.json:
        Path(options.json).write_text(cpu.text_of(content))
    if options.svg and content["results"]:
        Path(options.svg).write_text(plot.svg(content))
    return int(any(r["failed"] for r in content["results"]))
