"""`Variable`, which was a tensor with a gradient in PyTorch before 0.4, and is any tensor now."""

from __future__ import annotations

from typing import Any

from ..base.source import warn
from ..tensors.tensor import Tensor
from .put_off import Engine


class _AnyTensor(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


def _is_checkpoint_valid() -> bool:
    """Return whether a checkpoint may compute again in the pass that runs: in `backward` and in `grad` alike."""
    return True


class Variable(metaclass=_AnyTensor):
    """The older name of `Tensor`, kept for older programs: ``Variable(x)`` is x's tensor, and every tensor is one.

    >>> import core
    >>> x = core.autograd.Variable(core.ones(2), requires_grad=True)
    >>> x, isinstance(x, core.autograd.Variable)
    (tensor([1., 1.], requires_grad=True), True)
    """

    _execution_engine = Engine

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Any:
        """Return a leaf that shares the numbers of `data`; `volatile` has no effect any more, as in PyTorch."""
        if volatile:
            warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.")
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)
