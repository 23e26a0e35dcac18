"""Fractional max pooling: windows of one size at steps that vary at random. Source: Graham, arXiv 1412.6071."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from ..base.errors import text
from ..declare.kinds import Ints
from ..dispatch.publish import public
from ..random import rand
from ..tensors.tensor import Tensor, from_array
from .constant import piecewise


def _starts(sample: Any, n: int, out: int, kernel: int) -> Any:
    """Return where the windows begin, (..., out), for the numbers in `sample`."""
    last = np.full((*sample.shape, 1), n - kernel)
    if out == 1:
        return last
    alpha = (n - kernel) / (out - 1)
    steps = ((np.arange(out - 1) + sample[..., None]) * alpha).astype(np.int64)
    return np.concatenate([steps - (sample[..., None] * alpha).astype(np.int64), last], -1)


def _places(samples: Any, sizes: Any, out: Any, kernel: Any) -> Any:
    """Return the flat places of every window, (N, C, out..., kernel...); `samples` (N, C, one for each dimension)."""
    n = len(sizes)
    order = range(n) if n == 3 else (1, 0)  # in two dimensions the first number is the width's, as in PyTorch
    flat: Any = 0
    for d in range(n):
        start = _starts(samples[..., order[d]], sizes[d], out[d], kernel[d])
        shape = (*start.shape[:2], *(out[d] if i == d else 1 for i in range(n)), *(1,) * n)
        inner = np.arange(kernel[d]).reshape([kernel[d] if i == d else 1 for i in range(n)])
        flat = flat * sizes[d] + (start.reshape(shape) + inner)
    return flat


def _sizes(
    name: str,
    n: int,
    input: Tensor,
    kernel_size: Any,
    output_size: Any,
    output_ratio: Any,
) -> Any:
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            text(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(input.shape)}", op=name)
        )

    def many(v: Any) -> tuple[Any, ...]:
        return tuple(v) if isinstance(v, tuple | list) else (v,) * n

    kernel, sizes = many(kernel_size), tuple(input._a.shape[-n:])
    if output_size is None:
        ratios = many(output_ratio)
        if len(ratios) > n:
            raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
        out = tuple(int(m * r) for m, r in zip(sizes, ratios, strict=True))
    else:
        out = tuple(int(v) for v in many(output_size))
    for m, o, k in zip(sizes, out, kernel, strict=True):
        if o < 1 or o + k - 1 > m:
            raise RuntimeError(
                text(f"{name}(): pool size {k} and output size {o} too large relative to input size {m}", op=name,
                     needed="output size + pool size - 1 at most the input's")
            )  # fmt: skip
    return kernel, sizes, out


def _make(n: int) -> tuple[Any, Any]:
    name = f"fractional_max_pool{n}d"

    def both(
        input: Tensor,
        kernel_size: int | Sequence[int],
        output_size: Ints | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        kernel, sizes, out = _sizes(name, n, input, kernel_size, output_size, output_ratio)
        x = input.unsqueeze(0) if input.ndim == n + 1 else input
        lead = tuple(x._a.shape[:2])
        if _random_samples is None:
            _random_samples = rand((*lead, n), dtype=input.dtype, device=input.device)
        samples = _random_samples.detach()[: lead[0]].cpu().double().numpy()  # without a batch the first, as in PyTorch
        places = _places(samples, sizes, out, kernel).reshape(*lead, math.prod(out), math.prod(kernel))
        places = from_array(places).to(input.device)
        window = x.flatten(2).gather(2, places.flatten(2)).reshape(places.shape)
        y, which = window.max(-1)
        y = piecewise(y)
        at = places.gather(3, which.unsqueeze(-1)).squeeze(-1)
        shape = (*(lead if input.ndim == n + 2 else lead[1:]), *out)
        return y.reshape(shape), at.reshape(shape)

    @overload
    def function(
        input: Tensor,
        kernel_size: int | Sequence[int],
        output_size: Ints | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: Literal[False] = False,
        _random_samples: Tensor | None = None,
    ) -> Tensor: ...
    @overload
    def function(
        input: Tensor,
        kernel_size: int | Sequence[int],
        output_size: Ints | None = None,
        output_ratio: float | Sequence[float] | None = None,
        *,
        return_indices: Literal[True],
        _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]: ...
    def function(
        input: Tensor,
        kernel_size: int | Sequence[int],
        output_size: Ints | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        found = both(input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
        return found if return_indices else found[0]

    def show(f: Any, shown: str, first: str, what: str) -> Any:
        f.__name__ = f.__qualname__ = shown
        f.__doc__ = f"""{first}

    >>> import core
    >>> x = core.ones{(1, 1, *(4,) * n)}
    >>> core.nn.functional.{shown}(x, 2, output_size=2){what}.shape
    core.Size({[1, 1, *[2] * n]})
    """
        return public(namespace="nn.functional", method=False)(f)

    first = "The greatest element of windows at random steps, which share the input out into `output_size`."
    return (show(function, name, first, ""),
            show(both, name + "_with_indices", f"The values of `{name}` and their places.", "[1]"))  # fmt: skip


fractional_max_pool2d, fractional_max_pool2d_with_indices = _make(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _make(3)
