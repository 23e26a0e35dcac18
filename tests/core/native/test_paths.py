"""Every threshold in the C code is crossed: a call just below it and one just above, the way of each and its numbers.

`native.module.paths()` counts the ways (core/native/runtime/paths.h). A row of `CASES` names a way, a call that does
not take it and a call that does, which differ by as little as the threshold allows; both are held to the same sum in
float64.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core
from core import native, nn
from core.backends import quantised
from core.nn import functional as F
from core.ops.quantised import (
    int8_conv2d,
    int8_linear,
    quantised_int4,
    quantised_int8,
    weight_int4_linear,
    weight_int8_linear,
)

pytestmark = pytest.mark.skipif(not native.available, reason="the C extension is not built")

Case = Callable[[], tuple[Any, Any]]  # what was computed, and what it has to be, in float64


taken = native.paths_taken


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def wide(a: np.ndarray) -> np.ndarray:
    return a.astype(np.float64)


def leaf(a: np.ndarray) -> Any:
    return core.tensor(a, requires_grad=True)


def gradient(y: Any, x: Any) -> Any:
    """The gradient of x for an incoming gradient whose items all differ."""
    g = normal(*y.shape, seed=9)
    y.backward(core.tensor(g))
    return x.grad


def softmax64(a: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(wide(a) - wide(a).max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# -- elementwise ops --------------------------------------------------------------------------------------------------


def relu_gradient(n: int) -> Case:
    """A gradient with masked loads, over rows that are contiguous and do not follow one another."""

    def call() -> tuple[Any, Any]:
        a, g = normal(8, n), normal(8, n + 3, seed=9)
        x = leaf(a)
        core.relu(x).backward(core.tensor(g)[:, :n])
        return x.grad, g[:, :n] * (a > 0)

    return call


def strided_sum(step: int) -> Case:
    def call() -> tuple[Any, Any]:
        a, b = normal(300), normal(300 // step, seed=1)
        return core.tensor(a)[::step] * core.tensor(b), wide(a)[::step] * b

    return call


def broadcast_sum(columns: int) -> Case:
    def call() -> tuple[Any, Any]:
        a, b = normal(40, columns), normal(columns, seed=1)
        return core.tensor(a) + core.tensor(b), wide(a) + b

    return call


def into_columns(columns: int) -> Case:
    """An in-place sum of short rows whose target is not contiguous."""

    def call() -> tuple[Any, Any]:
        a, b = normal(40, columns + 3), normal(columns, seed=1)
        x = core.tensor(a)
        x[:, :columns] += core.tensor(b)
        expected = wide(a)
        expected[:, :columns] += b
        return x, expected

    return call


def large_sum(n: int) -> Case:
    def call() -> tuple[Any, Any]:
        a = normal(n)
        return core.tensor(a) + 1.5, wide(a) + 1.5

    return call


# -- rows -------------------------------------------------------------------------------------------------------------


def softmax(rows: int, n: int, dim: int = -1) -> Case:
    def call() -> tuple[Any, Any]:
        a = normal(rows, n)
        return core.softmax(core.tensor(a), dim), softmax64(a, dim)

    return call


def median(n: int) -> Case:
    def call() -> tuple[Any, Any]:
        a = normal(3, n)
        return core.median(core.tensor(a), 1).values, np.sort(a, 1)[:, (n - 1) // 2]

    return call


def layer_norm_weight(rows: int) -> Case:
    def call() -> tuple[Any, Any]:
        a, w = normal(rows, 64), leaf(normal(64, seed=2))
        y = F.layer_norm(core.tensor(a), (64,), w)
        x = wide(a)
        hat = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        return gradient(y, w), (normal(rows, 64, seed=9) * hat).sum(0)

    return call


def copies(view: Callable[[Any], Any], *shape: int) -> Case:
    def call() -> tuple[Any, Any]:
        a = normal(*shape)
        return view(core.tensor(a)).contiguous(), view(core.tensor(a)).tolist()

    return call


def clone(n: int) -> Case:
    def call() -> tuple[Any, Any]:
        a = normal(n)
        return core.tensor(a).clone(), a

    return call


# -- reductions -------------------------------------------------------------------------------------------------------


def reduced(name: str, dim: int, *shape: int, scale: float = 1.0) -> Case:
    """A reduction of values near 1, so that products stay finite."""
    functions: dict[str, Callable[..., Any]] = {
        "sum": np.sum, "var": lambda a, axis: a.var(axis, ddof=1), "prod": np.prod, "argmax": np.argmax,
        "logsumexp": lambda a, axis: np.log(np.exp(a).sum(axis)),
    }  # fmt: skip

    def call() -> tuple[Any, Any]:
        a = (1 + 0.01 * normal(*shape) * scale).astype(np.float32)
        return getattr(core, name)(core.tensor(a), dim), functions[name](wide(a), axis=dim)

    return call


def variance_gradient(rows: int) -> Case:
    def call() -> tuple[Any, Any]:
        a = normal(rows, 8)
        x = leaf(a)
        got = gradient(core.var(x, 1), x)
        centred = wide(a) - wide(a).mean(1, keepdims=True)
        return got, normal(rows, seed=9)[:, None] * 2 * centred / 7

    return call


def clipped(n: int) -> Case:
    def call() -> tuple[Any, Any]:
        p = leaf(normal(n))
        g = normal(n, seed=1)
        p.grad = core.tensor(g)
        return nn.utils.clip_grad_norm_([p], 1e9), np.linalg.norm(wide(g))

    return call


def stepped(n: int) -> Case:
    def call() -> tuple[Any, Any]:
        a, g = normal(n), normal(n, seed=1)
        p = nn.Parameter(core.tensor(a))
        p.grad = core.tensor(g)
        core.optim.AdamW([p], lr=0.1, weight_decay=0.01).step()
        return p, wide(a) * (1 - 0.1 * 0.01) - 0.1 * wide(g) / (np.abs(wide(g)) + 1e-8)

    return call


# -- layers -----------------------------------------------------------------------------------------------------------


def batch_norm(size: int) -> Case:
    def call() -> tuple[Any, Any]:
        a = normal(2, 3, size)
        x = wide(a)
        mean, var = x.mean((0, 2), keepdims=True), x.var((0, 2), keepdims=True)
        return F.batch_norm(core.tensor(a), None, None, training=True), (x - mean) / np.sqrt(var + 1e-5)

    return call


def batch_norm_gradient(size: int, behind: bool = False) -> Case:
    """The gradient of the input, for one that is its own cube: what comes in and what is normalised go together. With
    `behind` that of the result's square."""

    def call() -> tuple[Any, Any]:
        a = normal(2, 3, size)
        x, w = leaf(a), wide(a)
        core.square(leaf(a)).backward(core.tensor(a))  # C knows an op's gradient once Python has asked for it
        y = F.batch_norm(x, None, None, training=True)
        (core.square(y) if behind else y).backward(core.tensor(a**3))
        deviation = w.std((0, 2), keepdims=True)
        z = (w - w.mean((0, 2), keepdims=True)) / deviation
        g = w**3 * 2 * z if behind else w**3
        return x.grad, (g - g.mean((0, 2), keepdims=True) - z * (g * z).mean((0, 2), keepdims=True)) / deviation

    return call


