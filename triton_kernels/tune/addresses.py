"""Tables of addresses: small arrays of 64-bit integers that say where other tensors lie, as grouped products have."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Mapping
from typing import Any

import numpy as np

from .arguments import Regions, View, is_pointer

_TABLE = 4096  # an array of at most so many 64-bit integers may be a table
_ADDRESS = 1 << 16  # nothing lies below; memory may begin soon behind, where Python is no position-independent program


def behind_tables(bound: Mapping[str, Any]) -> list[Any]:
    """Return the tensors that a small array of 64-bit integers holds the addresses of, as grouped products have."""
    tables = [v for v in bound.values() if is_pointer(v) and str(v.dtype).endswith(("int64", "uint64"))]
    addresses: set[int] = set()
    for table in tables:
        regions = Regions()
        view = regions.plain("", table)
        if 0 < len(regions[0].content()) <= 8 * _TABLE:
            addresses |= {int(n) for n in view.array(regions[0].content()).reshape(-1) if n > _ADDRESS}
    if not addresses:
        return []
    found = []
    for each in gc.get_objects():
        if type(each).__name__ in ("Tensor", "Parameter") and hasattr(each, "untyped_storage"):
            with contextlib.suppress(Exception):
                start, size = each.untyped_storage().data_ptr(), each.untyped_storage().nbytes()
                if any(start <= a < start + size for a in addresses):
                    found.append(each)
    return found


def tables_in(regions: Regions, plain: Mapping[str, Any], others: list[Any]) -> list[tuple[int, int, int, int]]:
    """Add tensors that are pointed to from memory to the regions; say where their addresses lie."""
    if not others:
        return []
    views = [v for v in plain.values() if isinstance(v, View) and v.dtype in ("i64", "u64")]
    for k, each in enumerate(others):
        regions.plain(f"array {k} of a table", each)
    found = []
    for view in views:
        memory = regions[view.region].content()
        for at in range(0, len(memory) - 7, 8):
            address = int(memory[at : at + 8].view(np.int64)[0])
            for k, region in enumerate(regions):
                if address > _ADDRESS and region.start <= address < region.start + region.size:
                    found.append((view.region, at, k, address - region.start))
                    break
    return found
