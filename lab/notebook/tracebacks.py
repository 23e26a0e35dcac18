"""What a notebook shows of an error's frames: the user's own, and of this library's the one that raised.

Only the display is shortened. The exception keeps its whole traceback, which `%debug` walks and `%xmode Verbose` shows.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OWN = tuple(os.path.join(_HERE, name) + os.sep for name in ("core", "lab", "widgets", "triton_kernels"))
_LISTENS = os.path.join(_HERE, "lab", "adapters") + os.sep  # between the user's code and another library's, only here


def shortened(tb: TracebackType | None) -> tuple[TracebackType | None, int]:
    """Return a traceback without this library's frames except the last of all, and how many were left out.

    >>> import core
    >>> try:
    ...     core.ones(2, 3) @ core.ones(2, 3)
    ... except RuntimeError as error:
    ...     whole = error.__traceback__
    >>> short, left = shortened(whole)
    >>> short.tb_frame is whole.tb_frame, short.tb_next.tb_next, left > 0
    (True, None, True)
    """
    links: list[TracebackType] = []
    while tb is not None:
        if not tb.tb_frame.f_code.co_filename.startswith(_LISTENS):  # not there without the recorder: nor counted
            links.append(tb)
        tb = tb.tb_next
    kept = [link for link in links[:-1] if not link.tb_frame.f_code.co_filename.startswith(_OWN)] + links[-1:]
    found: TracebackType | None = None
    for link in reversed(kept):  # new links: the exception's own stay as they are
        found = TracebackType(found, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return found, len(links) - len(kept)


def install(shell: Any, raising: Callable[[], None] = lambda: None) -> None:
    """Let a shell show shortened tracebacks; `raising` is called before it draws one."""
    shown, show = shell.InteractiveTB, shell.showtraceback

    def showtraceback(*args: Any, **kwargs: Any) -> None:
        raising()
        show(*args, **kwargs)

    whole, parts = shown.structured_traceback, shown.get_parts_of_chained_exception

    def cut(etb: TracebackType | None) -> tuple[TracebackType | None, int]:
        """As `shortened`; an error of ours leaves the traceback as it is."""
        try:
            return shortened(etb)
        except Exception:
            return etb, 0

    def structured_traceback(etype: Any, evalue: Any, etb: Any = None, *args: Any, **kwargs: Any) -> Any:
        if shown.mode == "Verbose" or not isinstance(etb, TracebackType):
            return whole(etype, evalue, etb, *args, **kwargs)
        short, left = cut(etb)
        lines = whole(etype, evalue, short, *args, **kwargs)
        shown.tb = etb  # which %debug walks
        if left:
            some = "a frame of gradlab's own is" if left == 1 else f"{left} frames of gradlab's own are"
            lines = [*lines, f"({some} left out; %xmode Verbose and then %tb shows all)"]
        return lines

    def get_parts_of_chained_exception(evalue: Any) -> Any:
        found = parts(evalue)
        if found is None or shown.mode == "Verbose":
            return found
        etype, value, etb = found
        return etype, value, cut(etb)[0]

    shell.showtraceback = showtraceback
    shown.structured_traceback = structured_traceback
    shown.get_parts_of_chained_exception = get_parts_of_chained_exception


def remove(shell: Any) -> None:
    """Let it show whole ones again."""
    vars(shell).pop("showtraceback", None)
    for name in ("structured_traceback", "get_parts_of_chained_exception"):
        vars(shell.InteractiveTB).pop(name, None)
