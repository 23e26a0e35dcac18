"""Scales moved from activations into weights, so that a few large features no longer widen the steps of all others.

Source: Xiao et al., SmoothQuant, arXiv 2211.10438.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...base.errors import text
from ...base.modes import no_grad
from ...base.source import warn
from ...nn import LayerNorm, RMSNorm
from ...nn.modules.linear import Linear
from .calibrating import inputs_of, run_batches

__all__ = ["smooth_", "smoothing_pairs"]

Pair = tuple[Any, list[Any]]


def smoothing_pairs(model: Any, batch: Any) -> list[Pair]:
    """Return each `LayerNorm` or `RMSNorm` with the `Linear` layers that are given what it gives, as seen on a
    batch."""
    given: dict[int, tuple[Any, Any]] = {}
    found: dict[Any, list[Any]] = {}

    def after(norm: Any, args: Any, output: Any) -> None:
        given[id(output)] = (norm, output)  # which keeps it, and so its id, alive

    def look(layer: Any, x: Any) -> None:
        if id(x) in given:
            found.setdefault(given[id(x)][0], []).append(layer)

    norms = [m for m in model.modules() if type(m) in (LayerNorm, RMSNorm) and m.weight is not None]
    hooks = [n.register_forward_hook(after) for n in norms]
    hooks += inputs_of([m for m in model.modules() if type(m) is Linear], look)
    try:
        run_batches(model, [batch], "smooth_")
    finally:
        for hook in hooks:
            hook.remove()
    return [(norm, layers) for norm, layers in found.items() if len(norm.weight.shape) == 1]


def smooth_(model: Any, batches: Iterable[Any], alpha: float = 0.5, pairs: list[Pair] | None = None) -> list[Pair]:
    """Divide what norms give by a factor for each feature, and multiply the weights behind them: the model's results
    stay.

    The factor is ``max|x| ** alpha / max|w| ** (1 - alpha)``, of the inputs on `batches` and the weights. Call it
    before `quantize_` with a config that rounds inputs.

    Parameters
    ----------
    alpha : 0 leaves the difficulty with the inputs, 1 moves all of it into the weights.
    pairs : norms, each with the linear layers behind it. Without them those that `smoothing_pairs` finds; a norm whose
        result is used elsewhere too would change the model, and is left as it was, with a warning.

    Returns
    -------
    The pairs that were changed.

    >>> import core
    >>> model = core.nn.Sequential(core.nn.LayerNorm(4), core.nn.Linear(4, 2))
    >>> x = core.randn(8, 4)
    >>> before = model(x)
    >>> len(core.ao.quantization.smooth_(model, [x])), core.allclose(before, model(x), atol=1e-5)
    (1, True)
    """
    if not 0 <= alpha <= 1:
        raise ValueError(text("alpha must be from 0 to 1", op="smooth_", came=f"{alpha}"))
    many = list(batches)
    if not many:
        run_batches(model, many, "smooth_")  # which says so
    pairs = smoothing_pairs(model, many[0]) if pairs is None else pairs
    most: dict[Any, Any] = {}

    def look(layer: Any, x: Any) -> None:
        top = x.detach().reshape(-1, x.shape[-1]).abs().amax(0)
        most[layer] = top.maximum(most[layer]) if layer in most else top

    hooks = inputs_of([layers[0] for _, layers in pairs], look)
    try:
        run_batches(model, many, "smooth_")
    finally:
        for hook in hooks:
            hook.remove()
    names, changed = {m: n for n, m in model.named_modules()}, []
    for norm, layers in pairs:
        weights = layers[0].weight.detach().abs().amax(0)
        for layer in layers[1:]:
            weights = weights.maximum(layer.weight.detach().abs().amax(0))
        factor = most[layers[0]].clamp(min=1e-5) ** alpha / weights.clamp(min=1e-5) ** (1 - alpha)
        if _moved(model, many[0], norm, layers, factor):
            changed.append((norm, layers))
        else:
            warn(f"smooth_: '{names[norm]}' is left as it was: what it gives is used elsewhere too, beside "
                 f"{', '.join(repr(names[m]) for m in layers)}")  # fmt: skip
    return changed


def _moved(model: Any, batch: Any, norm: Any, layers: list[Any], factor: Any) -> bool:
    """Move a factor from a norm into the weights behind it; take it back, and give False, where results change."""
    before = _results(model, batch)
    parts = [norm.weight, getattr(norm, "bias", None), *(layer.weight for layer in layers)]
    kept = [None if p is None else p.detach().clone() for p in parts]
    with no_grad():
        for p, by in zip(parts, [1 / factor, 1 / factor, *[factor] * len(layers)], strict=True):
            if p is not None:
                p.mul_(by)
    after = _results(model, batch)
    close = all(float((a - b).abs().max()) <= 1e-3 * float(a.abs().max()) + 1e-6
                for a, b in zip(before, after, strict=True))  # fmt: skip
    if not close:
        with no_grad():
            for p, old in zip(parts, kept, strict=True):
                if p is not None:
                    p.copy_(old)
    return close


def _results(model: Any, batch: Any) -> list[Any]:
    """Return the floating tensors that a model gives for a batch."""
    found: list[Any] = []

    def gather(module: Any, args: Any, output: Any) -> None:
        outs = output.values() if isinstance(output, dict) else output if isinstance(output, tuple | list) else [output]
        found.extend(t for t in outs if getattr(t, "dtype", None) is not None and t.dtype.category == 2)

    hook = model.register_forward_hook(gather)
    try:
        run_batches(model, [batch], "smooth_")
    finally:
        hook.remove()
    return found
