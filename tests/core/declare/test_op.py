"""Declarations: what a gradient may ask for, what is saved for it, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import core
from core.declare import op as declarations
from core.declare.expr import s
from core.declare.op import Slot, table
from core.dispatch.declare import elementwise, operation


@pytest.fixture(autouse=True)
def declared() -> Iterator[None]:
    """Ops declared in a test are gone after it."""
    before, functions = dict(table), dict(declarations.functions)
    yield
    table.clear()
    table.update(before)
    declarations.functions.clear()
    declarations.functions.update(functions)


def test_a_declaration_is_a_working_op():
    ramp = elementwise("ramp_for_test", lambda x, slope: s.maximum(x, 0.0) * slope, params={"slope": 2.0}, public=False,
                       vjp=lambda g, x, slope: s.where(x > 0.0, g * slope, 0.0))  # fmt: skip
    x = core.tensor([-1.0, 3.0], requires_grad=True)
    y = ramp(x, slope=5.0)
    y.sum().backward()
    assert y.tolist() == [0, 15]
    assert x.grad.tolist() == [0, 5]
    assert ramp(x).tolist() == [0, 6]
    assert ramp(input=x, slope=1.0).tolist() == [0, 3]


def test_the_order_of_arguments_in_a_vjp_is_free():
    op = elementwise("turned_for_test", lambda a, b: a / b, public=False,
                     vjp=(lambda b, g: g / b, lambda y, b, g, a: -y * g / b)).op  # fmt: skip
    assert op.slots == (Slot("b", "input", 1), Slot("y", "output", 0), Slot("a", "input", 0))
    a, b = (core.tensor(v, dtype=core.float64, requires_grad=True) for v in (3.0, 2.0))
    core.autograd.gradcheck(declarations.functions["turned_for_test"], (a, b))
    core.autograd.gradgradcheck(declarations.functions["turned_for_test"], (a, b))


def test_only_what_the_wanted_gradients_need_is_saved():
    mul = table["mul"]
    assert [slot and slot.name for slot in mul.plan(0b01)] == ["b", None]
    assert [slot and slot.name for slot in mul.plan(0b10)] == [None, "a"]
    assert [slot and slot.name for slot in mul.plan(0b11)] == ["b", "a"]
    x, c = core.ones(2, requires_grad=True), core.ones(2)
    assert sum(v is not None for v in (x * c).grad_fn.saved) == 1
    assert (x * c).grad_fn.saved[0] is c._a
    assert (x * 3.0).grad_fn.saved[0] == 3.0
    assert (x + c).grad_fn.saved == ()


def test_shapes_and_dtypes_can_be_asked_for():
    twice = operation("twice_for_test", lambda xp, x: xp.concatenate([x, x]), vjp=lambda g, x_shape, x_dtype:
                      (g[: x_shape[0]] + g[x_shape[0] :]).to(x_dtype))  # fmt: skip
    x = core.ones(2, requires_grad=True)
    y = twice(x)
    assert y.grad_fn.saved == ((2,), core.float32)
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_optional_inputs():
    affine = operation("affine_for_test", lambda xp, x, w, b: x * w if b is None else x * w + b, inputs="x w b?",
                       vjp=(lambda g, w: g * w, lambda g, x: g * x, lambda g: g))  # fmt: skip
    x, w, b = (core.tensor(v, requires_grad=True) for v in (2.0, 3.0, 4.0))
    affine(x, w, None).backward()
    assert (x.grad.item(), w.grad.item()) == (3, 2)
    affine(x, w, b).backward()
    assert b.grad.item() == 1


def test_hidden_outputs_are_saved_and_not_seen():
    def forward(xp, x):
        e = xp.exp(x)
        return e * 2, e

    double_exp = operation("double_exp_for_test", forward, outputs="y e", returns=1, vjp=lambda g, e: 2 * g * e)
    x = core.tensor(0.0, requires_grad=True)
    y = double_exp(x)
    assert isinstance(y, core.Tensor)
    y.backward()
    assert x.grad.item() == 2


def test_joint_gradients_hear_what_is_needed():
    seen = []

    def vjp(g, a, b, needs):
        seen.append(needs)
        return g * b if needs[0] else None, g * a if needs[1] else None

    product = operation("product_for_test", lambda xp, a, b: a * b, inputs="a b", vjp=vjp)
    a, b = core.tensor(2.0, requires_grad=True), core.tensor(3.0)
    product(a, b).backward()
    assert a.grad.item() == 3
    assert seen == [(True, False)]


def test_variadic_inputs_and_outputs():
    swap = operation("swap_for_test", lambda xp, *tensors: tuple(t * 1 for t in reversed(tensors)), inputs="tensors*",
                     outputs="ys", returns=0, vjp=lambda g: tuple(reversed(g)))  # fmt: skip
    x, y, z = (core.tensor(v, requires_grad=True) for v in (1.0, 2.0, 3.0))
    a, b, c = swap(x, y, z)
    assert (a.item(), b.item(), c.item()) == (3, 2, 1)
    (a * 10 + c).backward()
    assert (x.grad.item(), y.grad.item(), z.grad.item()) == (1, 0, 10)


def test_variadic_saved_inputs_from_several_outputs_have_the_right_history():
    squares = operation("squares_for_test", lambda xp, *tensors: sum(t * t for t in tensors), inputs="tensors*",
                        vjp=lambda g, tensors: tuple(2 * g * t for t in tensors))  # fmt: skip
    x = core.tensor([1.0, 2.0, 3.0], dtype=core.float64, requires_grad=True)
    assert core.autograd.gradgradcheck(lambda x: squares(*(x**3).unbind()), x)


def test_what_a_vjp_may_not_ask_for():
    with pytest.raises(ValueError, match="the vjp of bad_for_test asks for 'z'; it may ask for g, x, y, n"):
        elementwise("bad_for_test", lambda x, n: x * n, params={"n": 1.0}, vjp=lambda g, z: g, public=False)


def test_a_name_is_declared_once():
    with pytest.raises(ValueError, match="an op named 'add' is declared already"):
        elementwise("add", lambda a, b: a + b, public=False)


def test_labels():
    assert table["pow_scalar"].label == "pow"
    assert table["exp"].label == "exp"
    x = core.ones(2, requires_grad=True)
    gelu = core.nn.functional.gelu
    made = (x / 2, x**2, x**2.5, x**x, 2**x, x.clamp(0, 1), core.where(x > 0, x, 0.0), gelu(x), gelu(x, "tanh"), x + x,
            x.log_softmax(0))  # fmt: skip
    names = [t.grad_fn.name() for t in made]
    assert names == ["DivBackward0", *["PowBackward0"] * 4, "ClampBackward0", "WhereBackward0", "GeluBackward0",
                     "GeluBackward0", "AddBackward0", "LogSoftmaxBackward0"]  # fmt: skip


def test_every_gradient_that_is_fused_can_be_traced():
    for op in table.values():
        if isinstance(op, declarations.Elementwise):
            for p, v in zip(op.gradient_programs, op.vjps, strict=True):
                assert (p is None) == (v is None)
                assert p is None or set(p.inputs) <= {"g", *op.inputs, *op.outputs}, op
