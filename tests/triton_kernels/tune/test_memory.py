"""Memory in which a write or a read outside of an array is found out: where arrays lie, and what changes a zone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from triton_kernels.tune import memory
from triton_kernels.tune.memory import PLACES, Fenced, Zoned

PAGE = memory._PAGE


def closed(address: int) -> tuple[int, int]:
    """The region of the address, which nobody may touch: where it begins and ends."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        region, allowed = line.split()[:2]
        begin, end = (int(n, 16) for n in region.split("-"))
        if begin <= address < end:
            assert allowed == "---p", line
            return begin, end
    raise AssertionError(f"nothing lies at {address:x}")


@pytest.mark.parametrize(("shape", "dtype", "fence"), [
    ((3,), "float32", 1 << 16),
    ((100_000,), "uint8", 25 * PAGE),
    ((5, 4096), "float64", 40 * PAGE),
    ((), "int64", 1 << 16),
    ((0, 3), "float32", 1 << 16),
])  # fmt: skip
def test_arrays_lie_between_pages_that_nobody_may_touch(shape, dtype, fence):
    fence = -(-fence // PAGE) * PAGE
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    fenced = Fenced(shape, dtype, np.random.default_rng(0))
    begin = fenced.memory.ctypes.data
    assert begin % PAGE == 0
    assert len(fenced.memory) == -(-size // PAGE) * PAGE + 3 * PAGE
    assert closed(begin - 1)[0] <= begin - fence
    assert closed(begin - 1)[1] == begin
    assert closed(begin + len(fenced.memory))[1] >= begin + len(fenced.memory) + fence
    assert (fenced.array.shape, fenced.array.dtype, fenced.size) == (shape, np.dtype(dtype), size)


@pytest.mark.parametrize("place", PLACES)
def test_where_an_array_lies_and_what_spoils_its_zones(place):
    fenced = Fenced((5, 3), "float32", np.random.default_rng(1))
    fenced.lay(place)
    begin, size = fenced.array.ctypes.data, 60
    into = begin - fenced.memory.ctypes.data
    assert fenced.place == place
    assert {"middle": into % 16 == 0 and PAGE <= into < 2 * PAGE, "start": into == 0, "off": into == PAGE + 4,
            "end": into + size == len(fenced.memory)}[place]  # fmt: skip
    assert (fenced.array.view(np.uint8) == 0xFF).all()
    fenced.array[...] = 7
    assert fenced.spoiled() is False
    for at in (into - 1, 0, into + size, len(fenced.memory) - 1):
        if 0 <= at < len(fenced.memory) and not into <= at < into + size:
            fenced.memory[at] = 0
            assert fenced.spoiled() is True, at
            fenced.memory[at] = 0xFF
    fenced.memory[:] = 1
    fenced.lay(place)
    assert (fenced.memory == 0xFF).all()


def test_arrays_in_the_middle_lie_differently_from_one_another():
    rng = np.random.default_rng(2)
    begins = [Fenced((3,), "float32", rng).array.ctypes.data % PAGE for _ in range(40)]
    assert len(set(begins)) > 20
    assert all(begin % 16 == 0 for begin in begins)
    assert max(begins) > PAGE // 2 > min(begins)


def test_pages_that_cannot_be_closed_are_no_fence(monkeypatch):
    monkeypatch.setattr(memory, "_libc", lambda: SimpleNamespace(mprotect=lambda *a: -1))
    with pytest.raises(OSError, match="the pages around an array cannot be closed"):
        Fenced((3,), "float32")


def test_zones_of_another_librarys_array_are_made_whole_again():
    content = np.arange(6, dtype=np.int16).reshape(2, 3)
    zoned = Zoned(np, content)
    begin = zoned.array.ctypes.data - zoned.memory.ctypes.data
    assert (zoned.array == content).all()
    assert (begin, len(zoned.memory) - begin - 12) == (1 << 20, 1 << 20)
    zoned.array[...] = 0
    assert zoned.spoiled() is False
    for at in (begin - 1, 0, begin + 12, len(zoned.memory) - 1):
        zoned.memory[at] = 3
        assert zoned.spoiled() is True
        assert zoned.spoiled() is False
        assert zoned.memory[at] == 0xFF
    assert (zoned.array == 0).all()


def test_what_the_c_library_allocates_is_disturbed_within(monkeypatch):
    asked = []
    monkeypatch.setattr(memory, "_libc", lambda: SimpleNamespace(mallopt=lambda *a: asked.append(a)))
    with memory.disturbed():
        assert asked == [(-6, 0x80)]  # glibc's M_PERTURB; fresh memory holds the complement
    assert asked == [(-6, 0x80), (-6, 0)]
    with pytest.raises(KeyError), memory.disturbed():
        raise KeyError
    assert asked == [(-6, 0x80), (-6, 0)] * 2
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    with memory.disturbed():
        pass
    assert len(asked) == 4
    monkeypatch.setattr(memory.sys, "platform", "linux")
    monkeypatch.setattr(memory, "_libc", SimpleNamespace)  # a C library that has no such thing
    with memory.disturbed():
        pass
