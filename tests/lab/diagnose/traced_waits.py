"""Programs for test_traced_rules.py that wait for data, a GPU or Python, by clocks and devices that are made up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lab.diagnose.finding import Found
from lab.diagnose.speed import cost, loop_waits
from lab.recorder.cell_trace import Copied, Row, Trace
from lab.recorder.loader_waits import Fetched

from .traced_case import Case
from .traced_slow import met

MS = 1_000_000
TEXT = (
    "net = nn.Linear(16, 4)\ndef load(k):\n    part = sorted(range(k))\n    return x\nfor k in range(12):\n"
    "    h = load(k)\n"
    "    loss = net(h).sum()\n    v = loss.item()\n    w = h.to(torch.float64)\n    z = w.to(torch.float32)"
)

ASKED = (
    "net = nn.Linear(16, 4)\ndef load(k):\n    part = clean(k)\n    return x * 1.0\n"
    "def clean(k): return sorted(range(k))\nfor k in range(12):\n    loss = net(load(k)).sum()"
)


def waiting(
    rule: Any, facts: Callable[[Trace], None], beats: int = 12, queue: bool = True
) -> Callable[..., list[Found]]:
    """A rule asked where the cell took a second and made so many turns."""

    def look(trace: Trace, explained: set[Any]) -> list[Found]:
        trace.samples.clear()
        trace.wall_ns, trace.own_ns, trace.starved_ns, trace.blind_ns = 1000 * MS, 0, 0, 0
        trace.around_ns = trace.sampled_ns = trace.backward_ns = trace.update_ns = 0
        trace.steps.beats = beats
        for row in trace.rows:
            row.forward_ns = row.backward_ns = 0
        facts(trace)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop_waits, "interpreted", lambda: not queue)
            patch.setattr(loop_waits.os, "cpu_count", lambda: 8)
            return rule(trace, explained)  # type: ignore[no-any-return]

    return look


def row_at(trace: Trace, line: int) -> Row:
    return next(row for row in trace.rows if row.line == line)


def looks(*given: tuple[Any, ...], **facts: int) -> Callable[[Trace], None]:
    """Looks at lines: (line or lines, what ran, milliseconds, turns, which of the lines waits)."""

    def set_them(trace: Trace) -> None:
        met(trace, *((lines, kind, ms / 1000, turns) for lines, kind, ms, turns, _ in given))
        for sample, (*_, waits) in zip(list(trace.samples.values()), given, strict=True):
            sample.waits = waits
        for name, value in facts.items():
            setattr(trace, name, value * MS)

    return set_them


def fetched(line: int = 6, made: bool = False, **facts: Any) -> Callable[[Trace], None]:
    """What a loop over a loader waited for, in milliseconds."""

    def set_them(trace: Trace) -> None:
        chain = row_at(trace, 7).chain[-1:]
        of = {"ns": 600, "loop_ns": 1000, "batches": 12, "passes": 1} | facts
        for name in ("ns", "loop_ns", "starts_ns"):
            of[name] = of.get(name, 0) * MS
        if made:
            of["makers"] = tuple(c for c in chain[0][0].co_consts if getattr(c, "co_name", "") == "load")
        trace.fetched[chain] = Fetched(**of)

    return set_them


def timed_with(*given: tuple[Any, ...], **facts: Any) -> Callable[[Trace], None]:
    """The same, with looks inside of the loader."""

    def set_them(trace: Trace) -> None:
        fetched(**facts)(trace)
        looks(*given)(trace)
        (chain,) = trace.fetched
        for sample in trace.samples.values():
            sample.places = (*sample.places[: sample.waits], *chain)

    return set_them


def asked(waited: int, count: int, cut: bool = True, device: str = "cuda:0", steps: int = 0) -> Callable[[Trace], None]:
    """A value of a GPU that was asked for so often, for so many milliseconds in all."""

    def set_them(trace: Trace) -> None:
        row = next(row for row in trace.rows if (row.cut == "item" if cut else row.line == 9))
        row.count, row.device = count, device
        trace.steps.count = steps
        if cut:
            row.waited_ns = waited * MS
        else:
            trace.copies[row] = Copied("cpu", count, 4 * count, waited * MS)

    return set_them


def copies(*given: tuple[Any, ...]) -> Callable[[Trace], None]:
    """Copies on lines: (line, to, how often, bytes, milliseconds, how often the same)."""

    def set_them(trace: Trace) -> None:
        for line, to, count, size, ms, same in given:
            trace.copies[row_at(trace, line)] = Copied(to, count, size, ms * MS, same)

    return set_them


def wait(*given: tuple[Any, ...], found: bool = True, beats: int = 12, **facts: int) -> Case:
    return Case(waiting(loop_waits.waits, looks(*given, **facts), beats), TEXT, found)


def loads(found: bool = True, beats: int = 12, **facts: Any) -> Case:
    return Case(waiting(loop_waits.waits, fetched(**facts), beats), TEXT, found)


def asking(*given: tuple[tuple[int, ...], int], text: str = ASKED) -> Case:
    """A loader whose samples `load` makes, with looks inside of it: (lines, milliseconds)."""
    seen = [(lines, "loader", ms, 9, len(lines) - 1) for lines, ms in given]
    return Case(waiting(loop_waits.waits, timed_with(*seen, made=True)), text)


def asks(*given: Any, found: bool = True, queue: bool = True, **facts: Any) -> Case:
    return Case(waiting(loop_waits.asked, asked(*given, **facts), queue=queue), TEXT, found)


def copied(*given: tuple[Any, ...], found: bool = True) -> Case:
    return Case(waiting(loop_waits.copied, copies(*given)), TEXT, found)


ROWS = (
    "net = nn.Linear(16, 4)\nfor e in range(2):\n    loss = 0.0\n    for k in range({n}):\n"
    "        loss = loss + F.cross_entropy(net(x[k]), labels[k])\n    loss.backward()"
)


def ops(each_us: float, wall_ms: float, gpu: bool = False, size: int = 4) -> Callable[[Trace, set[Any]], list[Found]]:
    """The rule of many small ops, where each took so long and gave so many bytes."""

    def look(trace: Trace, explained: set[Any]) -> list[Found]:
        for row in trace.rows:
            row.forward_ns, row.backward_ns, row.size = int(row.runs * each_us * 1000), 0, size
            row.device = "cuda:0" if gpu else row.device
        trace.samples.clear()
        trace.wall_ns, trace.own_ns, trace.backward_ns, trace.update_ns = int(wall_ms * MS), 0, 0, 0
        trace.starved_ns = trace.around_ns = trace.sampled_ns = trace.blind_ns = 0
        return cost.overhead(trace, explained)

    return look


MANY = "t = torch.zeros(())\nfor k in range({n}):\n    t = t + 1.0"
TWO = "for k in range(40):\n    t = torch.zeros(())\n    for j in range(60):\n        t = t + 1.0"
STEPS = (
    "t = torch.zeros((), requires_grad=True)\nfor k in range(800):\n    u = t + 1.0\n    u = u * 2.0\n    u = u - 1.0\n"
    "    u.backward()"
)
HALVES = "t = torch.zeros(())\nfor k in range({n}):\n    t = t + 1.0\nfor k in range(1200):\n    t = t * 1.0"
LOADER, LOOP = ("loader", 0), 1
WAITS = {
    "a line of Python that takes the time": wait((3, "python", 600, 9, -1), (7, "op", 400, 9, -1)),
    "a line of Python, called": wait(((3, 6), "python", 600, 9, -1), (7, "op", 400, 9, -1)),
    "a line of Python of half the time": wait((3, "python", 500, 9, -1), (7, "op", 500, 9, -1)),
    "a line of Python of less": wait((3, "python", 499, 9, -1), (7, "op", 501, 9, -1), found=False),
    "a line of Python in three turns": wait((3, "python", 600, 3, -1), (7, "op", 400, 9, -1)),
    "a line of Python in two turns": wait((3, "python", 600, 2, -1), (7, "op", 400, 9, -1), found=False),
    "a line of Python, three turns of the cell": wait((3, "python", 600, 3, -1), beats=3),
    "a line of Python, two turns of the cell": wait((3, "python", 600, 3, -1), beats=2, found=False),
    "a line of Python of 20 ms": wait((3, "python", 20, 3, -1), wall_ns=20),
    "a line of Python of 19 ms": wait((3, "python", 19, 3, -1), wall_ns=19, found=False),
    "a line of Python of 3 ms in each turn": wait((3, "python", 30, 10, -1), wall_ns=30),
    "a line of Python of less in each turn": wait((3, "python", 29, 10, -1), wall_ns=29, found=False),
    "a line of Python, imports aside": wait(
        (3, "python", 300, 9, -1), (7, "import", 600, 9, -1), (7, "op", 290, 9, -1)
    ),
    "a loader that nobody timed": wait((6, "loader", 600, 9, 0), (7, "op", 400, 9, -1)),
    "a loader that nobody timed, and its line": wait(((3, 6), "loader", 600, 9, 1), (7, "op", 400, 9, -1)),
    "a generator that nobody timed": wait(((3, 6), "python", 600, 9, 1), (7, "op", 400, 9, -1)),
    "a loader that nobody timed, of half": wait((6, "loader", 500, 9, 0), (7, "op", 500, 9, -1)),
    "a loader that nobody timed, of two turns": wait((6, "loader", 600, 2, 0), (7, "op", 400, 9, -1), found=False),
    "a loader that nobody timed, of 20 ms": wait((6, "loader", 20, 3, 0), wall_ns=20),
    "a loader that nobody timed, of 19 ms": wait((6, "loader", 19, 3, 0), wall_ns=19, found=False),
    "a loader that nobody timed, of less": wait((6, "loader", 499, 9, 0), (7, "op", 501, 9, -1), found=False),
    "a loader on a busy machine": wait((6, "loader", 300, 9, 0), (7, "op", 100, 9, -1), blind_ns=600),
    "a loader": loads(),
    "a loader of half the time": loads(ns=500),
    "a loader of less than half": loads(ns=499, found=False),
    "a loader of two batches": loads(batches=2, found=False),
    "a loader of three batches": loads(batches=3),
    "a loader of 20 ms": loads(ns=20, loop_ns=20, batches=3),
    "a loader of 19 ms": loads(ns=19, loop_ns=20, batches=3, found=False),
    "a loader of 8 ms for each": loads(ns=304, loop_ns=304, batches=38),
    "a loader of less for each": loads(ns=304, loop_ns=304, batches=39),
    "a loader of 299 ms": loads(ns=299, loop_ns=304, batches=4),
    "a loader of 99 ms": loads(ns=99, loop_ns=104, batches=4, made=True),
    "a loader of less than a quarter of the cell": loads(ns=249, loop_ns=259, batches=10, made=True),
    "a loader of a quarter of the cell": loads(ns=250, loop_ns=260, batches=10, made=True),
    "a loader that other programs held up": loads(waits=[MS // 10] * 10 + [300 * MS] * 2, found=False),
    "a loader that computed in long waits": loads(waits=[MS] * 8 + [150 * MS] * 4, busy_ns=600 * MS),
    "a loader of 3 ms for each": loads(ns=300, loop_ns=300, batches=100),
    "a loader of less than 3 ms": loads(ns=299, loop_ns=300, batches=100, found=False),
    "a loader of less than 3 ms, for long": loads(ns=500, loop_ns=500, batches=1000),
    "a loader of few turns": loads(beats=2, found=False),
    "a loader with a worker": loads(workers=1),
    "a loader with a worker of the cell's own": loads(workers=1, made=True),
    "a loader with two workers": loads(workers=2, starts_ns=299),
    "a loader with two workers of the cell's own": loads(workers=2, made=True),
    "a loader with workers that start": loads(workers=2, starts_ns=301),
    "a loader with a worker that starts": loads(workers=1, starts_ns=301),
    "a loader with workers that start again": loads(workers=2, starts_ns=301, passes=2),
    "a loader with six workers": loads(workers=6),
    "a loader with eight workers": loads(workers=8),
    "a loader and its line": Case(
        waiting(loop_waits.waits, timed_with(((3, 6), "loader", 301, 9, 1), ((4, 6), "loader", 299, 9, 1))),
        TEXT.replace("return x", "return x * 1.0"),
    ),
    "a loader and its lines": Case(
        waiting(loop_waits.waits, timed_with(((3, 6), "loader", 300, 9, 1), ((4, 6), "loader", 300, 9, 1))),
        TEXT.replace("return x", "return x * 1.0"),
    ),
    "a loader whose samples ask a function for the work": asking(((5, 3, 7), 500), ((4, 7), 100)),
    "a loader whose samples ask for another work each time": asking(
        ((5, 3, 7), 600), text=ASKED.replace("clean", "augment")
    ),
    "a loader whose samples ask for less than half": asking(((5, 3, 7), 300), ((5, 7), 301)),
    "a value of a GPU": asks(100, 12),
    "a value of a GPU, eight times": asks(100, 8),
    "a value of a GPU, seven times": asks(100, 7, found=False),
    "a value of a GPU, of a fiftieth": asks(20, 12),
    "a value of a GPU, of less": asks(19, 12, found=False),
    "a value of a GPU, of a third": asks(301, 12),
    "a value of a GPU in each step": asks(301, 12, steps=12),
    "a value of a GPU four times in each step": asks(301, 12, steps=3),
    "a value of a processor": asks(100, 12, device="cpu", found=False),
    "a value of no device": asks(100, 12, device="", found=False),
    "a value of an interpreted GPU": asks(0, 12, queue=False),
    "a tensor of a GPU that is copied back": asks(100, 12, cut=False),
    "the same copied again": copied((9, "cuda:0", 12, 4096, 50, 12)),
    "the same copied three times": copied((9, "cuda:0", 12, 4096, 50, 3)),
    "the same copied twice": copied((9, "cuda:0", 12, 4096, 50, 2), found=False),
    "the same copied again, of a megabyte": copied((9, "cuda:0", 12, 1 << 20, 21, 12)),
    "the same copied again, of less": copied((9, "cuda:0", 12, (1 << 20) - 1, 21, 12)),
    "the same copied again, quickly": copied((9, "cuda:0", 12, 1 << 20, 20, 12)),
    "two copied again": copied((9, "cuda:0", 12, 4096, 50, 12), (10, "cuda:1", 12, 8192, 50, 12)),
    "there and back": copied((9, "cpu", 12, 4096, 50, 1), (10, "cuda:0", 12, 4096, 50, 1)),
    "there and back, three times": copied((9, "cpu", 3, 4096, 50, 1), (10, "cuda:0", 3, 4096, 50, 1)),
    "there and back, twice": copied((9, "cpu", 2, 4096, 50, 1), (10, "cuda:0", 2, 4096, 50, 1), found=False),
    "there and back, a megabyte": copied((9, "cpu", 12, 1 << 19, 150, 1), (10, "cuda:0", 12, 1 << 19, 151, 1)),
    "there and back, less": copied((9, "cpu", 12, 1 << 19, 150, 1), (10, "cuda:0", 12, (1 << 19) - 1, 151, 1)),
    "there and back, quickly": copied((9, "cpu", 12, 1 << 19, 150, 1), (10, "cuda:0", 12, 1 << 19, 150, 1)),
    "to the processor alone": copied((9, "cpu", 12, 4096, 50, 1), found=False),
    "rows one at a time": Case(ops(1.0, 10.0), ROWS.format(n=16)),
    "rows one at a time, few": Case(ops(1.0, 10.0), ROWS.format(n=15), False),
    "many small ops": Case(ops(1.0, 5.0), MANY.format(n=2000)),
    "many small ops, not so many": Case(ops(1.0, 5.0), MANY.format(n=1999), False),
    "many small ops in two loops": Case(ops(1.0, 9.0), TWO),
    "many small ops in a loop's call": Case(ops(1.0, 5.0), "def add(t):\n    return t + 1.0\n" + MANY.format(n=2000)
                                            .replace("t + 1.0", "add(t)")),
    "many small ops of a training loop": Case(ops(1.0, 9.0), STEPS),
    "many small ops, three fifths of them in a loop": Case(ops(1.0, 9.0), HALVES.format(n=1800)),
    "many small ops, fewer of them in a loop": Case(ops(1.0, 9.0), HALVES.format(n=1799)),
    "many small ops in a comprehension": Case(ops(1.0, 5.0), "t = torch.zeros(())\nu = [t + k for k in range(2000)]"),
    "many ops of 20 µs": Case(ops(20.0, 100.0), MANY.format(n=2000)),
    "many ops of more": Case(ops(20.1, 101.0), MANY.format(n=2000), False),
    "many small ops without pauses": Case(ops(1.0, 4.9), MANY.format(n=2000), False),
    "many ops of 4 kB": Case(ops(1.0, 5.0, size=4096), MANY.format(n=2000), False),
    "many ops of less than 4 kB": Case(ops(1.0, 5.0, size=4095), MANY.format(n=2000)),
    "many ops of a GPU": Case(ops(1.0, 2.0, gpu=True, size=(1 << 17) - 1), MANY.format(n=2000)),
    "many ops of a GPU, large": Case(ops(1.0, 2.0, gpu=True, size=1 << 17), MANY.format(n=2000), False),
    "float64 among float32": Case(
        cost.double, "net, d = nn.Linear(16, 4), torch.tensor(np.ones((64, 4)))\n((net(x) - d) ** 2).mean().backward()"
    ),
    "float64 of a number": Case(
        cost.double, "net = nn.Linear(16, 4)\n(net(x) * 2.0).mean().backward()", False
    ),
    "float64 of a single tensor": Case(
        cost.double, "net, s = nn.Linear(16, 4), torch.tensor(2.0, dtype=torch.float64)\n"
        "(net(x) * s).mean().backward()", False
    ),
    "float64 all through": Case(
        cost.double,
        "data = torch.tensor(np.ones((64, 16)))\nnet = nn.Linear(16, 4).double()\nnet(data).mean().backward()",
    ),
    "float64 all through, by the parameters": Case(
        cost.double,
        "data = torch.tensor(np.ones((64, 16)))\nw = torch.ones(16, 4, dtype=torch.float64, requires_grad=True)\n"
        "(data @ w).mean().backward()",
    ),
    "float64 all through, of no name": Case(
        cost.double, "net = nn.Linear(16, 4).double()\nnet(torch.tensor(np.ones((64, 16)))).mean().backward()"
    ),
    "float64 that is meant": Case(
        cost.double,
        "torch.set_default_dtype(torch.float64)\ndata = torch.tensor(np.ones((64, 16)))\nnet = nn.Linear(16, 4)\n"
        "net(data).mean().backward()\ntorch.set_default_dtype(torch.float32)", False,
    ),
}  # fmt: skip
