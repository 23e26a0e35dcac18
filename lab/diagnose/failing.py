"""The exception that ended the cell, when it is about tensors: what it means, with the lines that belong to it."""

from __future__ import annotations

import os
import re

from widgets.record import ErrorRow

from ..gathered import Leaf, Row, Trace
from . import foreign
from .found import Found, capital, where

CHANGED = "modified by an inplace operation"
OUT_OF_PLACE = "Write the change out of place (y = y + ... in place of y += ...), or clone() before it."
AGAIN = "backward through the graph a second time"
_CHANGED_AT = re.compile(r"(?P<op>\w+) changed it at (?P<file>.+?) line (?P<line>\d+)")
_SAVED = re.compile(r"op: (?P<what>.+?) at (?P<file>.+?) line (?P<line>\d+)")
_RAN_AT = re.compile(r"it ran at (?P<file>.+?) line (?P<line>\d+)")
_PART = re.compile(r"\b(op|came|needed|remedy): ")


def failing(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """One finding for an error of an op or of backward()."""
    error = trace.error
    if error is None or error.line is None or trace.failed:
        return []  # a backward() that has nothing to do is explained by what cut the graph
    if CHANGED in error.detail:
        return [_changed(trace, error)]
    if AGAIN in error.detail:
        return [_again(trace, error)]
    if trace.remade and "NoneType" in error.detail:
        return [_remade(trace, error)]
    return _told(error) or foreign.said(trace, error)


def parts(text: str) -> dict[str, str]:
    """What an error of ours says after its first line: op, came, needed and remedy.

    >>> parts("shapes differ\\n  op: add; came: (2,) and (3,); remedy: unsqueeze one")
    {'op': 'add', 'came': '(2,) and (3,)', 'remedy': 'unsqueeze one'}
    """
    pieces = _PART.split(" ".join(text.partition("\n")[2].split()))[1:]
    return {key: value.strip(" ;") for key, value in zip(pieces[::2], pieces[1::2], strict=True)}


def _at(trace: Trace, found: re.Match[str] | None) -> tuple[int | None, str]:
    """A place that an error names, as a line of this cell and in words."""
    if found is None:
        return None, ""
    line = int(found["line"])
    for file, offset in trace.files.items():
        if found["file"] in (file, os.path.basename(file)) or found["file"].startswith("In ["):
            return line + offset, f"line {line + offset}"
    return None, f"{found['file']} line {line}"


def _changed(trace: Trace, error: ErrorRow) -> Found:
    text = " ".join(error.detail.split())
    changed = _CHANGED_AT.search(text)
    line, there = _at(trace, changed)
    if changed is None and (found := _written(trace, text)):
        row, kept_by = found
        line, _, there = where(trace, row.chain)
        by = f", which `{kept_by.op}` ({where(trace, kept_by.chain)[2]}) needs for its gradient"
        message = f"{there} changes a tensor in place by `{row.op}`{by}, so line {error.line} fails."
        return Found("error", "error", line or error.line, None, capital(message), OUT_OF_PLACE, [kept_by, row])
    saved = _SAVED.search(text)
    kept = (
        f", which `{saved['what'].partition(' ')[0]}` ({_at(trace, saved)[1]}) needs for its gradient" if saved else ""
    )
    op = f"`{changed['op']}`" if changed else "an in-place op"
    message = f"{there or f'line {error.line}'} changes a tensor in place by {op}{kept}, so line {error.line} fails."
    remedy = parts(error.detail).get("remedy", OUT_OF_PLACE)
    return Found("error", "error", line or error.line, None, capital(message), capital(remedy))


def _written(trace: Trace, text: str) -> tuple[Row, Row] | None:
    """The in-place op and the op whose value it changed, found among the rows where the error does not name them."""
    named = re.search(r"output \d+ of (\w+?)(?:Backward\d*)?,", text)
    op = named[1].lower() if named else ""
    for row in reversed(trace.rows):
        if not (row.op.endswith("_") and not row.op.startswith("~")):
            continue
        stack = list(row.refs[:1])
        while stack:
            ref = stack.pop()
            if not isinstance(ref, Row):
                continue
            if ref.op.replace("_", "") == op or not op:
                return row, ref
            if ref.view:
                stack.extend(ref.refs)
    return None


def _again(trace: Trace, error: ErrorRow) -> Found:
    _, first = _at(trace, _RAN_AT.search(" ".join(error.detail.split())))
    before = (
        f": backward() on {first} has freed it"
        if first and first != f"line {error.line}"
        else ", which the first has freed"
    )
    message = f"Line {error.line} runs backward a second time through the same graph{before}."
    remedy = (
        "Run the forward pass again for each backward(), detach() what comes from an earlier iteration, or "
        "backward(retain_graph=True) the first time."
    )
    return Found("error", "error", error.line, None, message, remedy)


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
