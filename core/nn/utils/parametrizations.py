"""Weights of a given kind: `orthogonal`, of a given length (`weight_norm`), of a largest stretch of 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.modes import no_grad
from ...declare.op import functions
from ...ops.creation import empty, eye, zeros
from ...ops.lu import householder_product
from ...ops.solving import solve
from ...tensors.tensor import Tensor
from .. import functional as F
from ..modules.conv import _ConvTranspose
from ..modules.module import Module
from . import parametrize

_f: Any = functions


# -- orthogonal --------------------------------------------------------------------------------------------------------


def _is_orthogonal(q: Any) -> bool:
    n, k = q.shape[-2:]
    eps = 10.0 * n * float(np.finfo(np.float32 if q.dtype.itemsize < 8 else np.float64).eps)
    return bool(((q.mH @ q - eye(k, dtype=q.dtype, device=q.device)).abs() <= eps).all())


def _make_orthogonal(a: Any) -> Tensor:
    """Return the factor Q of a, unique because R's diagonal is made positive."""
    x, tau = _f["geqrf"](a)
    q = householder_product(x, tau)
    return q * x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)  # type: ignore[no-any-return]


class _Orthogonal(Module):
    """An orthogonal matrix from any matrix; ``base @`` it, with a trivialization (arXiv 1909.09501)."""

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            n = max(weight.shape[-2:])
            self.register_buffer("base", zeros(*weight.shape[:-2], n, n, dtype=weight.dtype, device=weight.device))

    def forward(self, x: Any) -> Tensor:
        n, k = x.shape[-2:]
        turned = n < k
        if turned:
            x, n, k = x.mT, k, n
        if self.orthogonal_map == "householder":
            a = x.tril(-1)
            tau = 2.0 / (1.0 + (a * a).sum(-2))
            q = householder_product(a, tau)
            q = q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)  # ±1: the signs that the factors leave open
        else:
            x = x.tril()
            if n != k:
                x = _f["cat"]([x, zeros(n, n - k, dtype=x.dtype, device=x.device).expand(*x.shape[:-2], n, n - k)], -1)
            a = x - x.mH  # skew, so its exponential and its Cayley transform are orthogonal
            if self.orthogonal_map == "matrix_exp":
                q = _f["matrix_exp"](a)
            else:
                one = eye(n, dtype=a.dtype, device=a.device)
                q = solve(one - 0.5 * a, one + 0.5 * a)
            q = q if n == k else q[..., :k]
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if turned else q  # type: ignore[no-any-return]

    def right_inverse(self, q: Any) -> Tensor:
        if q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape "
                             f"{q.shape}.")  # fmt: skip
        given = q
        n, k = q.shape[-2:]
        turned = n < k
        if turned:
            q, n, k = q.mT, k, n
        if not hasattr(self, "base"):
            if self.orthogonal_map != "householder":
                raise NotImplementedError("It is not possible to assign to the matrix exponential or the Cayley "
                                          "parametrizations when use_trivialization=False.")  # fmt: skip
            a, tau = _f["geqrf"](q)
            diagonal = a.diagonal(dim1=-2, dim2=-1)
            diagonal.copy_(_f["where"](tau == 0, -1.0, 1.0) * diagonal.sign())
            return a.mT if turned else a  # type: ignore[no-any-return]
        if n != k:
            more = empty(*q.shape[:-2], n, n - k, dtype=q.dtype, device=q.device).normal_(0, 1)  # type: ignore[attr-defined]
            q = _make_orthogonal(_f["cat"]([q, more], -1))
        else:
            q = q.clone() if _is_orthogonal(q) else _make_orthogonal(q)
        self.base = q
        start: Any = zeros(*given.shape, dtype=given.dtype, device=given.device)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start  # type: ignore[no-any-return]


_MAPS = ("matrix_exp", "cayley", "householder")


