"""Complete programs as people write them with PyTorch, on real data: only their imports name `core`.

Each file is a program of its own, ``python -m tests.programs.gpt``, and offers two things:

- ``losses(steps) -> list[float]``: trains from the start, seeded, and returns the loss of each step;
- ``train(model, steps)`` or the like, a generator of losses that ``losses`` and the program itself share.

`source` gives the text with another package in the import lines and nothing else changed, so that one text runs on
core and on PyTorch; `load` executes it. The data ship with Python, scikit-learn or matplotlib.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

NAMES = sorted(p.stem for p in Path(__file__).parent.glob("[a-z]*.py"))


def source(name: str, package: str = "core") -> str:
    """The program's text, importing from `package` what it imports from core."""
    text = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    return re.sub(r"^(\s*(?:import|from)) core\b", rf"\1 {package}", text, flags=re.MULTILINE)


def load(name: str, package: str = "core") -> ModuleType:
    """The program as a module, on that package."""
    module = ModuleType(f"{name}_on_{package}")
    sys.modules[module.__name__] = module  # dataclasses look their class's module up there
    exec(compile(source(name, package), f"{name}.py on {package}", "exec"), module.__dict__)
    return module
