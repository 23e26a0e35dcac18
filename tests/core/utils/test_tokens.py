"""Batches of sequences under a budget of tokens, padded or packed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import core
from core.utils.data import DataLoader, PackCollate, PadCollate, TokenBatchSampler


@given(lengths=st.lists(st.integers(0, 40), max_size=80), budget=st.integers(40, 120), multiple=st.sampled_from([1, 8]),
       most=st.sampled_from([None, 3]), shuffle=st.booleans(), drop=st.booleans(),
       spread=st.sampled_from([1.0, 1.1, 2.0]))  # fmt: skip
def test_every_sample_comes_once_and_no_batch_is_over_the_budget(
    lengths: list[int], budget: int, multiple: int, most: int | None, shuffle: bool, drop: bool, spread: float
) -> None:
    sampler = TokenBatchSampler(lengths, budget, max_samples=most, shuffle=shuffle, multiple_of=multiple,
                                drop_last=drop, spread=spread)  # fmt: skip
    batches = list(sampler)
    assert len(batches) == len(sampler)
    found = [i for b in batches for i in b]
    assert len(set(found)) == len(found)
    assert drop or sorted(found) == list(range(len(lengths)))
    for batch in batches:
        longest = max(1, *(lengths[i] for i in batch), 1)
        assert len(batch) * (-(-longest // multiple) * multiple) <= budget
        assert len(batch) <= (most or 1000)


def test_little_is_padding(rng: np.random.Generator) -> None:
    lengths = rng.lognormal(3.5, 0.7, 20_000).astype(int) + 1
    batches = list(TokenBatchSampler(lengths, 8192))
    assert sum(lengths) / sum(len(b) * lengths[b].max() for b in batches) > 0.92
    assert sum(lengths) / (len(batches) * 8192) > 0.88  # and the batches are full


def test_the_order_follows_the_seed_and_the_epoch() -> None:
    lengths = list(range(1, 60)) * 3
    a, b = (TokenBatchSampler(lengths, 200, seed=7) for _ in range(2))
    first = list(a)
    assert first == list(b) == list(a)
    a.set_epoch(1)
    second = list(a)
    assert second != first
    assert sorted(map(len, second)) == sorted(map(len, first))
    core.manual_seed(2)
    free = TokenBatchSampler(lengths, 200)
    one, two = list(free), list(free)
    assert one != two
    core.manual_seed(2)
    assert list(free) == one
    generator = core.Generator().manual_seed(5)
    own = list(TokenBatchSampler(lengths, 200, generator=generator))
    assert own == list(TokenBatchSampler(lengths, 200, generator=core.Generator().manual_seed(5)))


@pytest.mark.parametrize(("arguments", "message"), [
    (([3, 50, 4], 20), "sample 1 does not fit into a batch of 20 tokens"),
    (([[3]], 20), "1d sequence of integers"),
    (([0.5], 20), "1d sequence of integers"),
    (([3], 0), "max_tokens should be a positive integer value"),
])  # fmt: skip
def test_odd_uses_raise(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TokenBatchSampler(*arguments)
    with pytest.raises(ValueError, match="spread should be at least 1"):
        TokenBatchSampler([1], 2, spread=0.5)


def test_a_loader_pads_with_workers_as_without() -> None:
    texts = [(core.arange(1, n + 1), n % 2) for n in (3, 9, 4, 4, 8, 2, 7)]
    sampler = TokenBatchSampler([len(t) for t, _ in texts], 20, seed=0)
    found = []
    for workers in (0, 1):
        collate = PadCollate(padding_value=-1, lengths=True, multiple_of=2)
        loader = DataLoader(texts, batch_sampler=sampler, collate_fn=collate, num_workers=workers)
        found.append([(x.tolist(), n.tolist(), y.tolist()) for (x, n), y in loader])
    assert found[0] == found[1]
    for rows, lengths, labels in found[0]:
        assert len(rows[0]) % 2 == 0
        assert [[i for i in row if i > 0] for row in rows] == [list(range(1, n + 1)) for n in lengths]
        assert labels == [n % 2 for n in lengths]


def test_sequences_are_padded_in_any_structure() -> None:
    batch = [{"x": core.ones(2, 3), "y": 1, "t": "a"}, {"x": core.ones(4, 3), "y": 2, "t": "b"}]
    found = PadCollate(batch_first=False)(batch)
    assert found["x"].shape == (4, 2, 3)
    assert found["x"].sum().item() == 18
    assert (found["y"].tolist(), found["t"]) == ([1, 2], ["a", "b"])
    assert PadCollate()([np.ones(2), np.ones(3)]).tolist() == [[1, 1, 0], [1, 1, 1]]
    assert PadCollate()([core.tensor(1), core.tensor(2)]).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="may differ in their first dimension alone"):
        PadCollate()([core.ones(2, 3), core.ones(2, 4)])


def test_a_packed_batch_crosses_and_runs_through_an_lstm() -> None:
    data = [(core.randn(n, 3), n) for n in (2, 5, 1, 4)]
    ((packed, labels),) = DataLoader(data, batch_size=4, collate_fn=PackCollate(), num_workers=1)
    assert type(packed) is core.nn.utils.rnn.PackedSequence
    assert labels.tolist() == [2, 5, 1, 4]
    padded, lengths = core.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    assert lengths.tolist() == [2, 5, 1, 4]
    for row, (x, n) in zip(padded, data, strict=True):
        assert bool((row[:n] == x).all())
    _, (h, _) = core.nn.LSTM(3, 4)(packed)
    assert h.shape == (1, 4, 4)
