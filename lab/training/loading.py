"""`dataload`: how long a loop waits for its data loader, and how many workers would shorten that, tried.

Each number of workers loads the next batches of the same order, with the work of a step between them. The batches that
workers have made ahead while they started are not counted: what is measured is what goes on from then.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from core.base.pytorch import libraries
from core.utils.data.passes import suggested_workers
from widgets import small_table
from widgets.figures import share, time_text
from widgets.small_table import SmallTable

from .put_back import copied, put_back

SMALL = 0.05
"""A share of the time that is not worth a worker; two times that differ by less count as equal."""
AHEAD = 2  # batches that a worker makes ahead, where the loader does not say another number


@dataclass
class Trial:
    """One number of workers, or why it could not be tried."""

    workers: int
    batches: int = 0
    start_s: float = 0.0
    """From the beginning of a pass to its first batch."""
    wait_s: float = 0.0
    """Waiting for a batch, in the mean."""
    work_s: float = 0.0
    """The step on a batch, in the mean."""
    failed: str = ""

    @property
    def batch_s(self) -> float:
        """What a batch costs the loop."""
        return self.wait_s + self.work_s

    def pass_s(self, batches: int | None, persistent: bool) -> float:
        """What a pass costs: its start, where workers do not persist, and its batches."""
        if batches is None:
            return self.batch_s
        return (0.0 if persistent or not self.workers else self.start_s) + batches * self.batch_s


@dataclass
class Loading:
    """What `dataload` found: the trials, the number it recommends (None: nothing could be tried), and why."""

    trials: list[Trial] = field(default_factory=list)
    recommended: int | None = None
    reason: str = ""
    notes: list[str] = field(default_factory=list)
    current: int = 0
    """The loader's own number."""
    worked: bool = False
    """Whether a step was timed as well."""

    def table(self) -> SmallTable:
        """Return it as what is shown."""
        if self.recommended is None:
            return SmallTable("No number of workers could be tried", "failed", self.reason, foot=self.notes)
        rows = []
        for t in self.trials:
            if t.failed:
                rows.append([str(t.workers), "", "", "", "", f"✕ {t.failed}"])
                continue
            said = ["recommended"] if t.workers == self.recommended else []
            said += ["as it is now"] if t.workers == self.current else []
            work = [time_text(1e3 * t.work_s), share(t.wait_s / t.batch_s)] if self.worked else ["", ""]
            rows.append([str(t.workers), time_text(1e3 * t.wait_s), *work, time_text(1e3 * t.start_s), ", ".join(said)])
        marked = next((k for k, t in enumerate(self.trials) if t.workers == self.recommended), None)
        title = f"num_workers={self.recommended}" + (" is right" if self.recommended == self.current else "")
        return SmallTable(title, "done", self.reason, ("workers", "waits", "work", "waiting", "first batch", ""), rows,
                          marked, self.notes)  # fmt: skip

    def __str__(self) -> str:
        return small_table.text(self.table())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": small_table.html(self.table())}


