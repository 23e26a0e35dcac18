"""One pass over a loader: in this process, or through its workers."""

from __future__ import annotations

import itertools
import os
import pickle
import sys
import time
import weakref
from types import SimpleNamespace
from typing import Any

from ...base.errors import text
from ...base.source import warn
from .fetching import IDLE, STARTING, MapFetcher, StreamFetcher
from .packing import parts
from .pinning import pin, pins
from .pool import Died, Pool
from .sampler import draw_seed
from .worker import PLACE, TASK, described


class _Caught(str):
    """A text that a KeyError shows as it is, and not as a literal on one line."""

    def __repr__(self) -> str:
        return str(self)


class _TimedOut(Exception):
    """No batch came in time."""


class Pass:
    """What both have in common."""

    def __init__(self, loader: Any) -> None:
        self.begin(loader)
        # PyTorch draws the workers' seed here even without workers: the orders that follow depend on it
        self.base_seed = draw_seed(loader.generator)
        self.pinned = pins(loader)

    def begin(self, loader: Any) -> None:
        """Begin at the first batch."""
        # the options, and not the loader, which may hold this pass: a cycle would keep its workers alive
        self.loader = SimpleNamespace(**{k: v for k, v in vars(loader).items() if k != "_iterator"},
                                      _index_sampler=loader._index_sampler)  # fmt: skip
        self.order = iter(self.loader._index_sampler)
        self.yielded = 0

    def __iter__(self) -> Any:
        return self

    def __len__(self) -> int:
        return len(self.loader._index_sampler)

    def __next__(self) -> Any:
        batch = self.following()
        if self.pinned:
            batch = pin(batch)
        self.yielded += 1
        said = self.loader._said_length
        if self.loader._iterable and said is not None and self.yielded > said:
            why = ("For multiprocessing data-loading, this could be caused by not properly configuring the "
                   "IterableDataset replica at each worker: get_worker_info() tells its share.")  # fmt: skip
            warn(
                f"Length of IterableDataset {self.loader.dataset} was reported to be {said}"
                "(when accessing len(dataloader)), "
                f"but {self.yielded} samples have been fetched. {why if self.loader.num_workers else ''}",
            )
        return batch

    def following(self) -> Any:
        """Return the next batch."""
        raise NotImplementedError


