r"""A text that somebody else wrote as a tree, without a word of what Python thinks of it.

The parser warns of ``"\d"`` in a text each time that it reads it, since Python 3.12 so that everybody sees it. Whoever
runs the text has been told when it was compiled; who only looks into it says nothing.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any


@contextmanager
def unheard() -> Iterator[None]:
    """Keep back what Python warns of in the texts that this thread reads meanwhile.

    The filters of warnings stay as they are: when they change, Python forgets which warnings it has told.
    """
    shown: Any = getattr(warnings, "_showwarnmsg", None)
    reader, reading = get_ident(), True

    def show(told: Any) -> None:
        if not (reading and get_ident() == reader and issubclass(told.category, SyntaxWarning | DeprecationWarning)):
            shown(told)

    if shown is not None:
        warnings._showwarnmsg = show  # type: ignore[attr-defined]
    try:
        yield
    finally:
        reading = False
        if getattr(warnings, "_showwarnmsg", None) is show:  # else somebody has put theirs over it, and calls it
            warnings._showwarnmsg = shown  # type: ignore[attr-defined]


def parse(text: str, file: str = "<unknown>") -> ast.Module:
    """As `ast.parse`.

    >>> ast.unparse(parse("x = 1;y = 2"))
    'x = 1\\ny = 2'
    """
    with unheard():
        return ast.parse(text, file)


def expression(text: str) -> ast.expr:
    """Return the tree of an expression. *Raises*: SyntaxError, as `parse` does.

    >>> type(expression("x + 1")).__name__
    'BinOp'
    """
    with unheard():
        return ast.parse(text, mode="eval").body
