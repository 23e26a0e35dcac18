"""Loaders with worker processes: the same batches as one process gives, and everything that can go wrong."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import core
from core.utils.data import DataLoader, TensorDataset

sys.path.append(os.path.dirname(__file__))  # where workers find it too

from worker_data import (
    Box,
    Copies,
    Draws,
    Numbers,
    Pair,
    Shares,
    Written,
    boxed,
    fails,
    full_memory,
    small_files,
    structure,
    wants_two,
)  # fmt: skip # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def all_children() -> list[int]:
    """The processes that this one has started and not waited for."""
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(p) for p in file.read().split()]


others: list[int] = []  # children of other tests of this run: a browser's driver, say


def children() -> list[int]:
    """Those that this test has started."""
    return [p for p in all_children() if p not in others]


def files() -> list[str]:
    """What this process has open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue  # the listing itself
    return sorted(found)


def shared_files() -> list[str]:
    """What lies in /dev/shm, but for what tests of PyTorch beside these put there."""
    return sorted(name for name in os.listdir("/dev/shm") if "torch" not in name and not name.startswith("sem."))


def mapped() -> int:
    """How many segments of loaders are mapped."""
    with open("/proc/self/maps") as file:
        return sum("memfd:gradlab" in line for line in file)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No process, segment, descriptor or hang stays behind."""
    gc.collect()
    others[:] = all_children()
    before = len(children()), len(files()), mapped(), len(shared_files())

    def hangs(*ignored: Any) -> None:
        raise TimeoutError("a test of workers took more than 150 s")

    old = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(150)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)
    gc.collect()
    assert (len(children()), len(files()), mapped(), len(shared_files())) == before


def plain(batch: Any) -> Any:
    return batch.tolist() if isinstance(batch, core.Tensor) else [plain(b) for b in batch]


def passes(workers: int, count: int = 2, **options: Any) -> list[Any]:
    core.manual_seed(3)
    data = TensorDataset(core.arange(23), core.arange(46.0).reshape(23, 2))
    loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=workers, **options)
    return [([plain(b) for b in loader], core.rand(1).item()) for _ in range(count)]


@pytest.mark.by_turns
def test_every_number_of_workers_gives_the_batches_of_one_process() -> None:
    alone = passes(0, 3)
    assert alone[0] != alone[1]
    assert passes(1) == alone[:2]
    assert passes(4, 1, prefetch_factor=1) == alone[:1]
    assert passes(2, 3, persistent_workers=True) == alone


def test_any_structure_crosses() -> None:
    (found,) = DataLoader(range(3), batch_size=3, num_workers=1, collate_fn=structure)
    meant = structure([0, 1, 2])
    assert found.keys() == meant.keys()
    for name in ("tensor", "half", "strided", "empty", "scalar", "bools", "complex", "parameter", "loaded"):
        a, b = found[name], meant[name]
        assert type(a) is type(b)
        assert a.dtype is b.dtype
        assert a.shape == b.shape
        assert bool((a == b).all())
    assert found["half"].data_ptr() % 64 == 0
    assert (found["array"] == meant["array"]).all()
    assert found["objects"] == meant["objects"]
    assert type(found["pair"]) is Pair
    assert type(found["box"]) is Box
    assert found["same"][0] is found["same"][1]
    assert found["parameter"].requires_grad
    assert found["dtype"] is core.float16
    found["tensor"][0] = 5.0  # it is the caller's own
    found["scalar"] += 1
    x = found["pair"].a.requires_grad_()
    (x * 2).sum().backward()
    assert bool((x.grad == 2).all())


@pytest.mark.by_turns
def test_batches_that_are_kept_stay_as_they_are() -> None:
    loader = DataLoader(Numbers(60, size=3000), batch_size=3, num_workers=2)
    kept = list(loader)
    assert [b[:, 0].tolist() for b in kept] == [[float(i), i + 1.0, i + 2.0] for i in range(0, 60, 3)]
    assert all(bool((b == b[:, :1]).all()) for b in kept)
    half = [b for i, b in enumerate(loader) if i % 2]  # every second one is given back at once
    assert [b[0, 2999].item() for b in half] == [float(i) for i in range(3, 60, 6)]
    sizes = DataLoader([core.full((n,), float(n)) for n in (5000, 9000, 6000, 20000, 5000, 12000)], batch_size=None,
                       num_workers=1, prefetch_factor=1)  # fmt: skip
    assert [(b.shape[0], b.min().item()) for b in sizes] == [(int(b.max().item()), b.max().item()) for b in sizes]


@pytest.mark.by_turns
def test_workers_draw_different_numbers_that_the_seed_decides() -> None:
    def once() -> Any:
        core.manual_seed(5)
        return list(DataLoader(Draws(), batch_size=None, num_workers=2))

    first = once()
    assert first == once()
    assert len({tuple(row[:3]) for row in first}) == 4
    seeds = [row[3] for row in first]
    assert seeds == [seeds[0], seeds[0] + 1] * 2
    assert {row[4] for row in first} == {1}


@pytest.mark.by_turns
def test_a_data_set_lies_in_memory_once_and_each_worker_writes_its_own() -> None:
    data = Written()
    found = list(DataLoader(data, batch_size=None, num_workers=2))
    assert found == [[1.0, 1.0, True]] * 2 + [[2.0, 2.0, True]] * 2
    assert not data.array.any()


@pytest.mark.by_turns
def test_a_stream_is_shared_by_its_workers() -> None:
    for workers, size in ((2, 3), (3, None)):
        loader = DataLoader(Shares(25), batch_size=size, num_workers=workers, persistent_workers=True)
        found = [plain(b) if size else b for b in loader]
        flat = [i for b in found for i in b] if size else found
        assert sorted(flat) == list(range(25))
        assert [plain(b) if size else b for b in loader] == found
    loader = DataLoader(Copies(4), batch_size=None, num_workers=2)
    assert len(loader) == 4
    with pytest.warns(UserWarning, match="could be caused by not properly configuring"):
        assert sorted(loader) == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.by_turns
def test_the_first_one_done_comes_first_if_order_does_not_matter() -> None:
    slow = Numbers(8, at=0, act=lambda: time.sleep(0.7))
    options: dict[str, Any] = {"batch_size": None, "num_workers": 2, "prefetch_factor": 3}
    found = [int(b.item()) for b in DataLoader(slow, in_order=False, **options)]
    assert sorted(found) == list(range(8))
    assert found[0] == 1
    assert found.index(0) > 1
    assert [int(b.item()) for b in DataLoader(slow, **options)] == list(range(8))
    stream = DataLoader(Shares(9), in_order=False, **options)
    assert sorted(stream) == list(range(9))


@pytest.mark.by_turns
def test_passes_may_be_left_early_and_be_several_at_once() -> None:
    loader = DataLoader(Numbers(40), batch_size=2, num_workers=2)
    for batch in loader:
        assert batch.flatten().tolist() == [0.0, 1.0]
        break
    gc.disable()
    try:
        del batch
        assert not children()  # without the garbage collector
        a, b = iter(loader), iter(loader)
        next(a)
        assert next(a).flatten().tolist() == [2.0, 3.0]
        assert next(b).flatten().tolist() == [0.0, 1.0]
        assert len(children()) == 4
        del a
        assert len(children()) == 2
        assert len(list(b)) == 19
        assert not children()
        with pytest.raises(StopIteration):
            next(b)
    finally:
        gc.enable()


def test_persistent_workers_stay_and_leave_what_nobody_wants() -> None:
    slow = Numbers(40, at=7, act=lambda: time.sleep(0.2))
    loader = DataLoader(slow, batch_size=4, num_workers=2, persistent_workers=True)
    it = iter(loader)
    next(it)
    mine = children()
    whole = [b[0].item() for b in loader]
    assert whole == [float(i) for i in range(0, 40, 4)]
    assert children() == mine
    assert len(list(loader)) == 10
    del loader, it
    assert not children()


@pytest.mark.by_turns
def test_an_exception_comes_back_with_its_traceback_and_its_sample() -> None:
    loader = DataLoader(Numbers(40, at=17, act=fails), batch_size=5, num_workers=2)
    it = iter(loader)
    for _ in range(3):
        next(it)
    with pytest.raises(KeyError) as caught:
        next(it)
    text = str(caught.value)
    assert "Caught KeyError in DataLoader worker process 1." in text
    assert "worker 1 of 2, at the sample with index 17, number 2 of its batch" in text
    assert 'raise KeyError("no such file")' in text
    assert "fetching.py" not in text
    assert [b[0].item() for b in it] == [20.0, 25.0, 30.0, 35.0]  # the others are not lost
    with pytest.raises(RuntimeError, match="Caught TwoArguments in DataLoader worker process 0"):
        next(iter(DataLoader(Numbers(4, at=0, act=wants_two), num_workers=1)))

    def collate(samples: list[Any]) -> Any:
        raise ValueError("these do not go together")

    with pytest.raises(ValueError, match=r"while collating the samples with indices \[0, 1\]"):
        next(iter(DataLoader(Numbers(4), batch_size=2, num_workers=1, collate_fn=collate)))

    def stop() -> None:
        raise StopIteration

    with pytest.raises(RuntimeError, match="raised StopIteration for a sample"):
        list(DataLoader(Numbers(4, at=1, act=stop), num_workers=1))
    with pytest.raises(TypeError, match="a batch cannot be sent from its worker process: cannot pickle 'generator'"):
        next(iter(DataLoader(Numbers(4), num_workers=1, collate_fn=lambda s: (i for i in s))))
    with pytest.raises(RuntimeError, match="Cannot serialize non-leaf tensor which requires_grad"):
        next(iter(DataLoader(Numbers(4), num_workers=1, collate_fn=lambda s: core.ones(2, requires_grad=True) * 2)))


def test_an_exception_at_the_start_comes_back() -> None:
    def init(worker: int) -> None:
        if worker == 1:
            raise OSError("no disk")

    with pytest.raises(OSError, match="worker 1 of 2, while it started") as caught:
        list(DataLoader(Numbers(), num_workers=2, worker_init_fn=init))
    assert "no disk" in str(caught.value)


@pytest.mark.by_turns
@pytest.mark.parametrize(("workers", "act", "words"), [
    (4, lambda: os.kill(os.getpid(), signal.SIGKILL), "is killed by signal: Killed. (SIGKILL)"),
    (2, lambda: os._exit(3), "exited unexpectedly with exit code 3"),
    (2, lambda: __import__("ctypes").string_at(8), "is killed by signal: Segmentation fault. (SIGSEGV)"),
], ids=["killed", "exit", "segfault"])  # fmt: skip
def test_a_worker_that_dies_is_told_of_with_its_sample(workers: int, act: Callable[[], Any], words: str) -> None:
    it = iter(DataLoader(Numbers(40, at=21, act=act), batch_size=4, num_workers=workers))
    with pytest.raises(RuntimeError) as caught:
        for _ in it:
            pass
    assert words in str(caught.value)
    assert f"worker 1 of {workers}, at the sample with index 21, number 1 of its batch" in str(caught.value)
    assert ("string_at" in str(caught.value)) == ("SIGSEGV" in words)  # where it was
    assert not children()
    with pytest.raises(StopIteration):
        next(it)


def test_a_worker_that_dies_as_it_starts_is_told_of() -> None:
    for delay in (0.0, 0.05):
        it = iter(DataLoader(Numbers(), num_workers=1))
        time.sleep(delay)
        os.kill(children()[0], signal.SIGKILL)
        with pytest.raises(RuntimeError, match="worker 0 of 1, while it started"):
            next(it)


@pytest.mark.by_turns
def test_a_persistent_loader_outlives_its_workers() -> None:
    loader = DataLoader(Numbers(), batch_size=4, num_workers=2, persistent_workers=True)
    assert len(list(loader)) == 10
    os.kill(children()[0], signal.SIGKILL)
    with pytest.raises(RuntimeError, match="between two batches"):
        list(loader)
    assert len(list(loader)) == 10


@pytest.mark.by_turns
def test_a_batch_that_does_not_come_in_time_raises() -> None:
    it = iter(DataLoader(Numbers(8, at=5, act=lambda: time.sleep(30)), batch_size=2, num_workers=2, timeout=20))
    next(it), next(it)
    begin = time.monotonic()
    it.loader.timeout = 0.5  # type: ignore[attr-defined]  # the start takes longer on a busy machine
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0.5 seconds") as caught:
        next(it)
    assert "worker 0 of 2, at the sample with index 5, number 1 of its batch" in str(caught.value)
    del it, caught
    gc.collect()
    assert time.monotonic() - begin < 8  # it sleeps still, and is stopped


@pytest.mark.by_turns
@pytest.mark.parametrize("limit", [small_files, full_memory])
def test_without_shared_memory_batches_come_through_the_socket(limit: Callable[[int], None]) -> None:
    loader = DataLoader(Numbers(12, size=300_000), batch_size=2, num_workers=2, worker_init_fn=limit)
    with pytest.warns(UserWarning, match="found no shared memory for a batch") as warned:
        found = [(b[:, 0].tolist(), bool((b == b[:, :1]).all())) for b in loader]
    assert found == [([float(i), i + 1.0], True) for i in range(0, 12, 2)]
    assert len(warned) == 1


def test_a_data_set_that_cannot_be_sent_says_what_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Numbers()
    data.lock = threading.Lock()
    with pytest.raises(TypeError, match=r"dataset.lock \(a lock\) cannot be sent to a worker process"):
        iter(DataLoader(data, num_workers=2))
    from core.utils.data import packing

    monkeypatch.setattr(packing, "_by_value", lambda: None)
    monkeypatch.setattr(Numbers, "__module__", "__main__")
    with pytest.raises(Exception, match="pip install cloudpickle") as caught:
        iter(DataLoader(Numbers(), num_workers=2))
    assert "__main__.Numbers is defined in a notebook's cell, a script" in str(caught.value)


def test_a_forked_child_leaves_the_workers_alone() -> None:
    loader = DataLoader(Numbers(40, size=5000), batch_size=4, num_workers=2, persistent_workers=True)
    it = iter(loader)
    kept = next(it)
    child = os.fork()
    if not child:
        code = 1
        try:
            for _ in range(30):  # what the parent reads meanwhile must not come here
                time.sleep(0.01)
                assert kept[0, 4999].item() == 0.0
            try:
                next(it)
            except RuntimeError as error:
                code = "belong to the process that forked" not in str(error)
        finally:
            os._exit(code)
    del kept
    assert len(list(it)) == 9
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(loader)) == 10


def test_pinning_asks_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core.cuda, "is_available", lambda: True)
    for workers in (0, 1):
        (box,) = DataLoader(range(2), batch_size=2, num_workers=workers, pin_memory=True, collate_fn=boxed)
        assert box.pinned
    monkeypatch.setattr(core.cuda, "is_available", lambda: False)
    with pytest.warns(UserWarning, match="no accelerator is found, then device pinned memory won't be used"):
        assert not next(iter(DataLoader(range(2), pin_memory=True, collate_fn=boxed))).pinned


def test_odd_options_raise_and_the_others_are_taken() -> None:
    with pytest.raises(ValueError, match="should specify a valid start method"):
        DataLoader(range(3), num_workers=1, multiprocessing_context="thread")
    with pytest.raises(TypeError, match="should be a valid context object"):
        DataLoader(range(3), num_workers=1, multiprocessing_context=3)
    with pytest.raises(ValueError, match="prefetch_factor option should be non-negative"):
        DataLoader(range(3), num_workers=1, prefetch_factor=0)
    with pytest.warns(UserWarning, match="'fork' changes nothing"):
        DataLoader(range(3), num_workers=1, multiprocessing_context="fork")
    assert [b.item() for b in DataLoader(range(3), num_workers=1, multiprocessing_context="spawn")] == [0, 1, 2]
    with pytest.warns(UserWarning, match="This DataLoader will create 999 worker processes in total"):
        DataLoader(range(3), num_workers=999)


def test_ctrl_c_that_another_thread_takes_waits_for_the_end_of_a_start() -> None:
    """The mask of this thread does not keep the signal from others, in which Python's handler hears it too."""
    from core.utils.data.pool import _ctrl_c_afterwards

    reached = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it is raised as the inner block ends
        with _ctrl_c_afterwards():
            signal.raise_signal(signal.SIGINT)
            reached.append("the line after")
        reached.append("after the block")
    assert reached == ["the line after"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