def half_relu(contiguous: bool) -> Case:
    def call() -> tuple[Any, Any]:
        x = core.tensor(normal(3, 40)).to(core.bfloat16)
        x = x if contiguous else x.t()
        return core.relu(x).float(), np.maximum(wide(x.float().numpy()), 0)

    return call


def windows(a: np.ndarray, kernel: int, stride: int, padding: int, fill: float) -> np.ndarray:
    """The windows (planes, out, out, kernel, kernel) of planes (planes, height, width)."""
    edge = ((0, 0), (padding, padding), (padding, padding))
    padded = np.pad(wide(a), edge, constant_values=fill)
    views = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (1, 2))
    return views[:, ::stride, ::stride]


def max_pool(width: int, kernel: int, stride: int, padding: int = 0) -> Case:
    def call() -> tuple[Any, Any]:
        a = normal(2, 9, width)
        got = F.max_pool2d(core.tensor(a[None]), kernel, stride, padding)[0]
        return got, windows(a, kernel, stride, padding, -np.inf).max((-1, -2))

    return call


def mean_pool(width: int) -> Case:
    def call() -> tuple[Any, Any]:
        a = normal(2, 4, width)
        return F.avg_pool2d(core.tensor(a[None]), 3, 1)[0], windows(a, 3, 1, 0, 0).mean((-1, -2))

    return call


