"""Dispatch: operands of every sort, devices, ``out=``, errors, and that nothing is told when nobody listens."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core.events import observe


def ones(*shape: int, **options) -> core.Tensor:
    return core.ones(*shape, **options)


# -- operands ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [2, 2.0, True, np.float64(2), np.float32(2), np.int64(2), np.bool_(True),
                                   np.array(2.0, np.float32), np.array([2.0, 2.0], np.float32)])  # fmt: skip
@pytest.mark.parametrize("swap", [False, True])
def test_numbers_and_arrays_as_operands(other, swap):
    x = core.tensor([1.0, 2.0], requires_grad=True)
    y = other * x if swap else x * other
    assert isinstance(y, core.Tensor)
    assert y.dtype is core.float32
    y.sum().backward()
    assert x.grad.tolist() == [float(np.max(other))] * 2


def test_arrays_keep_their_dtype_in_promotion():
    assert (ones(2) + np.ones(2)).dtype is core.float64
    assert (np.ones(2, np.int32) + ones(2, dtype=core.int32)).dtype is core.int32


def test_functions_take_their_arguments_by_name():
    x = core.tensor([4.0])
    assert core.sqrt(input=x).item() == 2
    assert core.mul(input=x, other=3).item() == 12
    assert core.lerp(x, x + 1, weight=0.5).item() == 4.5
    with pytest.raises(TypeError, match=r"lerp\(\): missing argument 'weight'"):
        core.lerp(x, x)
    with pytest.raises(TypeError, match=r"unexpected argument 'wait'"):
        core.lerp(x, x, wait=1)
    with pytest.raises(TypeError, match=r"got 4 arguments"):
        core.lerp(x, x, x, x)
    with pytest.raises(TypeError, match=r"got 4 arguments"):
        core.lerp(x, x, x, x, weight=1)


@pytest.mark.parametrize("wrong", ["2", None, [1.0], {}, object()])
def test_what_is_no_operand(wrong):
    with pytest.raises(TypeError):
        ones(2) + wrong
    with pytest.raises(TypeError, match="add"):
        core.add(ones(2), wrong)
    with pytest.raises(TypeError, match=r"tanh\(\): argument must be Tensor"):
        core.tanh(wrong)


def test_numbers_alone_are_no_tensors():
    with pytest.raises(TypeError, match=r"mul\(\): argument must be Tensor, not float, int"):
        core.mul(2.0, 3)


def test_equality_with_anything_else():
    assert (ones(2) == "a") is False
    assert (ones(2) != ()) is True
    assert "a" not in [ones(2)]


def test_a_number_too_large_for_its_type():
    with pytest.raises(OverflowError):
        ones(2) * 10**400


# -- devices -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("swap", [False, True])
def test_zero_dim_cpu_tensors_go_anywhere(swap):
    x, w = ones(3, device="cuda", requires_grad=True), core.tensor(2.0, requires_grad=True)
    y = w * x if swap else x * w
    assert y.device == core.device("cuda:0")
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    assert (w.grad.item(), w.grad.device.type) == (3, "cpu")


def test_two_devices():
    for a, b in [
        (ones(3, device="cuda"), ones(3)),
        (ones(3), ones((), device="cuda")),
        (ones(1), ones(3, device="cuda")),
    ]:
        with pytest.raises(
            RuntimeError, match="Expected all tensors to be on the same device, but found at least two devices"
        ) as caught:
            a + b
        assert "cuda:0" in str(caught.value)
        assert "cpu" in str(caught.value)
        assert "op: add" in str(caught.value)
        assert ".to(device)" in str(caught.value)


# -- shapes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [core.float32, core.float16, core.int64])
@pytest.mark.parametrize("op", ["add", "true_divide", "lt", "maximum", "pow_tensor", "where"])
def test_shapes_that_do_not_broadcast(device, dtype, op):
    a, b = ones(2, 3, device=device, dtype=dtype), ones(4, 3, device=device, dtype=dtype)
    args = (a > 0, a, b) if op == "where" else (a, b)
    says = r"The size of tensor a \(2\) must match the size of tensor b \(4\) at non-singleton dimension 0"
    with pytest.raises(RuntimeError, match=says) as caught:
        core.declare.op.functions[op](*args)
    assert f"op: {core.declare.op.table[op].label}" in str(caught.value)
    assert "(2, 3)" in str(caught.value)
    assert "(4, 3)" in str(caught.value)


def test_bools_do_not_subtract():
    with pytest.raises(RuntimeError, match="\"sub\" not implemented for 'Bool'"):
        core.tensor([True]) - core.tensor([True])


def test_an_error_leaves_no_cycle_behind():
    import gc
    import weakref

    gc.collect()
    gc.disable()
    try:
        x = ones(2, requires_grad=True) * 1
        ref = weakref.ref(x)
        with pytest.raises(RuntimeError):
            core.add(x, ones(3))
        del x
        import sys

        if hasattr(sys, "last_exc"):
            del sys.last_exc
        assert ref() is None or not [r for r in gc.get_referrers(ref()) if isinstance(r, BaseException)]
    finally:
        gc.enable()


# -- out= --------------------------------------------------------------------------------------------------------------


def test_out():
    x, y = core.tensor([1.0, 4.0]), core.zeros(2)
    assert core.sqrt(x, out=y) is y
    assert y.tolist() == [1, 2]
    assert core.add(x, 1, out=y).tolist() == [2, 5]
    assert core.lerp(x, x, 0.5, out=y).tolist() == [1, 4]
    assert y._version == 3
    wide = core.zeros(2, dtype=core.float64)
    assert core.mul(x, x, out=wide).dtype is core.float64


def test_out_may_be_an_input():
    x = core.tensor([1.0, 4.0])
    core.mul(x, x, out=x)
    assert x.tolist() == [1, 16]


def test_out_is_resized():
    y = core.zeros(0)
    core.add(ones(2, 3), 1, out=y)
    assert y.shape == (2, 3)


def test_out_has_no_gradient():
    x, y = ones(2, requires_grad=True), core.zeros(2)
    with pytest.raises(
        RuntimeError, match=r"tanh\(\): functions with out=... arguments don't support automatic differentiation"
    ):
        core.tanh(x, out=y)
    with core.no_grad():
        assert core.mul(x, 3, out=y).tolist() == [3, 3]
        core.mul(y, 2, out=x)
    assert x.tolist() == [6, 6]


def test_out_of_a_lower_type():
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        core.sqrt(ones(2), out=core.zeros(2, dtype=core.int64))


def test_out_over_a_saved_value_is_noticed():
    x = ones(2, requires_grad=True)
    y = x * 2
    z = y * y
    with core.no_grad():
        core.add(core.ones(2), 1, out=y)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation") as caught:
        z.sum().backward()
    assert "add(out=)" in str(caught.value)


# -- structured ops ----------------------------------------------------------------------------------------------------


def test_structured_ops_name_what_they_miss():
    softmax = core.declare.op.functions["softmax"].__globals__["_softmax"]
    with pytest.raises(TypeError, match=r"softmax\(\): argument must be Tensor, not ndarray"):
        softmax(np.ones(3), dim=0)
    with pytest.raises(TypeError, match="needs at least one tensor"):
        core.dispatch.structured.call_operation(core.declare.op.table["softmax"], (), {"dim": 0})


def test_results_are_arrays_even_where_numpy_gives_scalars():
    for y in (ones(3).sum(), ones(3, dtype=core.float16).mean(), ones(3).argmax(), ones(3) @ ones(3), ones(3)[0]):
        assert isinstance(y._a, np.ndarray)
        assert y.shape == ()


def test_nobody_is_told_when_nobody_listens(monkeypatch):
    def fail(*args: object) -> None:
        raise AssertionError("told")

    for name in ("emit_op", "emit_failed", "emit_starting"):
        monkeypatch.setattr(core.dispatch.elementwise, name, fail)
        monkeypatch.setattr(core.dispatch.structured, name, fail)
    monkeypatch.setattr(core.dispatch.emit, "places", fail)
    assert observe.observers == ()
    x = ones(3, requires_grad=True)
    ((x + 1).tanh() * 2).softmax(0).sum().backward()
    with pytest.raises(RuntimeError):
        x + ones(4)
