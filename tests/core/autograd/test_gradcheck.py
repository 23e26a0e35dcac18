"""gradcheck is itself checked: what is wrong by a little must fail, of first and of second order."""

from __future__ import annotations

import pytest

import core
from core.autograd import Function, gradcheck, gradgradcheck
from core.autograd.gradcheck import GradcheckError


def leaf(*values: float, dtype: core.dtype = core.float64) -> core.Tensor:
    return core.tensor(values, dtype=dtype, requires_grad=True)


def cube(first: float, second: float):
    """x³ with its first gradient off by one factor, and its second by another."""

    class Slope(Function):
        @staticmethod
        def forward(ctx, x, g):
            ctx.save_for_backward(x, g)
            return 3 * x * x * g * first

        @staticmethod
        def backward(ctx, h):
            x, g = ctx.saved_tensors
            return 6 * x * g * h * second * first, 3 * x * x * h * first

    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            return Slope.apply(ctx.saved_tensors[0], g)

    return Cube.apply


@pytest.mark.parametrize("x", [(0.9, -1.3, 2.0), (0.05,), (30.0, -40.0)])
def test_what_is_right_passes(x):
    assert gradcheck(cube(1, 1), leaf(*x))
    assert gradgradcheck(cube(1, 1), leaf(*x))


@pytest.mark.parametrize("factor", [1.0005, 0.9995, 2.001 / 2, -1.0])
def test_a_gradient_wrong_by_half_a_thousandth_fails(factor):
    x = leaf(0.9, -1.3, 2.0)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(cube(factor, 1), x)
    assert not gradcheck(cube(factor, 1), x, raise_exception=False)


@pytest.mark.parametrize("factor", [1.0005, 0.9995])
def test_a_second_order_wrong_by_half_a_thousandth_fails(factor):
    x = leaf(0.9, -1.3, 2.0)
    assert gradcheck(cube(1, factor), x)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradgradcheck(cube(1, factor), x)
    assert not gradgradcheck(cube(1, factor), x, raise_exception=False)


def test_an_output_cut_off_from_its_inputs_fails():
    with pytest.raises(GradcheckError, match="cut off"):
        gradcheck(lambda x: x.detach() * 2, leaf(1.0))
    with pytest.raises(GradcheckError, match="cut off"):
        gradcheck(lambda x: (x * 2, x.detach() * 2), leaf(1.0))
    assert gradcheck(lambda x: (x * 2, x.detach() > 0, core.ones(2, dtype=core.float64)), leaf(1.0))


def test_a_second_order_that_is_cut_fails():
    class Cut(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0].detach()

    x = leaf(1.5)
    assert gradcheck(Cut.apply, x)
    with pytest.raises(GradcheckError):
        gradgradcheck(Cut.apply, x)


def test_a_missing_gradient_fails():
    class Forgets(Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0], None

    with pytest.raises(GradcheckError, match="with respect to input 1"):
        gradcheck(Forgets.apply, (leaf(2.0), leaf(3.0)))


def test_a_backward_that_differs_from_run_to_run_fails():
    runs = []

    class Moody(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            runs.append(1)
            return g * (2 + 1e-9 * len(runs))

    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(Moody.apply, leaf(1.0))
    assert gradcheck(Moody.apply, leaf(1.0), nondet_tol=1e-6)


def test_several_inputs_and_outputs():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    assert gradcheck(lambda a, n, b: (a * b * n, (a + b).sum(), a.argmax()), (a, 3, b))
    assert gradgradcheck(lambda a, b: (a * a * b, b.exp().sum()), (a, b))


def test_on_the_device_cuda():
    x = core.tensor([0.5, -1.0], dtype=core.float64, device="cuda", requires_grad=True)
    assert gradcheck(lambda x: x.tanh() * x, x)
    assert gradgradcheck(lambda x: x.tanh() * x, x)


def test_inputs_that_cannot_be_checked():
    with pytest.raises(ValueError, match="float64"):
        gradcheck(core.tanh, leaf(1.0, dtype=core.float32))
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(core.tanh, core.ones(2, dtype=core.float64))


def test_inputs_are_left_as_they_were():
    x = leaf(1.0, 2.0)
    gradcheck(core.tanh, x)
    gradgradcheck(core.tanh, x)
    assert x.tolist() == [1, 2]
    assert x.grad is None
