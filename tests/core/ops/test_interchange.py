"""Tensors and other libraries' arrays over the same memory: DLPack, NumPy's interface, buffers."""

from __future__ import annotations

import array

import numpy as np
import pytest

import core


class Bare:
    """What has ``__dlpack__`` alone, in its first form."""

    def __init__(self, a):
        self.a = a

    def __dlpack__(self, stream=None):
        return self.a.__dlpack__()

    def __dlpack_device__(self):
        return self.a.__dlpack_device__()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "uint8", "bool", "complex64"])
def test_dlpack_shares_the_memory_of_every_dtype(dtype):
    x = core.zeros(3, dtype=getattr(core, dtype))
    for y in (core.from_dlpack(x), core.from_dlpack(x.__dlpack__()), core.from_dlpack(Bare(x))):
        assert y.dtype is x.dtype
        y[1] = 1
        assert x[1] == 1
        x.zero_()


def test_dlpack_copies_where_it_is_told_to():
    x = core.zeros(2, dtype=core.bfloat16)
    core.from_dlpack(x, copy=True)[0] = 1
    assert x[0] == 0
    core.from_dlpack(x, copy=False, device="cpu")[0] = 1
    assert x[0] == 1
    assert np.from_dlpack(core.ones(2)).tolist() == [1, 1]
    assert x.__dlpack_device__() == (1, 0)


def test_dlpack_refuses():
    x = core.ones(2)
    with pytest.raises(BufferError, match="cannot export a tensor on cpu"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="require gradient"):
        core.ones(2, requires_grad=True).__dlpack__()
    capsule = x.__dlpack__()
    core.from_dlpack(capsule)
    with pytest.raises(ValueError, match="used before"):
        core.from_dlpack(capsule)
    with pytest.raises(TypeError, match="an array with __dlpack__"):
        core.from_dlpack([1.0])


def test_numpys_interface_where_numpy_can_read_the_memory():
    x = core.zeros(2)
    assert x.__array_interface__["typestr"] == "<f4"
    np.asarray(x)[0] = 1
    assert x.tolist() == [1, 0]
    assert np.array(x, dtype=np.int64).tolist() == [1, 0]
    assert not hasattr(core.zeros(2, dtype=core.bfloat16), "__array_interface__")
    assert not hasattr(core.zeros(2, requires_grad=True), "__array_interface__")
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        np.asarray(core.zeros(2, requires_grad=True))
    with pytest.raises(ValueError, match="a copy is needed to another dtype"):
        x.__array__(np.int64, copy=False)


def test_asarray_shares_what_offers_its_memory():
    held = array.array("h", [1, 2])
    core.asarray(held)[0] = 7
    assert held[0] == 7
    assert core.asarray(memoryview(held)).dtype is core.int16
    assert core.asarray(bytearray(b"\x01\x02"), dtype=core.uint8).tolist() == [1, 2]
    x = core.zeros(2)
    core.asarray(Bare(x))[0] = 1
    assert x[0] == 1
    assert core.asarray(x, copy=False) is x
    core.asarray(x, copy=True)[1] = 5
    assert x[1] == 0
    a = np.zeros(2)
    core.asarray(a, copy=False)[0] = 1
    assert a[0] == 1
    for obj, dtype in ((x, core.float64), (a, core.float32), ([1.0], None), (2.0, None)):
        with pytest.raises(ValueError, match="copy=False forbids"):
            core.asarray(obj, dtype=dtype, copy=False)


@pytest.mark.parametrize(
    "number", [np.float64(2), np.float32(2), np.float16(2), np.int64(2), np.int8(2), np.bool_(True)]
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8", "complex64"])
def test_numpys_numbers_count_as_pythons(number, dtype):
    x = core.ones(2, dtype=getattr(core, dtype))
    for found, expected in ((x + number, x + number.item()), (number * x, number.item() * x), (x == number, x == 1)):
        assert isinstance(found, core.Tensor)
        assert found.dtype is expected.dtype
