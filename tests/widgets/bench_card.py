"""`python -m tests.widgets.bench_card`: the card of cells of ten thousand ops: CPU seconds from the record, and size.

The records are real: cells are run and recorded. The promise is 0.3 s and 1 MB.
"""

from __future__ import annotations

import gzip
import statistics
import time

import widgets
from widgets.graph import build

from ..lab.conftest import run_cell

OPS = ("x{p}.tanh()", "x{p} * 0.5", "x{p} + x{q}", "x{p} @ x{q}", "x{p} - 0.1")


def lines(count: int) -> str:
    """A cell of `count` distinct lines, each an op that reads the one before and sometimes one of seven before."""
    rows = [f"x{k} = " + OPS[k % 5].format(p=k - 1, q=max(0, k - 7)) for k in range(1, count + 1)]
    return "\n".join(["import core", "x0 = core.ones(8, 8, requires_grad=True)", *rows])


def loops(outer: int, inner: int, body: list[str]) -> str:
    """A cell of two nested loops that feed their own output, so that every time round has rows of its own."""
    head = f"import core\nx = core.ones(8, 8, requires_grad=True)\nw = core.ones(8, 8)\nfor i in range({outer}):\n"
    return head + f"    for j in range({inner}):\n" + "".join(f"        {line}\n" for line in body)


CELLS = {
    "10,000 distinct lines": lines(10_000),
    "20×500 times one op": loops(20, 500, ["x = x @ w"]),
    "20×100 times five ops": loops(20, 100, ["y = x @ w", "y = y * 0.1", "z = y.tanh()", "y = y + z", "x = y - 0.1"]),
    "20×500 times one op, in functions": "def f(x, w):\n    return x @ w\n" + loops(20, 500, ["x = f(x, w)"]),
}


def main() -> None:
    print(f"{'':36} {'ops':>7} {'CPU s':>7} {'median':>7} {'KB':>6} {'gzip':>6} {'views':>6} {'most boxes':>10}")
    for name, source in CELLS.items():
        record = run_cell(source)
        card = widgets.html(record)  # what is imported and read once is not the card's
        spent = []
        for _ in range(7):
            start = time.process_time()
            widgets.html(record)
            spent.append(time.process_time() - start)
        views = build(record).views
        text = card.encode()
        sizes = f"{len(text) / 1024:6.0f} {len(gzip.compress(text)) / 1024:6.0f}"
        figures = f"{len(record.ops):7,} {min(spent):7.3f} {statistics.median(spent):7.3f} {sizes} {len(views):6}"
        print(f"{name:36} {figures} {max(len(view.items) for view in views):10}", flush=True)


if __name__ == "__main__":
    main()
