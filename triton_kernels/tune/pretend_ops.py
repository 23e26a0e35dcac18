"""Operators that a program has given a kernel for GPUs alone, run on the CPU while a GPU is pretended (`pretend`).

``torch.library.custom_op(..., device_types="cuda")`` and ``library.impl(name, function, "CUDA")`` leave PyTorch's
dispatcher without a kernel for tensors on the CPU, so that the program would end there. Within `run_on_cpu` a kernel
for the CPU calls the one for GPUs, whether it was registered before or is meanwhile; an operator of PyTorch's own that
a program has replaced on GPUs is replaced on the CPU too, as it would be beside a GPU.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

_Key = tuple[str, str]  # a namespace, and an operator's name with its overload


def run_on_cpu(torch: Any, undo: contextlib.ExitStack) -> None:
    """Have kernels for GPUs that Python code has registered called for tensors on the CPU, until `undo` is left."""
    library, put = torch.library.Library, torch.library.Library.impl
    added: dict[_Key, Any] = {}
    gpu = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)

    def add(key: _Key) -> None:
        space, name = key
        plain, _, overload = name.partition(".")
        try:
            call = getattr(getattr(getattr(torch.ops, space), plain), overload or "default")
        except AttributeError:  # it has no schema yet, or its library is gone
            return
        mine = library(space, "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that an operator of PyTorch's own has another kernel now
            put(mine, name, lambda *args, **named: call.redispatch(gpu, *_with_tensors(torch, call, args), **named),
                "CPU")  # fmt: skip
        added[key] = mine

    def remove(key: _Key) -> None:
        if key in added:
            added.pop(key)._destroy()

    def impl(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **named: Any) -> Any:
        key = (self.ns, _name_of(op_name))
        kind = dispatch_key or self.dispatch_key
        if kind == "CPU":
            remove(key)
        registered = put(self, op_name, fn, dispatch_key, **named)
        if kind == "CUDA" and not _has_own(torch, key):
            remove(key)
            add(key)
        return registered

    for each in sorted(torch.library._impls):
        space, _, rest = each.partition("/")
        name, _, kind = rest.rpartition("/")
        if kind == "CUDA" and not _has_own(torch, (space, name)):
            add((space, name))
    library.impl = impl

    def restore() -> None:
        library.impl = put
        for key in list(added):
            remove(key)

    undo.callback(restore)


def _with_tensors(torch: Any, call: Any, args: tuple[Any, ...]) -> list[Any]:
    """Return an operator's arguments with tensors for numbers where it takes tensors: ``x + 1`` is a call of those, and
    the dispatcher hands a kernel in Python the number."""
    kinds = [str(each.type) for each in call._schema.arguments]
    return [torch.tensor(value) if kind == "Tensor" and isinstance(value, bool | int | float | complex) else value
            for value, kind in zip(args, kinds, strict=False)]  # fmt: skip


def _name_of(operator: Any) -> str:
    """Return an operator's name with its overload, without its namespace."""
    name = operator if isinstance(operator, str) else operator._name
    return str(name).rpartition("::")[2].removesuffix(".default")


def _has_own(torch: Any, key: _Key) -> bool:
    """Return whether a program's operator has a kernel for the CPU that its own library has registered."""
    space, name = key
    return f"{space}/{name}/CPU" in torch.library._impls or (
        space != "aten" and bool(torch._C._dispatch_has_kernel_for_dispatch_key(f"{space}::{name}", "CPU"))
    )
