"""Gradients averaged as products of two thin matrices. Source: Vogels et al., PowerSGD, arXiv 1905.13727.

A gradient M of n x m is sent as P = M Q of n x r and then as Q = transposed(M) P of m x r, both averaged; P is made
orthogonal between. What the product P transposed(Q) lacks of M is added to the next step's gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....base.errors import text
from ....futures import Future
from ....ops.creation import zeros
from ....ops.decomposition import qr
from ....ops.joining import cat
from ....random import randn
from ....rng.generator import Generator
from ....tensors.tensor import Tensor
from ...collectives import all_reduce
from ...groups import get_world_size
from ...reducer import GradBucket
from .default_hooks import allreduce_hook

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """How gradients are compressed, and what is kept from step to step.

    process_group : the processes; all with None.
    matrix_approximation_rank : r, the columns of the thin matrices.
    start_powerSGD_iter : the step from which on they are; before it gradients are averaged as they are.
    min_compression_rate : how many times smaller the two matrices have to be, together, than a gradient.
    use_error_feedback : whether what was lost in one step is added in the next.
    warm_start : whether a step begins with the Q of the one before, rather than one drawn at random.
    random_seed : of the first Q, the same in all processes.
    orthogonalization_epsilon, compression_stats_logging_frequency, batch_tensors_with_same_shape : of no effect.

    *Raises*: ValueError for a start before step 2 of what is kept: after the first step the buckets are made anew.
    """

    def __init__(self, process_group: Any, matrix_approximation_rank: int = 1, start_powerSGD_iter: int = 1000,
                 min_compression_rate: float = 2, use_error_feedback: bool = True, warm_start: bool = True,
                 orthogonalization_epsilon: float = 0, random_seed: int = 0,
                 compression_stats_logging_frequency: int = 10000,
                 batch_tensors_with_same_shape: bool = False) -> None:  # fmt: skip
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(text("Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is "
                                  "enabled, because PowerSGD can only be applied after the first two iterations in "
                                  "DDP.",
                                  op="PowerSGDState", came=f"start_powerSGD_iter={start_powerSGD_iter}",
                                  needed="2 or more"))  # fmt: skip
        self.process_group, self.matrix_approximation_rank = process_group, matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = start_powerSGD_iter, min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.iter, self.random_seed = 0, random_seed
        self.error_dict: dict[int, Any] = {}  # by the bucket's number
        self.q_memory_dict: dict[int, list[Any]] = {}
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def compression_stats(self) -> tuple[float, int, int]:
        """Return how many times fewer elements were sent, how many there were, and how many were sent."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0.0), before, after

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a step at its last bucket."""
        self.iter += bucket.is_last()

    def rank_of(self, matrix: Any) -> int:
        """Return how many columns the thin matrices of a gradient have; 0 where it is sent as it is."""
        n, m = matrix.shape
        r = min(n, m, self.matrix_approximation_rank)
        return r if (n + m) * r * self.min_compression_rate < n * m else 0


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Average a bucket, each matrix of it by two thin ones."""
    return _hook(state, bucket, False)


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Average a bucket by two thin matrices in place of a square one of all its gradients: faster, and less exact."""
    return _hook(state, bucket, True)


def _hook(state: PowerSGDState, bucket: GradBucket, as_one: bool) -> Future[Tensor]:
    early = state.iter < state.start_powerSGD_iter
    state.maybe_increase_iter(bucket)
    if early:
        return allreduce_hook(state.process_group, bucket)
    flat: Any = bucket.buffer()
    if state.use_error_feedback:
        lost = state.error_dict.get(bucket.index())
        if lost is not None and lost.shape == flat.shape:
            flat.add_(lost)
        whole = flat.clone()
    if as_one:
        side = math.ceil(math.sqrt(flat.numel()))
        square: Any = zeros(side * side, dtype=flat.dtype, device=flat.device)
        square[: flat.numel()].copy_(flat)
        _average(state, bucket.index(), [square.view(side, side)])
        flat.copy_(square[: flat.numel()])
    else:
        _average(state, bucket.index(), _matrices(flat, bucket.parameters()))
    if state.use_error_feedback:
        state.error_dict[bucket.index()] = whole - flat
    done: Future[Tensor] = Future()
    done.set_result(flat)
    return done


def _matrices(flat: Any, params: Sequence[Any]) -> list[Any]:
    """Return the gradients of a buffer as matrices; a vector as one of a single row."""
    sizes = [p.numel() for p in params]
    rows = [p.shape[0] if p.ndim > 1 else 1 for p in params]
    return [part.view(n, -1) for part, n in zip(flat.split(sizes), rows, strict=True)]


def _summed(state: PowerSGDState, many: Sequence[Any]) -> list[Any]:
    """Return the sums of tensors over the processes, which are sent together."""
    if not many:
        return []
    flat: Any = cat([x.reshape(-1) for x in many])
    state.total_numel_after_compression += flat.numel()
    all_reduce(flat, group=state.process_group)
    return [part.view(x.shape) for part, x in zip(flat.split([x.numel() for x in many]), many, strict=True)]


def _average(state: PowerSGDState, index: int, matrices: Sequence[Any]) -> None:
    """Average matrices over the processes, in place.

    What is sent is waited for at once: all processes send the same in the same order.
    """
    n = get_world_size(state.process_group)
    state.total_numel_before_compression += sum(m.numel() for m in matrices)
    thin = [m for m in matrices if state.rank_of(m)]
    plain = [m for m in matrices if not state.rank_of(m)]
    for m, total in zip(plain, _summed(state, plain), strict=True):
        m.copy_(total / n)
    qs = state.q_memory_dict.get(index, [])
    if [q.shape[0] for q in qs] != [m.shape[1] for m in thin]:
        seed = Generator().manual_seed(state.random_seed + (0 if state.warm_start else state.iter))
        qs = [randn(m.shape[1], state.rank_of(m), generator=seed).to(m.dtype) for m in thin]
    ps = [qr(p.float())[0].to(p.dtype) for p in _summed(state, [m @ q for m, q in zip(thin, qs, strict=True)])]
    qs = [q / n for q in _summed(state, [m.T @ p for m, p in zip(thin, ps, strict=True)])]
    for m, p, q in zip(thin, ps, qs, strict=True):
        m.copy_(p @ q.T)
    if state.warm_start:
        state.q_memory_dict[index] = qs
