from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional as F
from core.autograd import gradcheck, gradgradcheck
from core.ops import embedding

W = np.random.default_rng(8).uniform(-1, 1, (5, 3))
INDEX = np.array([[0, 4, 2], [2, 2, 1]])


def test_rows_with_gradients() -> None:
    w, index = core.tensor(W, requires_grad=True), core.tensor(INDEX)
    np.testing.assert_array_equal(F.embedding(index, w).detach().numpy(), W[INDEX])
    gradcheck(lambda t: F.embedding(index, t * t), w)
    gradgradcheck(lambda t: F.embedding(index, t * t), w)


def gradient(**options: Any) -> Any:
    w = core.tensor(W, requires_grad=True)
    F.embedding(core.tensor(INDEX), w, **options).sum().backward()
    return w.grad.numpy()[:, 0].tolist()


def test_equal_indices_add_up() -> None:
    assert gradient() == [1, 1, 3, 0, 1]


@pytest.mark.parametrize("padding", [2, -3])
def test_the_padding_row_gets_none(padding: int) -> None:
    assert gradient(padding_idx=padding) == [1, 1, 0, 0, 1]


def test_scaled_by_frequency() -> None:
    assert gradient(scale_grad_by_freq=True) == [1, 1, 1, 0, 1]


@pytest.mark.parametrize("options", [{"padding_idx": 2}, {"scale_grad_by_freq": True}])
def test_second_order_follows_padding_and_frequency(options: Any) -> None:
    """The gradient is linear in what comes in; its own gradient says how much of each row counts."""
    w, index = core.tensor(W, requires_grad=True), core.tensor(INDEX)
    y = F.embedding(index, w, **options)
    g = core.ones(*y.shape, dtype=core.float64, requires_grad=True)
    (gw,) = core.autograd.grad(y, w, g, create_graph=True)
    (back,) = core.autograd.grad(gw.sum(), g)
    want = np.where(INDEX == 2, 0.0, 1.0) if "padding_idx" in options else np.where(INDEX == 2, 1 / 3, 1.0)
    np.testing.assert_allclose(back.numpy(), np.broadcast_to(want[..., None], (2, 3, 3)))


def test_the_same_bits_every_time() -> None:
    rng = np.random.default_rng(0)
    index = core.tensor(rng.integers(0, 3, 2000))
    grads = []
    for _ in range(3):
        w = core.tensor(rng.uniform(-1, 1, (3, 4)).astype(np.float32) * 0 + 1, requires_grad=True)
        (
            F.embedding(index, w) * core.from_numpy(np.sin(np.arange(8000, dtype=np.float32)).reshape(2000, 4))
        ).sum().backward()
        grads.append(w.grad.numpy().tobytes())
    assert len(set(grads)) == 1


def test_max_norm_shortens_in_place_only_what_is_used() -> None:
    w = core.tensor([[3.0, 4.0], [6.0, 8.0], [0.1, 0.0]])
    F.embedding(core.tensor([0, 2]), w, max_norm=1.0)
    np.testing.assert_allclose(w.numpy(), [[0.6, 0.8], [6, 8], [0.1, 0]], rtol=1e-6)


def test_one_hot() -> None:
    assert F.one_hot(core.tensor([[0], [2]])).tolist() == [[[1, 0, 0]], [[0, 0, 1]]]
    assert tuple(F.one_hot(core.tensor([1]), 5).shape) == (1, 5)
    assert F.one_hot(core.tensor(1)).dtype is core.int64


i, w = core.tensor([0, 2]), core.ones(3, 2)


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (lambda: F.embedding(i + 1, w), IndexError, "index out of range in self"),
        (lambda: F.embedding(i - 1, w), IndexError, "index out of range in self"),
        (lambda: F.embedding(i.int() + 1, w.half()), IndexError, "index out of range in self"),
        (lambda: F.embedding(i, w[0]), RuntimeError, "'weight' must be 2-D"),
        (
            lambda: F.embedding(i.float(), w),
            RuntimeError,
            "Expected tensor for argument #1 'indices'.*got torch.FloatTensor",
        ),
        (lambda: F.embedding(i, w, padding_idx=3), AssertionError, "Padding_idx must be within num_embeddings"),
        (lambda: F.one_hot(i, 2), RuntimeError, "Class values must be smaller than num_classes"),
        (lambda: F.one_hot(-i), RuntimeError, "Class values must be non-negative"),
        (lambda: F.one_hot(w), RuntimeError, "only applicable to index tensor"),
        (lambda: F.one_hot(i[:0]), RuntimeError, "Can not infer total number of classes"),
    ],
)
def test_errors(call: Any, error: type, phrase: str) -> None:
    with pytest.raises(error, match=phrase):
        call()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize(("offsets", "error", "phrase"), [
    ([0, 5], RuntimeError, "offsets\\[-1\\] can not be greater than input's length 3 but got offsets\\[-1\\] of 5"),
    ([1, 2], RuntimeError, "offsets\\[0\\] has to be 0"), ([0, -1], IndexError, "index out of range in self"),
    ([0, 7, 2], IndexError, "index out of range in self"),
])  # fmt: skip
def test_offsets_that_leave_the_input(mode: str, offsets: list[int], error: type[Exception], phrase: str) -> None:
    for last in (False, True):
        with pytest.raises(error, match=phrase):
            F.embedding_bag(core.tensor([0, 1, 2]), core.ones(4, 2), core.tensor(offsets), mode=mode,
                            include_last_offset=last)  # fmt: skip


def test_offsets_are_integers() -> None:
    with pytest.raises(RuntimeError, match="scalar types: Long, Int; but got torch"):
        F.embedding_bag(core.tensor([0, 1]), core.ones(4, 2), core.tensor([0.0, 1.0]))
    assert F.embedding_bag(core.tensor([0, 1, 2]), core.ones(4, 1), core.tensor([0, 3]), mode="sum").tolist() == [
        [3],
        [0],
    ]


@pytest.mark.parametrize(("index", "bad"), [([0, 3], 3), ([-1, 2], -1), ([1, 9], 9), ([0, -5], -5)])
def test_the_index_that_is_out_of_range_is_told(index: list[int], bad: int) -> None:
    with pytest.raises(IndexError, match=f"index out of range in self.* was given {bad}"):
        core.nn.functional.embedding(core.tensor(index), core.ones(3, 2))
    with pytest.raises(IndexError, match=f"came: index {bad}; needed: 0 to 2"):  # by the reference
        embedding._check(np, np.array(index), 3)
