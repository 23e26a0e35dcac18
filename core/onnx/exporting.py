"""PyTorch's `torch.onnx.export`, on `core.export`, and the names around it."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import text
from ..base.signatures import signature
from ..export.capture import export as capture
from ..export.program import Program
from .table import OnnxError

__all__ = ["ONNXProgram", "OnnxExporterError", "OperatorExportTypes", "TensorProtoDataType",
           "TrainingMode", "export", "is_in_onnx_export"]  # fmt: skip

OnnxExporterError = OnnxError


class TrainingMode(enum.IntEnum):
    """In which mode a module would be exported: it is in the mode in which it is."""

    EVAL, PRESERVE, TRAINING = 0, 1, 2


class TensorProtoDataType(enum.IntEnum):
    """ONNX's numbers of dtypes."""

    (UNDEFINED, FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE, UINT32, UINT64,
     COMPLEX64, COMPLEX128, BFLOAT16) = range(17)  # fmt: skip


class OperatorExportTypes(enum.IntEnum):
    """In which ops: in ONNX's own."""

    ONNX, ONNX_ATEN, ONNX_ATEN_FALLBACK, ONNX_FALLTHROUGH = range(4)


def is_in_onnx_export() -> bool:
    """Return False: what is captured runs as it would otherwise."""
    return False


class ONNXProgram:
    """A captured program, which `save` writes as an ONNX model."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __call__(self, *args: Any) -> Any:
        return self.program(*args)

    def save(self, destination: Any, **ignored: Any) -> None:
        """Write the model."""
        self.program.to_onnx(destination)


def export(model: Any, args: Any = (), f: Any = None, *, kwargs: Mapping[str, Any] | None = None,
           input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
           opset_version: int | None = None, dynamic_axes: Mapping[str, Any] | None = None, dynamic_shapes: Any = None,
           **ignored: Any) -> ONNXProgram | None:  # fmt: skip
    """Capture a module or a function from a call and write it as an ONNX model.

    f : a path; without one the program comes back. dynamic_axes : by the names of inputs, axes that vary: a list of
        axes, or their names. The other arguments of PyTorch's have no effect: a module is exported in the mode in which
        it is, in the opset that `core.export` writes.

    *Raises*: ExportError for what cannot be captured, with its line; TypeError for arguments by keyword.

    >>> import core
    >>> program = core.onnx.export(core.nn.ReLU(), (core.ones(2),))
    >>> program(core.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    if kwargs:
        raise TypeError(text("a call is captured with its arguments by position", op="onnx.export",
                             came=f"kwargs of {list(kwargs)}", remedy="args=(...) in forward's order"))  # fmt: skip
    given = tuple(args) if isinstance(args, tuple | list) else (args,)
    dynamic = _dynamic(model, dynamic_axes, input_names) if dynamic_shapes is None else _dims(dynamic_shapes)
    program = capture(model, given, dynamic)
    for values, names in ((program.inputs, input_names), (program.outputs, output_names)):
        for value, name in zip(values, names or (), strict=False):
            value.name = name
    if f is None:
        return ONNXProgram(program)
    program.to_onnx(f)
    return None


def _axes(said: Any, name: str) -> dict[int, str]:
    """Return the names of axes: those given, or made of the input's name."""
    return dict(said) if isinstance(said, Mapping) else {int(axis): f"{name}_{axis}" for axis in said}


def _dynamic(model: Any, axes: Mapping[str, Any] | None, names: Sequence[str] | None) -> dict[str, Any]:
    """Return by the names of arguments what `dynamic_axes` says by the inputs' names; outputs follow by themselves."""
    parameters = list(signature(getattr(model, "forward", model)).parameters)
    inputs = dict(zip(names or parameters, parameters, strict=False))
    return {inputs[name]: _axes(said, name) for name, said in (axes or {}).items() if name in inputs}


def _dims(shapes: Any) -> Any:
    """Return `dynamic_shapes` with names in the place of `Dim`s; what is static is left out."""
    if isinstance(shapes, Mapping):
        found = {k: _dims(x) if isinstance(x, Mapping) else getattr(x, "__name__", x) for k, x in shapes.items()}
        return {k: x for k, x in found.items() if x is not None}
    raise TypeError(text("dynamic_shapes is given by the arguments' names", op="onnx.export",
                         came=type(shapes).__name__, remedy='{"x": {0: "batch"}}'))  # fmt: skip


_symbolic: dict[str, Any] = {}


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int) -> None:
    """Keep how PyTorch's exporter would write an op; that of core does not ask: `core.export.onnx_ops.row` tells it."""
    _symbolic[symbolic_name] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forget what was kept."""
    _symbolic.pop(symbolic_name, None)
