"""C functions as people write them, with macros to tune: some take any shape, some are right at multiples alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = tuple[int, ...]
Rng = np.random.Generator


@dataclass(frozen=True)
class Written:
    """A function: its text, its arguments at a shape, what it should compute; where it is tuned, and called besides.

    The text's own values are right at all of these shapes; of its other values that is not known.
    """

    name: str
    text: str
    make: Callable[[Shape, Rng], dict[str, Any]]
    reference: Callable[..., Any]
    tuned: tuple[Shape, ...]
    off: tuple[Shape, ...]


def array(rng: Rng, *shape: int, dtype: str = "float32") -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def like(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.zeros(shape, dtype)


def _product(s: Shape, rng: Rng) -> dict[str, Any]:
    m, n, k = s
    return {"a": array(rng, m, k), "b": array(rng, k, n), "c": like(m, n), "m": m, "n": n, "k": k}


def _plane(s: Shape, rng: Rng) -> dict[str, Any]:
    h, w = s
    return {"x": array(rng, h, w), "out": like(h, w), "h": h, "w": w}


def _turned(s: Shape, rng: Rng) -> dict[str, Any]:
    h, w = s
    return {"x": array(rng, h, w), "out": like(w, h), "h": h, "w": w}


def _line(s: Shape, rng: Rng) -> dict[str, Any]:
    return {"x": array(rng, s[0]), "out": like(s[0]), "n": s[0]}


def _five_points(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    out[1:-1, 1:-1] = (x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) / 5
    return out


def _blurred(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    out[:, 1:-1] = (x[:, :-2] + x[:, 1:-1] + x[:, 2:]) / 3
    return out


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


PLANES = (((64, 64), (32, 96)), ((63, 64), (64, 63), (61, 67), (33, 31), (1, 5), (96, 32)))
LINES = (((4096,), (1024,)), ((4095,), (1023,), (17,), (1,), (4097,)))
CUBES = (
    ((64, 64, 64), (32, 64, 96)),
    ((63, 64, 64), (64, 61, 64), (64, 64, 63), (31, 33, 35), (1, 1, 1), (64, 32, 64)),
)

WRITTEN = [
    Written("product_tiles_only", """
#define TI 1  // tune: 1, 4, 8, 16, 32
#define TJ 1  // tune: 1, 8, 16
void product_tiles_only(const float *a, const float *b, float *c, int m, int n, int k) {
    for (int i0 = 0; i0 < m; i0 += TI) for (int j0 = 0; j0 < n; j0 += TJ)
        for (int i = i0; i < i0 + TI; i++) for (int j = j0; j < j0 + TJ; j++) {
            float s = 0;
            for (int p = 0; p < k; p++) s += a[i * k + p] * b[p * n + j];
            c[i * n + j] = s;
        }
}""", _product, lambda a, b: {"c": a @ b}, *CUBES),
    Written("product_with_remainders", """
#define TI 8   // tune: 4, 8, 16, 32
#define TK 16  // tune: 8, 16, 64
#define MIN(a, b) ((a) < (b) ? (a) : (b))
void product_with_remainders(const float *a, const float *b, float *c, int m, int n, int k) {
    for (int i = 0; i < m * n; i++) c[i] = 0;
    for (int i0 = 0; i0 < m; i0 += TI) for (int p0 = 0; p0 < k; p0 += TK)
        for (int i = i0; i < MIN(i0 + TI, m); i++) for (int p = p0; p < MIN(p0 + TK, k); p++)
            for (int j = 0; j < n; j++) c[i * n + j] += a[i * k + p] * b[p * n + j];
}""", _product, lambda a, b: {"c": a @ b}, *CUBES),
    Written("product_unrolled", """
#define UNROLL 1  // tune: 1, 2, 4, 8
void product_unrolled(const float *a, const float *b, float *c, int m, int n, int k) {
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) {
        float s = 0;
        for (int p = 0; p < k; p += UNROLL)      /* k has to be a multiple */
            for (int u = 0; u < UNROLL; u++) s += a[i * k + p + u] * b[(p + u) * n + j];
        c[i * n + j] = s;
    }
}""", _product, lambda a, b: {"c": a @ b}, *CUBES),
    Written("transpose_tiles_only", """
