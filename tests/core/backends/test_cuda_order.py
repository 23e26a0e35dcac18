"""Sorting on cuda is the CPU's: orders with ties and NaN, gradients, whole types declined with a reason."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core import backends


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_the_cpus_orders(dim: int, rng: np.random.Generator) -> None:
    a = rng.integers(-3, 4, (6, 5, 7)).astype("f")
    a[2, 3, 4] = a[1, 1, 1] = np.nan
    for function in (
        lambda x: core.sort(x, dim, descending=True), lambda x: core.sort(x, dim), lambda x: core.topk(x, 3, dim),
        lambda x: core.topk(x, 2, dim, largest=False), lambda x: core.kthvalue(x, 3, dim),
        lambda x: core.median(x, dim), lambda x: core.nanmedian(x, dim),
    ):  # fmt: skip
        found = []
        for device in ("cpu", "cuda"):
            x = core.tensor(a, device=device, requires_grad=True)
            values, indices = function(x)
            values.nansum().backward()
            found.append([t.detach().cpu().numpy() for t in (values, indices, x.grad)])
        for mine, wanted in zip(*found, strict=True):
            np.testing.assert_array_equal(mine, wanted)


def test_types_of_64_bits_are_sorted_by_the_kernel_too() -> None:
    for dtype in (core.int64, core.float64, core.bool, core.bfloat16):
        x = core.tensor([3, 1, 2]).cuda().to(dtype)
        told = backends.explain("sort", None, x._kind, (x._a,), {"dim": 0, "descending": False})
        assert told[0] == ("sort_kernel", "Triton", None)
    assert core.sort(core.tensor([3 << 40, 1, 2 << 33]).cuda())[1].tolist() == [1, 2, 0]
