"""PyTorch's older switches of how attention is computed, under ``backends.cuda``: `sdpa_kernel` is newer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import SDPBackend, sdpa_kernel

__all__ = ["SDPAParams", "can_use_flash_attention", "sdp_kernel"]


class SDPAParams(NamedTuple):
    """What attention would be asked for."""

    query: Any
    key: Any
    value: Any
    attn_mask: Any = None
    dropout: float = 0.0
    is_causal: bool = False
    enable_gqa: bool = False


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return whether attention can be computed by the one op: without dropout."""
    return params.dropout == 0.0


@contextlib.contextmanager
def sdp_kernel(enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
               enable_cudnn: bool = True) -> Iterator[None]:  # fmt: skip
    """Within it, attention may be computed in these ways only: `sdpa_kernel` by an older name.

    >>> import core
    >>> with core.backends.cuda.sdp_kernel(enable_flash=False):
    ...     core.nn.functional.scaled_dot_product_attention(*[core.ones(1, 2, 4)] * 3).shape
    core.Size([1, 2, 4])
    """
    ways = {SDPBackend.FLASH_ATTENTION: enable_flash, SDPBackend.MATH: enable_math,
            SDPBackend.EFFICIENT_ATTENTION: enable_mem_efficient, SDPBackend.CUDNN_ATTENTION: enable_cudnn}  # fmt: skip
    with sdpa_kernel([way for way, allowed in ways.items() if allowed]):
        yield
