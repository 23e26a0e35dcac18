"""The CPU's kernels of windows as columns and back (native/kernels/fold.c)."""

from __future__ import annotations

from ..declare.kernel import kernel

_SETTINGS = (
    "struct('fold_settings', counts=list_of(len(kernel), len(dilation), len(padding), len(stride)), kernel=kernel,"
    " dilation=dilation, padding=padding, stride=stride)"
)

kernel(
    "im2col",
    "x: real[...], kernel: ints, dilation: ints, padding: ints, stride: ints",
    plan=f"fold_plan: unfold_planned(address(plan), x.shape, x.ndim, {_SETTINGS})",
    gives="y: real[plan]",
    call="unfold.T(address(plan), x, y)",
    quiet="sizes_multiplied(plan.shape, plan.ndim) >= 8192",
    requires={"x.ndim == 4 and x.size": "takes images that have items"},
)
kernel(
    "col2im",
    "x: real[...], kernel: ints, dilation: ints, padding: ints, stride: ints, sizes: ints",
    plan=f"fold_plan: fold_planned(address(plan), x.shape, x.ndim, sizes, len(sizes), {_SETTINGS})",
    gives="y: real[plan]",
    call="fold.T(address(plan), x, y)",
    quiet="x.size >= 8192",
    requires={"x.ndim == 3 and x.size": "takes columns that have items"},
)
