"""The array API standard's namespace against NumPy's own, function by function; and who dispatches on it."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import numpy as np
import pytest

import core
import core.array_api as xp

X = np.array([[3.0, -1.5, 0.25], [0.0, 2.5, -7.0]])
Y = X[::-1].copy()
N = np.array([[5, 1, 3], [1, 7, 5]])
NAMES = {
    "X": X, "Y": Y, "N": N, "B": X > 0, "Z": X + 1j * Y, "U": np.abs(X) + 1.25, "R": X / 10,
    "S": np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]]), "V": np.array([-2.0, 0.0, 2.75]),
    "I": np.array([2, 0, -1]), "J": np.array([[0], [-1]]),
}  # fmt: skip

ONE = {
    "X": """abs atan asinh ceil cos cosh exp expm1 floor isfinite isinf isnan negative positive round sign signbit sin
            sinh square tan tanh trunc""",
    "U": "acosh log log1p log2 log10 reciprocal sqrt",
    "R": "acos asin atanh",
    "Z": "conj real imag abs expm1 round sign",
    "N": "bitwise_invert abs negative sign",
    "B": "logical_not",
}
TWO = {
    "X, Y": """add atan2 copysign equal greater greater_equal hypot less less_equal logaddexp maximum minimum multiply
               nextafter not_equal subtract""",
    "U, Y": "pow",
    "X, U": "divide floor_divide remainder",
    "N, N": "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift remainder pow add",
    "B, B": "logical_and logical_or logical_xor equal",
}
CALLS = """
sum(X) | sum(X, axis=0) | sum(X, axis=(0, 1), keepdims=True) | sum(X, axis=()) | prod(N, axis=1) | mean(X, axis=-1)
max(X) | max(X, axis=0) | max(X, axis=()) | min(X, axis=1, keepdims=True) | std(X) | std(X, axis=0, correction=1)
var(X, axis=(0, 1)) | all(B, axis=1) | any(B) | any(X, axis=()) | count_nonzero(X) | count_nonzero(X, axis=1)
count_nonzero(X, axis=1, keepdims=True) | cumulative_sum(X, axis=1) | cumulative_sum(N, axis=0, include_initial=True)
cumulative_prod(X, axis=-1, include_initial=True) | diff(X) | diff(X, axis=0) | diff(N, n=2)
diff(X, prepend=X, append=X) | argmax(X) | argmax(X, axis=1) | argmin(X, axis=0, keepdims=True)
argmin(X, keepdims=True) | argsort(N, axis=1) | sort(X, axis=0) | nonzero(N) | searchsorted(V, X[0])
searchsorted(V, V, side="right") | take(X, I, axis=1) | take(V, I) | take_along_axis(X, J, axis=1) | where(B, X, Y)
where(B, X, 2) | concat((X, Y), axis=1) | concat((X, V), axis=None) | stack((X, Y), axis=2) | unstack(X, axis=1)
expand_dims(X, axis=1) | squeeze(X[:1], axis=0) | flip(X) | flip(X, axis=0) | flip(X, axis=(0, 1)) | moveaxis(X, 0, 1)
permute_dims(X, (1, 0)) | repeat(X, 2) | repeat(X, 2, axis=0) | tile(X, (2, 1, 2)) | reshape(X, (3, 2))
reshape(X, (-1,), copy=True) | roll(X, 1) | roll(X, 1, axis=1) | roll(X, (1, 2), axis=(0, 1))
broadcast_to(V, (2, 3)) | broadcast_arrays(X, V) | tril(X, k=-1) | triu(X, k=1) | meshgrid(V, V)
meshgrid(V, X[0], indexing="ij") | clip(X, -1.0, 1.0) | clip(X, max=0.5) | clip(X, min=V) | unique_counts(N)
unique_inverse(N) | unique_all(N) | matmul(X, S) | vecdot(X, Y) | vecdot(X, Y, axis=0) | vecdot(Z, Z)
tensordot(X, S, axes=1) | tensordot(X, Y, axes=((0, 1), (0, 1))) | matrix_transpose(X) | astype(X, xp.float32)
zeros_like(N) | ones_like(X) | full_like(N, 3) | linalg.cholesky(S) | linalg.cholesky(S, upper=True)
linalg.cross(X, Y) | linalg.cross(S, V, axis=-1) | linalg.det(S) | linalg.diagonal(X, offset=1) | linalg.eigvalsh(S)
linalg.inv(S) | linalg.matrix_norm(S) | linalg.matmul(X, S) | linalg.matrix_norm(S, ord=1, keepdims=True)
linalg.matrix_power(S, 3) | linalg.matrix_power(S, -1) | linalg.matrix_rank(S) | linalg.outer(V, V) | linalg.pinv(X)
linalg.slogdet(S) | linalg.svdvals(X) | linalg.trace(S, offset=1) | linalg.vector_norm(X)
linalg.vector_norm(X, axis=0, ord=1) | linalg.vector_norm(X, axis=())
linalg.vector_norm(X, axis=(0, 1), keepdims=True) | linalg.solve(S, V) | linalg.solve(S, S) | fft.fft(X)
fft.ifft(Z, n=4) | fft.rfft(X, axis=0) | fft.irfft(Z, norm="ortho") | fft.hfft(Z) | fft.ihfft(X) | fft.fftn(X)
fft.ifftn(Z, axes=(0,)) | fft.rfftn(X, s=(2, 2), axes=(0, 1)) | fft.irfftn(Z) | fft.fftshift(X)
fft.ifftshift(X, axes=0)
"""
MADE = """
arange(5) | arange(1, 7, 2) | arange(5, 1) | arange(-1, 0.0, -1) | eye(2, 3, k=1) | eye(2, k=-9) | eye(3)
linspace(0, 1, 5) | linspace(0, 1, 4, endpoint=False) | linspace(0, 1 + 2j, 3) | full((2, 2), 7) | full(2, 1.5)
zeros((2, 3)) | ones(2) | fft.fftfreq(5, d=0.5) | fft.rfftfreq(4) | asarray([[1, 2], [3, 4]]) | asarray(1.5)
asarray(True)
"""


def listed(text: str) -> list[str]:
    return [call.strip() for line in text.strip().splitlines() for call in line.split("|")]


def same(mine, theirs):
    """Hold a tensor, or several, against NumPy's arrays: the dtype, the shape, the values."""
    if isinstance(theirs, tuple | list):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            same(a, b)
        return
    theirs = np.asarray(theirs)
    assert (mine.dtype.name, tuple(mine.shape)) == (theirs.dtype.name, theirs.shape)
    np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "call",
    [f"{name}({given})" for table in (ONE, TWO) for given, names in table.items() for name in names.split()]
    + listed(CALLS),
)
def test_calls_give_what_numpy_gives(call):
    mine = eval(f"xp.{call}", {"xp": xp, **{k: xp.asarray(v.copy()) for k, v in NAMES.items()}})
    same(mine, eval(f"np.{call}".replace("xp.", "np."), {"np": np, **NAMES}))


