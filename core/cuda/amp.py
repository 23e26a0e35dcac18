"""`core.amp` for the device `cuda` alone: PyTorch's older names, each with its warning."""

from __future__ import annotations

from typing import Any

from .. import amp as _amp
from .. import cuda as _cuda
from ..base.dtypes import dtype as Dtype
from ..base.dtypes import float16
from ..base.source import warn


def _older(name: str, now: str) -> None:
    warn(f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `{now}` instead.", FutureWarning)


class autocast(_amp.autocast):
    """`core.amp.autocast` with the device type "cuda"."""

    def __init__(self, enabled: bool = True, dtype: Dtype = float16, cache_enabled: bool = True) -> None:
        _older("autocast", "torch.amp.autocast('cuda', args...)")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """`core.amp.GradScaler` with the device "cuda"."""

    def __init__(self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True) -> None:  # fmt: skip
        _older("GradScaler", "torch.amp.GradScaler('cuda', args...)")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: Dtype | None = None) -> Any:
    """`core.amp.custom_fwd` with the device type "cuda"."""
    _older("custom_fwd", "torch.amp.custom_fwd(args..., device_type='cuda')")
    return _amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any = None) -> Any:
    """`core.amp.custom_bwd` with the device type "cuda"."""
    _older("custom_bwd", "torch.amp.custom_bwd(args..., device_type='cuda')")
    return _amp.custom_bwd(bwd, device_type="cuda")


def amp_definitely_not_available() -> bool:
    """Return whether there is no GPU to compute on."""
    return not _cuda.is_available()
