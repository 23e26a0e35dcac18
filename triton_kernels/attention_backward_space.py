"""What the kernels of attention's gradients may be tuned to, and what is launched where nothing was tuned."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import runtime
from .tune.space import Config, Constraint, Space, Tunable, powers_of_two

SPACE = Space(
    [
        powers_of_two("BLOCK_M", 16, 64, default=32),
        powers_of_two("BLOCK_N", 32, 128, default=64),
        powers_of_two("num_warps", 4, 8, default=8),
        Tunable("num_stages", (2, 3), default=2),
    ],
    [
        Constraint("8 warps for 128 keys", lambda c: c["BLOCK_N"] < 128 or c["num_warps"] == 8),
        Constraint(
            "64 rows go with 64 keys or more, in two stages",
            lambda c: c["BLOCK_M"] < 64 or (c["BLOCK_N"] >= 64 and c["num_stages"] == 2),
        ),
        Constraint(
            "16 rows go with 32 keys and 4 warps",
            lambda c: c["BLOCK_M"] > 16 or (c["BLOCK_N"] == 32 and c["num_warps"] == 4),
        ),
        Constraint("a third stage only with 64 keys", lambda c: c["num_stages"] == 2 or c["BLOCK_N"] == 64),
    ],
)
# float32 multiplied exactly runs on the ordinary units. A load that is under way during the step before would cost the
# registers that keep the products' operands.
SPACE_FLOAT32 = Space(
    [
        powers_of_two("BLOCK_M", 16, 32, default=32),
        powers_of_two("BLOCK_N", 16, 32, default=32),
        powers_of_two("num_warps", 4, 8, default=8),
        Tunable("num_stages", (1,), default=1),
    ],
)


def space_for(dtype: Any) -> Space:
    """Return what may be tuned for this dtype."""
    return SPACE if np.dtype(dtype).itemsize == 2 else SPACE_FLOAT32


def default_for(
    shape: tuple[int, ...], dtype: Any, target: str = "", drops: bool = False, by_rows: bool = False
) -> Config:
    """Return what is launched where nothing was tuned; `shape` is (batch x heads, length, items in a row).

    `drops`: weights are dropped, and Philox takes the registers that half of the keys have otherwise. `by_rows`: for
    the kernel that makes dq.
    """
    settings, target, items = space_for(dtype).default, target or runtime.target(), shape[2]
    if np.dtype(dtype).itemsize == 2:
        if target.startswith("gfx"):  # whose warps are twice as wide, and have twice the registers
            settings.update(num_warps=4)
            few = items > 64 or drops
            settings.update(BLOCK_N=32 if few else 64, BLOCK_M=32 if items <= 128 else 16)
        elif items > 128 or drops or (items <= 64 and target.startswith("sm_8")):
            settings.update(BLOCK_N=32)
        elif items > 64 and len(target) > 5:  # sm_100 and later
            settings.update(BLOCK_N=32, num_warps=4)
    elif target.startswith("gfx"):
        settings.update(BLOCK_M=16, BLOCK_N=16, num_warps=4)
    elif by_rows:
        settings.update(BLOCK_N=16)
    elif items > 128:
        settings.update(BLOCK_M=16, BLOCK_N=16 if target.startswith("sm_8") else 32)
    elif drops:
        settings.update(BLOCK_M=16 if items > 64 or target.startswith("sm_9") else 32)
    elif items <= 64:
        settings.update(BLOCK_M=16, num_warps=4)
    return settings
