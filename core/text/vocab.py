"""`Vocab`: tokens and their numbers, with torchtext's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base.errors import text


class Vocab:
    """Tokens, numbered from 0 in the order given.

    *Raises*: ValueError for a token given twice; RuntimeError when an unknown token is asked for and there is no
    default.

    >>> v = Vocab(["<unk>", "a", "b"])
    >>> v(["b", "a"]), v.lookup_tokens([1, 2]), "c" in v, len(v)
    ([2, 1], ['a', 'b'], False, 3)
    >>> v.set_default_index(v["<unk>"])
    >>> v["c"]
    0
    """

    def __init__(self, tokens: Iterable[str] = (), default_index: int | None = None) -> None:
        self._tokens: list[str] = []
        self._numbers: dict[str, int] = {}
        for token in tokens:
            self.append_token(token)
        self._default = default_index

    def __len__(self) -> int:
        return len(self._tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._numbers

    def __getitem__(self, token: str) -> int:
        number = self._numbers.get(token, self._default)
        if number is None:
            raise RuntimeError(
                text(f"Token {token} not found and default index is not set", op="Vocab", came=repr(token),
                     needed=f"one of {len(self)} tokens", remedy='vocab.set_default_index(vocab["<unk>"])')
            )  # fmt: skip
        return number

    def __call__(self, tokens: Iterable[str]) -> list[int]:
        """Return the numbers of many tokens."""
        return [self[token] for token in tokens]

    lookup_indices = __call__
    forward = __call__

    def lookup_token(self, index: int) -> str:
        """Return the token of a number.

        *Raises*: RuntimeError when there is none.
        """
        if not 0 <= index < len(self):
            raise RuntimeError(text(f"Specified index {index} is out of bounds of the size of stoi dictionary: "
                                    f"{len(self)}", op="Vocab"))  # fmt: skip
        return self._tokens[index]

    def lookup_tokens(self, indices: Iterable[int]) -> list[str]:
        """Return the tokens of many numbers."""
        return [self.lookup_token(k) for k in indices]

    def append_token(self, token: str) -> None:
        """Give a new token the next number."""
        self.insert_token(token, len(self._tokens))

    def insert_token(self, token: str, index: int) -> None:
        """Give a new token a number; those behind it move up."""
        if token in self._numbers:
            raise RuntimeError(text(f"Token {token} already exists in the Vocab with index: {self._numbers[token]}",
                                    op="Vocab"))  # fmt: skip
        if not 0 <= index <= len(self._tokens):
            raise RuntimeError(
                text(f"Specified index {index} is out of bounds for vocab of size {len(self)}", op="Vocab")
            )
        self._tokens.insert(index, token)
        for k in range(index, len(self._tokens)):
            self._numbers[self._tokens[k]] = k

    def set_default_index(self, index: int | None) -> None:
        """What unknown tokens become; None makes them errors."""
        self._default = index

    def get_default_index(self) -> int | None:
        """Return what unknown tokens become."""
        return self._default

    def get_itos(self) -> list[str]:
        """Return the tokens in the order of their numbers."""
        return list(self._tokens)

    def get_stoi(self) -> dict[str, int]:
        """From token to number."""
        return dict(self._numbers)

    def __repr__(self) -> str:
        return f"Vocab({len(self)} tokens)"


def vocab(ordered_dict: Mapping[str, int], min_freq: int = 1, specials: Sequence[str] | None = None,
          special_first: bool = True) -> Vocab:  # fmt: skip
    """Return a vocabulary of the tokens that a dict counts at least `min_freq` times, in its order.

    >>> vocab({"a": 3, "b": 1}, min_freq=2, specials=["<unk>"]).get_itos()
    ['<unk>', 'a']
    """
    special = list(specials or [])
    tokens = [token for token, count in ordered_dict.items() if count >= min_freq and token not in set(special)]
    return Vocab([*special, *tokens] if special_first else [*tokens, *special])


def build_vocab_from_iterator(iterator: Iterable[Iterable[str]], min_freq: int = 1,
                              specials: Sequence[str] | None = None, special_first: bool = True,
                              max_tokens: int | None = None) -> Vocab:  # fmt: skip
    """Return a vocabulary of all tokens in lists of tokens, the commonest first, those of one count in alphabetical
    order.

    max_tokens : how many in all, the special ones counted in.

    >>> build_vocab_from_iterator([["b", "a"], ["b"]], specials=["<unk>"]).get_itos()
    ['<unk>', 'b', 'a']
    """
    counts: Counter[str] = Counter()
    for tokens in iterator:
        counts.update(tokens)
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    if max_tokens is not None:
        room = max_tokens - len(specials or [])
        if room <= 0:
            raise ValueError(text("len(specials) >= max_tokens, so the vocab will be entirely special tokens.",
                                  op="build_vocab_from_iterator"))  # fmt: skip
        ordered = [pair for pair in ordered if pair[0] not in set(specials or [])][:room]
    return vocab(dict(ordered), min_freq, specials, special_first)


def numbers(value: Any) -> list[int]:
    """Token numbers of a tensor, an array or any iterable, as a list.

    >>> import core
    >>> numbers(core.tensor([3, 1]))
    [3, 1]
    """
    found = value.tolist() if hasattr(value, "tolist") else list(value)
    return [found] if isinstance(found, int) else found
