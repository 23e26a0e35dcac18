"""Convolutions as people call them: `conv1d` to `conv3d` and their transposes, with all that can be wrong."""

from __future__ import annotations

from typing import Any

from ..base.errors import text
from ..declare.kinds import Ints
from ..declare.signature import Fast
from ..dispatch.publish import namespaces, public
from ..tensors.tensor import Tensor
from .conv_ops import Each, _conv, _conv_transpose
from .padding import pad

# -- checks ------------------------------------------------------------------------------------------------------------


def expanded(op: str, name: str, value: Any, n: int) -> Each:
    """Return a setting of each of `n` dimensions, from one number or n."""
    many = (value,) if isinstance(value, int) else tuple(value)
    if len(many) not in (1, n):
        raise RuntimeError(
            text(
                f"expected {name} to be a single integer value or a list of {n} values to match the convolution "
                f"dimensions, but got {name}={list(many)}",
                op=op,
            )
        )
    return tuple(int(v) for v in (many * n if len(many) == 1 else many))


def _check(
    op: str,
    n: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Each,
    padding: Each,
    dilation: Each,
    groups: int,
    transposed: bool,
) -> None:
    if not isinstance(input, Tensor) or not isinstance(weight, Tensor):
        came = ", ".join(type(t).__name__ for t in (input, weight))
        raise TypeError(text(f"{op}() received an invalid combination of arguments - got ({came})", op=op,
                             needed="input and weight as Tensor"))  # fmt: skip
    shape, w = list(input._a.shape), list(weight._a.shape)
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(
            text(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {op}, but got input of size: {shape}",
                op=op,
                remedy="reshape, or unsqueeze a dimension of channels",
            )
        )
    if len(w) != n + 2:
        raise RuntimeError(
            text(
                f"expected stride to be a single integer value or a list of {len(w) - 2} values to match the "
                f"convolution dimensions, but got stride={list(stride)}",
                op=op,
                came=f"a weight of shape {tuple(w)}",
                needed=f"{n + 2} dimensions",
            )
        )
    if input.dtype is not weight.dtype:
        raise RuntimeError(
            text(
                f"expected scalar type {input.dtype.scalar_type} but found {weight.dtype.scalar_type}",
                op=op,
                came=f"input of {input.dtype}, weight of {weight.dtype}",
                remedy=f"x.to({weight.dtype!r})",
            )
        )
    if groups <= 0:
        raise RuntimeError(text("non-positive groups is not supported", op=op, came=f"groups={groups}"))
    if any(s <= 0 for s in stride):
        raise RuntimeError(text("non-positive stride is not supported", op=op, came=f"stride={stride}"))
    if any(p < 0 for p in padding):
        raise RuntimeError(
            text(
                "negative padding is not supported",
                op=op,
                came=f"padding={padding}",
                remedy="crop with core.nn.functional.pad",
            )
        )
    if any(d <= 0 for d in dilation):
        raise RuntimeError(text(f"dilation should be greater than zero, but got {list(dilation)}", op=op))
    if w[0] < groups:
        raise RuntimeError(
            text(
                f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but "
                f"got weight of size {w} instead",
                op=op,
            )
        )
    if w[0] % groups:
        raise RuntimeError(
            text(
                f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
                f"but got weight of size [{w}] instead",
                op=op,
            )
        )
    have, want = shape[-n - 1], w[0] if transposed else w[1] * groups
    if have != want:
        given = "transposed=1" if transposed else f"groups={groups}"
        raise RuntimeError(
            text(
                f"Given {given}, weight of size {w}, expected input{shape} to have {want} channels, but got {have} "
                "channels instead",
                op=op,
                remedy=f"a layer of in_channels={have}, or channels at dimension {-n - 1}",
            )
        )
    outputs = w[1] * groups if transposed else w[0]
    if bias is not None and tuple(bias._a.shape) != (outputs,):
        start = f"Given transposed=1, weight of size {w}" if transposed else f"Given weight of size {w}"
        raise RuntimeError(
            text(
                f"{start}, expected bias to be 1-dimensional with {outputs} elements, but got bias of size "
                f"{list(bias.shape)} instead",
                op=op,
            )
        )
    if bias is not None and bias.dtype is not input.dtype:
        raise RuntimeError(
            text(f"Input type ({input.dtype.c_type}) and bias type ({bias.dtype.c_type}) should be the same", op=op)
        )
    if not transposed:
        full = [s + 2 * p for s, p in zip(shape[-n:], padding, strict=True)]
        reach = [d * (k - 1) + 1 for k, d in zip(w[2:], dilation, strict=True)]
        if any(f < r for f, r in zip(full, reach, strict=True)):
            sizes = [" x ".join(map(str, s)) for s in (full, reach)]
            raise RuntimeError(
                text(
                    f"Calculated padded input size per channel: ({sizes[0]}). Kernel size: ({sizes[1]}). Kernel size "
                    "can't be greater than actual input size",
                    op=op,
                    came=f"input {tuple(shape)}",
                    remedy="a smaller kernel, or padding",
                )
            )


