"""ONNX models as modules of core: they run, and train.

`core.export(module, args).to_onnx(path)` writes what `load` reads. The ops are a table, a function each (`row` adds
one); nothing in a file is executed but the ops that it names.
"""

from __future__ import annotations

import os
from typing import Any

from ..base.errors import text
from . import arithmetic, attention, control, layers, quantised, recurrent, resize, shapes  # their rows
from .exporting import (
    OnnxExporterError,
    ONNXProgram,
    OperatorExportTypes,
    TensorProtoDataType,
    TrainingMode,
    export,
    is_in_onnx_export,
    register_custom_op_symbolic,
    unregister_custom_op_symbolic,
)
from .model import OnnxModule
from .reading import Reader
from .table import OnnxError, row

__all__ = ["ONNXProgram", "OnnxError", "OnnxExporterError", "OnnxModule", "OperatorExportTypes",
           "TensorProtoDataType", "TrainingMode", "export",
           "is_in_onnx_export", "load", "register_custom_op_symbolic", "row",
           "unregister_custom_op_symbolic"]  # fmt: skip


def load(path: str | os.PathLike[str] | bytes) -> OnnxModule:
    """Return an ONNX model, of opset 7 or later, as a module.

    path : a file, or the bytes of one. Tensors that it keeps in other files are read where these lie beside it.

    Its float initializers are parameters that train, by their names; statistics of batch normalization and whole
    numbers are buffers. Inputs are given in the graph's order or by name.

    Raises
    ------
    OnnxError
        For ops that core.onnx has no row for, all of them named; for files that are broken or reach outside of their
        folder.
    ImportError
        Where the package onnx is not there.
    """
    try:
        import onnx as package
    except ImportError as error:
        raise ImportError(text("ONNX models are read with the package onnx, which is not installed", op="onnx.load",
                               remedy="pip install 'gradlab[onnx]'")) from error  # fmt: skip
    folder = None if isinstance(path, bytes) else os.path.dirname(os.path.abspath(os.fspath(path)))
    try:
        if isinstance(path, bytes):
            proto: Any = package.load_model_from_string(path)
        else:
            proto = package.load(os.fspath(path), load_external_data=False)
    except OSError:
        raise
    except Exception as error:  # protobuf's own classes
        raise OnnxError(text(f"this is no ONNX model: {error}", op="onnx.load")) from error
    if not proto.graph.node and not proto.graph.output:
        raise OnnxError(text("this is no ONNX model: it has no graph", op="onnx.load"))
    _need_known(package, proto)
    return OnnxModule(Reader(proto, folder).read(), {p.key: p.value for p in proto.metadata_props})


def _need_known(package: Any, proto: Any) -> None:
    """Raise OnnxError where an op of an opset before 7 had another meaning."""
    opset = min((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), default=7)
    if opset >= 7:
        return
    for op in {n.op_type for n in proto.graph.node if n.domain in ("", "ai.onnx")}:
        try:
            since = package.defs.get_schema(op, 7).since_version
        except Exception:  # its own class, for an op that is none
            since = 7
        if since > opset:
            raise OnnxError(text(f"{op} of opset {opset} is not read", op="onnx.load", needed="opset 7 or later",
                                 remedy="onnx.version_converter.convert_version(model, 13)"))  # fmt: skip
