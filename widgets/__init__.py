"""What a person sees: the card under a cell. It knows plain data (`Record`), no tensors and no kernel.

`html(record)` and `text(record)` are the two answers of one record; `picture(record)` is the still image inside the html.
The drawing code is imported when first asked for, so that reading or writing a `Record` stays cheap.
"""

from importlib import import_module

from .record import (
    VERSION,
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

__all__ = [
    "VERSION",
    "ErrorRow",
    "Finding",
    "GradientRow",
    "KernelRow",
    "LineRow",
    "OpRow",
    "Record",
    "Stats",
    "TensorRow",
    "html",
    "png",
    "text",
]

_LAZY = {"html": ".card", "text": ".text", "png": ".picture"}


def __getattr__(name: str):
    """Import the drawing function `name` on first use."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
