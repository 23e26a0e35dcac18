"""One cell on ranks from start to card."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from widgets.ranked import Ranked

from .compare import Comparison
from .findings import findings
from .pool import Pool, RankOf
from .words import ranks_text

__all__ = ["errors", "view"]

_NUMBER = re.compile(r"\brank \d+|\d+(\.\d+)?(?= ?ms)|0x[0-9a-f]+")


def errors(pool: Pool, names: Mapping[str, Any] | None = None) -> list[tuple[list[int], dict[str, Any]]]:
    """Return the errors of a cell with the ranks that had them; equal ones once.

    names : the notebook's own variables. An error of a name that stands there says so.
    """
    found: list[tuple[list[int], dict[str, Any]]] = []
    for rank in pool.ranks:
        if rank.error is None or rank.state != "failed":
            continue
        key = _key(rank)
        same = next((ranks for ranks, error in found if _key_of(error) == key), None)
        if same is not None:
            same.append(rank.number)
            continue
        error = dict(rank.error)
        if error["name"] and error["name"] in (names or {}):
            error["said"] += (f"\n`{error['name']}` is a variable of the notebook; ranks are processes of their own. "
                              "Remedy: make it in a `%%ranks` cell.")  # fmt: skip
        found.append(([rank.number], error))
    return found


def _key(rank: RankOf) -> Any:
    assert rank.error is not None
    return _key_of(rank.error)


def _key_of(error: dict[str, Any]) -> Any:
    return error["type"], error["line"], _NUMBER.sub("", error["said"].partition("\n")[0].partition(";")[0])


def view(pool: Pool, title: str, name: str, source: str) -> Ranked:
    """Return the card of the cell that has run last; `source` is its text, the magic's line included."""
    c = Comparison(pool.ranks, name, source)
    states = {rank.state for rank in pool.ranks}
    state = "done" if states == {"done"} else "stopped" if pool.cause == "you" else "failed"
    found = Ranked(title, pool.size, c.seconds, c.lanes(), c.sent(), findings(c, pool.cause), state=state)
    found.zoom = c.worst()
    found.zoom_said = "The longest waiting, larger"
    found.foot = _foot(pool, c)
    return found


def _foot(pool: Pool, c: Comparison) -> list[str]:
    found = []
    cores = len(os.sched_getaffinity(0))
    if pool.size > cores:
        found.append(f"{pool.size} ranks share {cores} processor{'s' * (cores > 1)}: they also wait for their turn.")
    ahead = [1e6 * abs(rank.ahead) for rank in pool.ranks]
    if max(ahead) > 1:
        found.append(f"Clocks were aligned by messages to and fro; they were at most {max(ahead):.0f} µs apart.")
    left_out = sum(rank.log.get("left_out", 0) for rank in pool.ranks)
    if left_out:
        found.append(f"{left_out:,} operations more were not kept.")
    broken = [rank for rank in pool.ranks if rank.log.get("error")]
    if broken:
        said = broken[0].log["error"]
        found.append(f"Of {ranks_text([r.number for r in broken])} not all was heard ({said}).")
    if pool.ended:
        found.append(f"The ranks were ended ({pool.ended}): the next %%ranks starts new ones.")
    return found
