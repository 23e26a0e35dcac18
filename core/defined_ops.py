"""Ops by a schema, as ``torch.library.Library`` has them: defined in one place, and implemented by device in another.

>>> import core
>>> lib = core.library.Library("planets", "DEF")
>>> lib.define("scaled(Tensor x, float by=2.0) -> Tensor")
'scaled'
>>> lib.impl("scaled", lambda x, by=2.0: x * by, "CPU")
>>> core.ops.planets.scaled(core.ones(1))
tensor([2.])
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from .base.errors import text
from .ops import namespaces
from .tensors.tensor import Tensor

__all__ = ["Library", "define", "impl", "triton_op", "wrap_triton"]

_NAME = re.compile(r"\s*(\w+(?:\.\w+)?)\s*\((.*)\)\s*->\s*(.+)", re.S)
# which implementations serve a tensor of a device, the first that is there
_SERVING = {"cpu": ("CPU",), "cuda": ("CUDA",)}
_ANY = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "")
_TAPE = ("Autograd", "AutogradCPU", "AutogradCUDA")


class DefinedOp:
    """An op with a schema: calling it calls what was implemented for the device of its first tensor."""

    def __init__(self, name: str, schema: str) -> None:
        self.name, self.schema = name, schema
        self.kernels: dict[str, Callable[..., Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        first = next((a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)), None)
        device = "cpu" if first is None else first.device.type
        grad = any(isinstance(a, Tensor) and a.requires_grad for a in (*args, *kwargs.values()))
        for key in (*(_TAPE if grad else ()), *_SERVING.get(device, (device.upper(),)), *_ANY, *_TAPE):
            if key in self.kernels:
                return self.kernels[key](*args, **kwargs)
        raise NotImplementedError(text(f"Could not run '{self.name}' with arguments from the "
                                       f"'{device.upper()}' backend.", op=self.name, came=f"a tensor on {device}",
                                       needed=f"an implementation; there are: {', '.join(self.kernels) or 'none'}",
                                       remedy=f"library.impl({self.name!r}, {device!r}, function)"))  # fmt: skip


def _split(qualname: str) -> tuple[str, str]:
    space, colons, name = qualname.partition("::")
    if not colons:
        raise ValueError(text("expected the name of an op to be 'namespace::name'", op="library.define", came=qualname))
    return space, name.partition(".")[0]


class Library:
    """Ops of a namespace: `define` them, and say with `impl` what computes them.

    kind : "DEF" of a namespace of one's own, "FRAGMENT" of more of it, "IMPL" for implementations alone. What computes
    with core's ops is on the graph; an implementation for "Autograd" is called where a tensor needs a gradient.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Unsupported library kind: {kind}")
        if ns == "aten" and kind == "DEF":
            raise ValueError("aten is a reserved namespace. Please try creating a library with another name.")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._names: list[str] = []

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Declare an op: ``name(Tensor x, float by=2.0) -> Tensor``; return its name."""
        found = _NAME.fullmatch(schema)
        if found is None:
            raise ValueError(text("not a schema of an op", op="Library.define", came=repr(schema),
                                  needed="name(Tensor x) -> Tensor"))  # fmt: skip
        name = found[1].partition(".")[0]
        op = namespaces.defined.setdefault((self.ns, name), DefinedOp(f"{self.ns}::{name}", schema))
        op.schema = schema
        self._names.append(name)
        return found[1]

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False,
             allow_override: bool = False) -> None:  # fmt: skip
        """Say what computes an op: on a device ("CPU", "CUDA"), with gradients ("Autograd"), or always."""
        name = (
            _split(op_name)[1] if "::" in str(op_name) else str(getattr(op_name, "__name__", op_name)).partition(".")[0]
        )
        op = namespaces.defined.get((self.ns, name))
        if op is None:  # somebody may define it later
            op = namespaces.defined[self.ns, name] = DefinedOp(f"{self.ns}::{name}", "")
        op.kernels[dispatch_key or self.dispatch_key] = fn

    def fallback(self, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Refuse: what serves all ops of a device is not asked here. *Raises*: NotImplementedError."""
        raise NotImplementedError(text("fallbacks of whole devices are not asked", op="Library.fallback",
                                       remedy="Library.impl for each op"))  # fmt: skip

    def _destroy(self) -> None:
        for name in self._names:
            namespaces.defined.pop((self.ns, name), None)


def define(qualname: str, schema: str | None = None, *, lib: Library | None = None, tags: Any = ()) -> Any:
    """Declare an op by its name and the rest of its schema, ``define("mine::f", "(Tensor x) -> Tensor")``.

    >>> import core
    >>> core.library.define("planets::twice", "(Tensor x) -> Tensor")
    >>> @core.library.impl("planets::twice", "cpu")
    ... def twice(x):
    ...     return x + x
    >>> core.ops.planets.twice(core.ones(1))
    tensor([2.])
    """
    if schema is None or isinstance(lib, str):
        raise ValueError(text("define needs the schema of an op", op="library.define", came=repr(qualname)))
    space, name = _split(qualname)
    (lib or Library(space, "FRAGMENT")).define(name + schema)


def impl(qualname: Any, types: str | Sequence[str], func: Callable[..., Any] | None = None, *,
         lib: Library | None = None) -> Any:  # fmt: skip
    """Say what computes an op for kinds of devices ("cpu", "cuda", "default"), or for a key of `Library.impl`."""
    if isinstance(qualname, Library):  # the older form: impl(lib, name, key)
        library, name = qualname, str(types)
        return lambda f: library.impl(name, f, func or "") or f  # type: ignore[arg-type, func-returns-value]
    if func is None:
        return lambda f: impl(qualname, types, f, lib=lib) or f
    space, name = _split(qualname)
    keys = (types,) if isinstance(types, str) else tuple(types)
    for key in keys:
        plain = {"default": "", "cpu": "CPU", "cuda": "CUDA"}.get(key, key)
        (lib or Library(space, "FRAGMENT")).impl(name, func, plain)
    return None


def triton_op(name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: Any = (),
              schema: str | None = None) -> Any:  # fmt: skip
    """Declare an op that calls Triton kernels and core's ops: the function itself, under ``ops``.

    >>> import core
    >>> @core.library.triton_op("planets::thrice", mutates_args={})
    ... def thrice(x: core.Tensor) -> core.Tensor:
    ...     return 3 * x
    >>> core.ops.planets.thrice(core.ones(1))
    tensor([3.])
    """
    if fn is None:
        return lambda f: triton_op(name, f, mutates_args=mutates_args, schema=schema)
    space, short = _split(name)
    op = namespaces.defined[space, short] = DefinedOp(name, schema or f"{short}(...) -> ...")
    op.kernels[""] = fn
    op.__doc__ = fn.__doc__
    return op


def wrap_triton(triton_kernel: Any, /) -> Any:
    """Return a Triton kernel as it is: nothing is traced here, so nothing has to see it."""
    return triton_kernel
