"""Hooks that average gradients: as they are, or rounded to 16 bits on their way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base.dtypes import bfloat16, float16
from ....futures import Future
from ....tensors.tensor import Tensor
from ...collectives import all_reduce
from ...groups import get_world_size
from ...reducer import GradBucket

__all__ = ["allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook",
           "fp16_compress_wrapper"]  # fmt: skip

Hook = Callable[[Any, GradBucket], Future[Any]]


def _averaged(group: Any, x: Any) -> Future[Any]:
    x.div_(get_world_size(group))
    work: Any = all_reduce(x, group=group, async_op=True)
    return work.get_future()  # type: ignore[no-any-return]


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Average a bucket, as is done without a hook."""
    return _averaged(process_group, bucket.buffer()).then(lambda done: done.value()[0])


def _compressed(dtype: Any, group: Any, bucket: GradBucket) -> Future[Tensor]:
    buffer: Any = bucket.buffer()
    return _averaged(group, buffer.to(dtype)).then(lambda done: buffer.copy_(done.value()[0]))


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Average a bucket in float16: each process's share is divided by their number first, so that sums do not overflow.

    What is larger than 65504 times that number becomes infinite.
    """
    return _compressed(float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Average a bucket in bfloat16."""
    return _compressed(bfloat16, process_group, bucket)


def _wrapper(dtype: Any, hook: Hook) -> Hook:
    def compressed(state: Any, bucket: GradBucket) -> Future[Tensor]:
        whole: Any = bucket.buffer()
        bucket.set_buffer(whole.to(dtype))
        return hook(state, bucket).then(lambda done: whole.copy_(done.value()))

    return compressed


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that gives another one its bucket in float16."""
    return _wrapper(float16, hook)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that gives another one its bucket in bfloat16."""
    return _wrapper(bfloat16, hook)
