"""Page-locked memory, with a stand-in for CuPy's allocator."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import core
from core.backends import cuda
from core.ops import transfer
from core.utils.data import DataLoader


class PinnedMemoryPointer(bytearray):
    """What CuPy's arrays of such memory lie on."""


@pytest.fixture
def with_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU with CuPy, as far as pinning asks for it."""
    cupyx = ModuleType("cupyx")
    cupyx.empty_pinned = (  # type: ignore[attr-defined]
        lambda shape, dtype: np.ndarray(shape, dtype, PinnedMemoryPointer(shape[0] * np.dtype(dtype).itemsize))
    )
    monkeypatch.setitem(sys.modules, "cupyx", cupyx)
    monkeypatch.setattr(cuda, "availability", lambda: (True, "a stand-in"))
    monkeypatch.setattr(cuda, "array_library", lambda: cupyx)


@pytest.mark.usefixtures("with_gpu")
def test_a_pinned_copy_has_the_values() -> None:
    for t in (core.arange(6.0).reshape(2, 3).T, core.ones(3, dtype=core.bfloat16), core.zeros(0, 2), core.tensor(True)):
        y = t.pin_memory()
        assert y.is_pinned()
        assert not t.is_pinned()
        assert y.pin_memory() is y
        assert (y.dtype, y.shape, y.tolist()) == (t.dtype, t.shape, t.tolist())


@pytest.mark.usefixtures("with_gpu")
@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_pins_its_batches(workers: int) -> None:
    data: list[Any] = [{"x": core.ones(3) * i, "y": [i, "text"]} for i in range(4)]
    for batch in DataLoader(data, batch_size=2, pin_memory=True, num_workers=workers):
        assert batch["x"].is_pinned()
        assert batch["y"][0].is_pinned()
        assert list(batch["y"][1]) == ["text", "text"]


def test_without_a_gpu_a_tensor_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    t = core.ones(2)
    assert t.pin_memory() is t  # under the interpreter
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        core.ones(2, device="cuda").pin_memory()
    monkeypatch.setattr(cuda, "availability", lambda: (False, "none"))
    assert transfer.pinned(t) is t
    assert not t.is_pinned()
