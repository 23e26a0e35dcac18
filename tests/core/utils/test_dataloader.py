"""Loaders: batches, orders, ends, and the options that exclude each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core.events import observe
from core.utils.data import DataLoader, IterableDataset, RandomSampler, Subset, TensorDataset


class Ops(observe.Observer):
    """Notes the names of ops."""

    def __init__(self) -> None:
        self.ops: list[str] = []

    def op(self, event: observe.OpEvent) -> None:
        self.ops.append(event.op)


def values(loader: Any) -> list[Any]:
    return [b.tolist() for b in loader]


def flat(loader: Any) -> list[int]:
    return [i for b in loader for i in b.tolist()]


def test_batches_come_in_order_and_the_last_may_be_short() -> None:
    loader = DataLoader(range(7), batch_size=3)
    assert values(loader) == values(loader) == [[0, 1, 2], [3, 4, 5], [6]]
    assert len(loader) == 3
    whole = DataLoader(range(7), batch_size=3, drop_last=True)
    assert values(whole) == [[0, 1, 2], [3, 4, 5]]
    assert len(whole) == 2


def test_a_shuffled_pass_holds_every_sample_once_in_a_new_order() -> None:
    core.manual_seed(0)
    loader = DataLoader(range(100), batch_size=10, shuffle=True)
    first, second = flat(loader), flat(loader)
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second != list(range(100))
    core.manual_seed(0)
    assert flat(loader) == first


def test_a_generator_decides_the_order_alone() -> None:
    def order(seed: int) -> list[Any]:
        return values(DataLoader(range(50), batch_size=50, shuffle=True, generator=core.Generator().manual_seed(seed)))

    core.manual_seed(1)
    a = order(3)
    core.manual_seed(2)
    assert order(3) == a
    assert order(4) != a


def test_batches_of_tuples_are_lists_of_tensors() -> None:
    data = TensorDataset(core.arange(6.0).reshape(3, 2), core.tensor([0, 1, 0]))
    x, y = next(iter(DataLoader(data, batch_size=2)))
    assert (x.tolist(), y.tolist()) == ([[0.0, 1.0], [2.0, 3.0]], [0, 1])
    assert x.dtype is core.float32


def test_a_batch_of_tensors_is_gathered_at_once() -> None:
    data = TensorDataset(core.arange(20.0).reshape(10, 2), core.arange(10))
    part = Subset(Subset(data, [9, 8, 7, 6, 5]), [4, 0, 1])
    for source, order in ((data, [3, 3, 0]), (part, [2, 1])):
        listener = Ops()
        with observe.observing(listener):
            (batch,) = DataLoader(source, batch_sampler=[order])
        assert listener.ops == ["index", "index"]
        rows = [source[i] for i in order]
        assert [t.tolist() for t in batch] == [[r[k].tolist() for r in rows] for k in range(2)]
    with pytest.raises(IndexError):
        next(iter(DataLoader(data, batch_sampler=[[10]])))


def test_single_samples_are_converted() -> None:
    loader = DataLoader([np.ones(2, np.float32), np.zeros(2, np.float32)], batch_size=None)
    assert [type(b) for b in loader] == [core.Tensor, core.Tensor]
    assert len(loader) == 2
    with_list = DataLoader(range(4), batch_size=2, collate_fn=list)
    assert list(with_list) == [[0, 1], [2, 3]]


def test_a_data_set_may_give_whole_batches() -> None:
    class Squares:
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [i * i for i in indices]

        def __len__(self) -> int:
            return 5

    assert values(DataLoader(Squares(), batch_size=2)) == [[0, 1], [4, 9], [16]]


def test_samplers_of_ones_own_decide() -> None:
    assert values(DataLoader("abc", sampler=[2, 0], collate_fn=lambda b: core.tensor([ord(c) for c in b]))) == [
        [99],
        [97],
    ]
    assert values(DataLoader(range(9), batch_sampler=[[8, 1], [4]])) == [[8, 1], [4]]
    assert (
        len(DataLoader(range(9), sampler=RandomSampler(range(9), replacement=True, num_samples=20), batch_size=8)) == 3
    )


class Stream(IterableDataset[int]):
    def __init__(self, n: int, said: int | None = None) -> None:
        self.n, self.said = n, said

    def __iter__(self) -> Any:
        return iter(range(self.n))

    def __len__(self) -> int:
        if self.said is None:
            raise TypeError("no length")
        return self.said


def test_a_stream_is_read_to_its_end() -> None:
    loader = DataLoader(Stream(5), batch_size=2)
    assert values(loader) == values(loader) == [[0, 1], [2, 3], [4]]
    assert values(DataLoader(Stream(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]
    assert len(DataLoader(Stream(5, said=5), batch_size=2)) == 3
    with pytest.raises(TypeError, match="no length"):
        len(loader)


def test_a_stream_longer_than_it_said_warns() -> None:
    loader = DataLoader(Stream(3, said=2), batch_size=None)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="was reported to be 2"):
        list(loader)


@pytest.mark.parametrize(("options", "message"), [
    ({"sampler": [0], "shuffle": True}, "mutually exclusive with shuffle"),
    ({"batch_sampler": [[0]], "drop_last": True}, "mutually exclusive with batch_size, shuffle, sampler"),
    ({"batch_size": None, "drop_last": True}, "mutually exclusive with drop_last"),
    ({"batch_size": 0}, "batch_size should be a positive integer value, but got batch_size=0"),
    ({"drop_last": 1}, "drop_last should be a boolean value"),
    ({"num_workers": -1}, "num_workers option should be non-negative"),
    ({"timeout": -1}, "timeout option should be non-negative"),
    ({"multiprocessing_context": "spawn"}, "can only be used with multi-process loading"),
])  # fmt: skip
def test_options_that_exclude_each_other_raise(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataLoader(range(3), **options)


@pytest.mark.parametrize("name", ["shuffle", "sampler", "batch_sampler"])
def test_a_stream_takes_no_order(name: str) -> None:
    with pytest.raises(ValueError, match=f"expected unspecified {name} option"):
        DataLoader(Stream(3), **{name: [True]})


def test_a_loader_keeps_its_options() -> None:
    loader = DataLoader(range(3))
    with pytest.raises(ValueError, match="batch_size attribute should not be set after DataLoader is initialized"):
        loader.batch_size = 2
    loader.collate_fn = list
    assert list(loader) == [[0], [1], [2]]


def test_an_error_in_the_data_set_reaches_the_caller() -> None:
    class Broken:
        def __getitem__(self, i: int) -> int:
            raise KeyError(f"sample {i}")

        def __len__(self) -> int:
            return 2

    with pytest.raises(KeyError, match="sample 0"):
        next(iter(DataLoader(Broken())))
