"""Where a cell's time goes, by lines of the user's, and what a change there would save."""

from __future__ import annotations

import ast
import linecache
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, NamedTuple

from widgets.figures import time_text

from ...recorder.cell_trace import Chain, Leaf, Ref, Row, Trace
from ...recorder.user_files import is_users, shown_name
from ..finding import Found, capital, code_of, where
from ..reading.sources import _parsed

Frame = tuple[CodeType, int]
Loop = ast.For | ast.AsyncFor | ast.While | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

LEAST_NS, LEAST = 20_000_000, 0.10  # a saving below either is not worth a word
SLICE_NS = 8_000_000  # how long a thread stands in the queue for a processor each time, about
OP_NS, GRADIENT_NS, BEAT_NS = 7_000, 8_000, 7_000  # ns to tell of an op, of its gradient, of a module
HEARD_NS = 4_000  # of a gradient's, what falls into the time that is measured of it
STEP_NS = 60_000  # ns to tell of an optimizer's step
PLAIN_NS, TORCH_PLAIN_NS = 400, 3_000  # ns of a small op of which nobody is told, in core and in PyTorch
NARROW = 0.1  # between the most and the least that is saved, from which both are told
UNKNOWN = 0.25  # of a cell's time that went to other programs: what was seen between ops is no longer a fair sample


@dataclass
class Saving:
    """A finding about slow code, and the share of the cell's time that its remedy saves."""

    share: float
    found: Found


