"""The older path of `core.func.functional_call`."""

from __future__ import annotations

import warnings
from typing import Any

from ...func import functional_call as newer


def functional_call(module: Any, parameters_and_buffers: dict[str, Any], args: Any = None,
                    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True,
                    strict: bool = False) -> Any:  # fmt: skip
    """As `core.func.functional_call`, with one dict."""
    warnings.warn("`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0; use "
                  "`torch.func.functional_call`", FutureWarning, stacklevel=2)  # fmt: skip
    return newer(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


__all__ = ["functional_call"]
