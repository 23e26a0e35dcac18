"""``x.squeeze_()`` and its kin: the tensor itself takes another shape over the same memory."""

from __future__ import annotations

from typing import Any

from ..base.modes import state as mode
from ..base.source import here
from ..dispatch.inplace import leaf_check
from ..graph.versions import move_on, storage_of
from ..tensors.tensor import Tensor, wrap


def _reshaped(name: str, of: str) -> None:
    function, swaps = getattr(Tensor, of), "squeeze" not in of

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if mode.enabled:
            leaf_check(self, name)
        storage = storage_of(self)
        if self._base is not None:
            y = function(self, *args, **kwargs)
            if y is not self:
                self._a, self._base, self._way = y._a, y._base, y._way
        else:
            old = wrap(self._a, self._kind)  # its history so far, under a name of its own
            old._requires_grad, old._node, old._nr, old._storage = self._requires_grad, self._node, self._nr, storage
            y = function(old, *args, **kwargs)
            if y is not old:
                self._a = y._a
                shape = tuple(old._a.shape)
                self._undo = (
                    *(self._undo or ()),
                    lambda t: function(t, *args, **kwargs) if swaps else t.reshape(shape),
                )
        storage.wrote(name, here(2))
        if y is not self:
            move_on(self, y._node, y._nr, y._requires_grad)
            self._view_version = storage.version
        return self

    method.__name__ = method.__qualname__ = name
    method.of = function  # type: ignore[attr-defined]  # whose signature it has
    method.__doc__ = f"In-place version of `{of}`: the tensor itself takes the other shape over the same memory."
    setattr(Tensor, name, method)


for _name in ("t", "transpose", "squeeze", "unsqueeze", "swapaxes", "swapdims", "as_strided"):
    _reshaped(_name + "_", _name)