class Shares:
    """A cell's time and how it is spent."""

    def __init__(self, trace: Trace, told: float = 1.0) -> None:
        self.trace, self._told = trace, told  # how many times the usual it takes to tell of an op
        imports = trace.samples.get("import")
        net = trace.wall_ns - trace.own_ns - trace.around_ns - (imports.ns if imports is not None else 0)
        self.rows = [row for row in trace.rows if not row.cut and not row.error and row.count]
        in_ops = sum(row.forward_ns for row in self.rows if row.phase != "update") + trace.backward_ns + trace.update_ns
        self.total = max(net, in_ops, 1)
        part = min(self.total / max(trace.wall_ns, 1), 1.0)  # of the recorder's own time some went to others as well
        self.queue = min(part * trace.starved_ns, self.total)  # ns, part of the total, in which other programs ran
        self.ran = max(1 - self.queue / self.total, 0.05)  # what is left of a time, an op's too, without those
        # looks of C's fall on a line as often as the cell runs there, whoever else has the processors meanwhile
        self.fair = trace.sampled_ns > 0 or trace.starved_ns + trace.blind_ns <= UNKNOWN * max(trace.wall_ns, 1)
        self.looked = max(sum(s.ns for s in trace.samples.values() if s.kind != "import"), 1)
        self.lines: list[Any] | None = None  # what `busy_lines` found, once it was asked
        self.times: dict[tuple[str, int], float] = {}
        self.own_parts = self._own_parts()
        heard = sum((1 - part) * self.times[line] for line, part in self.own_parts.items())
        self.alone = max(self.total - heard, 0.02 * self.total)  # what the cell takes when nobody listens

    def _own_parts(self) -> dict[tuple[str, int], float]:
        """Return for lines with ops how much of the time there is the cell's own: ops are told of one by one, and
        their gradients, which the recorder's clock does not see; what is left is no less than such ops take."""
        trace = self.trace
        rows = [row for row in trace.rows if row.phase == "forward" and not row.error]
        least = TORCH_PLAIN_NS if any(row.backend == "PyTorch" for row in rows) else PLAIN_NS
        told: dict[tuple[str, int], float] = {}
        inside: dict[tuple[str, int], float] = {}  # of that, in modules, whose calls are told of as well
        for row in rows:
            if chain := own(trace, row.chain):
                line = self.line_of(chain[0])
                told[line] = told.get(line, 0.0) + row.count
                inside[line] = inside.get(line, 0.0) + (row.count if row.path else 0)
                self.times[line] = self.times.get(line, 0.0) + row.forward_ns
        met: dict[tuple[str, int], float] = {}
        for sample in trace.samples.values():
            if sample.kind != "import" and (chain := own(trace, sample.places)):
                line = self.line_of(chain[0])
                met[line] = met.get(line, 0.0) + sample.ns * self.total / self.looked
        self.times = {line: max(met.get(line, 0.0), self.times.get(line, 0.0)) for line in {*met, *self.times}}
        steps, arrived = trace.steps.count, sum(gradient.count for gradient in trace.gradients.values())
        entered = max(trace.steps.beats - steps - arrived, 0) * BEAT_NS / max(sum(inside.values()), 1)
        lost = {line: (told[line] * OP_NS + inside[line] * entered, told[line] * least) for line in told}
        if trace.steps.last_step and (line := self.line_of(trace.steps.last_step[0])) in met:
            lost[line] = steps * STEP_NS, steps * 2 * least
        back = {self.line_of(chain[0]) for chain in (*trace.spans, *trace.backwards) if chain} & set(met)
        reached, whole = sum(row.reached for row in trace.rows), sum(self.times[line] for line in back)
        for line in back:
            part = self.times[line] / max(whole, 1)
            lost[line] = part * (reached * GRADIENT_NS + arrived * BEAT_NS), part * reached * least
        own_parts: dict[tuple[str, int], float] = {}
        for line, (listening, plain) in lost.items():
            took = max(self.times[line], 1)
            own_parts[line] = min(max(took - self._told * listening / self.ran, plain / self.ran) / took, 1.0)
        return own_parts

    def gradient_of(self, row: Row) -> float:
        """Return the time of an op's gradient without what it takes to tell of it."""
        told = self._told * row.reached * HEARD_NS / self.ran
        return max(row.backward_ns - told, 0.1 * row.backward_ns)

    def kept(self, chain: Chain) -> float:
        """Return which part of the time at a place is the cell's own."""
        inner = own(self.trace, chain)
        return self.own_parts.get(self.line_of(inner[0]), 1.0) if inner else 1.0

    def part(self, ns: float) -> float:
        """Return which share of the cell's time, as it is without a recording, `ns` are."""
        return min(ns / self.alone, 0.99)

    def sampled(self, frame: Frame) -> float:
        """Return the share of the time in which the cell was met at a place of the user's, or in what it calls."""
        met = sum(s.ns * self.kept(s.places) for s in self.trace.samples.values() if frame in s.places)
        return met / self.looked

    def at_lines(self, name: str, first: int, last: int) -> float:
        """Return the time in which the cell was met on lines of a source (see `Source.name`), or in what they call."""
        looks = [s for s in self.trace.samples.values() if self._on(s.places, name, first, last)]
        seen = sum(s.ns * self.kept(s.places) for s in looks)
        return seen / self.looked * self.total

    def beats_at(self, name: str, line: int) -> int:
        """Return in how many different iterations it was met there."""
        return sum(s.beats for s in self.trace.samples.values() if self._on(s.places, name, line, line))

    def _on(self, places: Chain, name: str, first: int, last: int) -> bool:
        for frame in places:
            file = frame[0].co_filename
            own = file in self.trace.files
            if (own if not name else not own and shown_name(file) == name) and first <= self.line_of(frame)[1] <= last:
                return True
        return False

    def line_of(self, frame: Frame) -> tuple[str, int]:
        """Return the source (see `Source.name`) and the line of a frame."""
        code, lasti = frame
        line, offset = self.trace.place(code, lasti).line, self.trace.files.get(code.co_filename)
        return (shown_name(code.co_filename), line) if offset is None else ("", line + offset)

    def worth(self, ns: float, chain: Chain = ()) -> float:
        """Return the share of the cell's time that `ns` are, and 0 where saving that is not worth a word.

        On a busy machine the waits for a processor fall on lines by chance, one slice after another: what counts is
        what is left of `ns` once its part of them is taken away, and a standard deviation more; or as much of it as the
        place (`chain`), or its caller, was met at by looks of C's, which count the time that the cell itself had.
        """
        ran = self.total - self.queue
        part = ns * ran / self.total
        left = part - math.sqrt(max(self.queue, 0) * SLICE_NS)
        if chain and self.trace.sampled_ns:
            left = max(left, min(part, max(map(self.sampled, chain[:2])) * ran))
        if left < LEAST_NS or left < LEAST * min(ran, self.alone):
            return 0.0
        return self.part(ns)

    def saving(
        self, ns: float, chain: Chain, message: str, remedy: str, rows: Iterable[Row] = (), least: float | None = None
    ) -> Iterator[Saving]:
        """Yield the finding at the innermost place of a chain, unless what it saves is too little; where that depends
        on what nobody knows, from `least` ns up to `ns`."""
        share = self.worth(ns, chain)
        if not share or not chain:
            return
        line, col, place = where(self.trace, chain)
        low = share if least is None else min(self.part(max(least, 0.0)), share)
        less = less_time(share, low)
        said = capital(f"{place} {message} Without that the cell would take {less}.")
        yield Saving((share + low) / 2, Found("slow", "note", line, col, said, remedy, list(rows)))


