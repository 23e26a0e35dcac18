"""Dtypes that are there to be stored: made, cast, moved, indexed and saved; what is computed of them NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core.base.dtypes import absent_dtypes, stored_dtypes

every = pytest.mark.parametrize("dtype", stored_dtypes, ids=lambda d: d.name)


@every
def test_made_and_cast(dtype):
    x = core.tensor([1.0, 2.0, 3.0])
    y = x.to(dtype)
    assert (y.dtype, y.element_size()) == (dtype, dtype.itemsize)
    assert y.float().tolist() == y.to(core.int64).tolist() == [1, 2, 3]
    assert core.tensor([1, 2, 3], dtype=dtype).tolist() == [1, 2, 3]
    if not dtype.is_floating_point:
        assert core.equal(core.from_numpy(y.numpy()), y)
    assert core.full((2,), 3, dtype=dtype).float().tolist() == [3, 3]
    assert core.zeros(2, dtype=dtype).float().tolist() == [0, 0]
    assert dtype.name in repr(y)


@every
def test_moved_and_written(dtype):
    y = core.tensor([1.0, 2.0, 3.0]).to(dtype)
    assert y[1:].float().tolist() == [2, 3]
    assert core.cat([y, y]).float().tolist() == [1, 2, 3, 1, 2, 3]
    assert y.reshape(3, 1).t().contiguous().shape == (1, 3)
    assert y.index_select(0, core.tensor([2])).float().tolist() == [3]
    assert y.clone().fill_(2).float().tolist() == [2, 2, 2]
    assert y.view(core.uint8).numel() == 3 * dtype.itemsize
    assert (y == y).all()


@every
@pytest.mark.parametrize("form", ["safetensors", "pt"])
def test_saved(dtype, form, tmp_path):
    y = core.tensor([1.0, 2.0]).to(dtype)
    core.save({"y": y}, tmp_path / f"y.{form}")
    back = core.load(tmp_path / f"y.{form}")["y"]
    assert back.dtype is dtype
    assert core.equal(back, y)


@every
def test_limits(dtype):
    if dtype.is_floating_point:
        found = core.finfo(dtype)
        assert found.bits == 8
        assert found.max == {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "float8_e4m3fnuz": 240.0,
                             "float8_e5m2fnuz": 57344.0}[dtype.name]  # fmt: skip
    else:
        assert core.iinfo(dtype).max == np.iinfo(dtype.numpy).max
        assert not dtype.is_signed
        assert int(core.full((1,), -1, dtype=dtype)) == np.iinfo(dtype.numpy).max
    with pytest.raises(RuntimeError, match="without overflow"):
        core.zeros(1, dtype=dtype).fill_(1e30)


@every
def test_mixed_with_others(dtype):
    assert core.promote_types(dtype, dtype) is dtype
    if not dtype.is_floating_point:
        assert core.promote_types(dtype, core.float16) is core.float16
    with pytest.raises(RuntimeError, match=r"Promotion for .* is not supported, attempted to promote"):
        core.promote_types(dtype, core.int32)


@pytest.mark.parametrize("dtype", absent_dtypes, ids=lambda d: d.name)
def test_dtypes_that_are_names_alone(dtype):
    assert getattr(core, dtype.name) is dtype
    assert isinstance(dtype, core.dtype)
    for make in (lambda: core.zeros(2, dtype=dtype), lambda: core.ones(2).to(dtype)):
        with pytest.raises(RuntimeError, match=f"there are no tensors of core.{dtype.name} here"):
            make()
