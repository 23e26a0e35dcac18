"""PyTorch's names for tensors in a pickle: what `torch._utils._rebuild_tensor_v2` and its kin make here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtypes import dtype as Dtype
from ..base.errors import LoadError, text
from ..nn.parameter import Parameter
from ..sparse.making import sparse_compressed_tensor, sparse_coo_tensor
from ..tensors.tensor import Tensor
from . import allowed, classes
from .loaded import KNOWN, Memory, Places
from .source import broken, short
from .unpickling import Machine, Stream

_OWN = ("_a", "_kind", "_node", "_nr", "_storage", "_view", "_requires_grad", "_grad")


class Tensors:
    """The memory of one file, and how to make tensors of it. `read(key, size_bytes)` gives the bytes of a memory."""

    def __init__(self, map_location: Any, read: Callable[[str, np.dtype[Any], int], Any]) -> None:
        self.places, self.read = Places(map_location), read
        self.memories: dict[str, Memory] = {}
        self.raw: dict[tuple[int, str], Memory] = {}
        self.seen: dict[tuple[int, bool, bool], Memory] = {}

    def persistent(self, said: Any) -> Any:
        """Return the memory that an id names: ('storage', class, key, place, number of elements). Before 1.6 a class of
        modules was named so too, with its text: ('module', class, file, text)."""
        if isinstance(said, tuple) and len(said) == 4 and said[0] == "module":
            return said[1]
        if not isinstance(said, tuple) or len(said) not in (5, 6) or said[0] != "storage":
            raise broken(f"it names {short(said)} where memory should be")
        _, kind, key, location, count = said[:5]
        if len(said) == 6 and said[5] is not None:
            raise LoadError(text("memory that is part of other memory, as PyTorch wrote it before 0.4", op="load",
                                 remedy="torch.save it again with a newer PyTorch"))  # fmt: skip
        if not isinstance(kind, allowed.Symbol) or kind.dtype is None or type(key) is not str \
                or type(location) is not str or type(count) is not int or count < 0:  # fmt: skip
            raise broken(f"it names {short(said)} where memory should be")
        found = self.memories.get(key)
        if found is None:
            size = count * kind.dtype.itemsize
            root = self.read(key, kind.dtype, size)
            found = self.memories[key] = Memory(root, kind.dtype, self.places.device(location, size))
        elif found.dtype != kind.dtype:
            raise broken(f"the memory {key[:40]!r} is said to be of {kind.dtype} and of {found.dtype}")
        return found

    def _tensor(self, memory: Any, offset: Any, size: Any, stride: Any, requires_grad: Any = False, hooks: Any = None,
                metadata: Any = None) -> Any:  # fmt: skip
        if not isinstance(memory, Memory) or not isinstance(size, tuple) or not isinstance(stride, tuple):
            raise broken("a tensor without memory, shape or strides")
        if isinstance(metadata, dict):  # lazily conjugated or negated when it was saved
            memory = self._as_seen(memory, metadata.get("conj") is True, metadata.get("neg") is True)
        return memory.tensor(size, stride, offset, requires_grad is True)

    def _as_seen(self, memory: Memory, conj: bool, neg: bool) -> Memory:
        """Return the same values conjugated or negated: those in the file, however often a stride of 0 says them."""
        if (not conj and not neg) or memory.dtype not in KNOWN:
            return memory
        made = self.seen.get((id(memory), conj, neg))
        if made is None:
            values = memory.root[: memory.size * memory.dtype.itemsize].view(memory.dtype)
            values = values.conj() if conj else values
            values = -values if neg else values
            made = Memory(np.ascontiguousarray(values).view(np.uint8), memory.dtype, memory.where)
            self.seen[id(memory), conj, neg] = made
        return made

    def _untyped(self, memory: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any,
                 metadata: Any = None) -> Any:  # fmt: skip
        """Return a tensor whose memory is said to be bytes: of the dtypes that came later."""
        d = dtype.dtype if isinstance(dtype, allowed.Symbol) else dtype.numpy if isinstance(dtype, Dtype) else None
        if not isinstance(memory, Memory) or d is None or memory.base is not None:
            raise broken("a tensor without memory or dtype", 'map_location="cpu"')
        typed = self.raw.get((id(memory), str(d)))
        if typed is None:
            typed = self.raw[id(memory), str(d)] = Memory(memory.root, d)
            typed.version = memory.version
        return self._tensor(typed, offset, size, stride, requires_grad, hooks, metadata)

    def _parameter(self, data: Any, requires_grad: Any = True, hooks: Any = None, state: Any = None) -> Any:
        if not isinstance(data, Tensor):
            raise broken("a parameter without a tensor")
        return _with_state(Parameter(data, requires_grad is True), state)

    def _sparse(self, layout: Any, parts: Any) -> Any:
        """Return a sparse tensor of its parts, which are examined as those that a user gives."""
        name = getattr(layout, "name", "")
        if not isinstance(parts, tuple) or name not in ("sparse_coo", "sparse_csr", "sparse_csc"):
            raise allowed.refused("torch._utils._rebuild_sparse_tensor")
        *index, values, size, coalesced = parts if name == "sparse_coo" and len(parts) == 4 else (*parts, None)
        if len(index) != (1 if name == "sparse_coo" else 2) or not isinstance(size, tuple) \
                or not all(isinstance(t, Tensor) for t in (*index, values)):  # fmt: skip
            raise broken("a sparse tensor without places, values or size")
        try:
            if name == "sparse_coo":
                made = sparse_coo_tensor(index[0], values, size)
                return made.coalesce() if coalesced is True else made  # type: ignore[attr-defined]
            return sparse_compressed_tensor(index[0], index[1], values, size, layout=layout)
        except (RuntimeError, TypeError, ValueError) as e:
            raise broken(f"a sparse tensor whose parts do not fit: {e}") from None

    def _of_type(self, function: Any, cls: Any, args: Any, state: Any) -> Any:
        """Return a tensor with attributes of its own."""
        if not isinstance(args, tuple) or getattr(cls, "name", "") not in _TYPES:
            raise allowed.refused(getattr(cls, "name", short(cls)))
        return _with_state(self.call(function, args), state)

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Return what a call in the pickle makes."""
        return allowed.call(function, args, {s: getattr(self, method) for s, method in _METHODS.items()})


