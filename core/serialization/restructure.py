"""Objects from a safetensors file: the way back of `structure`."""

from __future__ import annotations

import base64
import json
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.device import device as Device
from ..base.dtypes import complex128, named
from ..base.errors import LoadError, text
from ..base.shape import Size
from ..rng.generator import Generator
from ..tensors.tensor import Tensor
from . import keys, safetensors
from .loaded import Memory, Places, contiguous
from .source import Source, broken
from .structure import FACTORIES, SCALARS, VERSION


class Decoder:
    """One object on its way out of a file."""

    def __init__(self, source: Source, map_location: Any, mmap: bool) -> None:
        self.source, self.places = source, Places(map_location)
        self.parts, self.metadata = safetensors.read_header(source)
        self.mapped = source.mapped() if mmap else None
        self.memories: dict[tuple[str, str], Memory] = {}
        self.made: list[Any] = []

    def object(self) -> Any:
        """Return what was saved; of a file without our structure a dict of its tensors. *Raises*: LoadError."""
        said = self.metadata.get("gradlab")
        if said is None:
            return {
                key: self.memory(key, "cpu").tensor(p.shape, contiguous(p.shape), 0) for key, p in self.parts.items()
            }
        try:
            header = json.loads(said)
            if header["version"] != VERSION:
                raise LoadError(text(f"the file has structure {str(header['version'])[:20]!r} and this version of core "
                                     f"reads {VERSION}", op="load", remedy="a newer version of gradlab"))  # fmt: skip
            return self.decode(header["object"])
        except (LoadError, OSError, MemoryError):
            raise
        except Exception as error:  # whatever false texts and numbers bring about
            raise broken(f"its structure cannot be read ({type(error).__name__}: {str(error)[:200]})",
                         "safetensors.safe_open still reads its tensors") from None  # fmt: skip

    def memory(self, key: str, location: str, dtype: str | None = None) -> Memory:
        """Return the bytes of one entry, read when they are first asked for."""
        found = self.memories.get((key, location))
        if found is None:
            part = self.parts.get(key)
            if part is None:
                raise broken(f"its structure names the tensor {key[:80]!r}, which it lacks",
                             "safetensors.safe_open still reads its other tensors")  # fmt: skip
            at, n = part.offset, part.size_bytes
            d = part.dtype if dtype is None else np.dtype(dtype)
            if dtype is not None and (d != complex128.numpy or part.dtype != np.float64):
                raise ValueError(dtype)
            if self.mapped is not None and at % d.alignment == 0:
                root = self.mapped[at : at + n]
            else:
                root = np.empty(n, np.uint8)
                self.source.into(at, root)
            found = self.memories[key, location] = Memory(root, d, self.places.device(location, n))
        return found

    def decode(self, node: Any) -> Any:
        """Return the value that a piece of JSON stands for."""
        if isinstance(node, list):
            return [self.decode(v) for v in node]
        if not isinstance(node, dict):
            return node
        name = node.get("$")
        if name is None:
            return {k: self.decode(v) for k, v in node.items()}
        return _KINDS[name](self, node)

    def items(self, node: Any) -> list[tuple[Any, Any]]:
        """Return the pairs of a dict."""
        return [(keys.checked(self.decode(k)), self.decode(v)) for k, v in node["items"]]

    def tensor(self, node: Any) -> Any:
        """Return a tensor or array, over the memory that it may share with others."""
        key = node["key"]
        part, wide = self.parts.get(key), node.get("dtype")
        memory = self.memory(key, node.get("device", "cpu"), wide)
        assert part is not None  # memory() has refused
        if "view" in node:
            shape, stride, offset = node["view"]
        else:
            shape, offset = part.shape[:-1] if wide else part.shape, 0
            stride = contiguous(shape)
        if node.get("class") == "ndarray":
            made = memory.array(tuple(shape), tuple(stride), offset)
        else:
            made = memory.tensor(tuple(shape), tuple(stride), offset, node.get("requires_grad") is True,
                                 node.get("class") == "Parameter")  # fmt: skip
            if "stride" in node and isinstance(made, Tensor):
                made = _laid_out(made, memory, tuple(node["stride"]))
        self.made.append(made)
        return made


def _laid_out(t: Tensor, memory: Memory, stride: tuple[int, ...]) -> Tensor:
    """Return the memory of `t` with the strides it had; the file has it in row-major order. Those tied to it come
    along."""
    if memory.where.type != "cpu":
        return t
    if t._a.nbytes > memory.root.nbytes:  # it says the same bytes more than once
        raise ValueError("strides for more than the memory has")
    if memory.arranged is None:
        memory.arranged = Memory(np.empty(memory.root.nbytes, np.uint8), memory.dtype)
        memory.arranged.array(t._a.shape, stride, 0)[...] = t._a
    t._a = memory.arranged.array(t._a.shape, stride, 0)
    return t


def _scalar(decoder: Decoder, node: Any) -> Any:
    d = np.dtype(node["dtype"])
    data = base64.b64decode(node["bytes"])
    if d.kind not in SCALARS or len(data) != d.itemsize:
        raise ValueError(node["dtype"])
    return np.frombuffer(data, d)[0]


def _ordered(decoder: Decoder, node: Any) -> Any:
    made: OrderedDict[Any, Any] = OrderedDict(decoder.items(node))
    for name, value in decoder.decode(node.get("attributes", {})).items():
        if not hasattr(made, name):
            setattr(made, name, value)
    return made


def _defaults(decoder: Decoder, node: Any) -> Any:
    name = node["factory"]
    return defaultdict(None if name is None else FACTORIES[name], decoder.items(node))


def _sequence(make: Callable[[Any], Any]) -> Callable[[Decoder, Any], Any]:
    return lambda decoder, node: make([decoder.decode(v) for v in node["items"]])


def _parts(make: Callable[..., Any]) -> Callable[[Decoder, Any], Any]:
    return lambda decoder, node: make(*(decoder.decode(v) for v in node["parts"]))


_KINDS: dict[str, Callable[[Decoder, Any], Any]] = {
    "tensor": Decoder.tensor,
    "again": lambda decoder, node: decoder.made[node["number"]],
    "int": lambda decoder, node: int(node["hex"], 16),
    "float": lambda decoder, node: float(np.frombuffer(bytes.fromhex(node["hex"]), np.float64)[0]),
    "complex": _parts(complex),
    "range": _parts(range),
    "slice": _parts(slice),
    "scalar": _scalar,
    "bytes": lambda decoder, node: base64.b64decode(node["bytes"]),
    "bytearray": lambda decoder, node: bytearray(base64.b64decode(node["bytes"])),
    "dtype": lambda decoder, node: named(node["name"]),
    "device": lambda decoder, node: Device(node["name"]),
    "Generator": lambda decoder, node: Generator(node["device"]).set_state(decoder.decode(node["state"])),
    "tuple": _sequence(tuple),
    "Size": _sequence(Size),
    "set": _sequence(lambda items: {keys.checked(v) for v in items}),
    "frozenset": _sequence(lambda items: frozenset(keys.checked(v) for v in items)),
    "deque": lambda decoder, node: deque([decoder.decode(v) for v in node["items"]], node["maxlen"]),
    "dict": lambda decoder, node: dict(decoder.items(node)),
    "OrderedDict": _ordered,
    "Counter": lambda decoder, node: Counter(dict(decoder.items(node))),
    "defaultdict": _defaults,
}
