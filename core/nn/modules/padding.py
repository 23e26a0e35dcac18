"""Padding layers: a border of zeros, of one value, or of what the tensor holds."""

from __future__ import annotations

from ...tensors.tensor import Tensor
from .. import functional as F
from .conv import tuple_of
from .module import Module


class _Pad(Module):
    """A border of `padding` elements, (left, right, top, bottom, ...) or one number for all sides."""

    n = 1
    mode = "constant"
    value: float | None = None

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        self.padding = tuple_of(padding, 2 * self.n)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ZeroPad1d(_Pad):
    """A border of zeros around the last dimension.

    >>> import core
    >>> core.nn.ZeroPad1d(1)(core.ones(1, 2, 8)).shape
    core.Size([1, 2, 10])
    """

    n = 1
    value = 0.0


class ZeroPad2d(_Pad):
    """A border of zeros around the last 2 dimensions.

    >>> import core
    >>> core.nn.ZeroPad2d(1)(core.ones(1, 2, 8, 8)).shape
    core.Size([1, 2, 10, 10])
    """

    n = 2
    value = 0.0


class ZeroPad3d(_Pad):
    """A border of zeros around the last 3 dimensions.

    >>> import core
    >>> core.nn.ZeroPad3d(1)(core.ones(1, 2, 4, 4, 4)).shape
    core.Size([1, 2, 6, 6, 6])
    """

    n = 3
    value = 0.0


class ConstantPad1d(_ConstantPad):
    """A border of one value around the last dimension.

    >>> import core
    >>> core.nn.ConstantPad1d(1, 0.5)(core.ones(1, 2, 8)).shape
    core.Size([1, 2, 10])
    """

    n = 1


class ConstantPad2d(_ConstantPad):
    """A border of one value around the last 2 dimensions.

    >>> import core
    >>> core.nn.ConstantPad2d(1, 0.5)(core.ones(1, 2, 8, 8)).shape
    core.Size([1, 2, 10, 10])
    """

    n = 2


class ConstantPad3d(_ConstantPad):
    """A border of one value around the last 3 dimensions.

    >>> import core
    >>> core.nn.ConstantPad3d(1, 0.5)(core.ones(1, 2, 4, 4, 4)).shape
    core.Size([1, 2, 6, 6, 6])
    """

    n = 3


class ReflectionPad1d(_Pad):
    """A border of the input's reflection around the last dimension.

    >>> import core
    >>> core.nn.ReflectionPad1d(1)(core.ones(1, 2, 8)).shape
    core.Size([1, 2, 10])
    """

    n, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """A border of the input's reflection around the last 2 dimensions.

    >>> import core
    >>> core.nn.ReflectionPad2d(1)(core.ones(1, 2, 8, 8)).shape
    core.Size([1, 2, 10, 10])
    """

    n, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """A border of the input's reflection around the last 3 dimensions.

    >>> import core
    >>> core.nn.ReflectionPad3d(1)(core.ones(1, 2, 4, 4, 4)).shape
    core.Size([1, 2, 6, 6, 6])
    """

    n, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """A border of the input's edge, repeated around the last dimension.

    >>> import core
    >>> core.nn.ReplicationPad1d(1)(core.ones(1, 2, 8)).shape
    core.Size([1, 2, 10])
    """

    n, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """A border of the input's edge, repeated around the last 2 dimensions.

    >>> import core
    >>> core.nn.ReplicationPad2d(1)(core.ones(1, 2, 8, 8)).shape
    core.Size([1, 2, 10, 10])
    """

    n, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """A border of the input's edge, repeated around the last 3 dimensions.

    >>> import core
    >>> core.nn.ReplicationPad3d(1)(core.ones(1, 2, 4, 4, 4)).shape
    core.Size([1, 2, 6, 6, 6])
    """

    n, mode = 3, "replicate"


class _CircularPad(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (self.n + 1, self.n + 2):
            raise ValueError(f"expected {self.n + 1}D or {self.n + 2}D input (got {input.ndim}D input)")
        return super().forward(input)


class CircularPad1d(_CircularPad):
    """A border of the input's other side around the last dimension.

    >>> import core
    >>> core.nn.CircularPad1d(1)(core.ones(1, 2, 8)).shape
    core.Size([1, 2, 10])
    """

    n = 1


class CircularPad2d(_CircularPad):
    """A border of the input's other side around the last 2 dimensions.

    >>> import core
    >>> core.nn.CircularPad2d(1)(core.ones(1, 2, 8, 8)).shape
    core.Size([1, 2, 10, 10])
    """

    n = 2


class CircularPad3d(_CircularPad):
    """A border of the input's other side around the last 3 dimensions.

    >>> import core
    >>> core.nn.CircularPad3d(1)(core.ones(1, 2, 4, 4, 4)).shape
    core.Size([1, 2, 6, 6, 6])
    """

    n = 3
