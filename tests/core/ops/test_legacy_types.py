"""``LongTensor([1, 2])`` and its like, as programs of older days write them."""

from __future__ import annotations

import numpy as np
import pytest

import core

KINDS = {"FloatTensor": core.float32, "DoubleTensor": core.float64, "HalfTensor": core.float16,
         "BFloat16Tensor": core.bfloat16, "LongTensor": core.int64, "IntTensor": core.int32, "ShortTensor": core.int16,
         "CharTensor": core.int8, "ByteTensor": core.uint8, "BoolTensor": core.bool}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_numbers_sizes_and_tensors(name: str) -> None:
    kind, dtype = getattr(core, name), KINDS[name]
    assert (kind.__name__, kind.dtype) == (name, dtype)
    for given in ([1, 0], (1, 0), np.array([1.0, 0.0])):
        x = kind(given)
        assert (type(x), x.dtype, x.tolist()) == (core.Tensor, dtype, [1, 0])
    assert kind(2, 3).shape == kind(core.Size([2, 3])).shape == (2, 3)
    assert (kind().shape, kind(2, 3).dtype, kind(np.int64(3)).shape) == ((0,), dtype, (3,))
    assert kind(x).data_ptr() == x.data_ptr()
    assert x.type(kind) is x
    assert core.ones(2).type(kind).dtype is dtype
    assert x.type() == f"core.{name}"


def test_isinstance_asks_after_dtype_and_device() -> None:
    x = core.ones(2)
    assert isinstance(x, core.FloatTensor)
    assert not isinstance(x, core.LongTensor)
    assert isinstance(core.nn.Parameter(x), core.FloatTensor)
    assert not isinstance(core.ones(2, device="cuda"), core.FloatTensor)
    assert not isinstance([1.0], core.FloatTensor)


def test_floats_are_cut_to_integers_and_ranges_taken() -> None:
    assert core.LongTensor([1.5, -2.5]).tolist() == [1, -2]
    assert core.LongTensor(range(3)).tolist() == [0, 1, 2]


def test_mistakes() -> None:
    with pytest.raises(TypeError, match=r"(?s)expected core.float32 \(got core.int64\).*op: FloatTensor"):
        core.FloatTensor(core.arange(2))
    with pytest.raises(TypeError, match=r"(?s)LongTensor\(\) takes a list of numbers.*came: float"):
        core.LongTensor(2.5)
    with pytest.raises(TypeError, match=r"came: str"):
        core.FloatTensor("a")
    with pytest.raises(ValueError, match="expected sequence of length 2 at dim 1"):
        core.IntTensor([[1, 2], [3]])