def dataload(loader: Any, step: Callable[[Any], Any] | None = None, *, workers: Sequence[int] | None = None,
             batches: int = 32, seconds: float = 20.0) -> Loading:  # fmt: skip
    """Measure how long a loop waits for core's or PyTorch's `DataLoader`, and recommend a number of workers.

    step : what the loop does with a batch, a function of it; without one the loading alone is timed. workers : the
    numbers to try, by default 0, 1, 2, 4 ... up to the processors there are, and the loader's own. batches : how many
    are timed of each. seconds : for all of them together; a batch that has begun is waited for.

    The loader stays as it is: the trials have loaders of their own, on a copy of the data set that shares its large
    arrays. Random numbers are put back, and so are models and optimizers that `step` names. Of a data set that is a
    stream only 0 workers are tried, and nothing of one that cannot be copied.

    *Units*: seconds a batch.

    *Raises*: TypeError for what is no DataLoader; ValueError for numbers that cannot be tried.

    >>> import core
    >>> found = dataload(core.utils.data.DataLoader(range(64), batch_size=8), workers=[0], batches=4)
    >>> found.recommended, found.trials[0].batches
    (0, 4)
    """
    kind = _kind_of(loader)
    numbers = _numbers(workers, loader)
    if batches < 1 or not seconds > 0:
        raise ValueError(f"dataload: batches and seconds are above 0; came: {batches} and {seconds}")
    found = Loading(current=loader.num_workers, worked=step is not None)
    streams = _is_stream(loader)
    try:
        data = copied(loader.dataset)
    except Exception as error:
        found.reason = (f"The data set {type(loader.dataset).__name__} cannot be copied ({_first(error)}), and trying "
                        "it itself could change it.")  # fmt: skip
        return found
    if streams:
        found.notes.append("The data set is a stream: each worker would read the whole of it unless it asks "
                           "get_worker_info() for its share, so that only 0 workers were tried.")  # fmt: skip
        numbers = [0]
    if step is None:
        found.notes.append("Without a step the loading alone was timed: %dataload LOADER --step FUNCTION times both.")
    generators = {id(g): g for g in _generators(loader)}
    with put_back(step, *generators.values()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        order = None if streams else _order(loader, found.notes)
        for number in numbers:
            found.trials.append(_tried(kind, loader, data, order, number, step, batches, seconds / len(numbers)))
    _judge(found, _length(loader), bool(getattr(loader, "persistent_workers", False)))
    return found


# -- the loader --------------------------------------------------------------------------------------------------------


def _kind_of(loader: Any) -> type:
    """Return the class that trials make loaders of: core's or PyTorch's own, of which the user's may be a subclass."""
    known = tuple(library.utils.data.DataLoader for library in libraries())
    for kind in type(loader).__mro__:
        if kind in known:
            return kind
    raise TypeError(f"dataload: {type(loader).__name__} is no DataLoader; needed: one of core.utils.data or of "
                    "torch.utils.data")  # fmt: skip


def _numbers(workers: Sequence[int] | None, loader: Any) -> list[int]:
    if workers is None:
        most = suggested_workers()
        powers = itertools.takewhile(lambda n: n <= most, (2**k for k in itertools.count()))
        return sorted({0, *powers, loader.num_workers})
    if not workers or any(not isinstance(n, int) or n < 0 for n in workers):
        raise ValueError(f"dataload: workers are numbers from 0 on; came: {list(workers)!r:.80}")
    return sorted(set(workers))


def _is_stream(loader: Any) -> bool:
    return any(isinstance(loader.dataset, library.utils.data.IterableDataset) for library in libraries())


def _length(loader: Any) -> int | None:
    """Return how many batches a pass has; None where nobody knows."""
    try:
        return len(loader)
    except Exception:  # a stream, or a sampler of the user's own without a length
        return None


def _generators(loader: Any) -> Iterator[Any]:
    for part in (loader, loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None)):
        if (generator := getattr(part, "generator", None)) is not None:
            yield generator


def _order(loader: Any, notes: list[str]) -> Iterator[Any]:
    """Yield the indices that the loader would ask for, again from the start at their end; of samplers a copy is asked,
    which shares the data set."""
    sampler: Any = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    try:
        first = list(itertools.islice(iter(copied(sampler, loader.dataset)), 4096))
        if not first:
            raise ValueError("it gives no batch")
    except Exception as error:
        notes.append(f"The sampler {type(sampler).__name__} cannot be tried on a copy ({_first(error)}): batches in "
                     "the order of their numbers were loaded instead.")  # fmt: skip
        size, n = loader.batch_size or getattr(sampler, "batch_size", None) or 1, len(loader.dataset)
        first = [list(range(k, min(k + size, n))) for k in range(0, n, size)]
        first = list(range(n)) if loader.batch_sampler is None else first
    return itertools.cycle(first)


def _tried(kind: Any, loader: Any, data: Any, order: Iterator[Any] | None, number: int,
           step: Callable[[Any], Any] | None, batches: int, seconds: float) -> Trial:  # fmt: skip
    """Time one number of workers. What it raises is told in the table."""
    trial = Trial(number)
    ahead = number * (loader.prefetch_factor or AHEAD)
    options: dict[str, Any] = {name: getattr(loader, name) for name in
                               ("collate_fn", "pin_memory", "timeout", "worker_init_fn")}  # fmt: skip
    if number:
        options.update(prefetch_factor=loader.prefetch_factor, multiprocessing_context=loader.multiprocessing_context)
    if order is None:
        options.update(batch_size=loader.batch_size, drop_last=loader.drop_last)
    else:
        wanted = list(itertools.islice(order, 2 * ahead + 1 + batches))
        options.update({"batch_size": None, "sampler": wanted} if loader.batch_sampler is None else
                       {"batch_sampler": wanted})  # fmt: skip
    running: Any = None
    try:
        begin = perf_counter()
        running = iter(kind(data, num_workers=number, **options))
        batch = next(running)
        trial.start_s = perf_counter() - begin
        _times(trial, running, batch, step, ahead, batches, begin + seconds)
    except StopIteration:
        trial.failed = "the data set gave no batch"
    except Exception as error:
        trial.failed = _first(error)
    finally:
        with suppress(Exception):
            getattr(running, "_shutdown_workers", bool)()  # PyTorch's end when they are forgotten, which may be later
    return trial


