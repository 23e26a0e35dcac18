"""`Resumable`: a training run that can be killed at any moment and goes on to the very same losses."""

from __future__ import annotations

import copy
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..base.device import device as Device
from ..base.errors import text
from ..rng.generator import Generator, default_of, states
from ..serialization import load, save
from ..tensors.tensor import Tensor, from_array

__all__ = ["Resumable"]


class Resumable:
    """A training run in a file: what it has learned, where it stands in its data, and its random numbers.

    path : the file; if it is there, everything is taken up from it. It is replaced in one step (see `core.save`), so
        it is whole whenever the run is killed.
    every, seconds : save after so many batches, or when so many seconds have passed; besides after every epoch.
    map_location : as for `core.load`, when the run goes on on another device.
    parts : by name what is to be saved: modules, optimizers, schedules, whatever has `state_dict` and
        `load_state_dict`, and generators.

    `epochs` and `batches` go around the ordinary loops and begin where the file stands. In the middle of an epoch the
    order of the data is that of the interrupted one: the random numbers of its beginning are kept, the batches that
    were seen are passed over, and then the generators are set to where they stood: `core`'s own on every device, the
    loader's, Python's `random` and `numpy.random`. `values` is a dict for anything else that should survive: losses,
    the best result.

    A loader in this process passes over batches without reading them; one with workers, a stream, or any other
    iterable is read up to the place (``batches(loader, replay=False)`` spares that where the data set draws no random
    numbers). What workers draw follows from the loader's seed, so it is repeated, too.

    *Raises*: KeyError where the file has other parts; TypeError for a part without `state_dict`.

    >>> import core, os, tempfile
    >>> def train(path, stop=None):
    ...     core.manual_seed(0)
    ...     model = core.nn.Linear(2, 1)
    ...     optimizer = core.optim.Adam(model.parameters())
    ...     data = core.utils.data.TensorDataset(core.rand(8, 2))
    ...     loader = core.utils.data.DataLoader(data, batch_size=2, shuffle=True)
    ...     run = core.utils.Resumable(path, every=1, model=model, optimizer=optimizer)
    ...     losses = run.values.setdefault("losses", [])
    ...     for epoch in run.epochs(2):
    ...         for (x,) in run.batches(loader):
    ...             if len(losses) == stop:
    ...                 return losses
    ...             loss = model(x).square().mean()
    ...             optimizer.zero_grad()
    ...             loss.backward()
    ...             optimizer.step()
    ...             losses.append(loss.item())
    ...     return losses
    >>> folder = tempfile.mkdtemp()
    >>> whole = train(os.path.join(folder, "whole.safetensors"))
    >>> _ = train(os.path.join(folder, "broken.safetensors"), stop=3)  # as if it had been killed
    >>> train(os.path.join(folder, "broken.safetensors")) == whole
    True
    """

    def __init__(self, path: Any, *, every: int | None = None, seconds: float | None = None, map_location: Any = None,
                 **parts: Any) -> None:  # fmt: skip
        for name, part in parts.items():
            if not isinstance(part, Generator) and not all(hasattr(part, n) for n in ("state_dict", "load_state_dict")):
                raise TypeError(text(f"the part {name!r} is a {type(part).__name__}", op="Resumable",
                                     needed="state_dict() and load_state_dict(), or a Generator",
                                     remedy=f"run.values[{name!r}] for plain values"))  # fmt: skip
        self.path, self.every, self.seconds, self.parts = path, every, seconds, parts
        self.epoch = 0
        self.batch = 0
        self.values: dict[str, Any] = {}
        self.resumed = os.path.exists(path)
        self._loop = 0  # which of the loops over batches in this epoch
        self._begun: dict[str, Any] | None = None  # the random numbers at the beginning of that loop
        self._pending: dict[str, Any] | None = None  # those to go on with, until the run is where it stood
        self._generators: list[Any] = []  # the loaders' own, as they were met
        self._theirs: list[Any] = []  # where those stood when the file was saved
        self._calls = 0  # of batches() in this epoch
        self._saved_at = time.monotonic()
        if self.resumed:
            self._take_up(load(path, map_location))

    def __repr__(self) -> str:
        return (f"Resumable({os.fspath(self.path)!r}, epoch={self.epoch}, batch={self.batch}, "
                f"parts={', '.join(self.parts)})")  # fmt: skip

    # -- saving --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return what the file holds."""
        parts = {n: p.get_state() if isinstance(p, Generator) else p.state_dict() for n, p in self.parts.items()}
        # before the run is where it stood, its numbers are still those of the file
        numbers = self._pending or _numbers(self._generators)
        return {"resumable": 1, "epoch": self.epoch, "loop": self._loop, "batch": self.batch, "parts": parts,
                "values": self.values, "numbers": numbers, "begun": self._begun}  # fmt: skip

    def save(self) -> None:
        """Save now: at the end of the body of a loop, or between loops."""
        save(self.state_dict(), self.path)
        self._saved_at = time.monotonic()

    def _take_up(self, state: Any) -> None:
        if not isinstance(state, dict) or state.get("resumable") != 1:
            raise KeyError(text(f"{os.fspath(self.path)!r} is no file of Resumable", op="Resumable",
                                remedy="another path, or core.load and load_state_dict"))  # fmt: skip
        saved = state["parts"]
        if set(saved) != set(self.parts):
            raise KeyError(text("the file has other parts", op="Resumable", came=", ".join(saved),
                                needed=", ".join(self.parts),
                                remedy="the parts it was made with, or a new path"))  # fmt: skip
        for name, part in self.parts.items():
            (part.set_state if isinstance(part, Generator) else part.load_state_dict)(saved[name])
        self.epoch, self._loop, self.batch = state["epoch"], state["loop"], state["batch"]
        self.values.update(state["values"])
        self._begun, self._pending = state["begun"], state["numbers"]
        self._theirs = state["numbers"]["loader"]

    # -- loops ---------------------------------------------------------------------------------------------------------

    def epochs(self, n: int) -> Iterator[int]:
        """Yield the numbers of the epochs that are left of n; after each of them the run is saved."""
        while self.epoch < n:
            if self._pending is not None and self._begun is None:
                _restore(self._pending, [])
                self._pending = None
            self._calls = 0
            yield self.epoch
            self.epoch, self._loop, self.batch, self._begun = self.epoch + 1, 0, 0, None
            self.save()

    def batches(self, loader: Iterable[Any], *, replay: bool | None = None) -> Iterator[Any]:
        """Yield the batches that are left of a pass over `loader`.

        replay : read the batches that were seen again, and throw them away, so that a data set that draws random
            numbers stands where it stood. None: only where they are read by workers or come from a stream.
        """
        mine = self._calls
        self._calls += 1
        self._meet(loader)
        if mine < self._loop:  # was gone through before the run was interrupted
            return
        if mine > self._loop:  # the one before was broken off
            self._loop, self.batch, self._begun = mine, 0, None
        for batch in self._new_pass(loader) if self._begun is None else self._resumed_pass(loader, replay):
            yield batch
            self.batch += 1
            if self._due():
                self.save()
        self._loop, self.batch, self._begun = mine + 1, 0, None

    def _meet(self, loader: Any) -> None:
        """Note the generators of a loader; those that the file knows go on where they stood."""
        for g in _generators_of(loader):
            if not any(g is known for known in self._generators):
                if len(self._generators) < len(self._theirs):
                    g.set_state(self._theirs[len(self._generators)])
                self._generators.append(g)

    def _due(self) -> bool:
        late = self.seconds is not None and time.monotonic() - self._saved_at >= self.seconds
        return late or bool(self.every and self.batch % self.every == 0)

    def _new_pass(self, loader: Iterable[Any]) -> Iterator[Any]:
        self._begun = _numbers(self._generators)
        return iter(loader)

    def _resumed_pass(self, loader: Any, replay: bool | None) -> Iterator[Any]:
        """Return a pass that begins where the interrupted one stood."""
        assert self._begun is not None
        now, self._pending = self._pending, None

        def there() -> None:
            if now is not None:
                _restore(now, self._generators)

        _restore(self._begun, self._generators)
        if replay is None:
            replay = bool(getattr(loader, "num_workers", 1)) or getattr(loader, "_iterable", True)
        if not replay and hasattr(loader, "_index_sampler"):
            shorter = copy.copy(loader)
            name = "sampler" if loader.batch_sampler is None else "batch_sampler"
            vars(shorter)[name] = _Rest(loader._index_sampler, self.batch, there)
            return iter(shorter)
        iterator = iter(loader)
        for _ in range(self.batch):
            next(iterator, None)
        there()
        return iterator


