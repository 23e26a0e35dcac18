"""`WordPieceTokenizer`: words in pieces from a vocabulary, the longest first, as BERT has them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from ..base.errors import text
from . import merging, stored
from .vocab import numbers
from .words import words

_KIND = "WordPiece tokenizer"
_CACHED = 1 << 16  # words
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MARK = "##"
"""Before a piece that goes on in a word."""


class WordPieceTokenizer:
    """Pieces of words: of each word the longest piece that the vocabulary has, then the longest of the rest.

    A piece within a word is written with ``##`` before it. A word that has no pieces, or more than `longest`
    characters, is the unknown token as a whole. Words are cut as BERT cuts them, small and without accents where
    `lowercase`. Made by `train`, `load` or `from_bert`.

    *Source*: M. Schuster, K. Nakajima, "Japanese and Korean voice search" (2012); J. Devlin et al., "BERT" (2019).

    >>> tokenizer = WordPieceTokenizer(["[UNK]", "play", "##ing", "##ed", "!"], specials=["[UNK]"])
    >>> tokenizer.encode("Playing played!"), tokenizer.tokenize("playground")
    ([1, 2, 1, 3, 4], ['[UNK]'])
    >>> tokenizer.decode([1, 2, 4])
    'playing !'
    """

    def __init__(self, tokens: Sequence[str], specials: Sequence[str] = BERT, unknown: str = "[UNK]", *,
                 lowercase: bool = True, longest: int = 100) -> None:  # fmt: skip
        self._tokens = list(tokens)
        self._number = {token: k for k, token in enumerate(self._tokens)}
        missing = [name for name in (unknown, *specials) if name not in self._number]
        if missing or len(self._number) != len(self._tokens):
            twice = next((t for k, t in enumerate(self._tokens) if self._number[t] != k), None)
            came = f"no {missing[0]!r}" if missing else f"{twice!r} twice"
            raise ValueError(text("a vocabulary has each token once, the special and the unknown one too",
                                  op="WordPieceTokenizer", came=came))  # fmt: skip
        self.specials = {name: self._number[name] for name in specials}
        self.unknown, self.lowercase, self.longest = unknown, lowercase, longest
        pieces = [t for t in self._tokens if t not in self.specials]
        self._reach = max((len(t.removeprefix(MARK)) for t in pieces), default=0)
        self._pieces = {t: self._number[t] for t in pieces}
        self._known: dict[str, list[int]] = {}

    # -- learning ------------------------------------------------------------------------------------------------------

    @classmethod
    def train(cls, source: str | Iterable[str], vocab_size: int, specials: Sequence[str] = BERT, unknown: str = "[UNK]",
              *, min_frequency: int = 2, lowercase: bool = True) -> Self:  # fmt: skip
        """Learn from a text, or from many: every character, alone and within a word, then the commonest neighbours
        joined until there are `vocab_size` tokens.

        So no word of the text's characters is unknown. specials : numbered first. min_frequency : how often a pair must
        come to be joined; when none does any more, the vocabulary stays smaller.

        *Raises*: ValueError for a vocabulary that does not even hold the characters.

        >>> tokenizer = WordPieceTokenizer.train("low lower lowest low low", 22)
        >>> tokenizer.tokenize("lower slow")
        ['lowe', '##r', 's', '##l', '##o', '##w']
        """
        counts: Counter[str] = Counter()
        for one in [source] if isinstance(source, str) else source:
            counts.update(words(one, lowercase))
        characters = sorted(set().union(*counts))
        names = [*dict.fromkeys([*specials, unknown]), *characters, *(MARK + c for c in characters)]
        if vocab_size < len(names):
            raise ValueError(text("the vocabulary is too small", op="WordPieceTokenizer.train",
                                  came=f"vocab_size={vocab_size}", needed=f"at least {len(names)}: the special tokens "
                                  f"and each of {len(characters)} characters, alone and within a word"))  # fmt: skip
        number = {name: k for k, name in enumerate(names)}
        parts = [[number[word[0]], *(number[MARK + c] for c in word[1:])] for word in counts]
        tokens, _ = merging.learn_pairs(names, parts, list(counts.values()), vocab_size, min_frequency, _joined)
        return cls(tokens, specials, unknown, lowercase=lowercase)

    # -- use -----------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def vocab_size(self) -> int:
        """How many tokens there are."""
        return len(self)

    def encode(self, string: str, *, specials: bool = False) -> list[int]:
        """Return the tokens of a text.

        specials : whether the names of special tokens in the text become these tokens; otherwise they are text.
        """
        if specials and self.specials:
            names = "|".join(map(re.escape, sorted(self.specials, key=len, reverse=True)))
            out: list[int] = []
            for k, part in enumerate(re.split(f"({names})", string)):
                out += [self.specials[part]] if k % 2 else self.encode(part)
            return out
        return [k for word in words(string, self.lowercase) for k in self._of_word(word)]

    def tokenize(self, string: str, *, specials: bool = False) -> list[str]:
        """Return the tokens of a text as they are written."""
        return [self._tokens[k] for k in self.encode(string, specials=specials)]

    def _of_word(self, word: str) -> list[int]:
        found = self._known.get(word)
        if found is None:
            found = self._split(word)
            if len(self._known) >= _CACHED:
                self._known.clear()
            self._known[word] = found
        return found

    def _split(self, word: str) -> list[int]:
        """Return the longest pieces of a word from the left, or the unknown token."""
        out: list[int] = []
        at, mark = 0, ""
        while at < len(word) <= self.longest:
            for end in range(min(len(word), at + self._reach), at, -1):
                number = self._pieces.get(mark + word[at:end])
                if number is not None:
                    break
            else:
                return [self._number[self.unknown]]
            out.append(number)
            at, mark = end, MARK
        return out or [self._number[self.unknown]]

    def decode(self, ids: Any, *, specials: bool = True) -> str:
        """Return the text of tokens, a list or a tensor: pieces joined to words, and a space between words.

        specials : whether special tokens are written or left out.

        *Raises*: IndexError for a number without a token.
        """
        said: list[str] = []
        inside = False  # whether the token before is a piece, which this one may continue
        for at, k in enumerate(numbers(ids)):
            if not 0 <= k < len(self._tokens):
                raise IndexError(text(f"token {k} does not exist", op="WordPieceTokenizer.decode",
                                      came=f"at place {at}", needed=f"0 to {len(self) - 1}"))  # fmt: skip
            token = self._tokens[k]
            special = token in self.specials
            if special and not specials:
                continue
            goes_on = inside and token.startswith(MARK) and token != MARK
            said += [token.removeprefix(MARK)] if goes_on else [" ", token]
            inside = not special
        return "".join(said[1:])

    def token(self, k: int) -> str:
        """Return one token as it is written.

        >>> WordPieceTokenizer(["[UNK]", "##s"], ["[UNK]"]).token(1)
        '##s'
        """
        self.decode([k])
        return self._tokens[k]

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a JSON file."""
        content = {"tokens": self._tokens, "specials": list(self.specials), "unknown": self.unknown,
                   "lowercase": self.lowercase, "longest": self.longest}  # fmt: skip
        stored.write(path, _KIND, content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file of `save`.

        *Raises*: ValueError that names the file and what is wrong with it.
        """
        needed = {"tokens": list, "specials": list, "unknown": str, "lowercase": bool, "longest": int}
        found = stored.read(path, _KIND, needed)
        return cls._checked(path, found["tokens"], found["specials"], found["unknown"], found["lowercase"],
                            found["longest"])  # fmt: skip

    @classmethod
    def from_bert(cls, path: str | os.PathLike[str], *, lowercase: bool = True, longest: int = 100) -> Self:
        """Read BERT's vocab.txt: a token in each line, numbered from 0. lowercase : False for the cased models.

        *Raises*: ValueError that names the file, for a token that stands twice and where there is no "[UNK]".
        """
        lines = Path(path).read_bytes().decode("utf-8").split("\n")
        tokens = [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
        there = set(tokens)
        return cls._checked(path, tokens, [s for s in BERT if s in there], "[UNK]", lowercase, longest)

    def to_bert(self, path: str | os.PathLike[str]) -> None:
        """Write the tokens as BERT's vocab.txt."""
        Path(path).write_bytes("".join(f"{token}\n" for token in self._tokens).encode("utf-8"))

    @classmethod
    def _checked(cls, path: Any, tokens: list[str], specials: list[str], unknown: str, lowercase: bool,
                 longest: int) -> Self:  # fmt: skip
        try:
            return cls(tokens, specials, unknown, lowercase=lowercase, longest=longest)
        except (ValueError, TypeError) as error:
            raise ValueError(text(f"{path} is broken", op=_KIND, came=str(error).replace("\n ", ""))) from None

    def __repr__(self) -> str:
        return f"WordPieceTokenizer({len(self)} tokens)"


def _joined(a: str, b: str) -> str:
    """Return the piece of two neighbours, the second of which goes on.

    >>> _joined("##e", "##r")
    '##er'
    """
    return a + b.removeprefix(MARK)
