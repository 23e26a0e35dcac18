"""`%shrink` and `%%shrink`: variants of a model in fewer bits and with fewer channels, measured on the user's data."""

from __future__ import annotations

import argparse
import builtins
import re
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from ..console.options import HELP, Parser, meant
from ..shrinking.scoring import KNOWN
from ..shrinking.shrink import ITEMS, Shrinking, shrink
from ..shrinking.variants import RECIPES
from .inner_cell import run_inside

EXAMPLE = "%shrink model --data (x, y) --variants int8-dynamic,int4"
CELLS = 200  # of the notebook, in which the model's making is looked for


class _Parser(Parser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%shrink: {message}")


def _names(said: str) -> list[str]:
    return [part.strip() for part in said.split(",") if part.strip()]


def parser() -> Parser:
    """Return the parser of the options of `%shrink`."""
    found = _Parser(prog="%shrink", add_help=False, usage="%%shrink MODEL --data DATA [options]", example=EXAMPLE,
                    description="Variants of a model in fewer bits and with fewer channels, measured beside it.",
                    formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    found.add_argument("model", metavar="MODEL", help="a variable, or an expression, that is a module")
    found.add_argument("--data", metavar="DATA", required=True,
                       help="a DataLoader, a pair (x, y), or x alone, whose outputs are compared")  # fmt: skip
    found.add_argument("--metric", metavar="METRIC", help=f"{', '.join(KNOWN)}, or a function of outputs and targets")
    found.add_argument("--variants", metavar="A,B", type=_names, help=", ".join(recipe.key for recipe in RECIPES))
    found.add_argument("--items", metavar="N", type=int, default=ITEMS, help=f"of the data, at most ({ITEMS})")
    found.add_argument("--retrain", metavar="N", type=int, default=0,
                       help="steps that pruned variants are trained for, on three quarters of the data")  # fmt: skip
    return found


def words_of(line: str) -> list[str]:
    """Return a line as the model's expression, and each option with its own, spaces and brackets as they stand.

    >>> words_of("model --data (x, y) --items 64")
    ['model', '--data', '(x, y)', '--items', '64']
    """
    parts = re.split(r"(?:^|\s)(--[a-z]+)(?:\s+|=|$)", line.strip())
    return [part.strip() for part in parts if part.strip()]


def _value(said: str, space: dict[str, Any]) -> Any:
    try:
        return eval(said, space)
    except NameError as error:
        name = getattr(error, "name", None) or said
        near = meant(name, [*(n for n in space if not n.startswith("_")), *vars(builtins)])
        raise UsageError(f"%shrink: nothing is called {name!r}{near}") from None
    except Exception as error:
        raise UsageError(f"%shrink: {said!r:.80}: {type(error).__name__}: {error}") from None


@magics_class
class ShrinkMagics(Magics):
    """`%shrink` and `%%shrink`."""

    shell: Any

    @no_var_expand
    @line_cell_magic
    def shrink(self, line: str, cell: str | None = None) -> Shrinking | None:
        """Measure variants of a model: float32, bf16, int8 and int4, pruned at 25, 50 and 75 %.

        ``%shrink MODEL --data DATA [--metric METRIC] [--variants A,B] [--items 2048] [--retrain N]``

        ``%shrink model --data loader``        a DataLoader of pairs (x, y)
        ``%shrink model --data (x, y)``        tensors or arrays
        ``%shrink model --data x``             without targets: how far the outputs are from float32's

        The card has of each variant its size, its latency at batch 1 and 32, its score, which layer suffers most and on
        which line, and the code that makes it. The model stays as it is. ``%%shrink`` runs its cell first.
        """
        if not line.strip() or set(HELP) & set(line.split()):
            print(parser().format_help())
            return None
        if cell is not None:
            run_inside(self.shell, cell)
        options = parser().parse_args(words_of(line))
        space = self.shell.user_ns
        metric = options.metric
        if metric is not None and metric not in KNOWN:
            metric = _value(metric, space)
        try:
            return shrink(_value(options.model, space), _value(options.data, space), metric=metric,
                          variants=options.variants, items=options.items, retrain=options.retrain,
                          title=options.model, data_title=options.data, sources=self._cells(cell))  # fmt: skip
        except (TypeError, ValueError) as error:
            if not str(error).startswith("shrink:"):
                raise
            raise UsageError(f"%{error}") from None

    def _cells(self, cell: str | None) -> list[tuple[str, str]]:
        """Return the notebook's cells, the latest first."""
        number = self.shell.execution_count
        cells = [(f"In [{k}]", text) for k, text in enumerate(self.shell.user_ns.get("In", ())) if k]
        found = cells[-CELLS:][::-1]
        return found if cell is None else [(f"In [{number}]", f"#\n{cell}"), *found]
