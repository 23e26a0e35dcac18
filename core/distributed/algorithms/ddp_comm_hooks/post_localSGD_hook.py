"""Gradients averaged over all processes at first, later within subgroups only. Source: arXiv 1808.07217.

`PostLocalSGDOptimizer` averages the parameters meanwhile.
"""

from __future__ import annotations

from typing import Any

from ....futures import Future
from ....tensors.tensor import Tensor
from ...reducer import GradBucket
from .default_hooks import allreduce_hook

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """The groups, and from which step on only `subgroup` averages: nothing at all with `post_local_gradient_allreduce`
    False."""

    def __init__(self, process_group: Any, subgroup: Any, start_localSGD_iter: int,
                 post_local_gradient_allreduce: bool = True) -> None:  # fmt: skip
        self.process_group, self.subgroup, self.start_localSGD_iter = process_group, subgroup, start_localSGD_iter
        self.post_local_gradient_allreduce, self.iter = post_local_gradient_allreduce, 0


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Average a bucket over all processes before the step that the state names, afterwards over its subgroup."""
    early = state.iter < state.start_localSGD_iter
    if bucket.is_last():
        state.iter += 1
    if early or state.post_local_gradient_allreduce:
        return allreduce_hook(state.process_group if early else state.subgroup, bucket)
    done: Future[Tensor] = Future()
    done.set_result(bucket.buffer())
    return done
