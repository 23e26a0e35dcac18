"""`CharacterTokenizer`: one token a character."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Self

from ..base.errors import text
from . import stored
from .vocab import numbers

_KIND = "character tokenizer"


class CharacterTokenizer:
    """The characters of a text, sorted and numbered.

    characters : any text that has them all. unknown : the character that stands for those it lacks; without one they
    are errors.

    *Raises*: ValueError for a character it does not know, with its place.

    >>> tokenizer = CharacterTokenizer("hello")
    >>> tokenizer.encode("hole"), tokenizer.decode([1, 0, 2, 2, 3]), len(tokenizer)
    ([1, 3, 2, 0], 'hello', 4)
    """

    def __init__(self, characters: Iterable[str], unknown: str | None = None) -> None:
        known = set(characters)
        if unknown is not None:
            if len(unknown) != 1:
                raise ValueError(text("unknown is one character", op="CharacterTokenizer", came=repr(unknown)))
            known.add(unknown)
        self.characters = "".join(sorted(known))
        self.unknown = unknown
        self._numbers = {c: k for k, c in enumerate(self.characters)}

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, string: str) -> list[int]:
        """Return the numbers of a string's characters."""
        other = None if self.unknown is None else self._numbers[self.unknown]
        try:
            return (
                [self._numbers[c] for c in string] if other is None else [self._numbers.get(c, other) for c in string]
            )
        except KeyError as error:
            at = string.index(error.args[0])
            raise ValueError(
                text(f"the character {error.args[0]!r} is not in the vocabulary", op="CharacterTokenizer.encode",
                     came=f"{string[max(0, at - 10) : at + 10]!r}, character {at}",
                     needed=f"one of {len(self)} characters", remedy='CharacterTokenizer(text, unknown="?")')
            ) from None  # fmt: skip

    def decode(self, ids: Any) -> str:
        """Return the string of numbers: a list or a tensor.

        *Raises*: IndexError for a number without a character.
        """
        given = numbers(ids)
        for at, k in enumerate(given):
            if not 0 <= k < len(self.characters):
                raise IndexError(text(f"token {k} does not exist", op="CharacterTokenizer.decode",
                                      came=f"at place {at}", needed=f"0 to {len(self) - 1}"))  # fmt: skip
        return "".join(map(self.characters.__getitem__, given))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a JSON file."""
        stored.write(path, _KIND, {"characters": self.characters, "unknown": self.unknown or ""})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file of `save`."""
        content = stored.read(path, _KIND, {"characters": str, "unknown": str})
        return cls(content["characters"], content["unknown"] or None)

    def __repr__(self) -> str:
        return f"CharacterTokenizer({len(self)} characters)"
