"""Making a module without filling its weights."""

from __future__ import annotations

from typing import Any

from ...base.signatures import signature
from .. import init
from ..modules.module import Module


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a module whose weights are memory as it comes; nothing is drawn. For weights that are to be loaded anyway.

    *Raises*: TypeError for what is no module's class; RuntimeError for one that takes no `device`.

    >>> import core
    >>> core.nn.utils.skip_init(core.nn.Linear, 3, 2).weight.shape
    core.Size([2, 3])
    """
    if not issubclass(module_cls, Module):
        raise TypeError(f"Expected a Module; got {module_cls}")
    if "device" not in signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with init.skipped():
        return module_cls(*args, **kwargs)
