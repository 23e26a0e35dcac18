"""How a figure is written: times, sizes, shapes and shares, the same in the card's tables, its picture and its text."""

import math
from collections.abc import Iterable
from functools import lru_cache


def time_text(ms: float | None) -> str:
    """Write a time with its unit in three digits.

    Examples
    --------
    >>> [time_text(t) for t in (0, 0.0004, 0.0123, 1.5, 250, 12345.6, None)]
    ['0 ms', '0.4 µs', '12.3 µs', '1.50 ms', '250 ms', '12.3 s', '']
    """
    if ms is None:
        return ""
    if not math.isfinite(ms):
        return str(ms)
    if ms == 0:
        return "0 ms"
    value, unit = (ms * 1e3, "µs") if abs(ms) < 1 else (ms, "ms") if abs(ms) < 1e3 else (ms / 1e3, "s")
    digits = 1 if abs(value) < 1 else max(0, 2 - int(math.log10(abs(value))))
    return f"{value:.{digits}f} {unit}"


def number(value: float | None) -> str:
    """Write a figure in three digits.

    Examples
    --------
    >>> [number(v) for v in (0, 1.23456, 123.4, 1.5e-7, -40000.0, float("nan"), None)]
    ['0', '1.23', '123', '1.50e-07', '-4.00e+04', 'nan', '']
    """
    if value is None:
        return ""
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e4:
        return f"{value:.2e}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def rate_text(bytes_per_s: float | None) -> str:
    """Write a rate in 10^9 bytes a second; what is a latency and no rate is "<0.1".

    Examples
    --------
    >>> [rate_text(v) for v in (25.04e9, 1.2e3, None)]
    ['25.0', '<0.1', '']
    """
    if not bytes_per_s:
        return ""
    return "<0.1" if bytes_per_s < 1e8 else f"{bytes_per_s / 1e9:.1f}"


def share(value: float | None) -> str:
    """Write a share of 0 to 1 as a percentage, never rounding something to nothing.

    Examples
    --------
    >>> [share(v) for v in (0, 0.0004, 0.25, 0.9996, 1)]
    ['0 %', '<0.1 %', '25 %', '>99.9 %', '100 %']
    """
    if value is None:
        return ""
    if 0 < value < 0.001:
        return "<0.1 %"
    if 0.999 < value < 1:
        return ">99.9 %"
    return f"{100 * value:.3g} %"


def shape_text(shape: Iterable[int]) -> str:
    """Write a shape as a product.

    Examples
    --------
    >>> shape_text([128, 64]), shape_text([])
    ('128×64', 'scalar')
    """
    return _product(tuple(shape))


@lru_cache(1024)
def _product(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "scalar"


def size_text(size_bytes: float) -> str:
    """Return a number of bytes in words.

    Examples
    --------
    >>> size_text(812), size_text(4096), size_text(3.2e9)
    ('812 bytes', '4.1 kB', '3.2 GB')
    """
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= factor:
            return (
                f"{size_bytes / factor:.2g} {unit}" if size_bytes < 10 * factor else f"{size_bytes / factor:.0f} {unit}"
            )
    return f"{size_bytes:.0f} bytes"


def count_text(n: int, noun: str) -> str:
    """Write a count with its noun.

    Examples
    --------
    >>> count_text(1, "op"), count_text(12000, "op")
    ('1 op', '12,000 ops')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def shorten(text: str, limit: int, keep_end: bool = False) -> str:
    """Cut a name to `limit` characters, marking the cut.

    Examples
    --------
    >>> shorten("scaled_dot_product", 10), shorten("model.blocks.11", 10, keep_end=True)
    ('scaled_do…', '…blocks.11')
    """
    if len(text) <= limit:
        return text
    return "…" + text[len(text) - limit + 1 :] if keep_end else text[: limit - 1] + "…"


def plain(text: object, limit: int | None = None) -> str:
    """One line without what a terminal or the eye would obey: control characters, marks that turn the writing round.

    Examples
    --------
    >>> plain("red \\x1b[31m\\u202e"), plain("ten thousand", 5)
    ('red  [31m ', 'ten …')
    """
    line = "".join(c if c.isprintable() else " " for c in str(text))
    return line if limit is None else shorten(line, limit)