def own(trace: Trace, chain: Chain) -> Chain:
    """Return a chain from its innermost frame that is the user's: what a package does counts where it was called."""
    of = (k for k, (code, _) in enumerate(chain) if code.co_filename in trace.files or is_users(code.co_filename))
    return chain[next(of, len(chain)) :]


def less_time(most: float, least: float | None = None) -> str:
    """Return in words which share of the time is saved.

    >>> less_time(0.474), less_time(0.6, 0.3), less_time(0.6, 0.0), less_time(0.62, 0.58)
    ('about 47 % less time', '30 to 60 % less time', 'at most 60 % less time', 'about 60 % less time')
    """
    if least is not None and most - least >= NARROW:
        low, high = round(100 * max(least, 0.0)), round(100 * most)
        return f"{low} to {high} % less time" if low >= 5 else f"at most {high} % less time"
    return f"about {100 * (most if least is None else (most + min(least, most)) / 2):.0f} % less time"


# -- rows --------------------------------------------------------------------------------------------------------------


def spent(rows: Iterable[Row]) -> int:
    """Return the time of rows, forward and backward."""
    return sum(row.forward_ns + row.backward_ns for row in rows)


def at_one_place(rows: Iterable[Row]) -> dict[tuple[Chain, str], list[Row]]:
    """Return rows by where they are called from and by op: those of a loop that unrolled are one."""
    found: dict[tuple[Chain, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.chain, row.op), []).append(row)
    return found


def on_innermost(rows: Iterable[Row]) -> dict[tuple[Frame, str], list[Row]]:
    """Return rows by the innermost line of the user's alone, and by op."""
    found: dict[tuple[Frame, str], list[Row]] = {}
    for row in rows:
        if row.chain:
            found.setdefault((row.chain[0], row.op), []).append(row)
    return found


def through(ref: Ref, ops: set[str]) -> Iterator[Ref]:
    """Yield what a value is, and what that was before these ops, which only give it another form."""
    for _ in range(12):
        yield ref
        if isinstance(ref, Leaf) or ref.op not in ops or not ref.refs:
            return
        ref = ref.refs[0]


def common(chains: Iterable[Chain]) -> Chain:
    """Return the frames, outermost last, that all chains have in common."""
    shared: Chain | None = None
    for chain in chains:
        if shared is None:
            shared = chain
            continue
        k = 0
        while k < min(len(shared), len(chain)) and shared[-1 - k] == chain[-1 - k]:
            k += 1
        shared = shared[len(shared) - k :]
    return shared or ()


def quoted(trace: Trace, chain: Chain, most: int = 70) -> str:
    """Return the code at the innermost place of a chain, as a sentence quotes it."""
    row = Row(None, 0, "this", chain, None, 0, ())
    code = " ".join(code_of(trace, row).split())
    return f"`{code}`" if len(code) <= most else f"`{code[: most - 1]}…`"


def begun(words: str) -> str:
    """Return a place in words as a sentence begins with it.

    >>> begun("line 3"), begun("net.py line 3")
    ('Line 3', 'The code at net.py line 3')
    """
    return words.capitalize() if words.startswith("line ") else f"The code at {words}"


def each(ns: float, count: int) -> str:
    """Return a time for each of several runs, in words."""
    return time_text(ns / max(count, 1) / 1e6)


# -- syntax ------------------------------------------------------------------------------------------------------------


def tree_of(trace: Trace, file: str) -> ast.Module | None:
    """Return the syntax tree of a file or cell of the user's."""
    if file in trace.files:
        return trace.tree()
    return _parsed("".join(linecache.getlines(file))) if is_users(file) else None


