"""Several GPUs: the public functions then run with the GPU of their tensors as the current one.

Ops are told their device by dispatch anyway; this is for what functions and methods do to arrays beside ops. It is laid
over them when more than one GPU is found, so that machines with one pay nothing.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from ..backends.cuda import devices
from ..tensors.tensor import Tensor
from . import publish

_MODULES = ("core", "core.nn.functional", "core.linalg", "core.fft", "core.special")
_done: list[bool] = []


def guard() -> None:
    """Lay it over the functions and methods that are public now; once."""
    if _done:
        return
    _done.append(True)
    functions = {id(f) for names in publish.namespaces.values() for f in names.values()}
    for name in _MODULES:
        module = sys.modules.get(name)
        for key, f in list(vars(module).items()) if module is not None else ():
            if id(f) in functions and callable(f):
                setattr(module, key, _at_home(f))
    for key, f in list(vars(Tensor).items()):
        plain = not key.startswith("__") or key in ("__getitem__", "__setitem__")
        if plain and not isinstance(f, type | property | staticmethod | classmethod) and callable(f):
            setattr(Tensor, key, _at_home(f))


def _at_home(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def there(*args: Any, **kwargs: Any) -> Any:
        for a in (*args, *kwargs.values()):
            if isinstance(a, tuple | list) and a:
                a = a[0]
            if isinstance(a, Tensor):
                if a._kind.device.index is None:
                    break
                with devices.on(a._kind.device):
                    return f(*args, **kwargs)
        return f(*args, **kwargs)

    return there


devices.when_several.append(guard)
