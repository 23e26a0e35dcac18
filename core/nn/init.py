"""How weights start: every function fills a tensor in place, outside the graph, and gives it back."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..base.modes import no_grad
from ..base.source import warn
from ..ops.creation import empty_like
from ..ops.creation import tensor as make
from ..ops.where import where
from ..random import randperm
from ..tensors.tensor import Tensor

_GAINS = {"sigmoid": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4} | dict.fromkeys(
    ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), 1.0
)

_skipping = False


@contextlib.contextmanager
def skipped() -> Iterator[None]:
    """Within it nothing is filled or drawn, for `nn.utils.skip_init`."""
    global _skipping
    before, _skipping = _skipping, True
    try:
        yield
    finally:
        _skipping = before


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much weights are scaled so that an activation keeps the variance.

    >>> import core
    >>> core.nn.init.calculate_gain("leaky_relu", 1.0)
    1.0
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _fan(tensor: Tensor, mode: str) -> int:
    modes = ["fan_in", "fan_out"]
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode.lower()} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform from `a` to `b`.

    >>> import core
    >>> core.nn.init.uniform_(core.empty(3), 2.0, 2.0)
    tensor([2., 2., 2.])
    """
    if _skipping:
        return tensor
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)  # type: ignore[attr-defined, no-any-return]


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with that mean and standard deviation."""
    if _skipping:
        return tensor
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)  # type: ignore[attr-defined, no-any-return]


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Every element `val`.

    >>> import core
    >>> core.nn.init.constant_(core.empty(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    if _skipping:
        return tensor
    with no_grad():
        return tensor.fill_(val)  # type: ignore[attr-defined, no-any-return]


def ones_(tensor: Tensor) -> Tensor:
    """Every element 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Every element 0."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Return the identity matrix.

    >>> import core
    >>> core.nn.init.eye_(core.empty(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return _assign(tensor, np.eye(*tensor.shape))


def _assign(tensor: Tensor, values: Any) -> Tensor:
    if _skipping:
        return tensor
    with no_grad():
        return tensor.copy_(make(values, dtype=tensor.dtype, device=tensor.device))  # type: ignore[attr-defined, no-any-return]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform with standard deviation ``gain * sqrt(2 / (fan_in + fan_out))``. Source: Glorot and Bengio, 2010."""
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with standard deviation ``gain * sqrt(2 / (fan_in + fan_out))``."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor)))), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op")
        return None
    return calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))


def kaiming_uniform_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                     generator: Any = None) -> Tensor:  # fmt: skip
    """Uniform with standard deviation ``gain / sqrt(fan)``, `a` the slope of a leaky ReLU. Source: arXiv 1502.01852."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                    generator: Any = None) -> Tensor:  # fmt: skip
    """Normal with standard deviation ``gain / sqrt(fan)``."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0, std, generator)


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
                  generator: Any = None) -> Tensor:  # fmt: skip
    """Normal, with values outside `a` to `b` drawn anew.

    >>> import core
    >>> bool((core.nn.init.trunc_normal_(core.empty(100)).abs() <= 2).all())
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect."
        )

    if _skipping or tensor.device.type == "meta":
        return tensor

    def below(x: float) -> float:
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    with no_grad():
        if below(b) - below(a) > 0.3:  # most draws fall inside: draw from the normal, and again what fell outside
            values: Any = tensor.normal_(mean, std, generator=generator)  # type: ignore[attr-defined]
            while True:
                outside = (values < a) | (values > b)
                if not outside.any():
                    return tensor if values is tensor else tensor.copy_(values)  # type: ignore[attr-defined, no-any-return]
                values = where(outside, empty_like(values).normal_(mean, std, generator=generator), values)
        # few would: draw uniformly, and accept by the height of the density over its highest point in the interval
        top = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
        values = tensor.uniform_(a, b, generator=generator)  # type: ignore[attr-defined]

        def rejected(x: Any) -> Any:
            height = ((x - mean) / std) ** 2 * -0.5 - top
            return empty_like(x).uniform_(0.0, 1.0, generator=generator).log() > height

        pending = rejected(values)
        while pending.any():
            fresh = empty_like(values).uniform_(a, b, generator=generator)  # type: ignore[attr-defined]
            values = where(pending, fresh, values)
            pending = pending & rejected(fresh)
        return tensor if values is tensor else tensor.copy_(values)  # type: ignore[attr-defined, no-any-return]


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Return a matrix with orthonormal rows or columns, times `gain`. Source: arXiv 1312.6120.

    >>> import core
    >>> w = core.nn.init.orthogonal_(core.empty(3, 3, dtype=core.float64))
    >>> bool(((w @ w.T - core.eye(3, dtype=core.float64)).abs() < 1e-9).all())
    True
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or _skipping:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with no_grad():
        flat = empty_like(tensor).reshape(rows, columns).normal_(0, 1, generator=generator)  # type: ignore[attr-defined]
    a = np.asarray(flat.cpu()._a, np.float64)
    q, r = np.linalg.qr(a.T if rows < columns else a)
    q = q * np.sign(np.diag(r))  # makes the factor unique, hence uniform over the orthogonal matrices
    return _assign(tensor, ((q.T if rows < columns else q) * gain).reshape(tuple(tensor.shape)))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Return a convolution's weight that hands its input through, as many channels of each group as there are.

    *Raises*: ValueError unless there are 3, 4 or 5 dimensions, the first divisible by `groups`.

    >>> import core
    >>> core.nn.init.dirac_(core.empty(2, 2, 3))
    tensor([[[0., 1., 0.],
             [0., 0., 0.]],
    <BLANKLINE>
            [[0., 0., 0.],
             [0., 1., 0.]]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    shape = tuple(tensor.shape)
    if shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    each, middle = shape[0] // groups, tuple(n // 2 for n in shape[2:])
    values = np.zeros(shape)
    for g in range(groups):
        for i in range(min(each, shape[1])):
            values[(g * each + i, i, *middle)] = 1
    return _assign(tensor, values)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal with mean 0, and the share `sparsity` of each column 0. Source: Martens, 2010.

    *Raises*: ValueError for what is no matrix.

    >>> import core
    >>> (core.nn.init.sparse_(core.empty(10, 3), 0.3) == 0).sum(0)
    tensor([3, 3, 3])
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    if _skipping:
        return tensor
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        t: Any = tensor.normal_(0, std, generator=generator)  # type: ignore[attr-defined]
        for j in range(columns):
            t[randperm(rows, device=tensor.device)[:zeros], j] = 0
    return tensor


def _older(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function under its name of long ago, without the underscore."""
    name = f.__name__[:-1]

    def old(*args: Any, **kwargs: Any) -> Tensor:
        warn(f"`torch.nn.init.{name}` is now deprecated in favor of `torch.nn.init.{name}_`.", FutureWarning)
        return f(*args, **kwargs)

    old.__name__ = old.__qualname__ = name
    old.__doc__ = f"As `{name}_`, which is its newer name."
    return old


uniform, normal, constant, eye, dirac = (
    _older(uniform_),
    _older(normal_),
    _older(constant_),
    _older(eye_),
    _older(dirac_),
)
xavier_uniform, xavier_normal = _older(xavier_uniform_), _older(xavier_normal_)
kaiming_uniform, kaiming_normal = _older(kaiming_uniform_), _older(kaiming_normal_)
orthogonal, sparse = _older(orthogonal_), _older(sparse_)
