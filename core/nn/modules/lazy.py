"""Modules that learn their input's size from the first input, and are ordinary modules from then on."""

from __future__ import annotations

from typing import Any

from ...base import dtypes
from ...ops.creation import tensor
from ...tensors.tensor import Tensor
from ..parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from .batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, _Norm
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, _ConvNd
from .linear import Linear
from .module import Module


class LazyModuleMixin(Module):
    """What makes a module lazy: `initialize_parameters` is called with its first input, before forward.

    A class that inherits from it and a module writes `initialize_parameters`, which gives every
    `UninitializedParameter` and `UninitializedBuffer` its shape; with `cls_to_become`, the module is of that class
    afterwards. A state dict with known shapes may be loaded before.

    *Raises*: RuntimeError where something is without a shape after the first input; NotImplementedError where
    `initialize_parameters` was not written.
    """

    cls_to_become: type[Module] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self.register_load_state_dict_pre_hook(LazyModuleMixin._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(LazyModuleMixin._infer_parameters, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters and buffers their shapes, from the first input."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Return whether a parameter or buffer of this module has no shape yet."""
        return any(is_lazy(t) for store in (self._parameters, self._buffers) for t in store.values())

    @staticmethod
    def _lazy_load_hook(module: Any, state_dict: Any, prefix: str, *rest: Any) -> None:
        for store in (module._parameters, module._buffers):
            for name, mine in store.items():
                theirs = state_dict.get(prefix + name)
                if is_lazy(mine) and theirs is not None and not is_lazy(theirs):
                    mine.materialize(theirs.shape)

    @staticmethod
    def _infer_parameters(module: Any, args: Any, kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` that takes `in_features` from its first input.

    >>> import core
    >>> layer = core.nn.LazyLinear(3)
    >>> layer(core.ones(2, 4)).shape, layer
    (core.Size([2, 3]), Linear(in_features=4, out_features=3, bias=True))
    """

    cls_to_become = Linear
    weight: Any
    bias: Any

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw the weights anew, once there are any."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Give weight and bias their shapes."""
        if self.has_uninitialized_params():
            self.in_features = input._a.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        if self.in_features == 0:  # a state dict gave the shapes
            self.in_features = self.weight.shape[-1]


class _LazyConv(LazyModuleMixin, _ConvNd):
    weight: Any
    bias: Any

    def _lazily(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw the weights anew, once there are any."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Give weight and bias their shapes."""
        if not self.has_uninitialized_params():
            return
        n = self.n
        if input.ndim not in (n + 1, n + 2):
            raise RuntimeError(f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, "
                               f"but got input of size: {input.shape}")  # fmt: skip
        self.in_channels = input._a.shape[-n - 1]
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        first = (self.in_channels, self.out_channels // self.groups)
        if not self.transposed:
            first = (self.out_channels, self.in_channels // self.groups)
        self.weight.materialize((*first, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _Lazily(_LazyConv):
    def __init__(self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                 groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
                 dtype: Any = None) -> None:  # fmt: skip
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)  # type: ignore[call-arg]
        self._lazily(out_channels, bias, device, dtype)


class _LazilyTransposed(_LazyConv):
    def __init__(self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
                 groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
                 device: Any = None, dtype: Any = None) -> None:  # fmt: skip
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)  # type: ignore[call-arg]
        self._lazily(out_channels, bias, device, dtype)


class LazyConv1d(_Lazily, Conv1d):
    """A `Conv1d` that takes `in_channels` from its first input.

    >>> import core
    >>> layer = core.nn.LazyConv1d(4, 3)
    >>> layer(core.ones(2, 5, 8)).shape, layer
    (core.Size([2, 4, 6]), Conv1d(5, 4, kernel_size=(3,), stride=(1,)))
    """

    cls_to_become = Conv1d


class LazyConv2d(_Lazily, Conv2d):
    """A `Conv2d` that takes `in_channels` from its first input.

    >>> import core
    >>> core.nn.LazyConv2d(4, 3)(core.ones(2, 5, 8, 8)).shape
    core.Size([2, 4, 6, 6])
    """

    cls_to_become = Conv2d


class LazyConv3d(_Lazily, Conv3d):
    """A `Conv3d` that takes `in_channels` from its first input.

    >>> import core
    >>> core.nn.LazyConv3d(4, 3)(core.ones(2, 5, 4, 4, 4)).shape
    core.Size([2, 4, 2, 2, 2])
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazilyTransposed, ConvTranspose1d):
    """A `ConvTranspose1d` that takes `in_channels` from its first input.

    >>> import core
    >>> core.nn.LazyConvTranspose1d(4, 3)(core.ones(2, 5, 6)).shape
    core.Size([2, 4, 8])
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazilyTransposed, ConvTranspose2d):
    """A `ConvTranspose2d` that takes `in_channels` from its first input.

    >>> import core
    >>> core.nn.LazyConvTranspose2d(4, 3)(core.ones(2, 5, 6, 6)).shape
    core.Size([2, 4, 8, 8])
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazilyTransposed, ConvTranspose3d):
    """A `ConvTranspose3d` that takes `in_channels` from its first input.

    >>> import core
    >>> core.nn.LazyConvTranspose3d(4, 3)(core.ones(2, 5, 2, 2, 2)).shape
    core.Size([2, 4, 4, 4, 4])
    """

    cls_to_become = ConvTranspose3d


class _LazyNorm(LazyModuleMixin, _Norm):
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Any = None, dtype: Any = None, *,
                 bias: bool = True) -> None:  # fmt: skip
        super().__init__(0, eps, momentum, False, False)  # type: ignore[call-arg]
        self.affine, self.track_running_stats = affine, track_running_stats
        kind = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**kind)
            if bias:
                self.bias = UninitializedParameter(**kind)
        if track_running_stats:
            self.running_mean, self.running_var = UninitializedBuffer(**kind), UninitializedBuffer(**kind)
            self.num_batches_tracked = tensor(0, dtype=dtypes.int64, device=device)

    def reset_parameters(self) -> None:
        """Scale 1, shift 0, and the running statistics anew, once there are any."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Give parameters and running statistics their shapes."""
        if self.has_uninitialized_params():
            self.num_features = input._a.shape[1]
            for t in (self.weight, self.bias, self.running_mean, self.running_var):
                if t is not None:
                    t.materialize((self.num_features,))
            self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A `BatchNorm1d` that takes `num_features` from its first input.

    >>> import core
    >>> core.nn.LazyBatchNorm1d()(core.ones(2, 5)).shape
    core.Size([2, 5])
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A `BatchNorm2d` that takes `num_features` from its first input.

    >>> import core
    >>> layer = core.nn.LazyBatchNorm2d()
    >>> layer(core.ones(2, 5, 4, 4)).shape, layer.num_features
    (core.Size([2, 5, 4, 4]), 5)
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A `BatchNorm3d` that takes `num_features` from its first input.

    >>> import core
    >>> core.nn.LazyBatchNorm3d()(core.ones(2, 5, 2, 2, 2)).shape
    core.Size([2, 5, 2, 2, 2])
    """

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """An `InstanceNorm1d` that takes `num_features` from its first input.

    >>> import core
    >>> core.nn.LazyInstanceNorm1d()(core.ones(2, 5, 4)).shape
    core.Size([2, 5, 4])
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """An `InstanceNorm2d` that takes `num_features` from its first input.

    >>> import core
    >>> core.nn.LazyInstanceNorm2d()(core.ones(2, 5, 4, 4)).shape
    core.Size([2, 5, 4, 4])
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """An `InstanceNorm3d` that takes `num_features` from its first input.

    >>> import core
    >>> core.nn.LazyInstanceNorm3d()(core.ones(2, 5, 2, 2, 2)).shape
    core.Size([2, 5, 2, 2, 2])
    """

    cls_to_become = InstanceNorm3d
