"""Reading ONNX files: graphs, nodes, tensors. Nothing in them is run, and no size is believed that they do not hold."""

from __future__ import annotations

import inspect
import math
import os
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import text
from .table import DTYPES, FOREIGN, ROWS, OnnxError, of_array

_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}  # several elements in a byte
_FIELDS = {1: "float_data", 11: "double_data", 7: "int64_data", 12: "uint64_data", 13: "uint64_data"}


class Graph(NamedTuple):
    """A graph: the names of its inputs and outputs, its initializers by name, and its nodes in order."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    initializers: dict[str, Any]
    nodes: tuple[Node, ...]


class Node(NamedTuple):
    """A node: its op, the names of inputs and outputs, its attributes, its row or the function that it calls."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    version: int
    row: Any
    function: Graph | None

    def __str__(self) -> str:
        return f"{self.op} {self.name!r}" if self.name else f"{self.op} of {', '.join(self.outputs)}"


class Reader:
    """Reads one model. `folder` is where its external data lie, None where it came as bytes."""

    def __init__(self, model: Any, folder: str | None) -> None:
        self.model, self.folder = model, folder
        self.versions = {o.domain or "ai.onnx": o.version for o in model.opset_import}
        self.functions = {(f.domain or "ai.onnx", f.name): f for f in model.functions}
        self.missing: list[str] = []

    def read(self) -> Graph:
        """Return the model's graph. Raise OnnxError that names every op without a row."""
        found = self.graph(self.model.graph)
        if self.missing:
            each = sorted(set(self.missing))
            raise OnnxError(text(f"core.onnx has no row for {len(each)} of the model's ops", op="onnx.load",
                                 came="; ".join(each), remedy="export the model with other ops, or write the row "
                                 "(core.onnx.row)"))  # fmt: skip
        return found

    def graph(self, proto: Any) -> Graph:
        """Return a graph."""
        if proto.sparse_initializer:
            raise OnnxError(text("sparse initializers are not read", op="onnx.load", remedy="dense ones"))
        held = {i.name: self.tensor(i) for i in proto.initializer}
        nodes = tuple(self.node(n, self.versions) for n in proto.node)
        inputs = tuple(i.name for i in proto.input if i.name not in held)
        return Graph(proto.name, inputs, tuple(o.name for o in proto.output), held, nodes)

    def node(self, proto: Any, versions: dict[str, int]) -> Node:
        """Return a node; what it calls is its row, or a function of the model."""
        domain = proto.domain or "ai.onnx"
        attributes = {a.name: self.attribute(a) for a in proto.attribute}
        row, function = ROWS.get(proto.op_type), None
        known = domain.startswith("ai.onnx") and row is not None
        if (domain, proto.op_type) in self.functions:
            function, row = self.function(self.functions[domain, proto.op_type], attributes), None
        elif not known:
            self.missing.append(proto.op_type if domain == "ai.onnx" else f"{domain}.{proto.op_type}")
        else:
            self._takes(proto, row, attributes)
        return Node(proto.op_type, proto.name, tuple(proto.input), tuple(proto.output), attributes,
                    versions.get(domain, 1), row, function)  # fmt: skip

    def _takes(self, proto: Any, row: Any, attributes: dict[str, Any]) -> None:
        parameters = inspect.signature(row).parameters
        if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return
        for name in attributes:
            if name not in parameters:
                self.missing.append(f"{proto.op_type} with the attribute {name}")

    def function(self, proto: Any, given: dict[str, Any]) -> Graph:
        """Return a function of the model with the attributes of one call of it."""
        versions = {o.domain or "ai.onnx": o.version for o in proto.opset_import}
        defaults = {a.name: self.attribute(a) for a in proto.attribute_proto}
        values = {**defaults, **given}
        nodes = []
        for n in proto.node:
            node = self.node(_filled(n, values), versions)
            named = {a.name: values[a.ref_attr_name] for a in n.attribute if a.ref_attr_name in values}
            nodes.append(node._replace(attributes={**node.attributes, **named}))
        return Graph(proto.name, tuple(proto.input), tuple(proto.output), {}, tuple(nodes))

    def attribute(self, a: Any) -> Any:
        """Return the value of an attribute: a number, text, tensor or graph, or a list of them."""
        kinds = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings", 9: "tensors",
                 10: "graphs"}  # fmt: skip
        if a.type not in kinds:
            raise OnnxError(text(f"the attribute {a.name} has a type that is not read", op="onnx.load"))
        value = getattr(a, kinds[a.type])
        convert = {3: lambda s: s.decode(), 4: self.tensor, 5: self.graph}
        if a.type in convert:
            return convert[a.type](value)
        if a.type in (8, 9, 10):
            return [convert[a.type - 5](v) for v in value]
        return list(value) if a.type in (6, 7) else value

    # -- tensors -------------------------------------------------------------------------------------------------------

    def tensor(self, proto: Any) -> Any:
        """Return a tensor. Raise OnnxError where its bytes are not those of its shape."""
        kind, shape = proto.data_type, tuple(proto.dims)
        if kind not in DTYPES and kind not in FOREIGN:
            raise OnnxError(text(f"the tensor {proto.name!r} has a data type that is not read", op="onnx.load",
                                 came=f"TensorProto.DataType {kind}", needed="numbers"))  # fmt: skip
        if any(d < 0 for d in shape):
            raise OnnxError(text(f"the tensor {proto.name!r} has a negative size", op="onnx.load", came=str(shape)))
        dtype = np.dtype(DTYPES[kind].numpy if kind in DTYPES else FOREIGN[kind])
        count = math.prod(shape)
        if proto.data_location == 1:
            raw = self._outside(proto)
        elif proto.HasField("raw_data"):
            raw = proto.raw_data
        else:
            return of_array(self._listed(proto, kind, dtype, count).reshape(shape))
        bits = _BITS.get(kind, 8 * dtype.itemsize)
        if len(raw) != -(-count * bits // 8):
            raise OnnxError(text(f"the tensor {proto.name!r} holds {len(raw)} bytes", op="onnx.load",
                                 needed=f"{-(-count * bits // 8)} for {shape} of {dtype}",
                                 remedy="the file is broken: export it once more"))  # fmt: skip
        if bits < 8:
            return _unpacked(np.frombuffer(raw, np.uint8), bits, count, dtype).reshape(shape)
        return of_array(np.frombuffer(raw, dtype.newbyteorder("<") if dtype.kind in "iuf" else dtype)
                        .astype(dtype).reshape(shape))  # fmt: skip

    def _listed(self, proto: Any, kind: int, dtype: Any, count: int) -> Any:
        """Return the elements that stand in a field of numbers: of small types as int32, some as their bits."""
        field = getattr(proto, _FIELDS.get(kind, "int32_data"))
        packed = _BITS.get(kind)
        needed = -(-count * packed // 8) if packed else count
        if len(field) != needed:
            raise OnnxError(text(f"the tensor {proto.name!r} holds {len(field)} numbers", op="onnx.load",
                                 needed=f"{needed} for {tuple(proto.dims)}"))  # fmt: skip
        a = np.array(field, np.int64 if kind not in (1, 11, 13, 12) else None)
        if packed:
            return _unpacked(a.astype(np.uint8), packed, count, dtype)
        if kind in (10, 16):
            return a.astype(np.uint16).view(dtype)
        if kind in (17, 18, 19, 20, 24):
            return a.astype(np.uint8).view(dtype)
        return a.astype(dtype)

    def _outside(self, proto: Any) -> bytes:
        """Return the bytes of a tensor that lie in another file, which has to stand beside the model or below it."""
        where = {e.key: e.value for e in proto.external_data}
        place = where.get("location", "")
        if self.folder is None:
            raise OnnxError(text(f"the tensor {proto.name!r} lies in the file {place!r}, and the model came as bytes",
                                 op="onnx.load", remedy="core.onnx.load(path)"))  # fmt: skip
        folder = os.path.realpath(self.folder)
        full = os.path.realpath(os.path.join(folder, place))
        inside = os.path.commonpath([folder, full]) == folder and full != folder
        if not place or os.path.isabs(place) or ".." in place.replace("\\", "/").split("/") or not inside:
            raise OnnxError(text(f"the tensor {proto.name!r} names a file outside of the model's folder",
                                 op="onnx.load", came=repr(place), needed="a file beside the model",
                                 remedy="do not read models from where this one came"))  # fmt: skip
        try:
            whole = os.path.getsize(full)
            start = int(where.get("offset", 0))
            length = int(where.get("length", whole - start))
            if start < 0 or length < 0 or start + length > whole:
                raise OnnxError(text(f"the tensor {proto.name!r} lies beyond the end of {place!r}", op="onnx.load",
                                     came=f"{start} + {length} of {whole} bytes"))  # fmt: skip
            with open(full, "rb") as file:
                file.seek(start)
                return file.read(length)
        except (OSError, ValueError) as error:
            raise OnnxError(text(f"the data of the tensor {proto.name!r} cannot be read: {error}", op="onnx.load",
                                 came=repr(place))) from error  # fmt: skip


def _unpacked(raw: Any, bits: int, count: int, dtype: Any) -> Any:
    """Return small numbers, the first in the lowest bits of each byte."""
    each = 8 // bits
    parts = np.stack([(raw >> (bits * k)) & ((1 << bits) - 1) for k in range(each)], 1).reshape(-1)[:count]
    if dtype.name.startswith("int"):
        signed = parts.astype(np.int8)
        return np.where(signed >= 1 << (bits - 1), signed - (1 << bits), signed).astype(dtype)
    return parts.astype(np.uint8).view(dtype) if dtype.name.startswith("float") else parts.astype(dtype)


def _filled(proto: Any, values: dict[str, Any]) -> Any:
    """Return a node of a function without the attributes that name those of the call."""
    if not any(a.ref_attr_name for a in proto.attribute):
        return proto
    copy = type(proto)()
    copy.CopyFrom(proto)
    del copy.attribute[:]
    copy.attribute.extend(a for a in proto.attribute if not a.ref_attr_name)
    return copy
