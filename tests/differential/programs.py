"""What the harness runs: texts as cells or scripts, where they come from, and how they read on another package."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CASES = HERE / "cases"
# what is compared of a notebook whose output is a measurement, no two alike: which config won, in which time
ITS_OWN = {"08_tuning": ("status", "errors", "random", "process", "files", "stderr")}
WAYS = ("cell", "script", "block")  # under %%autograd, by `python -m lab run`, inside `with lab.recording()`


@dataclass(frozen=True)
class Program:
    """A program's cells (a script is one cell), the files it needs beside it, and what cannot be compared in it."""

    name: str
    cells: tuple[str, ...]
    folder: str = ""  # what lies beside it, copied before it runs
    space: str = ""  # run before it, unrecorded; what it defines is what the program sees
    packages: tuple[str, ...] = ("core", "torch")
    ways: tuple[str, ...] = WAYS
    parts: tuple[str, ...] = ()  # of an observation, all that is compared; empty: everything


def on(package: str, text: str) -> str:
    """A text that imports torch, importing `package` instead; nothing else of it changes.

    >>> on("core", "import torch\\nimport torch.nn as nn\\nfrom torch import optim")
    'import core as torch\\nimport core.nn as nn\\nfrom core import optim'
    """
    if package == "torch":
        return text
    text = re.sub(r"^(\s*)import torch, ", rf"\1import {package} as torch; import ", text, flags=re.MULTILINE)
    text = re.sub(r"^(\s*)import torch[ \t]*(?=$|#|;)", rf"\1import {package} as torch", text, flags=re.MULTILINE)
    text = re.sub(
        r"^(\s*)import torch((?:\.\w+)+)[ \t]*(?=$|#|;)",
        rf"\1import {package}\2; import {package} as torch",
        text,
        flags=re.MULTILINE,
    )
    return re.sub(r"^(\s*(?:import|from)) torch\b(?=[. ])", rf"\1 {package}", text, flags=re.MULTILINE)


def own(package: str) -> Iterator[Program]:
    """The complete programs of tests/programs, a few steps each."""
    from .. import programs

    for name in programs.NAMES:
        text = programs.source(name, package)
        if name == "actor_critic":
            ends = "\nmanual_seed(0)\nhistory = list(train(ActorCritic(), CartPoles(4), 12))\n"
            text += f"\nfrom {package} import manual_seed" + ends
        else:
            text += "\nhistory = losses(3)\n"
        text = text.replace('if __name__ == "__main__":', 'if __name__ == "not now":')
        yield Program(f"programs/{name}", (text + "print(history)\n",))


_SPACE = """
import numpy as np
import {package} as torch
core = torch
nn, F = torch.nn, torch.nn.functional
torch.manual_seed(0)
_rng = np.random.default_rng(0)
def P(*shape, scale=1.0):
    values = scale * _rng.standard_normal(shape) / shape[0] ** 0.5
    return torch.tensor(values.astype(np.float32), requires_grad=True)
x = torch.tensor(_rng.standard_normal((64, 16)).astype(np.float32))
labels = torch.tensor(_rng.integers(0, 4, 64))
y = x[:, 0] * 0.5
"""


def lab_cells(package: str) -> Iterator[Program]:
    """The planted and the healthy cells of tests/lab."""
    from ..lab.diagnose import planted, test_healthy

    space = _SPACE.format(package=package)
    for kind, cells in (("planted", planted.CELLS), ("healthy", test_healthy.CELLS)):
        for name, found in cells.items():
            text = found if isinstance(found, str) else found.text
            yield Program(f"{kind}/{name}", (text.lstrip("\n"),), space=space, ways=("cell",))


def notebooks(folder: Path = ROOT / "notebooks") -> Iterator[Program]:
    """The notebooks, with the cells that ask the lab itself taken out: without recording there is nothing to ask."""
    for path in sorted(folder.glob("*.ipynb")):
        yield notebook(path, path.stem)


def notebook(path: Path, name: str, package: str = "core") -> Program:
    """A notebook as a program."""
    cells = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = re.sub(r"^(import|from) lab\b.*$", "pass", "".join(cell["source"]), flags=re.MULTILINE)
        if cell["cell_type"] != "code" or re.search(r"\blab\.|%%?tune", text):
            continue
        text = re.sub(r"^%load_ext lab *\n?|^%matplotlib.*$", "pass\n", text, flags=re.MULTILINE)
        cells.append(on(package, re.sub(r"^%%autograd.*$", "# a cell", text, flags=re.MULTILINE)))
    return Program(f"notebooks/{name}", tuple(cells), ways=("cell",), parts=ITS_OWN.get(name, ()))


def cases() -> Iterator[Program]:
    """The hand-written cases. Comments at a case's head say what holds for it: ``# packages: torch``, ``# ways: cell``,
    ``# compare: error``; ``# %%`` begins another cell."""
    for path in sorted(CASES.glob("*.ipy")):
        yield case(path, f"cases/{path.stem}")


def case(path: Path, name: str, package: str = "torch") -> Program:
    """A file as a program."""
    text = path.read_text(encoding="utf-8")
    told = dict(re.findall(r"^# (packages|ways|compare): (.+)$", text, flags=re.MULTILINE))
    cells = tuple(textwrap.dedent(part).lstrip("\n") for part in re.split(r"^# %%\n", text, flags=re.MULTILINE))
    ways = tuple(told.get("ways", "cell" if len(cells) > 1 else "cell script block").split())
    packages = tuple(told.get("packages", "core torch").split())
    return Program(name, cells, packages=packages, ways=ways, parts=tuple(told.get("compare", "").split()))


def outside(folder: Path) -> Iterator[Program]:
    """Other people's programs: a file each, or a folder each whose main.py or main.ipynb is the program."""
    for path in sorted(folder.iterdir()):
        if path.suffix == ".py":
            yield case(path, f"{folder.name}/{path.stem}")
        elif path.suffix == ".ipynb":
            yield notebook(path, f"{folder.name}/{path.stem}", "torch")
        elif path.is_dir() and (path / "main.py").is_file():
            yield replace(case(path / "main.py", f"{folder.name}/{path.name}"), folder=str(path))


def collect(package: str, folders: list[Path]) -> list[Program]:
    """All programs for a package: those of `folders`, or else the project's own."""
    if folders:
        found = [program for folder in folders for program in outside(folder)]
    else:
        found = [*cases(), *own(package), *lab_cells(package)]
        if package == "core":
            found += notebooks()
    return [program for program in found if package in program.packages]
