"""Converting a module: its parameters, gradients and buffers as another dtype or on another device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

from ...base import dtypes
from ...base.device import device as Device
from ...base.modes import no_grad
from ...ops.creation import empty_like
from ...tensors.tensor import Tensor
from ..parameter import is_lazy


class Converting:
    """The part of `Module` that moves what it holds."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    children: Callable[[], Iterator[Any]]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the values of parameters, gradients and buffers by `fn` of them; parameters stay the same objects."""
        if recurse:
            for module in self.children():
                module._apply(fn)  # an override may take nothing else
        with no_grad():
            for p in self._parameters.values():
                if is_lazy(p):
                    p._kind = fn(p)._kind
                elif p is not None:
                    p.data = fn(p)
                    if p._grad is not None:
                        p._grad.data = fn(p._grad)
            for name, b in self._buffers.items():
                if b is not None:
                    self._buffers[name] = fn(b)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move to a device, or floating-point parameters and buffers to a dtype: ``to(device)``, ``to(dtype)``,
        ``to(device, dtype)`` or ``to(tensor)``."""
        where, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
        given = kwargs.pop("tensor", None)
        many = args if given is None else (given, *args)
        unknown = set(kwargs) - {"non_blocking", "copy", "memory_format"}
        kinds = [a for a in many if isinstance(a, dtypes.dtype | Tensor)]
        odd = [a for a in many if not isinstance(a, dtypes.dtype | Tensor | str | Device | int | None)]
        if unknown or odd or len(kinds) > 1 or (kinds and dtype is not None):
            said = [*(type(a).__name__ for a in args), *(f"{k}={type(v).__name__}" for k, v in kwargs.items())]
            raise TypeError(
                f"to() received an invalid combination of arguments - got ({', '.join(said)}), but expected "
                "one of: (device, dtype, non_blocking), (dtype, non_blocking), (tensor, non_blocking)"
            )
        for a in many:
            if isinstance(a, Tensor):
                where, dtype = a.device, a.dtype
            elif isinstance(a, dtypes.dtype):
                dtype = a
            elif isinstance(a, str | Device) or (isinstance(a, int) and not isinstance(a, bool)):
                where = a
        if dtype is not None and dtype.category < 2:
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        target = None if where is None else Device(where)
        return self._apply(lambda t: t.to(device=target, dtype=dtype if t.dtype.category >= 2 else None))  # type: ignore[attr-defined]

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device without the values."""
        return self._apply(lambda t: empty_like(t, device=device), recurse)

    def type(self, dst_type: Any) -> Self:
        """Every parameter and buffer as another dtype."""
        return self._apply(lambda t: t.type(dst_type))  # type: ignore[attr-defined]

    def share_memory(self) -> Self:
        """Move parameters and buffers to memory that other processes see; see `Tensor.share_memory_`."""
        return self._apply(lambda t: t.share_memory_())  # type: ignore[attr-defined]

    def _floats_to(self, d: dtypes.dtype) -> Self:
        return self._apply(lambda t: t.to(d) if t.is_floating_point() else t)  # type: ignore[attr-defined]

    def float(self) -> Self:
        """Floating-point parameters and buffers as float32."""
        return self._floats_to(dtypes.float32)

    def double(self) -> Self:
        """Floating-point parameters and buffers as float64."""
        return self._floats_to(dtypes.float64)

    def half(self) -> Self:
        """Floating-point parameters and buffers as float16."""
        return self._floats_to(dtypes.float16)

    def bfloat16(self) -> Self:
        """Floating-point parameters and buffers as bfloat16."""
        return self._floats_to(dtypes.bfloat16)

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        """Move to a GPU."""
        return self.to("cuda" if device is None else device)
