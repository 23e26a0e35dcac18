"""`python -m lab bench static-ranks`: how well configs are ordered without a GPU, beside recorded times of real ones.

The recorded kernel was compiled for the recorded GPU, is counted and estimated (`triton_kernels.tune.static_ranks`).
A space's figures are those of constants that were
fitted to all other spaces. `--recorded FILE` takes other logs in the same form.
"""

from __future__ import annotations

import json
import sys
from dataclasses import astuple
from pathlib import Path
from statistics import median

from triton_kernels.tune import static_ranks
from triton_kernels.tune.estimates import LEAST
from triton_kernels.tune.static_ranks import Ranked, Recording

from ..console.options import Parser

_LEGEND = """\
rank corr.: Spearman's with the recorded times, 1 is their order; first, of ten: how much slower than the
best the first, and the best of the first ten, are; error: the middle of the estimates' distance
"""


def table(spaces: list[Recording], judged: list[list[Ranked]]) -> str:
    """Return what was found as text, a line a space and a way, and below them the middle of each way."""
    lines = [f"{'':32} {'ordered by':24} {'rank corr.':>10} {'first':>7} {'of ten':>7} {'error':>7}"]
    for space, ways in zip(spaces, judged, strict=True):
        for k, way in enumerate(ways):
            off = f"{way.off:7.0%}" if way.off == way.off else f"{'':7}"
            weak = "  no advice" if k == 0 and way.correlation < LEAST else ""
            name = space.name if k == 0 else ""
            lines.append(f"{name:32} {way.way:24} {way.correlation:10.2f} {way.first:7.0%} {way.ten:7.0%} {off}{weak}")
    lines.append("")
    for k, way in enumerate(judged[0]):
        column = [ways[k] for ways in judged]
        lines.append(f"{'middle of ' + str(len(judged)) + ' spaces':32} {way.way:24} "
                     f"{median(w.correlation for w in column):10.2f} {median(w.first for w in column):7.0%} "
                     f"{median(w.ten for w in column):7.0%}")  # fmt: skip
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Print the table; 0."""
    parser = Parser(prog="python -m lab bench static-ranks", description=__doc__,
                    example="python -m lab bench static-ranks --fit")  # fmt: skip
    parser.add_argument("--recorded", type=Path, default=static_ranks.RECORDED, help="a file of recorded spaces")
    parser.add_argument("--compile", action="store_true", help="compile anew with the installed Triton, for minutes")
    parser.add_argument("--as-committed", action="store_true", help="with the tuner's constants, fitting none")
    parser.add_argument("--fit", action="store_true", help="print the constants that fit all spaces")
    options = parser.parse_args(argv)
    content = json.loads(options.recorded.read_text())
    if options.compile or "compiled" not in content:
        content = static_ranks.compiled_anew(content, lambda text: print(text, file=sys.stderr))
        options.recorded.write_text(static_ranks.written(content))
    spaces = static_ranks.recordings(content)
    judged = static_ranks.as_committed(spaces) if options.as_committed else static_ranks.left_out(spaces)
    print(_LEGEND)
    print(table(spaces, judged))
    if options.fit:
        print("\nconstants:", astuple(static_ranks.fitted(spaces)))
    return 0