def mean_pool_gradient(width: int) -> Case:
    def call() -> tuple[Any, Any]:
        a = normal(1, 1, 3, width)
        x = leaf(a)
        got = gradient(F.avg_pool2d(x, 3, 1), x)
        g = wide(normal(1, 1, 1, width - 2, seed=9))[0, 0, 0] / 9
        return got, np.broadcast_to(np.convolve(g, np.ones(3)), (1, 1, 3, width))

    return call


def added_rows(columns: int) -> Case:
    def call() -> tuple[Any, Any]:
        index, a = np.array([0, 2, 2, 4, 0]), normal(5, columns)
        got = core.zeros(5, columns).index_add(0, core.tensor(index), core.tensor(a))
        expected = np.zeros((5, columns))
        np.add.at(expected, index, wide(a))
        return got, expected

    return call


def embedding_gradient(columns: int) -> Case:
    def call() -> tuple[Any, Any]:
        index, w = np.array([1, 3, 3, 0]), leaf(normal(5, columns))
        got = gradient(F.embedding(core.tensor(index), w), w)
        expected = np.zeros((5, columns))
        np.add.at(expected, index, wide(normal(4, columns, seed=9)))
        return got, expected

    return call


def attention_gradient(queries: int) -> Case:
    def call() -> tuple[Any, Any]:
        q, k, v = normal(1, 1, queries, 8), normal(1, 1, 5, 8, seed=1), normal(1, 1, 5, 8, seed=2)
        keys = leaf(k)
        got = gradient(F.scaled_dot_product_attention(core.tensor(q), keys, core.tensor(v)), keys)
        p = softmax64(wide(q)[0, 0] @ wide(k)[0, 0].T / 8**0.5)
        given = wide(normal(1, 1, queries, 8, seed=9))[0, 0] @ wide(v)[0, 0].T
        scores = p * (given - (p * given).sum(-1, keepdims=True)) / 8**0.5
        return got, (scores.T @ wide(q)[0, 0])[None, None]

    return call


def product(m: int, k: int, n: int, stack: int = 0) -> Case:
    def call() -> tuple[Any, Any]:
        lead = (stack,) if stack else ()
        a, b = normal(*lead, m, k), normal(*lead, k, n, seed=1)
        return core.tensor(a) @ core.tensor(b), wide(a) @ wide(b)

    return call


def convolution64(x: np.ndarray, w: np.ndarray, groups: int = 1, padding: int = 0) -> np.ndarray:
    """Convolve (batch, channels, height, width) with (outputs, channels / groups, k, k), in float64."""
    batch, outputs, inside = len(x), len(w), w.shape[1]
    kernel = w.shape[-1]
    rows = []
    for n in range(batch):
        views = windows(x[n], kernel, 1, padding, 0)
        for o in range(outputs):
            group = o // (outputs // groups)
            rows.append(np.einsum("chwij,cij->hw", views[group * inside : (group + 1) * inside], wide(w[o])))
    return np.array(rows).reshape(batch, outputs, *rows[0].shape)


