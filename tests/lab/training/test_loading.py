"""`lab.dataload`: what it recommends for loaders that are slow, quick or cannot be tried, and what it leaves alone."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import core
import lab
from core.utils.data import DataLoader, Dataset, IterableDataset, Sampler, TensorDataset
from lab.training import loading
from lab.training.loading import Loading, Trial


class Slow(Dataset[int]):
    """A sample takes a moment, as one that is read from a disk."""

    def __init__(self, seconds: float = 0.01) -> None:
        self.seconds = seconds
        self.asked: list[int] = []

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int) -> int:
        self.asked.append(index)
        time.sleep(self.seconds)
        return index


class Stream(IterableDataset[int]):
    def __init__(self) -> None:
        self.given = 0

    def __iter__(self) -> Iterator[int]:
        for k in range(1000):
            self.given += 1
            yield k


def nap(batch: Any) -> None:
    time.sleep(0.03)


def test_workers_are_recommended_for_a_slow_loader() -> None:
    loader = DataLoader(Slow(), batch_size=4, shuffle=True)
    found = lab.dataload(loader, nap, workers=[0, 2], batches=8)
    assert found.recommended == 2
    none, two = found.trials
    assert none.wait_s > 0.03
    assert two.wait_s < none.wait_s
    assert min(none.work_s, two.work_s) >= 0.03
    assert "Without workers the loop waits" in found.reason
    assert "A pass of 1,000 batches takes" in found.reason
    assert "persistent_workers" in str(found) or two.start_s < 0.05 * 30


def test_workers_are_not_worth_it_for_a_quick_loader() -> None:
    found = lab.dataload(DataLoader(range(4000), batch_size=4), nap, workers=[0, 1], batches=4)
    assert found.recommended == 0
    assert found.reason.startswith("Workers are not worth it: the loop waits")
    assert "num_workers=0 is right" in str(found)


def test_the_loader_its_data_and_random_numbers_are_as_before() -> None:
    data, generator = Slow(0.0), core.Generator()
    generator.manual_seed(5)
    loader = DataLoader(data, batch_size=4, shuffle=True, generator=generator)
    before = dict(vars(loader)), generator.get_state().tolist(), core.random.get_rng_state().tolist()
    python, numpy = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    draw = lambda batch: (random.random(), np.random.rand(), core.rand(2))  # noqa: NPY002
    found = lab.dataload(loader, draw, workers=[0], batches=3)
    assert dict(vars(loader)) == before[0]
    assert generator.get_state().tolist() == before[1]
    assert core.random.get_rng_state().tolist() == before[2]
    assert random.getstate() == python
    assert np.random.get_state()[1].tolist() == numpy  # noqa: NPY002
    assert data.asked == []
    assert not found.notes  # the order was the loader's own


def test_what_the_step_trains_is_put_back() -> None:
    model = core.nn.Sequential(core.nn.Linear(1, 2), core.nn.Dropout())
    model.eval()
    optimizer = core.optim.Adam(model.parameters(), lr=0.1)
    weight = model[0].weight
    weight.grad = core.ones(2, 1)
    given, before = weight.grad, weight.tolist()
    seen: list[bool] = []

    def train(batch: Any) -> None:
        model.train()
        optimizer.zero_grad()
        model(batch[0]).square().sum().backward()
        optimizer.step()
        seen.append(weight.tolist() != before)

    lab.dataload(DataLoader(TensorDataset(core.rand(64, 1)), batch_size=8), train, workers=[0], batches=3)
    assert any(seen)
    assert weight.tolist() == before
    assert weight.grad is given
    assert given.tolist() == [[1.0], [1.0]]
    assert not model.training
    assert not model[1].training
    assert not optimizer.state_dict()["state"]


def test_a_stream_is_tried_on_a_copy_and_without_workers() -> None:
    stream = Stream()
    found = lab.dataload(DataLoader(stream, batch_size=4), workers=[0, 2], batches=4)
    assert [t.workers for t in found.trials] == [0]
    assert found.recommended == 0
    assert "get_worker_info()" in str(found)
    assert stream.given == 0


def test_what_cannot_be_copied_is_not_tried() -> None:
    class Holds(Stream):
        def __init__(self) -> None:
            self.rows = (k for k in range(10))

        def __iter__(self) -> Iterator[int]:
            return self.rows

    stream = Holds()
    found = lab.dataload(DataLoader(stream, batch_size=2))
    assert found.recommended is None
    assert found.trials == []
    assert "cannot be copied (TypeError: cannot pickle 'generator' object)" in found.reason
    assert next(stream.rows) == 0


class Remembers(Sampler[int]):
    """Goes on where the last pass ended."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Iterator[int]:
        for _ in range(16):
            self.at += 1
            yield self.at

    def __len__(self) -> int:
        return 16


