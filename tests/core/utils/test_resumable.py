"""A run that is broken off anywhere goes on to the same losses, whatever order its data come in."""

from __future__ import annotations

import random

import numpy as np
import pytest

import core
from core.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)


class Noisy(TensorDataset):
    """Draws from all three sources whenever a sample is read."""

    reads = 0

    def __getitem__(self, index):
        Noisy.reads += 1
        (x,) = super().__getitem__(index)
        return x + core.randn(3) * 0.1 + random.random() + np.random.rand()  # noqa: NPY002


class Stream(IterableDataset):
    def __iter__(self):
        for _ in range(12):
            yield core.rand(3)


class Stop(Exception):
    pass


def loaders(name: str):
    data = TensorDataset(core.linspace(-1, 1, 36).reshape(12, 3))
    own = core.Generator().manual_seed(5)
    return {
        "in order": lambda: DataLoader(data, 4),
        "shuffled": lambda: DataLoader(data, 4, shuffle=True),
        "own generator": lambda: DataLoader(data, 4, shuffle=True, generator=own),
        "with replacement": lambda: DataLoader(data, 4, sampler=RandomSampler(data, True, 12, own), generator=own),
        "subset": lambda: DataLoader(data, 4, sampler=SubsetRandomSampler(range(1, 12)), drop_last=True),
        "weights": lambda: DataLoader(data, 4, sampler=WeightedRandomSampler([1.0] * 6 + [2.0] * 6, 12)),
        "batch sampler": lambda: DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 5, False)),
        "single samples": lambda: DataLoader(data, batch_size=None, sampler=RandomSampler(data, num_samples=4)),
        "noisy": lambda: DataLoader(Noisy(data.tensors[0]), 4, shuffle=True),
        "stream": lambda: DataLoader(Stream(), 4),
        "list": lambda: [core.ones(2, 3) * k for k in range(3)],
        "generator": lambda: Fresh(),
    }[name]()


class Fresh:
    def __iter__(self):
        return (core.rand(2, 3) for _ in range(3))


KINDS = ["in order", "shuffled", "own generator", "with replacement", "subset", "weights", "batch sampler",
         "single samples", "noisy", "stream", "list", "generator"]  # fmt: skip


def train(path, kind: str, stop: int | None = None, epochs: int = 3, **settings) -> list[float]:
    """The losses of a run; broken off before the step `stop`."""
    core.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    model = core.nn.Sequential(core.nn.Linear(3, 4), core.nn.BatchNorm1d(4), core.nn.Dropout(0.3), core.nn.Linear(4, 1))
    optimizer = core.optim.Adam(model.parameters(), lr=0.05)
    schedule = core.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
    noise = core.Generator().manual_seed(3)
    loader = loaders(kind)
    run = core.utils.Resumable(path, model=model, optimizer=optimizer, schedule=schedule, noise=noise, **settings)
    losses = run.values.setdefault("losses", [])
    for epoch in run.epochs(epochs):
        for batch in run.batches(loader):
            if stop is not None and len(losses) >= stop:
                raise Stop
            x = batch[0] if isinstance(batch, list) else batch
            x = x.reshape(-1, 3).repeat(2, 1)
            loss = (model(x) - core.randn(1) - core.randn(1, generator=noise)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item() + epoch)
        losses.append(core.rand(1).item())  # as validation might
        schedule.step()
    return losses


@pytest.mark.parametrize(("kind", "ending"), [*((k, "safetensors") for k in KINDS), ("shuffled", "pt")])
def test_the_losses_are_those_of_the_whole_run(kind, ending, tmp_path):
    whole = train(tmp_path / "whole.pt", kind)
    assert len(set(whole)) == len(whole) > 8
    for stop in (2, 5) if ending == "safetensors" else (6,):
        path = tmp_path / f"{stop}.{ending}"
        with pytest.raises(Stop):
            train(path, kind, stop, every=1)
        with pytest.raises(Stop):  # and once more, at once and a little later
            train(path, kind, stop, every=1)
        with pytest.raises(Stop):
            train(path, kind, stop + 1, every=1)
        assert train(path, kind, every=1) == whole
        assert train(path, kind) == whole, "a finished run is finished"


def test_what_was_seen_is_not_read_again_in_this_process(tmp_path):
    with pytest.raises(Stop):
        train(tmp_path / "a", "noisy", 2, every=1)
    Noisy.reads = 0
    train(tmp_path / "a", "noisy", epochs=1)
    assert Noisy.reads == 4


def test_saving_every_few_batches_and_seconds(tmp_path):
    with pytest.raises(Stop):
        train(tmp_path / "a", "shuffled", 2, every=2)
    assert core.load(tmp_path / "a")["batch"] == 2
    with pytest.raises(Stop):
        train(tmp_path / "b", "shuffled", 1, seconds=0)
    assert core.load(tmp_path / "b")["batch"] == 1
    with pytest.raises(Stop):
        train(tmp_path / "c", "shuffled", 2)
    assert not (tmp_path / "c").exists()


def two_loops(path, stop=None):
    core.manual_seed(1)
    w = core.nn.Parameter(core.zeros(1))
    optimizer = core.optim.SGD([w], lr=0.1)
    data = DataLoader(TensorDataset(core.arange(6.0)), shuffle=True)
    run = core.utils.Resumable(path, every=1, optimizer=optimizer, w=core.nn.ParameterList([w]))
    seen = run.values.setdefault("seen", [])
    for _ in run.epochs(2):
        for loop in range(2):
            for (x,) in run.batches(data):
                if stop is not None and len(seen) >= stop:
                    raise Stop
                seen.append((loop, x.item()))
                if loop == 0 and len(seen) % 3 == 0:
                    break
    return seen


def test_several_loops_in_an_epoch_and_loops_that_are_broken_off(tmp_path):
    whole = two_loops(tmp_path / "whole")
    for stop in (2, 5, 8, 11):
        path = tmp_path / str(stop)
        with pytest.raises(Stop):
            two_loops(path, stop)
        assert two_loops(path) == whole


@pytest.mark.by_turns
def test_workers_go_on_where_they_stood(tmp_path):
    def pass_over(path, stop=None):
        core.manual_seed(2)
        data = TensorDataset(core.arange(12.0))
        loader = DataLoader(data, 3, shuffle=True, num_workers=1)
        run = core.utils.Resumable(path, every=1)
        seen = run.values.setdefault("seen", [])
        for _ in run.epochs(1):
            for (x,) in run.batches(loader):
                if stop is not None and len(seen) >= stop:
                    raise Stop
                seen.append([*x.tolist(), core.rand(1).item()])
        return seen

    whole = pass_over(tmp_path / "whole")
    with pytest.raises(Stop):
        pass_over(tmp_path / "a", 2)
    assert pass_over(tmp_path / "a") == whole


def test_mistakes(tmp_path):
    model = core.nn.Linear(1, 1)
    with pytest.raises(TypeError, match=r"(?s)the part 'lr' is a float.*run.values\['lr'\]"):
        core.utils.Resumable(tmp_path / "a", lr=0.1)
    core.utils.Resumable(tmp_path / "a", model=model).save()
    with pytest.raises(KeyError, match="other parts"):
        core.utils.Resumable(tmp_path / "a", net=model)
    core.save(1, tmp_path / "b")
    with pytest.raises(KeyError, match="no file of Resumable"):
        core.utils.Resumable(tmp_path / "b", model=model)
    assert "epoch=0" in repr(core.utils.Resumable(tmp_path / "a", model=model))
