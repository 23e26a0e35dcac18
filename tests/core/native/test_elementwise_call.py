"""The C path of elementwise ops of any number of inputs, with conditions and parameters, and the fronts of functions
that choose among ops: they give what the general way gives, and decline what is not for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional as F
from core import native
from core.declare.op import Elementwise, table
from core.dispatch.elementwise import call_map, fast_path
from core.events import observe
from tests.core.native.test_graph import fields

ELEMENTWISE = [op for op in table.values() if isinstance(op, Elementwise) and not op.name.startswith("test")]
M = core.tensor([[True, False], [False, True]])


def tensors(op: Elementwise, requires_grad: bool, dtype: Any = None) -> list[Any]:
    """Inputs from where the op is sampled, the second one a row that is stretched."""
    made: list[Any] = []
    for k, (name, (low, high)) in enumerate(zip(op.inputs, op.domain, strict=True)):
        if name in op.bools:
            made.append(M)
            continue
        values = np.linspace(low, high, 4).reshape(2, 2)[: 1 if k == 1 else 2]
        made.append(core.tensor(values, dtype=dtype or core.float32, requires_grad=requires_grad))
    return made


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda o: o.name)
def test_every_op_gives_what_the_general_way_gives(op: Elementwise, requires_grad: bool) -> None:
    args, params = tensors(op, requires_grad), tuple(float(p) for p in op.params.values())
    full = call_map(op, tuple(args), params)
    quick = fast_path(op)(*args)
    assert isinstance(quick, core.Tensor)  # None: it was declined
    np.testing.assert_array_equal(quick.detach().numpy(), full.detach().numpy())
    assert (quick.dtype, quick.requires_grad) == (full.dtype, full.requires_grad)
    if full.grad_fn is not None:
        assert quick.grad_fn.name() == full.grad_fn.name()
        assert fields(quick.grad_fn) == fields(full.grad_fn)
    if full.grad_fn is not None and op.differentiable:
        inputs = [a for k, a in enumerate(args) if a is not M and op.vjps[k]]
        found = [core.autograd.grad(y.sum(), inputs) for y in (quick, full)]
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())


X, Y = core.tensor([[-1.5, 0.5], [0.25, 3.0]]), core.tensor([[0.0, 0.5], [2.0, -1.0]])
WHOLE, NAN = core.tensor([[-3, 0], [2, 9]]), core.tensor([[float("nan"), float("inf")], [-float("inf"), 1.0]])

CALLS: list[Callable[..., Any]] = [
    lambda x: core.where(M, x, Y), lambda x: core.where(M, x, 2), lambda x: core.where(M, 0.5, x),
    lambda x: core.where(condition=M, input=x, other=Y), lambda x: x.where(M, Y), lambda x: core.where(M, x, WHOLE),
    lambda x: core.where(M, WHOLE, 1), lambda x: core.where(M, WHOLE, 1.5), lambda x: core.where(M, M, ~M),
    lambda x: core.where(M, 1.0, 2), lambda x: core.where(M[0], x, Y),
    lambda x: x.masked_fill(M, 0), lambda x: x.masked_fill(M, -float("inf")),
    lambda x: x.masked_fill(mask=M, value=1.5),
    lambda x: x.masked_fill(M, core.tensor(2.0)), lambda x: x.masked_fill(M, core.tensor(2)),
    lambda x: WHOLE.masked_fill(M, 1.5), lambda x: WHOLE.masked_fill(M, 7), lambda x: M.masked_fill(M, False),
    lambda x: x.clamp(0, 1), lambda x: x.clamp(min=0), lambda x: x.clamp(max=0.5), lambda x: x.clip(-1, None),
    lambda x: x.clamp(min=Y), lambda x: x.clamp(max=Y), lambda x: x.clamp(Y, Y + 1), lambda x: x.clamp(Y, 2.0),
    lambda x: WHOLE.clamp(0, 5), lambda x: WHOLE.clamp(min=0.5), lambda x: x.clamp_min(0), lambda x: x.clamp_max(max=Y),
    lambda x: x.clamp(0, 1, out=None), lambda x: x.clamp(True, 2),
    lambda x: x**3, lambda x: x**-1, lambda x: x**2, lambda x: x.abs() ** 0.5, lambda x: 2**x, lambda x: x.abs() ** Y,
    lambda x: core.pow(x, exponent=3), lambda x: WHOLE**2, lambda x: x ** np.float64(3), lambda x: core.pow(2.5, x),
    lambda x: x.lerp(Y, 0.5), lambda x: core.lerp(x, Y, weight=Y), lambda x: core.lerp(input=x, b=Y, weight=0.25),
    lambda x: F.leaky_relu(x, 0.2), lambda x: F.leaky_relu(x, negative_slope=1), lambda x: F.elu(x),
    lambda x: F.celu(x, 2.0),
    lambda x: F.softplus(x), lambda x: F.softplus(x, 2, threshold=1), lambda x: F.hardtanh(x), lambda x: F.relu6(x),
    lambda x: F.hardshrink(x), lambda x: F.threshold(x, 0.1, 5), lambda x: F.selu(x), lambda x: F.silu(x),
    lambda x: core.addcmul(x, Y, Y), lambda x: core.addcmul(x, Y, Y, value=2), lambda x: x.addcdiv(Y, Y + 3, value=0.5),
    lambda x: core.addcmul(WHOLE, WHOLE, WHOLE, value=2), lambda x: core.addcmul(x, WHOLE, Y),
    lambda x: core.nan_to_num(NAN * x), lambda x: (NAN * x).nan_to_num(nan=7, posinf=1.0),
    lambda x: NAN.double().nan_to_num(),
    lambda x: WHOLE.nan_to_num(), lambda x: core.logit(x, 1e-3),
    lambda x: ~M, lambda x: ~WHOLE, lambda x: M & M.T, lambda x: M | ~M, lambda x: M ^ True, lambda x: WHOLE & 3,
    lambda x: 5 | WHOLE,
    lambda x: True & M, lambda x: WHOLE ^ M, lambda x: core.logical_and(x, M), lambda x: core.logical_not(x),
    lambda x: M == M.T, lambda x: M != True, lambda x: WHOLE == WHOLE.T, lambda x: WHOLE > 1, lambda x: WHOLE > 1.5,  # noqa: E712
    lambda x: WHOLE + WHOLE, lambda x: WHOLE + 1, lambda x: 1 - WHOLE, lambda x: WHOLE * 1.5, lambda x: M + M,
    lambda x: M * 2,
    lambda x: WHOLE / 2, lambda x: WHOLE // 2, lambda x: WHOLE % 4, lambda x: -WHOLE, lambda x: WHOLE.abs(),
    lambda x: M.square(),
    lambda x: core.maximum(WHOLE, WHOLE.T), lambda x: x * M, lambda x: M * x * WHOLE, lambda x: x == WHOLE,
    lambda x: x.sum() * WHOLE, lambda x: x * WHOLE.sum(), lambda x: x + M.T, lambda x: x * WHOLE.to(core.int8),
    lambda x: x.lerp(WHOLE, M), lambda x: x * M[0], lambda x: x[0] * X.half()[0], lambda x: x / WHOLE[1],
    lambda x: core.addcmul(WHOLE, x, M, value=2), lambda x: x.detach() - M, lambda x: core.where(M, WHOLE, x),
    lambda x: WHOLE.to(core.int8) * 100,
    lambda x: WHOLE.to(core.uint8) + 255, lambda x: WHOLE == 2**40, lambda x: WHOLE.sign(), lambda x: WHOLE.sqrt(),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [core.float32, core.float64])
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_a_call_is_that_of_the_way_through_python(number: int, dtype: Any) -> None:
    found = []
    for watched in (False, False, True):  # the first call may be the one that looks the kernel up
        x = X.to(dtype, copy=True).requires_grad_()
        if watched:
            with observe.observing(observe.Observer()):
                y = CALLS[number](x)
        else:
            y = CALLS[number](x)
        name = y.grad_fn.name() if y.grad_fn is not None else None
        if y.requires_grad:
            y.sum().backward()
        slope = x.grad if x.grad is None else x.grad.tolist()
        found.append((y.detach().tolist(), y.dtype, y.shape, y.requires_grad, name, slope))
    np.testing.assert_equal(found[1], found[0])
    np.testing.assert_equal(found[1], found[2])


@pytest.mark.parametrize("call", [
    lambda: X.clamp(), lambda: core.where(X, X, X), lambda: X.masked_fill(X, 0), lambda: X.masked_fill(M, X),
    lambda: X.clamp(0, 1, None), lambda: X**"a", lambda: core.lerp(X, Y), lambda: core.lerp(X, Y, 0.5, other=1),
    lambda: F.leaky_relu(X, "a"), lambda: F.softplus(X, gamma=1), lambda: core.addcmul(X, Y, Y, 2),
    lambda: core.where(M, X),
    lambda: core.where(M, X, core.ones(3)), lambda: M & "a", lambda: X & X, lambda: ~X, lambda: WHOLE ** -1,
    lambda: X.lerp(Y, 0.5, b=Y), lambda: core.addcmul(X, Y, Y, value=None),
])  # fmt: skip
def test_what_is_wrong_is_told_in_the_same_words(call: Callable[[], Any]) -> None:
    with pytest.raises(Exception) as quick:  # noqa: PT011 - compared below
        call()
    with observe.observing(observe.Observer()), pytest.raises(Exception) as full:  # noqa: PT011
        call()
    assert quick.type is full.type
    assert str(quick.value) == str(full.value)


def test_what_is_not_for_it_it_declines() -> None:
    where, leaky = fast_path(table["where"]), fast_path(table["leaky_relu"])
    assert where(M, X, Y).tolist() == core.where(M, X, Y).tolist()
    others: list[Any] = [(X, X, Y), (M, X, X.double()), (M, 1.0, 2.0), (True, X, Y), (M, X), (M, X, Y, 1.0), (M, M, 1)]
    for args in [*others, (M, WHOLE, 1.5)]:
        assert where(*args) is None
    assert leaky(X, negative_slope=2).tolist() == leaky(X, 2.0).tolist() == F.leaky_relu(X, 2.0).tolist()
    assert leaky(input=X).tolist() == leaky(X).tolist()
    assert leaky(X, out=None).tolist() == leaky(X).tolist()
    for named in [{"slope": 1}, {"x": X}, {"input": X}, {"out": X}, {"negative_slope": True}]:
        assert leaky(X, **named) is None
    with observe.observing(observe.Observer()):
        assert where(M, X, Y) is None
    with core.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert where(M, core.ones(2, 2, requires_grad=True), Y) is None


def test_a_write_to_what_was_made_floats_is_seen() -> None:
    x, mask = X.clone().requires_grad_(), M.clone()
    y = x * mask
    assert y.grad_fn.saved[0] is None or y.grad_fn.saved[0].dtype == np.float32
    mask.logical_not_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_batch_and_autocast_are_served_by_the_general_way() -> None:
    got = core.func.vmap(lambda x, m: core.where(m, x, 0.0).clamp(0, 1))(X, M)
    assert got.tolist() == core.where(M, X, 0.0).clamp(0, 1).tolist()
    assert core.func.vmap(lambda m: X * m)(M).tolist() == (X * M[:, None]).tolist()
    with core.autocast("cpu"):
        assert core.addcmul(X, Y, Y).dtype == core.float32


def test_it_says_how_many_inputs_it_takes() -> None:
    with pytest.raises(ValueError, match="1 to 7 inputs"):
        native.module.ElementwiseCall(table["add"], {}, None, True, False, ("a",), (1.0,), 0, 0)
