"""How long loops wait for the batches of a data loader: its ``__next__`` is timed while a cell is recorded.

The samples of `sampling` tell in which line the time passes; on a busy machine they are few, and this is exact. What
the recorder takes itself is left out, and so is the time in which other programs had the processor.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter_ns, thread_time_ns
from types import CodeType
from typing import Any, NamedTuple

from core.base import source
from core.utils.data import passes

from .cell_trace import Chain
from .user_files import users_frame

SETS = 64  # data sets that are told apart
KEPT = 512  # waits of a loop that are kept one by one
FEW, LONGER = 3, 3  # waits from which there is a usual one, and how many times as long a wait may count


class _Reading(NamedTuple):
    """What the clocks say at one moment, in ns."""

    wall: int
    computed: int
    """The time in which the thread had a processor."""
    own: int
    """The recorder's part of `wall`."""
    starved: int
    """The part of `wall` in which other programs had the processor."""

    def since(self, before: _Reading) -> tuple[int, int]:
        """Return how long the user's code ran since then, and computed in it: without what the recorder took, and
        without other programs, who took their share of the recorder's time as well.

        >>> _Reading(1000, 100, 300, 900).since(_Reading(0, 0, 0, 0))
        (70, 70)
        """
        wall, computed, own, starved = (now - then for now, then in zip(self, before, strict=True))
        ran = max(wall - starved, 0) / wall if wall > 0 else 0.0
        return round(max(wall - own, 0) * ran), round(max(computed - own * ran, 0))


