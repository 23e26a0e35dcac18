"""What `%tune` and `%%tune` do: a panel below the cell that leaves the prompt free; where there is none, text."""

from __future__ import annotations

import shlex
from typing import Any

from IPython.core.error import UsageError

from triton_kernels.tune.store import Store

from ..console.options import HELP
from ..console.progress import way_here
from ..tuning import c_cell, command, shown, triton_cell
from . import panel
from .inner_cell import run_inside

EMPTY = "%%tune tunes the kernel that its cell defines. A whole cell, in Triton:"


def tune_line(line: str) -> None:
    """Tune the kernel that the line of `%tune` names. *Raises*: UsageError for a command that cannot be run."""
    try:
        given = shlex.split(line)
        if not given or given == ["--list"]:
            print(command.listing())
            return
        if given[0] in shown.COMMANDS:
            show(shown.answer(given, "%tune", say=lambda line: None if way_here() == "notebook" else print(line)))
            return
        if set(HELP) & set(given):
            print(command.parser().format_help())
            return
        options, problem = command.understood(given)
        if options.use is not None:
            print(command.use(problem, options.use))
        elif way_here() != "notebook":
            print(command.describe(command.tune(given)))
        else:
            panel.show_or_wait(panel.made(options, problem), options.wait)
    except (ValueError, FileNotFoundError, FileExistsError) as error:
        raise UsageError(f"%tune: {error}") from None


def show(found: Any) -> None:
    """Show several shapes tuned together, or a history: below the cell where there is a notebook, else as text."""
    if way_here() != "notebook":
        print(shown.text(found))
        return
    from IPython import display

    publish: Any = display.publish_display_data
    publish({"text/html": shown.html(found), "text/plain": shown.text(found)})


def tune_cell(shell: Any, line: str, text: str) -> None:
    """Tune the kernel that a cell of `%%tune` defines. *Raises*: the cell's error; UsageError for what is missing."""
    try:
        words = shlex.split(line)
        if set(HELP) & set(words):
            print(command.parser(kernel=False).format_help())
            return
        options = command.options_of(words)
        if not text.strip():
            print(f"{EMPTY}\n\n{triton_cell.EXAMPLE}\n\nOr in C, two cells:\n\n{c_cell.EXAMPLE}")
            return
        if c_cell.is_c(text, options.language):
            problem = c_cell.problem_of(text, shell.user_ns, options)
        else:
            run_inside(shell, text)
            problem = triton_cell.problem_of(text, shell.user_ns, options)
    except ValueError as error:
        raise UsageError(f"%%tune: {error}") from None
    if way_here() == "notebook":
        panel.show_or_wait(panel.made(options, problem), options.wait)
        return
    with Store() as store:
        session = command.session_of(options, problem, store)
        command.watch(session)
    assert session.result is not None
    print(command.describe(session.result))
