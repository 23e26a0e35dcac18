"""The commands that show what has been tuned: ``tune dispatch`` (`study`) and ``tune history`` (`history`)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from triton_kernels.tune.dispatching import Dispatch
from widgets import past as past_page
from widgets import study as study_page
from widgets.past import History
from widgets.still import escape

from ..console.options import Parser
from ..report.export import PAGE
from . import history, study

COMMANDS = ("dispatch", "history")
USAGE = ("%tune dispatch KERNEL SHAPE SHAPE ... DTYPE [--budget 120s] [-o page.html]",
         "%tune history KERNEL [SHAPE [DTYPE]] [--compare N N] [-o page.html]")  # fmt: skip


def parser(prog: str) -> argparse.ArgumentParser:
    """Return the grammar of the two commands."""
    made = Parser(prog=prog, description="What has been tuned, as text, as a page, or below a cell.",
                  example=f"{prog} history matmul_f32 -o history.html")  # fmt: skip
    parts = made.add_subparsers(dest="what", required=True, parser_class=Parser)
    study.add_to(parts)
    history.add_to(parts)
    return made


def answer(argv: Sequence[str], prog: str, say: Callable[[str], object] = print) -> Dispatch | History:
    """Return what a command asks for, written to a file where one is named. *Raises*: ValueError, OSError."""
    options = parser(prog).parse_args(list(argv))
    output: Path | None = options.output
    forms = (".html", ".json", ".py") if options.what == "dispatch" else (".html",)
    if output is not None and output.suffix not in forms:
        raise ValueError(f"-o {output}: its name ends with one of {', '.join(forms)}")
    if output is not None and output.exists():  # before minutes of measuring
        raise FileExistsError(f"-o {output} exists already: name another file")
    found: Dispatch | History = study.asked(options, say) if options.what == "dispatch" else history.asked(options)
    if output is not None:
        with output.open("x", encoding="utf-8") as file:
            file.write(_written(found, output.suffix))
        say(f"wrote {output}")
    return found


def _written(found: Dispatch | History, form: str) -> str:
    if isinstance(found, Dispatch) and form != ".html":
        return found.to_json() if form == ".json" else f"{found.to_python()}\n"
    return page(found)


def html(found: Dispatch | History) -> str:
    """Return it as a piece of HTML, for below a cell."""
    return study_page.html(study.study(found)) if isinstance(found, Dispatch) else past_page.html(found)


def text(found: Dispatch | History) -> str:
    """Return it as text."""
    return str(found) if isinstance(found, Dispatch) else past_page.text(found)


def page(found: Dispatch | History) -> str:
    """Return it as a whole page, which asks nothing of the network."""
    if isinstance(found, Dispatch):
        title, about = f"{found.kernel} at {len(found.shapes)} shapes", f"{found.dtype} on {found.device}"
    else:
        title, about = f"Sessions of {found.title}", "what the tuner has kept"
    return PAGE.format(title=escape(title), about=escape(about), card=html(found))


def main(argv: Sequence[str]) -> int:
    """0, or 2 for what cannot be done."""
    try:
        found = answer(argv, "python -m lab tune")
    except (OSError, ValueError) as error:
        print(f"lab: tune {argv[0]}: {error}", file=sys.stderr)
        return 2
    print(text(found))
    return 0
