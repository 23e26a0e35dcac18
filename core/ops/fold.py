"""Images as columns of patches, and columns added back to an image: F.unfold and F.fold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends.convolve import add_windows, padded, windows
from ..base.errors import text
from ..declare.kinds import Ints
from ..dispatch.autocast import behind
from ..dispatch.declare import operation
from ..dispatch.publish import namespaces, public
from ..tensors.tensor import Tensor
from .conv_ops import Each, _out_sizes
from .precision import rounded, wide


def _unfold_forward(xp: Any, x: Any, kernel: Each, dilation: Each, padding: Each, stride: Each) -> Any:
    out = _out_sizes(x.shape[2:], kernel, stride, padding, dilation)
    view = windows(xp, padded(xp, x, tuple((p, p) for p in padding)), kernel, out, stride, dilation)
    return xp.ascontiguousarray(view).reshape(x.shape[0], x.shape[1] * math.prod(kernel), math.prod(out))


def _fold_forward(xp: Any, x: Any, sizes: Each, kernel: Each, dilation: Each, padding: Each, stride: Each) -> Any:
    out = _out_sizes(sizes, kernel, stride, padding, dilation)
    channels = x.shape[1] // math.prod(kernel)
    cols = wide(x).reshape(x.shape[0], channels, *kernel, *out)
    y = xp.zeros((channels, x.shape[0], *sizes), cols.dtype)
    add_windows(xp.moveaxis(cols, 0, 1 + len(kernel)), y, stride, padding, dilation)
    return rounded(xp.ascontiguousarray(xp.swapaxes(y, 0, 1)), x.dtype)


_SETS: list[tuple[Each, dict[str, Each]]] = [
    ((4, 3), {"kernel": (2, 2), "dilation": (1, 1), "padding": (0, 1), "stride": (2, 1)}),
    ((4, 4), {"kernel": (2, 3), "dilation": (2, 1), "padding": (1, 0), "stride": (1, 1)}),
]
_PARAMS = {"kernel": (), "dilation": (), "padding": (), "stride": ()}
_unfold = operation(
    "im2col",
    _unfold_forward,
    params=_PARAMS,
    vjp=lambda g, x_shape, kernel, dilation, padding, stride: _fold(
        g, sizes=x_shape[2:], kernel=kernel, dilation=dilation, padding=padding, stride=stride
    ),
    samples=lambda rng: [((rng.uniform(-1, 1, (2, 2, *s)),), p) for s, p in _SETS],
    doc="The windows of an image as columns.",
)


def _fold_samples(rng: Any) -> list[Any]:
    return [((_unfold_forward(np, rng.uniform(-1, 1, (2, 2, *s)), **p),), {**p, "sizes": s}) for s, p in _SETS]


_fold: Any = operation(
    "col2im",
    _fold_forward,
    params={**_PARAMS, "sizes": ()},
    vjp=lambda g, kernel, dilation, padding, stride: _unfold(
        g, kernel=kernel, dilation=dilation, padding=padding, stride=stride
    ),
    samples=_fold_samples,
    doc="Columns added back to the windows they came from.",
)


def _pair(op: str, name: str, value: Any) -> Each:
    many = (value,) if isinstance(value, int) else tuple(int(v) for v in value)
    if len(many) not in (1, 2):
        raise RuntimeError(text(f"It is expected {name} equals to 2, but got size {len(many)}", op=op))
    return many * 2 if len(many) == 1 else many


def _settings(op: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> dict[str, Each]:
    found = {
        "kernel": _pair(op, "kernel_size", kernel_size),
        "dilation": _pair(op, "dilation", dilation),
        "padding": _pair(op, "padding", padding),
        "stride": _pair(op, "stride", stride),
    }
    for name in ("kernel", "dilation", "stride"):
        if min(found[name]) <= 0:
            shown = {"kernel": "kernel size"}.get(name, name)
            raise RuntimeError(text(f"{shown} should be greater than zero, but got {name}: {found[name]}", op=op))
    if min(found["padding"]) < 0:
        raise RuntimeError(text(f"padding should be non-negative, but got {found['padding']}", op=op))
    return found


@behind
def unfold(
    input: Tensor, kernel_size: int | Sequence[int], dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> Tensor:
    """Every window of an image as a column.

    *Shapes*: ``(N, C, H, W) -> (N, C kernel, windows)``, or without N.

    >>> import core
    >>> core.nn.functional.unfold(core.tensor([[[[1.0, 2.0, 3.0]]]]), (1, 2))
    tensor([[[1., 2.],
             [2., 3.]]])
    """
    if input.ndim not in (3, 4) or 0 in input.shape[input.ndim - 3 :]:
        raise RuntimeError(
            text(
                "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
                f"dimensions for input, but got: {list(input.shape)}",
                op="unfold",
            )
        )
    found = _settings("unfold", kernel_size, dilation, padding, stride)
    out = _out_sizes(input._a.shape[-2:], found["kernel"], found["stride"], found["padding"], found["dilation"])
    if min(out) < 1:
        raise RuntimeError(
            text(
                f"Given input with spatial size {tuple(input.shape[-2:])}, kernel_size={found['kernel']}, "
                f"dilation={found['dilation']}, padding={found['padding']}, calculated shape of the array of sliding "
                f"blocks as {out}, but its components must be at least one.",
                op="unfold",
            )
        )
    y = _unfold(input.unsqueeze(0) if input.ndim == 3 else input, **found)
    return y.squeeze(0) if input.ndim == 3 else y


namespaces["nn.functional"]["unfold"] = unfold  # `core.unfold` and the method are another function


@public(namespace="nn.functional", method=False)
def fold(
    input: Tensor,
    output_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    dilation: Ints = 1,
    padding: Ints = 0,
    stride: Ints = 1,
) -> Tensor:
    """Columns of windows added up to an image: the transpose of `unfold`.

    *Shapes*: ``(N, C kernel, windows) -> (N, C, *output_size)``, or without N.

    >>> import core
    >>> core.nn.functional.fold(core.ones(1, 2, 2), (1, 3), (1, 2))
    tensor([[[[1., 2., 1.]]]])
    """
    sizes = _pair("fold", "output_size", output_size)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            text(
                "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
                f"dimensions for input, but got: {list(input.shape)}",
                op="fold",
            )
        )
    found = _settings("fold", kernel_size, dilation, padding, stride)
    rows, columns = input._a.shape[-2:]
    area = math.prod(found["kernel"])
    if rows % area:
        raise RuntimeError(
            text(
                "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
                f"input.size(1)={rows} and kernel_size={found['kernel']}.",
                op="fold",
            )
        )
    out = _out_sizes(sizes, found["kernel"], found["stride"], found["padding"], found["dilation"])
    if min(out) < 1 or math.prod(out) != columns:
        raise RuntimeError(
            text(
                f"Given output_size={sizes}, kernel_size={found['kernel']}, dilation={found['dilation']}, "
                f"padding={found['padding']}, stride={found['stride']}, expected size of input's dimension 2 to match "
                f"the calculated number of sliding blocks {out[0]} * {out[1]} = {math.prod(out)}, but got "
                f"input.size(2)={columns}.",
                op="fold",
            )
        )
    y = _fold(input.unsqueeze(0) if input.ndim == 2 else input, sizes=sizes, **found)
    return y.squeeze(0) if input.ndim == 2 else y
