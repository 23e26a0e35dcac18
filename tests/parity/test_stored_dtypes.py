"""uint16, uint32, uint64 and float8: made, cast, moved, printed and saved as PyTorch does; arithmetic as far as its."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch

import core

UNSIGNED = ["uint16", "uint32", "uint64"]
FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
BOTH = [*UNSIGNED, *FLOAT8]
X = [0, 1, 2, 3]


def _value(v: Any) -> Any:
    if isinstance(v, tuple | list):
        return [_value(one) for one in v]
    return (str(v.dtype).split(".")[-1], v.tolist()) if hasattr(v, "tolist") else repr(v).replace("torch.", "core.")


def _same(call: Any, dtype: str) -> None:
    ours, theirs = (call(t, t.tensor(X).to(getattr(t, dtype)), getattr(t, dtype)) for t in (core, torch))
    assert _value(ours) == _value(theirs)


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("call", [
    lambda t, x, d: repr(x), lambda t, x, d: x.clone(), lambda t, x, d: t.zeros(2, dtype=d),
    lambda t, x, d: t.ones(2, dtype=d), lambda t, x, d: t.full((2,), 3, dtype=d), lambda t, x, d: x.clone().fill_(2),
    lambda t, x, d: t.cat([x, x]), lambda t, x, d: t.stack([x, x]), lambda t, x, d: x[1:], lambda t, x, d: x[2],
    lambda t, x, d: x[t.tensor([0, 2])], lambda t, x, d: x[t.tensor([True, False, True, False])],
    lambda t, x, d: x.view(2, 2).T, lambda t, x, d: x.tolist(), lambda t, x, d: x[1].item(), lambda t, x, d: x == x,
    lambda t, x, d: x * x, lambda t, x, d: x.float(), lambda t, x, d: x.to(t.int64), lambda t, x, d: x.bool(),
    lambda t, x, d: t.where(t.tensor(True), x, x), lambda t, x, d: x.view(t.uint8), lambda t, x, d: x.repeat(2),
    lambda t, x, d: t.ones(4).copy_(x), lambda t, x, d: d.itemsize, lambda t, x, d: d.is_signed,
    lambda t, x, d: t.promote_types(d, d), lambda t, x, d: x.any(), lambda t, x, d: t.empty_like(x).shape.numel(),
    lambda t, x, d: t.tensor(X, dtype=d), lambda t, x, d: x.expand(2, 4).contiguous(), lambda t, x, d: x.split(2),
    lambda t, x, d: d.is_floating_point, lambda t, x, d: x.element_size(),
])  # fmt: skip
def test_what_both_do(dtype: str, call: Any) -> None:
    _same(call, dtype)


@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize("call", [
    lambda t, x, d: x / x[1:2], lambda t, x, d: x.sum(), lambda t, x, d: x & x, lambda t, x, d: x.exp(),
    lambda t, x, d: x.sort()[0], lambda t, x, d: x.cumsum(0), lambda t, x, d: x + t.ones(4),
    lambda t, x, d: x.numpy().dtype.name, lambda t, x, d: t.from_numpy(x.numpy()), lambda t, x, d: x.unique(),
    lambda t, x, d: t.iinfo(d).max, lambda t, x, d: t.tensor(-1).to(d),
    lambda t, x, d: t.promote_types(d, t.float32), lambda t, x, d: t.tensor([70000]).to(d),
])  # fmt: skip
def test_arithmetic_of_unsigned_ones(dtype: str, call: Any) -> None:
    _same(call, dtype)


@pytest.mark.parametrize("dtype", FLOAT8)
def test_rounding_and_limits(dtype: str) -> None:
    numbers = [0.1, 1.0625, 3.3, 17.5, 240.0, 448.0, 0.001, -0.3, -20000.0 if "e5" in dtype else -200.0]
    values = [t.tensor(numbers).to(getattr(t, dtype)).float().tolist() for t in (core, torch)]
    assert repr(values[0]) == repr(values[1])
    ours, theirs = (t.finfo(getattr(t, dtype)) for t in (core, torch))
    assert (ours.max, ours.min, ours.bits) == (theirs.max, theirs.min, theirs.bits)
    if "fnuz" not in dtype:  # there PyTorch says half of the step above 1
        assert ours.eps == theirs.eps


def test_what_is_beyond_the_greatest() -> None:
    for dtype in ("float8_e4m3fn", "float8_e5m2"):
        numbers = [1000.0, -1000.0, 1e6, float("inf"), float("nan")]
        assert repr(core.tensor(numbers).to(getattr(core, dtype)).tolist()) == repr(
            torch.tensor(numbers).to(getattr(torch, dtype)).tolist()
        )


@pytest.mark.parametrize("dtype", FLOAT8)
@pytest.mark.parametrize("call", [
    lambda t, x: x + x, lambda t, x: x - 1, lambda t, x: x.sum(), lambda t, x: x.mean(), lambda t, x: x.exp(),
    lambda t, x: x.sort(), lambda t, x: x.max(), lambda t, x: x < x, lambda t, x: x + t.ones(4),
    lambda t, x: x.cumsum(0),
])  # fmt: skip
def test_arithmetic_of_float8_is_refused(dtype: str, call: Any) -> None:
    for t in (core, torch):
        with pytest.raises(RuntimeError, match=r"not implemented for|not supported"):
            call(t, t.tensor(X).to(getattr(t, dtype)))


@pytest.mark.parametrize(("a", "b"), [("uint16", "int32"), ("uint16", "uint32"), ("uint64", "bool"),
                                      ("float8_e5m2", "float32"), ("float8_e5m2", "int8"),
                                      ("float8_e5m2", "float8_e4m3fn")])  # fmt: skip
def test_there_is_no_common_dtype(a: str, b: str) -> None:
    for t in (core, torch):
        with pytest.raises(RuntimeError, match=r"Promotion for .* is not supported, attempted to promote"):
            t.promote_types(getattr(t, a), getattr(t, b))


@pytest.mark.parametrize("dtype", BOTH)
def test_files_go_both_ways(dtype: str) -> None:
    for write, read in ((core, torch), (torch, core), (core, core)):
        file = io.BytesIO()
        write.save({"x": write.tensor(X).to(getattr(write, dtype)).view(2, 2).T}, file)
        file.seek(0)
        found = read.load(file)["x"]
        assert found.dtype is getattr(read, dtype)
        assert found.tolist() == [[0, 2], [1, 3]]


def test_numpy_refuses_float8() -> None:
    for t in (core, torch):
        with pytest.raises(TypeError, match="Got unsupported ScalarType Float8_e5m2"):
            t.ones(1).to(t.float8_e5m2).numpy()