def _tensor_of(module: Module, name: str) -> Tensor:
    found = getattr(module, name, None)
    if not isinstance(found, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return found


def orthogonal(module: Module, name: str = "weight", orthogonal_map: str | None = None, *,
               use_trivialization: bool = True) -> Module:  # fmt: skip
    """Keep a weight, or the last two dimensions of it, orthogonal: with orthonormal columns, or rows where it is wide.

    orthogonal_map : ``"matrix_exp"`` (the default of square matrices), ``"cayley"`` or ``"householder"``.
    use_trivialization : move away from the value it has now instead of from the identity; it may then be assigned to.

    *Raises*: ValueError for a tensor of one dimension, or one that is not there. Source: arXiv 1909.09501.

    >>> import core
    >>> layer = core.nn.utils.parametrizations.orthogonal(core.nn.Linear(3, 3))
    >>> bool(core.allclose(layer.weight @ layer.weight.T, core.eye(3), atol=1e-5))
    True
    """
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1] or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError('orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
                         f"{orthogonal_map}")  # fmt: skip
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


# -- lengths -----------------------------------------------------------------------------------------------------------


def norm_except_dim(v: Any, dim: int | None) -> Any:
    """Return the norms of the slices along `dim`, of the whole tensor where that is None or -1."""
    if dim is None or dim == -1:
        return v.norm(2)
    rest = [d for d in range(v.ndim) if d != dim % v.ndim]
    return v.norm(2, rest, keepdim=True) if rest else v.abs()


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Return a weight as a length, ``original0``, times a direction, ``original1``, for every slice along `dim`.

    State dicts of the older `nn.utils.weight_norm` (``weight_g``, ``weight_v``) load too. Source: arXiv 1602.07868.

    >>> import core
    >>> layer = core.nn.utils.parametrizations.weight_norm(core.nn.Linear(2, 3))
    >>> layer.parametrizations.weight.original0.shape
    core.Size([3, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def from_older(_: Any, state_dict: Any, prefix: str, *rest: Any) -> None:
        old = (f"{prefix}{name}_g", f"{prefix}{name}_v")
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module.register_load_state_dict_pre_hook(from_older)
    return module


# -- the largest stretch -----------------------------------------------------------------------------------------------


class _SpectralNorm(Module):
    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if dim >= weight.ndim or dim < -weight.ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] "
                             f"but got {dim})")  # fmt: skip
        if n_power_iterations <= 0:
            raise ValueError("Expected n_power_iterations to be positive, but got "
                             f"n_power_iterations={n_power_iterations}")  # fmt: skip
        self.dim, self.eps, self.n_power_iterations = dim % weight.ndim, eps, n_power_iterations
        if weight.ndim > 1:
            with no_grad():
                matrix = self._matrix(weight)
                u, v = (matrix.new_empty(n).normal_(0, 1) for n in matrix.shape)
                self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
                self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
                self._power_method(matrix, 15)

    def _matrix(self, weight: Any) -> Any:
        return (weight.movedim(self.dim, 0) if self.dim else weight).flatten(1)

    def _power_method(self, matrix: Any, n: int) -> None:
        with no_grad():
            for _ in range(n):
                self._u.copy_(F.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.mH.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Any) -> Any:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # copies, since the next power iteration writes these in place
        u, v = self._u.clone(), self._v.clone()
        return weight / u.vdot(matrix.mv(v))

    def right_inverse(self, value: Any) -> Any:
        return value


def default_dim(module: Module) -> int:
    """Return where a layer has its output channels."""
    return 1 if isinstance(module, _ConvTranspose) else 0


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
                  dim: int | None = None) -> Module:  # fmt: skip
    """Return a weight divided by its largest singular value, which a power iteration follows while the module trains.

    *Raises*: ValueError for a tensor that is not there, or no iterations. Source: arXiv 1802.05957.

    >>> import core
    >>> layer = core.nn.utils.parametrizations.spectral_norm(core.nn.Linear(20, 40))
    >>> float(core.linalg.matrix_norm(layer.weight, 2).detach()) < 1.2
    True
    """
    weight = _tensor_of(module, name)
    made = _SpectralNorm(weight, n_power_iterations, default_dim(module) if dim is None else dim, eps)
    return parametrize.register_parametrization(module, name, made)


__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
