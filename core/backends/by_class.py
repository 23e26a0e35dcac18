"""The CPU's kernels over class indices: the negative log likelihood, its gradient, and rows with a single 1
(native/kernels/classes.c)."""

from __future__ import annotations

from ..declare.kernel import kernel

kernel(
    "nll_loss",
    "x: real[rows, classes], target: int64[rows], weight: real[classes]?, ignore_index: int",
    gives="y: real[rows]",
    call="nll_loss.T(x, target, weight, y, rows, classes, ignore_index)",
    fails="declines",  # what is no class: the reference says which
    quiet="False",
    misfit=True,
)
kernel(
    "nll_loss.backward",
    "g: real[rows], x: real[rows, classes], target: int64[rows], weight: real[classes]?, ignore_index: int, "
    "needs: needs",
    gives="gx: real[rows, classes], None, None",
    call="nll_loss_backward.T(g, target, weight, gx, rows, classes, ignore_index)",
    fails="declines",
    quiet="False",
    misfit=True,
    requires={"not needs[2]": "gives no gradient of the class weights"},
)
kernel(
    "one_hot_rows",
    "index: int64[*rows], classes: int",
    gives="y: int64[*rows, classes]",
    call="one_hot(index, y, rows, classes)",
    quiet="False",
    requires={
        "index.ndim < 16": "takes fewer than 16 dimensions",
        "classes >= 0": "takes no negative number of classes",
    },
)