def around(trace: Trace, frame: Frame) -> list[ast.AST]:
    """Return the nodes around a place within its function, innermost first."""
    place = trace.place(*frame)
    tree = tree_of(trace, place.file)
    if tree is None:
        return []
    offset = trace.files.get(place.file, 0)
    begin, end = place.line + offset, place.end_line + offset
    found: list[ast.AST] = []
    node: ast.AST | None = tree
    while node is not None:
        inner = [
            n
            for n in ast.iter_child_nodes(node)
            if getattr(n, "lineno", 10**9) <= begin and (getattr(n, "end_lineno", 0) or 0) >= end
        ]
        exact = [n for n in inner if _covers(n, begin, place.col, end, place.end_col)]
        node = next(iter(exact or inner), None) if place.end_col else None
        if isinstance(node, Function):
            found.clear()
        if node is not None:
            found.append(node)
    return found[::-1]


def _covers(node: ast.AST, line: int, col: int, end_line: int, end_col: int) -> bool:
    at = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
    to = (getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0))
    return at <= (line, col) and to >= (end_line, end_col)


def loops_around(trace: Trace, frame: Frame) -> list[Loop]:
    """Return the loops in whose bodies a place of the user's stands, innermost first."""
    if trace.loops is None or trace.loops[0] is not trace.code:
        trace.loops = trace.code, {}
    known: dict[Frame, list[Loop]] = trace.loops[1]
    if frame not in known:
        known[frame] = list(_loops_around(trace, frame))
    return known[frame]


def _loops_around(trace: Trace, frame: Frame) -> Iterator[Loop]:
    inner: ast.AST | None = None
    for node in around(trace, frame):
        if isinstance(node, Loop) and inner is not getattr(node, "iter", None) and inner is not None:
            yield node
        inner = node


def loop_around(trace: Trace, frame: Frame) -> Loop | None:
    """Return the innermost loop in whose body a place of the user's stands."""
    return next(iter(loops_around(trace, frame)), None)


def header(loop: Loop) -> str:
    """Return a loop's first line, or the whole of a comprehension, cut where it is long.

    >>> header(ast.parse("for k in range(9):\\n    f(k)").body[0])
    'for k in range(9)'
    """
    text = ast.unparse(loop).partition("\n")[0].rstrip(":")
    return text if len(text) <= 60 else f"{text[:59]}…"


class Busiest(NamedTuple):
    """The innermost loop that runs most of some ops, and how many: its line in this cell, where that is in words, and
    its own line alone, in this cell or another file."""

    loop: Loop
    runs: int
    line: int | None
    words: str
    own: str


def busiest_loop(trace: Trace, rows: Iterable[Row], most: float) -> Busiest | None:
    """Return the innermost loop that runs at least a part `most` of all runs of rows; None where there is none."""
    known: dict[Frame, list[Loop]] = {}
    runs: dict[tuple[str, Loop], int] = {}
    first: dict[tuple[str, Loop], Chain] = {}
    total = 0
    for row in rows:
        total += row.runs
        own: dict[tuple[str, Loop], Chain] = {}
        for k, frame in enumerate(row.chain):
            if frame not in known:
                known[frame] = loops_around(trace, frame)
            for loop in known[frame]:
                own.setdefault((frame[0].co_filename, loop), row.chain[k:])
        for key, chain in own.items():
            runs[key] = runs.get(key, 0) + row.runs
            first.setdefault(key, chain)
    # an outer loop runs no less than one in it, and comes after it
    often = [key for key, count in runs.items() if count >= most * total]
    if not often:
        return None
    key = min(often, key=lambda key: runs[key])
    (file, loop), chain = key, first[key]
    at = getattr(loop, "lineno", 0)
    line = where(trace, chain)[0]
    if file in trace.files:
        return Busiest(loop, runs[key], at, f"line {at}", f"line {at}")
    there = f"{shown_name(file)} line {at}"
    return Busiest(loop, runs[key], line, there if line is None else f"line {line} ({there})", there)


def in_loop(trace: Trace, chain: Chain) -> Chain:
    """Return a chain from its innermost frame that stands in a loop; empty where none does."""
    for k, frame in enumerate(chain):
        if loop_around(trace, frame) is not None:
            return chain[k:]
    return ()