@pytest.mark.parametrize("call", listed(MADE))
def test_arrays_are_made_as_numpy_makes_them_in_the_default_dtype(call):
    mine, theirs = eval(f"xp.{call}"), eval(f"np.{call}")
    kind = {"float64": xp.float32, "complex128": xp.complex64}.get(theirs.dtype.name, mine.dtype)
    assert (mine.dtype, tuple(mine.shape)) == (kind, theirs.shape)
    np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-6)


def test_decompositions_make_what_they_came_from():
    a, s = xp.asarray(X), xp.asarray(NAMES["S"])
    q, r = xp.linalg.qr(a)
    same(q @ r, X)
    u, d, vh = xp.linalg.svd(a, full_matrices=False)
    same(u @ (d[:, None] * vh), X)
    values, vectors = xp.linalg.eigh(s)
    same(vectors @ (values[:, None] * xp.matrix_transpose(vectors)), NAMES["S"])
    assert xp.linalg.qr(a, mode="complete").Q.shape == (2, 2)
    assert xp.linalg.svd(a).Vh.shape == (3, 3)


def test_zero_dimensional_arrays_count_and_numbers_do_not():
    single, double = xp.ones(2, dtype=xp.float32), xp.asarray(1.0, dtype=xp.float64)
    assert xp.add(single, double).dtype is xp.float64
    assert (single + double).dtype is xp.float32, "operators keep PyTorch's rule"
    assert xp.add(single, 1.0).dtype is xp.float32
    assert xp.result_type(xp.int8, xp.uint8) is xp.int16
    assert xp.result_type(xp.int32, 1.5) is core.get_default_dtype()
    assert (
        xp.where(xp.asarray([True]), xp.asarray([1], dtype=xp.int8), xp.asarray([1], dtype=xp.int64)).dtype is xp.int64
    )
    with pytest.raises(ValueError, match="at least one array or dtype"):
        xp.result_type()


def test_special_values():
    nan, inf = xp.nan, xp.inf
    assert xp.isnan(xp.sign(xp.asarray(nan)))
    same(xp.floor_divide(xp.asarray([inf, -inf, 3.0], dtype=xp.float64), 2.0), np.array([inf, -inf, 1.0]))
    assert xp.floor_divide(xp.asarray(1.0), xp.asarray(-inf)) == 0
    assert xp.expm1(xp.asarray(complex(-inf, inf))) == -1
    found = xp.unique_all(xp.asarray([nan, 1.0, nan, 1.0]))
    assert found.counts.tolist() == [2, 1, 1], "every NaN is a value of its own"
    assert xp.unique_counts(xp.asarray([1j, 1.0, 1j])).counts.tolist() == [2, 1]
    assert xp.unique_values(xp.asarray([])).shape == (0,)
    assert xp.unique_values(xp.asarray(N)).tolist() == [1, 3, 5, 7]
    x = xp.ones(1)
    assert xp.clip(x) is not x


