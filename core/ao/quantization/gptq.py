"""Weights of few bits, rounded with the layer's inputs in view.

Column by column: a column is rounded, and the columns behind it take over what that changed in the layer's results, as
far as the inputs' second moments H let them. Source: Frantar et al., GPTQ, arXiv 2210.17323.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...base.errors import text
from ...nn.modules.linear import Linear
from ...ops.creation import from_numpy
from ..nn.quantized.forms import Ints
from ..nn.quantized.layers import kept_class
from .calibrating import inputs_of, run_batches
from .configs import Int4WeightOnlyConfig, keep

__all__ = ["gptq_"]

_BLOCK = 64  # columns whose errors are collected before the rest takes them over


def gptq_(model: Any, batches: Iterable[Any], group_size: int = 128, damping: float = 0.01,
          filter_fn: Callable[[Any, str], bool] | None = None) -> None:  # fmt: skip
    """Keep the weights of a model's linear layers in 4 bits, rounded so that their results on `batches` change least.

    Parameters
    ----------
    batches : inputs of the model, or pairs of inputs and labels, of which the first is taken; some hundred rows a
    layer. group_size : as in `Int4WeightOnlyConfig`, of which this makes the same layers.
    damping : added to the diagonal of the inputs' second moments, as a part of its mean.
    filter_fn : called with a module and its path; without one all `Linear` layers.

    *Raises*: ValueError without batches, or where a layer saw none of them.

    >>> import core
    >>> model = core.nn.Sequential(core.nn.Linear(16, 4))
    >>> core.ao.quantization.gptq_(model, [core.randn(32, 16)], group_size=16)
    >>> model
    Sequential(
      (0): QuantizedLinear(in_features=16, out_features=4, bias=True, weight=4 bits in groups of 16)
    )
    """
    wants = filter_fn or (lambda module, name: True)
    layers = {m: n for n, m in model.named_modules() if type(m) is Linear and wants(m, n)}
    moments: dict[Any, Any] = {}
    rows: dict[Any, int] = dict.fromkeys(layers, 0)

    def look(layer: Any, x: Any) -> None:
        flat = x.detach().reshape(-1, x.shape[-1]).double()
        moments[layer] = moments.get(layer, 0) + flat.T @ flat
        rows[layer] += len(flat)

    hooks = inputs_of(layers, look)
    try:
        run_batches(model, batches, "gptq_")
    finally:
        for hook in hooks:
            hook.remove()
    config = Int4WeightOnlyConfig(group_size)
    for layer, name in layers.items():
        if not rows[layer]:
            raise ValueError(text("a layer saw no inputs", op="gptq_", came=f"'{name}' did not run",
                                  remedy="leave it out with filter_fn, or give batches that reach it"))  # fmt: skip
        form: Any = config.form(layer.weight)
        if form.fits(layer.weight):
            config.change(layer, name)  # which warns
            continue
        moment = (moments[layer] * (2 / rows[layer])).cpu().numpy()
        packed = rounded_by_inputs(layer.weight, moment, form, damping)
        keep(layer, _kept(layer), {"weight": form}, "", {"weight": packed})


def _kept(layer: Any) -> type[Any]:
    found = kept_class(layer)
    assert found is not None, "a Linear has one"
    return found


def _inverse(moment: np.ndarray[Any, Any], damping: float) -> np.ndarray[Any, Any]:
    """Return the upper triangular U with U.T @ U the inverse of the damped moments."""
    h = moment.copy()
    dead = np.diag(h) == 0
    h[dead, dead] = 1
    h[np.diag_indices_from(h)] += damping * np.mean(np.diag(h))
    return np.linalg.cholesky(np.linalg.inv(h)).T


def rounded_by_inputs(weight: Any, moment: np.ndarray[Any, Any], form: Ints, damping: float = 0.01) -> dict[str, Any]:
    """Return a weight (out, in) packed in a form, its whole numbers chosen for inputs of these second moments (in, in).

    A group's scale and zero are those of its weights when its first column is reached.
    """
    w = weight.detach().double().cpu().numpy().copy()
    n = w.shape[1]
    group = form.group or n
    u = _inverse(moment, damping)
    w[:, np.diag(moment) == 0] = 0  # of an input that is always 0
    q = np.zeros_like(w)
    scales, zeros = [], []
    low, high = form.range
    for start in range(0, n, _BLOCK):
        end = min(start + _BLOCK, n)
        errors = np.zeros((len(w), end - start))
        for i in range(start, end):
            if i % group == 0:
                scale, zero = (t.double().numpy()[:, 0] for t in Ints(form.bits, None, form.symmetric).scales(
                    from_numpy(_group(w, u, errors, start, i, group).astype(np.float32))))  # fmt: skip
                scales.append(scale)
                zeros.append(zero)
            q[:, i] = np.clip(np.rint(w[:, i] / np.where(scale == 0, 1, scale) + zero), low, high)
            errors[:, i - start] = (w[:, i] - (q[:, i] - zero) * scale) / u[i, i]
            w[:, i + 1 : end] -= np.outer(errors[:, i - start], u[i, i + 1 : end])
        w[:, end:] -= errors @ u[start:end, end:]
    kept = (from_numpy(a.astype(np.float32)).to(weight.device) for a in
            (q, np.stack(scales, 1), np.stack(zeros, 1)))  # fmt: skip
    return form.packed(weight, *kept)


def _group(w: Any, u: Any, errors: Any, start: int, first: int, group: int) -> np.ndarray[Any, Any]:
    """Return a group's weights as they are with all errors so far; those behind the block have not taken them over."""
    found = w[:, first : first + group].copy()
    behind = max(start + _BLOCK, first)
    if behind < first + group:
        found[:, behind - first :] -= errors @ u[start : start + errors.shape[1], behind : first + group]
    return found  # type: ignore[no-any-return]
