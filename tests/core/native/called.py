"""The entries of the extension as functions with the usual arguments, for tests of one kernel at a time."""

from __future__ import annotations

from types import ModuleType
from typing import Any


class Extension:
    """The module core.native._native, and its declared kernels as functions. A call that an entry leaves is a
    TypeError."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)

    def entry(self, name: str, *args: Any) -> Any:
        found = self.module.entries[name](*args)
        if found is NotImplemented:
            raise TypeError(f"the entry {name} leaves this call")
        return found

    def _reduced(self, name: str, x: Any, axes: Any, keepdims: bool) -> Any:
        axes = tuple(range(x.ndim)) if axes is None else axes if isinstance(axes, tuple) else (axes,)
        return self.entry(name, x, axes, keepdims)

    def sum(self, x: Any, axes: Any = None, keepdims: bool = False) -> Any:
        return self._reduced("sum", x, axes, keepdims)

    def mean(self, x: Any, axes: Any = None, keepdims: bool = False) -> Any:
        return self._reduced("mean", x, axes, keepdims)

    def max(self, x: Any, axes: Any = None, keepdims: bool = False) -> Any:
        return self._reduced("amax", x, axes, keepdims)

    def min(self, x: Any, axes: Any = None, keepdims: bool = False) -> Any:
        return self._reduced("amin", x, axes, keepdims)

    def _place(self, name: str, x: Any, axis: Any, keepdims: bool) -> Any:
        if axis is not None:
            return self.entry(name, x, axis, keepdims)
        return self.entry(name, x.reshape(-1), 0, False).reshape((1,) * x.ndim if keepdims else ())

    def argmax(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return self._place("argmax", x, axis, keepdims)

    def argmin(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return self._place("argmin", x, axis, keepdims)

    def softmax(self, x: Any) -> Any:
        return self.entry("softmax", x, -1)

    def log_softmax(self, x: Any) -> Any:
        return self.entry("log_softmax", x, -1)

    def softmax_backward(self, g: Any, y: Any) -> Any:
        return self.entry("softmax.backward", g, y, -1)

    def log_softmax_backward(self, g: Any, y: Any) -> Any:
        return self.entry("log_softmax.backward", g, y, -1)

    def layer_norm(self, x: Any, weight: Any, bias: Any, eps: float, axes: int = 1) -> Any:
        return self.entry("layer_norm", x, weight, bias, axes, eps)

    def layer_norm_backward(self, g: Any, x: Any, mean: Any, rstd: Any, weight: Any) -> Any:
        return self.entry("layer_norm.backward", g, x, weight, mean, rstd, None, None, x.ndim - mean.ndim, None, None)

    def cross_entropy(self, x: Any, target: Any, weight: Any = None, ignore: int = -100, smoothing: float = 0.0) -> Any:
        found = self.entry("cross_entropy", x.reshape(-1, x.shape[-1]), target.reshape(-1), weight, ignore, smoothing)
        return tuple(a.reshape(target.shape) for a in found)

    def cross_entropy_backward(self, g: Any, x: Any, lse: Any, target: Any, weight: Any = None, ignore: int = -100,
                               smoothing: float = 0.0) -> Any:  # fmt: skip
        rows, needs = x.reshape(-1, x.shape[-1]), (True, False, False)
        given = g.reshape(-1), rows, target.reshape(-1), weight, lse.reshape(-1)
        return self.entry("cross_entropy.backward", *given, ignore, smoothing, needs)[0].reshape(x.shape)

    def embedding(self, weight: Any, index: Any) -> Any:
        return self.entry("embedding", weight, index, -1, False)

    def embedding_backward(self, g: Any, index: Any, count: int, padding: Any = None) -> Any:
        padding = -1 if padding is None else padding
        return self.entry("embedding.backward", g, index, (count, g.shape[-1]), padding, False)[0]
