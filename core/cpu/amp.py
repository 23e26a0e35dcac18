"""`core.amp` for the device `cpu` alone: PyTorch's older names, each with its warning."""

from __future__ import annotations

from .. import amp as _amp
from ..base.dtypes import bfloat16
from ..base.dtypes import dtype as Dtype
from ..base.source import warn


def _older(name: str, now: str) -> None:
    warn(f"`torch.cpu.amp.{name}(args...)` is deprecated. Please use `{now}` instead.", FutureWarning)


class autocast(_amp.autocast):
    """`core.amp.autocast` with the device type "cpu"."""

    def __init__(self, enabled: bool = True, dtype: Dtype = bfloat16, cache_enabled: bool = True) -> None:
        _older("autocast", "torch.amp.autocast('cpu', args...)")
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """`core.amp.GradScaler` with the device "cpu"."""

    def __init__(self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True) -> None:  # fmt: skip
        _older("GradScaler", "torch.amp.GradScaler('cpu', args...)")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
