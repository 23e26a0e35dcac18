"""An error that only the last, smaller batch of a data set brings."""

from __future__ import annotations

import re

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.sources import called, sources


@rule(108)
def smaller(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """All batches but the last go well, and the error speaks of its size."""
    error = trace.error
    if error is None or error.line is None or trace.stopped:
        return []
    numbers = {int(n) for n in re.findall(r"\d+", error.detail or error.message)}
    for fetched in trace.fetched.values():
        size, rest = fetched.rest
        if not size or rest not in numbers or (size not in numbers and rest != 1) or fetched.batches < 2:
            continue
        passed = f"{fetched.batches - 1:,} batch{'es' if fetched.batches > 2 else ''} of {size:,}"
        line: int | None = error.line
        col: int | None = None
        loaders = [
            (source, node)
            for source in sources(trace)
            for node in source.nodes
            if called(node) == "DataLoader" and not any(k.arg == "drop_last" for k in getattr(node, "keywords", ()))
        ]
        begins = f"line {error.line} fails on the last batch, which has {rest:,} sample{'s' if rest > 1 else ''}"
        if len(loaders) == 1:
            line, col, place = loaders[0][0].place(loaders[0][1])
            begins = f"{place} gives a last batch of {rest:,}, and line {error.line} fails"
        first = (error.detail or error.message).strip().partition("\n")[0].rstrip(".")
        message = capital(f"{begins} after {passed} went well: {first}.")
        remedy = "Make what depends on the number of samples of x.size(0), or leave that batch out: drop_last=True."
        return [Found("error", "error", line, col, message, remedy)]
    return []
