"""Pooling layers in one, two and three dimensions."""

from __future__ import annotations

from typing import Any

from ...tensors.tensor import Tensor
from .. import functional as F
from .conv import tuple_of
from .module import Module


class _Pool(Module):
    """A pooling layer: `settings` are the attributes that its function takes and its repr shows, in order."""

    function = ""
    settings: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()  # what the function takes beyond them

    def forward(self, input: Tensor) -> Any:
        given = {name: getattr(self, name) for name in (*self.settings, *self.hidden)}
        return getattr(F, self.function)(input, **given)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.settings)


class _MaxPool(_Pool):
    settings, hidden = ("kernel_size", "stride", "padding", "dilation", "ceil_mode"), ("return_indices",)

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                 return_indices: bool = False, ceil_mode: bool = False) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation, self.return_indices, self.ceil_mode = padding, dilation, return_indices, ceil_mode


class MaxPool1d(_MaxPool):
    """The greatest element of each window. See `nn.functional.max_pool1d`.

    >>> import core
    >>> core.nn.MaxPool1d(2)(core.ones(1, 2, 8)).shape
    core.Size([1, 2, 4])
    """

    function = "max_pool1d"


class MaxPool2d(_MaxPool):
    """The greatest element of each window. See `nn.functional.max_pool2d`.

    >>> import core
    >>> core.nn.MaxPool2d(2)(core.ones(1, 2, 8, 8)).shape
    core.Size([1, 2, 4, 4])
    """

    function = "max_pool2d"


class MaxPool3d(_MaxPool):
    """The greatest element of each window. See `nn.functional.max_pool3d`.

    >>> import core
    >>> core.nn.MaxPool3d(2)(core.ones(1, 2, 4, 4, 4)).shape
    core.Size([1, 2, 2, 2, 2])
    """

    function = "max_pool3d"


class _MaxUnpool(Module):
    n = 1

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = tuple_of(kernel_size, self.n)
        self.stride = tuple_of(kernel_size if stride is None else stride, self.n)
        self.padding = tuple_of(padding, self.n)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        function: Any = getattr(F, f"max_unpool{self.n}d")
        y: Tensor = function(input, indices, self.kernel_size, self.stride, self.padding, output_size)
        return y

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Puts what `MaxPool1d` found back in its places, zeros elsewhere.

    >>> import core
    >>> pooled = core.nn.MaxPool1d(2, return_indices=True)(core.ones(1, 2, 8))
    >>> core.nn.MaxUnpool1d(2)(*pooled).shape
    core.Size([1, 2, 8])
    """

    n = 1


class MaxUnpool2d(_MaxUnpool):
    """Puts what `MaxPool2d` found back in its places, zeros elsewhere.

    >>> import core
    >>> pooled = core.nn.MaxPool2d(2, return_indices=True)(core.ones(1, 2, 8, 8))
    >>> core.nn.MaxUnpool2d(2)(*pooled).shape
    core.Size([1, 2, 8, 8])
    """

    n = 2


class MaxUnpool3d(_MaxUnpool):
    """Puts what `MaxPool3d` found back in its places, zeros elsewhere.

    >>> import core
    >>> pooled = core.nn.MaxPool3d(2, return_indices=True)(core.ones(1, 2, 4, 4, 4))
    >>> core.nn.MaxUnpool3d(2)(*pooled).shape
    core.Size([1, 2, 4, 4, 4])
    """

    n = 3


class AvgPool1d(_Pool):
    """The mean of each window. See `nn.functional.avg_pool1d`.

    >>> import core
    >>> core.nn.AvgPool1d(2)(core.ones(1, 2, 8)).shape
    core.Size([1, 2, 4])
    """

    function = "avg_pool1d"
    settings, hidden = ("kernel_size", "stride", "padding"), ("ceil_mode", "count_include_pad")

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size, self.padding = tuple_of(kernel_size, 1), tuple_of(padding, 1)
        self.stride = tuple_of(kernel_size if stride is None else stride, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad


class AvgPool2d(_Pool):
    """The mean of each window. See `nn.functional.avg_pool2d`.

    >>> import core
    >>> core.nn.AvgPool2d(2)(core.ones(1, 2, 8, 8)).shape
    core.Size([1, 2, 4, 4])
    """

    function = "avg_pool2d"
    settings = ("kernel_size", "stride", "padding")
    hidden = ("ceil_mode", "count_include_pad", "divisor_override")

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: int | None = None) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding
        self.ceil_mode, self.count_include_pad, self.divisor_override = ceil_mode, count_include_pad, divisor_override


class AvgPool3d(AvgPool2d):
    """The mean of each window. See `nn.functional.avg_pool3d`.

    >>> import core
    >>> core.nn.AvgPool3d(2)(core.ones(1, 2, 4, 4, 4)).shape
    core.Size([1, 2, 2, 2, 2])
    """

    function = "avg_pool3d"


class _LPPool(_Pool):
    settings = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode


class LPPool1d(_LPPool):
    """``(Σ x^p)^(1/p)`` of each window.

    >>> import core
    >>> core.nn.LPPool1d(2, 2)(core.ones(1, 2, 8)).shape
    core.Size([1, 2, 4])
    """

    function = "lp_pool1d"


class LPPool2d(_LPPool):
    """``(Σ x^p)^(1/p)`` of each window.

    >>> import core
    >>> core.nn.LPPool2d(2, 2)(core.ones(1, 2, 8, 8)).shape
    core.Size([1, 2, 4, 4])
    """

    function = "lp_pool2d"


class LPPool3d(_LPPool):
    """``(Σ x^p)^(1/p)`` of each window.

    >>> import core
    >>> core.nn.LPPool3d(2, 2)(core.ones(1, 2, 4, 4, 4)).shape
    core.Size([1, 2, 2, 2, 2])
    """

    function = "lp_pool3d"


class _AdaptivePool(_Pool):
    settings = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size


class _AdaptiveMaxPool(_Pool):
    settings, hidden = ("output_size",), ("return_indices",)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices


class AdaptiveAvgPool1d(_AdaptivePool):
    """The mean of windows that share the input out evenly.

    >>> import core
    >>> core.nn.AdaptiveAvgPool1d(3)(core.ones(1, 2, 8)).shape
    core.Size([1, 2, 3])
    """

    function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptivePool):
    """The mean of windows that share the input out evenly.

    >>> import core
    >>> core.nn.AdaptiveAvgPool2d(3)(core.ones(1, 2, 8, 8)).shape
    core.Size([1, 2, 3, 3])
    """

    function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptivePool):
    """The mean of windows that share the input out evenly.

    >>> import core
    >>> core.nn.AdaptiveAvgPool3d(3)(core.ones(1, 2, 4, 4, 4)).shape
    core.Size([1, 2, 3, 3, 3])
    """

    function = "adaptive_avg_pool3d"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The greatest element of windows that share the input out evenly.

    >>> import core
    >>> core.nn.AdaptiveMaxPool1d(3)(core.ones(1, 2, 8)).shape
    core.Size([1, 2, 3])
    """

    function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The greatest element of windows that share the input out evenly.

    >>> import core
    >>> core.nn.AdaptiveMaxPool2d(3)(core.ones(1, 2, 8, 8)).shape
    core.Size([1, 2, 3, 3])
    """

    function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The greatest element of windows that share the input out evenly.

    >>> import core
    >>> core.nn.AdaptiveMaxPool3d(3)(core.ones(1, 2, 4, 4, 4)).shape
    core.Size([1, 2, 3, 3, 3])
    """

    function = "adaptive_max_pool3d"
