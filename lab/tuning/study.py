"""``tune dispatch KERNEL SHAPE SHAPE ... DTYPE``: several shapes tuned together; the tree, and its times as a heat map.

``%tune dispatch softmax_f32 64x64 64x256 4x4096 float32`` shows the map below the cell, and so does a cell that ends
with what `tune.dispatch` returned. ``-o page.html`` writes a page that needs no kernel, ``-o choice.json`` what
`tune.dispatch`'s `to_json` gives; such a file, named in the place of the kernel, is shown again.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from triton_kernels.tune import dispatching
from triton_kernels.tune.dispatching import Dispatch
from widgets.study import Study

from .config_text import words


def study(made: Dispatch) -> Study:
    """Return what is shown of several shapes tuned together."""
    times = [[t if math.isfinite(t) else None for t in row] for row in made.times.tolist()]
    chosen = [made.configs.index(made.config(*shape)) for shape in made.shapes]
    notes = list(made.notes)
    notes += [f"The boundary at {b.axis} = {b.moved} was moved down: the config beyond is faster there already."
              for b in made.boundaries if b.moved is not None]  # fmt: skip
    return Study(f"{made.kernel} {made.dtype}", made.device, ["x".join(map(str, s)) for s in made.shapes],
                 [words(c) for c in made.configs], times, chosen, made.mean_regret, made.of_one(),
                 dispatching.described(made), made.to_python(), notes)  # fmt: skip


def add_to(parts: Any) -> None:
    """Add the command to a group of commands."""
    made: argparse.ArgumentParser = parts.add_parser("dispatch", help="tune several shapes together")
    made.add_argument("kernel", metavar="KERNEL", help="such as softmax_f32; or FILE.json, which an earlier one wrote")
    made.add_argument("shapes", metavar="SHAPE", nargs="*", help="two or more, such as 64x64 64x1024; the dtype last")
    made.add_argument("--budget", default="120s", help="for all shapes together: 30s, 5m (120s)")
    made.add_argument("--leaves", type=int, default=6, help="how many configs at most (6)")
    made.add_argument("--target", help="for Triton kernels: cuda, or an architecture to compile for")
    made.add_argument("-o", "--output", type=Path, help="FILE.html, FILE.json or FILE.py; it must not exist")


def asked(options: argparse.Namespace, say: Callable[[str], object] = print) -> Dispatch:
    """Return what a command asks for. *Raises*: ValueError, OSError."""
    if options.kernel.endswith(".json"):
        return dispatching.from_json(Path(options.kernel).read_text(encoding="utf-8"))
    *shapes, dtype = options.shapes or [""]
    if len(shapes) < 2:
        raise ValueError("dispatch takes two shapes or more and then the dtype, such as: dispatch softmax_f32 64x64 "
                         "64x1024 float32")  # fmt: skip
    return dispatching.dispatch(options.kernel, shapes, dtype, budget=options.budget, leaves=options.leaves,
                                target=options.target, say=say)  # fmt: skip
