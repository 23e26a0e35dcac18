"""PyTorch's settings of cuDNN, for programs that make them. There is no cuDNN here: they are kept and change nothing.

The kernels of `cuda` are Triton's, and one seed gives one result with any of these.

>>> import core
>>> core.backends.cudnn.benchmark = True
>>> core.backends.cudnn.is_available()
False
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Return whether cuDNN is there: never."""
    return False


def version() -> int | None:
    """Return the version of cuDNN: None, as there is none."""
    return None


@contextlib.contextmanager
def flags(enabled: bool = False, benchmark: bool = False, benchmark_limit: int = 10, deterministic: bool = False,
          allow_tf32: bool = True, fp32_precision: str = "none") -> Iterator[None]:  # fmt: skip
    """Make settings for a block, without effect.

    >>> import core
    >>> with core.backends.cudnn.flags(deterministic=True):
    ...     core.backends.cudnn.deterministic
    True
    """
    names, own = ("enabled", "benchmark", "deterministic", "allow_tf32"), globals()
    before, given = {n: own[n] for n in names}, locals()
    own.update({n: given[n] for n in names})
    try:
        yield
    finally:
        own.update(before)