def _batched(input: Tensor, n: int) -> Tensor:
    return input.unsqueeze(0) if input.ndim == n + 1 else input


def _same_padding(
    op: str, padding: str, input: Tensor, weight: Tensor, stride: Each, dilation: Each
) -> tuple[Any, Each]:
    """Return the input and the even padding that give "same" or "valid"; what is odd is added at the end."""
    n = len(stride)
    if padding == "valid":
        return input, (0,) * n
    if padding != "same":
        raise RuntimeError(text(f"Invalid padding string: '{padding}'", op=op, needed="same or valid"))
    if any(s != 1 for s in stride):
        raise RuntimeError(
            text("padding='same' is not supported for strided convolutions", op=op, came=f"stride={stride}")
        )
    total = [d * (k - 1) for d, k in zip(dilation, weight._a.shape[2:], strict=True)]
    if any(t % 2 for t in total):
        input = pad(input, [v for t in reversed(total) for v in (0, t % 2)])
    return input, tuple(t // 2 for t in total)


# -- the public functions ----------------------------------------------------------------------------------------------


def _make_conv(n: int, example: str, result: str) -> Any:
    name = f"conv{n}d"

    def function(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Ints = 1,
        padding: Ints | str = 0,
        dilation: Ints = 1,
        groups: int = 1,
    ) -> Tensor:
        stride, dilation = expanded(name, "stride", stride, n), expanded(name, "dilation", dilation, n)
        even = (0,) * n if isinstance(padding, str) else expanded(name, "padding", padding, n)
        x = input
        if isinstance(padding, str) and isinstance(weight, Tensor) and weight.ndim == n + 2:
            x, even = _same_padding(name, padding, input, weight, stride, dilation)
        _check(name, n, x, weight, bias, stride, even, dilation, groups, False)
        y = _conv(_batched(x, n), weight, bias, stride=stride, padding=even, dilation=dilation, groups=groups)
        return y if input.ndim == n + 2 else y.squeeze(0)

    sizes = ", ".join("DHW"[3 - n :] if n > 1 else "L")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Slide a window over the input; each output is the sum of its products with the weight.

    ``y[n, o, p] = Σ_(c, k) x[n, c, stride p + dilation k - padding] weight[o, c, k] + bias[o]``

    *Shapes*: input ``(N, C, {sizes})`` or without N, weight ``(O, C / groups, kernel...)``, bias ``(O)``. `padding` is
    zeros on both sides, or "same" or "valid". *Raises*: RuntimeError where the sizes do not fit.

    >>> import core
    >>> core.nn.functional.{name}({example})
    {result}
    """
    return _both(function, f"convolved(op.conv, {n}, 0, input, weight, bias, stride, padding, dilation, groups, NULL)")


def _both(function: Any, body: str = "") -> Any:
    """Public in nn.functional, and like PyTorch's in `core` too; `body`: the C function of plain calls."""
    fast = Fast(body=body, types=dict.fromkeys(("input", "weight", "bias"), "real"),
                raw=("stride", "padding", "dilation", "output_padding"))  # fmt: skip
    known = public(namespace="nn.functional", method=False, home="layers", fast=[fast] if body else [])(function)
    namespaces[""][function.__name__] = known
    return known


def _make_transpose(n: int, example: str, result: str) -> Any:
    name = f"conv_transpose{n}d"

    def function(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Ints = 1,
        padding: Ints = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        dilation: Ints = 1,
    ) -> Tensor:
        stride, dilation = expanded(name, "stride", stride, n), expanded(name, "dilation", dilation, n)
        padding, extra = expanded(name, "padding", padding, n), expanded(name, "output_padding", output_padding, n)
        if any(p < 0 for p in extra):
            raise RuntimeError(text("negative output_padding is not supported", op=name, came=f"{tuple(extra)}"))
        _check(name, n, input, weight, bias, stride, padding, dilation, groups, True)
        if any(o >= max(s, d) for o, s, d in zip(extra, stride, dilation, strict=True)):
            raise RuntimeError(
                text(
                    "output padding must be smaller than either stride or dilation",
                    op=name,
                    came=f"output_padding={extra}, stride={stride}, dilation={dilation}",
                )
            )
        x = _batched(input, n)
        sizes = zip(x._a.shape[2:], weight._a.shape[2:], stride, padding, dilation, extra, strict=True)
        out = [(m - 1) * s - 2 * p + d * (k - 1) + 1 + o for m, k, s, p, d, o in sizes]
        if min(out) <= 0:
            raise RuntimeError(
                text(
                    f"Given input size per channel: {list(x.shape[2:])}. Calculated output size per channel: {out}. "
                    "Output size is too small",
                    op=name,
                )
            )
        y = _conv_transpose(
            x, weight, bias, stride=stride, padding=padding, output_padding=extra, groups=groups, dilation=dilation
        )
        return y if input.ndim == n + 2 else y.squeeze(0)

    sizes = ", ".join("DHW"[3 - n :] if n > 1 else "L")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The transpose of `conv{n}d` as a linear map: each input spreads over a window of the output.

    *Shapes*: input ``(N, C, {sizes})`` or without N, weight ``(C, O / groups, kernel...)``, bias ``(O)``; the output
    has ``(size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1``. *Raises*: RuntimeError where
    the sizes do not fit.

    >>> import core
    >>> core.nn.functional.{name}({example})
    {result}
    """
    settings = "stride, padding, dilation, groups, output_padding"
    return _both(function, f"convolved(op.conv_transpose, {n}, 1, input, weight, bias, {settings})")


conv1d = _make_conv(1, "core.tensor([[1.0, 2.0, 4.0]]), core.tensor([[[1.0, -1.0]]])", "tensor([[-1., -2.]])")
conv2d = _make_conv(2, "core.ones(1, 1, 2, 3), core.ones(1, 1, 2, 2)", "tensor([[[[4., 4.]]]])")
conv3d = _make_conv(3, "core.ones(1, 1, 1, 2, 2), core.ones(1, 1, 1, 2, 2)", "tensor([[[[[4.]]]]])")
conv_transpose1d = _make_transpose(
    1, "core.tensor([[1.0, 2.0]]), core.tensor([[[1.0, 10.0]]])", "tensor([[ 1., 12., 20.]])"
)
conv_transpose2d = _make_transpose(2, "core.ones(1, 1, 1, 1), core.ones(1, 1, 1, 2)", "tensor([[[[1., 1.]]]])")
conv_transpose3d = _make_transpose(3, "core.ones(1, 1, 1, 1, 1), core.ones(1, 1, 1, 1, 2)", "tensor([[[[[1., 1.]]]]])")


@public(namespace="nn.functional", method=False)
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """`conv1d` of an input (time, batch, channels) with a weight (kernel, channels, out).

    >>> import core
    >>> core.nn.functional.conv_tbc(core.ones(3, 1, 2), core.ones(2, 2, 4), core.zeros(4)).shape
    core.Size([2, 1, 4])
    """
    y = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return y.permute(2, 0, 1)
