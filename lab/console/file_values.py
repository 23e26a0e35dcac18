"""Values of a user's file, for commands that take ``FILE.py:NAME``."""

from __future__ import annotations

import builtins
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .options import Parser, meant


def run_file(parser: Parser, said: str, command: str) -> tuple[Path, str, Callable[[str], Any]]:
    """Run the file of ``FILE.py:NAME``, which is told `command` as its ``__name__``; return its path, the name, and
    what evaluates an expression in it. What is wrong with these is the parser's error."""
    file, _, name = said.partition(".py:")
    path = Path(f"{file}.py")
    if not name or not path.is_file():
        parser.error(f"no such file: {path}" if name else f"{said!r}: needed FILE.py:MODEL, as train.py:model")
    sys.path.insert(0, str(path.parent.absolute()))
    space = runpy.run_path(str(path), run_name=command)

    def value(expression: str) -> Any:
        try:
            return eval(expression, space)
        except NameError as error:
            missing = getattr(error, "name", None) or expression
            known = [*(n for n in space if not n.startswith("_")), *vars(builtins)]
            parser.error(f"{path} has nothing called {missing!r}{meant(missing, known)}")

    return path, name, value
