"""``python -m lab plan FILE.py:MODEL --inputs INPUTS --gpus 8..100000``: a training step on many GPUs, by a model of
what it costs. Nothing of it is measured there: the table says what it assumes, and ``--check`` how far such predictions
are off on this machine."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import core

from ..console.file_values import run_file
from ..console.options import Parser
from .costs import costs_of
from .estimate import BFLOAT16, FLOAT32
from .here import check, machine_here
from .machine import MACHINES, machine_of
from .plan import plan, sizes

PICTURES = (".png", ".svg", ".pdf")


def main(argv: list[str]) -> int:
    """Read a model and print the plan; 1 where a prediction of ``--check`` is off by more than a fifth."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.check:
        return _check()
    if options.model is None or options.inputs is None:
        parser.error("needed FILE.py:MODEL and --inputs, or --check")
    if options.plot and Path(options.plot).suffix not in PICTURES:
        parser.error(f"--plot {options.plot}: needs a name that ends in {', '.join(PICTURES)}")
    on = core.device("meta") if options.meta else contextlib.nullcontext()
    try:
        gpus = sizes(options.gpus)
        machine = machine_here(max(gpus)) if options.net == "here" else machine_of(options.net)
        with on:
            _, name, value = run_file(parser, options.model, "plan")
            inputs: Any = value(options.inputs)
            many = inputs if isinstance(inputs, tuple | list) else (inputs,)
            costs = costs_of(value(name), many, name)
        found = plan(costs, machine, gpus, options.batch, FLOAT32 if options.float32 else BFLOAT16)
    except (OSError, ValueError) as error:
        parser.error(str(error).removeprefix("plan: "))
    print(json.dumps(found.plain(), indent=1) if options.json else found)
    if options.plot:
        found.plot(options.plot)
        print(f"lab: wrote {options.plot}", file=sys.stderr)
    return 0


def _parser() -> Parser:
    parser = Parser(prog="python -m lab plan", description=__doc__,
                    example="python -m lab plan train.py:model --inputs x --gpus 8..4096 --plot plan.png")  # fmt: skip
    parser.add_argument("model", nargs="?", metavar="FILE.py:MODEL", help="a file, and a name or an expression in it")
    parser.add_argument("--inputs", help="in the same file: what the model is called with, the first dimension the "
                        "samples of one GPU")  # fmt: skip
    parser.add_argument("--gpus", default="8..4096", metavar="N,M..L", help="numbers of GPUs: 8,64 or 8..100000")
    parser.add_argument("--net", default="h100-ib400", metavar="NAME", help=f"{', '.join(MACHINES)}, a file.json, or "
                        "here: this machine, measured")  # fmt: skip
    parser.add_argument("--batch", type=int, help="samples a step over all GPUs; else as many for each GPU")
    parser.add_argument("--float32", action="store_true", help="weights and gradients in 4 bytes; else in 2, with Adam")
    parser.add_argument("--meta", action="store_true", help="make the file's tensors on `meta`: no memory, any size")
    parser.add_argument("--plot", metavar="FILE", help=f"draw it there ({', '.join(PICTURES)})")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.add_argument("--check", action="store_true", help="predict and measure steps of 2 and 4 ranks here")
    return parser


def _check() -> int:
    print(f"{'model':6} {'way':5} {'ranks':>5} {'samples a rank':>14} {'predicted':>11} {'measured':>11} {'off':>6}")
    worst = 0.0
    for row in check():
        worst = max(worst, abs(row.off))
        print(f"{row.model:6} {row.way:5} {row.ranks:5} {row.samples:14} {row.predicted * 1e3:8.2f} ms "
              f"{row.measured * 1e3:8.2f} ms {row.off:6.1%}", flush=True)  # fmt: skip
    return int(worst > 0.2)
