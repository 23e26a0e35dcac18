"""`BytePairTokenizer`: tokens learnt from a text, lossless on any bytes."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from ..base.errors import text
from . import merging, stored
from .pieces import letters, pieces, shown, unshown
from .vocab import numbers

_KIND = "byte-pair tokenizer"
_CACHED = 1 << 16  # pieces


class BytePairTokenizer:
    """Byte-pair encoding over bytes: whatever the text, ``decode(encode(text)) == text``.

    Text is cut into words as GPT-2 cuts it, and within a word the learnt pairs are joined. Made by `train`, `load` or
    `from_gpt2`.

    >>> tokenizer = BytePairTokenizer.train("low lower lowest low low", vocab_size=260)
    >>> tokenizer.encode("low lowest"), tokenizer.decode(tokenizer.encode("naïve ☃"))
    ([257, 259, 115, 116], 'naïve ☃')
    """

    def __init__(
        self, tokens: Sequence[bytes], merges: Sequence[tuple[int, int]], specials: Sequence[str] = ()
    ) -> None:
        self._tokens = list(tokens)
        self.merges = list(merges)
        self.specials = {name: len(self._tokens) + k for k, name in enumerate(specials)}
        self._number = {token: k for k, token in enumerate(self._tokens)}
        self._bytes = [self._number[bytes([b])] for b in range(256)]
        self._ranks = {
            pair: (rank, self._number[self._tokens[pair[0]] + self._tokens[pair[1]]])
            for rank, pair in enumerate(self.merges)
        }
        self._names = {k: name.encode() for name, k in self.specials.items()}
        self._known: dict[bytes, list[int]] = {}

    # -- learning ------------------------------------------------------------------------------------------------------

    @classmethod
    def train(cls, source: str | bytes | Iterable[str | bytes], vocab_size: int, specials: Sequence[str] = (),
              min_frequency: int = 2) -> Self:  # fmt: skip
        """Learn from a text, or from many: 256 bytes, then merges until there are `vocab_size` tokens.

        specials : tokens such as "<|endoftext|>", numbered last. min_frequency : how often a pair must come to be
        joined; when none does any more, the vocabulary stays smaller.

        *Raises*: ValueError for a vocabulary that does not even hold the bytes.
        """
        if vocab_size < 256 + len(specials) or len(set(specials)) != len(specials):
            raise ValueError(
                text("the vocabulary is too small, or a special token stands twice", op="BytePairTokenizer.train",
                     came=f"vocab_size={vocab_size}, specials={list(specials)}",
                     needed=f"at least {256 + len(specials)}: every byte is a token")
            )  # fmt: skip
        words: Counter[bytes] = Counter()
        for one in [source] if isinstance(source, str | bytes) else source:
            words.update(pieces(one))
        tokens, found = merging.learn(words, vocab_size - len(specials), min_frequency)
        return cls(tokens, found, specials)

    # -- use -----------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._tokens) + len(self.specials)

    @property
    def vocab_size(self) -> int:
        """How many tokens there are, the special ones counted in."""
        return len(self)

    def encode(self, source: str | bytes, *, specials: bool = False) -> list[int]:
        """Return the tokens of a text or of bytes.

        specials : whether the names of special tokens in the text become these tokens; otherwise they are text.
        """
        if specials and self.specials:
            is_text = isinstance(source, str)
            string = source if isinstance(source, str) else source.decode("utf-8", "surrogateescape")
            names = "|".join(map(re.escape, sorted(self.specials, key=len, reverse=True)))
            out: list[int] = []
            for k, part in enumerate(re.split(f"({names})", string)):
                if k % 2:
                    out.append(self.specials[part])
                else:
                    out += self.encode(part if is_text else part.encode("utf-8", "surrogateescape"))
            return out
        out = []
        known = self._known
        for piece in pieces(source):
            found = known.get(piece)
            if found is None:
                found = merging.apply([self._bytes[b] for b in piece], self._ranks)
                if len(known) >= _CACHED:
                    known.clear()
                known[piece] = found
            out += found
        return out

    def decode_bytes(self, ids: Any) -> bytes:
        """Return the bytes of tokens: a list or a tensor.

        *Raises*: IndexError for a number without a token.
        """
        tokens, out = self._tokens, []
        for at, k in enumerate(numbers(ids)):
            if 0 <= k < len(tokens):
                out.append(tokens[k])
            elif k in self._names:
                out.append(self._names[k])
            else:
                raise IndexError(text(f"token {k} does not exist", op="BytePairTokenizer.decode", came=f"at place {at}",
                                      needed=f"0 to {len(self) - 1}"))  # fmt: skip
        return b"".join(out)

    def decode(self, ids: Any, errors: str = "replace") -> str:
        """Return the text of tokens; `errors`, as in `bytes.decode`, says what becomes of a character they end
        within."""
        return self.decode_bytes(ids).decode("utf-8", errors)

    def token(self, k: int) -> bytes:
        """Return the bytes of one token.

        >>> BytePairTokenizer.train("aaaa", 257, min_frequency=1).token(256)
        b'aa'
        """
        return self.decode_bytes([k])

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a JSON file, bytes in GPT-2's letters."""
        content = {
            "tokens": [shown(t) for t in self._tokens],
            "merges": [f"{shown(self._tokens[a])} {shown(self._tokens[b])}" for a, b in self.merges],
            "specials": list(self.specials),
        }
        stored.write(path, _KIND, content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file of `save`.

        *Raises*: ValueError that names the file and what is wrong with it.
        """
        content = stored.read(path, _KIND, {"tokens": list, "merges": list, "specials": list})
        return cls._checked(path, content["tokens"], content["merges"], content["specials"])

    @classmethod
    def from_gpt2(cls, merges: str | os.PathLike[str], vocab: str | os.PathLike[str] | None = None,
                  specials: Sequence[str] = ("<|endoftext|>",)) -> Self:  # fmt: skip
        """Read GPT-2's files: `merges` (merges.txt, vocab.bpe), and `vocab` (vocab.json, encoder.json) for the numbers.

        Without `vocab` the tokens are numbered as GPT-2 does: bytes in the order of its letters, then the merges, then
        the special tokens.
        """
        lines = Path(merges).read_text("utf-8").splitlines()
        pairs = [line for line in lines if line.strip() and not line.startswith("#version")]
        if vocab is None:
            return cls._checked(merges, [*sorted(letters()), *("".join(p.split()) for p in pairs)], pairs, specials)
        table = json.loads(Path(vocab).read_text("utf-8"))
        names = sorted((name for name in table if name not in specials), key=table.__getitem__)
        want = {name: k for k, name in enumerate([*names, *(s for s in specials if s in table)])}
        if table != want:
            odd = next(name for name in table if table[name] != want.get(name))
            raise ValueError(text(f"{vocab} does not number its tokens from 0 with the special ones last", op=_KIND,
                                  came=f"{odd!r}: {table[odd]}", needed=f"{want.get(odd)}"))  # fmt: skip
        return cls._checked(vocab, names, pairs, [s for s in specials if s in table])

    @classmethod
    def _checked(cls, path: Any, tokens: Sequence[str], merges: Sequence[str], specials: Sequence[str]) -> Self:
        try:
            names = [unshown(t) for t in tokens]
            number = {name: k for k, name in enumerate(names)}
            if len(number) != len(names):
                raise ValueError("a token stands twice")
            if any(bytes([b]) not in number for b in range(256)):
                raise ValueError("some single bytes are no tokens")
            pairs = []
            for at, line in enumerate(merges):
                parts = [unshown(part) for part in line.split(" ")]
                if len(parts) != 2 or any(p not in number for p in (*parts, b"".join(parts))):
                    raise ValueError(f"merge {at}, {line!r}, is no pair of tokens that makes a token")
                pairs.append((number[parts[0]], number[parts[1]]))
        except ValueError as error:
            raise ValueError(text(f"{path} is broken: {error}", op=_KIND)) from None
        return cls(names, pairs, specials)

    def __repr__(self) -> str:
        return f"BytePairTokenizer({len(self)} tokens, {len(self.merges)} merges)"
