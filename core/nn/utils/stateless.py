"""The older path of `core.func.functional_call`."""

from __future__ import annotations

from typing import Any

from ...base.source import warn
from ...func import functional_call as newer


def functional_call(module: Any, parameters_and_buffers: dict[str, Any], args: Any = None,
                    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True,
                    strict: bool = False) -> Any:  # fmt: skip
    """As `core.func.functional_call`, with one dict."""
    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0; use `torch.func.functional_call`",
        FutureWarning,
    )
    return newer(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


__all__ = ["functional_call"]
