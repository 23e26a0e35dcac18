"""`core.utils.data` against PyTorch: orders drawn from torch's generator, batches, errors."""

from __future__ import annotations

import random
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402

Pair = namedtuple("Pair", "a b")


def seed(number: int) -> None:
    torch.manual_seed(number)
    core.manual_seed(number, kind="torch")


def plain(batch: Any) -> Any:
    """A batch with its tensors as (dtype, values)."""
    if isinstance(batch, core.Tensor | torch.Tensor):
        return str(batch.dtype).split(".")[1], batch.tolist()
    if isinstance(batch, dict):
        return {k: plain(v) for k, v in batch.items()}
    if isinstance(batch, list | tuple):
        return type(batch).__name__, [plain(b) for b in batch]
    return batch


ORDERS = {
    "random": lambda d: d.RandomSampler(range(11)),
    "more than once": lambda d: d.RandomSampler(range(5), num_samples=13),
    "with replacement": lambda d: d.RandomSampler(range(9), replacement=True, num_samples=70),
    "subset": lambda d: d.SubsetRandomSampler([3, 5, 7, 9, 100]),
    "weighted": lambda d: d.WeightedRandomSampler([0.1, 0.5, 2.0, 0.0, 1.0], 20),
    "weighted once": lambda d: d.WeightedRandomSampler([0.1, 0.5, 2.0, 0.3, 1.0], 4, replacement=False),
    "batches": lambda d: d.BatchSampler(d.RandomSampler(range(10)), 3, False),
    "whole batches": lambda d: d.BatchSampler(d.RandomSampler(range(10)), 3, True),
    "loader": lambda d: [b.tolist() for b in d.DataLoader(range(17), batch_size=4, shuffle=True)],
    "loader of singles": lambda d: d.DataLoader(range(17), batch_size=None, shuffle=True),
    "split": lambda d: [list(part.indices) for part in d.random_split(range(23), [10, 13])],
    "split by shares": lambda d: [list(part.indices) for part in d.random_split(range(23), [0.5, 0.25, 0.25])],
}


@pytest.mark.parametrize("name", ORDERS)
def test_orders_are_the_same(name: str) -> None:
    for number in (0, 7):
        seed(number)
        found = [[list(ORDERS[name](t.utils.data)) for _ in range(3)] for t in (core, torch)]
        assert found[0] == found[1]


def test_orders_from_an_own_generator_are_the_same() -> None:
    found = []
    for t, g in ((core, core.Generator(kind="torch")), (torch, torch.Generator())):
        g.manual_seed(42)
        loader = t.utils.data.DataLoader(range(20), batch_size=6, shuffle=True, generator=g, drop_last=True)
        found.append([[b.tolist() for b in loader] for _ in range(3)] + [len(loader)])
        parts = t.utils.data.random_split(range(20), [15, 5], generator=g)
        found[-1].append([list(p.indices) for p in parts])
    assert found[0] == found[1]


def test_training_draws_the_same_after_a_pass() -> None:
    seed(5)
    found = []
    for t in (core, torch):
        row = []
        for _ in range(3):
            row.append([b.tolist() for b in t.utils.data.DataLoader(range(7), batch_size=2, shuffle=True)])
            row.append(t.rand(3).tolist())
        found.append(row)
    assert found[0] == found[1]


BATCHES = {
    "ints": lambda t: [1, 2, 3],
    "floats": lambda t: [1.0, 2.5],
    "bools": lambda t: [True, False],
    "texts": lambda t: ["a", "b"],
    "bytes": lambda t: [b"a", b"b"],
    "tensors": lambda t: [t.tensor([1.0, 2.0]), t.tensor([3.0, 4.0])],
    "arrays": lambda t: [np.array([1, 2], np.int32), np.array([3, 4], np.int32)],
    "numpy numbers": lambda t: [np.float32(1.5), np.float32(2.5)],
    "numpy bools": lambda t: [np.bool_(True), np.bool_(False)],
    "tuples": lambda t: [(1, 2.0), (3, 4.0)],
    "lists": lambda t: [[1, "x"], [2, "y"]],
    "dicts": lambda t: [{"a": 1, "b": [t.tensor(2)]}, {"a": 3, "b": [t.tensor(4)]}],
    "named": lambda t: [Pair(1, 2.0), Pair(3, 4.0)],
    "nested": lambda t: [({"x": np.ones(2)}, (1, (2.0,))), ({"x": np.zeros(2)}, (3, (4.0,)))],
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_are_the_same(name: str) -> None:
    found = [plain(t.utils.data.default_collate(BATCHES[name](t))) for t in (core, torch)]
    assert found[0] == found[1]
    single = [plain(t.utils.data.default_convert(BATCHES[name](t)[0])) for t in (core, torch)]
    assert single[0] == single[1]


@pytest.mark.parametrize("options", [
    {}, {"batch_size": 4}, {"batch_size": 4, "drop_last": True}, {"batch_size": None},
    {"sampler": [3, 1, 2]}, {"batch_sampler": [[0, 1], [5]]}, {"batch_size": 3, "collate_fn": list},
])  # fmt: skip
def test_loaders_give_the_same(options: dict[str, Any]) -> None:
    found = []
    for t in (core, torch):
        data = t.utils.data.TensorDataset(t.arange(10), t.arange(10.0) / 3)
        loader = t.utils.data.DataLoader(data, **options)
        found.append((len(loader), [plain(b) for b in loader]))
    assert found[0] == found[1]


@pytest.mark.parametrize("options", [{}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}])
def test_streams_give_the_same(options: dict[str, Any]) -> None:
    found = []
    for t in (core, torch):

        class Stream(t.utils.data.IterableDataset):
            def __iter__(self) -> Any:
                return iter(range(8))

            def __len__(self) -> int:
                return 8

        loader = t.utils.data.DataLoader(Stream(), **options)
        found.append(([plain(b) for b in loader], len(loader)))
    assert found[0] == found[1]