class _Rest:
    """The indices of a sampler after the first n. The random numbers are set right when those have been drawn."""

    def __init__(self, sampler: Any, n: int, there: Any) -> None:
        self.sampler, self.n, self.there = sampler, n, there

    def __len__(self) -> int:
        return len(self.sampler)  # of the whole pass, as the loader's own

    def __iter__(self) -> Iterator[Any]:
        return self._rest(iter(self.sampler))  # asked for now: some samplers draw at once

    def _rest(self, indices: Iterator[Any]) -> Iterator[Any]:
        for _ in range(self.n):
            next(indices, None)
        self.there()
        yield from indices


# -- random numbers ----------------------------------------------------------------------------------------------------


def _generators_of(loader: Any) -> list[Any]:
    """Return the generators that a loader and its samplers draw from, but for the default ones."""
    found: list[Any] = []
    todo = [loader]
    for x in todo:
        g = getattr(x, "generator", None)
        if isinstance(g, Generator) and not any(g is f for f in found):
            found.append(g)
        todo += [s for s in (getattr(x, "batch_sampler", None), getattr(x, "sampler", None)) if s is not None]
    return found


def _numbers(generators: list[Any]) -> dict[str, Any]:
    """Return where all random numbers stand."""
    found: dict[str, Any] = {"core": {str(g.device): state for g, state in states()},
                             "loader": [g.get_state() for g in generators]}  # fmt: skip
    if "random" in sys.modules:
        import random

        version, words, gauss = random.getstate()
        found["python"] = [version, from_array(np.array(words, np.int64)), gauss]
    if "numpy.random" in sys.modules:
        state = np.random.get_state(legacy=False)  # noqa: NPY002 - what people's data sets draw from
        found["numpy"] = _mapped(state, np.ndarray, lambda a: from_array(a.view(f"i{a.itemsize}")))
    return found


def _restore(numbers: dict[str, Any], generators: list[Any]) -> None:
    """Let all random numbers stand where they stood."""
    for where, state in numbers["core"].items():
        default_of(Device(where)).set_state(state)
    for g, state in zip(generators, numbers["loader"], strict=False):
        g.set_state(state)
    if "python" in numbers:
        import random

        version, words, gauss = numbers["python"]
        random.setstate((version, tuple(words.tolist()), gauss))
    if "numpy" in numbers:
        state = _mapped(numbers["numpy"], Tensor, lambda t: t.numpy().view(f"u{t.element_size()}"))
        np.random.set_state(state)  # noqa: NPY002


def _mapped(state: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """Return a state of NumPy's with its arrays, which are unsigned, as tensors, and back."""
    if isinstance(state, dict):
        return {k: _mapped(v, kind, change) for k, v in state.items()}
    return change(state) if isinstance(state, kind) else state
