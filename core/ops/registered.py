"""Ops by a schema, and functions that compute them by device: `define` and `impl`, as PyTorch's older packages say it.

An op here is the function that was given for it: what it computes by ops has its gradients. `core.library.custom_op`
makes an op with a place of its own in the graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..base.errors import text
from ..tensors.tensor import Tensor

ANY = ("default", "CompositeImplicitAutograd", "CompositeExplicitAutograd")
_NAME = re.compile(r"^[\w.]+::[\w.]+$")
described: dict[str, Described] = {}


class Described:
    """An op that has a schema, and functions for devices."""

    def __init__(self, name: str, schema: str) -> None:
        self.name, self.schema = name, schema
        self.functions: dict[str, Callable[..., Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        first = next((a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)), None)
        kind = "CPU" if first is None else first.device.type.upper()
        found = next((f for k in (kind, *ANY) if (f := self.functions.get(k)) is not None), None)
        if found is None:
            raise NotImplementedError(text(f"Could not run '{self.name}' with arguments from the '{kind}' backend",
                                           op=self.name, came=kind.lower(), needed=", ".join(self.functions) or "none",
                                           remedy=f"core.library.impl({self.name!r}, {kind!r})"))  # fmt: skip
        return found(*args, **kwargs)


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Name an op, and its arguments by a schema. `impl` gives what computes it; it is then at ``core.ops``.

    *Raises*: ValueError for a name without a namespace.

    >>> import core
    >>> core.library.define("docs::twice", "(Tensor x) -> Tensor")
    >>> @core.library.impl("docs::twice", "default")
    ... def twice(x):
    ...     return 2 * x
    >>> core.ops.docs.twice(core.ones(2))
    tensor([2., 2.])
    """
    if not _NAME.match(qualname):
        raise ValueError(text(f"define(qualname, ...) expects a name with a namespace, got {qualname!r}", op="define",
                              needed='"namespace::name"'))  # fmt: skip
    described[qualname] = Described(qualname, schema)


def impl(qualname: str, types: Any, func: Callable[..., Any] | None = None, *, lib: Any = None) -> Any:
    """Let a function compute an op of `define`, on devices of some types ("default": on all). A decorator too."""
    if func is None:
        return lambda f: impl(qualname, types, f, lib=lib)
    op = described.get(qualname)
    if op is None:  # PyTorch waits for the definition, whoever makes it
        op = described[qualname] = Described(qualname, "")
    for kind in [types] if isinstance(types, str) else types:
        op.functions[kind if kind in ANY else kind.upper()] = func
    return func
