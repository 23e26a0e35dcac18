"""Numbers as elements of a dtype: what it does not hold is refused wherever a number is written or compared into it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import core
from core.base.scalars import element

WITHOUT = "value cannot be converted to type {} without overflow"
mask, at = core.tensor([True, False]), core.tensor([0])


def _set(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


# A number that becomes an element: x of some dtype, the number.
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "fill_": lambda x, v: x.clone().fill_(v),
    "full": lambda x, v: core.full((2,), v, dtype=x.dtype),
    "full_like": lambda x, v: core.full_like(x, v),
    "new_full": lambda x, v: x.new_full((2,), v),
    "masked_fill": lambda x, v: x.masked_fill(mask, v),
    "masked_fill_": lambda x, v: x.clone().masked_fill_(mask, v),
    "index_fill": lambda x, v: x.index_fill(0, at, v),
    "scatter": lambda x, v: x.scatter(0, at, v),
    "a place": lambda x, v: _set(x.clone(), 0, v),
    "a slice": lambda x, v: _set(x.clone(), slice(None), v),
    "a mask": lambda x, v: _set(x.clone(), mask, v),
    "an index": lambda x, v: _set(x.clone(), at, v),
    "pad": lambda x, v: core.nn.functional.pad(x, (1, 0), value=v)[:1],
    "where": lambda x, v: core.where(mask, v, x),
    "where other": lambda x, v: core.where(~mask, x, v),
    "fill_diagonal_": lambda x, v: x.reshape(1, 2).clone().fill_diagonal_(v)[0],
}
OVER = [
    ("uint8", 300, "uint8_t"), ("int8", 128, "int8_t"), ("int16", -40000, "int16_t"), ("int32", 2**31, "int"),
    ("int64", 2**63, "int64_t"), ("uint8", -300, "uint8_t"),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "value", "name"), OVER)
@pytest.mark.parametrize("write", WRITES)
def test_an_int_past_the_dtype(write: str, dtype: str, value: int, name: str) -> None:
    x = core.tensor([1, 2], dtype=getattr(core, dtype))
    with pytest.raises(RuntimeError, match=WITHOUT.format(name)):
        WRITES[write](x, value)


@pytest.mark.parametrize("value", [1e20, -1e20, math.inf, math.nan])
@pytest.mark.parametrize("write", [w for w in WRITES if "where" not in w])  # which gives floats
def test_a_float_that_is_no_int64(write: str, value: float) -> None:
    with pytest.raises(RuntimeError, match=WITHOUT.format("int64_t")):
        WRITES[write](core.tensor([1, 2]), value)


@pytest.mark.parametrize(("dtype", "value", "name"), [("float32", 1e39, "float"), ("float16", 1e6, "c10::Half"),
                                                      ("bfloat16", -1e39, "c10::BFloat16")])  # fmt: skip
@pytest.mark.parametrize("write", [w for w in WRITES if not w.startswith("where")])
def test_a_float_past_a_floating_dtype(write: str, dtype: str, value: float, name: str) -> None:
    with pytest.raises(RuntimeError, match=WITHOUT.format(name)):
        WRITES[write](core.tensor([1.0, 2.0], dtype=getattr(core, dtype)), value)


@pytest.mark.parametrize("write", WRITES)
def test_what_fits_is_written(write: str) -> None:
    assert WRITES[write](core.tensor([1, 2]), 5)[0].item() == 5
    assert WRITES[write](core.tensor([1, 2], dtype=core.uint8), 255)[0].item() == 255
    assert WRITES[write](core.tensor([1.0, 2.0]), math.inf)[0].item() == math.inf
    assert math.isnan(WRITES[write](core.tensor([1.0, 2.0]), math.nan)[0].item())
    assert WRITES[write](core.tensor([1.0, 2.0], dtype=core.float16), -65504.0)[0].item() == -65504
    assert WRITES[write](core.tensor([True, False]), True)[0].item() is True


def test_a_float_is_cut_off_and_a_negative_int_wraps_in_uint8() -> None:
    assert core.tensor([1, 2]).masked_fill(mask, 2.9).tolist() == [2, 2]
    assert core.tensor([1, 2], dtype=core.uint8).fill_(-1).tolist() == [255, 255]
    assert element(-255, core.uint8, "fill_") == 1
    assert element(1e20, core.bool, "fill_") is True
    with pytest.raises(RuntimeError, match="uint8_t"):
        element(-1.0, core.uint8, "fill_")
    with pytest.raises(RuntimeError, match="float without overflow"):
        element(1j, core.float32, "fill_")


@pytest.mark.parametrize("value", [core.tensor(1e20), core.tensor(math.nan)])
def test_a_tensor_of_one_number_is_held_to_it_too(value: Any) -> None:
    for fill in (core.masked_fill, core.index_fill):
        args = (mask, value) if fill is core.masked_fill else (0, at, value)
        with pytest.raises(RuntimeError, match=WITHOUT.format("int64_t")):
            fill(core.tensor([1, 2]), *args)


@pytest.mark.parametrize(("call", "name"), [
    (lambda: core.tensor([1, 2], dtype=core.int8).clamp(0, 300), "int8_t"),
    (lambda: core.tensor([1, 2], dtype=core.int8).clamp_min(300), "int8_t"),
    (lambda: core.tensor([1.0]).clamp(0, 1e300), "float"),
    (lambda: core.tensor([1], dtype=core.int8) ** 300, "int8_t"),
    (lambda: core.add(core.tensor([1], dtype=core.uint8), core.tensor([1], dtype=core.uint8), alpha=300), "uint8_t"),
    (lambda: core.add(core.tensor([1.0]), core.tensor([1.0]), alpha=1e300), "float"),
    (lambda: core.addcmul(core.tensor([1]), core.tensor([1]), core.tensor([1]), value=1e20), "int64_t"),
    (lambda: core.nn.functional.threshold(core.tensor([1], dtype=core.uint8), 1, 300), "uint8_t"),
    (lambda: core.where(mask, core.tensor([1.0, 2.0]), 1e300), "float"),
])  # fmt: skip
def test_settings_that_are_elements(call: Any, name: str) -> None:
    with pytest.raises(RuntimeError, match=WITHOUT.format(name)):
        call()


def test_a_floating_alpha_is_none_of_integers() -> None:
    with pytest.raises(RuntimeError, match="For integral input tensors, argument alpha must not be a floating point"):
        core.add(core.tensor([1]), core.tensor([1]), alpha=1.5)
    assert core.add(core.tensor([1.0]), core.tensor([1]), alpha=1.5).tolist() == [2.5]
