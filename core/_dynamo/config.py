"""Settings of PyTorch's tracing: they are kept and read again, and change nothing."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

cache_size_limit = recompile_limit = 8
accumulated_recompile_limit = accumulated_cache_size_limit = 256
suppress_errors = verbose = disable = capture_scalar_outputs = capture_dynamic_output_shape_ops = False
automatic_dynamic_shapes = inline_inbuilt_nn_modules = True
assume_static_by_default = optimize_ddp = True
force_parameter_static_shapes = specialize_int = specialize_float = allow_unspec_int_on_nn_module = False
skip_fwd_side_effects_in_bwd_under_checkpoint = False
log_level = 30


@contextlib.contextmanager
def patch(arg: str | Mapping[str, Any] | None = None, value: Any = None, **changes: Any) -> Iterator[None]:
    """Set some of them for a block: by name and value, by a dict, or by keywords.

    *Raises*: AttributeError for a name that is none of them.

    >>> from core._dynamo import config
    >>> with config.patch(cache_size_limit=64):
    ...     print(config.cache_size_limit)
    64
    """
    module = sys.modules[__name__]
    chosen = {**({arg: value} if isinstance(arg, str) else arg or {}), **changes}
    before = {name: getattr(module, name) for name in chosen}
    vars(module).update(chosen)
    try:
        yield
    finally:
        vars(module).update(before)
