"""The card under a cell: one piece of self-contained HTML that works saved, reopened, exported and stripped of scripts.

Its first child is the still card (`widgets/still.py`: a picture and tables with inline styles only). The script that
follows replaces it by the live one inside a shadow root, so that several cards on a page share neither style nor state.
Everything a record holds is data: escaped in the still card, and JSON that the script hands to `textContent` in the
live one.
"""

import base64
import gc
import json
import zlib
from typing import Any

from . import graph as graph_module
from . import run_card
from .assets import bundle
from .payload import Text, payload
from .record import Record
from .still import escape, still


def html(record: Record, kernel: str = "") -> str:
    """Draw a record as one self-contained piece of HTML.

    kernel : whom its buttons ask while the notebook is open, as
        `lab.notebook.card_buttons.place` names it; a saved card has nobody.

    Examples
    --------
    >>> from widgets.record import Record
    >>> card = html(Record(title="In [1]", source="x + 1"))
    >>> card.startswith('<div class="gradlab-card">'), "http://" in card.replace("http://www.w3.org/2000/svg", "")
    (True, False)
    """
    collecting = gc.isenabled()
    gc.disable()  # a quarter of the time: many small lists, no cycles, and a notebook's heap is large
    try:
        graph = graph_module.build(record)
        css = bundle("card.css") + (bundle("run.css") if record.course is not None else "")
        data = packed(embed({"css": css, **payload(record, graph)}))
        fallback = still(record, graph, run_card.still(record.course) if record.course is not None else "")
    finally:
        if collecting:
            gc.enable()
    return f'<div class="gradlab-card"{asks(kernel)}>{fallback}{data}<script>{bundle("card.js")}</script></div>'


def asks(kernel: str) -> str:
    """Return the attribute that names whom a card's buttons ask, or nothing.

    Examples
    --------
    >>> asks("a1 7"), asks("")
    (' data-kernel="a1 7"', '')
    """
    return f' data-kernel="{escape(kernel)}"' if kernel else ""


def embed(data: Any) -> str:
    """JSON that cannot leave a script element: no `<`, `>` or `&`, and nothing but ASCII.

    Examples
    --------
    >>> embed(["</script>", "<!--", chr(0x2028)])
    '["\\\\u003c/script\\\\u003e","\\\\u003c!--","\\\\u2028"]'
    """
    text = _json(data)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _json(data: Any) -> str:
    """As JSON; a dict may hold pieces that are JSON already."""
    if isinstance(data, Text):
        return data.text
    if isinstance(data, dict) and any(isinstance(value, Text) for value in data.values()):
        return "{" + ",".join([f"{json.dumps(str(key))}:{_json(value)}" for key, value in data.items()]) + "}"
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def packed(text: str) -> str:
    """Return the script element that holds the data: as JSON, or deflated in base64 where that saves a notebook
    megabytes.

    Examples
    --------
    >>> packed("[1]")
    '<script type="application/json">[1]</script>'
    >>> len(packed("[1]" * 100_000)) < 2000
    True
    """
    if len(text) < PACK_FROM:
        return f'<script type="application/json">{text}</script>'
    # level 3: 1.8 MB in 10 ms to a seventh; level 6 takes three times as long to save a tenth more
    code = base64.b64encode(zlib.compress(text.encode("ascii"), 3)).decode("ascii")
    return f'<script type="application/octet-stream">{code}</script>'


PACK_FROM = 200_000
"""Characters of data from which on they are packed."""
