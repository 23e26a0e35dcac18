"""PyTorch's tutorials of quantisation as programs of ours, in their steps and by their names: the imports alone name
`core`, and one text runs on core and on PyTorch.

Each has ``results() -> dict[str, float]`` and ``TOLERANCE``, by how much the two libraries' may differ.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType


def load(name: str, package: str = "core") -> ModuleType:
    """The program as a module, on that package."""
    text = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    module = ModuleType(f"{name}_on_{package}")
    sys.modules[module.__name__] = module
    text = re.sub(r"^(\s*(?:import|from)) core\b", rf"\1 {package}", text, flags=re.MULTILINE)
    exec(compile(text, f"{name}.py on {package}", "exec"), module.__dict__)
    return module