#define TILE 1  // tune: 1, 8, 16, 32
void transpose_tiles_only(const float *x, float *out, long h, long w) {
    for (long i0 = 0; i0 < h; i0 += TILE) for (long j0 = 0; j0 < w; j0 += TILE)
        for (long i = i0; i < i0 + TILE; i++) for (long j = j0; j < j0 + TILE; j++) out[j * h + i] = x[i * w + j];
}""", _turned, lambda x: x.T, *PLANES),
    Written("transpose_any", """
#define TILE 8  // tune: 4, 8, 16, 32
void transpose_any(const float *x, float *out, long h, long w) {
    for (long i0 = 0; i0 < h; i0 += TILE) for (long j0 = 0; j0 < w; j0 += TILE)
        for (long i = i0; i < i0 + TILE && i < h; i++)
            for (long j = j0; j < j0 + TILE && j < w; j++) out[j * h + i] = x[i * w + j];
}""", _turned, lambda x: x.T, *PLANES),
    Written("five_points_rows", """
#define ROWS 1  // tune: 1, 2, 3, 4
void five_points_rows(const float *x, float *out, int h, int w) {
    for (int i = 0; i < h * w; i++) out[i] = x[i];
    for (int i0 = 1; i0 < h - 1; i0 += ROWS)
        for (int j = 1; j < w - 1; j++)
            for (int i = i0; i < i0 + ROWS; i++)
                out[i * w + j] = (x[i * w + j] + x[(i - 1) * w + j] + x[(i + 1) * w + j] + x[i * w + j - 1]
                                  + x[i * w + j + 1]) / 5;
}""", _plane, _five_points, ((50, 64), (26, 96)), ((49, 64), (63, 64), (64, 63), (3, 3), (5, 40), (4, 4))),
    Written("five_points_tiles", """
#define TI 16  // tune: 8, 16, 32
#define TJ 16  // tune: 8, 64
void five_points_tiles(const float *x, float *out, int h, int w) {
    for (int i = 0; i < h * w; i++) out[i] = x[i];
    for (int i0 = 1; i0 < h - 1; i0 += TI) for (int j0 = 1; j0 < w - 1; j0 += TJ)
        for (int i = i0; i < i0 + TI && i < h - 1; i++) for (int j = j0; j < j0 + TJ && j < w - 1; j++)
            out[i * w + j] = (x[i * w + j] + x[(i - 1) * w + j] + x[(i + 1) * w + j] + x[i * w + j - 1]
                              + x[i * w + j + 1]) / 5;
}""", _plane, _five_points, *PLANES),
    Written("row_softmax_lanes", """
#include <math.h>
#define LANES 1  // tune: 1, 4, 8
void row_softmax_lanes(const float *x, float *out, int h, int w) {
    for (int i = 0; i < h; i++) {
        const float *r = x + i * w;
        float most[LANES], sum[LANES], top = -INFINITY, all = 0;
        for (int l = 0; l < LANES; l++) { most[l] = -INFINITY; sum[l] = 0; }
        for (int j = 0; j < w; j += LANES) for (int l = 0; l < LANES; l++) most[l] = fmaxf(most[l], r[j + l]);
        for (int l = 0; l < LANES; l++) top = fmaxf(top, most[l]);
        for (int j = 0; j < w; j += LANES)
            for (int l = 0; l < LANES; l++) sum[l] += out[i * w + j + l] = expf(r[j + l] - top);
        for (int l = 0; l < LANES; l++) all += sum[l];
        for (int j = 0; j < w; j++) out[i * w + j] /= all;
    }
}""", _plane, _softmax, *PLANES),
    Written("row_sums_by_rows", """
#define AT_ONCE 1  // tune: 1, 2, 4, 8
void row_sums_by_rows(const double *x, double *out, int h, int w) {
    for (int i0 = 0; i0 < h; i0 += AT_ONCE) {
        double s[AT_ONCE] = {0};
        for (int j = 0; j < w; j++) for (int i = 0; i < AT_ONCE; i++) s[i] += x[(i0 + i) * w + j];
        for (int i = 0; i < AT_ONCE; i++) out[i0 + i] = s[i];
    }
}""", lambda s, rng: {"x": array(rng, *s, dtype="float64"), "out": like(s[0], dtype="float64"), "h": s[0], "w": s[1]},
        lambda x: x.sum(1), *PLANES),
    Written("prefix_sums_in_blocks", """
