"""Nested Python objects as JSON with their tensors set apart, and back: what safetensors files need beside tensors.

A plain value stands for itself; what JSON lacks is an object with the key "$", which names its kind.
"""

from __future__ import annotations

import base64
import json
import math
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import numpy as np

from ..base.device import device as Device
from ..base.dtypes import complex128, dtype
from ..base.errors import text
from ..base.shape import Size
from ..nn.parameter import Parameter
from ..rng.generator import Generator
from ..tensors.tensor import Tensor
from . import safetensors
from .memory import Block, address, array_of, blocks

VERSION = 1
FACTORIES = {f.__name__: f for f in (list, dict, int, float, set, str, tuple, bool, OrderedDict, Counter)}
SCALARS = "biufcSmM"  # the kinds of NumPy scalars and arrays, by dtype.kind, that have no pointers inside


def refused(x: Any, path: str) -> TypeError:
    """Return the error for what no file should hold."""
    name = f"{type(x).__module__}.{type(x).__qualname__}"
    remedy = "turn it into dicts, lists, numbers, texts and tensors"
    if hasattr(x, "state_dict"):
        remedy = "save its state_dict(), which outlives the code; a whole module goes into a file named .pt"
    elif hasattr(x, "_asdict"):
        remedy = "tuple(x) or x._asdict()"
    elif callable(x):
        remedy = "save its name"
    where = f" at {path}" if path else ""
    needed = "tensors, arrays, numbers, texts, and dicts, lists, tuples and sets of them"
    return TypeError(text(f"cannot save an object of class {name}{where}", op="save", needed=needed, remedy=remedy))


def _b64(x: bytes | bytearray) -> str:
    return base64.b64encode(x).decode()


class Encoder:
    """One object on its way into a file."""

    def __init__(self) -> None:
        self.nodes: list[tuple[dict[str, Any], Any, str]] = []  # of tensors and arrays: what is said of it, it, its key
        self.numbers: dict[int, int] = {}  # id of a tensor -> its place in nodes
        self.within: set[int] = set()
        self.keys = {"__metadata__"}

    def encode(self, x: Any, path: str = "") -> Any:
        """`x` as JSON."""
        if x is None or type(x) is bool or type(x) is str:
            return x
        if type(x) is int:
            return x if abs(x) < 2**63 else {"$": "int", "hex": hex(x)}
        if type(x) is float:
            return x if math.isfinite(x) else {"$": "float", "hex": np.float64(x).tobytes().hex()}
        if isinstance(x, Tensor | np.ndarray):
            return self._tensor(x, path)
        if isinstance(x, np.str_):
            return str(x)
        if isinstance(x, np.generic) and x.dtype.kind in SCALARS:
            return {"$": "scalar", "dtype": x.dtype.str, "bytes": _b64(x.tobytes())}
        if isinstance(x, dict | list | tuple | set | frozenset | deque):
            if id(x) in self.within:
                raise ValueError(text(f"an object that contains itself, at {path}", op="save", remedy="save as .pt"))
            self.within.add(id(x))
            try:
                return self._container(x, path)
            finally:
                self.within.discard(id(x))
        return self._rarer(x, path)

    def _rarer(self, x: Any, path: str) -> Any:
        if type(x) is bytes or type(x) is bytearray:
            return {"$": type(x).__name__, "bytes": _b64(x)}
        if type(x) is complex:
            return {"$": "complex", "parts": [self.encode(x.real), self.encode(x.imag)]}
        if isinstance(x, dtype):
            return {"$": "dtype", "name": x.name}
        if isinstance(x, Device):
            return {"$": "device", "name": str(x)}
        if isinstance(x, Generator):
            return {"$": "Generator", "device": str(x.device), "state": self.encode(x.get_state(), path)}
        if type(x) in (range, slice):
            return {"$": type(x).__name__, "parts": [self.encode(v, path) for v in (x.start, x.stop, x.step)]}
        raise refused(x, path)

    def _join(self, path: str, key: Any) -> str:
        return f"{path}.{key}" if path else str(key)

    def _items(self, x: Any, path: str) -> list[list[Any]]:
        return [[self.encode(k, path), self.encode(v, self._join(path, k))] for k, v in x.items()]

    def _container(self, x: Any, path: str) -> Any:
        kind = type(x)
        if kind is dict and all(type(k) is str and not k.startswith("$") for k in x):
            return {k: self.encode(v, self._join(path, k)) for k, v in x.items()}
        if kind is list:
            return [self.encode(v, self._join(path, i)) for i, v in enumerate(x)]
        if kind in (tuple, Size):
            return {"$": kind.__name__, "items": [self.encode(v, self._join(path, i)) for i, v in enumerate(x)]}
        if kind in (set, frozenset):
            return {"$": kind.__name__, "items": [self.encode(v, path) for v in x]}
        if kind is deque:
            return {"$": "deque", "maxlen": x.maxlen, "items": [self.encode(v, f"{path}.{i}") for i, v in enumerate(x)]}
        if kind is defaultdict:
            made = x.default_factory
            if made is not None and FACTORIES.get(getattr(made, "__name__", "")) is not made:
                raise refused(made, path)
            return {"$": "defaultdict", "factory": made and made.__name__, "items": self._items(x, path)}
        if kind in (dict, OrderedDict, Counter):
            node: dict[str, Any] = {"$": kind.__name__, "items": self._items(x, path)}
            if kind is OrderedDict and x.__dict__:  # a state dict keeps the versions of its modules so
                node["attributes"] = self.encode(x.__dict__, path)
            return node
        raise refused(x, path)

    def _tensor(self, x: Any, path: str) -> Any:
        if id(x) in self.numbers:
            return {"$": "again", "number": self.numbers[id(x)]}
        node: dict[str, Any] = {"$": "tensor"}
        if isinstance(x, Tensor):
            if type(x) not in (Tensor, Parameter):
                raise refused(x, path)
            if type(x) is Parameter:
                node["class"] = "Parameter"
            if x.requires_grad:
                node["requires_grad"] = True
            if x.device.type != "cpu":
                node["device"] = str(x.device)
        else:
            if type(x) is not np.ndarray or x.dtype.newbyteorder("=") not in (*safetensors.NAMES, complex128.numpy):
                raise TypeError(text(f"cannot save a NumPy array of {x.dtype} at {path}", op="save",
                                     needed="an array of numbers", remedy="x.tolist(), or save as .pt"))  # fmt: skip
            node["class"] = "ndarray"
        if array_of(x).dtype == complex128.numpy:
            node["dtype"] = "complex128"
        self.numbers[id(x)] = len(self.nodes)
        self.nodes.append((node, x, self._key(path)))
        return node

    def _key(self, path: str) -> str:
        """Return a name that no other tensor of the file has."""
        base = name = path or "value"
        k = 1
        while name in self.keys:
            k += 1
            name = f"{base}~{k}"
        self.keys.add(name)
        return name


