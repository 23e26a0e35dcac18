"""The exception that ended the cell, when it is about tensors: what it means, with the lines that belong to it."""

from __future__ import annotations

import re

from widgets.record import ErrorRow

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from . import common_errors, python_errors, torch_errors
from .freed_graphs import AGAIN, CHANGED, again, changed
from .module_calls import called
from .rebound_parameters import rebinds
from .size_mismatch import mismatched

_PART = re.compile(r"\b(op|came|needed|remedy): ")


@rule(110)
def failing(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """One finding for an error of an op or of backward()."""
    error = trace.error
    if error is None or error.line is None or trace.failed or trace.stopped:
        return []  # a backward() that has nothing to do is explained by what cut the graph
    if CHANGED in error.detail:
        return [changed(trace, error, parts(error.detail).get("remedy"))]
    if AGAIN in error.detail:
        return [again(trace, error)]
    if explained and rebinds(trace):
        return []  # told with what bound the name anew
    if trace.remade and "NoneType" in error.detail:
        return [_remade(trace, error)]
    if found := called(trace, error):
        return found
    if found := mismatched(trace, error):
        return found
    if "have the same dtype" in error.detail and (found := torch_errors.said(trace, error)):
        return found
    own = _told(error)
    if not own or not own[0].remedy or "expected input[" in error.detail:
        own = common_errors.said(trace, error) or own
    return python_errors.explained(trace, error) or own or torch_errors.said(trace, error) or python_errors.other(error)


def parts(text: str) -> dict[str, str]:
    """What an error of ours says after its first line: op, came, needed and remedy.

    >>> parts("shapes differ\\n  op: add; came: (2,) and (3,); remedy: unsqueeze one")
    {'op': 'add', 'came': '(2,) and (3,)', 'remedy': 'unsqueeze one'}
    """
    pieces = _PART.split(" ".join(text.partition("\n")[2].split()))[1:]
    return {key: value.strip(" ;") for key, value in zip(pieces[::2], pieces[1::2], strict=True)}


def _remade(trace: Trace, error: ErrorRow) -> Found:
    assert trace.remade is not None
    name, line, code = trace.remade
    at = f"line {line} (`{code}`) has" if line and line != error.line else "this line has"
    message = (
        f"Line {error.line} reads {name}.grad, which is None: {at} bound {name} to the result of an op, and "
        "backward() fills the .grad of leaves alone."
    )
    remedy = f"Change it in place: with torch.no_grad(): {name} -= lr * {name}.grad."
    return Found("error", "error", error.line, None, message, remedy)


def _told(error: ErrorRow) -> list[Found]:
    """An error of ours says what came, what was needed and the remedy."""
    said = parts(error.detail)
    if not ({"came", "needed", "remedy"} & said.keys()):
        return []
    first = error.detail.partition("\n")[0].rstrip(".")
    op = f" in `{said['op']}`" if re.fullmatch(r"[\w.]+", said.get("op", "")) else ""
    came = "".join(f"; {key}: {said[key]}" for key in ("came", "needed") if key in said)
    message = f"Line {error.line} fails{op}: {first}{came}."
    return [Found("error", "error", error.line, None, message, capital(said.get("remedy", "")))]
