# ruff: noqa: E501 - the cases are read better in long rows
"""Reductions, products, softmax, norms, losses and embedding beside PyTorch: values, dtypes, gradients, errors.

Every case is one expression, evaluated once with each library.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional

torch = pytest.importorskip("torch")

NUMBERS = np.random.default_rng(0)
X = NUMBERS.uniform(-2, 2, (2, 3, 4))
ARRAYS: dict[str, Any] = {
    "x": X,
    "y": NUMBERS.uniform(-2, 2, (2, 3, 4)),
    "p": NUMBERS.uniform(0.05, 0.95, (2, 3, 4)),
    "q": NUMBERS.uniform(0.05, 0.95, (2, 3, 4)),
    "ties": np.round(X),
    "zeros": np.where(np.abs(X) < 0.7, 0.0, X),
    "m": NUMBERS.uniform(-1, 1, (3, 4)),
    "n": NUMBERS.uniform(-1, 1, (4, 5)),
    "w": NUMBERS.uniform(0.5, 1.5, (5, 4)),
    "v3": NUMBERS.uniform(0.5, 1.5, 3),
    "v4": NUMBERS.uniform(0.5, 1.5, 4),
    "v5": NUMBERS.uniform(0.5, 1.5, 5),
    "table": NUMBERS.uniform(-1, 1, (6, 3)),
    "void": np.zeros((0, 3)),
    "inf": np.array([[-math.inf, -math.inf], [1.0, -math.inf]]),
    "image": NUMBERS.uniform(-1, 1, (2, 4, 3, 3)),
}
CONSTANTS: dict[str, Any] = {
    "c3": ARRAYS["v3"],
    "c4": ARRAYS["v4"],
    "sign": np.sign(X),
}  # no gradient is asked of these
INDICES: dict[str, Any] = {
    "i": np.arange(-6, 18).reshape(2, 3, 4),
    "b": X > 0,
    "t4": NUMBERS.integers(0, 3, (2, 4)),
    "t3": NUMBERS.integers(0, 4, 3),
    "skip": np.array([1, -100, 3]),
    "rows": np.array([[0, 5, 2], [2, 2, 1]]),
    "t9": NUMBERS.integers(0, 4, (2, 3, 3)),
}

REDUCE = """
x.sum() | x.sum(1) | x.sum((0, 2), keepdim=True) | x.sum(axis=-1, keepdims=True) | x.sum(()) | x.sum(dtype=torch.float64)
torch.sum(x, [0, 1]) | void.sum() | void.sum(0) | void.sum(1) | torch.nansum(x, 1) | void.prod() | void.mean() | void.mean(1)
x.mean() | x.mean(1) | x.mean((0, 2), True) | torch.mean(x, dim=-1) | void.logsumexp(1)
x.prod() | x.prod(1) | x.prod(2, keepdim=True) | zeros.prod() | zeros.prod(1) | zeros[0].prod(0)
x.amax() | x.amax(1) | x.amax((0, 1), True) | ties.amax((0, 2)) | ties.amin(1) | x.amin() | ties.amax()
x.max() | ties.max() | ties.min() | x.max(1) | x.max(-1, True) | x.min(0) | torch.max(x, y) | torch.min(x, y) | x.max(dim=2).values
x.max(dim=1, keepdim=True)[0] | torch.aminmax(x, dim=1) | x.sum(0).max(0)
x.var() | x.var(1) | x.var((0, 1), correction=0) | x.var(0, unbiased=False) | x.var(False) | x.std() | x.std(2, keepdim=True)
torch.var_mean(x, 1) | torch.std_mean(x, (0, 2)) | torch.std(x, dim=1, correction=2) | zeros[:, :0].sum() | (x[:, :1] * 0).std(2)
x.logsumexp(1) | x.logsumexp((0, 2), True) | inf.logsumexp(1) | inf.logsumexp(0)
x.norm() | x.norm(1) | x.norm(p=2, dim=1) | x.norm(math.inf) | x.norm(math.inf, 1) | ties.norm(math.inf, 1) | x.norm(3, dim=(0, 1))
x.norm(0) | x.norm(-math.inf, 2) | x.norm("fro", dim=(0, 1), keepdim=True) | zeros.norm(2, 2) | (x * 0).norm() | zeros.norm(1.5, 1)
zeros.norm(3, 1) | (x * 0).norm(1) | x.norm(0.5, 1) | torch.norm(x, dim=0)
x.cumsum(0) | x.cumsum(1) | x.cumsum(-1) | torch.cumsum(x, 1, dtype=torch.float64)
"""
WHOLE = """
i.sum() | i.sum(1) | b.sum() | b.sum(0) | i.int().sum() | i.prod(1) | b.prod(0) | i.max() | i.amax(1) | i.min(1) | i.argmax() | i.argmin(1)
b.all() | b.any(1) | b.all(0, keepdim=True) | i.all() | i.any((0, 1)) | i.to(torch.uint8).any(1) | i.to(torch.uint8).all()
i.cumsum(1) | b.cumsum(0) | i.count_nonzero() | i.count_nonzero(1) | i.logsumexp(1) | b.max() | b.amax(0) | b.max(1)
x.argmax() | x.argmax(1) | x.argmax(1, keepdim=True) | x.argmin(keepdim=True) | x.argmin(-1) | ties.argmax(2) | ties.argmin(1)
torch.mean(i, dtype=torch.float32) | torch.sum(x, dtype=torch.int64) | x.all() | zeros.any(1) | x.count_nonzero((0, 1))
torch.tensor([1.0, math.nan, 2.0]).max() | torch.tensor([1.0, math.nan, 2.0]).argmax() | torch.tensor([1.0, math.nan]).min(0)
torch.tensor(3.0).max(0) | torch.tensor(3.0).sum(0) | torch.tensor(3.0).softmax(0)
torch.nanmean(torch.tensor([1.0, math.nan, 2.0])) | torch.nansum(torch.tensor([1.0, math.nan, 2.0]))
F.one_hot(t4) | F.one_hot(t4, 7) | F.one_hot(rows[0, 0])
"""
PRODUCTS = """
m @ n | torch.mm(m, n) | torch.matmul(x, n) | x @ v4 | v3 @ m | v4 @ v4 | torch.bmm(x, y.mT) | torch.mv(m, v4) | torch.dot(v4, n[:, 0])
torch.outer(v3, v4) | torch.addmm(v5, m, n) | torch.addmm(m @ n, m, n, beta=0.5, alpha=2) | torch.addmm(v5, m, n, beta=0)
torch.baddbmm(v5, x, n.expand(2, 4, 5), alpha=0.5) | torch.outer(v3, t3) | x[:, None] @ y.mT
F.linear(x, w) | F.linear(x, w, v5) | F.linear(v4, w, v5) | F.linear(x, v4) | F.linear(v4, v4) | F.linear(x, w, v5[:1])
torch.einsum("ij,jk->ik", m, n) | torch.einsum("bij,bkj", x, y) | torch.einsum("bij->b", x) | torch.einsum("ij,j", m, v4)
torch.einsum("...ij,jk->...ik", x, n) | torch.einsum("i,j->ij", v3, v4) | torch.einsum("ij->ji", m) | torch.einsum("bij,bij->", x, y)
torch.einsum("ii->i", x[0, :, :3]) | torch.einsum("ii", x[0, :, :3]) | torch.einsum("bii->b", x[:, :, :3]) | torch.einsum("...,...", m, m)
torch.einsum("bij,bij->bi", x, y[:, :, :1]) | torch.einsum("bij,jk,bk->i", x, n, torch.ones(2, 5).to(x)) | torch.einsum("i j, j k -> i k", m, n)
"""
SOFTMAX = """
x.softmax(1) | x.softmax(-1) | torch.softmax(x, 0) | x.log_softmax(2) | F.log_softmax(x, dim=1) | F.softmin(x, dim=1) | inf.softmax(1)
x.softmax(1, dtype=torch.float64) | torch.softmax(x, dim=2, dtype=torch.float64) | F.softmax(x, 1) | inf.log_softmax(1) | void.softmax(0)
(x * 100).softmax(2) | (x * 100).log_softmax(2) | F.softmax(x, dim=-1, dtype=torch.float64)
F.layer_norm(x, (4,)) | F.layer_norm(x, (4,), v4, v4) | F.layer_norm(x, [3, 4], m) | F.layer_norm(x, (4,), None, v4, 0.1)
F.rms_norm(x, (4,)) | F.rms_norm(x, (3, 4), m, 1e-3) | F.group_norm(image, 2) | F.group_norm(image, 4, v4, v4, 1e-3) | F.normalize(x)
F.normalize(x, p=1, dim=2) | F.normalize(zeros * 0, dim=2) | F.instance_norm(image) | F.instance_norm(image, weight=v4, bias=v4)
F.batch_norm(image, None, None, v4, v4, training=True) | F.batch_norm(image, c4 * 0, c4 + 1, v4) | F.batch_norm(m, None, None, training=True)
F.relu(x) | F.leaky_relu(x, 0.2) | F.elu(x, 0.7) | F.celu(x, 0.7) | F.selu(x) | F.silu(x) | F.mish(x) | F.gelu(x) | F.gelu(x, approximate="tanh")
F.hardtanh(x, -0.5, 0.7) | F.relu6(x * 5) | F.hardsigmoid(x * 2) | F.hardswish(x * 3) | F.softplus(x) | F.softplus(x * 9, 2, 5) | F.softsign(x)
F.tanhshrink(x) | F.softshrink(x, 0.3) | F.hardshrink(x) | F.threshold(x, 0.1, 5.0) | F.logsigmoid(x) | F.prelu(x, v3) | F.prelu(x, v4[:1]) | F.glu(x)
F.glu(x, 2) | torch.relu(x) | torch.sigmoid(x) | torch.tanh(x) | F.hardtanh(x) | torch.prelu(x, v3) | torch.selu(x) | torch.celu(x)
F.pad(x, (1, 2)) | F.pad(x, (1, 2, -1, 1), value=3) | F.pad(x, (2, 1), mode="reflect") | F.pad(x, (5, 1), mode="replicate") | F.pad(x, (1, 2), "circular")
F.pad(image, (1, 2, 2, 1), mode="reflect") | F.pad(x, (-1, -1)) | F.pad(i, (1, 0), value=7)
"""
LOSSES = """
F.cross_entropy(x, t4) | F.cross_entropy(m, t3) | F.cross_entropy(m, t3, reduction="none") | F.cross_entropy(m, t3, reduction="sum")
F.cross_entropy(m, t3, c4) | F.cross_entropy(m, t3, c4, label_smoothing=0.2) | F.cross_entropy(m, t3, label_smoothing=0.2) | F.cross_entropy(m, skip)
F.cross_entropy(m, skip, c4, label_smoothing=0.3) | F.cross_entropy(m, t3, ignore_index=int(t3[0])) | F.cross_entropy(x, t4, c3, reduction="none")
F.cross_entropy(x, t4, c3, ignore_index=1, label_smoothing=0.1) | F.cross_entropy(m[0], t3[0]) | F.cross_entropy(m[0], t3[0], reduction="none")
F.cross_entropy(m, t3, c4, ignore_index=int(t3[1]), reduction="sum", label_smoothing=1.0) | F.cross_entropy(m, skip, reduction="none")
F.cross_entropy(m, m.softmax(1)) | F.cross_entropy(x, y.softmax(1), c3, label_smoothing=0.1) | F.cross_entropy(x, p, reduction="none")
F.cross_entropy(m[0], m[1].softmax(0)) | F.cross_entropy(x, p, reduction="sum", label_smoothing=0.5) | F.cross_entropy(m, skip * 0 - 100)
F.cross_entropy(image, t9) | F.cross_entropy(m, t3.to(torch.uint8)) | F.cross_entropy(m * 200, t3) | F.cross_entropy(void, rows[:, 0][:0])
F.nll_loss(m, t3) | F.nll_loss(x, t4, c3) | F.nll_loss(m, skip, c4, reduction="none") | F.nll_loss(m[0], t3[0]) | F.nll_loss(m, t3, reduction="sum")
F.mse_loss(x, y) | F.mse_loss(x, y, reduction="sum") | F.mse_loss(x, y, reduction="none") | F.mse_loss(x, i) | F.mse_loss(x, y, weight=p)
F.l1_loss(x, y) | F.l1_loss(x, x) | F.smooth_l1_loss(x, y) | F.smooth_l1_loss(x, y, beta=0.3) | F.smooth_l1_loss(x, y, beta=0) | F.huber_loss(x, y, delta=0.4)
F.huber_loss(x, y, reduction="sum") | F.binary_cross_entropy(p, q) | F.binary_cross_entropy(p, (sign + 1) / 2) | F.binary_cross_entropy(p, q, c4)
F.binary_cross_entropy_with_logits(x, q) | F.binary_cross_entropy_with_logits(x * 100, q) | F.binary_cross_entropy_with_logits(x, q, c4, pos_weight=c4)
F.kl_div(x.log_softmax(1), p, reduction="batchmean") | F.kl_div(x, p, reduction="sum") | F.kl_div(x, (zeros > 0) * p, reduction="sum")
F.kl_div(x, y.log_softmax(1), reduction="none", log_target=True) | F.cosine_similarity(x, y) | F.cosine_similarity(x, y[:1], dim=2)
F.cosine_similarity(zeros * 0, y, 2) | torch.cosine_similarity(x, y, dim=-1) | F.pairwise_distance(m, m * 2) | F.pairwise_distance(m, n[0, :4] , keepdim=True)
F.gaussian_nll_loss(x, y, p) | F.gaussian_nll_loss(x, y, p, full=True, reduction="none") | F.gaussian_nll_loss(x, y, p[:, :, :1])
F.poisson_nll_loss(x, p) | F.poisson_nll_loss(p, q * 5, log_input=False, full=True) | F.margin_ranking_loss(x, y, sign, 0.3)
F.hinge_embedding_loss(x, sign) | F.cosine_embedding_loss(m, m.flip(0), sign[0, :, 0], 0.1) | F.triplet_margin_loss(x[0], y[0], m)
F.triplet_margin_loss(x[0], y[0], m, p=1, swap=True) | F.soft_margin_loss(x, sign)
F.embedding(rows, table) | F.embedding(rows, table, padding_idx=2) | F.embedding(rows, table, -4) | F.embedding(rows[0, 0], table)
F.embedding(rows, table, scale_grad_by_freq=True) | F.embedding(rows.int(), table)
F.scaled_dot_product_attention(x, y, p) | F.scaled_dot_product_attention(x, y, p, is_causal=True) | F.scaled_dot_product_attention(x, y, p, scale=0.3)
F.scaled_dot_product_attention(x, y, p, attn_mask=m[:, :3]) | F.scaled_dot_product_attention(image, image, image, is_causal=True)
F.scaled_dot_product_attention(x, y, p, attn_mask=b[:, :, :3]) | F.scaled_dot_product_attention(x, y[:, :2], p[:, :2])
"""


def cases(*texts: str) -> list[str]:
    return [c.strip() for text in texts for line in text.strip().splitlines() for c in line.split(" | ")]


def evaluate(lib: Any, case: str, dtype: str, grad: bool) -> tuple[Any, dict[str, Any]]:
    names: dict[str, Any] = {"torch": lib, "F": lib.nn.functional, "math": math}
    d = getattr(np, dtype)
    make = lib.from_numpy
    leaves = {k: make(a.astype(d)).requires_grad_(grad) for k, a in ARRAYS.items()}
    others = {k: make(a.astype(d)) for k, a in CONSTANTS.items()} | {k: make(a.copy()) for k, a in INDICES.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(case, names | leaves | others), leaves


def tensors(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def as_array(t: Any) -> Any:
    return t.detach().numpy()


def same(case: str, dtype: str, grad: bool, tolerance: float) -> None:
    theirs, their_leaves = evaluate(torch, case, dtype, grad)
    ours, our_leaves = evaluate(core, case, dtype, grad)
    assert type(ours).__name__ == type(theirs).__name__
    for a, b in zip(tensors(ours), tensors(theirs), strict=True):
        assert repr(a.dtype).split(".")[1] == repr(b.dtype).split(".")[1]
        assert a.requires_grad == b.requires_grad
        np.testing.assert_allclose(as_array(a), as_array(b), rtol=tolerance, atol=tolerance)
    if not grad or not any(t.requires_grad for t in tensors(ours)):
        return
    for result in (ours, theirs):
        outs = [t for t in tensors(result) if t.requires_grad]
        seeds = [np.cos(np.arange(t.numel())).reshape(tuple(t.shape)).astype(as_array(t).dtype) for t in outs]
        lib = core if result is ours else torch
        lib.autograd.backward(outs, [lib.from_numpy(np.array(s)) for s in seeds])
    for k, t in our_leaves.items():
        mine, want = t.grad, their_leaves[k].grad
        if mine is None or want is None:  # no gradient and a gradient of 0 are the same to an optimizer
            found = [as_array(g) for g in (mine, want) if g is not None]
            assert not any(np.any(g) for g in found)
            continue
        mine, want = as_array(mine), as_array(want)
        if case in FINITE_HERE:
            assert not np.isnan(mine).any()
            want = np.nan_to_num(want, nan=0.0)
        np.testing.assert_allclose(mine, want, rtol=tolerance, atol=tolerance, err_msg=k)


# Where PyTorch's gradient is NaN (0 times infinity) and the limit is 0.
FINITE_HERE = {"inf.logsumexp(1)", "inf.logsumexp(0)"}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", cases(REDUCE, PRODUCTS, SOFTMAX, LOSSES))
def test_values_and_gradients(case: str, dtype: str) -> None:
    same(case, dtype, True, 1e-7 if dtype == "float64" else 3e-5)


@pytest.mark.parametrize("case", cases(WHOLE))
def test_values(case: str) -> None:
    same(case, "float32", False, 1e-6)


@pytest.mark.parametrize("case", cases("x.sum(1) | x.mean() | x.softmax(1) | x.log_softmax(2) | m @ n | F.linear(x, w, v5) | x.var(1)"
                                       " | F.layer_norm(x, (4,), v4) | F.cross_entropy(m, t3) | F.mse_loss(x, y) | x.amax(1)"
                                       " | x.logsumexp(1) | F.rms_norm(x, (4,)) | x.cumsum(1) | x.norm()"))  # fmt: skip
def test_half(case: str) -> None:
    same(case, "float16", True, 3e-3)


ERRORS = """
i.mean() | b.mean(0) | i.var() | void.max() | void.amax() | void.amax(0) | void.max(0) | void.argmax() | void.argmax(0) | x.max(5) | x.sum(3)
b.argmax() | x.sum((0, 0)) | i.norm() | x.norm(p="abc") | torch.sum("a") | x.sum(0, 0) | x.softmax(3) | torch.mm(x, m) | torch.mm(m, m)
torch.mm(m, n.double()) | m @ m | x @ x | m @ v3 | v3 @ v4 | torch.matmul(i, n) | torch.bmm(m, x) | torch.bmm(x, m) | torch.bmm(x, x)
torch.bmm(x, x.mT.double()) | torch.mv(m, m) | torch.mv(m, v3) | torch.mv(m, v4.double()) | torch.dot(m, m) | torch.dot(v3, v4)
torch.dot(v3, v3.double()) | torch.outer(m, v3) | torch.addmm(v3, m, n) | torch.addmm(m, m, m) | torch.matmul(torch.tensor(1.0), m)
torch.einsum("ij,jk->ik", m, m) | torch.einsum("ij->k", m) | torch.einsum("ijk->i", m) | torch.einsum("ij,j", m) | torch.einsum("ij,j->ii", m, v4)
F.linear(m, m.double()) | F.linear(m, n) | F.linear(m, w, v5.double()) | F.linear(m, w, v3) | F.linear(i, w) | F.linear(torch.tensor(1.0), w)
i.softmax(2) | i.softmax(0) | i.log_softmax(0) | b.softmax(2) | F.layer_norm(x, (3,)) | F.layer_norm(x, (4,), v3) | F.layer_norm(x, (4,), v4, v3)
F.layer_norm(x, ()) | F.layer_norm(i, (4,)) | F.layer_norm(x, (4,), v4.double()) | F.rms_norm(x, (3,)) | F.layer_norm(x, 4)
F.cross_entropy(m, t3[:2]) | F.cross_entropy(m, t3 + 7) | F.cross_entropy(m, t3 - 9) | F.cross_entropy(m, t3.int()) | F.cross_entropy(m, t3.float())
F.cross_entropy(m, t3[:, None]) | F.cross_entropy(m, (m > 0).long()) | F.cross_entropy(x, t4[:, :3]) | F.cross_entropy(m, t3, v3)
F.cross_entropy(m, t3, v4.double()) | F.cross_entropy(m, t3, label_smoothing=1.5) | F.cross_entropy(m, t3, reduction="foo") | F.cross_entropy(i[0], t3)
F.cross_entropy(m, m.softmax(0), ignore_index=1) | F.cross_entropy(torch.tensor(1.0), t3) | F.nll_loss(m, t3.float()) | F.nll_loss(m, t3 + 9)
F.nll_loss(m, t3, v3) | F.mse_loss(m, n) | F.mse_loss(i, i) | F.l1_loss(x, y, reduction="foo") | F.l1_loss(i, i) | F.smooth_l1_loss(x, y, beta=-1)
F.huber_loss(x, y, delta=0) | F.binary_cross_entropy(x, p) | F.binary_cross_entropy(p, q[:1]) | F.binary_cross_entropy(p, i)
F.binary_cross_entropy(p, q.double()) | F.binary_cross_entropy_with_logits(x, p[:1]) | F.binary_cross_entropy_with_logits(x, i)
F.embedding(rows + 3, table) | F.embedding(rows - 1, table) | F.embedding(rows, v3) | F.embedding(rows.float(), table) | F.embedding(rows, table, padding_idx=9)
F.one_hot(t4, 1) | F.one_hot(t4 - 9) | F.one_hot(m) | F.one_hot(t4[:0]) | F.pad(x, (1, 1, 1)) | F.pad(x, (-5, 0)) | F.pad(m, (1, 1, 1, 1, 1, 1)) | F.glu(m[:, :3])
F.scaled_dot_product_attention(v3, v3, v3) | F.scaled_dot_product_attention(x, x, x.double()) | F.margin_ranking_loss(x, m, x)
F.scaled_dot_product_attention(x, x, x, attn_mask=m[:, :3], is_causal=True) | F.group_norm(image, 3) | F.batch_norm(image, v3, v3) | F.prelu(x, v4)
"""


@pytest.mark.parametrize("case", cases(ERRORS))
def test_errors(case: str) -> None:
    """The same class, and the first line of PyTorch's message in ours."""
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - whatever PyTorch raises
        evaluate(torch, case, "float32", False)
    with pytest.raises(theirs.type) as ours:
        evaluate(core, case, "float32", False)
    assert ours.type is theirs.type
    phrase = str(theirs.value).split("\n")[0].rstrip()
    assert phrase in str(ours.value)


