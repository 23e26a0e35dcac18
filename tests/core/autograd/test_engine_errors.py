"""What the errors of the engine say, and what they leave behind; backward inside backward and in a thread."""

from __future__ import annotations

import pytest

import core
from core.autograd import backward

from .common import leaf, line

FILE = "test_engine_errors.py"


def test_a_non_scalar_wants_a_gradient():
    x = core.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs") as caught:
        (x * 2).backward()
    assert "(2, 3)" in str(caught.value)
    assert "loss.mean().backward()" in str(caught.value)
    assert f"{FILE} line" in str(caught.value)
    (x.sum().reshape(1, 1) * 2).backward()  # one element in any shape will do


def test_a_gradient_of_another_shape_or_type():
    x = core.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="Mismatch in shape: grad_output"):
        (x * 2).backward(core.ones(2))
    with pytest.raises(TypeError, match="gradients can be either Tensors or None"):
        (x * 2).backward(1.0)


def test_nothing_requires_a_gradient():
    with pytest.raises(
        RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"
    ) as caught:
        core.ones(3).sum().backward()
    assert "requires_grad=True" in str(caught.value)
    with pytest.raises(RuntimeError, match="element 1 of tensors does not require grad"):
        backward([leaf(1.0) * 2, core.ones(())])


@pytest.mark.parametrize("dtype", [core.int64, core.bool, core.uint8])
def test_dtypes_without_gradient(dtype):
    with pytest.raises(
        RuntimeError, match="only Tensors of floating point and complex dtype can require gradients"
    ) as caught:
        core.ones(2, dtype=dtype).requires_grad_()
    assert str(dtype) in str(caught.value)
    with pytest.raises(RuntimeError, match="can require gradients"):
        core.tensor([1], dtype=dtype, requires_grad=True)


def test_integers_end_the_graph():
    x = leaf(1.5)
    assert not (x > 1).requires_grad
    assert not x.long().requires_grad


def test_an_op_without_gradient_says_so():
    x = leaf(7.0)
    y = x // 2
    assert y.requires_grad
    with pytest.raises(NotImplementedError, match="derivative for floor_divide is not implemented") as caught:
        y.backward()
    assert f"{FILE} line" in str(caught.value)


def test_saved_input_changed_in_place_names_both_lines():
    x = core.ones(2, 2, requires_grad=True)
    y = x * 2
    z = y.sin()  # <- saved
    y += 1  # <- changed
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        z.sum().backward()
    message = str(caught.value)
    assert f"{FILE} line {line('saved')} (y.sin())" in message
    assert f"{FILE} line {line('changed')} (y += 1)" in message
    assert "add_" in message
    assert "is at version 1; expected version 0" in message


def test_saved_output_changed_through_a_view():
    x = core.ones(3, 4, requires_grad=True)
    y = x.exp()  # <- saved
    y[0] += 1  # <- changed
    with pytest.raises(RuntimeError, match="its output") as caught:
        y.sum().backward()
    assert f"exp saved its output (3, 4) at {FILE} line {line('saved')} (x.exp())" in str(caught.value)
    assert f"{FILE} line {line('changed')}" in str(caught.value)


def test_a_change_after_the_value_is_of_no_more_use_is_fine():
    x = core.ones(2, requires_grad=True)
    y = x + 1
    z = y + 1
    y.mul_(5)
    z.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_an_error_restores_the_modes():
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.backward()
    assert core.is_grad_enabled()
    assert core.events.observe.phase == "forward"


def test_backward_inside_backward():
    outer = leaf(3.0)

    class Nested(core.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            with core.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                (x * x).backward()
            return g * x.grad

    (Nested.apply(outer * 2) * 1).backward()
    assert outer.grad.item() == 24


def test_in_a_thread():
    import threading

    x = core.ones(3, requires_grad=True)
    y = (x * 2).sum()
    t = threading.Thread(target=y.backward)
    t.start()
    t.join()
    assert x.grad.tolist() == [2, 2, 2]
