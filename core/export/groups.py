"""The order of a plan's steps: elementwise ops and row reductions fused into loops, and room in the arena.

A group is a loop over rows, in which every item finds its operands where it needs them: in registers, in a scratch row,
or as a number of the row. What is asked for elsewhere is written to memory as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .plan import BYTES, Access, Branch, Buffer, Call, Item, Loop, common_space
from .polynomial import Count, Poly, valued

_MOST = 24  # items in a group: what more would share no longer fits into the registers


class Group:
    """Items over one space, in order; the last `inner` axes are a row."""

    def __init__(self, item: Item, most: int = _MOST) -> None:
        self.most = most
        self.space, self.inner = item.space, item.inner
        self.items: list[Item] = []
        self.of_row: list[bool] = []  # whether an item is one number a row
        self.written: set[Buffer] = set()
        self._add(item, False)

    def _add(self, item: Item, of_row: bool) -> None:
        self.items.append(item)
        self.of_row.append(of_row)
        self.written.add(item.out.buffer)

    def made(self) -> dict[Buffer, Access]:
        """Return where each buffer is written, along all axes."""
        return {item.out.buffer: item.out.padded(self.inner) if row else item.out
                for item, row in zip(self.items, self.of_row, strict=True) if not item.alone}  # fmt: skip

    def reads(self) -> set[Buffer]:
        """Return the buffers that come from elsewhere."""
        return {x.buffer for item in self.items for x in item.reads()} - self.written

    def join(self, item: Item, related: bool = True) -> bool:
        """Add an item where it fits; one that is `related` reads what is read or written here."""
        if item.out.buffer in self.written or len(self.items) >= self.most:
            return False
        read = {x.buffer for x in item.reads()}
        if related and not read & (self.written | self.reads()):
            return False
        return self._join_elements(item) or self._join_rows(item)

    def joined(self, other: Group) -> Group | None:
        """Return a group of the items of this one and then of another, None where they do not fit together."""
        if not (self.written | self.reads()) & (other.written | other.reads()):
            return None
        both = Group(self.items[0], self.most)
        every = [*self.items[1:], *other.items]
        return both if all(both.join(item, False) for item in every) else None

    def _join_elements(self, item: Item) -> bool:
        space = common_space(self.space, item.space)
        if space is None:
            return False
        found = item.split(space)
        own = self._split(space)
        if found is None or own is None:
            return False
        items, inner = own
        if found.inner and inner and found.inner != inner:
            return False
        made = {i.out.buffer: i.out.padded(inner) if row else i.out
                for i, row in zip(items, self.of_row, strict=True) if not i.alone}  # fmt: skip
        if not self._finds(found, made):
            return False
        self.space, self.inner, self.items = space, inner or found.inner, items
        self._add(found, False)
        return True

    def _join_rows(self, item: Item) -> bool:
        if not self.inner or item.inner or item.alone:
            return False
        lead = self.space[: len(self.space) - self.inner]
        found = item.split(lead)
        if found is None:
            return False
        made = self.made()
        if not any(x.buffer in made for x in found.reads()):
            return False
        wide = found._replace(operands=tuple(x.padded(self.inner) if isinstance(x, Access) else x
                                             for x in found.operands))  # fmt: skip
        if not self._finds(wide, made):
            return False
        self._add(found, True)
        return True

    def _finds(self, item: Item, made: Mapping[Buffer, Access]) -> bool:
        """Return whether what the item reads of this group is where it is made."""
        return all(made.get(x.buffer) == x for x in item.reads() if x.buffer in self.written)

    def _split(self, space: tuple[Count, ...]) -> tuple[list[Item], int] | None:
        """Return the items over a finer space, and how many axes a row has in it."""
        if space == self.space:
            return self.items, self.inner
        inner = 0
        if self.inner:
            size: Count = 1
            for n in self.space[len(self.space) - self.inner :]:
                size = size * n
            left: Count = 1
            while left != size and inner < len(space):
                inner += 1
                left = left * space[-inner]
            if left != size:
                return None
        lead = space[: len(space) - inner]
        found = [i.split(lead if row else space) for i, row in zip(self.items, self.of_row, strict=True)]
        if any(i is None for i in found):
            return None
        return [i for i in found if i is not None], inner


def delayed(steps: Sequence[Any]) -> list[Any]:
    """Return the steps with each item just before the first step that needs it: what it makes is not kept for long."""
    placed: list[tuple[Any, set[Buffer], set[Buffer]]] = []
    for step in reversed(steps):
        writes, reads = written_by(step), read_by(step)
        at = 0
        if isinstance(step, Item):
            waits = (k for k, (_, w, r) in enumerate(placed) if writes & r or writes & w or reads & w)
            at = next(waits, 0)
        placed.insert(at, (step, writes, reads))
    return [step for step, _, _ in placed]


def schedule(steps: Sequence[Any], most: int = _MOST, apart: bool = False) -> list[Any]:
    """Return the steps with their items in groups of at most `most`: each joins the latest that it fits, not before its
    operands; where calls keep loops `apart`, none from before the last call."""
    placed: list[Any] = []
    writer: dict[Buffer, int] = {}
    last = 0
    for step in steps:
        if isinstance(step, Item):
            need = max((writer.get(x.buffer, 0) for x in (*step.reads(), step.out)), default=0)
            need = max(need, last) if apart else need
            at = next((k for k in range(len(placed) - 1, need - 1, -1)
                       if isinstance(placed[k], Group) and placed[k].join(step)), None)  # fmt: skip
            if at is None:
                placed.append(Group(step, most))
                at = len(placed) - 1
            writer[step.out.buffer] = at
            continue
        if isinstance(step, Branch):
            step = step._replace(then=schedule(step.then, most), other=schedule(step.other, most))
        elif isinstance(step, Loop):
            step = step._replace(test=schedule(step.test, most), body=schedule(step.body, most))
        placed.append(step)
        last = len(placed)
        for b in written_by(step):
            writer[b] = len(placed) - 1
    return placed


def merged(steps: Sequence[Any]) -> list[Any]:
    """Return the steps with those groups in one that fit together, and that neither a call nor what they need keeps
    apart."""
    placed = list(steps)
    before = -1
    while before != len(placed):  # what is joined may fit where its parts did not
        before, at = len(placed), 0
        while at < len(placed):
            if isinstance(placed[at], Group):
                _merge_into(placed, at)
            at += 1
    return placed


def _merge_into(placed: list[Any], at: int) -> None:
    """Join groups behind the one at a place to it, or it to one behind it, where the order allows it."""
    k = at + 1
    made, read = set(written_by(placed[at])), set(read_by(placed[at]))
    between_made: set[Buffer] = set()
    between_read: set[Buffer] = set()
    while k < len(placed):
        other = placed[k]
        if not isinstance(other, Group):
            return
        writes, reads = written_by(other), read_by(other)
        up = not (reads | writes) & between_made and not writes & between_read
        if up and (both := placed[at].joined(other)) is not None:
            placed[at] = both
            del placed[k]
            made, read = set(written_by(both)), set(read_by(both))
            continue
        down = not made & (between_read | between_made) and not read & between_made
        if down and (both := placed[at].joined(other)) is not None:
            placed[k] = both
            del placed[at]
            _merge_into(placed, k - 1)
            return
        between_made |= writes
        between_read |= reads
        k += 1


def written_by(step: Any) -> set[Buffer]:
    """Return the buffers that a step writes, inside it too."""
    if isinstance(step, Item):
        return {step.out.buffer}
    if isinstance(step, Group):
        return set(step.written)
    if isinstance(step, Call):
        return set(step.writes)
    return set().union(*(written_by(s) for part in _parts_of(step) for s in part))


def read_by(step: Any) -> set[Buffer]:
    """Return the buffers that a step reads, inside it too."""
    if isinstance(step, Item):
        return {x.buffer for x in step.reads()}
    if isinstance(step, Group):
        return step.reads()
    if isinstance(step, Call):
        return set(step.reads)
    return {step.condition.buffer}.union(*(read_by(s) for part in _parts_of(step) for s in part))


def _parts_of(step: Any) -> tuple[list[Any], ...]:
    return (step.then, step.other) if isinstance(step, Branch) else (step.test, step.body)


def needed(steps: Sequence[Any], wanted: set[Buffer]) -> list[Any]:
    """Return the steps without those whose results nobody reads; `wanted` are read at the end."""
    kept = []
    for step in reversed(steps):
        if isinstance(step, Item) and step.out.buffer not in wanted:
            continue
        if isinstance(step, Branch):
            inside = wanted | written_by(step)
            step = step._replace(then=needed(step.then, set(inside)), other=needed(step.other, set(inside)))
        elif isinstance(step, Loop):
            inside = wanted | written_by(step)
            step = step._replace(test=needed(step.test, set(inside)), body=needed(step.body, set(inside)))
        wanted |= read_by(step)
        kept.append(step)
    return kept[::-1]


def materialised(steps: Sequence[Any]) -> set[Buffer]:
    """Return the buffers that have to lie in memory: read by another step than the group that makes them."""
    found: set[Buffer] = set()
    for step in flat(steps):
        found |= read_by(step) if isinstance(step, Group | Call) else {step.condition.buffer}
        if isinstance(step, Call):
            found |= set(step.writes)
        if isinstance(step, Group):
            found |= {i.out.buffer for i in step.items if i.alone}
    return found


def flat(steps: Sequence[Any]) -> Iterator[Any]:
    """Yield steps and those inside them, in order."""
    for step in steps:
        yield step
        if isinstance(step, Branch | Loop):
            for part in _parts_of(step):
                yield from flat(part)


class Arena:
    """Room for the buffers of a plan: those that are never there at one time share a slot, as large as the largest."""

    def __init__(self, steps: Sequence[Any], scratch: Mapping[int, Sequence[Buffer]], held: set[Buffer],
                 names: Sequence[str]) -> None:  # fmt: skip
        self._sample = dict.fromkeys(names, 16)
        self.slots: list[list[Count]] = []  # bytes that each slot has to have
        spans = self.spans = self._spans(steps, scratch, held)  # from which step to which each buffer is needed
        free: dict[int, int] = {}  # slot -> the step after which it is free
        sizes: list[int] = []
        for buffer, (first, last) in sorted(spans.items(), key=lambda s: (s[1][0], -s[1][1], s[0].name)):
            count = buffer.size * BYTES[buffer.dtype]
            size = valued(count, self._sample)
            ready = [k for k, end in free.items() if end < first]
            slot = min(ready, key=lambda k: (max(0, size - sizes[k]), abs(size - sizes[k])), default=None)
            if slot is None:
                slot = len(self.slots)
                self.slots.append([])
                sizes.append(0)
            buffer.slot = slot
            free[slot] = last
            sizes[slot] = max(sizes[slot], size)
            self._require(slot, count)

    def _require(self, slot: int, count: Count) -> None:
        """Let a slot have `count` bytes: what is never larger than another of its numbers is left out."""
        have = self.slots[slot]
        if any(_never_larger(count, c) for c in have):
            return
        self.slots[slot] = [c for c in have if not _never_larger(c, count)] + [count]

    def _spans(self, steps: Sequence[Any], scratch: Mapping[int, Sequence[Buffer]],
               held: set[Buffer]) -> dict[Buffer, tuple[int, int]]:  # fmt: skip
        """Return from which step to which each buffer is needed."""
        spans: dict[Buffer, tuple[int, int]] = {}
        loops: list[tuple[int, int]] = []
        clock = 0

        def touch(b: Buffer, at: int) -> None:
            if b.place == "arena" and b in held:
                first, _ = spans.get(b, (at, at))
                spans[b] = (first, at)

        def walk(part: Sequence[Any]) -> None:
            nonlocal clock
            for step in part:
                clock += 1
                if isinstance(step, Branch | Loop):
                    start = clock
                    if isinstance(step, Branch):
                        touch(step.condition.buffer, clock)
                    for inner in _parts_of(step):
                        walk(inner)
                        if isinstance(step, Loop) and inner is step.test:
                            clock += 1
                            touch(step.condition.buffer, clock)
                    clock += 1
                    if isinstance(step, Loop):
                        loops.append((start, clock))
                        for b in step.carried:
                            touch(b, clock)
                    continue
                for b in sorted(read_by(step) | written_by(step), key=lambda b: b.name):
                    touch(b, clock)
                for b in scratch.get(id(step), ()):
                    spans[b] = (clock, clock)

        walk(steps)
        for start, end in loops:  # inner ones come first
            for b, (first, last) in spans.items():
                if first < start <= last <= end:
                    spans[b] = (first, end)
        return spans


def _never_larger(a: Count, b: Count) -> bool:
    rest = b - a
    if not isinstance(rest, Poly):
        return bool(rest >= 0)
    return all(k >= 0 for k in rest.terms.values()) and not any(not isinstance(x, str) for m in rest.terms for x in m)
