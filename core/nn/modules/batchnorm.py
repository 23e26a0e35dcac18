"""Normalisation by channel: `BatchNorm1d` to `3d`, `InstanceNorm1d` to `3d` and `GroupNorm`."""

from __future__ import annotations

from typing import Any

from ...base import dtypes
from ...base.lazy_import import lazy_attributes
from ...ops.creation import empty, ones, tensor, zeros
from ...tensors.tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import MaybeParameter, Parameter
from .module import Module


class _Norm(Module):
    """Scale and shift of each channel, and running statistics where they are tracked."""

    _version = 2  # since then, states have the number of batches
    dims: tuple[int, ...] = (2, 3)
    weight: MaybeParameter
    bias: MaybeParameter
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(self, num_features: int, eps: float, momentum: float | None, affine: bool, track_running_stats: bool,
                 device: Any, dtype: Any, bias: bool) -> None:  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            made = Parameter(empty(num_features, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)
        kind = {"device": device, "dtype": dtype}
        for name, make in (("running_mean", zeros), ("running_var", ones)):
            self.register_buffer(name, make(num_features, **kind) if track_running_stats else None)
        count = tensor(0, dtype=dtypes.int64, device=device) if track_running_stats else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batches seen."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0, and the running statistics anew."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: dict[str, Any],
                              *rest: Any) -> None:  # fmt: skip
        key = prefix + "num_batches_tracked"
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats and key not in state_dict:
            mine = self.num_batches_tracked
            state_dict[key] = tensor(0, dtype=dtypes.int64) if mine is None else mine
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _check(self, input: Tensor) -> None:
        if input.ndim not in self.dims:
            many = " or ".join(f"{d}D" for d in self.dims)
            raise ValueError(f"expected {many} input (got {input.ndim}D input)")

    def extra_repr(self) -> str:
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}")  # fmt: skip


class _BatchNorm(_Norm):
    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Any = None, dtype: Any = None, *,
                 bias: bool = True) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def _count_batch(self) -> float:
        """Count a batch in training; return how much of it goes into the running statistics."""
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean of all batches so far
                factor = 1.0 / float(self.num_batches_tracked)
        return factor

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        factor = self._count_batch()
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        use = not self.training or self.track_running_stats
        return F.batch_norm(input, self.running_mean if use else None, self.running_var if use else None, self.weight,
                            self.bias, by_batch, factor, self.eps)  # fmt: skip


class BatchNorm1d(_BatchNorm):
    """Each channel normalised over the batch, in evaluation by the running statistics. Source: arXiv 1502.03167.

    *Shapes*: ``(N, C)`` or ``(N, C, L)``. `momentum` None means the mean over all batches.

    >>> import core
    >>> core.nn.BatchNorm1d(1)(core.tensor([[1.0], [3.0]])).detach()
    tensor([[-1.0000],
            [ 1.0000]])
    """

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Each channel of images ``(N, C, H, W)`` normalised over the batch. Source: arXiv 1502.03167.

    >>> import core
    >>> core.nn.BatchNorm2d(3)(core.ones(2, 3, 4, 4)).shape
    core.Size([2, 3, 4, 4])
    """

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Each channel of volumes ``(N, C, D, H, W)`` normalised over the batch. Source: arXiv 1502.03167.

    >>> import core
    >>> core.nn.BatchNorm3d(3)(core.ones(2, 3, 2, 2, 2)).shape
    core.Size([2, 3, 2, 2, 2])
    """

    dims = (5,)


class _InstanceNorm(_Norm):
    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device: Any = None, dtype: Any = None, *,
                 bias: bool = True) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        alone = input.ndim == self.dims[0]
        x: Tensor = input.unsqueeze(0) if alone else input
        if x.shape[1] != self.num_features and self.affine:
            raise ValueError(f"expected input's size at dim={0 if alone else 1} to match num_features "
                             f"({self.num_features}), but got: {x.shape[1]}.")  # fmt: skip
        y = F.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias,
                            self.training or not self.track_running_stats, self.momentum or 0.0, self.eps)  # fmt: skip
        return y.squeeze(0) if alone else y


class InstanceNorm1d(_InstanceNorm):
    """Each channel of each sample normalised on its own. Source: arXiv 1607.08022.

    *Shapes*: ``(N, C, L)`` or ``(C, L)``.

    >>> import core
    >>> core.nn.InstanceNorm1d(1)(core.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """

    dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Each channel of each image normalised on its own. Source: arXiv 1607.08022.

    >>> import core
    >>> core.nn.InstanceNorm2d(3)(core.ones(2, 3, 4, 4)).shape
    core.Size([2, 3, 4, 4])
    """

    dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Each channel of each volume normalised on its own. Source: arXiv 1607.08022.

    >>> import core
    >>> core.nn.InstanceNorm3d(3)(core.ones(2, 3, 2, 2, 2)).shape
    core.Size([2, 3, 2, 2, 2])
    """

    dims = (4, 5)


class GroupNorm(Module):
    """Each of `num_groups` groups of channels of each sample normalised on its own. Source: arXiv 1803.08494.

    >>> import core
    >>> core.nn.GroupNorm(2, 4)(core.tensor([[1.0, 3.0, 5.0, 9.0]])).detach()
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """

    weight: MaybeParameter
    bias: MaybeParameter

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
                 dtype: Any = None, *, bias: bool = True) -> None:  # fmt: skip
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            made = Parameter(empty(num_channels, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
                f"bias={self.bias is not None}")  # fmt: skip


__getattr__, __dir__ = lazy_attributes(__name__, {"SyncBatchNorm": ".sync_batchnorm"})  # they stand there in PyTorch
