"""An error that only the last, smaller batch of a data set brings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.scope import flow_around
from ..reading.sources import Function, called, sources
from .torch_errors import failed_at

SHAPED = ("zeros", "ones", "randn", "rand", "empty", "full", "view", "reshape", "expand", "repeat", "arange")
"""Functions and methods that are given a shape."""


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
        row = next((r for r in reversed(trace.rows) if r.error), None)
        at = failed_at(trace, error, row)
        begins = f"{at} fails on the last batch, which has {rest:,} sample{'s' if rest > 1 else ''}"
        if len(loaders) == 1:
            line, col, place = loaders[0][0].place(loaders[0][1])
            begins = f"{place} gives a last batch of {rest:,}, and {at} fails"
        first = (error.detail or error.message).strip().partition("\n")[0].rstrip(".")
        message = f"{begins} after {passed} went well: {first}."
        remedy = "Make what depends on the number of samples of x.size(0), or leave that batch out: drop_last=True."
        fixed = list(dict.fromkeys(_fixed(trace, size)))
        if len(fixed) == 1:
            message += f" {capital(fixed[0].place)} fixes the number of samples: `{fixed[0].code}`."
            remedy = (
                f"Give it the number that the batch has, x.size(0), instead of {fixed[0].number}, or leave that batch "
                "out: drop_last=True."
            )
        message = capital(message)
        return [Found("error", "error", line, col, message, remedy)]
    return []


class _Fixed(NamedTuple):
    """A shape that has the number of samples in it as a number that does not change."""

    place: str
    code: str
    number: str


def _fixed(trace: Trace, size: int) -> Iterator[_Fixed]:
    """Yield the shapes inside of functions of the user's that hold the size of the other batches."""
    for source in sources(trace):
        for name in SHAPED:
            for call in source.calls.get(name, ()):
                flow = flow_around(source, call)
                if not isinstance(flow.scope, Function):
                    continue  # data that is made once
                args = [a for arg in call.args for a in (arg.elts if isinstance(arg, ast.Tuple) else [arg])]
                for arg in args:
                    if flow.setting(arg) == size:
                        yield _Fixed(source.place(call).words, ast.unparse(call), ast.unparse(arg))
