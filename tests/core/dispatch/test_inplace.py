"""In-place writes: values, histories through bases and views, what is saved, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core.autograd import grad, gradcheck, gradgradcheck


def leaf(*values: float, dtype: core.dtype = core.float64) -> core.Tensor:
    return core.tensor(values if len(values) != 1 else values[0], dtype=dtype, requires_grad=True)


# -- values and versions -----------------------------------------------------------------------------------------------


def test_the_same_memory_and_a_higher_version():
    x = core.tensor([1.0, 2.0])
    address = x.data_ptr()
    assert x.add_(1) is x
    x *= 2
    x -= 1
    x /= 3
    x **= 2
    assert x.data_ptr() == address
    assert x.tolist() == [1, pytest.approx(25 / 9)]
    assert x._version == 5


def test_versions_are_shared_by_views_and_detached_tensors():
    x = core.zeros(4)
    v, w, d = x[1:3], x.reshape(2, 2), x.detach()
    v.add_(1)
    d.mul_(2)
    w[1].add_(3)
    assert x.tolist() == [0, 2, 5, 3]
    assert x._version == v._version == w._version == d._version == 3
    assert x.data._version == 0


@pytest.mark.parametrize(
    "name", ["exp", "tanh", "sqrt", "sigmoid", "neg", "abs", "relu", "clamp", "pow", "square", "floor"]
)
def test_every_form_is_its_out_of_place_one(name, rng):
    args = {"clamp": (0.3, 0.6), "pow": (3,)}.get(name, ())
    values = rng.uniform(0.1, 0.9, (3, 4))
    x = core.tensor(values, requires_grad=True)
    y = x * 1
    getattr(y, name + "_")(*args)
    np.testing.assert_array_equal(y.detach().numpy(), getattr(core.tensor(values), name)(*args).numpy())
    assert gradcheck(lambda x: getattr(x * 1, name + "_")(*args), x)
    assert gradgradcheck(lambda x: getattr(x * 1, name + "_")(*args), x)


@pytest.mark.parametrize(
    "write",
    [
        lambda y, w: y.mul_(w),
        lambda y, w: y.mul_(y),
        lambda y, w: y.div_(w + 2).add_(y),
        lambda y, w: y.mul_(y[0]),
        lambda y, w: y.mul_(y[:1]),
        lambda y, w: y.lerp_(w, 0.3),
        lambda y, w: y.lerp_(w, y),
        lambda y, w: y.clamp_(w - 0.1, w + 0.1),
        lambda y, w: y.pow_(w + 2),
        lambda y, w: y.sub_(w, alpha=2),
        lambda y, w: y.copy_(w),
        lambda y, w: y.mul_(w).sin_().add_(w).exp_(),
        lambda y, w: y.add_(w[0]),
    ],
)
def test_gradients_where_operands_overlap_the_target(write, rng):
    x, w = (core.tensor(rng.uniform(0.5, 1.5, (3, 2)), requires_grad=True) for _ in range(2))
    assert gradcheck(lambda x, w: write(x * 1, w), (x, w))
    assert gradgradcheck(lambda x, w: write(x * 1, w), (x, w))


# -- through views -----------------------------------------------------------------------------------------------------


def half(y, w):
    y[:1].mul_(w[:1])
    return y


def chain_of_views(y, w):
    y.reshape(-1)[1:].reshape(5)[::2].mul_(w.reshape(-1)[:3])
    return y


def transposed(y, w):
    y.t()[0].exp_()
    return y * w


def twice_and_read_between(y, w):
    v = y[1]
    v.mul_(w[0])
    first = y * 1
    v.add_(w[1])
    y.mul_(2)
    return first + y + v


def other_view_sees_it(y, w):
    a, b = y[0], y[:, 0]
    a.mul_(w[0])
    return b * w[:, 0]


def base_then_view(y, w):
    v = y[1:]
    y.mul_(w)
    return v * v


def constant_base(y, w):
    z = core.zeros(3, 2, dtype=core.float64)
    z[0] = y[0]
    z[1:].copy_(w[1:] * y[1:])
    return z


def view_of_view_after(y, w):
    v = y[1:]
    v.mul_(w[1:])
    u = v[0]
    u.add_(w[0])
    return v, u, y


THROUGH_VIEWS = [half, chain_of_views, transposed, twice_and_read_between, other_view_sees_it, base_then_view,
                 constant_base, view_of_view_after]  # fmt: skip


@pytest.mark.parametrize("write", THROUGH_VIEWS)
def test_gradients_through_views(write, rng):
    x, w = (core.tensor(rng.uniform(0.5, 1.5, (3, 2)), requires_grad=True) for _ in range(2))
    assert gradcheck(lambda x, w: write(x * 1, w), (x, w))
    assert gradgradcheck(lambda x, w: write(x * x, w), (x, w))


def test_history_after_a_write_through_a_view():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    v = y[:2]
    before = v.grad_fn
    v.mul_(2)
    assert y.grad_fn.name() == "CopySlicesBackward0"
    assert v.grad_fn is not before
    assert v._base is y
    assert v._is_view()
    w = y[2:]
    w.zero_()
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 0]


def test_a_view_keeps_the_line_it_was_made_on():
    x = leaf(1.0, 2.0)
    y = x * 1
    v = y[:1]
    made = v.grad_fn.place
    y.mul_(2)
    assert v.grad_fn.place == made


def test_a_constant_becomes_part_of_the_graph():
    x, z = leaf(1.0, 2.0), core.zeros(3, dtype=core.float64)
    v = z[1:]
    assert not v.requires_grad
    z[1:] = x * 3
    assert z.requires_grad
    assert v.requires_grad
    v.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_overwriting_everything_forgets_the_history():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * 5
    y.copy_(w)
    y.sum().backward()
    assert x.grad is None or x.grad.tolist() == [0, 0]
    assert w.grad.tolist() == [1, 1]


# -- grad modes --------------------------------------------------------------------------------------------------------


def test_under_no_grad_leaves_may_be_written():
    x = leaf(1.0, 2.0)
    with core.no_grad():
        x.mul_(3)
        x[0] += 1
    assert x.tolist() == [4, 6]
    assert x.is_leaf
    assert x.requires_grad


def test_under_no_grad_versions_still_count():
    x = leaf(1.0, 2.0)
    y = x * x
    with core.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_changes_through_data_go_unnoticed():
    x = leaf(1.0, 2.0)
    y = x * x
    x.data.mul_(10)
    y.sum().backward()
    assert x.grad.tolist() == [20, 40]


def test_detached_memory_is_noticed():
    x = leaf(1.0, 2.0)
    y = x * 1
    z = y * y
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write", [lambda x: x.add_(1), lambda x: x.exp_(), lambda x: x.__imul__(2), lambda x: x.zero_()]
)
def test_leaves(write):
    x = leaf(1.0, 2.0)
    with pytest.raises(
        RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"
    ) as caught:
        write(x)
    assert "core.no_grad()" in str(caught.value)
    assert x.tolist() == [1, 2]
    assert x._version == 0


@pytest.mark.parametrize(
    "write", [lambda x: x[0].add_(1), lambda x: x.reshape(2, 1).exp_(), lambda x: x.__setitem__(0, 5.0)]
)
def test_views_of_leaves(write):
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used in an in-place operation"):
        write(x)
    assert x.tolist() == [1, 2]


def test_a_view_that_is_itself_a_leaf():
    v = core.ones(3)[1:].requires_grad_()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        v.mul_(2)


def test_shapes():
    x = core.ones(2)
    with pytest.raises(
        RuntimeError, match=r"output with shape \[2\] doesn't match the broadcast shape \[3, 2\]"
    ) as caught:
        x.add_(core.ones(3, 2))
    assert "op: add_" in str(caught.value)
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        x.add_(core.ones(3))
    assert x._version == 0


def test_types():
    x = core.ones(2, dtype=core.int64)
    for write in (lambda: x.div_(2), lambda: x.add_(1.5), lambda: x.mul_(core.ones(2))):
        with pytest.raises(
            RuntimeError, match="result type Float can't be cast to the desired output type Long"
        ) as caught:
            write()
        assert "remedy" in str(caught.value)
    x.add_(core.tensor([1, 2], dtype=core.int8))
    assert x.tolist() == [2, 3]
    b = core.ones(2, dtype=core.bool)
    with pytest.raises(RuntimeError, match="result type Long can't be cast to the desired output type Bool"):
        b.add_(1)


def test_a_wider_operand_is_rounded_into_the_target_and_its_gradient_is_not():
    x, w = leaf(1.0, 2.0, dtype=core.float32), leaf(3.0, 4.0)
    y = x * 1
    y.mul_(w)
    assert y.dtype is core.float32
    y.sum().backward()
    assert (x.grad.dtype, w.grad.dtype) == (core.float32, core.float64)
    assert w.grad.tolist() == [1, 2]


def test_an_expanded_tensor():
    with pytest.raises(
        RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"
    ):
        core.ones(1).expand(3).add_(1)
    x = core.ones(3)
    x.expand(1, 3).add_(1)
    assert x.tolist() == [2, 2, 2]


def test_the_memory_of_a_read_only_array():
    a = np.ones(3, np.float32)
    a.flags.writeable = False
    with pytest.raises(RuntimeError, match="not writable"):
        core.from_numpy(a).add_(1)


def test_outputs_of_ops_with_several_views():
    a, _ = (leaf(1.0, 2.0) * 1).unbind()
    with pytest.raises(RuntimeError, match="This view is the output of a function that returns multiple views"):
        a.add_(1)


def test_views_made_without_grad_mode():
    y = leaf(1.0, 2.0) * 1
    with core.no_grad():
        v = y[:1]
    with pytest.raises(
        RuntimeError, match="A view was created in no_grad mode and is being modified inplace with grad mode enabled"
    ):
        v.mul_(2)
    with core.no_grad():
        v.mul_(2)
    assert y.tolist() == [2, 2]


def test_second_order_through_a_write():
    x = leaf(2.0, 3.0)
    y = x**3
    y[0] *= x[1]
    (g,) = grad(y.sum(), x, create_graph=True)  # 3 x0² x1, x0³ + 3 x1²
    assert g.tolist() == [36, 8 + 27]
    (h,) = grad(g[0], x)
    assert h.tolist() == [6 * 2 * 3, 3 * 4]


def test_the_saved_output_is_named_as_pytorch_does() -> None:
    y = core.ones(3, requires_grad=True).exp()
    y += 1
    with pytest.raises(RuntimeError, match="which is output 0 of ExpBackward0, is at version 1; expected version 0"):
        y.sum().backward()


# -- a leaf that is a view ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [
    lambda v: v.add_(1), lambda v: v.__setitem__(0, 1.0), lambda v: v.__setitem__(slice(None), 1.0),
    lambda v: v.zero_(),
    lambda v: v.fill_(1.0), lambda v: v.copy_(core.ones(2)), lambda v: v[:1].add_(1), lambda v: v.view(-1).mul_(2),
    lambda v: v.unsqueeze(0).zero_(), lambda v: v.masked_fill_(core.tensor([True, False]), 1), lambda v: v.normal_(),
    lambda v: v.index_add_(0, core.tensor([0]), core.ones(1)),
])  # fmt: skip
def test_a_leaf_that_is_a_view_is_not_written(write) -> None:
    v = core.zeros(3)[1:].requires_grad_()
    assert v.is_leaf
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"):
        write(v)
    assert v.tolist() == [0, 0]
    assert v.is_leaf
    with core.no_grad():
        write(v)
    assert v.is_leaf
