"""Pooling in one, two and three dimensions: the greatest or the mean of each window, and the reverse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from ..base.errors import text
from ..declare.kinds import Ints, Sizes
from ..declare.signature import Fast
from ..dispatch.publish import namespaces, public
from ..tensors.tensor import Tensor, from_array
from .constant import piecewise
from .elementwise import relu
from .pool_ops import Each, _adaptive_max_pool, _max_pool, _scatter_flat, _window_sum
from .resample_ops import _resample

_COUNT = {1: "one", 2: "two", 3: "three"}
_SIZES = {1: "L", 2: "H, W", 3: "D, H, W"}


def _setting(op: str, name: str, value: Any, n: int) -> Each:
    many = (value,) if isinstance(value, int) else tuple(int(v) for v in value)
    if len(many) not in (1, n):
        what = "a single int, or " if n > 1 else ""
        raise RuntimeError(
            text(f"{op}: {name} must either be {what}a tuple of {_COUNT[n]} ints", op=op, came=f"{many}")
        )
    return many * n if len(many) == 1 else many


def _out_size(n: int, k: int, s: int, p: int, d: int, ceil: bool) -> int:
    """Return the number of windows; with `ceil` one more may hang over, if it begins inside."""
    out = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil else 0)) // s + 1
    return out - 1 if ceil and (out - 1) * s >= n + p else out


def _need_dims(op: str, input: Any, n: int, max_pool: bool) -> None:
    if not isinstance(input, Tensor):
        raise TypeError(f"{op}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    shape = list(input._a.shape)
    if n == 1 and not max_pool:
        if len(shape) not in (2, 3):
            raise RuntimeError(
                text(
                    f"Expected 2 to 3 dimensions, but got {len(shape)}-dimensional tensor for argument "
                    f"#1 'self' (while checking arguments for {op})",
                    op=op,
                )
            )
    elif len(shape) not in (n + 1, n + 2):
        phrase = f"non-empty {n + 1}D or {n + 2}D (batch mode) tensor expected for input"
        if n == 1:
            phrase = (
                f"max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but "
                f"got:{shape}"
            )
        raise RuntimeError(text(phrase, op=op, came=f"shape {tuple(shape)}"))
    if 0 in shape[len(shape) - n - 1 :]:
        raise RuntimeError(
            text(
                f"Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim batch size for "
                f"input, but got:{shape}",
                op=op,
            )
        )


def _windows(
    op: str,
    input: Tensor,
    n: int,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> tuple[Each, Each, Each, Each, Each]:
    """Kernel, stride, padding, dilation and output sizes, after all that can be wrong."""
    kernel = _setting(op, "kernel_size", kernel_size, n)
    steps = kernel if stride is None or stride == [] or stride == () else _setting(op, "stride", stride, n)
    border, spread = _setting(op, "padding", padding, n), _setting(op, "dilation", dilation, n)
    if min(kernel) <= 0:
        raise RuntimeError(text("kernel size should be greater than zero, but got " + str(kernel), op=op))
    if min(steps) <= 0:
        raise RuntimeError(text("stride should not be zero" if 0 in steps else "stride must be positive", op=op))
    if min(spread) <= 0:
        raise RuntimeError(text(f"dilation should be greater than zero, but got dilation: {spread}", op=op))
    for k, p, d in zip(kernel, border, spread, strict=True):
        if p < 0:
            raise RuntimeError(text(f"pad must be non-negative, but got pad: {p}", op=op))
        if p > ((k - 1) * d + 1) // 2:
            phrase = (
                f"max_pool1d() padding should be at most half of kernel size, but got padding={p} and kernel_size={k}"
                if op == "max_pool1d"
                else f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and "
                f"dilation={d}"
            )
            raise RuntimeError(text(phrase, op=op))
    sizes = input.shape[input.ndim - n :]
    windows = list(zip(kernel, steps, border, spread, strict=True))
    if ceil_mode and any(s > d * (k - 1) + 1 - p for k, s, p, d in windows):  # no formula: one may begin outside
        sizes = input._a.shape[input.ndim - n :]
    many = [(m, *window) for m, window in zip(sizes, windows, strict=True)]
    out = tuple(_out_size(m, k, s, p, d, ceil_mode) for m, k, s, p, d in many)
    if min(out) < 1:
        planes = input._a.shape[input.ndim - n - 1]
        came, made = ("x".join(map(str, (planes, *v))) for v in (sizes, (max(o, 0) for o in out)))
        phrase = f"Given input size: ({came}). Calculated output size: ({made}). Output size is too small"
        if op == "max_pool1d":
            phrase = f"max_pool1d() Invalid computed output size: {out[0]}"
        raise RuntimeError(text(phrase, op=op, remedy="a smaller kernel, or padding"))
    return kernel, steps, border, spread, out


def _show(function: Any, name: str, doc: str, core_too: bool = True, fast: Sequence[Fast] = ()) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    known = public(namespace="nn.functional", method=False, home="layers", fast=fast)(function)
    if core_too:
        namespaces[""][name] = known
    return known


# -- the greatest ------------------------------------------------------------------------------------------------------


def _make_max(n: int) -> tuple[Any, Any]:
    name = f"max_pool{n}d"

    def both(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:
        _need_dims(name, input, n, True)
        if input.dtype.category == 0:
            raise NotImplementedError(text(f"\"{name}\" not implemented for 'Bool'", op=name, remedy="x.float()"))
        k, s, p, d, out = _windows(name, input, n, kernel_size, stride, padding, dilation, ceil_mode)
        return _max_pool(input, kernel=k, stride=s, padding=p, dilation=d, out=out)

    @overload
    def function(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
    ) -> Tensor: ...
    @overload
    def function(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        *,
        return_indices: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...
    def function(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        found = both(input, kernel_size, stride, padding, dilation, ceil_mode)
        return found if return_indices else found[0]

    example = "core.tensor([[1.0, 3.0, 2.0, 0.0]])"
    for _ in range(n - 1):
        example += ".unsqueeze(1)"
    kernel = "(" + "1, " * (n - 1) + "2)" if n > 1 else "2"
    doc = f"""The greatest element of each window. `stride` is the kernel's size unless given.

    With `ceil_mode` a last window may hang over the edge. *Shapes*: ``(N, C, {_SIZES[n]})`` or without N. *Raises*:
    RuntimeError where no window fits. `return_indices` gives the places too, for `max_unpool{n}d`.

    >>> import core
    >>> x = {example}
    >>> core.nn.functional.{name}(x, {kernel}).flatten()
    tensor([3., 2.])
    """
    plain = f"greatest(op.max_pool, {n}, input, kernel_size, stride, padding, dilation, return_indices)"
    raw = ("kernel_size", "stride", "padding", "dilation")
    shown = _show(function, name, doc, fast=[Fast(body=plain, types={"input": "real"}, raw=raw)])
    doc = f"""The values of `{name}` and their places.

    >>> import core
    >>> core.nn.functional.{name}_with_indices({example}, {kernel})[1].flatten()
    tensor([1, 2])
    """
    indices = _show(both, name + "_with_indices", doc, n == 1)
    return shown, indices


(max_pool1d, max_pool1d_with_indices), (max_pool2d, max_pool2d_with_indices), (max_pool3d, max_pool3d_with_indices) = (
    _make_max(n) for n in (1, 2, 3)
)


def _make_unpool(n: int) -> Any:
    name = f"max_unpool{n}d"

    def function(
        input: Tensor,
        indices: Tensor,
        kernel_size: int | Sequence[int],
        stride: Ints | None = None,
        padding: Ints = 0,
        output_size: Sizes | None = None,
    ) -> Tensor:
        kernel, border = _setting(name, "kernel_size", kernel_size, n), _setting(name, "padding", padding, n)
        steps = kernel if stride is None else _setting(name, "stride", stride, n)
        if indices.shape != input.shape:
            raise RuntimeError(
                text(
                    "Expected shape of indices to be: " + f"{list(input.shape)} but got: {list(indices.shape)}", op=name
                )
            )
        have = input._a.shape[input.ndim - n :]
        usual = tuple((m - 1) * s + k - 2 * p for m, s, k, p in zip(have, steps, kernel, border, strict=True))
        sizes = usual if output_size is None else tuple(int(v) for v in tuple(output_size)[-n:])
        for wanted, u, s in zip(sizes, usual, steps, strict=True):
            if not u - s < wanted < u + s:
                raise ValueError(f'invalid output_size "{sizes}" (dim must be between {u - s} and {u + s})')
        places = indices._a
        if isinstance(places, np.ndarray) and places.size and not 0 <= places.min() <= places.max() < math.prod(sizes):
            raise RuntimeError(
                text(
                    f"Found an invalid max index: {int(places.max())} (output volumes are of size "
                    + "x".join(map(str, sizes)),
                    op=name,
                )
            )
        return _scatter_flat(input, indices, sizes=sizes, add=False)

    return _show(
        function,
        name,
        f"""Put each element back at the place that `max_pool{n}d` found it at; zeros elsewhere.

    >>> import core
    >>> y = core.nn.functional.{name}(core.ones{(1, *(1,) * n)}, core.zeros{(1, *(1,) * n)}.long(), 2)
    >>> y.shape, y.sum()
    (core.Size({[1, *[2] * n]}), tensor(1.))
    """,
        False,
    )


max_unpool1d, max_unpool2d, max_unpool3d = (_make_unpool(n) for n in (1, 2, 3))

# -- the mean ----------------------------------------------------------------------------------------------------------


def _counts(sizes: Each, kernel: Each, stride: Each, padding: Each, out: Each, include_pad: bool) -> Any:
    """Return how many elements each window counts; one number where all are the same."""
    total: Any = np.ones((), np.int64)
    for m, k, s, p, o in zip(sizes, kernel, stride, padding, out, strict=True):
        first = np.arange(o) * s - p
        end = np.minimum(first + k, m + p)
        n = end - first if include_pad else np.minimum(end, m) - np.maximum(first, 0)
        total = total[..., None] * n
    return int(total.flat[0]) if (total == total.flat[0]).all() else total


def _make_avg(n: int) -> Any:
    name = f"avg_pool{n}d"

    def pooled(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        _need_dims(name, input, n, False)
        if divisor_override == 0:
            raise RuntimeError(text("divisor must be not zero", op=name))
        k, s, p, _, out = _windows(name, input, n, kernel_size, stride, padding, 1, ceil_mode)
        y = _window_sum(input, kernel=k, stride=s, padding=p, out=out)
        sizes = input._a.shape[input.ndim - n :]
        divisor = divisor_override or _counts(sizes, k, s, p, out, count_include_pad)
        if not isinstance(divisor, int):
            divisor = from_array(divisor.astype(np.float64)).to(input.device, input.dtype)
        return y / divisor if input.dtype.category > 1 else y.div(divisor, rounding_mode="trunc")

    def pooled1d(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Tensor:
        return pooled(input, kernel_size, stride, padding, ceil_mode, count_include_pad)

    kernel = "(" + "1, " * (n - 1) + "2)" if n > 1 else "2"
    plain = f"average(op.window_sum, {n}, input, kernel_size, stride, padding, count_include_pad)"
    return _show(
        pooled1d if n == 1 else pooled,
        name,
        f"""The mean of each window. `stride` is the kernel's size unless given.

    The zeros of the padding count unless `count_include_pad` is false. *Shapes*: ``(N, C, {_SIZES[n]})`` or without N.
    *Raises*: RuntimeError where no window fits.

    >>> import core
    >>> x = core.tensor([1.0, 3.0, 2.0, 0.0]).reshape{(1, *(1,) * (n - 1), 4)}
    >>> core.nn.functional.{name}(x, {kernel}).flatten()
    tensor([2., 1.])
    """,
        n == 1,
        [Fast(body=plain, types={"input": "real"}, raw=("kernel_size", "stride", "padding"))],
    )


avg_pool1d, avg_pool2d, avg_pool3d = (_make_avg(n) for n in (1, 2, 3))
_AVERAGES = {1: avg_pool1d, 2: avg_pool2d, 3: avg_pool3d}


def _make_lp(n: int) -> Any:
    name = f"lp_pool{n}d"

    def function(
        input: Tensor,
        norm_type: float,
        kernel_size: int | Sequence[int],
        stride: Ints | None = None,
        ceil_mode: bool = False,
    ) -> Tensor:
        kernel = _setting(name, "kernel_size", kernel_size, n)
        mean = _AVERAGES[n](input.pow(norm_type), kernel, stride, 0, ceil_mode)
        return (mean.sign() * relu(mean.abs())).mul(math.prod(kernel)).pow(1.0 / norm_type)

    kernel = "(" + "1, " * (n - 1) + "2)" if n > 1 else "2"
    return _show(
        function,
        name,
        f"""``(Σ x^p)^(1/p)`` of each window.

    >>> import core
    >>> x = core.tensor([3.0, 4.0]).reshape{(1, *(1,) * (n - 1), 2)}
    >>> core.nn.functional.{name}(x, 2, {kernel}).flatten()
    tensor([5.])
    """,
        False,
    )


lp_pool1d, lp_pool2d, lp_pool3d = (_make_lp(n) for n in (1, 2, 3))

# -- adaptive ----------------------------------------------------------------------------------------------------------


def _wanted(op: str, input: Tensor, n: int, output_size: Any, colon: str) -> Each:
    many = (output_size,) * n if isinstance(output_size, int) or output_size is None else tuple(output_size)
    if n > 1 and not isinstance(output_size, int) and input.ndim <= len(many):
        raise ValueError(text(f"Input dimension should be at least {len(many) + 1}", op=op,
                              came=f"a tensor of shape {tuple(input.shape)} and output_size {many}"))  # fmt: skip
    if input.ndim not in (n + 1, n + 2):
        phrase = f"{op}(): Expected {n + 1}D or {n + 2}D tensor, but got{colon} {list(input.shape)}"
        if n == 1:
            phrase = (
                f"Expected 2 to 3 dimensions, but got {input.ndim}-dimensional tensor for argument #1 'self' "
                f"(while checking arguments for {op})"
            )
        raise RuntimeError(text(phrase, op=op))
    if len(many) == 1:
        many = many * n
    if len(many) != n:
        phrase = "() argument 'output_size' should contain one int" if n == 1 else f": output_size must be {n}"
        raise RuntimeError(text(f"{op}{phrase} (got {len(many)})", op=op, came=f"{many}"))
    sizes = input._a.shape[input.ndim - n :]
    out = tuple(m if v is None else int(v) for v, m in zip(many, sizes, strict=True))
    if min(out) < 0:
        came = "{" + ", ".join(map(str, out)) + "}"
        raise RuntimeError(
            text(f"{op}: elements of output_size must be greater than or equal to 0 but received {came}", op=op)
        )
    if 0 in sizes:
        raise RuntimeError(
            text(
                f"{op}(): Expected input to have non-zero size for non-batch dimensions, but input has "
                f"sizes {list(input.shape)}",
                op=op,
            )
        )
    if input.dtype.category < 2:
        raise NotImplementedError(text(f"\"{op}\" not implemented for '{input.dtype.scalar_type}'", op=op))
    return out


_MOST_SHARED = 64  # items of a window along an axis that the kernel of max_pool takes


def _make_adaptive(n: int) -> tuple[Any, Any, Any]:
    mean_name, max_name = f"adaptive_avg_pool{n}d", f"adaptive_max_pool{n}d"

    def mean(input: Tensor, output_size: int | Sequence[int]) -> Tensor:
        out = _wanted(mean_name, input, n, output_size, "")
        if all(o == 1 for o in out):
            return input.mean(tuple(range(-n, 0)), keepdim=True)
        return piecewise(_resample(input, out=out, mode="area", align=False, scales=(None,) * n))

    def both(input: Tensor, output_size: int | Sequence[int], return_indices: bool = False) -> tuple[Tensor, Tensor]:
        out = _wanted(max_name, input, n, output_size, ":")
        sizes = input._a.shape[input.ndim - n :]
        if all(o == 1 for o in out):
            y, at = input.flatten(-n).max(-1)
            shape = (*y._a.shape, *(1,) * n)
            return y.reshape(shape), at.reshape(shape)
        if all(o and m % o == 0 and m // o <= _MOST_SHARED for o, m in zip(out, sizes, strict=True)):
            kernel = tuple(m // o for o, m in zip(out, sizes, strict=True))
            return _max_pool(input, kernel=kernel, stride=kernel, padding=(0,) * n, dilation=(1,) * n, out=out)
        return _adaptive_max_pool(input, out=out)

    @overload
    def greatest(input: Tensor, output_size: int | Sequence[int], return_indices: Literal[False] = False) -> Tensor: ...
    @overload
    def greatest(
        input: Tensor, output_size: int | Sequence[int], *, return_indices: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...
    def greatest(input: Tensor, output_size: int | Sequence[int], return_indices: bool = False) -> Any:
        found = both(input, output_size)
        return found if return_indices else found[0]

    def doc(name: str, what: str, result: str) -> str:
        return f"""The {what} of windows that share the input out evenly; `output_size` is a number, or one a dimension.

    *Shapes*: ``(N, C, {_SIZES[n]})`` or without N.

    >>> import core
    >>> x = core.tensor([1.0, 3.0, 2.0, 0.0]).reshape{(1, *(1,) * (n - 1), 4)}
    >>> core.nn.functional.{name}(x, {(None,) * (n - 1) + (2,) if n > 1 else 2}).flatten()
    {result}
    """

    shape, out = (1, *(1,) * (n - 1), 4), (None,) * (n - 1) + (2,) if n > 1 else 2
    with_places = f"""The values of `{max_name}` and their places.

    >>> import core
    >>> x = core.tensor([1.0, 3.0, 2.0, 0.0]).reshape{shape}
    >>> core.nn.functional.{max_name}_with_indices(x, {out})[1].flatten()
    tensor([1, 2])
    """
    of_means = Fast(body=f"shared_mean(op.resample, {n}, input, output_size, word.area)", types={"input": "real"},
                    raw=("output_size",))  # fmt: skip
    of_greatest = Fast(body=f"shared_greatest(op.max_pool, {n}, input, output_size, return_indices)",
                       types={"input": "real"}, raw=("output_size",))  # fmt: skip
    return (
        _show(mean, mean_name, doc(mean_name, "mean", "tensor([2., 1.])"), n == 1, [of_means]),
        _show(greatest, max_name, doc(max_name, "greatest element", "tensor([3., 2.])"), n == 1, [of_greatest]),
        _show(both, max_name + "_with_indices", with_places, False),
    )


adaptive_avg_pool1d, adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _make_adaptive(1)
adaptive_avg_pool2d, adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _make_adaptive(2)
adaptive_avg_pool3d, adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _make_adaptive(3)
