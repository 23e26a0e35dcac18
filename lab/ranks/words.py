"""What findings of ranks say: names of ranks, parameters and places."""

from __future__ import annotations

import ast
import signal
from collections.abc import Sequence

from core.base import syntax

from .compare import Comparison, Part, Site
from .pool import RankOf

NAMES = 3  # of parameters in a sentence


def ranks_text(ranks: Sequence[int]) -> str:
    """Name ranks.

    >>> ranks_text([2]), ranks_text([0, 1, 2, 3]), ranks_text([0, 2]), ranks_text([0, 1, 3])
    ('rank 2', 'ranks 0 to 3', 'ranks 0 and 2', 'ranks 0, 1 and 3')
    """
    ranks = sorted(ranks)
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def verb(ranks: Sequence[int], one: str, many: str) -> str:
    """Return the verb for one rank or several."""
    return one if len(ranks) == 1 else many


def capital(said: str) -> str:
    """Begin a sentence."""
    return said[:1].upper() + said[1:]


def names_text(names: Sequence[str]) -> str:
    """Name parameters.

    >>> names_text(["0.weight"]), names_text(list("abcde"))
    ('`0.weight`', '`a`, `b`, `c` and 2 more')
    """
    shown = [f"`{n}`" for n in names[:NAMES]]
    if len(names) > NAMES:
        return f"{', '.join(shown)} and {len(names) - NAMES} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def at(c: Comparison, part: Part) -> str:
    """Say which operation on which line."""
    whose = " (of `DistributedDataParallel`)" if part.bucket else ""
    return f"`{part.op}` on {c.words(part.site)}{whose}"


def quoted(text: str) -> str:
    """Return a line's text behind its number: " (`x = 1`)"."""
    return f" (`{text.replace('`', chr(39))}`)" if text else ""


def place(c: Comparison, r: RankOf) -> tuple[int | None, str]:
    """Return the line on which a rank was last, and its words with the line's text."""
    if r.error is not None and r.error["line"]:
        site = Site(c.name, r.error["line"])
    elif "line" in r.place:
        site = Site(r.place["file"], r.place["line"], r.place.get("text", ""))
    else:
        return None, "a line that it has not told"
    return c.line(site), c.words(site) + quoted(c.text(c.line(site)) or site.text)


def under(c: Comparison, line: int | None) -> str:
    """Return the test of ranks under which a line of the cell stands: "`if rank == 0:` on line 3", or nothing."""
    try:
        tree = syntax.parse("\n".join(c.source))
    except SyntaxError:
        return ""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.If) and line is not None
             and node.lineno <= line <= (node.end_lineno or 0) and "rank" in ast.unparse(node.test)]  # fmt: skip
    return f"`if {ast.unparse(found[-1].test)}:` on line {found[-1].lineno}" if found else ""


def signal_name(number: int) -> str:
    """Return a signal's name.

    >>> signal_name(9), signal_name(99)
    ('SIGKILL', 'signal 99')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
