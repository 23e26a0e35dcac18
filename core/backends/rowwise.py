"""The CPU's kernels over rows: softmax, layer norm, cross entropy, embedding (native/kernels/softmax.c, norm.c, loss.c,
embedding.c)."""

from __future__ import annotations

from ..declare.kernel import kernel

for _name in ("softmax", "log_softmax"):
    kernel(
        _name,
        "x: real[*rows, n, *inner], dim: axis(n)",
        gives="y: real[*rows, n, *inner]",
        call=f"{_name}_forward.T(x, y, rows, n, inner)",
    )
    kernel(
        f"{_name}.backward",
        "g: real[*rows, n, *inner], y: real[*rows, n, *inner], dim: axis(n)",
        gives="gx: real[*rows, n, *inner]",
        call=f"{_name}_backward.T(g, y, gx, rows, n, inner)",
    )

kernel(
    "layer_norm",
    "x: real[*rows, *n], weight: real[*n]?, bias: real[*n]?, normalized_ndim: len(n), eps: float",
    gives="y: real[*rows, *n], mean: real[*rows], rstd: real[*rows]",
    call="layer_norm_forward.T(x, weight, bias, y, mean, rstd, rows, n, eps)",
)
kernel(
    "layer_norm.backward",
    "g: real[*rows, *n], x: real[*rows, *n], weight: real[*n]?, mean: real[*rows], rstd: real[*rows], "
    "weight_dtype: any_object, bias_dtype: any_object, normalized_ndim: len(n), eps: any_object, needs: any_object",
    gives="gx: real[*rows, *n], gw: real[*n], gb: real[*n]",
    call="layer_norm_backward.T(g, x, mean, rstd, weight, gx, gw, gb, rows, n)",
    fails="memory",
)

_OUT_OF_BOUNDS = "Target %lld is out of bounds.", "target"
kernel(
    "cross_entropy",
    "x: real[rows, classes], target: int64[rows], weight: real[classes]?, ignore_index: int, label_smoothing: float",
    gives="loss: real[rows], lse: real[rows]",
    call="cross_entropy_forward.T(x, target, weight, loss, lse, rows, classes,"
    " value('loss_options', ignore_index, label_smoothing))",
    fails=_OUT_OF_BOUNDS,
    takes=("0 <= label_smoothing <= 1",),
)
kernel(
    "cross_entropy.backward",
    "g: real[rows], x: real[rows, classes], target: int64[rows], weight: real[classes]?, lse: real[rows], "
    "ignore_index: int, label_smoothing: float, needs: needs",
    gives="gx: real[rows, classes], None, None",
    call="cross_entropy_backward.T(g, x, lse, target, weight, gx, rows, classes,"
    " value('loss_options', ignore_index, label_smoothing))",
    fails=_OUT_OF_BOUNDS,
    takes=("0 <= label_smoothing <= 1",),
    requires={"not needs[2]": "gives no gradient of the class weights"},
)

kernel(
    "embedding",
    "weight: real[count, n], index: int64[*rows] < count, padding_idx: any_object, scale_grad_by_freq: any_object",
    gives="y: real[*rows, n]",
    call="embedding_forward(weight, index, y, rows, n * weight.item)",
    quiet="True",
    half=False,
)
kernel(
    "embedding.backward",
    "g: real[*rows, n], index: int64[*rows] < count, weight_shape: shape[count, n], padding_idx: int, "
    "scale_grad_by_freq: flag",
    gives="gtable: real[count, n], None",
    call="embedding_backward.T(g, index, gtable, rows, count, n, padding_idx)",
    quiet="g.size + count * n >= 8192",
    requires={"not scale_grad_by_freq": "does not scale by frequency"},
)
