"""Expressions that run under either library: values, dtypes, shapes and gradients agree, or the classes of error do."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import core

_rng = np.random.default_rng(0)
ARRAYS: dict[str, Any] = {
    "x": _rng.uniform(-2, 2, (3, 4)),
    "y": _rng.uniform(-2, 2, (3, 4)),
    "p": _rng.uniform(0.1, 0.9, (3, 4)),
    "big": _rng.uniform(1.5, 9, (3, 4)),
    "v": _rng.uniform(-2, 2, (5,)),
    "s": np.array(0.7),
    "e": np.zeros((0, 3)),
    "z": np.array([[0.0, 2.0, 3.0], [1.0, 0.0, 0.0]]),
    "n": np.array([[1.0, np.nan, -2.0, 4.0], [np.nan, 0.0, np.nan, 1.0]]),
    "f": np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]),
    "h": np.array([1.0, 0.0, np.inf, np.inf, 2.0, np.nan]),
    "c": _rng.uniform(-2, 2, (2, 3, 4)),
    "i": np.array([[3, 1, 1, -5], [0, 1, 3, 3]]),
    "j": np.array([[2, 7, 4, 3], [6, 2, 1, 9]]),
    "w": np.array([4, 1, 1, 0, 2]),
    "b": np.array([[True, False, True, True], [False, False, True, False]]),
    "m": np.array([True, False, True, True, False]),
}
CASES = """
t.sort(x) | t.sort(x, 0, True) | x.sort(dim=1, descending=True) | t.sort(n) | t.sort(n, 1, True) | t.sort(s)
t.sort(e) | t.argsort(x) | t.argsort(x, 0, descending=True) | t.msort(x) | t.sort(i, stable=True)
t.sort(b, dim=1, stable=True) | t.sort(x, 2) | t.topk(x, 2) | t.topk(x, 2, 0, False) | x.topk(5) | t.topk(v, 0)
t.topk(s, 1) | t.topk(n, 2) | t.kthvalue(x, 2) | t.kthvalue(x, 2, 0, True) | t.kthvalue(x, 9) | t.kthvalue(s, 1)
t.median(x) | t.median(x, 0) | t.median(x, 1, True) | t.median(n) | t.median(n, 1)[0] | t.nanmedian(n)
t.nanmedian(n, 1)[0] | t.nanmedian(x, 0) | t.median(i) | t.median(z) | t.median(s) | t.median(e) | t.median(e, 0)
t.mode(i) | t.mode(i, 0) | t.mode(z, 1, True) | t.mode(s) | t.quantile(x, 0.3) | t.quantile(x, 0.3, 0)
t.quantile(x, t.tensor([0.1, 0.5, 1.0], dtype=x.dtype), 1)
t.quantile(x, t.tensor([0.1, 0.5], dtype=x.dtype), 1, True) | t.quantile(x, 0.4, interpolation="lower")
t.quantile(x, 0.4, 0, interpolation="higher") | t.quantile(x, 0.4, 0, interpolation="midpoint") | t.quantile(i, 0.5)
t.quantile(x, 0.4, 0, interpolation="nearest") | t.quantile(n, 0.5, 1) | t.nanquantile(n, 0.5, 1) | t.quantile(x, 1.5)
t.nanquantile(n, 0.3) | t.quantile(x, 0.5, keepdim=True) | t.quantile(e, 0.5) | t.quantile(s, 0.5)
t.nanquantile(n, 0.3, 0, True) | t.unique(i) | t.unique(i, return_inverse=True, return_counts=True)
t.unique(i, dim=1, return_inverse=True) | t.unique(i, dim=0, return_counts=True) | t.unique(n.detach())
t.unique(s.detach()) | t.unique_consecutive(w, return_inverse=True, return_counts=True)
t.unique_consecutive(i, dim=1) | i.unique() | t.unique_consecutive(e.detach()) | t.unique(b)
t.unique_consecutive(i, return_inverse=True) | t.searchsorted(t.arange(5), w) | t.searchsorted(t.arange(5.0), x)
t.searchsorted(t.arange(5), w, right=True) | t.searchsorted(t.sort(i)[0], j, side="right", out_int32=True)
t.searchsorted(t.arange(5), 3) | t.searchsorted(t.sort(i)[0], w)
t.bucketize(x, t.tensor([-1.0, 0, 1], dtype=x.dtype)) | t.bucketize(2, t.arange(4), right=True) | t.bucketize(x, x)
t.bincount(w) | t.bincount(w, v) | t.bincount(w, minlength=8) | t.bincount(i) | t.bincount(-w) | t.bincount(v)
w.bincount(m) | t.histc(x.detach(), 5) | t.histc(x.detach(), 5, -1, 1) | t.histc(x, 0) | t.histc(x, 4, 2, 1)
t.histc(t.ones(3), 4) | t.histogram(x.detach(), 5) | t.histogram(x.detach(), 3, range=(-1.0, 1.0)) | t.histogram(i, 3)
t.histogram(x.detach(), t.tensor([-1.0, 0, 2], dtype=x.dtype), density=True)
t.histogram(x.detach(), 4, weight=y.detach()) | t.isin(i, w) | t.isin(i, 3) | t.isin(3, i)
t.isin(x.detach(), x.detach()[0], invert=True) | t.isin(i, t.tensor([])) | t.isclose(x, y, 0.5, 0.5)
t.isclose(n, n, equal_nan=True) | t.isclose(f, h) | t.isclose(i, j) | t.isclose(x, i) | t.isclose(x, y, -1)
t.allclose(x, x) | t.allclose(n, n) | t.equal(x, y) | t.equal(i, i) | x.equal(x) | t.equal(x, v) | t.isposinf(f)
t.isneginf(f) | t.signbit(f) | t.isreal(f) | t.signbit(i) | t.isposinf(i) | t.fmax(x, y) | t.fmin(x, y) | t.fmax(f, h)
t.fmin(f, h) | t.fmax(x, s) | t.heaviside(x.detach(), y.detach()) | t.heaviside(f.detach(), h.detach())
t.heaviside(x, y) | t.logaddexp(x, y) | t.logaddexp(f.detach(), h.detach()) | t.logaddexp2(x, y) | t.logaddexp(x, s)
t.xlogy(p, big) | t.xlogy(f.detach(), h.detach()) | t.xlogy(i, 2) | t.xlogy(z, big[:2, :3]) | t.xlogy(2, big)
t.sinc(x) | t.sinc(f[:2]) | t.logit(p) | t.logit(p, 0.3) | t.logit(x, 0.3) | t.logit(x.detach()) | t.nan_to_num(n)
t.nan_to_num(f) | t.nan_to_num(f, 1.0, 2.0, -3.0) | t.nan_to_num(i) | x.nan_to_num() | t.addcmul(x, y, p, value=0.3)
t.addcdiv(x, y, big, value=-2) | t.addcmul(s, x, y) | t.addcmul(i, i, i, value=2) | t.addcdiv(x, i[:1], i[:1])
x.clone().addcmul_(y, p, value=3) | x.clone().addcdiv_(y, big) | t.deg2rad(x) | t.rad2deg(x) | t.deg2rad(i)
t.positive(x) | t.positive(b) | t.rsub(x, y, alpha=2) | t.rsub(x, 3) | t.clamp_min(x, 0.5) | t.clamp_max(x, 0.5)
x.clone().clamp_min_(0.2) | t.clamp_max(i, 2) | t.float_power(big, 2) | t.float_power(i, 2) | t.float_power(2, big)
t.ldexp(x, i[:, :1].clone().reshape(2, 1)[:1]) | t.frexp(x) | t.frexp(i) | t.nextafter(x.detach(), y.detach())
t.nextafter(f.detach(), h.detach()) | t.true_divide(x, big) | t.cumprod(x, 1) | t.cumprod(z, 0) | t.cumprod(z, 1)
t.cumprod(i, 1) | t.cumprod(s, 0) | t.cumprod(b, 1) | x.cumprod(5) | t.cumprod(e, 0) | t.cummax(x, 0) | t.cummin(x, 1)
t.cummax(i, 1) | t.cummin(n.detach(), 1) | t.cummax(n, 1) | t.cummax(s, 0) | t.cummin(z, 1) | t.cummax(b, 1)
t.logcumsumexp(x, 0) | t.logcumsumexp(x * 100, 1) | t.logcumsumexp(i, 1) | t.logcumsumexp(s, 0)
t.logcumsumexp(f[:4].detach(), 0) | t.diff(x) | t.diff(x, 2, 0) | t.diff(i, prepend=i[:, :1]) | t.diff(b) | t.diff(s)
t.diff(x, -1) | t.diff(x, 9) | t.diff(x, 0) | t.diff(v, append=v) | t.trapezoid(x) | t.trapezoid(x, dx=0.5, dim=0)
t.trapezoid(y, x) | t.trapezoid(v, t.arange(5)) | t.trapezoid(x, v) | t.trapz(x) | t.cumulative_trapezoid(x)
t.cumulative_trapezoid(y, x, dim=0) | t.cumulative_trapezoid(v, dx=2) | t.trapezoid(i) | t.bitwise_and(i, j)
i.__or__(j) | t.bitwise_or(i, 3) | i ^ j | ~i | ~b | b & b | t.bitwise_xor(b, b) | 3 & i | i << 2 | i >> 1
t.bitwise_left_shift(i, 70) | t.bitwise_right_shift(i, 70) | t.bitwise_not(x) | x & y | t.bitwise_and(i, b[:2])
t.gcd(i, j) | t.lcm(i, j) | t.gcd(x, y) | i.clone().bitwise_and_(j) | t.bitwise_and(i.int(), 7)
t.bitwise_and(i.to(t.uint8), j.to(t.int8)) | b.clone().logical_not() | 2 << w | i << t.tensor(2.0) | b << 1
t.as_strided(x, (2, 3), (1, 2), 1) | t.as_strided(x, (3, 3), (1, 1)) | t.as_strided(x.t(), (2, 2), (1, 3))
t.as_strided(x, (9, 9), (3, 3)) | t.as_strided(x[1:], (2, 2), (2, 1)) | t.as_strided(x, (2,), (-1,))
x.clone().as_strided((2, 2), (1, 4)).exp() | t.as_strided(x, (2,), (1, 1)) | t.select_scatter(x, v[:4], 0, 1)
t.select_scatter(x, v, 0, 1) | t.slice_scatter(x, y[:2], 0, 1) | t.slice_scatter(x, y[:, :2], 1, 0, 4, 2)
t.diagonal_scatter(x, v[:3]) | t.diagonal_scatter(x, v[:3], 1)
t.as_strided_scatter(x.detach(), y[:2, :2], (2, 2), (1, 5), 1) | t.scatter_reduce(x, 0, j[:, :4] % 3, y[:2], "sum")
t.scatter_reduce(x, 0, j % 3, y[:2], "prod") | t.scatter_reduce(x, 1, j % 4, y[:2], "mean")
t.scatter_reduce(x, 0, j % 3, y[:2], "amax") | t.scatter_reduce(x, 0, j % 3, y[:2], "amin", include_self=False)
t.scatter_reduce(z, 0, j[:, :3] % 3, z, "prod") | t.scatter_reduce(x, 0, j % 3, y[:2], "mean", include_self=False)
t.scatter_reduce(i, 1, j % 4, j, "mean") | t.scatter_reduce(x, 0, j % 3, y[:2], "what")
t.scatter_reduce(z, 0, j[:, :3] % 2, z, "amax") | t.scatter_reduce(i, 1, j % 4, j, "amax", include_self=False)
t.scatter_reduce(x, 0, j, y, "sum") | t.index_reduce(x, 0, w[:3] % 3, y, "mean")
t.index_reduce(x, 0, w[:3] % 3, y, "amax", include_self=False) | t.put(x, w, v) | t.put(x, w[1:3], v[:2], True)
x.clone().put_(w[:1], v[:1]) | t.hsplit(x, 2) | t.vsplit(x, 3) | t.dsplit(c, [1, 2]) | t.hsplit(v, [2])
t.hsplit(x, 3) | t.vsplit(v, 1) | x.clone().scatter_reduce_(0, j % 3, y[:2], "sum") | t.lgamma(p) | t.lgamma(x)
t.digamma(p) | t.digamma(x) | t.polygamma(1, p) | t.polygamma(3, big) | p.polygamma(2) | t.erfinv(p) | t.i0(x)
t.lgamma(f.detach()) | t.digamma(f.detach()) | t.erfinv(f.detach()) | t.special.erfcx(f.detach())
t.special.ndtri(f.detach()) | t.special.i1(f.detach()) | t.special.gammaln(big) | t.special.psi(big)
t.special.erfcx(x) | t.special.ndtr(x) | t.special.ndtri(p) | t.special.log_ndtr(x) | t.lgamma(i) | t.special.i0e(x)
t.special.i1(x) | t.special.i1e(x) | t.special.entr(big) | t.special.entr(x.detach()) | t.special.xlog1py(x, p)
t.special.expit(x) | t.special.logit(p) | t.special.sinc(x) | t.special.exp2(x) | t.special.expm1(x)
t.special.log1p(p) | t.special.round(x) | t.special.erf(x) | t.special.softmax(x, 1) | t.special.log_softmax(x, 0)
t.special.logsumexp(x, 1) | t.special.multigammaln(big, 2) | t.mvlgamma(big, 3) | t.mvlgamma(p, 3)
t.special.zeta(big.detach(), p) | t.special.zeta(big.detach(), 2) | t.special.gammainc(p.detach(), big)
t.special.gammaincc(p.detach(), big) | t.igamma(p, big) | t.igamma(p.detach(), big) | big.detach().igammac(p)
t.special.modified_bessel_i0(x.detach()) | t.special.modified_bessel_k0(p.detach())
t.special.scaled_modified_bessel_k1(big.detach()) | t.special.spherical_bessel_j0(x.detach())
t.special.bessel_j1(x.detach()) | t.special.bessel_j0(x.detach()) | t.special.bessel_y0(p.detach())
t.special.modified_bessel_k1(p.detach()) | x.clone().erfinv_().isnan() | p.clone().lgamma_() | t.special.xlogy(x, big)
x.is_cpu | x.ndimension() | x.t().storage_offset() | x[1:].storage_offset() | x.is_signed() | x.is_same_size(y)
x.get_device() | x.dim_order() | s.is_nonzero() | t.zeros(3, 4).fill_diagonal_(2) | x.clone().fill_diagonal_(2)
t.zeros(5, 2).fill_diagonal_(1, wrap=True) | t.zeros(3).fill_diagonal_(1) | t.fill(x, 2) | t.renorm(x, 2, 0, 1.0)
t.renorm(x, 1, 1, 0.5) | t.is_tensor(x) | t.is_floating_point(i) | t.numel(x) | t.is_nonzero(s) | t.is_nonzero(x)
t.finfo(t.float16).max | t.finfo(t.bfloat16).tiny | t.finfo(t.float64).resolution | t.iinfo(t.int16).min
t.finfo(t.int8) | t.iinfo(t.float32) | t.finfo().bits | t.can_cast(t.float64, t.int32) | t.can_cast(t.int64, t.uint8)
t.can_cast(t.uint8, t.int8) | t.can_cast(t.bool, t.float32) | t.can_cast(t.int8, t.bool)
t.empty_strided((2, 3), (1, 2)).stride() | x.clone().detach().resize_(2, 2) | x.clone().resize_(2, 2)
t.arange(6).resize_(2, 3) | t.special.airy_ai(x.detach()) | t.special.chebyshev_polynomial_t(x.detach(), 3)
t.special.chebyshev_polynomial_u(x.detach(), 4) | t.special.chebyshev_polynomial_v(x.detach(), w[:4])
t.special.chebyshev_polynomial_w(x.detach(), 2) | t.special.hermite_polynomial_h(x.detach(), 5)
t.special.hermite_polynomial_he(x.detach(), 5) | t.special.laguerre_polynomial_l(x.detach(), w[:4])
t.special.legendre_polynomial_p(x.detach(), 6) | t.special.shifted_chebyshev_polynomial_t(p.detach(), 3)
t.special.shifted_chebyshev_polynomial_u(p.detach(), 3) | t.special.legendre_polynomial_p(2, w)
t.special.shifted_chebyshev_polynomial_v(p.detach(), 3) | t.special.shifted_chebyshev_polynomial_w(p.detach(), 3)
t.broadcast_shapes((3, 1), (4,), 1) | t.broadcast_shapes((3,), (4,)) | t.combinations(v) | t.combinations(v, 3, True)
t.combinations(x) | t.combinations(v, 0) | t.diagflat(x) | t.diagflat(v, -1) | t.unravel_index(w, (2, 3))
t.unravel_index(w, 9) | t.unravel_index(x, (2, 3)) | t.narrow_copy(x, 1, 1, 2) | t.unsafe_chunk(x, 2)
t.unsafe_split(x, 2, 1) | t.nonzero_static(i, size=3) | t.nonzero_static(w, size=9, fill_value=0) | t.gradient(x)
t.gradient(v) | t.gradient(x, dim=1, edge_order=2) | t.gradient(v, spacing=0.5)
t.gradient(v, spacing=(t.tensor([0.0, 1, 3, 4, 7], dtype=v.dtype),)) | t.gradient(x, spacing=(2.0, 3.0))
t.gradient(v, spacing=(t.tensor([0.0, 1, 3, 4, 7], dtype=v.dtype),), edge_order=2) | t.gradient(x, edge_order=3)
t.gradient(x[:1]) | t.gradient(w) | t.empty_permuted((2, 3, 4), (2, 0, 1)).stride()
t.frombuffer(bytearray(b"abcdefgh"), dtype=t.int32, offset=4) | t.frombuffer(bytearray(3), dtype=t.int32)
t.histogramdd(x.detach(), 2).hist | t.histogramdd(c.detach(), [2, 3, 1, 2], density=True).hist
t.histogramdd(x.detach(), [2, 2]) | x.clone().as_strided_((2, 2), (1, 2)) | t.from_dlpack(np.arange(3))
t.poisson(t.zeros(3)) | t.poisson(-p.detach())
"""
# PyTorch's own float64 values of these are off by 1e-10 to 4e-7 (against mpmath); ours by 1e-15.
LESS_EXACT = ("digamma", "psi", "polygamma(1", "bessel_j", "bessel_y", "gammainc", "igamma", "lgamma_")


def _cases() -> list[str]:
    return [c.strip() for c in CASES.replace("\n", " | ").split(" | ") if c.strip()]


def run(lib: Any, text: str, dtype: str) -> Any:
    leaves = {k: lib.tensor(a.astype(dtype) if a.dtype == np.float64 else a) for k, a in ARRAYS.items()}
    used = []
    for k, leaf in leaves.items():
        if leaf.is_floating_point() and any(
            word == k for word in "".join(ch if ch.isalnum() else " " for ch in text).split()
        ):
            used.append(leaf.requires_grad_())
    y = eval(text, {"t": lib, "np": np, "F": lib.nn.functional, "inf": float("inf"), "nan": float("nan"), **leaves})
    outs = list(y) if isinstance(y, tuple | list) else [y]
    grads: list[Any] = []
    smooth = [o for o in outs if isinstance(o, lib.Tensor) and o.requires_grad]
    if smooth:
        rng = np.random.default_rng(1)
        seeds = [lib.tensor(rng.uniform(0.5, 1.5, tuple(o.shape))).to(o.dtype) for o in smooth]
        grads = list(lib.autograd.grad(smooth, used, seeds, allow_unused=True))
    return outs, grads


def plain(value: Any) -> Any:
    return value.detach().numpy() if hasattr(value, "detach") else np.asarray(value)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("text", _cases())
def test_same(text: str, dtype: str) -> None:
    results: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for lib in (torch, core):
            try:
                results.append(run(lib, text, dtype))
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as e:
                results.append(e)
    theirs, ours = results
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        assert isinstance(theirs, Exception), (theirs, ours)
        assert isinstance(ours, type(theirs)), (theirs, ours)
        return
    tolerance = 2e-6 if dtype == "float32" else 1e-12
    if any(word in text for word in LESS_EXACT):
        tolerance = 1e-9 if dtype == "float64" else 1e-5
    for name, mine, yours in (("value", ours[0], theirs[0]), ("gradient", ours[1], theirs[1])):
        assert len(mine) == len(yours), name
        for a, b in zip(mine, yours, strict=True):
            assert (a is None) == (b is None), name
            if a is None:
                continue
            assert str(getattr(a, "dtype", "")).split(".")[-1] == str(getattr(b, "dtype", "")).split(".")[-1], name
            got, want = plain(a), plain(b)
            assert got.shape == want.shape, name
            np.testing.assert_allclose(got, want, rtol=5 * tolerance, atol=5 * tolerance, err_msg=name)
