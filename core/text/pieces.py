"""How text is cut into pieces before byte pairs are merged: GPT-2's way, so that no token crosses a word's border."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache

_SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # Unicode's White_Space


@cache
def pattern() -> re.Pattern[str]:
    """GPT-2's regular expression, without the `regex` package: Python's `\\w` is letters, numbers and "_".

    *Source*: A. Radford et al., "Language models are unsupervised multitask learners" (2019), its released encoder.
    """
    number = _ranges(c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in ("Nd", "Nl", "No"))
    letter = rf"[^\W_{number}]"
    other = rf"(?:(?![{_SPACE}])(?:[^\w]|_))"
    return re.compile(
        rf"'s|'t|'re|'ve|'m|'ll|'d| ?{letter}+| ?[{number}]+| ?{other}+|[{_SPACE}]+(?![^{_SPACE}])|[{_SPACE}]+"
    )


def _ranges(characters: Iterator[str]) -> str:
    """Return a character class of these characters, in order, as ranges."""
    runs: list[list[int]] = []
    for code in map(ord, characters):
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return "".join(f"\\U{a:08x}" if a == b else f"\\U{a:08x}-\\U{b:08x}" for a, b in runs)


def pieces(text: str | bytes) -> Iterator[bytes]:
    """Yield the pieces of a text as bytes; joined they are the text, whatever bytes it has.

    >>> list(pieces("I've 2 cats ")), list(pieces(b"a\\xff"))
    ([b'I', b"'ve", b' 2', b' cats', b' '], [b'a', b'\\xff'])
    """
    if isinstance(text, str):
        string, way = text, "surrogatepass"
    else:
        string, way = bytes(text).decode("utf-8", "surrogateescape"), "surrogateescape"
    for match in pattern().finditer(string):
        yield match[0].encode("utf-8", way)


@cache
def letters() -> list[str]:
    """Return the 256 visible characters by which GPT-2's files write bytes."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {byte: chr(byte) for byte in visible}
    rest = (byte for byte in range(256) if byte not in table)
    table.update((byte, chr(256 + k)) for k, byte in enumerate(rest))
    return [table[byte] for byte in range(256)]


def shown(token: bytes) -> str:
    """Bytes as GPT-2's files write them.

    >>> shown(b" the")
    'Ġthe'
    """
    return "".join(map(letters().__getitem__, token))


@cache
def _bytes() -> dict[str, int]:
    return {letter: byte for byte, letter in enumerate(letters())}


def unshown(string: str) -> bytes:
    """Return the bytes that `shown` wrote.

    *Raises*: ValueError for a character that stands for no byte.
    """
    try:
        return bytes(map(_bytes().__getitem__, string))
    except KeyError as error:
        raise ValueError(f"{error.args[0]!r} in {string!r} stands for no byte") from None