def convolution(batch: int, channels: int, outputs: int, size: int, kernel: int, groups: int = 1, padding: int = 0,
                height: int = 0) -> Case:  # fmt: skip
    def call() -> tuple[Any, Any]:
        x, w = (
            normal(batch, channels, height or size, size),
            normal(outputs, channels // groups, kernel, kernel, seed=1),
        )
        got = F.conv2d(core.tensor(x), core.tensor(w), padding=padding, groups=groups)
        return got, convolution64(x, w, groups, padding)

    return call


def transposed(width: int, output_padding: int) -> Case:
    def call() -> tuple[Any, Any]:
        x, w = normal(1, 8, 5, width), normal(8, 9, 3, 3, seed=1)
        got = F.conv_transpose2d(core.tensor(x), core.tensor(w), stride=2, padding=1, output_padding=output_padding)
        spread = np.zeros((1, 8, 2 * 5 - 1 + output_padding, 2 * width - 1 + output_padding), np.float32)
        spread[:, :, 0 : 2 * 5 : 2, 0 : 2 * width : 2] = x
        return got, convolution64(spread, np.ascontiguousarray(w.swapaxes(0, 1)[:, :, ::-1, ::-1]), padding=1)

    return call


def convolution_weight(batch: int) -> Case:
    def call() -> tuple[Any, Any]:
        x, w = normal(batch, 1, 64, 64), leaf(normal(8, 1, 1, 1, seed=1))
        got = gradient(F.conv2d(core.tensor(x), w), w)
        g = wide(normal(batch, 8, 64, 64, seed=9))
        return got, np.einsum("nohw,nhw->o", g, wide(x)[:, 0]).reshape(8, 1, 1, 1)

    return call


def recurrent_weight(steps: int) -> Case:
    """The weights' gradient of a tanh cell, beside that of the same cell written out in ops."""

    def call() -> tuple[Any, Any]:
        core.manual_seed(0)
        cell = nn.RNN(4, 8)
        a = normal(steps, 8, 4)
        y, _ = cell(core.tensor(a))
        got = gradient(y, cell.weight_ih_l0)
        w, u, b, c = (wide(p.detach().numpy()) for p in cell.parameters())
        h = [np.zeros((8, 8))]
        for x in wide(a):
            h.append(np.tanh(x @ w.T + b + h[-1] @ u.T + c))
        g, back, expected = wide(normal(steps, 8, 8, seed=9)), np.zeros((8, 8)), np.zeros_like(w)
        for t in reversed(range(steps)):
            back = (g[t] + back) * (1 - h[t + 1] ** 2)
            expected += back.T @ wide(a[t])
            back = back @ u
        return got, expected

    return call


# -- figures of values, threads ---------------------------------------------------------------------------------------


def figures(n: int) -> Case:
    """Range and mean of all items, whatever the histogram is made of."""

    def call() -> tuple[Any, Any]:
        a = normal(n)
        found = native.module.stats(a)
        return found[:3], [a.min(), a.max(), wide(a).mean()]

    return call


def glances(n: int) -> Case:
    """The range of all items; the mean of some of them: of items that repeat it is that of all."""

    def call() -> tuple[Any, Any]:
        a = np.tile(normal(16), n // 16 + 1)[:n]
        found = native.module.glance(a)
        return found[:3], [a.min(), a.max(), wide(a[:16]).mean() if n > 8192 else wide(a).mean()]

    return call


def threaded(n: int) -> Case:
    def call() -> tuple[Any, Any]:
        before = core.get_num_threads()
        core.set_num_threads(2)
        try:
            a = normal(n)
            return core.exp(core.tensor(a)), np.exp(wide(a))
        finally:
            core.set_num_threads(before)

    return call


STREAMED = (16 << 20) // 4
"""Items of float32 that are written by streaming stores (copy.h)."""

CPU = Path("/proc/cpuinfo")
WIDE = CPU.exists() and "avx512f" in CPU.read_text() and getattr(native.module, "CPU_AT_MOST", 0) >= 4
"""Whether the tiles of products are of AVX-512's vectors: narrower ones do without vectors of terms."""


def integer_layer(rows: int) -> Case:
    def call() -> tuple[Any, Any]:
        x, weight = normal(rows, 40), np.arange(-60, 60, dtype=np.int8).reshape(3, 40)
        q = np.rint(wide(x) * 127 / np.abs(wide(x)).max(1, keepdims=True))
        y = int8_linear(core.tensor(x), core.tensor(weight), core.ones(3))
        return y, q @ wide(weight).T * np.abs(wide(x)).max(1, keepdims=True) / 127

    return call


def weights_alone(rows: int, bits: int) -> Case:
    def call() -> tuple[Any, Any]:
        x, weight = normal(rows, 40), core.tensor(normal(3, 40, seed=1))
        q, scale, *zero = quantised_int8(weight) if bits == 8 else quantised_int4(weight, 8)
        y = (weight_int8_linear if bits == 8 else weight_int4_linear)(core.tensor(x), q, scale, *zero)
        one = core.eye(40)[:8]  # by few rows, five times: the weights themselves
        parts = [
            (weight_int8_linear if bits == 8 else weight_int4_linear)(one.roll(8 * k, 1), q, scale, *zero)
            for k in range(5)
        ]
        return y, wide(x) @ wide(core.cat(parts).numpy())

    return call


def integer_convolution(groups: int, channels: int = 4, batch: int = 1, side: int = 6, way: str = "") -> Case:
    def call() -> tuple[Any, Any]:
        x, weight = normal(batch, channels, side, side), np.arange(-18, 18, dtype=np.int8).reshape(4, 1, 3, 3)
        x[:, 0, 0, 0] = 9  # one scale for all samples
        weight = weight.repeat(channels // groups, 1)
        q = core.tensor(np.rint(wide(x) * 127 / np.abs(wide(x)).max()))
        with quantised.way(way or native.module.int8_way()):
            y = int8_conv2d(core.tensor(x), core.tensor(weight), core.tensor(1.0), groups=groups)
        exact = F.conv2d(q, core.tensor(wide(weight)), groups=groups).numpy() * np.abs(wide(x)).max() / 127
        return y, exact

    return call


VNNI = "avx512" in getattr(native.module, "int8_ways", list)()

CASES: list[tuple[str, Case, Case]] = [
    ("map_parts", relu_gradient(256), relu_gradient(257)),
    ("map_buffered", strided_sum(1), strided_sum(2)),
    ("map_short_rows", broadcast_sum(32), broadcast_sum(31)),
    ("map_short_rows", into_columns(32), into_columns(31)),
    ("map_half", half_relu(False), half_relu(True)),
    ("map_streaming", large_sum(STREAMED - 1), large_sum(STREAMED)),
    ("rows_side_by_side", softmax(4, 17), softmax(4, 16)),
    ("rows_side_by_side", softmax(3, 16), softmax(4, 16)),
    ("rows_selected", median(64), median(65)),
    ("softmax_strips", softmax(3, 5), softmax(3, 5, dim=0)),
    ("rows_streaming", softmax(STREAMED // 4096 - 1, 4096), softmax(STREAMED // 4096, 4096)),
    ("copy_pieces", copies(lambda t: t[:, 1:], 40, 41), clone(1024)),
    ("copy_rows", copies(lambda t: t.t(), 40, 41), copies(lambda t: t[:, 1:], 40, 41)),
    ("copy_strips", copies(lambda t: t[:, 1:], 40, 41), copies(lambda t: t.t(), 40, 41)),
    ("copy_fill", copies(lambda t: t[:, 1:], 40, 41), copies(lambda t: t.expand(40, 41), 40, 1)),
    ("copy_streaming", clone(STREAMED - 1), clone(STREAMED)),
    ("reduce_blocks", reduced("sum", 0, 4096), reduced("sum", 0, 4097)),
    ("reduce_blocks", reduced("sum", 0, 256, 8), reduced("sum", 0, 257, 8)),
    ("argreduce_tiles", reduced("argmax", 0, 3, 512), reduced("argmax", 0, 3, 513)),
    ("moment_columns", reduced("var", 1, 7, 5), reduced("var", 0, 7, 5)),
    ("moment_pieces", reduced("var", 0, 4096), reduced("var", 0, 4097)),
    ("moment_pieces", reduced("prod", 0, 4096, scale=0.1), reduced("prod", 0, 4097, scale=0.1)),
    ("moment_pieces", reduced("logsumexp", 0, 4096), reduced("logsumexp", 0, 4097)),
    ("moment_shift_heap", reduced("var", 1, 256, 8), reduced("var", 1, 257, 8)),
    ("moment_shift_heap", reduced("var", 0, 8, 256), reduced("var", 0, 8, 257)),
    ("moment_parts_heap", reduced("var", 1, 128, 4097), reduced("var", 1, 129, 4097)),
    ("moment_back_heap", variance_gradient(256), variance_gradient(257)),
    ("norm_back_blocks", layer_norm_weight(128), layer_norm_weight(129)),
    ("norms_pieces", clipped(4096), clipped(4097)),
    ("update_pieces", stepped(8192), stepped(8193)),
    ("batch_norm_pieces", batch_norm(1024), batch_norm(1025)),
    ("batch_norm_streaming", batch_norm(STREAMED // 6), batch_norm(STREAMED // 6 + 1)),
    ("batch_norm_streaming", batch_norm_gradient(STREAMED // 6), batch_norm_gradient(STREAMED // 6 + 1)),
    ("norm_behind", batch_norm_gradient(99), batch_norm_gradient(99, True)),
    ("pool_pairs", max_pool(20, 2, 1), max_pool(20, 2, 2)),
    ("pool_short_row", max_pool(49, 3, 2), max_pool(47, 3, 2)),
    ("pool_short_row", max_pool(26, 3, 1, 1), max_pool(25, 3, 1)),
    ("pool_stretches", max_pool(256, 3, 1, 1), max_pool(257, 3, 1, 1)),
    ("pool_stretches", max_pool(3 * 256, 3, 3, 1), max_pool(3 * 257, 3, 3, 1)),
    ("window_spans", mean_pool(2048), mean_pool(2049)),
    ("window_spread_spans", mean_pool_gradient(2050), mean_pool_gradient(2051)),
    ("gather_add_spans", added_rows(32), added_rows(33)),
    ("embedding_spans", embedding_gradient(32), embedding_gradient(33)),
    ("attention_row_blocks", attention_gradient(64), attention_gradient(65)),
    ("gemm_deep", product(9, 256, 33), product(9, 257, 33)),
    ("gemm_heap", product(9, 128, 32), product(9, 129, 32)),
    ("gemm_chunks", product(9, 4096, 256), product(9, 4096, 257)),
    ("gemm_stack", product(9, 10, 11, stack=1), product(9, 10, 11, stack=64)),
    ("conv_direct", convolution(1, 6, 9, 12, 3, groups=3), convolution(1, 6, 6, 12, 3, groups=3)),
    ("conv_flat", convolution(1, 3, 6, 12, 3, groups=3, padding=1), convolution(1, 3, 3, 12, 3, groups=3, padding=1)),
    ("conv_planes", convolution(1, 3, 8, 12, 3), convolution(1, 3, 8, 12, 3, padding=1)),
    ("conv_depths", convolution(1, 71, 8, 12, 3), convolution(1, 72, 8, 12, 3)),
    *([("conv_few_columns", convolution(1, 8, 9, 6, 3), convolution(1, 8, 9, 4, 3))] if WIDE else []),
    ("conv_by_item", convolution(2, 3, 8, 34, 3, padding=1), convolution(2, 3, 8, 3, 3, padding=1, height=8)),
    ("conv_paired", transposed(7, 0), transposed(7, 1)),
    ("conv_chunks", convolution(2, 8, 3, 64, 3, padding=1), convolution(40, 8, 3, 64, 3, padding=1)),
    ("conv_winograd_2", convolution(1, 16, 16, 8, 3), convolution(1, 16, 16, 10, 3)),
    ("conv_winograd_4", convolution(1, 16, 16, 12, 3), convolution(1, 16, 16, 16, 3)),
    ("conv_weight_chunks", convolution_weight(8), convolution_weight(9)),
    ("rnn_weight_depths", recurrent_weight(32), recurrent_weight(33)),
    *(
        [
            ("int8_panels", integer_layer(10), integer_layer(11)),
            ("weights_digits", weights_alone(8, 8), weights_alone(9, 8)),
            ("int8_conv_taps", integer_convolution(1, 17), integer_convolution(1, 16)),
        ]
        if VNNI
        else []
    ),
    ("weights_packed", weights_alone(8, 8), weights_alone(40, 8)),
    ("weights_packed", weights_alone(39, 4), weights_alone(40, 4)),
    ("int8_conv_direct", integer_convolution(2, way="plain"), integer_convolution(4, way="plain")),
    ("int8_conv_joined", integer_convolution(1, 24), integer_convolution(1, 24, batch=2)),
    ("int8_conv_few", integer_convolution(1, 24, side=8), integer_convolution(1, 24, side=7)),
    ("stats_sampled", figures(16384), figures(16385)),
    ("glance_sampled", glances(8192), glances(8208)),
    ("threads", threaded(64), threaded(1 << 20)),
]


@pytest.mark.parametrize(("path", "below", "above"), CASES, ids=[f"{k}-{c[0]}" for k, c in enumerate(CASES)])
def test_both_sides_of_a_threshold(path: str, below: Case, above: Case) -> None:
    for call, is_taken in ((below, False), (above, True)):
        (got, expected), ways = taken(call)
        assert (path in ways) == is_taken, f"{path} {'was not' if is_taken else 'was'} taken; {ways}"
        got = got.detach().numpy() if isinstance(got, core.Tensor) else np.asarray(got)
        expected = np.asarray(expected)
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5 * max(1.0, float(np.abs(expected).max())))


def test_no_way_is_without_a_case() -> None:
    named = {path for path, _, _ in CASES} | {f"call_{path}" for path in ("python", *SERVED)}
    named |= {f"op_{way}" for way in RAN}
    assert named | {"conv_few_columns", "int8_panels", "weights_digits", "int8_conv_taps"} == set(native.module.paths())


def test_infinite_rows_of_a_sum_of_exponentials_keep_their_infinity() -> None:
    a = normal(5, 3)
    a[:, 0], a[1, 1] = -np.inf, np.inf
    for x, dim in ((a, 0), (np.ascontiguousarray(a.T), 1)):
        got = core.logsumexp(core.tensor(x), dim).numpy()
        np.testing.assert_allclose(got, [-np.inf, np.inf, np.log(np.exp(wide(a)[:, 2]).sum())], rtol=1e-5)


# -- calls: a fast path that declines more than it must is only slower, which no result tells -------------------------

X, Y, M = core.rand(4, 6) + 0.5, core.rand(4, 6) + 0.5, core.rand(6, 5)
INDEX = core.tensor([[0, 1], [2, 3], [1, 1], [0, 5]])

SERVED: dict[str, list[tuple[str, Callable[[], Any]]]] = {
    "elementwise": [
        ("exp", lambda: core.exp(X)), ("tanh", lambda: core.tanh(X)), ("add", lambda: core.add(X, Y)),
        ("mul number", lambda: core.mul(X, 2.5)), ("method", lambda: X.sigmoid()), ("relu", lambda: F.relu(X)),
        ("gelu", lambda: F.gelu(X)), ("maximum", lambda: core.maximum(X, Y)), ("eq", lambda: core.eq(X, Y)),
    ],
    "parsed": [
        ("sum", lambda: X.sum()), ("sum dim", lambda: core.sum(X, 1, keepdim=True)), ("mean", lambda: X.mean(0)),
        ("softmax", lambda: core.softmax(X, -1)), ("log_softmax", lambda: F.log_softmax(X, dim=1)),
        ("matmul", lambda: core.matmul(X, M)), ("mm", lambda: core.mm(X, M)), ("linear", lambda: F.linear(X, M.t())),
        ("layer_norm", lambda: F.layer_norm(X, (6,))), ("var", lambda: X.var(1)), ("std", lambda: X.std()),
        ("norm", lambda: X.norm()), ("logsumexp", lambda: X.logsumexp(1)), ("prod", lambda: X.prod(1)),
        ("cross_entropy", lambda: F.cross_entropy(X, INDEX[:, 0])), ("clamp", lambda: X.clamp(0.6, 0.9)),
        ("where", lambda: core.where(X > 1, X, Y)), ("masked_fill", lambda: X.masked_fill(X > 1, 0.0)),
        ("pow", lambda: core.pow(X, 2)), ("gather", lambda: X.gather(1, INDEX)), ("tril", lambda: X.tril()),
        ("flip", lambda: X.flip(0)), ("roll", lambda: X.roll(1, 0)), ("cumsum", lambda: X.cumsum(1)),
        ("einsum", lambda: core.einsum("ij,jk->ik", X, M)), ("pad", lambda: F.pad(X, (1, 2))),
        ("max_pool2d", lambda: F.max_pool2d(X[None, None], 2)), ("avg_pool2d", lambda: F.avg_pool2d(X[None, None], 2)),
        ("reshape", lambda: X.reshape(6, 4)), ("transpose", lambda: X.transpose(0, 1)),
        ("permute", lambda: X.permute(1, 0)), ("unsqueeze", lambda: X.unsqueeze(0)),
        ("expand", lambda: X[:1].expand(4, 6)), ("cat", lambda: core.cat([X, Y])),
        ("stack", lambda: core.stack([X, Y])),
        ("zeros", lambda: core.zeros(3, 4)), ("ones_like", lambda: core.ones_like(X)),
        ("arange", lambda: core.arange(5)), ("to", lambda: X.to(core.float64)), ("argmax", lambda: X.argmax(1)),
        ("max dim", lambda: X.max(1)), ("sort", lambda: X.sort(1)), ("topk", lambda: X.topk(2)),
        ("split", lambda: X.split(2)), ("chunk", lambda: X.chunk(2)), ("any", lambda: (X > 1).any(1)),
    ],
    "in_place": [
        ("add_", lambda: core.rand(4, 6).add_(X)), ("mul_", lambda: core.rand(4, 6).mul_(2.0)),
        ("clamp_", lambda: core.rand(4, 6).clamp_(0.2, 0.4)),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "call"),
    [pytest.param(path, call, id=f"{path}-{name}") for path, calls in SERVED.items() for name, call in calls],
)
def test_a_plain_call_is_served_without_python(path: str, call: Callable[[], Any]) -> None:
    call()  # an op's first call, in Python, finds its kernels
    _, ways = taken(call)
    assert f"call_{path}" in ways, ways
    if path == "in_place":  # with a history to record a write is an op
        return
    X.requires_grad_(True)
    try:
        call()
        _, ways = taken(call)
    finally:
        X.requires_grad_(False)
    assert f"call_{path}" in ways, ways


def test_what_is_rare_is_left_to_python() -> None:
    _, ways = taken(lambda: core.softmax(X, dim=-1, dtype=core.float64))
    assert "call_python" in ways


def test_a_row_of_attention_that_may_see_nothing_is_zero() -> None:
    q, k, v = (leaf(normal(1, 1, 3, 8, seed=s)) for s in range(3))
    mask = core.tensor([[True, False, True], [False, False, False], [True, True, True]])
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    y.sum().backward()
    assert y[0, 0, 1].abs().max() == 0
    assert q.grad[0, 0, 1].abs().max() == 0
    assert all(np.isfinite(t.grad.numpy()).all() for t in (q, k, v))


# -- structured ops: which of the three computes ----------------------------------------------------------------------

HALVES, SQUARE = X.half(), core.eye(3)
RAN: dict[str, Callable[[], Any]] = {
    "adapter": lambda: X.sum(1),
    "row": HALVES.sum,  # summed in float32 by the row's function
    "reference": lambda: core.linalg.eig(SQUARE),
}


@pytest.mark.parametrize("way", RAN)
def test_what_computes_an_op_is_counted(way: str) -> None:
    RAN[way]()
    _, ways = taken(RAN[way])
    assert ways.get(f"op_{way}"), ways
    assert not {f"op_{other}" for other in RAN if other != way} & ways.keys(), ways
