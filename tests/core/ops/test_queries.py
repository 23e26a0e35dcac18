"""Constants, limits of dtypes, questions about tensors, settings."""

from __future__ import annotations

import math

import numpy as np
import pytest

import core


def test_constants() -> None:
    assert (core.pi, core.e, core.inf, core.newaxis) == (math.pi, math.e, math.inf, None)
    assert math.isnan(core.nan)
    assert core.zeros(2).layout is core.strided


def test_finfo_is_numpys() -> None:
    for d in (core.float16, core.float32, core.float64):
        f, n = core.finfo(d), np.finfo(d.numpy)
        assert (f.bits, f.eps, f.max, f.tiny) == (n.bits, n.eps, n.max, n.tiny)
    assert core.finfo(core.bfloat16).eps == 2**-7
    assert core.finfo(core.complex64).dtype == "float32"
    assert core.finfo().dtype == "float32"
    with pytest.raises(TypeError, match="requires a floating point input type"):
        core.finfo(core.int8)


def test_iinfo() -> None:
    assert (core.iinfo(core.int16).min, core.iinfo(core.int16).max, core.iinfo(core.int16).bits) == (-32768, 32767, 16)
    with pytest.raises(TypeError, match="requires an integer input type"):
        core.iinfo(core.float32)
    with pytest.raises(TypeError, match="not supported for"):
        core.iinfo(core.bool)


def test_questions() -> None:
    x = core.ones(2, 3)
    assert core.is_tensor(x)
    assert not core.is_tensor([1])
    assert core.is_floating_point(x)
    assert not core.is_complex(x)
    assert core.is_signed(x)
    assert core.numel(x) == 6
    assert core.get_device(x) == -1
    assert core.is_nonzero(core.tensor([2]))
    with pytest.raises(RuntimeError, match="ambiguous"):
        core.is_nonzero(x)
    with pytest.raises(TypeError, match="must be Tensor, not list"):
        core.numel([1])


def test_types_of_results() -> None:
    assert core.result_type(core.tensor([1, 2]), 1.0) is core.float32
    assert core.result_type(core.tensor(1, dtype=core.int64), core.tensor([1], dtype=core.uint8)) is core.uint8
    assert core.can_cast(core.float64, core.float16)
    assert not core.can_cast(core.float16, core.int64)
    assert core.typename(core.ones(1, dtype=core.int64)) == "core.LongTensor"
    assert core.typename(1.5) == "float"


def test_threads() -> None:
    before = core.get_num_threads()
    try:
        core.set_num_threads(1)
        assert core.get_num_threads() == 1
    finally:
        core.set_num_threads(before)
    with pytest.raises(RuntimeError, match="positive"):
        core.set_num_threads(0)