def test_acosh_of_complex_numbers_on_both_sides_of_the_cut_and_at_infinities():
    z = np.array([complex(-2, 0.0), complex(-2, -0.0), complex(-np.inf, 1), complex(np.inf, np.inf), 0.5])
    np.testing.assert_allclose(core.acosh(core.tensor(z)).numpy(), np.arccosh(z))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: xp.squeeze(xp.ones((2, 1)), 0), "only axes of one element"),
        (lambda: xp.take(xp.ones((2, 1)), xp.asarray([0])), "an axis is required"),
        (lambda: xp.cumulative_sum(xp.ones((2, 1))), "an axis is required"),
        (lambda: xp.nonzero(xp.asarray(1)), "no places"),
        (lambda: xp.matrix_transpose(xp.ones(2)), "matrices are required"),
        (lambda: xp.vecdot(xp.ones(2), xp.ones(1)), "differ in length"),
        (lambda: xp.meshgrid(xp.ones(2), indexing="yx"), "indexing must be"),
        (lambda: xp.isdtype(xp.int8, "whole"), "unknown kind of dtype 'whole'"),
        (lambda: xp.reshape(xp.matrix_transpose(xp.ones((2, 3))), (6,), copy=False), "without a copy"),
        (lambda: xp.asarray([1, 2], copy=False), "copy=False forbids"),
        (lambda: xp.ones(2).__array_namespace__(api_version="1999.12"), "is not known here"),
    ],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_reshaped_views_share_and_copies_do_not():
    x = xp.zeros(4)
    xp.reshape(x, (2, 2), copy=False)[0, 0] = 1
    xp.reshape(x, (2, 2), copy=True)[0, 0] = 7
    assert x.tolist() == [1, 0, 0, 0]


def test_dtypes_and_their_limits():
    assert xp.astype(xp.ones(2), xp.int8).dtype is xp.int8
    x = xp.ones(2)
    assert xp.astype(x, xp.float32, copy=False) is x
    assert xp.astype(x, xp.float32) is not x
    assert xp.can_cast(xp.int8, xp.int16)
    assert not xp.can_cast(x, xp.int64)
    assert xp.isdtype(xp.float32, ("bool", "real floating"))
    assert not xp.isdtype(xp.complex64, "real floating")
    assert [xp.isdtype(xp.uint8, k) for k in ("unsigned integer", "signed integer", "integral", "numeric", "bool")] == [
        True, False, True, True, False,
    ]  # fmt: skip
    f, i = xp.finfo(xp.complex128), xp.iinfo(xp.ones(1, dtype=xp.int16))
    assert (f.bits, f.dtype, f.eps, f.max) == (64, xp.float64, np.finfo(float).eps, np.finfo(float).max)
    assert (i.bits, i.max, i.min, i.dtype) == (16, 2**15 - 1, -(2**15), xp.int16)


def test_what_the_namespace_tells_of_itself():
    info = xp.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"]
    assert info.default_device() in info.devices()
    assert info.default_dtypes()["indexing"] is xp.int64
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert all(getattr(xp, name) is d for name, d in info.dtypes().items())
    assert xp.ones(2).__array_namespace__(api_version="2024.12") is xp
    assert xp.ones(2).to_device("cpu").device == core.device("cpu")


def test_every_public_name_is_there_with_arrays_in_front_of_a_slash():
    for name in xp.__all__:
        found = getattr(xp, name)
        if inspect.isfunction(found) and name not in ("isdtype", "full", "empty", "ones", "zeros"):
            kinds = [p.kind for p in inspect.signature(found).parameters.values()]
            assert not kinds or kinds[0] in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL), name
            assert found.__name__ == name
            assert found.__doc__, name


def test_gradients_pass():
    x = core.tensor([1.0, 2.0, 3.0], requires_grad=True)
    xp.sum(xp.clip(xp.multiply(x, 2), max=5.0)).backward()
    assert x.grad.tolist() == [2.0, 2.0, 0.0]


DISPATCHED = """
import numpy as np, core
from scipy import integrate
from sklearn import config_context
from sklearn.decomposition import PCA
from sklearn.metrics import mean_squared_error
from sklearn.preprocessing import StandardScaler

data = np.random.default_rng(0).normal(size=(20, 4))
t = core.tensor(data)
with config_context(array_api_dispatch=True):
    for made in (StandardScaler, lambda: PCA(2, svd_solver="full")):
        found = made().fit_transform(t)
        assert isinstance(found, core.Tensor)
        np.testing.assert_allclose(found.numpy(), made().fit_transform(data), atol=1e-12)
    assert abs(mean_squared_error(t, t + 1) - 1) < 1e-12
ends = (core.tensor(v, dtype=core.float64) for v in (0.0, 1.0))
found = integrate.tanhsinh(lambda x: x**2, *ends).integral
assert isinstance(found, core.Tensor) and abs(float(found) - 1 / 3) < 1e-12
"""


def test_scikit_learn_and_scipy_compute_on_tensors():
    told = {**os.environ, "SCIPY_ARRAY_API": "1"}  # SciPy reads it when it is imported
    ran = subprocess.run([sys.executable, "-c", DISPATCHED], env=told, capture_output=True, text=True, check=False)
    assert not ran.returncode, ran.stderr
