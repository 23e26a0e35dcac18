"""Ranks beside one another: whose operations belong together, who came last, what each did when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from widgets.ranked import Lane, Sent

from .pool import PAIRS, RankOf

SPLIT_S = 1e-9


class Site(NamedTuple):
    """A line of the user's."""

    file: str = ""
    line: int = 0
    text: str = ""


@dataclass
class Part:
    """One rank's part of an operation; times in seconds of the cell, on one clock."""

    rank: int
    number: int
    op: str
    size_bytes: int
    bucket: bool
    site: Site
    begun: float
    waits: float | None
    done: float | None
    failed: bool


@dataclass
class Together:
    """One operation of a group: the parts of its ranks."""

    group: tuple[int, ...]
    sequence: int
    parts: dict[int, Part] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether all of its ranks have come."""
        return all(rank in self.parts for rank in self.group)

    @property
    def last(self) -> float:
        """When the last rank came."""
        return max(part.begun for part in self.parts.values())

    @property
    def alike(self) -> bool:
        """Whether all ranks called the same."""
        return len({part.op for part in self.parts.values()}) == 1

    def waited(self, part: Part) -> float:
        """Return for how long a rank waited in it for others."""
        if part.waits is None or part.done is None:
            return 0.0
        if not (self.whole and self.alike):
            return part.done - part.waits
        return max(0.0, min(part.done, self.last) - part.waits)

    def late(self) -> tuple[int, float]:
        """Return who came last, and how much later than the one before."""
        order = sorted(self.parts.values(), key=lambda part: part.begun)
        return order[-1].rank, order[-1].begun - order[-2].begun if len(order) > 1 else 0.0


class Comparison:
    """All that the ranks told of one cell."""

    def __init__(self, ranks: Sequence[RankOf], name: str, source: str) -> None:
        self.ranks, self.name, self.source = list(ranks), name, ["#", *source.splitlines()[1:]]
        known = [(r, r.span) for r in ranks if r.span is not None]
        self.begin = min((span[0] + r.ahead for r, span in known), default=0.0)
        self.seconds = max((span[1] + r.ahead for r, span in known), default=0.0) - self.begin
        found: dict[tuple[tuple[int, ...], int], Together] = {}
        self.alone: list[Part] = []
        """Messages between two ranks."""
        for r, _ in known:
            for row in r.rows.values():
                part = self._part(r, row)
                if row[3] in PAIRS:
                    self.alone.append(part)
                    continue
                key = tuple(row[1]), row[2]
                found.setdefault(key, Together(*key)).parts[r.number] = part
        self.together = sorted(found.values(), key=lambda t: t.last)

    def _part(self, r: RankOf, row: list[Any]) -> Part:
        number, _, _, op, size, bucket, site, begun, waits, done, failed = row

        def aligned(t: float) -> float:
            return t + r.ahead - self.begin

        return Part(r.number, number, op, size, bucket, self.site(r, site), aligned(begun),
                    None if waits is None else aligned(waits), None if done is None else aligned(done),
                    failed)  # fmt: skip

    # -- places --------------------------------------------------------------------------------------------------------

    def site(self, r: RankOf, number: int) -> Site:
        """Return a line by the number that a rank has for it."""
        if not 0 <= number < len(r.sites):
            return Site()
        found = r.sites[number]
        return Site(found["file"], found["line"], found["text"])

    def words(self, site: Site) -> str:
        """Return a place in words: "line 3" of this cell, "In [2] line 3", "train.py line 3"."""
        if not site.file:
            return "an unknown place"
        return f"line {site.line}" if site.file == self.name else f"{site.file.rpartition('/')[2]} line {site.line}"

    def line(self, site: Site) -> int | None:
        """Return the number of a line of this cell, None for another one."""
        return site.line if site.file == self.name else None

    def text(self, line: int | None) -> str:
        """Return a line of the cell."""
        return self.source[line - 1].strip() if line and 0 < line <= len(self.source) else ""

    # -- what is drawn -------------------------------------------------------------------------------------------------

    def lanes(self) -> list[Lane]:
        """Return for each rank what it did when."""
        blocked: dict[int, list[tuple[float, float, str]]] = defaultdict(list)
        for t in self.together:
            for part in t.parts.values():
                blocked[part.rank] += self._spans(t, part)
        for part in self.alone:
            if part.waits is not None:
                blocked[part.rank].append((part.waits, part.done or self.seconds, "waiting"))
        found = []
        for r in self.ranks:
            lane = Lane(r.number, note=self._note(r))
            if r.span is not None:
                at, end = (t + r.ahead - self.begin for t in r.span)
                for a, b, kind in sorted(blocked[r.number]):
                    a, b = max(a, at), min(b, end)
                    if a - at > SPLIT_S:
                        lane.spans.append((at, a, "computing"))
                    if b - a > SPLIT_S:
                        lane.spans.append((a, b, kind))
                    at = max(at, b)
                if end - at > SPLIT_S:
                    lane.spans.append((at, end, "computing"))
                lane.steps = [s["begun"] + r.ahead - self.begin for s in r.log.get("steps", ())]
            found.append(lane)
        return found

    def _spans(self, t: Together, part: Part) -> Iterator[tuple[float, float, str]]:
        begin = part.begun if part.waits is None else part.waits
        end = self.seconds if part.done is None else part.done
        if part.waits is None:
            if part.done is not None and part.done - part.begun < 1e-3:  # at once; else it was on its way meanwhile
                yield begin, end, "communicating"
            return
        turn = min(end, max(begin, t.last)) if t.whole and t.alike else end
        yield begin, turn, "waiting"
        yield turn, end, "communicating"

    @staticmethod
    def _note(r: RankOf) -> str:
        return {"failed": "error", "stopped": "stopped", "died": "died", "ended": "ended"}.get(r.state, "")

    def sent(self) -> list[Sent]:
        """Return what each line sent, the most waiting first."""
        groups: dict[Any, list[Together]] = defaultdict(list)
        for t in self.together:
            several = {(p.op, p.site): p for p in t.parts.values()}.values()
            for part in [t.parts[min(t.parts)]] if t.alike else several:
                groups[(part.op, part.site, part.bucket, part.size_bytes if part.bucket else 0)].append(t)
        found = []
        for (op, site, bucket, _), many in groups.items():
            ranks = {rank for t in many for rank in t.parts}
            waiting = sum(t.waited(p) for t in many for p in t.parts.values()) / len(ranks)
            spent = sum(b - a for t in many for p in t.parts.values() for a, b, kind in self._spans(t, p)
                        if kind == "communicating") / len(ranks)  # fmt: skip
            count = max(sum(rank in t.parts for t in many) for rank in ranks)
            size = sum(max(p.size_bytes for p in t.parts.values() if p.op == op) for t in many)
            name = f"{op} (bucket)" if bucket else op
            found.append(Sent(self.words(site), site.text, name, count, size, spent, waiting, _last(many)))
        return sorted(found, key=lambda s: -(s.waiting_s + s.communicating_s))

    def worst(self) -> tuple[float, float] | None:
        """Return the stretch around the longest waiting, where the cell has many operations."""
        whole = [t for t in self.together if t.whole]
        if len(whole) < 12:
            return None
        worst = max(whole[2:], key=lambda t: sum(t.waited(p) for p in t.parts.values()))
        k = whole.index(worst)
        begin = whole[max(0, k - 3)].last
        end = max(p.done or p.begun for p in whole[min(len(whole) - 1, k + 2)].parts.values())
        return (begin, end) if 0 < end - begin < 0.5 * self.seconds else None

    def lines_of(self, r: RankOf) -> dict[Site, float]:
        """Return how long a rank was on each line with work of its own."""
        return {self.site(r, k): own for k, own, _ in r.log.get("lines", ())}


def _last(many: list[Together]) -> str:
    """Return who was mostly last, and by how much; "" where it was now this and now that rank."""
    late: dict[int, list[float]] = defaultdict(list)
    for t in many:
        if t.whole and len(t.parts) > 1:
            rank, by = t.late()
            late[rank].append(by)
    if not late:
        return ""
    rank, all_ = max(late.items(), key=lambda item: sum(item[1]))
    n = sum(map(len, late.values()))
    by = median(all_)
    if len(all_) < 0.6 * n or by < 1e-4:
        return ""
    said = f"{1e3 * by:.3g} ms" if by < 1 else f"{by:.3g} s"
    return f"rank {rank}, by {said}" + (f" ({len(all_)} of {n} times)" if n > 1 else "")
