"""The lines of the user's, in any file, on which a cell's time passes: ops and Python alike."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...recorder.cell_trace import Chain, Row, Trace
from .time_shares import Loop, Shares, loops_around, own

MOST = 0.5  # share of a loop's time that a line has in what the loop calls, where that is the line to change


@dataclass
class Busy:
    """A line, and the time that passes there and in what it calls, but for other lines of the user's."""

    chain: Chain
    """The user's frames, innermost first, where it was met most."""
    ns: float = 0.0
    python: float = 0.0
    """Of that, outside of ops."""
    loads: float = 0.0
    """Of that, inside of a data loader."""
    rows: list[Row] = field(default_factory=list)
    """The ops that were called there."""
    chains: dict[Chain, float] = field(default_factory=dict)
    met: float = 0.0
    """The time in which it was met there: all but the passes backward."""


def busy_lines(shares: Shares) -> list[Busy]:
    """Return the lines on which the cell was met, the longest first; the passes backward count where their ops are."""
    if shares.lines is None:
        shares.lines = _busy_lines(shares)
    return list(shares.lines)


def _busy_lines(shares: Shares) -> list[Busy]:
    trace = shares.trace
    scale = shares.total / shares.looked
    found: dict[tuple[str, int], Busy] = {}
    for sample in trace.samples.values():
        chain = own(trace, sample.places)
        if not chain or sample.kind == "import":
            continue
        place = trace.place(*chain[0])
        busy = found.setdefault((place.file, place.line), Busy(chain))
        busy.ns += scale * sample.ns
        busy.met += scale * sample.ns
        busy.chains[chain] = busy.chains.get(chain, 0.0) + sample.ns
        busy.python += scale * sample.ns if sample.kind == "python" else 0.0
        busy.loads += scale * sample.ns if sample.kind == "loader" else 0.0
    for row in shares.rows:
        chain = own(trace, row.chain)
        if not chain or row.phase != "forward":
            continue
        place = trace.place(*chain[0])
        busy = found.setdefault((place.file, place.line), Busy(chain))
        busy.rows.append(row)
        busy.ns += row.backward_ns
    for busy in found.values():
        if busy.chains:
            busy.chain = max(busy.chains, key=lambda chain: busy.chains[chain])
    return sorted(found.values(), key=lambda busy: -busy.ns)


def in_loop_most(trace: Trace, lines: list[Busy], loop: Loop) -> Busy | None:
    """Return where most of a loop's time passes: a line of what it calls, where one has half of it and is no layer's,
    which has to run for whoever calls it, else one of its own; None where it was met nowhere."""
    inside: list[tuple[Busy, Chain]] = []
    for busy in lines:
        at = next((k for k, frame in enumerate(busy.chain) if loop in loops_around(trace, frame)), None)
        if at is not None:
            inside.append((busy, busy.chain[at:]))
    if not inside:
        return None
    whole = sum(busy.ns for busy, _ in inside)
    longest, own_chain = max(inside, key=lambda pair: pair[0].ns)
    called = longest.chain[: len(longest.chain) - len(own_chain)]
    if longest.ns >= MOST * whole and not any(code.co_name == "forward" for code, _ in called):
        return longest
    own: dict[tuple[str, int], Busy] = {}
    for busy, chain in inside:
        place = trace.place(*chain[0])
        line = own.setdefault((place.file, place.line), Busy(chain))
        line.ns, line.python, line.rows = line.ns + busy.ns, line.python + busy.python, [*line.rows, *busy.rows]
    return max(own.values(), key=lambda busy: busy.ns)