class SinglePass(Pass):
    """A pass in this process."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        batched, collate = loader.batch_sampler is not None, loader.collate_fn
        self.fetcher: MapFetcher | StreamFetcher
        if loader._iterable:
            self.fetcher = StreamFetcher(loader.dataset, batched, collate, loader.drop_last, lambda place: None)
        else:
            self.fetcher = MapFetcher(loader.dataset, batched, collate, lambda place: None)

    def following(self) -> Any:
        """Return the next batch."""
        return self.fetcher.fetch(next(self.order))


class WorkerPass(Pass):
    """A pass through worker processes.

    Batches have numbers in the order of the sampler. They are given to the workers in turn, `prefetch_factor` for each
    of them ahead, one more whenever one is handed out: so the order is that of one process, however fast each is.
    """

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self.serial = 1
        self.warned = False
        self.pool = Pool(loader, self.base_seed, self.serial)
        self._end = weakref.finalize(self, self.pool.finish)  # also at the end of the interpreter
        self.start()

    def start(self) -> None:
        """Give out the first batches."""
        self.given, self.wanted_number = 0, 0
        self.tasks: dict[int, tuple[int, Any]] = {}  # not handed out: the worker, the indices
        self.arrived: dict[int, Any] = {}
        self.active = [True] * self.loader.num_workers
        self.load = [0] * self.loader.num_workers
        self.turn = itertools.cycle(range(self.loader.num_workers))
        for _ in range(self.loader.prefetch_factor * self.loader.num_workers):
            self.give()

    def again(self, loader: Any) -> None:
        """Another pass with the same workers."""
        self.begin(loader)
        draw_seed(self.loader.generator)  # as with new workers, so that the order is that of one process
        self.serial += 1
        self.warned = False
        self.pool.start_pass(self.serial)
        self.start()

    def give(self) -> None:
        """Give the next indices to the worker whose turn it is."""
        options = self.loader
        most = max(1, options.prefetch_factor * options.num_workers // max(1, sum(self.active)))
        for worker in itertools.islice(self.turn, options.num_workers):
            if self.active[worker] and (options.in_order or self.load[worker] < most):
                break
        else:
            return
        try:
            wanted = next(self.order)
        except StopIteration:
            return
        self.tasks[self.given] = worker, wanted
        self.load[worker] += 1
        self.pool.send(worker, "batch", self.serial, self.given, wanted)
        self.given += 1

    def following(self) -> Any:
        """Return the next batch."""
        if self.pool.owner != os.getpid():
            raise RuntimeError(text("DataLoader: the workers of this pass belong to the process that forked this one",
                                    op="DataLoader", came=f"process {os.getpid()}; needed: {self.pool.owner}",
                                    remedy="iter(loader) begins a pass of its own"))  # fmt: skip
        if self.pool.closed:
            raise StopIteration
        try:
            while True:
                number, (kind, more, data) = self.next_result()
                worker, _ = self.tasks.pop(number)
                self.load[worker] -= 1
                if kind == "end":
                    self.active[worker] = False
                self.give()
                if kind != "end":
                    break
        except StopIteration:
            if not self.loader.persistent_workers:
                self._end()
            raise
        except _TimedOut as late:
            raise RuntimeError(str(late)) from None
        except BaseException:  # also Ctrl-C
            try:
                self.pool.close(0.0)
            finally:
                self._end.detach()
            raise
        if kind == "error":
            raise self.error(worker, *more)
        return self.unpacked(worker, data, *more)

    def next_result(self) -> tuple[int, Any]:
        """Return the result whose turn it is, with its number."""
        until = time.monotonic() + self.loader.timeout if self.loader.timeout > 0 else None
        while True:
            if not self.tasks:
                raise StopIteration
            number = min(self.tasks) if self.loader.in_order else next(iter(self.arrived), -1)
            if number in self.arrived:
                return number, self.arrived.pop(number)
            self.listen(until)

    def listen(self, until: float | None) -> None:
        """Take what the workers have sent."""
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            raise _TimedOut(text(f"DataLoader timed out after {self.loader.timeout} seconds", op="DataLoader",
                                came=self.waited_for(), remedy="a larger timeout"))  # fmt: skip
        try:
            for worker, (kind, serial, number, more), data in self.pool.receive(left):
                if kind == "error" and number == -1:
                    raise self.error(worker, *more)
                if serial == self.serial and number in self.tasks:
                    self.arrived[number] = kind, more, data
        except Died as died:
            where = self.at(died.worker, died.task, died.place)
            words = f"\n{died.last_words}" if died.last_words else ""
            raise RuntimeError(text(died.how, op="DataLoader", came=where, remedy=died.remedy) + words) from None

    def at(self, worker: int, task: int, place: int) -> str:
        """Return what a worker is busy with."""
        if task not in self.tasks and place != STARTING:  # handed out, though the worker has not yet noted it
            place = IDLE
        wanted = self.tasks[task][1] if task in self.tasks else None
        return f"worker {worker} of {self.loader.num_workers}, {described(place, wanted)}"

    def waited_for(self) -> str:
        """Return what the slow workers are busy with."""
        slow = {w for n, (w, _) in self.tasks.items() if n not in self.arrived}
        boards = {w: self.pool.workers[w].board for w in sorted(slow)}
        return "; ".join(self.at(w, int(board[TASK]), int(board[PLACE])) for w, board in boards.items())

    def error(self, worker: int, kind: bytes, name: str, told: str, where: str) -> BaseException:
        """Return what a worker raised, to be raised here."""
        message = text(f"Caught {name} in DataLoader worker process {worker}.", op="DataLoader",
                       came=f"worker {worker} of {self.loader.num_workers}, {where}")  # fmt: skip
        message = f"{message}\nOriginal {told}"
        try:
            cls = pickle.loads(kind)
            return cls(_Caught(message) if issubclass(cls, KeyError) else message)  # type: ignore[no-any-return]
        except Exception:  # a class that cannot be found here, or that wants other arguments
            return RuntimeError(message)

    def unpacked(self, worker: int, data: Any, body: bytes, sizes: list[int], slot: Any, why: str) -> Any:
        """Return a batch from what a worker sent."""
        if why and not self.warned:
            self.warned = True
            warn(
                text(
                    f"DataLoader worker process {worker} found no shared memory for a batch: {why}",
                    op="DataLoader",
                    came=f"{sum(sizes)} bytes; they come through a socket instead, which is slower",
                    remedy="more memory for this container or user (ulimit -f, ulimit -n), or smaller batches",
                ),
            )
        return pickle.loads(body, buffers=parts(data, sizes))


def suggested_workers() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or sys.maxsize