@dataclass
class Fetched:
    """What one loop asked of a data loader."""

    batches: int = 0
    ns: int = 0
    """The time in which it waited for them."""
    busy_ns: int = 0
    """The part of `ns` in which the thread computed."""
    waits: list[int] = field(default_factory=list)
    """The single waits, up to a limit."""
    loop_ns: int = 0
    """The time from the first to the last, what the loop did with them included."""
    workers: int = 0
    """The processes that load for it."""
    passes: int = 0
    """How often it went through the loader."""
    starts_ns: int = 0
    """The part of `ns` that passed before the first batch of each pass."""
    weights: tuple[int, int] = (0, 0)
    """How many weights a sampler draws by, and how many samples the data set has; (0, 0) where no sampler does."""
    drawn: tuple[int, int] = (0, 0)
    """How many samples a pass draws, and how many the data set has; (0, 0) where it draws all."""
    rest: tuple[int, int] = (0, 0)
    """The samples of a batch, and how many fewer the last one has; (0, 0) where all are alike or nobody knows."""
    dropped: tuple[int, int] = (0, 0)
    """The samples of a batch, and how many samples a pass leaves out since they fill none; (0, 0) where it is none."""
    steps: int = 0
    """The steps of optimizers between its batches."""
    data: int = 0
    """Which data set it is, by number; 0 where nobody knows."""
    shuffled: bool = False
    """Whether each pass draws an order of its own."""
    in_memory: int = 0
    """How many samples a set of tensors has that are taken one by one and stacked again; 0 for any other set."""
    makers: tuple[CodeType, ...] = ()
    """What makes the samples and puts them together: the data set's own method, the collate function."""

    @property
    def waited_ns(self) -> int:
        """The part of `ns` that is the loader's. On a busy machine single waits are long because other programs had the
        processor: a wait counts as most of them are, or as what the thread computed in them."""
        if self.workers or len(self.waits) < FEW:
            return self.ns
        usual = LONGER * sorted(self.waits)[len(self.waits) // 2] * self.batches
        return min(self.ns, max(usual, self.busy_ns))


class Fetches:
    """Times the loaders' ``__next__`` in the thread that made it, between `start` and `stop`."""

    def __init__(self, recorder: Any, starved: Callable[[], int], close: Callable[[], None]) -> None:
        self.recorder, self._starved, self._close = recorder, starved, close
        self._who = threading.get_ident()
        self._patched: list[tuple[Any, Any]] = []
        self._inside = False
        self._ended: dict[int, tuple[Any, _Reading, int]] = {}  # iterator -> it, weakly; its last batch; steps by then
        self._sets: list[Any] = []  # the data sets, weakly

    def start(self) -> None:
        """Begin to time; loaders of a library that is imported later are not."""
        self._patch(passes.Pass)
        foreign = sys.modules.get("torch.utils.data.dataloader")
        if foreign is not None:
            self._patch(foreign._BaseDataLoaderIter)

    def stop(self) -> None:
        """Take it all back."""
        for kind, own in self._patched:
            kind.__next__ = own
        self._patched.clear()
        self._ended.clear()
        self._close()

    def _patch(self, kind: Any) -> None:
        own = kind.__next__
        timed = self._timed

        def __next__(iterator: Any) -> Any:
            return timed(own, iterator)

        # a frame of the lab would end the chain of the user's frames: these two count as the loader's
        __next__.__code__ = __next__.__code__.replace(co_filename=passes.__file__)
        kind.__next__ = __next__
        self._patched.append((kind, own))

    def _read(self) -> _Reading:
        recorder = self.recorder
        own = int(recorder.own_ns) + int(recorder.around_ns)
        return _Reading(perf_counter_ns(), thread_time_ns(), own, self._starved())

    def _timed(self, own: Any, iterator: Any) -> Any:
        if self._inside or threading.get_ident() != self._who:
            return own(iterator)
        self._inside, begin = True, self._safely(self._read)
        came = False
        try:
            batch = own(iterator)
            came = True
            return batch
        finally:
            self._inside = False
            if begin is not None:
                self._safely(self._note, iterator, begin, came)

    def _safely(self, work: Callable[..., Any], *args: Any) -> Any:
        """Do work of the lab's; as in the recorder, an error in it is never the user's."""
        try:
            return work(*args)
        except Exception as error:
            self.recorder.failed(error)
            return None

    def _note(self, iterator: Any, begin: _Reading, came: bool) -> None:
        end = self._read()
        chain = self._place()
        if not chain or self.recorder.error is not None:
            return
        found = self.recorder.trace.fetched.setdefault(chain, Fetched())
        before = self._ended.get(id(iterator))
        wait, busy = end.since(begin)
        if before is not None and before[0]() is iterator:
            found.loop_ns += begin.since(before[1])[0]
            found.steps += self.recorder.trace.steps.ran - before[2]
        else:
            found.passes += 1
            found.starts_ns += wait
            found.workers, found.makers = _loading(iterator)
            found.weights, found.drawn = _weights(iterator), _drawn(iterator)
            found.shuffled = type(_sampling(iterator)[0]).__name__ in ("RandomSampler", "SubsetRandomSampler")
            found.rest, found.dropped = _rest(iterator)
            found.in_memory = _in_memory(iterator)
            found.data = self._number(_sampling(iterator)[1])
        found.ns += wait
        found.busy_ns += busy
        if len(found.waits) < KEPT:
            found.waits.append(wait)
        found.loop_ns += wait
        found.batches += came
        if came:
            # the user lets go of it, and so of its workers
            self._ended[id(iterator)] = weakref.ref(iterator), end, self.recorder.trace.steps.ran
        else:
            self._ended.pop(id(iterator), None)

    def _number(self, data: Any) -> int:
        """Return the number of a data set: the same for each loader of it."""
        if data is None:
            return 0
        known = next((k for k, one in enumerate(self._sets, 1) if one() is data), 0)
        if not known and len(self._sets) < SETS:
            try:
                self._sets.append(weakref.ref(data))
            except TypeError:  # a list
                return 0
            known = len(self._sets)
        return known

    def _place(self) -> Chain:
        """Return the user's loop."""
        frame, fold = users_frame(sys._getframe(1)), self.recorder.fold
        return () if frame is None else fold.chain(fold.site((frame.f_code, frame.f_lasti)))


def _sampling(iterator: Any) -> tuple[Any, Any]:
    """Return what gives an iterator its indices, and the data set; None for one of a class of the user's own, which is
    not asked."""
    loader = getattr(iterator, "loader", iterator)
    data: Any = getattr(loader, "dataset", getattr(iterator, "_dataset", None))
    batches = getattr(loader, "_index_sampler", None)
    sampler: Any = getattr(batches, "sampler", batches)  # their truth would be their length, which some do not have
    known = ("core.", "torch.", "builtins")
    return tuple(part if type(part).__module__.startswith(known) else None for part in (sampler, data))  # type: ignore[return-value]


def _weights(iterator: Any) -> tuple[int, int]:
    """Return how many weights the sampler of an iterator has, and how many samples there are to draw from."""
    sampler, data = _sampling(iterator)
    if type(sampler).__name__ != "WeightedRandomSampler" or data is None:
        return 0, 0
    return len(sampler.weights), len(data)


def _drawn(iterator: Any) -> tuple[int, int]:
    """Return how many samples a pass of an iterator draws, and how many there are, where those are more."""
    sampler, data = _sampling(iterator)
    try:
        drawn, there = len(sampler), len(data)
    except Exception:  # a stream, of which nobody knows how long it is
        return 0, 0
    return (drawn, there) if drawn < there else (0, 0)


def _rest(iterator: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the samples of a batch and how many the last one has, where that are fewer; and, where the last one is
    dropped instead, the samples of a batch and how many are left out."""
    loader = getattr(iterator, "loader", iterator)
    data: Any = getattr(loader, "dataset", getattr(iterator, "_dataset", None))
    batches = getattr(loader, "_index_sampler", None)
    known = (type(part).__module__.startswith(("core.", "torch.")) for part in (batches, data))
    none = 0, 0
    if not all(known) or type(batches).__name__ != "BatchSampler":
        return none, none
    size, many = int(batches.batch_size), len(data)  # type: ignore[union-attr]
    rest = size, many % size
    if not many % size or many <= size:
        return none, none
    return (none, rest) if getattr(batches, "drop_last", True) else (rest, none)


def _in_memory(iterator: Any) -> int:
    """Return how many samples a set of tensors has that a loader takes one by one; 0 where it takes another's."""
    loader = getattr(iterator, "loader", iterator)
    batches = getattr(loader, "_index_sampler", None)
    data: Any = getattr(loader, "dataset", getattr(iterator, "_dataset", None))
    if type(batches).__name__ != "BatchSampler":
        return 0
    while type(data).__module__.startswith(("core.", "torch.")) and type(data).__name__ == "Subset":
        data = data.dataset
    known = type(data).__module__.startswith(("core.", "torch.")) and type(data).__name__ == "TensorDataset"
    return len(data) if known else 0


def _loading(iterator: Any) -> tuple[int, tuple[CodeType, ...]]:
    """Return how many processes load for an iterator of a data loader, and the functions that make its samples."""
    loader = getattr(iterator, "loader", None)  # core's; PyTorch's iterator holds the loader's options itself
    workers, data, collate = (
        (
            getattr(iterator, "_num_workers", 0),
            getattr(iterator, "_dataset", None),
            getattr(iterator, "_collate_fn", None),
        )
        if loader is None
        else (loader.num_workers, loader.dataset, loader.collate_fn)
    )
    # a class of the user's own may answer for any attribute: it is not asked
    while type(data).__module__.startswith(("core.", "torch.")) and getattr(data, "dataset", None) is not None:
        data = data.dataset  # type: ignore[union-attr]  # a Subset
    methods = (getattr(type(data), name, None) for name in ("__getitem__", "__iter__"))
    functions = [next((m for m in methods if m is not None), None), collate]
    codes = (getattr(f, "__code__", None) for f in functions)
    return int(workers), tuple(c for c in codes if isinstance(c, CodeType) and not source.is_ours(c.co_filename))


for _ours in (Fetches._timed, Fetches._safely):
    _ours.__code__ = _ours.__code__.replace(co_filename=passes.__file__)
