"""Why a cell on ranks did not come to its end: a rank that died or hangs, collectives that do not meet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from widgets.figures import size_text
from widgets.record import Finding

from .compare import Comparison, Part
from .words import at, capital, place, ranks_text, signal_name, under, verb

ALIKE = ("all_reduce", "broadcast", "reduce", "reduce_scatter", "barrier", "all_reduce_coalesced")
"""Operations whose parts have as many bytes on every rank."""


def dead(c: Comparison, cause: str) -> Iterator[Finding]:
    """A rank whose process has ended."""
    for r in c.ranks:
        if r.state != "died":
            continue
        line, where = place(c, r)
        if r.code is not None and r.code < 0:
            how = f"it was killed by {signal_name(-r.code)}"
            if r.code == -9:
                how += ", which the system also sends when memory runs out"
            elif -r.code in (4, 6, 7, 8, 11):
                how += ", a crash in native code"
        else:
            how = f"its process ended with code {r.code}" if r.code is not None else "its process has ended"
        yield Finding("dead-rank", "error", line, message=f"Rank {r.number} died on {where}: {how}.",
                      remedy="All ranks were ended, with their variables; the next `%%ranks` cell starts new "
                             "ones.")  # fmt: skip


def hung(c: Comparison, cause: str) -> Iterator[Finding]:
    """A rank that has not come to a collective in which the others waited until the timeout."""
    late = [r for r in c.ranks if r.error is not None and "Timed out waiting" in r.error["said"]]
    if not late or cause != "failed":
        return
    part = next((p for t in c.together for p in t.parts.values() if p.rank == late[0].number and p.failed), None)
    for r in c.ranks:
        if r.state not in ("stopped", "ended") or r in late:
            continue
        line, where = place(c, r)
        gone = " It did not answer Ctrl-C, so that all ranks were ended." if r.state == "ended" else ""
        yield Finding("hung-rank", "error", line, message=f"Rank {r.number} hangs on {where}: "
                      f"{ranks_text([x.number for x in late])} waited for it in "
                      f"{at(c, part) if part else 'a collective'} until the timeout.{gone}",
                      remedy="See what it waits for there, or give a longer `--timeout`.")  # fmt: skip


def left(c: Comparison, cause: str) -> Iterator[Finding]:
    """A collective that not all ranks have reached."""
    for t in c.together:
        missing = [r.number for r in c.ranks if r.number in t.group and r.number not in t.parts and r.state == "done"]
        if t.whole or not missing:
            continue
        here, part = list(t.parts), t.parts[min(t.parts)]
        line = c.line(part.site)
        before = [p for u in c.together if u.group == t.group for p in u.parts.values() if p.rank == missing[0]]
        ended = f"; its last collective was {at(c, before[-1])}" if before else "; no collective was called there"
        test = under(c, line)
        stands = f"It stands under {test}: a collective is called by all ranks of its group. " if test else ""
        yield Finding("collective-left", "error", line, message=f"{capital(ranks_text(here))} "
                      f"{verb(here, 'waits', 'wait')} in {at(c, part)} for {ranks_text(missing)}, which "
                      f"{verb(missing, 'has', 'have')} ended the cell without it{ended if len(missing) == 1 else ''}.",
                      remedy=f"{stands}Give all ranks the same number of steps, and call it on each.")  # fmt: skip
        return


def different(c: Comparison, cause: str) -> Iterator[Finding]:
    """Ranks that met in different collectives."""
    for t in c.together:
        kinds: dict[tuple[str, int], list[Part]] = defaultdict(list)
        for part in t.parts.values():
            kinds[part.op, part.size_bytes if part.op in ALIKE else -1].append(part)
        if len(kinds) < 2:
            continue
        several = sorted(kinds.values(), key=len)
        few, most = several[0], several[-1]
        sizes = few[0].op == most[0].op
        line, test = c.line(few[0].site), under(c, c.line(few[0].site))
        yield Finding("collective-mismatch", "error", line,
                      message=f"{capital(_calls(c, few, sizes))} where {_calls(c, most, sizes)}: it is collective "
                              f"number {t.sequence + 1} of the cell on each.",
                      remedy="All ranks call the same collectives, in the same order, with the same shapes and "
                             f"dtypes.{f' It stands under {test}.' if test else ''}")  # fmt: skip
        return


def _calls(c: Comparison, parts: list[Part], sizes: bool) -> str:
    ranks = [part.rank for part in parts]
    size = f" of {size_text(parts[0].size_bytes)}" if sizes else ""
    return f"{ranks_text(ranks)} {verb(ranks, 'calls', 'call')} {at(c, parts[0])}{size}"