@pytest.mark.parametrize("case", ["F.softmax(x)", "F.mse_loss(x, y[:1])", "F.kl_div(x, p)", "x[:1, :1, :1].var()",
                                  "F.mse_loss(x, y, reduce=False)", "F.cross_entropy(m, t3, size_average=False)"])  # fmt: skip
def test_warnings(case: str) -> None:
    """The same warning in the same words."""
    said = []
    for lib in (torch, core):
        names = {"torch": lib, "F": lib.nn.functional}
        names |= {k: lib.from_numpy(a.copy()) for k, a in (ARRAYS | CONSTANTS | INDICES).items()}
        with warnings.catch_warnings(record=True) as log:
            warnings.simplefilter("always")
            eval(case, names)
        said.append([(w.category, str(w.message).split(" (Triggered")[0]) for w in log])
    assert said[1] == said[0]
    assert said[0]


def test_running_statistics() -> None:
    """Batch norm in training moves the running mean and variance as PyTorch does."""
    moved = []
    for lib in (torch, core):
        mean, variance = lib.zeros(4), lib.ones(4)
        lib.nn.functional.batch_norm(lib.from_numpy(ARRAYS["image"].astype(np.float32)), mean, variance, training=True,
                                     momentum=0.3)  # fmt: skip
        moved.append((as_array(mean), as_array(variance)))
    np.testing.assert_allclose(moved[1], moved[0], rtol=1e-5)