def _times(trial: Trial, running: Iterator[Any], batch: Any, step: Callable[[Any], Any] | None, ahead: int,
           batches: int, until: float) -> None:  # fmt: skip
    """Go on from the first batch. Those that were made ahead are loaded as well, but not counted; where the time ends
    before, what there is counts."""
    waits: list[float] = []
    works: list[float] = []
    while True:
        begin = perf_counter()
        if step is not None:
            step(batch)
            _settle()
        works.append(perf_counter() - begin)
        if len(waits) >= ahead + batches or (perf_counter() > until and waits):
            break
        begin = perf_counter()
        try:
            batch = next(running)
        except StopIteration:
            break
        waits.append(perf_counter() - begin)
    if not trial.workers:
        waits, works = waits or [trial.start_s], works[1:] or works  # the first step may have loaded or compiled
    skip = min(ahead, max(0, len(waits) - 2))
    waits, works = waits[skip:], works[min(skip, len(works) - 1) :]
    trial.batches = len(waits)
    trial.wait_s = sum(waits) / len(waits) if waits else trial.start_s
    trial.work_s = sum(works) / len(works)


def _settle() -> None:
    """Wait until a GPU has done what a step began."""
    for library in libraries():
        if library.cuda.is_initialized():
            library.cuda.synchronize()


# -- the sentence ------------------------------------------------------------------------------------------------------


def _judge(found: Loading, length: int | None, persistent: bool) -> None:
    """Choose the number, and say why."""
    good = [t for t in found.trials if not t.failed]
    if not good:
        found.reason = f"Every trial failed: {found.trials[0].failed}"
        return
    plain = good[0]
    costs = {t.workers: t.pass_s(length, persistent) for t in good}
    least = min(costs.values())
    best = next(t for t in good if costs[t.workers] <= (1 + SMALL) * least)
    found.recommended = best.workers
    each, works = f"{time_text(1e3 * plain.wait_s)} for a batch", time_text(1e3 * plain.work_s)
    of = f", {share(plain.wait_s / plain.batch_s)} of the time" if found.worked else ""
    if plain.workers:
        found.reason = f"Of the numbers tried {best.workers} is the smallest that is about as fast as any."
    elif found.worked and plain.wait_s <= SMALL * plain.batch_s:
        found.recommended = 0
        found.reason = f"Workers are not worth it: the loop waits {each}{of}, and works {works} on it."
    elif best.workers == 0 and len(good) > 1:
        found.reason = f"Workers are not worth it: the loop waits {each}{of}, and {_why_none(found, plain, length)}."
    elif best.workers == 0:
        found.reason = f"The loop waits {each}{of}; no other number was tried."
    else:
        now = f"{time_text(1e3 * best.wait_s)} with {_workers(best.workers)}"
        found.reason = f"Without workers the loop waits {each}{of}; it waits {now}. {_gain(plain, best, costs, length)}"
    if best.workers and not persistent and length is not None and best.start_s > SMALL * costs[best.workers]:
        found.notes.append(f"Each pass begins with {time_text(1e3 * best.start_s)} in which the workers start; "
                           "persistent_workers=True keeps them.")  # fmt: skip


def _why_none(found: Loading, plain: Trial, length: int | None) -> str:
    others = [t for t in found.trials if t.workers and not t.failed]
    quick = min(others, key=lambda t: t.batch_s)
    if length is not None and quick.batch_s < (1 - SMALL) * plain.batch_s:
        pays = math.ceil(quick.start_s / (plain.batch_s - quick.batch_s))
        return (f"with {_workers(quick.workers)} {time_text(1e3 * quick.wait_s)}, but they take "
                f"{time_text(1e3 * quick.start_s)} to start: a pass of {length:,} batches is too short for that "
                f"({pays:,} would do, or persistent_workers=True)")  # fmt: skip
    return f"no number is faster by more than {share(SMALL)}: handing the batches over costs what it saves"


def _gain(plain: Trial, best: Trial, costs: dict[int, float], length: int | None) -> str:
    if length is None:
        return ""
    took, takes = costs[0], costs[best.workers]
    return f"A pass of {length:,} batches takes {time_text(1e3 * takes)} in place of {time_text(1e3 * took)}."


def _workers(n: int) -> str:
    return f"{n} worker{'' if n == 1 else 's'}"


def _first(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:200]