def _dense(a: Any) -> bool:
    """Return whether the elements fill their memory without holes, in whatever order of the dimensions."""
    step = a.itemsize
    for st, n in sorted((st, n) for st, n in zip(a.strides, a.shape, strict=True) if n != 1):
        if st != step:
            return False
        step *= n
    return True


def _native(a: Any) -> Any:
    """Return an array with this machine's order of bytes."""
    return a if a.dtype.isnative else a.astype(a.dtype.newbyteorder("="))


def _host(a: Any) -> Any:
    return np.ascontiguousarray(a if isinstance(a, np.ndarray) else a.get())


def _entry(key: str, a: Any) -> safetensors.Entry:
    """Return an array in row-major order; complex128, which the format lacks, as pairs."""
    shape = tuple(int(n) for n in a.shape)
    if a.dtype == complex128.numpy:
        return safetensors.Entry(key, "F64", (*shape, 2), lambda: _host(a).reshape(-1).view(np.uint8))
    name = safetensors.NAMES[a.dtype]
    # a 0-d array has no view of its bytes
    return safetensors.Entry(key, name, shape, lambda: _host(a).reshape(-1).view(np.uint8))


def _steps(a: Any) -> list[int]:
    return [st // a.itemsize for st in a.strides]


def encoded(obj: Any) -> tuple[list[safetensors.Entry], dict[str, str]]:
    """Return the tensors of an object, and the metadata that say how it is made of them.

    *Raises*: TypeError for what is neither data nor a container, ValueError for what contains itself.
    """
    encoder = Encoder()
    try:
        node = encoder.encode(obj)
    except RecursionError:
        raise ValueError(text("the object is nested too deeply", op="save", remedy="flatten it")) from None
    arrays = [_native(array_of(x)) for _, x, _ in encoder.nodes]
    where = [x.device if isinstance(x, Tensor) else Device("cpu") for _, x, _ in encoder.nodes]
    groups: dict[int, list[int]] = {}
    of = blocks(list(zip(arrays, where, strict=True)))
    for k, block in enumerate(of):
        groups.setdefault(id(block), []).append(k)
    entries: list[safetensors.Entry] = []
    metadata = {"format": "pt"}
    for members in groups.values():
        entries.append(_stored(encoder, arrays, members, of[members[0]], metadata))
    metadata["gradlab"] = json.dumps({"version": VERSION, "object": node}, separators=(",", ":"), ensure_ascii=False)
    return entries, metadata


def _stored(encoder: Encoder, arrays: list[Any], members: list[int], block: Block,
            metadata: dict[str, str]) -> safetensors.Entry:  # fmt: skip
    """Return the one entry for tensors that share a memory; says in their nodes where they are."""
    first = arrays[members[0]]
    full = [k for k in members if arrays[k].nbytes == block.size_bytes and arrays[k].flags.c_contiguous]
    if len({(address(arrays[k]), arrays[k].shape, arrays[k].strides) for k in members}) == 1:
        for k in members:
            encoder.nodes[k][0]["key"] = encoder.nodes[members[0]][2]
            if not first.flags.c_contiguous and _dense(first):
                encoder.nodes[k][0]["stride"] = _steps(first)
            if k != members[0]:  # so that the library's load_model knows what is missing
                metadata.setdefault(encoder.nodes[k][2], encoder.nodes[members[0]][2])
        return _entry(encoder.nodes[members[0]][2], first)
    if full:
        key, base = encoder.nodes[full[0]][2], _entry(encoder.nodes[full[0]][2], arrays[full[0]])
    else:
        key = encoder._key(encoder.nodes[members[0]][2] + ".memory")
        size, name = block.size_bytes, safetensors.NAMES.get(block.dtype, "F64")
        base = safetensors.Entry(key, name, (size // safetensors.DTYPES[name].itemsize,), block.bytes)
    for k in members:
        node, a = encoder.nodes[k][0], arrays[k]
        node["key"] = key
        if not full or k != full[0]:
            offset = (address(a) - block.low) // a.itemsize
            node["view"] = [list(a.shape), _steps(a), offset]
    return base
