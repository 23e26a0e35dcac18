"""Which way attention is computed: `SDPBackend` and `sdpa_kernel`, under PyTorch's path ``nn.attention``.

There are two ways. FLASH_ATTENTION stands for one op, which runs in one kernel where the machine has one and saves the
weights for the backward pass; MATH for a product of ops, which alone can drop weights. The other names are PyTorch's,
for kernels that are not here: allowing them alone raises when attention is asked for.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterable, Iterator

from ...base.lazy_import import lazy_attributes
from ...ops.attention import choice


class SDPBackend(enum.IntEnum):
    """The ways that `sdpa_kernel` chooses among; FLASH_ATTENTION and MATH are here.

    >>> import core
    >>> core.nn.attention.SDPBackend.MATH.name
    'MATH'
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_WAYS = {SDPBackend.FLASH_ATTENTION: "one", SDPBackend.MATH: "several"}


@contextlib.contextmanager
def sdpa_kernel(backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """Within it, `scaled_dot_product_attention` may be computed in these ways only.

    The one op goes first where it may and can; `set_priority` makes the order given count instead.

    *Raises*: AssertionError for what is no `SDPBackend`; RuntimeError, from the attention, where none of them serves.

    >>> import core
    >>> q = core.ones(1, 2, 4)
    >>> with core.nn.attention.sdpa_kernel(core.nn.attention.SDPBackend.MATH):
    ...     core.nn.functional.scaled_dot_product_attention(q, q, q).shape
    core.Size([1, 2, 4])
    """
    if not isinstance(backends, list | tuple | SDPBackend) or (
        not isinstance(backends, SDPBackend) and not all(isinstance(b, SDPBackend) for b in backends)
    ):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
                             f"{type(backends).__name__}")  # fmt: skip
    many = [backends] if isinstance(backends, SDPBackend) else list(backends)
    before, ways = choice.ways, tuple(dict.fromkeys(_WAYS[b] for b in many if b in _WAYS))
    choice.ways = ways if set_priority else tuple(sorted(ways))
    try:
        yield
    finally:
        choice.ways = before


__all__ = ["SDPBackend", "sdpa_kernel"]
__getattr__, __dir__ = lazy_attributes(__name__, {"flex_attention": ""})
