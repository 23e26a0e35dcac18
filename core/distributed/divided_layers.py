"""Layers of divided tensors that are computed in parts: `linear`, `embedding` and convolutions with divided weights,
norms of divided sequences. Source: Shoeybi et al., Megatron-LM, arXiv 1909.08053, section 3; Korthikanti et al., arXiv
2205.05198.

On meshes of one dimension; otherwise `DTensor` gathers the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

from ..ops.creation import zeros_like
from .collectives import all_reduce
from .dtensor import DTensor, layers, local_of, placed
from .placements import Partial, Placement, Replicate, Shard, part_of
from .redistributing import spread
from .reduce_ops import ReduceOp

__all__: list[str] = []


def layer(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register how a layer is computed in parts; NotImplemented says that it is not."""

    def register(rule: Callable[..., Any]) -> Callable[..., Any]:
        layers[name] = rule
        return rule

    return register


def _given(x: Any, mesh: Any, then: Placement) -> Any:
    """Return this process's part of an input by a placement; a tensor that is not divided is whole on each."""
    if not isinstance(x, DTensor):
        x = placed(x, mesh, [Replicate()])
    return local_of(x.redistribute(placements=[then]))


def _divided(weight: Any) -> tuple[Any, Any] | None:
    """Return the mesh of a weight and the dimension that is divided, None where no rule is for it."""
    if not isinstance(weight, DTensor) or weight._mesh.ndim != 1 or not isinstance(weight._places[0], Shard):
        return None
    return weight._mesh, weight._places[0].dim


def _of_channels(layer: Any, input: Any, weight: Any, bias: Any, channel: int, *more: Any) -> Any:
    """Compute a layer whose weight maps channels, a dimension of input and output, by parts of either.

    Of a weight that is divided along its first dimension each process computes some of the outputs; along its second
    one, all of them from some of the inputs: summands.
    """
    found = _divided(weight)
    if found is None or found[1] > 1:
        return NotImplemented
    mesh, dim = found
    if dim == 0:
        x = spread(_given(input, mesh, Replicate()), mesh.get_group())
        y = layer(x, local_of(weight), None if bias is None else _given(bias, mesh, Shard(0)), *more)
        whole = [*y.shape[:channel], weight.shape[0], *y.shape[channel + 1 :]]
        return placed(y, mesh, [Shard(channel)], whole)
    y = placed(layer(_given(input, mesh, Shard(channel)), local_of(weight), None, *more), mesh, [Partial()])
    if bias is None:
        return y
    b = _given(bias, mesh, Replicate()).view(-1, *[1] * (y.ndim - 1 - channel))
    return placed(local_of(y.redistribute(placements=[Replicate()])) + b, mesh, None)


@layer("linear")
def _linear(linear: Any, input: Any, weight: Any, bias: Any = None) -> Any:
    return _of_channels(linear, input, weight, bias, input.ndim - 1) if input.ndim else NotImplemented


def _conv(conv: Any, input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
          groups: int = 1) -> Any:  # fmt: skip
    if groups != 1:
        return NotImplemented
    channel = input.ndim - weight.ndim + 1
    return _of_channels(conv, input, weight, bias, channel, stride, padding, dilation)


layers["conv1d"] = layers["conv2d"] = layers["conv3d"] = _conv


@layer("embedding")
def _embedding(embedding: Any, input: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None,
               norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:  # fmt: skip
    found = _divided(weight)
    if found is None or max_norm is not None:
        return NotImplemented
    mesh, dim = found
    words, local = _given(input, mesh, Replicate()), local_of(weight)
    if dim == 1:
        y = embedding(words, local, padding_idx, None, norm_type, scale_grad_by_freq, sparse)
        return placed(y, mesh, [Shard(input.ndim)], (*input.shape, weight.shape[1]))
    begin, rows = part_of(weight.shape[0], mesh.size(), mesh.get_local_rank())
    if padding_idx is not None:
        padding_idx = padding_idx % weight.shape[0] - begin
        padding_idx = padding_idx if 0 <= padding_idx < rows else None
    mine = (words >= begin) & (words < begin + rows)
    if not rows:
        return placed(local.new_zeros((*input.shape, weight.shape[1])) + local.sum() * 0, mesh, [Partial()])
    places = (words - begin).where(mine, zeros_like(words))
    y = embedding(places, local, None if padding_idx is None else padding_idx, None, norm_type, scale_grad_by_freq,
                  sparse)  # fmt: skip
    return placed(y * mine.unsqueeze(-1).to(y.dtype), mesh, [Partial()])


def _norm(norm: Any, input: Any, normalized_shape: Any, *given: Any, **named: Any) -> Any:
    """Normalise each process's part of a sequence, with weights that are whole."""
    if not isinstance(input, DTensor) or input._mesh.ndim != 1:
        return NotImplemented
    (place,), mesh = input._places, input._mesh
    if not isinstance(place, Shard) or place.dim >= input.ndim - len(normalized_shape):
        return NotImplemented

    def whole(w: Any) -> Any:
        if not hasattr(w, "ndim"):
            return w
        return spread(_given(w, mesh, Replicate()), mesh.get_group())

    y = norm(local_of(input), normalized_shape, *map(whole, given), **{k: whole(w) for k, w in named.items()})
    return placed(y, mesh, [place], input._whole)


layers["layer_norm"] = layers["rms_norm"] = _norm


@layer("get_total_norm")
def _total_norm(get_total_norm: Any, tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Any:
    """Return the norm of tensors of which some are divided: that of the parts of each kind, put together."""
    p = float(norm_type)
    kinds: dict[Any, list[Any]] = {}
    for t in tensors if isinstance(tensors, list | tuple) else [tensors]:
        kinds.setdefault((t._mesh, t._places) if isinstance(t, DTensor) else None, []).append(t)
    norms = []
    for key, many in kinds.items():
        mesh, places = key or (cast(Any, None), ())
        many = [t.redistribute(placements=[Replicate() if isinstance(q, Partial) else q for q in places])
                if any(isinstance(q, Partial) for q in places) else t for t in many]  # fmt: skip
        norm = get_total_norm([local_of(t) for t in many], p)
        for k, place in enumerate(places):
            if isinstance(place, Shard):
                powered = norm if p == math.inf else norm**p
                all_reduce(powered, ReduceOp.MAX if p == math.inf else ReduceOp.SUM, mesh.get_group(k))
                norm = powered if p == math.inf else powered ** (1 / p)
        norms.append(norm)
    return get_total_norm(norms, p, error_if_nonfinite)
