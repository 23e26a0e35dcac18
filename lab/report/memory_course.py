"""The memory of a cell as its record tells it: its course, its peak, which line made the bytes and which keeps them.

Nobody asks while the cell runs. What an op saves for its gradient stands in its declaration, when it ran and when its
gradient ran stands in the timeline, and so who kept an array at the peak is found afterwards.
"""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from operator import itemgetter

from core.base import syntax
from core.base.source import Location, text_of
from core.declare import op as declarations
from widgets.record import Held, Memory, MemoryRow

from ..recorder import live_bytes
from ..recorder.cell_trace import Block, Leaf, Ref, Row, Trace
from ..recorder.kernel_choices import size_bytes
from ..recorder.op_to_row import latest

POINTS = 400  # of the course
HELD = 200  # rows of what was alive at the peak
IN_USE = "in use by "


def record_memory(trace: Trace, numbers: Mapping[Ref, int]) -> Memory | None:
    """Summarise what lived, by line, with a course of at most `POINTS` points that keeps every local peak in sight."""
    if not trace.blocks:
        return None
    times, sizes = live_bytes.course(trace.blocks)
    step = -(-len(sizes) // POINTS)
    kept = [k + int(sizes[k : k + step].argmax()) for k in range(0, len(sizes), step)]
    top = max(kept, key=lambda k: sizes[k])
    when = int(times[top])
    found = Memory(int(sizes[top]), (when - trace.started_ns) / 1e6, int(sizes[-1]))
    found.times_ms = [(time - trace.started_ns) / 1e6 for time in times[kept].tolist()]
    found.bytes = sizes[kept].tolist()
    lines: dict[int | None, MemoryRow] = {}
    alive = live_bytes.alive_at(trace.blocks, when)
    own: dict[Row | None, MemoryRow] = {}  # of a row's line in this cell
    for block in trace.blocks:
        row = own.get(block.row)
        if row is None:
            line = trace.line(latest(block.row).chain)
            row = own[block.row] = lines.setdefault(line, MemoryRow(line))
        row.made_bytes += block.size
        row.count += 1
        if not block.died_ns:
            row.kept_bytes += block.size
    for block in alive:
        own[block.row].peak_bytes += block.size
    last = next((b for b in alive if b.born_ns == when), None)  # the array with which the peak was reached
    if last is not None:
        by = latest(last.row)
        found.peak_line, found.peak_op = trace.line(by.chain), by.op + (" backward" if last.backward else "")
    found.held = _held(trace, numbers, alive, when, last)
    for held in found.held:
        lines.setdefault(held.keeper, MemoryRow(held.keeper)).held_bytes += held.size_bytes
    found.held = sorted(found.held, key=lambda h: -h.size_bytes)[:HELD]
    found.rows = sorted(lines.values(), key=lambda r: -r.peak_bytes)
    return found


def _held(trace: Trace, numbers: Mapping[Ref, int], alive: list[Block], when: int, last: Block | None) -> list[Held]:
    """Return all that was alive at `when`, an op's arrays together, with who keeps them and why."""
    groups: dict[tuple[Row, bool, int], list[Block]] = {}
    for block in alive:
        groups.setdefault((latest(block.row), block.backward, block.size if block.backward else 0), []).append(block)
    keepers = _Keepers(trace, when, last)
    found = []
    for (row, backward, _), blocks in groups.items():
        keeper, why = keepers.of_gradient(row, blocks[0]) if backward else keepers.of(row, blocks[0])
        size, line = sum(b.size for b in blocks), trace.line(row.chain)
        shape = [] if backward else list(row.shape)
        op = row.op + (" backward" if backward else "")
        found.append(Held(op, numbers.get(row), line, shape, row.dtype, keeper, why, size, len(blocks)))
    return found


class _Keepers:
    """Answers who kept what an op had made, at one moment."""

    def __init__(self, trace: Trace, when: int, last: Block | None) -> None:
        self.trace, self.when = trace, when
        self.ends = latest(last.row) if last is not None and last.backward else None
        self.readers = trace.consumers()
        self.ran: dict[tuple[Row, bool], list[int]] = {}  # (row, backward) -> when it began
        self.leaves = {leaf.made: leaf for leaf in trace.leaves if leaf.made is not None}
        self.running: Row | None = None
        for row, start, _, phase in sorted(trace.events, key=itemgetter(1)):
            self.ran.setdefault((latest(row), phase == "backward"), []).append(start)
            if start <= when:
                self.running = latest(row)

    def of(self, row: Row, block: Block) -> tuple[int | None, str]:
        """Return (line, why) for an array that an op made."""
        readers, since = self._readers(row), self._began(row, block)
        for reader, position in readers:
            if self._saves(reader, "input", position) and self._waits(reader, since):
                return self.trace.line(reader.chain), f"saved for the gradient of {reader.op}"
        if self._saves(row, "output", 0) and self._waits(row, since):
            return self.trace.line(row.chain), f"saved for the gradient of {row.op}"
        leaf = self.leaves.get(row)
        if leaf is not None:
            return self.trace.line(row.chain), f"{leaf.kind} {leaf.name}"
        name = _bound(self.trace, row)
        if name:
            return self.trace.line(row.chain), f"variable {name}"
        if not block.died_ns:
            return self.trace.line(row.chain), "still there at the end"
        if self.running is not None and (self.running is row or any(r is self.running for r, _ in readers)):
            return self.trace.line(self.running.chain), IN_USE + self.running.op
        return self.trace.line(row.chain), "a value of its expression"

    def of_gradient(self, row: Row, block: Block) -> tuple[int | None, str]:
        """Return (line, why) for what the gradient of an op gave."""
        line = self.trace.line(self.trace.steps.last_backward)
        fits = [ref for ref in row.refs if ref.requires_grad and size_bytes(ref) == block.size]
        if len(fits) == 1 and isinstance(fits[0], Leaf):
            return line, f".grad of {fits[0].name}"
        return line, "a gradient on its way"

    def _began(self, row: Row, block: Block) -> int:
        """When the run began that made an array: the array is noted a little after the op, sometimes after the next."""
        runs = self.ran.get((row, False), ())
        k = bisect_right(runs, block.born_ns) - 1
        return runs[k] if k >= 0 else 0

    def _readers(self, row: Row) -> list[tuple[Row, int]]:
        """Who reads an array, itself or a view of it, with its place among the inputs; in the order they ran."""
        found: list[tuple[Row, int]] = []
        stack, seen = [row], {row}
        while stack:
            at = stack.pop()
            for reader in self.readers.get(at, ()):
                found.extend((reader, k) for k, ref in enumerate(reader.refs) if ref is at)
                if reader.view and reader not in seen:
                    seen.add(reader)
                    stack.append(reader)
        return sorted(found, key=lambda pair: pair[0].number)

    def _saves(self, row: Row, where: str, position: int) -> bool:
        """Return whether an op's gradient needs its input or output of that number."""
        if not row.requires_grad:
            return False
        made = self.trace.choices.get((row.kernel, row.backend, row.op))
        declared = declarations.table.get(made.name if made is not None else row.op)
        if declared is None:
            return False
        mask = sum(1 << k for k, ref in enumerate(row.refs) if ref.requires_grad)
        slots = (slot for slot in declared.plan(mask) if slot is not None and slot.where == where)
        return any(where == "output" or slot.index == position or declared.variadic for slot in slots)

    def _waits(self, row: Row, since: int) -> bool:
        """Return whether an op had run, and its gradient had not yet. Runs beyond the timeline's limit count as
        such."""
        forward, backward = self.ran.get((row, False)), self.ran.get((row, True), [])
        if forward is None:
            return True
        k = bisect_left(forward, since)
        if k == len(forward) or forward[k] > self.when:
            return False
        done = bisect_right(backward, self.when) - bisect_left(backward, forward[k])
        return done == (self.ends is row)  # what reached the peak with its gradient frees what it saved just after


def _bound(trace: Trace, row: Row) -> str:
    """Return the variable that the statement around an op binds to its result; "" where it is bound to none."""
    place = trace.own_place(row.chain[:1]) or row.place
    if place is None or place.line != place.end_line:
        return ""
    text = _line(trace, place)
    name, equals, value = text.partition(" = ")
    if equals and value.strip() == place.code and name.strip().isidentifier():  # most are: no need to parse
        return name.strip()
    try:
        statement = syntax.parse(text.strip()).body[0]
    except (SyntaxError, ValueError, IndexError):  # the head of a block, or a part of a longer statement
        return ""
    if not isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign) or statement.value is None:
        return ""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    whole = ast.get_source_segment(text.strip(), statement.value)
    plain = isinstance(target, ast.Name | ast.Attribute | ast.Subscript)
    same = isinstance(statement, ast.AugAssign) or whole == place.code
    return ast.unparse(target) if plain and same else ""


def _line(trace: Trace, place: Location) -> str:
    if place.file in trace.files:
        lines = trace.texts()
        return lines[place.line - 1] if 0 < place.line <= len(lines) else ""
    return text_of(place.file, place.line)