def test_of_a_sampler_that_keeps_state_a_copy_is_asked() -> None:
    sampler = Remembers()
    loader = DataLoader(Slow(0.0), batch_size=4, sampler=sampler)
    assert not lab.dataload(loader, workers=[0], batches=2).notes[1:]
    assert sampler.at == 0
    sampler.held = (k for k in range(3))  # type: ignore[attr-defined]
    notes = lab.dataload(loader, workers=[0], batches=2).notes
    assert any("sampler BatchSampler cannot be tried on a copy" in note for note in notes)
    assert sampler.at == 0


def test_single_samples_and_a_failing_data_set() -> None:
    assert lab.dataload(DataLoader(range(9), batch_size=None), workers=[0], batches=2).recommended == 0

    class Broken(Slow):
        def __getitem__(self, index: int) -> int:
            raise KeyError(index)

    found = lab.dataload(DataLoader(Broken()), workers=[0])
    assert found.recommended is None
    assert found.reason == "Every trial failed: KeyError: 0"


def test_the_time_is_bounded() -> None:
    begin = time.perf_counter()
    found = lab.dataload(DataLoader(Slow(0.05)), workers=[0], batches=10_000, seconds=0.3)
    assert 0 < found.trials[0].batches < 100
    assert time.perf_counter() - begin < 10


def told(length: int | None, persistent: bool, *trials: Trial) -> Loading:
    found = Loading(list(trials), worked=True)
    loading._judge(found, length, persistent)
    return found


def test_the_number_is_the_smallest_that_is_about_as_fast_as_any() -> None:
    none, two = Trial(0, 9, 0.1, 0.1, 0.1), Trial(2, 9, 1.0, 0.02, 0.1)
    four, eight = Trial(4, 9, 2.0, 0.0, 0.1), Trial(8, 9, 4.0, 0.0, 0.1)
    assert told(10_000, False, none, two, four, eight).recommended == 4
    assert told(None, False, none, two, four, eight).recommended == 4
    assert told(10_000, False, none, two, Trial(4, failed="out of memory")).recommended == 2


def test_a_short_pass_is_not_worth_the_start_unless_workers_persist() -> None:
    none, two = Trial(0, 9, 0.1, 0.1, 0.1), Trial(2, 9, 3.0, 0.0, 0.1)
    found = told(10, False, none, two)
    assert found.recommended == 0
    assert "a pass of 10 batches is too short for that (30 would do, or persistent_workers=True)" in found.reason
    assert told(10, True, none, two).recommended == 2


def test_what_cannot_be_asked() -> None:
    with pytest.raises(TypeError, match="list is no DataLoader"):
        lab.dataload([1, 2])
    with pytest.raises(ValueError, match="workers are numbers from 0 on; came:"):
        lab.dataload(DataLoader(range(3)), workers=[-1])
    with pytest.raises(ValueError, match="batches and seconds are above 0"):
        lab.dataload(DataLoader(range(3)), batches=0)
