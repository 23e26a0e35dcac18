"""Complex numbers: parts, conjugates, angles, and which elementwise ops take them.

The gradient of a real loss with respect to a complex z = x + iy is dL/dx + i dL/dy, as in PyTorch: for a
complex-differentiable f, g times the conjugate of f'. The engine conjugates around the vjps (`Op.holomorphic`); the ops
here that are not complex-differentiable say their gradients outright.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

from ..base import dtypes
from ..base.dtypes import complex64, complex128
from ..base.errors import text
from ..base.shape import broadcast_shapes
from ..declare import op as declarations
from ..declare.kinds import MemoryFormat
from ..declare.op import Elementwise
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.operands import need_tensors
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .constant import constant
from .elementwise import atan2, cos, exp, isnan, sin, sqrt
from .precision import wide
from .queries import need_format
from .views import _H, _mT
from .where import where

_REAL = {complex64: dtypes.float32, complex128: dtypes.float64}
_COMPLEX = {dtypes.float32: complex64, dtypes.float64: complex128}


def _declare(name: str, forward: Any, vjp: Any, **how: Any) -> Any:
    """Return an op whose vjp is in the convention already."""
    made = operation(name, forward, vjp=vjp, **how)
    made.op.holomorphic = False  # type: ignore[attr-defined]
    return made


def _sample_pairs(rng: Any) -> list[Any]:
    return [((rng.uniform(-2, 2, (3, 2)),), {})]


def _sample_number(rng: Any) -> list[Any]:
    return [((rng.uniform(-2, 2, (2, 3)) + 1j * rng.uniform(-2, 2, (2, 3)),), {})]


# -- parts ------------------------------------------------------------------------------------------------------------


def _complex_forward(xp: Any, real: Any, imag: Any) -> Any:
    out = xp.empty(real.shape, xp.result_type(real.dtype, xp.complex64))
    out.real, out.imag = real, imag
    return out


def _as_pairs(xp: Any, x: Any) -> Any:
    return x[..., None].view(x.real.dtype)


def _real_vjp(g: Tensor, x_dtype: Any) -> Tensor:
    return g.to(x_dtype)


def _imag_vjp(g: Tensor) -> Tensor:
    return _complex(g * 0.0, g)


_complex = _declare("complex", _complex_forward, (lambda g: _real(g), lambda g: _imag(g)), inputs="real imag",
                    samples=lambda rng: [((rng.uniform(-2, 2, (2, 3)), rng.uniform(-2, 2, (2, 3))), {})])  # fmt: skip
_real: Any = _declare("real", lambda xp, x: x.real, _real_vjp, view=True, samples=_sample_number)
_imag: Any = _declare("imag", lambda xp, x: x.imag, _imag_vjp, view=True, samples=_sample_number)
_view_as_real = _declare(
    "view_as_real", _as_pairs, lambda g: _view_as_complex(g.contiguous()), view=True, samples=_sample_number
)
_view_as_complex: Any = _declare(
    "view_as_complex",
    lambda xp, x: wide(x).view(xp.result_type(x.dtype, xp.complex64))[..., 0],
    lambda g: _view_as_real(g),
    view=True,
    samples=_sample_pairs,
)
_conj: Any = _declare("conj", lambda xp, x: xp.conj(x), lambda g: _conj(g), samples=_sample_number)


def _is_complex(t: Any, op: str) -> bool:
    if not isinstance(t, Tensor):
        raise TypeError(f"{op}(): argument 'input' (position 1) must be Tensor, not {type(t).__name__}")
    return t.dtype.category == 3


_COMPLEX_ONLY = ("PyArray_ISCOMPLEX({input})",)


@public(method=False, fast=[Fast(op="real(input)", types={"input": "any"}, check=_COMPLEX_ONLY)])
def real(input: Tensor) -> Tensor:
    """Return the real parts, a view; a real tensor is its own.

    >>> import core
    >>> core.real(core.tensor([1 + 2j]))
    tensor([1.])
    """
    return _real(input) if _is_complex(input, "real") else input


@public(method=False, fast=[Fast(op="imag(input)", types={"input": "any"}, check=_COMPLEX_ONLY)])
def imag(input: Tensor) -> Tensor:
    """Return the imaginary parts, a view. *Raises*: RuntimeError for a real tensor.

    >>> import core
    >>> core.imag(core.tensor([1 + 2j]))
    tensor([2.])
    """
    if not _is_complex(input, "imag"):
        raise RuntimeError(text("imag is not implemented for tensors with non-complex dtypes.", op="imag",
                                came=str(input.dtype), remedy="torch.zeros_like(x)"))  # fmt: skip
    return _imag(input)


def _set_part(part: Any) -> Any:
    def setter(self: Tensor, value: Any) -> None:
        part(self)[...] = value

    return setter


Tensor.real = property(real, _set_part(real), doc="The real parts, a view.")  # type: ignore[assignment, method-assign]
Tensor.imag = property(imag, _set_part(imag), doc="The imaginary parts, a view.")  # type: ignore[assignment, method-assign]


@public(method=False, fast=[Fast(op="view_as_real(input)", types={"input": "any"}, check=_COMPLEX_ONLY)])
def view_as_real(input: Tensor) -> Tensor:
    """Return a view with a last dimension of size 2: the real and the imaginary part.

    >>> import core
    >>> core.view_as_real(core.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    if not _is_complex(input, "view_as_real"):
        raise RuntimeError(text("view_as_real is only supported for complex tensors", op="view_as_real",
                                came=str(input.dtype)))  # fmt: skip
    return _view_as_real(input)


@public(method=False)
def view_as_complex(input: Tensor) -> Tensor:
    """Return a view without the last dimension, of size 2, which held the real and the imaginary part.

    >>> import core
    >>> core.view_as_complex(core.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    if input.dtype not in _COMPLEX:
        raise RuntimeError(text(
            f"view_as_complex is only supported for floating point tensors, but got a tensor of scalar type: "
            f"{input.dtype.scalar_type}", op="view_as_complex", remedy="x.float()"))  # fmt: skip
    if input.ndim == 0:
        raise RuntimeError(text("Input tensor must have one or more dimensions", op="view_as_complex"))
    if input._a.shape[-1] != 2:
        raise RuntimeError(text("Tensor must have a last dimension of size 2", op="view_as_complex",
                                came=f"shape {tuple(input.shape)}"))  # fmt: skip
    if input._a.strides[-1] != input._a.itemsize:
        raise RuntimeError(text("Tensor must have a last dimension with stride 1", op="view_as_complex",
                                remedy="x.contiguous()"))  # fmt: skip
    return _view_as_complex(input)


@public(method=False, home="rearranged", state="quiet",
        fast=[Fast(body="complex_of(real, imag)", types={"real": "real", "imag": "real"})])  # fmt: skip
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """``real + imag i``; the two broadcast and have one dtype, float32 or float64.

    >>> import core
    >>> core.complex(core.tensor([1.0]), core.tensor([2.0]))
    tensor([1.+2.j])
    """
    need_tensors("complex", ("real", "imag"), (real, imag))
    if real.dtype not in _COMPLEX:
        raise RuntimeError(text("Expected both inputs to be Half, Float or Double tensors but got "
                                f"{real.dtype.scalar_type} and {imag.dtype.scalar_type}", op="complex"))  # fmt: skip
    if real.dtype is not imag.dtype:
        raise RuntimeError(text(f"Expected object of scalar type {real.dtype.scalar_type} but got scalar type "
                                f"{imag.dtype.scalar_type} for second argument", op="complex"))  # fmt: skip
    shape = broadcast_shapes(real._a.shape, imag._a.shape, op="complex")
    return _complex(real.expand(shape), imag.expand(shape))


@public(method=False)
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """``abs * exp(i angle)``.

    >>> import core
    >>> core.polar(core.tensor([2.0]), core.tensor([0.0]))
    tensor([2.+0.j])
    """
    need_tensors("polar", ("abs", "angle"), (abs, angle))
    return complex(abs * cos(angle), abs * sin(angle))


# -- conjugate, absolute value, angle ----------------------------------------------------------------------------------


@public("conj_physical", inplace=True)
def conj(input: Tensor) -> Tensor:
    """Return the complex conjugates; a real tensor is its own.

    >>> import core
    >>> core.conj(core.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return _conj(input) if _is_complex(input, "conj") else input


@public("resolve_neg")
def resolve_conj(input: Tensor) -> Tensor:
    """Return the tensor itself: conjugates are never left for later here.

    >>> import core
    >>> core.resolve_conj(core.tensor([1 + 2j]))
    tensor([1.+2.j])
    """
    need_tensors("resolve_conj", ("input",), (input,))
    return input


@public("is_neg")
def is_conj(input: Tensor) -> bool:
    """Return whether a conjugate was left for later: never.

    >>> import core
    >>> core.is_conj(core.tensor([1 + 2j]).conj())
    False
    """
    return False


@public(method=False)
def is_complex(input: Tensor) -> bool:
    """Return whether the dtype is complex64 or complex128.

    >>> import core
    >>> core.is_complex(core.tensor([1j]))
    True
    """
    return _is_complex(input, "is_complex")


def _abs_vjp(g: Tensor, x: Tensor) -> Tensor:
    return g * sgn(x)


_abs = _declare("complex_abs", lambda xp, x: xp.abs(x), _abs_vjp, label="abs", samples=_sample_number)


def sgn(x: Tensor) -> Tensor:
    """x / |x|; 0 at 0."""
    size = _abs(x)
    nothing = size == 0
    return where(nothing, x * 0, x / where(nothing, 1.0, size))


@public()
def angle(input: Tensor) -> Tensor:
    """Return the angle in the complex plane, in radians; of real numbers 0 or pi.

    >>> import core
    >>> core.angle(core.tensor([1j, -1 + 0j]))
    tensor([1.5708, 3.1416])
    """
    if _is_complex(input, "angle"):
        nothing = (input == 0).detach()  # the gradient at 0 is 0, as in PyTorch
        x = where(nothing, 1.0, input)
        return where(nothing, 0.0, atan2(_imag(x), _real(x)))
    y = input if input.dtype.category == 2 else input.to(dtypes.get_default_dtype())
    still = y.detach()
    return constant(where(isnan(still), still, (still < 0).to(y.dtype) * math.pi), y)


def _conjugate_transposed(input: Tensor) -> Tensor:
    return conj(_mT(input))


Tensor.mH = property(_conjugate_transposed, doc="As mT, conjugated.")  # type: ignore[assignment, method-assign]


def _adjoint(input: Tensor) -> Tensor:
    return conj(_H(input))


Tensor.H = property(_adjoint, doc="As T of a matrix, conjugated.")  # type: ignore[assignment, method-assign]


@public()
def adjoint(input: Tensor) -> Tensor:
    """Return the transposed matrices, conjugated.

    >>> import core
    >>> core.adjoint(core.tensor([[1j, 2 + 1j]]))
    tensor([[0.-1.j],
            [2.-1.j]])
    """
    return _conjugate_transposed(input) if input.ndim else input.clone()  # type: ignore[attr-defined]


Tensor.__complex__ = lambda self: builtins.complex(self.item())  # type: ignore[assignment, method-assign, attr-defined]

for _name, _kind in (("cfloat", complex64), ("cdouble", complex128)):

    def _convert(self: Tensor, memory_format: MemoryFormat | None = None, *, _kind: Any = _kind) -> Tensor:
        if memory_format is not None:
            need_format(_kind.name, memory_format)
        return self.to(_kind, memory_format=memory_format)

    _convert.__name__, _convert.__doc__ = _name, f"As {_kind.name}."
    setattr(Tensor, _name, _convert)


# -- elementwise ops of complex numbers --------------------------------------------------------------------------------

_AS_THEY_ARE = (
    "mul true_divide neg square cube reciprocal add sub pow_tensor pow_scalar scalar_pow lerp exp expm1 log log2 log10 "
    "log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh atanh eq ne where isnan isinf isfinite "
    "logical_and logical_or logical_xor logical_not add_product add_quotient sinc tanh_gradient tanh_curve"
)


def _sigmoid(x: Tensor) -> Tensor:
    return 1.0 / (1.0 + exp(-x))


_acosh = operation(  # a formula of roots and a logarithm is wrong at signed zeros left of 0, and at infinities
    "complex_acosh", lambda xp, x: xp.arccosh(x), vjp=lambda g, x: g / (sqrt(x - 1) * sqrt(x + 1)), label="acosh",
    samples=_sample_number,
)  # fmt: skip

_OTHERS = {"abs": _abs, "sign": sgn, "sigmoid": _sigmoid, "exp2": lambda x: exp(x * math.log(2)), "acosh": _acosh,
           "silu": lambda x: x * _sigmoid(x), "absolute_error": lambda a, b: _abs(a - b)}  # fmt: skip
for _name, _op in declarations.table.items():
    if isinstance(_op, Elementwise):
        _form: Any = _op if _name in _AS_THEY_ARE.split() else _OTHERS.get(_name)
        _op.complex_form = _form

# Of these NumPy has an answer for complex numbers and PyTorch none: they have no order.
_ORDERED = (
    "amax amin argmax argmin max_dim min_dim sort topk kthvalue median mode cummax cummin unique softmax log_softmax"
)


def _refusing(name: str, forward: Any) -> Any:
    def refuse(xp: Any, x: Any, *others: Any, **params: Any) -> Any:
        if x.dtype.kind == "c":
            kind = dtypes.from_numpy(x.dtype).scalar_type
            raise NotImplementedError(
                text(f'"{name}" not implemented for {kind!r}', op=name, needed="real numbers", remedy="x.abs()")
            )
        return forward(xp, x, *others, **params)

    return refuse


for _name in _ORDERED.split():
    _structured: Any = declarations.table[_name]
    _structured.forward = _refusing(_structured.label, _structured.forward)
