"""Ops by PyTorch's path ``torch.ops.<namespace>.<name>``: custom ops under theirs, the others under ``aten``.

>>> import core
>>> core.ops.aten.relu.default(core.tensor([-1.0, 2.0]))
tensor([0., 2.])
"""

from __future__ import annotations

import importlib
from typing import Any, NoReturn

from ..base.errors import text
from ..declare import op as declarations
from ..dispatch.publish import namespaces
from ..tensors.tensor import Tensor

__all__ = ["Namespace", "OpOverload", "OpOverloadPacket", "load_library"]


defined: dict[tuple[str, str], Any] = {}  # what core.library.Library defined, by namespace and name


def _further(name: str) -> Any:
    """Return an op that ATen has by a name of its own, or a public function that makes a tensor; None for neither."""
    aten = importlib.import_module("..further_ops", __package__)
    return getattr(aten, name, None) if name in aten.__all__ else namespaces[""].get(name) or aten.making(name)


def _elsewhere(namespace: str, name: str) -> Any:
    """Return an op of PyTorch's other namespaces that is written in ops; None where there is none."""
    if namespace == "prims" and name == "convert_element_type":
        return Tensor.to
    file = {"quantized_decomposed": "quantized_ops", "higher_order": "higher_order"}.get(namespace)
    if file is None:
        return None
    found = importlib.import_module(f"..{file}", __package__)
    return getattr(found, name, None) if name in found.__all__ else None


class OpOverloadPacket:
    """An op by its name; its overloads (``.default``, ``.Tensor``) are all the one function, which looks for itself."""

    def __init__(self, namespace: str, name: str, function: Any) -> None:
        self._qualified_op_name, self.__name__, self._function = f"{namespace}::{name}", name, function
        self.__module__ = f"torch.ops.{namespace}"
        self._overloads: dict[str, OpOverload] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> OpOverload:
        if name.startswith("_"):
            raise AttributeError(f"{self!r} has no attribute {name!r}")
        return self._overloads.setdefault(name, OpOverload(self, name))

    def overloads(self) -> list[str]:
        """Return the names of its overloads: one stands for all."""
        return ["default"]

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._qualified_op_name.replace('::', '.')}')>"


class OpOverload:
    """One form of an op; calls the op."""

    def __init__(self, overloadpacket: OpOverloadPacket, name: str) -> None:
        self.overloadpacket, self._overloadname = overloadpacket, name
        self.__name__ = f"{overloadpacket.__name__}.{name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.overloadpacket(*args, **kwargs)

    def name(self) -> str:
        """Return the op's name with its namespace."""
        return self.overloadpacket._qualified_op_name

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.name().replace('::', '.')}', overload='{self._overloadname}')>"


def _slice(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    return input[(*[slice(None)] * (dim % input.ndim), slice(start, end, step))]  # type: ignore[index]


def _absent(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(text(f"there is no op aten::{name}", op=f"ops.aten.{name}",
                                       remedy="core.sparse.mm and what follows of it"))  # fmt: skip

    return refuse


# what PyTorch has below its public functions, and packages register rules for
_ATEN: dict[str, Any] = {
    "slice": _slice,
    "_pin_memory": lambda x, device=None: x.pin_memory(),
    "_sparse_addmm": lambda *args, **words: declarations.functions["addmm"](*args, **words),
    "_sparse_mm_reduce_impl": _absent("_sparse_mm_reduce_impl"),
}


class Namespace:
    """The ops of one namespace."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        declared = declarations.table.get(f"{self._name}::{name}")
        function = getattr(declared, "custom", None)
        if function is None and self._name == "aten":
            method = getattr(Tensor, name, None)
            method = method if callable(method) else None
            function = _ATEN.get(name) or declarations.functions.get(name, method) or _further(name)
        elif function is None:
            function = defined.get((self._name, name)) or _elsewhere(self._name, name)
        if function is None:
            raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{name}'")
        found = OpOverloadPacket(self._name, name, function)
        if self._name == "aten":  # a custom op may be declared anew
            self.__dict__[name] = found
        return found

    def __repr__(self) -> str:
        return f"<Namespace {self._name}>"


def load_library(path: Any) -> NoReturn:
    """Raise OSError: a library of ops is built against PyTorch's C++, which is not here."""
    raise OSError(text(f"Could not load this library: {path}", op="ops.load_library",
                       needed="ops in Python, C or Triton", remedy="core.library.custom_op or c_op"))  # fmt: skip
