"""Making tensors against PyTorch, which this environment has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import core

CASES = """
t.arange(1, 2.5, 0.5) | t.arange(5.0) | t.arange(5, 0) | t.arange(0, 5, 0) | t.arange(3, dtype=t.bool)
t.arange(t.tensor(3)) | t.arange(0, float("inf")) | t.arange(0, 1, 0.1) | t.arange(10, 0, -3) | t.arange(2, 9, 3)
t.arange(0)
t.arange(3, dtype=t.float16) | t.arange(-3, 3) | t.arange(1, 4, 2.5) | t.arange(4, dtype=t.int8)
t.arange(0.5, 4, dtype=t.int64) | t.linspace(0, 1, 3) | t.linspace(0, 10, 4, dtype=t.int64) | t.linspace(0, 1, -1)
t.linspace(0, 1, 1)
t.linspace(0, 1, 0) | t.linspace(-3.3, 7.1, 101) | t.linspace(5, -5, 7, dtype=t.float64) | t.logspace(0, 2, 3)
t.logspace(0, 3, 4, base=2) | t.eye(-1) | t.eye(2, 3) | t.eye(2, dtype=t.bool) | t.zeros(2, -1)
t.zeros((2,), (3,))
t.zeros(2.5) | t.zeros(size=(2, 3)) | t.zeros([]) | t.zeros() | t.zeros(t.tensor(2), 3) | t.ones(2, dtype=t.int64)
t.zeros(2, dtype=float) | t.zeros(2, dtype=int) | t.zeros(2, dtype=bool) | t.zeros(2, dtype=np.float32)
t.full((2,), True) | t.full((2,), 1.5) | t.full((2,), 3) | t.full(2, 3) | t.full((2,), 1.5, dtype=t.int64)
t.full((2,), t.tensor(2.0)) | t.full_like(t.ones(2), 3) | t.full_like(t.ones(2), 3.5, dtype=t.int64)
t.tensor([[1, 2], [3]]) | t.tensor("a") | t.tensor([1, 2.5]) | t.tensor([True, 2]) | t.tensor([1, None])
t.tensor(2**63) | t.tensor([np.float64(1.0)]) | t.tensor([np.float32(1.0)]) | t.tensor(np.float64(1.0))
t.tensor([])
t.tensor([[], []]) | t.tensor(1 + 2j) | t.tensor([t.tensor(1.0), 2]) | t.tensor(300, dtype=t.uint8)
t.tensor(-1, dtype=t.uint8) | t.tensor(1.5, dtype=t.int32) | t.tensor(float("nan"), dtype=t.int32)
t.tensor(range(3))
t.tensor((1, 2)) | t.tensor({1: 2}) | t.tensor(None) | t.tensor([[1.0, 2], [3, 0]], dtype=t.bool)
t.tensor(np.arange(3, dtype=np.int16)) | t.tensor([1, 2], requires_grad=True)
t.ones(2, dtype=t.int64, requires_grad=True)
t.from_numpy([1]) | t.from_numpy(np.zeros(3)[::-1]) | t.from_numpy(np.array(["a"]))
t.from_numpy(np.zeros(3, ">f8")) | t.from_numpy(np.arange(6).reshape(2, 3).T) | t.as_tensor(1.5)
t.as_tensor([1, 2]) | t.as_tensor(np.zeros(2))
t.as_tensor(np.zeros(2), dtype=t.float32) | t.asarray([1.0, 2]) | t.scalar_tensor(3) | t.zeros_like(3)
t.zeros_like(t.ones(2, dtype=t.int32)) | t.ones_like(t.zeros(2, 3), dtype=t.bool) | t.zeros(3, out=t.empty(0))
t.arange(3, out=t.empty(3, dtype=t.float64)) | t.ones(2, out=t.empty(2, dtype=t.int64)) | t.tril_indices(3, 3)
t.triu_indices(3, 4, 1) | t.tril_indices(4, 3, -1) | t.zeros(2, device="nowhere") | t.zeros(2, pin_memory=False)
t.zeros(2, nonsense=1) | t.tensor([[1], [2, 3]]) | t.tensor([[1, 2], 3]) | t.tensor([1e400]) | t.tensor([2**40])
t.tensor(True) | t.tensor([True, 1.5]) | t.empty(2, 3).shape[1] * t.ones(1) | t.tensor([[[1.5]]]) | t.zeros(0, 3)
""".replace("\n", " | ").split(" | ")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", [c.strip() for c in CASES if c.strip()])
def test_same(text: str) -> None:
    results: list[Any] = []
    for lib in (torch, core):
        try:
            x = eval(text, {"t": lib, "np": np})
            results.append((tuple(x.shape), str(x.dtype).split(".")[1], x.requires_grad, x.numpy()))
        except Exception as e:
            results.append((type(e).__name__, str(e).splitlines()[0][:40]))
    theirs, mine = results
    assert theirs[0] == mine[0], (theirs, mine)
    if len(theirs) == 2:
        return
    assert theirs[1:3] == mine[1:3]
    if "empty(2, 3)" not in text:
        np.testing.assert_allclose(
            mine[3], theirs[3], rtol=1e-6 if "space" in text else 0, atol=1e-6 if "space" in text else 0
        )