# -- with worker processes ---------------------------------------------------------------------------------------------


class Noisy:
    """Samples with numbers drawn in the worker, from all three sources."""

    def __init__(self, t: Any) -> None:
        self.t = t

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> Any:
        info = self.t.utils.data.get_worker_info()
        return i, random.random(), np.random.rand(), self.t.rand(2), info.seed - info.id, info.num_workers  # noqa: NPY002


class Sharded:
    """A stream of which each worker gives its share; made a subclass of each package's IterableDataset below."""

    def __init__(self, t: Any, n: int) -> None:
        self.t, self.n = t, n

    def __iter__(self) -> Any:
        info = self.t.utils.data.get_worker_info()
        return iter(range(info.id, self.n, info.num_workers))


class OurStream(Sharded, core.utils.data.IterableDataset):
    pass


class TheirStream(Sharded, torch.utils.data.IterableDataset):
    pass


for cls in (Noisy, Sharded, OurStream):  # sent as a whole: importing this file would import torch in every worker
    for thing in (cls, *filter(callable, vars(cls).values())):
        if hasattr(thing, "__qualname__"):
            thing.__module__ = "__main__"

WITH_WORKERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "shuffled": (lambda t: list(range(23)), {"batch_size": 4, "shuffle": True, "num_workers": 2}),
    "single": (lambda t: list(range(9)), {"batch_size": None, "shuffle": True, "num_workers": 1}),
    "prefetched": (lambda t: list(range(23)), {"batch_size": 2, "num_workers": 3, "prefetch_factor": 4}),
    "drawn": (Noisy, {"batch_size": 2, "shuffle": True, "num_workers": 2}),
    "stream": (lambda t: (OurStream if t is core else TheirStream)(t, 21), {"batch_size": 2, "num_workers": 2}),
    "whole batches": (lambda t: (OurStream if t is core else TheirStream)(t, 21),
                      {"batch_size": 3, "num_workers": 3, "drop_last": True}),
    "dicts": (lambda t: [{"a": i, "b": [np.ones(i % 2 + 1)[:1] * i]} for i in range(6)],
              {"batch_size": 3, "num_workers": 2}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch forks
@pytest.mark.parametrize("name", WITH_WORKERS)
def test_workers_give_the_same(name: str) -> None:
    """Two passes with new workers each, and what is drawn afterwards."""
    found = []
    make, options = WITH_WORKERS[name]
    for t in (core, torch):
        seed(11)
        loader = t.utils.data.DataLoader(make(t), **options)
        found.append([[plain(b) for b in loader] for _ in range(2)] + [t.rand(2).tolist()])
    assert found[0] == found[1]


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(("n", "parts", "drop"), [(11, 3, False), (11, 3, True), (2, 5, False), (12, 4, True)])
def test_shares_of_processes_are_the_same(n: int, parts: int, drop: bool, shuffle: bool) -> None:
    seed(1)
    found = []
    for t in (core, torch):
        row = []
        for rank in range(parts):
            sampler = t.utils.data.DistributedSampler(range(n), parts, rank, shuffle=shuffle, seed=3, drop_last=drop)
            sampler.set_epoch(2)
            row.append((len(sampler), list(sampler)))
        found.append(row)
    assert found[0] == found[1]


def test_all_names_are_there_but_pipes_for_data() -> None:
    mine, theirs = set(core.utils.data.__all__), set(torch.utils.data.__all__)
    assert {n for n in theirs - mine if "pipe" not in n.lower()} == {
        "DataChunk", "_DatasetKind", "argument_validation", "non_deterministic", "runtime_validation",
        "runtime_validation_disabled",
    }  # fmt: skip


ODD = {
    "sampler and shuffle": lambda d: d.DataLoader(range(3), sampler=[0], shuffle=True),
    "batch sampler and size": lambda d: d.DataLoader(range(3), batch_size=2, batch_sampler=[[0]]),
    "drop_last alone": lambda d: d.DataLoader(range(3), batch_size=None, drop_last=True),
    "batch size": lambda d: d.DataLoader(range(3), batch_size=0),
    "workers": lambda d: d.DataLoader(range(3), num_workers=-1),
    "context": lambda d: d.DataLoader(range(3), multiprocessing_context="spawn"),
    "wrong rank": lambda d: d.DistributedSampler(range(3), 2, 5),
    "timeout": lambda d: d.DataLoader(range(3), timeout=-1),
    "prefetch": lambda d: d.DataLoader(range(3), prefetch_factor=2),
    "persistent": lambda d: d.DataLoader(range(3), persistent_workers=True),
    "empty and shuffled": lambda d: d.DataLoader([], shuffle=True),
    "changed": lambda d: setattr(d.DataLoader(range(3)), "batch_size", 2),
    "replacement": lambda d: d.RandomSampler(range(3), replacement=1),
    "weights": lambda d: d.WeightedRandomSampler([[1.0]], 2),
    "unequal": lambda d: d.default_collate([[1], [1, 2]]),
    "no item": lambda d: d.Dataset()[0],
    "no datasets": lambda d: d.ConcatDataset([]),
}


@pytest.mark.parametrize("name", ODD)
def test_a_wrong_use_raises_the_same(name: str) -> None:
    texts = []
    for t in (core, torch):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is compared
            ODD[name](t.utils.data)
        texts.append((type(caught.value).__name__, str(caught.value)))
    ours, theirs = texts
    assert (ours[0], ours[1].split("\n  op: ")[0]) == theirs  # our lines follow PyTorch's