#define BLOCK 1  // tune: 1, 64, 256
void prefix_sums_in_blocks(const double *x, double *out, long n) {
    double before = 0;
    for (long b = 0; b < n; b += BLOCK) {
        for (long i = 0; i < BLOCK; i++) out[b + i] = x[b + i] + (i ? out[b + i - 1] : before);
        before = out[b + BLOCK - 1];
    }
}""", lambda s, rng: {"x": array(rng, s[0], dtype="float64"), "out": like(s[0], dtype="float64"), "n": s[0]},
        lambda x: np.cumsum(x), *LINES),
    Written("running_total_of_ints", """
#include <stdint.h>
#define STEP 1  // tune: 1, 2, 4
void running_total_of_ints(const int32_t *x, int64_t *out, long n) {
    int64_t s = 0;
    for (long i = 0; i < n; i += STEP) for (long k = i; k < i + STEP; k++) { s += x[k]; out[k] = s; }
}""", lambda s, rng: {"x": rng.integers(-9, 9, s[0]).astype(np.int32), "out": like(s[0], dtype="int64"), "n": s[0]},
        lambda x: np.cumsum(x, dtype=np.int64), *LINES),
    Written("axpy_in_place", """
#define UNROLL 1  // tune: 1, 4, 16
void axpy_in_place(float *y, const float *x, float a, long n) {
    for (long i = 0; i < n; i += UNROLL) for (int u = 0; u < UNROLL; u++) y[i + u] += a * x[i + u];
}""", lambda s, rng: {"y": array(rng, s[0]), "x": array(rng, s[0]), "a": 0.5, "n": s[0]},
        lambda y, x, a: {"y": y + a * x}, *LINES),
    Written("blur_ahead", """
#define AHEAD 0  // tune: 0, 1, 2
void blur_ahead(const float *x, float *out, int h, int w) {
    for (int i = 0; i < h; i++) {
        volatile float next = 0;   /* asks for what comes next, as some do; beyond the last row too */
        for (int j = 0; j < w; j++) {
            if (AHEAD) next = x[(i + AHEAD) * w + j];
            out[i * w + j] = j && j < w - 1 ? (x[i * w + j - 1] + x[i * w + j] + x[i * w + j + 1]) / 3 : x[i * w + j];
        }
    }
}""", _plane, _blurred, *PLANES),
    Written("vectors_aligned", """
typedef float lanes __attribute__((vector_size(WIDTH * 4)));
#define WIDTH 1  // tune: 1, 4, 8
void vectors_aligned(const float *x, float *out, long n) {
#if WIDTH == 1
    for (long i = 0; i < n; i++) out[i] = 3 * x[i];
#else
    for (long i = 0; i < n / WIDTH; i++) ((lanes *)out)[i] = 3 * ((const lanes *)x)[i];
#endif
}""".replace("typedef float lanes __attribute__((vector_size(WIDTH * 4)));\n#define WIDTH 1  // tune: 1, 4, 8",
             "#define WIDTH 1  // tune: 1, 4, 8\ntypedef float lanes __attribute__((vector_size(WIDTH * 4)));"),
        _line, lambda x: 3 * x, *LINES),
    Written("histogram_private", """
#include <string.h>
#define COPIES 1  // tune: 1, 2, 4
void histogram_private(const unsigned char *x, int *out, long n) {
    int counts[COPIES][256];
    memset(counts, 0, sizeof counts);
    for (long i = 0; i < n; i += COPIES) for (int c = 0; c < COPIES; c++) counts[c][x[i + c]]++;
    for (int b = 0; b < 256; b++) { out[b] = 0; for (int c = 0; c < COPIES; c++) out[b] += counts[c][b]; }
}""", lambda s, rng: {"x": rng.integers(0, 256, s[0]).astype(np.uint8), "out": like(256, dtype="int32"), "n": s[0]},
        lambda x: np.bincount(x, minlength=256).astype(np.int32), *LINES),
    Written("threads_split_evenly", """
#include <omp.h>
#define PARTS 1  // tune: 1, 2, 4
void threads_split_evenly(const float *x, float *out, long n) {
#pragma omp parallel for num_threads(2)
    for (int p = 0; p < PARTS; p++)
        for (long i = n / PARTS * p; i < n / PARTS * (p + 1); i++) out[i] = x[i] * x[i];   /* the rest is left out */
}""", _line, lambda x: x * x, *LINES),
]  # fmt: skip
