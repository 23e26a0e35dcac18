"""What functions make of nested tensors: each sequence alone, or the padded batch with a mask."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core import nested
from core.nested.rules import POINTWISE, RULES

from .test_tensors import J, same, sequences

F = core.nn.functional
LENGTHS = [(2, 3), (4, 1, 2), (0, 3), (1,)]


def each_alone(f, *lengths, dim=0):
    """Hold a function of nested tensors against the same of each sequence, with gradients to the list."""
    mine = [t.requires_grad_() for t in sequences(*lengths)]
    theirs = [t.clone().detach().requires_grad_() for t in mine]
    y = f(nested.as_nested_tensor(mine, **J), 1)
    alone = [f(t, dim) for t in theirs]
    parts = y.unbind() if y.is_nested else y.unbind(0)
    for part, other in zip(parts, alone, strict=True):
        same(part, other)
    sum((p * (k + 1)).sin().sum() for k, p in enumerate(parts)).backward()
    sum((p * (k + 1)).sin().sum() for k, p in enumerate(alone)).backward()
    for a, b in zip(mine, theirs, strict=True):
        same(a.grad, b.grad)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("f", [
    lambda x, d: x * 2 + 1, lambda x, d: x.exp(), lambda x, d: F.gelu(x), lambda x, d: x.softmax(-1),
    lambda x, d: x.softmax(d), lambda x, d: x.log_softmax(d), lambda x, d: x.cumsum(d), lambda x, d: x.sum(d),
    lambda x, d: x.sum(-1), lambda x, d: x.logsumexp(-1), lambda x, d: x.var(-1, unbiased=False, keepdim=True),
    lambda x, d: F.layer_norm(x, (4,)), lambda x, d: F.rms_norm(x, (4,)), lambda x, d: F.linear(x, core.ones(3, 4)),
    lambda x, d: x @ core.ones(4, 2), lambda x, d: x.unflatten(-1, (2, 2)).flatten(-2), lambda x, d: F.glu(x, -1),
    lambda x, d: core.cat([x, x], -1), lambda x, d: x.chunk(2, -1)[1], lambda x, d: x.to(core.float64),
    lambda x, d: x.masked_fill(x > 0, 0.5), lambda x, d: core.where(x > 0, x, -x), lambda x, d: x.prod(d),
    lambda x, d: x[..., 1:3], lambda x, d: x.unsqueeze(-1).squeeze(-1), lambda x, d: x.transpose(d, d + 1).mT,
])  # fmt: skip
def test_each_sequence_alone(f, lengths):
    each_alone(f, *lengths)


@pytest.mark.parametrize("name", ["mean", "amax", "amin", "logsumexp"])
@pytest.mark.parametrize("lengths", LENGTHS[:2])
def test_reductions_leave_padding_out(name, lengths):
    each_alone(lambda x, d: getattr(x, name)(d), *lengths)


def test_extrema_of_integers_and_truths():
    x = nested.nested_tensor([core.tensor([-5, -7]), core.tensor([-3])], **J)
    assert x.amax(1).tolist() == [-5, -3]
    assert x.max(1).indices.tolist() == [0, 0]
    assert nested.nested_tensor([core.tensor([5, 7]), core.tensor([3])], **J).to(core.uint8).amin(1).tolist() == [5, 3]
    y = nested.nested_tensor([core.tensor([True, True]), core.tensor([False])], **J)
    assert y.all(1).tolist() == [True, False]
    assert y.any(1).tolist() == [True, False]
    assert y.amin(1).tolist() == [True, False]


def test_dense_tensors_broadcast_with_the_padded_batch():
    x = nested.nested_tensor(sequences(2, 3), **J)
    padded = x.to_padded_tensor(0.0)
    for shape in [(), (4,), (1, 4), (2, 1, 4), (2, 1, 1), (1, 3, 4), (2, 3, 1), (3, 4), (1, 1, 4)]:
        w = core.tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))
        for k, part in enumerate(x * w):
            same(part, (padded * w)[k, : len(part)])
        for k, part in enumerate(w - x):
            same(part, (w - padded)[k, : len(part)])


def test_the_ragged_dimension_may_stand_anywhere():
    x = nested.nested_tensor([core.ones(2, 3, 4), 2 * core.ones(2, 5, 4)], **J)
    assert x.shape == (2, 2, x.size(2), 4)
    assert x.sum(2)[:, 0, 0].tolist() == [3.0, 10.0]
    same(x.softmax(2)[1], core.full((2, 5, 4), 0.2))
    same((x * core.tensor([[[1.0]], [[2.0]]])[None])[0], core.ones(2, 3, 4) * core.tensor([1.0, 2.0]).view(2, 1, 1))
    assert x.sum(1).shape == (2, x.size(2), 4)
    assert x[..., 0].shape == (2, 2, x.size(2))
    assert x.select(1, 0).shape == (2, x.size(2), 4)
    assert x.unsqueeze(1).shape == (2, 1, 2, x.size(2), 4)
    assert x.permute(0, 3, 2, 1).shape == (2, 4, x.size(2), 2)
    assert x.transpose(1, 2).flatten(2).view(2, -1, 2, 4).transpose(1, 2).shape == x.shape


def test_in_place_forms_write_into_the_values():
    x = nested.nested_tensor(sequences(2, 3), **J)
    values, before = x.values(), x.values().clone()
    assert x.mul_(2) is x
    assert x.values() is values
    same(values, before * 2)
    x += 1
    same(x.values(), before * 2 + 1)
    F.relu(x, inplace=True)
    same(x.values(), (before * 2 + 1).relu())
    with pytest.raises(RuntimeError, match="leaf"):
        nested.nested_tensor(sequences(2, 3), requires_grad=True, **J).add_(1)


def test_dropout_draws_for_the_values():
    x = nested.nested_tensor([core.ones(50, 4), core.ones(30, 4)], **J)
    core.manual_seed(0)
    y = F.dropout(x, 0.5)
    core.manual_seed(0)
    same(y.values(), F.dropout(x.values(), 0.5))


def test_chunks_of_the_batch():
    x = nested.nested_tensor(sequences(1, 2, 3), **J)
    first, second = x.chunk(2)
    assert [len(t) for t in first] == [1, 2]
    same(second[0], x[2])


def test_products_of_the_batch():
    x = nested.nested_tensor(sequences(2, 3), **J)
    w = core.tensor(np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32))
    for k, part in enumerate(x @ w):
        same(part, x[k] @ w[k])
    for k, part in enumerate(x.transpose(1, 2) @ x):
        same(part, x[k].T @ x[k])


def test_padded_and_back():
    x = nested.nested_tensor(sequences(2, 0, 3), **J)
    padded = nested.to_padded_tensor(x, -1.0, (3, 6, 4))
    assert padded.shape == (3, 6, 4)
    assert padded[1].eq(-1).all()
    same(padded[2, :3], x[2])
    assert nested.to_padded_tensor(x, 0.0, (3, 1, 4)).shape == (3, 1, 4)
    with pytest.raises(RuntimeError, match="not ragged"):
        nested.to_padded_tensor(x, 0.0, (3, 6, 5))
    back = nested.nested_tensor_from_jagged(padded.flatten(0, 1)[core.tensor([0, 1, 12, 13, 14])], x.offsets())
    same(back.values(), x.values())


def test_every_rule_is_of_a_function_that_is_there():
    known = {**core.declare.op.functions, **core.Tensor.__dict__, **vars(F), **vars(core)}
    names = {n.removesuffix("_") for n in (*RULES, *POINTWISE)} - {"getitem", "_is_pinned"}
    assert not {n for n in names if not {n, n + "_"} & {*known, *dir(core.Tensor)}}


def test_autocast_casts_the_values():
    x = nested.nested_tensor(sequences(2, 3), **J)
    with core.autocast("cpu", dtype=core.bfloat16):
        assert F.linear(x, core.ones(3, 4)).dtype is core.bfloat16
        assert F.layer_norm(x, (4,)).dtype is core.float32


def test_modules_and_checkpoints():
    x = nested.nested_tensor(sequences(2, 3), requires_grad=True, **J)
    net = core.nn.Sequential(core.nn.Linear(4, 8), core.nn.ReLU(), core.nn.LayerNorm(8), core.nn.Softmax(-1))
    same(net(x).values(), net(x.values()))
    y = core.utils.checkpoint.checkpoint(net, x, use_reentrant=False)
    y.square().sum().backward()
    kept = x.grad.values().clone()
    x.grad = None
    net(x).square().sum().backward()
    same(kept, x.grad.values())


def test_each_function_that_is_taken_for_elementwise_is():
    x = nested.nested_tensor(sequences(2, 3), **J).abs() + 0.5
    more = {"addcdiv": (x, x), "addcmul": (x, x), "clamp": (0.6,), "clamp_max": (1,), "clamp_min": (1,), "clip": (0.6,),
            "copy": (x,), "div": (x,), "fill": (2,), "float_power": (2,), "isclose": (x,), "masked_fill": (x > 1, 0.0),
            "pow": (x,), "rsub": (x,)}  # fmt: skip
    for name in POINTWISE - {"alpha_dropout", "dropout", "rrelu"}:
        f = getattr(core, name, None) or getattr(F, name, None) or getattr(core.Tensor, name + "_")
        args = more.get(name, ())
        alone = [a.values() if isinstance(a, core.Tensor) else a for a in args]
        y, z = f(x.clone(), *args), f(x.values().clone(), *alone)
        assert y.is_nested
        same(y.values(), z)
    same(core.nn.PReLU()(-x).values(), core.nn.PReLU()(-x.values()))
    with pytest.raises(RuntimeError, match="one slope"):
        core.nn.PReLU(4)(x)
