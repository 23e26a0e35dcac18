"""`SyncBatchNorm`: batch norm over the batches of all processes."""

from __future__ import annotations

from typing import Any

from ...autograd.function import Function, once_differentiable
from ...base.dtypes import float64
from ...base.errors import text
from ...base.modes import no_grad
from ...distributed.collectives import all_gather_into_tensor, all_reduce
from ...distributed.groups import get_world_size, is_initialized
from ...ops.creation import empty, full, zeros
from ...ops.joining import cat
from ...ops.moments import var_mean
from ...tensors.tensor import Tensor
from .. import functional as F
from .batchnorm import _BatchNorm
from .module import Module

__all__ = ["SyncBatchNorm"]


def _others(x: Tensor) -> list[int]:
    return [0, *range(2, x.ndim)]


def _statistics(x: Any, group: Any) -> tuple[Any, Any, float]:
    """Return mean and variance of each channel over all processes, in float64, and how many values a channel has."""
    channels, count = x.shape[1], x.numel() // max(x.shape[1], 1)
    var, mean = var_mean(x, _others(x), correction=0) if count else (zeros(channels), zeros(channels))
    mine = cat([mean.to(float64), var.to(float64), full((1,), float(count), dtype=float64)])
    every: Any = empty(get_world_size(group), 2 * channels + 1, dtype=float64)
    all_gather_into_tensor(every.view(-1), mine, group)
    means, variances, counts = every[:, :channels], every[:, channels:-1], every[:, -1:]
    total = float(counts.sum())
    if total <= 1:
        raise ValueError(text("Expected more than 1 value per channel when training", op="SyncBatchNorm",
                              came=f"input size {tuple(x.shape)} on each rank"))  # fmt: skip
    mean = (means * counts).sum(0) / total
    return mean, ((variances + (means - mean) ** 2) * counts).sum(0) / total, total


class _Normalised(Function):
    """Batch norm by given statistics, of which the gradient is that of all processes' inputs."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, mean: Any, var: Any, total: float, eps: float,
                group: Any) -> Any:  # fmt: skip
        ctx.save_for_backward(x, weight, mean, (var + eps).rsqrt())
        ctx.total, ctx.group = total, group
        return F.batch_norm(x, mean, var, weight, bias, False, 0.0, eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        x, weight, mean, scale = ctx.saved_tensors
        shape = [1, -1] + [1] * (x.ndim - 2)
        centred = x - mean.view(shape)
        sums = cat([g.sum(_others(x)), (g * centred).sum(_others(x))])
        g_bias, g_weight = sums[: len(mean)].clone(), sums[len(mean) :] * scale
        all_reduce(sums, group=ctx.group)
        of_g, of_product = (sums / ctx.total).chunk(2)
        g_x = g - of_g.view(shape) - centred * (of_product * scale * scale).view(shape)
        g_x = g_x * (scale if weight is None else scale * weight).view(shape)
        return g_x, g_weight, g_bias, None, None, None, None, None


class SyncBatchNorm(_BatchNorm):
    """Batch norm over the batches of all processes of a group, of inputs with at least 2 dimensions.

    In training each process sends two sums of each channel in the forward pass and two in the backward pass. Processes
    may have batches of different sizes, or none. Over one process, and in evaluation, it is batch norm.

    >>> import core
    >>> model = core.nn.Sequential(core.nn.BatchNorm1d(2))
    >>> core.nn.SyncBatchNorm.convert_sync_batchnorm(model)[0]
    SyncBatchNorm(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, process_group: Any = None, device: Any = None, dtype: Any = None, *,
                 bias: bool = True) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        if not (self.training and is_initialized() and get_world_size(self.process_group) > 1):
            return super().forward(input)
        self._check(input)
        factor = self._count_batch()
        with no_grad():
            mean, var, total = _statistics(input.detach(), self.process_group)
            for running, new in ((self.running_mean, mean), (self.running_var, var * (total / (total - 1)))):
                if running is not None and self.track_running_stats:
                    running.mul_(1 - factor).add_(new.to(running.dtype), alpha=factor)  # type: ignore[attr-defined]
            kind = input.dtype
            mean, var = mean.to(kind), var.to(kind)
        return _Normalised.apply(input, self.weight, self.bias, mean, var, total, self.eps,  # type: ignore[no-any-return]
                                 self.process_group)  # fmt: skip

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Return the module with every batch norm within made one of these; parameters and buffers are the same
        objects."""
        out = module
        if isinstance(module, _BatchNorm):
            made = SyncBatchNorm(module.num_features, module.eps, module.momentum, module.affine,
                                 module.track_running_stats, process_group, bias=module.bias is not None)  # fmt: skip
            for name, p in module._parameters.items():
                made._parameters[name] = p
            for name, b in module._buffers.items():
                made._buffers[name] = b
            made.training, out = module.training, made
        for name, child in list(module.named_children()):
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out
