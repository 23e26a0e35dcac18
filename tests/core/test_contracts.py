"""What packages rely on of tensors and modules, each once broken by one of them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import core


def test_an_override_of_apply_that_takes_the_function_alone() -> None:
    class Kept(core.nn.Module):
        def _apply(self, fn: Any) -> Any:
            return super()._apply(fn)

    model = core.nn.Sequential(Kept(), core.nn.Linear(1, 1)).double()
    assert model[1].weight.dtype is core.float64


def test_what_was_expanded_is_written_as_data() -> None:
    x = core.zeros(3)
    x.data = core.arange(32).expand(1, -1)
    assert x.zero_().tolist() == [[0] * 32]


def test_channels_last_is_told() -> None:
    x = core.ones(2, 3, 4, 5)
    last = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert x.is_contiguous(memory_format=core.contiguous_format)
    assert not x.is_contiguous(memory_format=core.channels_last)
    assert last.is_contiguous(memory_format=core.channels_last)
    assert not last.is_contiguous()
    assert not core.ones(2).is_contiguous(memory_format=core.channels_last)


def test_the_older_truths_warn_in_where() -> None:
    c = core.tensor([1, 0], dtype=core.uint8)
    with pytest.warns(UserWarning, match="uint8 condition"):
        assert core.where(c, core.ones(2), core.zeros(2)).tolist() == [1.0, 0.0]


def test_a_device_is_a_block() -> None:
    before = core.get_default_device()
    with core.device("cpu") as where:
        assert core.ones(1).device == where
    with pytest.raises(KeyError), core.device("cpu"):
        raise KeyError
    assert core.get_default_device() is before


def test_new_is_of_the_same_dtype() -> None:
    x = core.ones(2, dtype=core.float64)
    assert x.new(2, 3).shape == (2, 3)
    assert x.new([1, 2]).tolist() == [1.0, 2.0]
    assert x.new().shape == (0,)
    assert x.new([1]).dtype is core.float64


def test_einsum_by_numbers() -> None:
    a, b = core.arange(4.0).view(2, 2), core.arange(6.0).view(2, 3)
    assert core.einsum(a, [0, 1], b, [1, 2], [0, 2]).tolist() == (a @ b).tolist()
    assert core.einsum(a, [0, 1], b, [1, 2]).tolist() == (a @ b).tolist()
    assert core.einsum(a, [..., 1], [..., 1]).tolist() == a.tolist()
    with pytest.raises(ValueError, match=r"within the range \[0, 52\)"):
        core.einsum(a, [0, 52])


def test_the_default_type_by_its_class_or_name() -> None:
    try:
        core.set_default_tensor_type("torch.DoubleTensor")
        assert core.ones(1).dtype is core.float64
    finally:
        core.set_default_tensor_type(core.FloatTensor)
    with pytest.raises(TypeError, match="floating-point types"):
        core.set_default_tensor_type(3)
    with pytest.raises(TypeError, match="floating-point types"):
        core.set_default_tensor_type(core.LongTensor)


def test_all_is_deterministic_and_nothing_warns() -> None:
    assert core.get_deterministic_debug_mode() == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        core.set_deterministic_debug_mode("error")
    assert core.is_deterministic_algorithms_warn_only_enabled() is False