def unpickled(stream: Stream, tensors: Tensors, weights_only: bool) -> Any:
    """Return the object that a pickle makes, with these tensors; unless `weights_only`, modules too. *Raises*:
    LoadError."""
    names: Any = allowed if weights_only else classes
    return Machine(stream, find=names.find, call=tensors.call, new=names.new, build=names.build,
                   persistent=tensors.persistent).run()  # fmt: skip


def _with_state(t: Any, state: Any) -> Any:
    if isinstance(state, tuple) and len(state) == 2:  # of __slots__, the second
        state = state[0]
    if isinstance(state, dict):
        for name, value in state.items():
            if type(name) is str and not hasattr(type(t), name) and name not in _OWN:
                t.__dict__[name] = value
    return t


_METHODS = {
    allowed.Symbol("torch._utils._rebuild_tensor"): "_tensor",
    allowed.Symbol("torch._utils._rebuild_tensor_v2"): "_tensor",
    allowed.Symbol("torch._utils._rebuild_tensor_v3"): "_untyped",
    allowed.Symbol("torch._utils._rebuild_sparse_tensor"): "_sparse",
    allowed.Symbol("torch._utils._rebuild_parameter"): "_parameter",
    allowed.Symbol("torch._utils._rebuild_parameter_with_state"): "_parameter",
    allowed.Symbol("torch._tensor._rebuild_from_type_v2"): "_of_type",
}
allowed.NAMES.update({symbol.name: symbol for symbol in _METHODS})
_TYPES = ("torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer")
allowed.NAMES.update({name: allowed.Symbol(name) for name in _TYPES})
