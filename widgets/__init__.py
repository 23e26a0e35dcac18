"""What a person sees: the card under a cell. It knows plain data (`Record`), no tensors and no kernel.

`html(record)` and `text(record)` are the two answers of one record; `png(record)` is the still picture inside the html.
matplotlib is imported when the first picture is drawn, so that importing this package stays cheap.
"""

from .card import html
from .difference import compare
from .picture import png
from .record import (
    VERSION,
    Change,
    Comparison,
    ErrorRow,
    Finding,
    GradientRow,
    KernelRow,
    LineRow,
    OpRow,
    Record,
    Stats,
    TensorRow,
)
from .text import text

__all__ = [
    "VERSION",
    "Change",
    "Comparison",
    "ErrorRow",
    "Finding",
    "GradientRow",
    "KernelRow",
    "LineRow",
    "OpRow",
    "Record",
    "Stats",
    "TensorRow",
    "compare",
    "html",
    "png",
    "text",
]
