"""One finding, how sure it is, and the words that findings share.

What a severity means:

- **error**: the cell ends, or its result is certainly wrong, as the recording shows.
- **warning**: something that was recorded shows the effect (values, gradients, shapes, dtypes, modes, losses, time), or
  the text alone is proof, whatever stands around it.
- **note**: it costs a little, or is to be known; or it reads like a known mistake (`Found.reads`), and nothing that was
  recorded confirms it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType

from ..recorder.cell_trace import Chain, Leaf, Row, Trace
from ..recorder.user_files import shown_name

NAMES = 6  # how many parameters a sentence names


@dataclass
class Found:
    """A finding that still points to rows and leaves."""

    kind: str
    severity: str
    line: int | None
    col: int | None
    message: str
    remedy: str
    rows: list[Row] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)
    proof: str = ""
    """What shows it, where no row and no leaf does: what was recorded instead, or why the text needs no context."""
    reads: bool = False
    """Whether it reads like a mistake, and nothing that was recorded confirms it."""

    def weigh(self, proof: str) -> None:
        """Make a note of a warning that nothing recorded shows, and nothing proves: it only reads like a mistake."""
        self.proof = self.proof or proof
        if self.severity == "warning" and not (self.rows or self.leaves or self.proof):
            self.severity, self.reads = "note", True


def listed(leaves: Sequence[Leaf] | Sequence[str], most: int = NAMES) -> str:
    """Names in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"]), listed(list("abcdefgh"))
    ('a', 'a, b and c', 'a, b, c, d, e and 3 more')
    """
    names = [x if isinstance(x, str) else x.name for x in leaves]
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def verb(leaves: Sequence[object], one: str, many: str) -> str:
    """The verb for one name or several."""
    return one if len(leaves) == 1 else many


def last_line(node: ast.AST) -> int:
    """The line in which a statement or an expression of a cell ends."""
    return node.end_lineno  # type: ignore[attr-defined, no-any-return]


def end_of(node: ast.AST) -> tuple[int, int]:
    """Where a statement or an expression of a cell ends: line and column."""
    return last_line(node), node.end_col_offset  # type: ignore[attr-defined]


Span = tuple[int, int, int, int]


def span(node: ast.expr) -> Span:
    """Where an expression of a cell begins and ends: lines and columns."""
    return node.lineno, node.col_offset, *end_of(node)


def made_to_train(leaf: Leaf) -> bool:
    """Whether a leaf is a module's parameter by its type, and not an input whose gradient is looked at."""
    return leaf.module


def caller(chain: Chain) -> Chain:
    """Return the frames from where a model is called, without those of its own forward()."""
    inside = [k for k, (code, _) in enumerate(chain) if code.co_name == "forward"]
    return chain[inside[-1] + 1 :] or chain[-1:] if inside else chain


def where(trace: Trace, chain: Chain) -> tuple[int | None, int | None, str]:
    """Line and column of this cell on whose behalf something ran, and the place in words."""
    own = trace.own_place(chain)
    if not chain:
        return None, None, "an unknown place"
    place = trace.place(*chain[0])
    if place.file in trace.files and own is not None:
        return own.line, own.col, f"line {own.line}"
    name = shown_name(place.file)
    words = f"{name} line {place.line}"
    if own is None:
        return None, None, words
    return own.line, own.col, f"line {own.line} ({words})"


def spot(trace: Trace, frame: tuple[CodeType, int]) -> str:
    """The line of one frame in words: of this cell, or of the file or the earlier cell that it is in."""
    place = trace.place(*frame)
    if place.file in trace.files:
        return f"line {place.line + trace.files[place.file]}"
    return f"{shown_name(place.file)} line {place.line}"


def code_of(trace: Trace, row: Row) -> str:
    """The expression at a row, in the user's words."""
    if not row.chain:
        return row.op
    place = trace.place(*row.chain[0])
    if place.file in trace.files:
        own = trace.own_place(row.chain[:1])
        place = own or place
    return place.code or row.op


def library(trace: Trace) -> str:
    """What the cell calls the package of tensors."""
    names = {node.id for node in trace.nodes() if isinstance(node, ast.Name)}
    return next((name for name in ("torch", "core") if name in names), "torch")


def ended(text: str) -> str:
    """A sentence ends with a full stop, unless a mark or code ends it: another sentence may follow.

    >>> ended("use unsqueeze"), ended("Is it?"), ended(""), ended("Write:\\n  x = 1")
    ('use unsqueeze.', 'Is it?', '', 'Write:\\n  x = 1')
    """
    plain = text and "\n" not in text and text.rstrip("`'\")")[-1:] not in (".", "!", "?", ":", "…")
    return text + "." if plain else text


def capital(text: str) -> str:
    """A sentence begins with a capital letter, unless it begins with code.

    >>> capital("line 3 fails"), capital("linalg.pinv, or x + eps"), capital("x = x.float()"), capital("detach() it")
    ('Line 3 fails', 'linalg.pinv, or x + eps', 'x = x.float()', 'detach() it')
    """
    return text if re.match(r"\w+([.(_]\w|\(\)| = )", text) else text[:1].upper() + text[1:]
