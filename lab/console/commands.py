"""The commands of ``python -m lab``: what each does, and where it is. Its usage and its page in the site are printed
from here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Command:
    """What a command does, and the module whose `main` it is; `optional` where that needs an extra's packages."""

    what: str
    module: str
    optional: bool = False

    def load(self) -> Any:
        """Import the module.

        *Raises*: ImportError, which names the extra, where packages of an optional one are missing.
        """
        return importlib.import_module(f"...{self.module}", __name__)


COMMANDS = {
    "tour": Command("the notebooks, copied into a folder, the first of them opened", "tour"),
    "doctor": Command("what this machine can do, and what to do about the rest", "doctor"),
    "bench": Command("measurements, as ratios", "benchmarks.command"),
    "tune": Command("a kernel at a shape: tune matmul_f32 512x512x512 float32 --budget 60s", "tuning.command"),
    "shrink": Command(
        "a model in fewer bits and with fewer channels: shrink train.py:model --data loader", "shrinking.command"
    ),
    "plan": Command(
        "a training step on many GPUs, by what it costs: plan train.py:model --inputs x", "planning.command"
    ),
    "run": Command("a script, recorded: run script.py --report report.html", "run"),
    "serve": Command("saved programs behind HTTP: serve model.gl --port 8000", "serving.command", optional=True),
    "rows": Command("what is built, with the command that shows each: rows --run", "rows"),
    "docs": Command("this documentation as a site of static pages: docs --out site", "pages.command", optional=True),
}
