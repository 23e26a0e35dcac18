"""Where an argument's range ends: the last value that is taken, and the first that is refused, for each check."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional as F

X, R = core.ones(3, 4), core.ones(2, 3, 4)
L = core.linalg
I = core.tensor([0, 1, 2])  # noqa: E741
Q = core.ones(1, 2, 3, 4)
IMAGE, KERNEL = core.ones(1, 2, 5, 5), core.ones(2, 2, 3, 3)
LEAST = 2.0**-126

# name: what is called with a value, the values that are taken, those that are refused, and what is said of them
LIMITS: dict[str, tuple[Callable[[Any], Any], list[Any], list[Any], str]] = {
    "hardshrink": (lambda v: F.softshrink(X, v), [0.0, 0.5], [-LEAST, -1.0], "must be in range|greater"),
    "prelu": (lambda v: F.prelu(R, core.ones(v)), [(1,), (3,)], [(1, 3), (2,)], "prelu|weight"),
    "attention_dims": (lambda v: F.scaled_dot_product_attention(*3 * [core.ones(v)]), [(2, 3), (1, 2, 3)], [(3,)],
                       "at least 2|dim"),
    "attention_dropout": (lambda v: F.scaled_dot_product_attention(Q, Q, Q, dropout_p=v), [0.0, 1.0],
                          [-1e-9, 1.0000001],
                          "dropout probability has to be between 0 and 1"),
    "dropout": (lambda v: F.dropout(X, v), [0.0, 1.0], [-1e-9, 1.0000001],
                "dropout probability has to be between 0 and 1"),
    "isclose": (lambda v: core.isclose(X, X, rtol=v), [0.0, 1e-5], [-1e-9],
                "rtol must be greater than or equal to zero"),
    "isclose_atol": (lambda v: core.isclose(X, X, atol=v), [0.0], [-1e-9],
                     "atol must be greater than or equal to zero"),
    "conv_stride": (lambda v: F.conv2d(IMAGE, KERNEL, stride=v), [1, 2], [0, -1],
                    "non-positive stride is not supported"),
    "conv_padding": (lambda v: F.conv2d(IMAGE, KERNEL, padding=v), [0, 1], [-1],
                     "negative padding is not supported"),
    "conv_dilation": (lambda v: F.conv2d(IMAGE, KERNEL, dilation=v), [1, 2], [0],
                      "dilation should be greater than zero"),
    "conv_groups": (lambda v: F.conv2d(IMAGE, core.ones(2, 2 // max(v, 1), 3, 3), groups=v), [1, 2], [0],
                    "non-positive groups is not supported"),
    "conv_size": (lambda v: F.conv2d(IMAGE, core.ones(1, 2, v, v)), [4, 5], [6],
                  "Kernel size can't be greater than"),
    "conv_transpose_output": (lambda v: F.conv_transpose2d(IMAGE, KERNEL, stride=2, output_padding=v), [0, 1], [2, -1],
                              "output.padding"),
    "conv_transpose_size": (lambda v: F.conv_transpose1d(core.ones(1, 1, 1), core.ones(1, 1, 3), padding=v), [0, 1],
                            [2],
                            "Calculated|too small|output size"),
    "bincount_minlength": (lambda v: core.bincount(I, minlength=v), [0, 9], [-1], "minlength should be >= 0"),
    "bincount": (lambda v: core.bincount(core.tensor(v)), [[0], [5, 0]], [[-1], [[1]]],
                 "1-d non-negative integral"),
    "histc": (lambda v: core.histc(X, v), [1, 2], [0, -1], "bins must be > 0"),
    "histc_range": (lambda v: core.histc(X, 3, *v), [(1, 1), (1, 2)], [(2, 1)], "max must be larger than min"),
    "histogram": (lambda v: core.histogram(X, v), [1, 2], [0], "bins must be > 0"),
    "histogramdd": (lambda v: core.histogramdd(core.ones(v), [1] * v[-1]).hist, [(3, 2)], [(2,)],
                    "at least 2 dimensions"),
    "zeros": (lambda v: core.zeros(2, v), [0, 1], [-1], "must be non-negative"),
    "linspace": (lambda v: core.linspace(0, 1, v), [0, 1, 2], [-1], "number of steps must be non-negative"),
    "eye": (lambda v: core.eye(v), [0, 1], [-1], "n must be greater or equal to 0"),
    "eye_columns": (lambda v: core.eye(2, v), [0, 1], [-1], "m must be greater or equal to 0"),
    "arange": (lambda v: core.arange(0, v, 1), [0, 1], [-1], "inconsistent with step sign"),
    "diff": (lambda v: core.diff(X, v), [0, 1, 4, 5], [-1], "order must be non-negative"),
    "gradient": (lambda v: core.gradient(core.arange(v).double(), edge_order=1), [2, 3], [1],
                 "at least edge_order.1"),
    "gradient_two": (lambda v: core.gradient(core.arange(v).double(), edge_order=2), [3], [2],
                     "at least edge_order.1"),
    "smooth_l1": (lambda v: F.smooth_l1_loss(X, X, beta=v), [0.0, 1.0], [-1e-9], "negative values for beta"),
    "huber": (lambda v: F.huber_loss(X, X, delta=v), [1e-9, 1.0], [0.0, -1.0], "non-positive values for delta"),
    "bce": (lambda v: F.binary_cross_entropy(core.tensor([v]), core.tensor([0.5])), [0.0, 1.0], [-1e-7, 1.000001],
            "input should be between 0 and 1"),
    "bce_target": (lambda v: F.binary_cross_entropy(core.tensor([0.5]), core.tensor([v])), [0.0, 1.0],
                   [-1e-7, 1.000001],
                   "target should be between 0 and 1"),
    "gaussian_var": (lambda v: F.gaussian_nll_loss(X, X, core.full((3, 4), v)), [0.0, 1.0], [-1e-9],
                     "negative entry"),
    "embedding": (lambda v: F.embedding(core.tensor([v]), X), [0, 2], [-1, 3], "index out of range"),
    "embedding_padding": (lambda v: F.embedding(I, X, padding_idx=v), [-3, 2], [-4, 3],
                          "Padding_idx must be within"),
    "one_hot": (lambda v: F.one_hot(core.tensor([v]), 3), [0, 2], [-1, 3], "Class values must be"),
    "one_hot_classes": (lambda v: F.one_hot(core.tensor([0]), v), [-1, 1], [0], "Class values must be smaller"),
    "one_hot_nothing": (lambda v: F.one_hot(core.zeros(0, dtype=core.int64), v), [1], [0, -1],
                        "Can not infer total number of classes"),
    "unfold_kernel": (lambda v: F.unfold(IMAGE, v), [1, 5], [0, 6], "greater than zero|too small|must be"),
    "unfold_padding": (lambda v: F.unfold(IMAGE, 2, padding=v), [0, 1], [-1], "padding should be non-negative"),
    "fold": (lambda v: F.fold(core.ones(1, 4, v), (3, 3), 2), [4], [3, 5], "blocks"),
    "fft": (lambda v: core.fft.fft(X, v), [1, 9], [0, -2], "Invalid number of data points"),
    "fftn": (lambda v: core.fft.fftn(X, [2] * v), [1, 2], [3], "shape|dims"),
    "gather": (lambda v: core.gather(X, 1, core.tensor([[v]])), [0, 3], [-1, 4], "out of bounds"),
    "gather_rows": (lambda v: core.gather(X, 1, core.zeros(v, 1, dtype=core.int64)), [0, 3], [4],
                    "Size does not match"),
    "scatter": (lambda v: core.scatter(X, 0, core.tensor([[v]]), 1.0), [0, 2], [-1, 3], "out of bounds"),
    "scatter_source": (lambda v: core.scatter(X, 0, core.zeros(1, v, dtype=core.int64), core.ones(1, 2)), [1, 2], [3],
                       "to be"),
    "index_select": (lambda v: core.index_select(X, 0, core.tensor([v])), [0, 2], [-1, 3],
                     "out of range|out of bounds"),
    "index_select_dims": (lambda v: core.index_select(X, 0, core.zeros(v, dtype=core.int64)), [(1,), ()], [(1, 1)],
                          "[Ii]ndex"),
    "take": (lambda v: core.take(X, core.tensor([v])), [-12, 11], [-13, 12], "out of range|out of bounds"),
    "masked_scatter": (lambda v: X.masked_scatter(X > 0, core.ones(v)), [12, 13], [11], "number of ones in mask"),
    "index": (lambda v: X[v], [-3, 2], [-4, 3], "out of bounds"),
    "index_step": (lambda v: X[::v], [1, 2], [0, -1], "step must be greater than zero"),
    "fliplr": (lambda v: core.fliplr(core.ones(v)), [(1, 2)], [(2,)], "must be >= 2-d"),
    "flipud": (lambda v: core.flipud(core.ones(v)), [(2,)], [()], "must be >= 1-d"),
    "rot90": (lambda v: core.rot90(core.ones(v)), [(1, 2)], [(2,)], "expected total dims >= 2"),
    "rot90_dims": (lambda v: core.rot90(X, 1, v), [(0, 1), (-1, 0), (0, -1)], [(0, 0), (1, -1), (0, -2)],
                   "rotation dims to be different"),
    "repeat": (lambda v: X.repeat(*v), [(1, 1), (1, 2, 3), (0, 1)], [(2,), (-1, 1)],
               "[Nn]umber of dimensions|negative"),
    "repeat_interleave": (lambda v: core.repeat_interleave(X, v), [0, 1], [-1], "repeats has to be non-negative"),
    "meshgrid": (lambda v: core.meshgrid(core.ones(v), I, indexing="ij"), [(), (2,)], [(2, 2)], "0D or 1D tensor"),
    "combinations": (lambda v: core.combinations(I, v), [0, 3, 4], [-1], "non-negative number"),
    "unravel": (lambda v: core.unravel_index(core.tensor([0]), v), [(1,), (2, 3)], [(-1, 2)], "negative"),
    "nonzero_static": (lambda v: core.nonzero_static(I, size=v), [0, 2], [-1], "non-negative integer"),
    "cross_entropy_smoothing": (lambda v: F.cross_entropy(X, I, label_smoothing=v), [0.0, 1.0], [-1e-9, 1.0000001],
                                "label_smoothing"),
    "cross_entropy_ignore": (lambda v: F.cross_entropy(X, X / 4, ignore_index=v), [-1, -100], [0, 1],
                             "ignore_index is not supported"),
    "pca": (lambda v: core.pca_lowrank(X.double() + core.eye(3, 4).double(), v), [1, 3], [4, -1],
            "must be non-negative"),
    "pca_niter": (lambda v: core.pca_lowrank(X.double() + core.eye(3, 4).double(), 1, niter=v), [0, 1], [-1],
                  "must be non-negative"),
    "householder": (lambda v: L.householder_product(core.ones(*v[0]), core.ones(v[1])), [((3, 3), 3), ((3, 2), 2)],
                    [((2, 3), 2), ((3, 2), 3)], "must be greater than or equal"),
    "tensordot": (lambda v: core.tensordot(core.ones(2, 3), core.ones(2, 3), v), [0, 2], [-1, 3],
                  "tensordot expects dims"),
    "tensordot_sizes": (lambda v: core.tensordot(core.ones(2, v), core.ones(3, 2), 1), [3, 1], [2],
                        "need to match"),
    "inner": (lambda v: core.inner(core.ones(2, v), core.ones(3)), [3], [2], "last dimension must match"),
    "tensorinv": (lambda v: L.tensorinv(core.eye(4).reshape(4, 2, 2), v), [1], [0, -1],
                  "strictly positive integer"),
    "multi_dot": (lambda v: L.multi_dot([core.eye(2)] * v), [2, 3], [1], "expected at least 2 tensors"),
    "matrix_norm": (lambda v: L.matrix_norm(core.ones(v)), [(1, 2)], [(2,)], "at least 2 dimensions"),
    "vector_norm_of_nothing": (lambda v: L.vector_norm(core.ones(0), v), [0, 1, 2], [-1e-9, -1, -math.inf],
                               "norm on an empty tensor"),
    "topk": (lambda v: core.topk(I, v), [0, 3], [-1, 4], "out of range"),
    "kthvalue": (lambda v: core.kthvalue(I, v), [1, 3], [0, 4], "out of range"),
    "quantile": (lambda v: core.quantile(X, v), [0.0, 1.0], [-1e-7, 1.000001], "in the range"),
    "narrow": (lambda v: core.narrow(I, 0, *v), [(0, 3), (3, 0), (-1, 1), (1, 2)], [(1, 3), (4, 0), (-4, 1), (0, -1)],
               "narrow|start|length|exceed"),
    "unfold": (lambda v: I.unfold(0, *v), [(3, 1), (0, 1), (1, 9)], [(4, 1), (1, 0), (-1, 1)], "size|step"),
    "select": (lambda v: core.select(I, 0, v), [-3, 2], [-4, 3], "out of range"),
    "split": (lambda v: core.split(I, v), [1, 3, 4], [0, -1], "split"),
    "chunk": (lambda v: core.chunk(I, v), [1, 3, 4], [0, -1], "chunk"),
    "softmax": (lambda v: core.softmax(X, v), [-2, 1], [-3, 2], "Dimension out of range"),
    "max_pool": (lambda v: F.max_pool2d(IMAGE, v), [1, 5], [0, 6], "kernel|[Oo]utput size"),
    "max_pool_padding": (lambda v: F.max_pool2d(IMAGE, 3, 1, v), [0, 1], [2, -1], "pad"),
    "avg_pool_divisor": (lambda v: F.avg_pool2d(IMAGE, 2, divisor_override=v), [1, -1], [0], "divisor"),
    "pad_reflect": (lambda v: F.pad(core.ones(1, 1, 3), (v, 0), "reflect"), [0, 2], [3], "[Pp]adding"),
    "pad_circular": (lambda v: F.pad(core.ones(1, 1, 3), (v, 0), "circular"), [0, 3], [4], "[Pp]adding"),
    "pad_pairs": (lambda v: F.pad(I, [0] * v), [2], [1, 3, 4], "[Pp]ad"),
    "matrix_rank": (lambda v: L.matrix_rank(core.ones(v)), [(1, 1)], [(2,)], "at least 2 dimensions"),
    "multinomial": (lambda v: core.multinomial(core.ones(3), v), [1, 3], [0, -1, 4], "sample"),
    "multinomial_dims": (lambda v: core.multinomial(core.ones(v), 1), [(2,), (2, 2)], [(), (2, 2, 2)], "prob_dist"),
    "bernoulli": (lambda v: core.bernoulli(core.tensor([v])), [0.0, 1.0],
                   [-1e-7, 1.000001],
                  "between 0 and 1|0 and 1|p"),
    "randint": (lambda v: core.randint(2, v, (1,)), [3], [2, 1], "from|empty|to"),
    "margin_p": (lambda v: F.multi_margin_loss(X, I, p=v), [1, 2], [0, 3], "only p == 1 and p == 2 supported"),
    "renorm": (lambda v: core.renorm(X, 2, 0, v), [0.0, 1.0], [-1e-9], "maxnorm"),
    "renorm_p": (lambda v: core.renorm(X, v, 0, 1.0), [1e-3, 2], [0, -1], "non-positive|norm"),
    "cdist_p": (lambda v: core.cdist(X, X, v), [0.0, 2.0], [-1e-9], "non-negative|only supports"),
    "vander": (lambda v: core.vander(I, v), [0, 3], [-1], "non-negative"),
    "polygamma": (lambda v: core.polygamma(v, X), [0, 1], [-1], "negative"),
    "trapezoid": (lambda v: core.trapezoid(X, dim=v), [-2, 1], [-3, 2], "Dimension out of range"),
    "block_diag": (lambda v: core.block_diag(core.ones(v)), [(), (2,), (2, 2)], [(2, 2, 2)], "0D|2D|block_diag"),
    "cartesian": (lambda v: core.cartesian_prod(core.ones(v), I), [(2,)], [(2, 2)], "1D"),
    "tril_indices": (lambda v: core.tril_indices(v, 2), [0, 1], [-1], "row must be non-negative"),
    "tril_columns": (lambda v: core.tril_indices(2, v), [0, 1], [-1], "col must be non-negative"),
    "triu_indices": (lambda v: core.triu_indices(v, 2), [0, 1], [-1], "row must be non-negative"),
    "triu_columns": (lambda v: core.triu_indices(2, v), [0, 1], [-1], "col must be non-negative"),
    "linalg_vander": (lambda v: L.vander(I, N=v), [2, 3], [1, 0, -1], "N must be greater than 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_the_last_that_is_taken_and_the_first_that_is_refused(name: str) -> None:
    call, taken, refused, said = LIMITS[name]
    for value in taken:
        result = call(value)
        for part in result if isinstance(result, tuple | list) else (result,):
            assert isinstance(part, core.Tensor), value
            assert np.asarray(part.detach().numpy()).shape == tuple(part.shape)
    for value in refused:
        with pytest.raises((RuntimeError, ValueError, IndexError, AssertionError, NotImplementedError), match=said):
            call(value)
