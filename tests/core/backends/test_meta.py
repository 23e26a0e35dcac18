"""The device `meta`: shapes and dtypes without memory."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import core
from core.declare import op as declarations
from core.declare.op import Elementwise, Operation
from core.nn import functional as F

REFUSED = {"ctc", "eig", "gammainc", "gammaincc", "geqrf", "histc", "histogram", "ldl_solve", "lstsq", "pinv",
           "polygamma", "svd", "unique", "unique_consecutive", "zeta"}  # fmt: skip
"""What has no shape rule: the size of the result, or the number of its rounds, depends on values."""


def _shapes(found: Any) -> list[Any]:
    return [(tuple(t.shape), t.dtype) for t in (found if isinstance(found, tuple | list) else (found,))]


def _sampled() -> list[str]:
    return [n for n, op in sorted(declarations.table.items())
            if isinstance(op, Operation) and op.samples is not None and n in declarations.structured]  # fmt: skip


@pytest.mark.parametrize("name", _sampled())
def test_an_op_gives_the_shapes_and_dtypes_it_gives_of_values(name: str) -> None:
    op, run = declarations.table[name], declarations.structured[name]
    assert isinstance(op, Operation)
    for arrays, params in op.samples(np.random.default_rng(0)):
        here = [None if a is None else core.tensor(np.asarray(a)) for a in arrays]
        there = [None if t is None else core.empty(t.shape, dtype=t.dtype, device="meta") for t in here]
        if name in REFUSED or "_polynomial_" in name:
            with pytest.raises(NotImplementedError, match="meta"):
                run(*there, **params)
            continue
        found = run(*there, **params)
        assert _shapes(found) == _shapes(run(*here, **params))
        assert all(t.is_meta for t in (found if isinstance(found, tuple | list) else (found,)))


@pytest.mark.parametrize("dtype", [core.float32, core.int64, core.bool, core.complex64, core.float16])
def test_elementwise_ops_broadcast_promote_and_refuse_as_elsewhere(dtype: Any) -> None:
    for name, op in declarations.table.items():
        if not isinstance(op, Elementwise) or name not in declarations.functions:
            continue

        def outcome(device: str, op: Elementwise = op, name: str = name) -> Any:
            try:
                given = [core.ones(3, 1 + 3 * (k % 2), dtype=dtype, device=device) for k in range(len(op.inputs))]
                return _shapes(declarations.functions[name](*given))
            except (RuntimeError, TypeError) as e:
                return type(e)

        assert outcome("meta") == outcome("cpu"), name


def test_views_have_strides_and_nothing_takes_memory() -> None:
    x = core.empty(200_000, 100_000, device="meta")
    assert x.t().stride() == (1, 100_000)
    assert x[::2, 1].shape == (100_000,)
    assert x.view(-1).shape == (20_000_000_000,)
    assert (x.t() @ x).softmax(-1).sum(0).shape == (100_000,)
    assert x.expand(2, -1, -1).stride() == (0, 100_000, 1)
    assert x.data_ptr() == 0
    assert x.nbytes == 80_000_000_000
    assert x.is_meta
    assert not core.ones(1).is_meta
    assert repr(x) == "tensor(..., device='meta', size=(200000, 100000))"
    assert copy.deepcopy(x).shape == x.shape


def test_values_are_refused_with_the_remedy() -> None:
    x = core.ones(1, device="meta")
    for ask in (x.item, lambda: bool(x), lambda: float(x), lambda: int(x), x.tolist):
        with pytest.raises(RuntimeError, match=r"(?s)cannot be called on meta tensors.*remedy"):
            ask()
    for ask in (x.cpu, lambda: x.to("cpu"), lambda: core.ones(1).copy_(x), lambda: pickle.dumps(x),
                lambda: x.untyped_storage()):  # fmt: skip
        with pytest.raises(NotImplementedError, match=r"(?s)no data!.*remedy"):
            ask()
    with pytest.raises(TypeError, match="can't convert meta"):
        x.numpy()
    with pytest.raises(RuntimeError, match="same device"):
        x + core.ones(1)
    with pytest.raises(NotImplementedError, match="depends on values"):
        x.nonzero()
    with pytest.raises(NotImplementedError, match="depends on values"):
        x[x > 0]


def test_writing_changes_nothing_and_gives_the_tensor_back() -> None:
    x = core.empty(2, 3, device="meta")
    assert x.copy_(core.ones(2, 3)) is x
    assert x.zero_() is x
    assert x.normal_() is x
    x[0] = 1
    x += 1
    assert x.shape == (2, 3)
    assert x.is_meta


def test_random_numbers_are_not_drawn() -> None:
    core.manual_seed(0)
    first = core.rand(3)
    core.manual_seed(0)
    with core.device("meta"):
        assert core.randn(3).is_meta
        assert core.rand(2, dtype=core.float64).dtype is core.float64
        layer = core.nn.Linear(3, 4)
        core.nn.init.trunc_normal_(layer.weight)
    assert bool((core.rand(3) == first).all())


def test_modules_are_made_counted_run_trained_and_filled() -> None:
    with core.device("meta"):
        model = core.nn.Sequential(core.nn.Conv2d(3, 8, 3), core.nn.BatchNorm2d(8), core.nn.ReLU(),
                                   core.nn.MaxPool2d(2),
                                   core.nn.Flatten(), core.nn.Dropout(), core.nn.Linear(8 * 49, 5))  # fmt: skip
        loss = F.cross_entropy(model(core.empty(2, 3, 16, 16)), core.empty(2, dtype=core.int64))
    loss.backward()
    assert all(p.grad is not None and p.grad.is_meta and p.grad.shape == p.shape for p in model.parameters())
    core.optim.AdamW(model.parameters()).step()
    assert sum(p.numel() for p in model.parameters()) == 3 * 8 * 9 + 8 + 16 + 8 * 49 * 5 + 5
    with pytest.raises(NotImplementedError, match=r"(?s)no data!.*to_empty"):
        model.to("cpu")
    assert model.to_empty(device="cpu")[0].weight.device.type == "cpu"


def test_weights_take_the_place_of_meta_ones() -> None:
    layer, kept = core.nn.Linear(2, 3, device="meta"), core.nn.Linear(2, 3)
    layer.load_state_dict(kept.state_dict(), assign=True)
    x = core.ones(1, 2)
    assert isinstance(layer.weight, core.nn.Parameter)
    assert bool((layer(x) == kept(x)).all())


def test_layers_with_several_parts() -> None:
    with core.device("meta"):
        encoder = core.nn.TransformerEncoder(core.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
        assert encoder(core.empty(2, 5, 16)).shape == (2, 5, 16)
        out, (h, _) = core.nn.LSTM(4, 8, 2, bidirectional=True)(core.empty(7, 2, 4))
        assert out.shape == (7, 2, 16)
        assert h.shape == (4, 2, 8)
        table = core.nn.Embedding(1_000_000, 512)
        table(core.empty(4, 9, dtype=core.int64)).sum().backward()
    assert table.weight.grad is not None
    assert table.weight.grad.shape == (1_000_000, 512)
