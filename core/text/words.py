"""How BERT cuts a text into words: at white space, around punctuation, and around each Chinese character."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache

_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f"
_CONTROL = ("Cc", "Cf", "Co", "Cs")  # and not what a later Unicode may give a meaning
_ASCII_MARKS = "!-/:-@\\[-`{-~"  # BERT counts $, +, <, =, >, ^, ` and ~ as punctuation, which Unicode does not


@cache
def _pattern() -> re.Pattern[str]:
    """Return what one word is: a single mark of punctuation, a single Chinese character, or a run of anything else."""
    marks = "".join(re.escape(c) for c in map(chr, range(128, sys.maxunicode + 1)) if unicodedata.category(c)[0] == "P")
    alone = f"[{_ASCII_MARKS}{marks}{_CHINESE}]"
    return re.compile(f"{alone}|(?:(?!{alone})\\S)+")


def _kept(character: str) -> str:
    """Return a character as it counts: white space as a space, control characters and U+FFFD as nothing."""
    if character not in "\t\n\r" and (character == "\ufffd" or unicodedata.category(character) in _CONTROL):
        return ""
    return " " if character.isspace() else character


def words(string: str, lowercase: bool = True) -> list[str]:
    """Return the words of a text; with `lowercase` small letters without accents.

    *Source*: J. Devlin et al., "BERT" (2019), its released tokenizer.

    >>> words("Café, it's 3$!"), words("Café 中文", lowercase=False)
    (['cafe', ',', 'it', "'", 's', '3', '$', '!'], ['Café', '中', '文'])
    """
    if not (string.isascii() and string.isprintable()):
        string = "".join(map(_kept, string))
    if lowercase:
        string = string.lower()
        if not string.isascii():
            string = "".join(c for c in unicodedata.normalize("NFD", string) if unicodedata.category(c) != "Mn")
    return _pattern().findall(string)
