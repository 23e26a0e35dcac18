"""Fourier transforms with the names of ``torch.fft``.

Four linear ops stand behind them all: complex to complex over several dimensions, and over one real to complex, real to
half-complex and back. The adjoint of each is the transform the other way with the scale on the other side. C computes
what is of one dimension and of points with small prime factors (native/kernels/fft.c), NumPy's pocketfft the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.device import device as core_device
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.shape import normalize_dim
from ..declare.kernel import kernel
from ..declare.kinds import Device, Dims, Ints, Layout
from ..declare.signature import Fast, register
from ..dispatch.autocast import public_function
from ..dispatch.declare import operation
from ..dispatch.out import into
from ..dispatch.publish import namespaces
from ..tensors.tensor import Tensor
from .complex import _declare
from .creation import zeros
from .joining import cat, roll
from .precision import wide
from .solving import constant

namespaces.setdefault("fft", {})
_OTHER = {"backward": "forward", "forward": "backward", "ortho": "ortho"}  # where the adjoint has its scale


def fourier(function: Any, *, fast: Sequence[Fast] = ()) -> Any:
    """Decorator: make a written function public in `core.fft`, with ``out=``; `fast`: the plain calls that C takes."""

    @wraps(function)
    def with_out(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        return into(out, function(*args, **kwargs), function.__name__)

    name, key = function.__name__, None
    if fast:
        key = register(with_out, name, namespace="fft", method=False, fast=fast, home="fourier").key
    known = namespaces["fft"][name] = public_function(with_out, name, key)
    return known


# -- the four ops -----------------------------------------------------------------------------------------------------


def _sample_numbers(rng: Any, *shape: int) -> Any:
    return rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)


def _c2c_forward(xp: Any, x: Any, dim: tuple[int, ...], inverse: bool, norm: str) -> Any:
    return (xp.fft.ifftn if inverse else xp.fft.fftn)(x, axes=dim, norm=norm)


_c2c: Any = operation(
    "fft_c2c", _c2c_forward, params={"dim": (-1,), "inverse": False, "norm": "backward"},
    vjp=lambda g, dim, inverse, norm: _c2c(g, dim=dim, inverse=inverse, norm=norm),  # the matrix is symmetric
    samples=lambda rng: [((_sample_numbers(rng, 2, 3, 2),), {"dim": d, "inverse": i, "norm": n})
                         for d, i, n in [((1,), False, "backward"), ((0, 2), True, "ortho")]],
    contiguous=True,
)  # fmt: skip


def _of_real_vjp(g: Tensor, dim: int, inverse: bool, norm: str) -> Tensor:
    return _c2c(g, dim=(dim,), inverse=not inverse, norm=_OTHER[norm]).real  # type: ignore[no-any-return]


def _of_real_forward(xp: Any, x: Any, dim: int, inverse: bool, norm: str) -> Any:
    return (xp.fft.ifft if inverse else xp.fft.fft)(wide(x), axis=dim, norm=norm)


_of_real: Any = _declare(
    "fft_of_real", _of_real_forward, _of_real_vjp, params={"dim": -1, "inverse": False, "norm": "backward"},
    samples=lambda rng: [((rng.uniform(-1, 1, (3, 4)),), {"dim": d, "inverse": i, "norm": n})
                         for d, i, n in [(1, False, "forward"), (0, True, "ortho"), (1, True, "backward")]],
    contiguous=True,
)  # fmt: skip


def _r2c_vjp(g: Tensor, x_shape: Any, dim: int, norm: str) -> Tensor:
    return _c2c(_resized(g, dim, x_shape[dim]), dim=(dim,), inverse=True, norm=_OTHER[norm]).real  # type: ignore[no-any-return]


_r2c = _declare(
    "fft_r2c", lambda xp, x, dim, norm: xp.fft.rfft(wide(x), axis=dim, norm=norm), _r2c_vjp,
    params={"dim": -1, "norm": "backward"},
    samples=lambda rng: [((rng.uniform(-1, 1, (3, 4)),), {"dim": d, "norm": n})
                         for d, n in [(1, "forward"), (0, "ortho")]],
    contiguous=True,
)  # fmt: skip


def _c2r_vjp(g: Tensor, n: int, dim: int, norm: str) -> Tensor:
    """All but the first and, of an even number, the last stand for two of the whole transform."""
    weight = np.full(n // 2 + 1, 2.0, g.dtype.numpy)
    weight[0] = 1
    if n % 2 == 0:
        weight[-1] = 1
    shape = [1] * g.ndim
    shape[dim] = -1
    return _r2c(g, dim=dim, norm=_OTHER[norm]) * constant(weight.reshape(shape), g.device)  # type: ignore[no-any-return]


_c2r = _declare(
    "fft_c2r", lambda xp, x, n, dim, norm: xp.fft.irfft(x, n=n, axis=dim, norm=norm), _c2r_vjp,
    params={"n": 1, "dim": -1, "norm": "backward"},
    samples=lambda rng: [((_sample_numbers(rng, 3, 3),), {"n": n, "dim": d}) for n, d in [(4, 1), (5, 0)]],
    contiguous=True,
)  # fmt: skip


def _kernels() -> None:
    """Declare the C kernels: rows of the last dimension, and complex numbers along any one."""

    def declared(name: str, arguments: str, gives: str, call: str, *takes: str) -> None:
        kernel(name, arguments, gives=gives, call=call, takes=takes, misfit=True, half=False, fails="memory")

    declared("fft_c2c", "x: complex[*outer, *n, *inner], dim: axes(n), inverse: flag, norm: text",
             "y: complex[*outer, *n, *inner]", "fft_c2c.T(x, y, outer, n, inner, inverse, norm)",
             "len(dim) == 1", "fft_takes(n)")  # fmt: skip
    declared("fft_of_real", "x: real[*rows, n], dim: axis(n), inverse: flag, norm: text", "y: complex[*rows, n]",
             "fft_r2c.T(x, y, rows, n, FFT_ALL, inverse, norm)", "fft_takes(n)")  # fmt: skip
    declared("fft_of_real.backward", "g: complex[*rows, n], dim: axis(n), inverse: flag, norm: text",
             "gx: real[*rows, n],", "fft_c2r.T(g, gx, rows, n, FFT_ALL, not inverse, fft_other(norm))",
             "fft_takes(n)")  # fmt: skip
    declared("fft_r2c", "x: real[*rows, n], dim: axis(n), norm: text", "y: complex[*rows, n // 2 + 1]",
             "fft_r2c.T(x, y, rows, n, FFT_HALF, 0, norm)", "fft_takes(n)")  # fmt: skip
    declared("fft_r2c.backward", "g: complex[*rows, half], x_shape: shape[*rows, n], dim: axis(n), norm: text",
             "gx: real[*rows, n],", "fft_c2r.T(g, gx, rows, n, FFT_HALF_BACK, 1, fft_other(norm))",
             "fft_takes(n)", "half == n // 2 + 1", "dim == g.ndim - 1")  # fmt: skip
    declared("fft_c2r", "x: complex[*rows, half], n: int, dim: axis(half), norm: text", "y: real[*rows, n]",
             "fft_c2r.T(x, y, rows, n, FFT_HALF, 1, norm)", "fft_takes(n)", "half == n // 2 + 1")  # fmt: skip


_kernels()

# -- arguments ---------------------------------------------------------------------------------------------------------


def _resized(x: Tensor, dim: int, n: int) -> Tensor:
    """Return the first n elements along `dim`, zeros past the end."""
    have = x._a.shape[dim]
    if n < have:
        return x.narrow(dim, 0, n)
    if n == have:
        return x
    shape = list(x._a.shape)
    shape[dim] = n - have
    return cat([x, zeros(shape, dtype=x.dtype, device=x.device)], dim)


def _norm(norm: str | None) -> str:
    if norm not in (None, *_OTHER):
        raise RuntimeError(text(f'Invalid normalization mode: "{norm}"', op="fft",
                                needed='"backward", "ortho" or "forward"'))  # fmt: skip
    return norm or "backward"


def _floating(op: str, x: Any) -> Tensor:
    if not isinstance(x, Tensor):
        raise TypeError(f"fft_{op}(): argument 'input' (position 1) must be Tensor, not {type(x).__name__}")
    if x.dtype.category < 2:
        x = x.to(dtypes.get_default_dtype())
    if x.dtype.itemsize == 2:
        raise RuntimeError(text(f"Unsupported dtype {x.dtype.scalar_type}", op=op, remedy="x.float()"))
    return x


def _to_complex(op: str, x: Any) -> Tensor:
    x = _floating(op, x)
    return x if x.is_complex() else x.to(dtypes.promote_types(x.dtype, dtypes.complex64))


def _to_real(op: str, x: Any) -> Tensor:
    x = _floating(op, x)
    if x.is_complex():
        raise RuntimeError(text(f"{op} expects a real input tensor, but got {x.dtype.scalar_type}", op=op,
                                remedy="x.real, or fft for complex numbers"))  # fmt: skip
    return x


def _length(op: str, x: Tensor, n: int | None, dim: int, default: int) -> int:
    n = default if n is None else n
    if n < 1:
        raise RuntimeError(text(f"Invalid number of data points ({n}) specified", op=op, came=f"{tuple(x.shape)}"))
    return n


def _plan(op: str, x: Tensor, s: Any, dim: Any, last: bool = False) -> tuple[tuple[int, ...], list[int]]:
    """Return the dimensions and their sizes; with `last`, that of the last one is of the half-complex input."""
    s = [s] if isinstance(s, int) else s
    if dim is None:
        dims = tuple(range(x.ndim)) if s is None else tuple(range(x.ndim - len(s), x.ndim))
    else:
        dims = tuple(normalize_dim(d, x.ndim, op) for d in ([dim] if isinstance(dim, int) else dim))
    if s is not None and len(s) > x.ndim:
        raise RuntimeError(
            text(f"Got shape with {len(s)} values but input tensor only has {x.ndim} dimensions.", op=op)
        )
    if len(set(dims)) != len(dims):
        raise RuntimeError(text("FFT dims must be unique", op=op, came=f"{dim}"))
    if s is not None and dim is not None and len(s) != len(dims):
        raise RuntimeError(text("When given, dim and shape arguments must have the same length", op=op,
                                came=f"{s} and {dim}"))  # fmt: skip
    sizes = [x._a.shape[d] if s is None or s[i] == -1 else s[i] for i, d in enumerate(dims)]
    if last and dims and (s is None or s[-1] == -1):
        sizes[-1] = 2 * (x._a.shape[dims[-1]] - 1)
    for n in sizes:
        _length(op, x, n, 0, n)
    return dims, sizes


def _transform(op: str, x: Any, s: Any, dim: Any, norm: str | None, inverse: bool) -> Tensor:
    x = _floating(op, x)
    dims, sizes = _plan(op, x, s, dim)
    if len(dims) != 1 or x.is_complex():
        x = _to_complex(op, x)
    if not dims:
        return x.clone()
    for d, n in zip(dims, sizes, strict=True):
        x = _resized(x, d, n)
    if not x.is_complex():
        return _of_real(x, dim=dims[0], inverse=inverse, norm=_norm(norm))  # type: ignore[no-any-return]
    return _c2c(x, dim=dims, inverse=inverse, norm=_norm(norm))  # type: ignore[no-any-return]


def _from_real(op: str, x: Any, s: Any, dim: Any, norm: str | None) -> Tensor:
    x = _to_real(op, x)
    dims, sizes = _plan(op, x, s, dim)
    if not dims:
        raise RuntimeError(text(f"{op} must transform at least one axis", op=op))
    for d, n in zip(dims, sizes, strict=True):
        x = _resized(x, d, n)
    y = _r2c(x, dim=dims[-1], norm=_norm(norm))
    return _c2c(y, dim=dims[:-1], norm=_norm(norm)) if len(dims) > 1 else y  # type: ignore[no-any-return]


def _to_reals(op: str, x: Any, s: Any, dim: Any, norm: str | None) -> Tensor:
    x = _to_complex(op, x)
    dims, sizes = _plan(op, x, s, dim, last=True)
    if not dims:
        raise RuntimeError(text(f"{op} must transform at least one axis", op=op))
    for d, n in zip(dims[:-1], sizes, strict=False):
        x = _resized(x, d, n)
    x = _resized(x, dims[-1], sizes[-1] // 2 + 1)
    if len(dims) > 1:
        x = _c2c(x, dim=dims[:-1], inverse=True, norm=_norm(norm))
    return _c2r(x, n=sizes[-1], dim=dims[-1], norm=_norm(norm))  # type: ignore[no-any-return]


# -- the public functions ----------------------------------------------------------------------------------------------

_WHAT = {
    "fft": ("transform", "The discrete Fourier transform"),
    "ifft": ("transform", "The inverse discrete Fourier transform"),
    "rfft": ("from_real", "The non-negative half of the Fourier transform of real numbers"),
    "irfft": ("to_reals", "The real numbers of which the input is the half Fourier transform"),
    "hfft": ("to_reals", "The real Fourier transform of a signal whose other half is this one's conjugate"),
    "ihfft": ("from_real", "The inverse of `hfft`"),
}
_EXAMPLES = {
    "fft": ("[1.0, 0.0]", "tensor([1.+0.j, 1.+0.j])"), "ifft": ("[2.0, 0.0]", "tensor([1.+0.j, 1.+0.j])"),
    "rfft": ("[1.0, 0.0]", "tensor([1.+0.j, 1.+0.j])"), "irfft": ("[2.0, 0.0]", "tensor([1., 1.])"),
    "hfft": ("[1.0, 0.0]", "tensor([1., 1.])"), "ihfft": ("[2.0, 0.0]", "tensor([1.-0.j, 1.-0.j])"),
}  # fmt: skip


def _run(base: str, op: str, x: Any, s: Any, dim: Any, norm: str | None) -> Tensor:
    if base in ("hfft", "ihfft"):
        swapped = _OTHER[_norm(norm)]
        if base == "hfft":
            return _to_reals(op, _to_complex(op, x).conj(), s, dim, swapped)  # type: ignore[attr-defined]
        return _from_real(op, x, s, dim, swapped).conj()  # type: ignore[attr-defined, no-any-return]
    if base in ("fft", "ifft"):
        return _transform(op, x, s, dim, norm, base == "ifft")
    return (_from_real if base == "rfft" else _to_reals)(op, x, s, dim, norm)


def _define(base: str) -> None:
    """The functions over one dimension, over two, and over all."""
    what = _WHAT[base][1]
    given, printed = _EXAMPLES[base]

    def one(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
        return _run(base, base, input, None if n is None else [n], [dim], norm)

    def two(input: Tensor, s: Ints | None = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
        return _run(base, base + "2", input, s, dim, norm)

    def many(input: Tensor, s: Ints | None = None, dim: Dims | None = None, norm: str | None = None) -> Tensor:
        return _run(base, base + "n", input, s, dim, norm)

    for function, suffix, over, size in (
        (one, "", "`dim`", "n"), (two, "2", "the two dimensions `dim`", "s"), (many, "n", "`dim`, all by default", "s")
    ):  # fmt: skip
        name = base + suffix
        argument = given if not suffix else f"[{given}]"
        result = printed if not suffix else printed.replace("([", "([[").replace("])", "]])")
        function.__name__ = function.__qualname__ = name
        function.__doc__ = (
            f"{what} over {over}, cut or padded with zeros to `{size}`.\n\n"
            '    `norm` says where the scale 1/n is: "backward" in the inverse, "forward" in the transform, "ortho"\n'
            "    its root in both. *Raises*: RuntimeError for fewer than one point, or a half-precision type.\n\n"
            f"    >>> import core\n    >>> core.fft.{name}(core.tensor({argument}))\n    {result}\n    "
        )
        fourier(function, fast=_PLAIN.get(name, ()))


# a transform of all points without a scale of its own
_PLAIN = {
    "fft": [Fast(body="transformed(op.fft_of_real, op.fft_c2c, input, dim, Py_False, word.backward)",
                 types={"input": "any"})],
    "ifft": [Fast(body="transformed(op.fft_of_real, op.fft_c2c, input, dim, Py_True, word.backward)",
                  types={"input": "any"})],
    "rfft": [Fast(body="transformed_in_half(op.fft_r2c, input, dim, word.backward)", types={"input": "real"})],
}  # fmt: skip
for _base in _WHAT:
    _define(_base)

# -- frequencies and shifts --------------------------------------------------------------------------------------------


def _frequencies(whole: int, first: int, n: int, d: float, dtype: Dtype | None, device: Any, grad: bool) -> Tensor:
    kind = dtype or dtypes.get_default_dtype()
    values = (np.arange(first, first + whole) / (n * d)).astype(kind.numpy)
    return constant(values, core_device(device or "cpu")).requires_grad_(grad)


@fourier
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: Dtype | None = None,
    layout: Layout | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the frequencies of the elements of `fft` of n samples at a distance of `d`: the negative ones last.

    >>> import core
    >>> core.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    negative = n // 2
    f = _frequencies(n, -negative, n, d, dtype, device, False)
    return roll(f, -negative, 0).requires_grad_(requires_grad)


@fourier
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: Dtype | None = None,
    layout: Layout | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the frequencies of the elements of `rfft` of n samples at a distance of `d`.

    >>> import core
    >>> core.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    return _frequencies(n // 2 + 1, 0, n, d, dtype, device, requires_grad)


def _shift(x: Tensor, dim: int | Sequence[int] | None, sign: int) -> Tensor:
    dims = list(range(x.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    sizes = [x._a.shape[d] for d in dims]
    return roll(x, [n // 2 if sign > 0 else -(n // 2) for n in sizes], dims) if dims else x.clone()


@fourier
def fftshift(input: Tensor, dim: Dims | None = None) -> Tensor:
    """Return the frequency 0 brought to the middle of `dim`, of all dimensions by default.

    >>> import core
    >>> core.fft.fftshift(core.tensor([0, 1, -2, -1]))
    tensor([-2, -1,  0,  1])
    """
    return _shift(input, dim, 1)


@fourier
def ifftshift(input: Tensor, dim: Dims | None = None) -> Tensor:
    """Return the inverse of `fftshift`.

    >>> import core
    >>> core.fft.ifftshift(core.tensor([-2, -1, 0, 1]))
    tensor([ 0,  1, -2, -1])
    """
    return _shift(input, dim, -1)
