"""What the magics and the commands say of themselves: their --help, and their docstrings."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Callable, Iterable
from typing import Any

from ..console.commands import COMMANDS
from ..notebook.magics import LabMagics
from ..notebook.op_magics import OpMagics
from ..notebook.ranks_magic import RankMagics
from ..notebook.shrink_magic import ShrinkMagics
from ..notebook.tool_magics import ToolMagics
from .prose import fenced


def page() -> str:
    """Return the page of all magics and commands."""
    parts = [
        "# Magics and commands\n\nIn a notebook, after `%load_ext lab`. `--help` behind a magic, and `?` behind its "
        "name, say the same there.\n\n## Magics"
    ]
    for name, kind, function in _magics():
        said = _asked(lambda f=function: f("--help"))  # type: ignore[misc]
        parts.append(f"### {'%%' if kind == 'cell' else '%'}{name}\n\n{fenced(said or _doc(function), 'text')}")
    parts.append("## Commands\n\nIn a shell: `python -m lab COMMAND`.")
    for name, command in COMMANDS.items():
        said = _asked(lambda c=command: c.load().main(["--help"]))  # type: ignore[misc]
        parts.append(f"### python -m lab {name}\n\n{command.what[:1].upper()}{command.what[1:]}."
                     + (f"\n\n{fenced(said, 'text')}" if said else ""))  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def _magics() -> Iterable[tuple[str, str, Callable[..., Any]]]:
    """Go through the magics; one that is both stands there once, as a line's."""
    found: dict[str, tuple[str, Callable[..., Any]]] = {}
    for home in (LabMagics, OpMagics, RankMagics, ShrinkMagics, ToolMagics):
        line, cell = home.magics["line"], home.magics["cell"]
        for name in {*line, *cell}:
            kind = "cell" if name in cell and name not in line else "line"
            found[name] = kind, getattr(home(None), (cell | line)[name])
    for name in sorted(found):
        yield name, *found[name]


def _doc(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").replace("``", "")


def _asked(ask: Callable[[], Any]) -> str:
    """Return what is printed; nothing where it cannot be asked so."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            ask()
        except SystemExit:
            pass
        except Exception:
            return ""
    return out.getvalue().strip("\n")
