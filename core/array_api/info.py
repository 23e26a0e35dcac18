"""What the namespace can do, as the array API standard asks: ``__array_namespace_info__()``."""

from __future__ import annotations

from typing import Any

from ..base import dtypes
from ..base.device import device as Device
from ..base.dtypes import dtype as Dtype
from ..cuda import device_count
from ..ops.conversion import get_default_device
from .promotion import isdtype

# float16 and its kin are no part of the standard
DTYPES = {d.name: d for d in dtypes.all_dtypes if d.category < 2 or d.to_real().name in ("float32", "float64")}


class Info:
    """Devices, dtypes, defaults and capabilities of `core.array_api`."""

    def capabilities(self) -> dict[str, Any]:
        """Return what may be counted on: masks as indices, shapes that depend on values, up to 64 axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Return the device of arrays that are made without one being named."""
        return get_default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, Dtype]:
        """Return the dtypes of what is made without one being named."""
        real = dtypes.get_default_dtype()
        whole = dtypes.int64
        return {"real floating": real, "complex floating": real.to_complex(), "integral": whole, "indexing": whole}

    def devices(self) -> list[Device]:
        """Return the devices that are there."""
        return [Device("cpu"), *(Device("cuda", i) for i in range(device_count()))]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Dtype]:
        """Return the dtypes by their names, those of a kind where one is named (as `isdtype` reads it)."""
        return {name: d for name, d in DTYPES.items() if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> Info:
    """Return what tells of the namespace's devices, dtypes and capabilities.

    >>> import core.array_api as xp
    >>> xp.__array_namespace_info__().default_dtypes()["real floating"]
    core.float32
    """
    return Info()