def test_max_norm_shortens_the_table_in_place() -> None:
    tables = []
    for lib in (torch, core):
        table = lib.from_numpy(ARRAYS["table"].copy())
        lib.nn.functional.embedding(lib.from_numpy(INDICES["rows"]), table, max_norm=0.5)
        tables.append(as_array(table))
    np.testing.assert_allclose(tables[1], tables[0], rtol=1e-9)


@pytest.mark.parametrize("low", ["bfloat16", "float16"])
@pytest.mark.parametrize("case", [
    "torch.addmm(c, a, b, beta=-4.775, alpha=2.0315)", "torch.addmm(c, a, b)", "torch.addmm(c[0], a, b, beta=0.5)",
    "torch.baddbmm(c[None], a[None], b[None], beta=1.7)", "torch.addbmm(c, a[None], b[None], alpha=-0.3)",
    "torch.add(c, d, alpha=1.7)", "torch.sub(c, d, alpha=1.7)", "c.clone().add_(d, alpha=-0.001)",
])  # fmt: skip
def test_half_precision_sums_are_rounded_as_pytorch_s(case: str, low: str) -> None:
    """Bit for bit, but where a sum of products taken in another order falls on a half. PyTorch rounds the last numbers of
    a length that is no multiple of its vectors in another way, so the length is one."""
    drawn = np.random.default_rng(3)
    arrays = {k: drawn.standard_normal((64, 64)).astype(np.float32) for k in "abcd"}
    found = []
    for lib in (torch, core):
        names = {k: lib.from_numpy(a.copy()).to(getattr(lib, low)) for k, a in arrays.items()}
        found.append(as_array(eval(case, {"torch": lib, **names}).float()))
    assert (found[0] != found[1]).mean() <= (0.002 if "mm" in case else 0)
