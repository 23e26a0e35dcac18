"""Data sets, samplers and collating."""

from __future__ import annotations

from collections import Counter, OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest

import core
from core.utils import data

Point = namedtuple("Point", "x y")


def test_tensors_are_indexed_together() -> None:
    d = data.TensorDataset(core.arange(4), core.arange(8).reshape(4, 2))
    assert [t.tolist() for t in d[2]] == [2, [4, 5]]
    assert len(d) == 4
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(core.arange(4), core.arange(5))


def test_data_sets_are_put_one_after_the_other() -> None:
    d = data.TensorDataset(core.arange(2)) + data.TensorDataset(core.arange(3))
    assert isinstance(d, data.ConcatDataset)
    assert [d[i][0].item() for i in range(5)] == [0, 1, 0, 1, 2]
    assert d[-5][0].item() == 0
    with pytest.raises(ValueError, match="absolute value of index should not exceed dataset length"):
        d[-6]
    with pytest.raises(IndexError, match="needed: below 5"):
        d[5]


def test_data_sets_are_put_side_by_side() -> None:
    assert data.StackDataset([1, 2], "ab")[1] == (2, "b")
    assert data.StackDataset(n=[1, 2], c="ab")[0] == {"n": 1, "c": "a"}
    with pytest.raises(ValueError, match="Size mismatch between datasets"):
        data.StackDataset([1], "ab")


def test_streams_are_put_one_after_the_other() -> None:
    class Stream(data.IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter([1, 2])

    assert list(Stream() + Stream()) == [1, 2, 1, 2]
    with pytest.raises(AssertionError, match="does not support IterableDataset"):
        data.ConcatDataset([Stream()])


def test_a_part_is_a_view_of_the_whole() -> None:
    part = data.Subset(data.Subset("abcdef", [5, 4, 3, 2]), [0, 2])
    assert (part[1], part.__getitems__([0, 1]), len(part)) == ("d", ["f", "d"], 2)

    with pytest.raises(NotImplementedError, match="overrides __getitem__ but not __getitems__"):
        type("Half", (data.Subset,), {"__getitem__": lambda self, i: 0})("abc", [0])


def test_a_split_gives_every_sample_to_one_part() -> None:
    core.manual_seed(0)
    parts = data.random_split(range(10), [3, 7])
    assert sorted(i for part in parts for i in part) == list(range(10))
    assert [len(p) for p in data.random_split(range(11), [0.5, 0.5])] == [6, 5]
    with pytest.raises(ValueError, match="Sum of input lengths does not equal"):
        data.random_split(range(10), [3, 3])
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        data.random_split(range(10), [-0.5, 1.5])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split(range(2), [0.999, 0.001])


def test_samplers_draw_what_they_say() -> None:
    core.manual_seed(0)
    assert len(list(data.RandomSampler(range(5), replacement=True, num_samples=70))) == 70
    assert Counter(data.RandomSampler(range(4), num_samples=8)) == dict.fromkeys(range(4), 2)
    assert sorted(data.SubsetRandomSampler([3, 5, 8])) == [3, 5, 8]
    counts = Counter(data.WeightedRandomSampler([0.0, 1.0, 3.0], 4000))
    assert counts[0] == 0
    assert 2.6 < counts[2] / counts[1] < 3.5
    once = list(data.WeightedRandomSampler([1.0, 2.0, 3.0], 3, replacement=False))
    assert sorted(once) == [0, 1, 2]
    with pytest.raises(ValueError, match="num_samples should be a positive integer value, but got num_samples=0"):
        data.RandomSampler([])
    with pytest.raises(TypeError, match="replacement should be a boolean"):
        data.RandomSampler(range(3), replacement=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weights should be a 1d sequence"):
        data.WeightedRandomSampler([[1.0]], 1)


def test_batches_of_indices() -> None:
    assert list(data.BatchSampler(range(7), 3, drop_last=False)) == [[0, 1, 2], [3, 4, 5], [6]]
    dropped = data.BatchSampler(range(7), 3, drop_last=True)
    assert list(dropped) == [[0, 1, 2], [3, 4, 5]]
    assert len(dropped) == 2
    with pytest.raises(ValueError, match="batch_size should be a positive integer"):
        data.BatchSampler(range(7), True, drop_last=False)


def test_containers_keep_their_kind() -> None:
    batch = data.default_collate([OrderedDict(a=1, p=Point(1.0, "u")), OrderedDict(a=2, p=Point(2.0, "v"))])
    assert type(batch) is OrderedDict
    assert type(batch["p"]) is Point
    assert batch["p"].x.dtype is core.float64
    assert batch["p"].y == ("u", "v")
    assert [t.tolist() for t in data.default_collate([(1, 2), (3, 4)])] == [[1, 3], [2, 4]]
    assert data.default_collate([np.float32(1), np.float32(2)]).dtype is core.float32
    assert data.default_collate([np.ones((2, 3))] * 4).shape == (4, 2, 3)
    converted = data.default_convert({"a": (np.ones(2), "text"), "n": np.int32(3), "p": Point(np.zeros(1), 2)})
    assert type(converted["a"][0]) is core.Tensor
    assert converted["n"].dtype is core.int32
    assert type(converted["p"]) is Point


def test_what_cannot_be_batched_is_said() -> None:
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors") as caught:
        data.default_collate([object(), object()])
    assert "collate_fn" in str(caught.value)
    with pytest.raises(TypeError, match="found <U1"):
        data.default_collate([np.array(["a"]), np.array(["b"])])
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        data.default_collate([[1, 2], [1]])
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        data.default_collate([core.ones(2), core.ones(3)])


def test_an_unwritten_data_set_says_so() -> None:
    with pytest.raises(NotImplementedError, match="should implement __getitem__"):
        data.Dataset()[0]


def test_a_share_for_each_process() -> None:
    def shares(n: int, parts: int, **options: object) -> list[list[int]]:
        return [list(core.utils.data.DistributedSampler(range(n), parts, rank, **options)) for rank in range(parts)]

    found = shares(11, 3)
    assert [len(s) for s in found] == [4, 4, 4]
    assert {i for s in found for i in s} == set(range(11))
    whole = shares(11, 3, drop_last=True)
    assert len({i for s in whole for i in s}) == 9
    sampler = core.utils.data.DistributedSampler(range(50), 2, 0, seed=1)
    first = list(sampler)
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first
    with pytest.raises(ValueError, match="Invalid rank 2"):
        core.utils.data.DistributedSampler(range(3), 2, 2)
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        core.utils.data.DistributedSampler(range(3))


def test_stacked_data_sets_give_whole_batches() -> None:
    class Many(list):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [self[i] * 10 for i in indices]

    assert core.utils.data.StackDataset(Many([1, 2, 3]), "abc").__getitems__([2, 0]) == [(30, "c"), (10, "a")]
    assert core.utils.data.StackDataset(a=[1, 2], b="xy").__getitems__([1]) == [{"a": 2, "b": "y"}]
