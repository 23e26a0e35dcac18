"""The two algorithms of byte-pair encoding: learning the merges, and applying them.

*Source*: P. Gage, "A new algorithm for data compression" (1994); R. Sennrich, B. Haddow, A. Birch, "Neural machine
translation of rare words with subword units" (2016).
"""

from __future__ import annotations

import heapq
import operator
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

Pair = tuple[int, int]
Name = TypeVar("Name", str, bytes)


def learn(words: Mapping[bytes, int], size: int, min_frequency: int = 2) -> tuple[list[bytes], list[Pair]]:
    """Return the commonest neighbours among bytes, joined until there are `size` tokens: (the tokens, the merges).

    >>> tokens, merges = learn({b"aab": 3, b"ab": 2}, 258)
    >>> tokens[256:], merges
    ([b'ab', b'aab'], [(97, 98), (97, 256)])
    """
    names = [bytes([b]) for b in range(256)]
    return learn_pairs(names, [list(word) for word in words], list(words.values()), size, min_frequency, operator.add)


def learn_pairs(names: list[Name], tokens: list[list[int]], counts: Sequence[int], size: int, min_frequency: int,
                name_of: Callable[[Name, Name], Name]) -> tuple[list[Name], list[Pair]]:  # fmt: skip
    """Return the names, to which those of the commonest neighbours were added until there are `size`, and the merges.

    names : what there is to begin with. tokens, counts : every distinct word once, in numbers of names, and how often
    it comes. name_of : the name of two neighbours joined.

    A merge touches only the words that have the pair. Of pairs equally common the one of the smaller numbers is first.
    Ends early when no pair comes `min_frequency` times. Two pairs may make the same name: these are one token.

    >>> learn_pairs(["a", "b"], [[0, 0, 1]], [3], 3, 2, operator.add)
    (['a', 'b', 'aa'], [(0, 0)])
    """
    names, tokens = list(names), list(tokens)
    number = {name: k for k, name in enumerate(names)}
    total: defaultdict[Pair, int] = defaultdict(int)
    places: defaultdict[Pair, set[int]] = defaultdict(set)
    for k, (word, n) in enumerate(zip(tokens, counts, strict=True)):
        for pair in pairwise(word):
            total[pair] += n
            places[pair].add(k)
    heap = [(-n, pair) for pair, n in total.items()]
    heapq.heapify(heap)
    found: list[Pair] = []
    while heap and len(names) < size:
        negative, pair = heapq.heappop(heap)
        now = total.get(pair, 0)
        if now != -negative:  # an entry from before other merges
            if now > 0:
                heapq.heappush(heap, (-now, pair))
            continue
        if now < min_frequency:
            break
        name = name_of(names[pair[0]], names[pair[1]])
        new = number.setdefault(name, len(names))
        if new == len(names):
            names.append(name)
        found.append(pair)
        changed: set[Pair] = set()
        for k in places.pop(pair):
            word, n = tokens[k], counts[k]
            joined = join(word, pair, new)
            for before in pairwise(word):
                total[before] -= n
            for after in pairwise(joined):
                total[after] += n
                if new in after:
                    changed.add(after)
                    places[after].add(k)
            tokens[k] = joined
        total.pop(pair, None)
        for other in changed:
            heapq.heappush(heap, (-total[other], other))
    return names, found


def join(word: list[int], pair: Pair, new: int) -> list[int]:
    """Return a word in which every such pair, from the left, has become one token.

    >>> join([1, 1, 1, 2], (1, 1), 9)
    [9, 1, 2]
    """
    a, b = pair
    out: list[int] = []
    k, last = 0, len(word) - 1
    while k <= last:
        if word[k] == a and k < last and word[k + 1] == b:
            out.append(new)
            k += 2
        else:
            out.append(word[k])
            k += 1
    return out


def apply(word: list[int], ranks: Mapping[Pair, tuple[int, int]]) -> list[int]:
    """Return a word after all merges, the earliest learnt first; `ranks` gives for a pair (when it was learnt, its
    token).

    A heap of the pairs over a linked list: n log n even for a piece of a megabyte.

    >>> apply([97, 97, 98], {(97, 98): (0, 256), (97, 256): (1, 257)})
    [257]
    """
    n = len(word)
    if n < 2:
        return word
    word, after, before = list(word), list(range(1, n + 1)), list(range(-1, n - 1))
    heap = [(*rank, k, word[k], word[k + 1]) for k in range(n - 1) if (rank := ranks.get((word[k], word[k + 1])))]
    heapq.heapify(heap)
    while heap:
        _, new, k, a, b = heapq.heappop(heap)
        right = after[k]
        if word[k] != a or right >= n or word[right] != b:
            continue  # one of the two has been merged meanwhile
        word[k], word[right] = new, -1
        after[k] = further = after[right]
        if further < n:
            before[further] = k
            if rank := ranks.get((new, word[further])):
                heapq.heappush(heap, (*rank, k, new, word[further]))
        left = before[k]
        if left >= 0 and (rank := ranks.get((word[left], new))):
            heapq.heappush(heap, (*rank, left, word[left], new))
    return [token for token in word if token >= 0]
