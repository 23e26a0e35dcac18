"""``python -m lab shrink FILE.py:MODEL --data DATA``: variants of a model of a script, measured beside it."""

from __future__ import annotations

import sys
from pathlib import Path

from ..console.file_values import run_file
from ..console.options import Parser
from .scoring import KNOWN
from .shrink import FORMS, ITEMS, shrink
from .variants import RECIPES


def main(argv: list[str]) -> int:
    """Run a file, which is not told that it is the main one, and measure variants of its model."""
    parser = Parser(prog="python -m lab shrink", description=__doc__,
                    example='python -m lab shrink train.py:model --data "(x, y)" --report shrink.html')  # fmt: skip
    parser.add_argument("model", metavar="FILE.py:MODEL", help="a file, and a name or an expression in it")
    parser.add_argument("--data", required=True, help="in the same file: a DataLoader, a pair (x, y), or x alone")
    parser.add_argument("--metric", help=f"{', '.join(KNOWN)}, or a function of the file")
    parser.add_argument("--variants", metavar="A,B", help=", ".join(recipe.key for recipe in RECIPES))
    parser.add_argument("--items", metavar="N", type=int, default=ITEMS, help=f"of the data, at most ({ITEMS})")
    parser.add_argument("--retrain", metavar="N", type=int, default=0,
                        help="steps that pruned variants are trained for, on three quarters of the data")  # fmt: skip
    parser.add_argument("--report", metavar="FILE", help=f"write it there ({', '.join(FORMS)}); else as text")
    options = parser.parse_args(argv)
    if options.report and Path(options.report).suffix not in FORMS:
        parser.error(f"--report {options.report}: needs a name that ends in {', '.join(FORMS)}")
    path, model, value = run_file(parser, options.model, "shrink")
    metric = options.metric if options.metric in (None, *KNOWN) else value(options.metric)
    try:
        found = shrink(value(model), value(options.data), metric=metric, items=options.items,
                       retrain=options.retrain, title=model, data_title=options.data,
                       variants=options.variants and options.variants.split(","),
                       sources=[(path.name, path.read_text(encoding="utf-8"))])  # fmt: skip
    except (TypeError, ValueError) as error:
        if not str(error).startswith("shrink:"):
            raise
        parser.error(str(error).partition(" ")[2])
    print(found)
    if options.report:
        found.save(options.report)
        print(f"lab: wrote {options.report}", file=sys.stderr)
    return 0
