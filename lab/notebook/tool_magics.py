"""`%dataload` and `%gpustat`: magics that measure or read something, and show a small table."""

from __future__ import annotations

import argparse
import builtins
import shlex
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand

from ..console.options import HELP, Parser, meant
from ..session.gpustat import GpuStat, gpustat
from ..training.loading import Loading, dataload

EXAMPLE = "%dataload loader --step train_step"


class _Parser(Parser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%dataload: {message}")


def _number_list(said: str) -> list[int]:
    return [int(part) for part in said.split(",")]


def parser() -> Parser:
    """Return the parser of the options of `%dataload`."""
    found = _Parser(prog="%dataload", add_help=False, usage="%%dataload LOADER [options]", example=EXAMPLE,
                    description="How long a loop waits for its DataLoader, and how many workers would shorten that.",
                    formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    found.add_argument("loader", metavar="LOADER", help="a variable, or an expression, that is a DataLoader")
    found.add_argument("--step", metavar="FUNCTION", help="what the loop does with a batch: a function of it")
    found.add_argument("--workers", metavar="0,1,2", type=_number_list, help="the numbers of workers to try")
    found.add_argument("--batches", metavar="N", type=int, default=32, help="how many are timed of each number (32)")
    found.add_argument("--seconds", metavar="S", type=float, default=20.0, help="for all of it (20)")
    return found


def _value(said: str, space: dict[str, Any]) -> Any:
    try:
        return eval(said, space)
    except NameError as error:
        name = getattr(error, "name", None) or said
        near = meant(name, [*(n for n in space if not n.startswith("_")), *vars(builtins)])
        raise UsageError(f"%dataload: nothing is called {name!r}{near}") from None
    except Exception as error:
        raise UsageError(f"%dataload: {said!r:.80}: {type(error).__name__}: {error}") from None


@magics_class
class ToolMagics(Magics):
    """`%dataload` and `%gpustat`."""

    shell: Any

    @no_var_expand
    @line_magic
    def dataload(self, line: str) -> Loading | None:
        """Measure how long a loop waits for its DataLoader, and try how many workers would shorten that.

        ``%dataload LOADER [--step FUNCTION] [--workers 0,1,2] [--batches 32] [--seconds 20]``

        ``%dataload loader --step train_step``   with what the loop does with a batch; without it the loading alone

        The loader stays as it is, and random numbers, models and optimizers that the step names are put back.
        """
        if not line.strip() or set(HELP) & set(line.split()):
            print(parser().format_help())
            return None
        try:
            options = parser().parse_args(shlex.split(line))
        except ValueError as error:
            raise UsageError(f"%dataload: {error}") from None
        space = self.shell.user_ns
        step = None if options.step is None else _value(options.step, space)
        try:
            return dataload(_value(options.loader, space), step, workers=options.workers, batches=options.batches,
                            seconds=options.seconds)  # fmt: skip
        except (TypeError, ValueError) as error:
            if not str(error).startswith("dataload:"):
                raise
            raise UsageError(f"%{error}") from None

    @line_magic
    def gpustat(self, line: str) -> GpuStat:
        """Show memory, use, power, temperature and processes of the GPUs here; without one a sentence says why."""
        if line.strip():
            raise UsageError(f"%gpustat: it takes no options; came: {line.strip()!r:.80}")
        return gpustat()
