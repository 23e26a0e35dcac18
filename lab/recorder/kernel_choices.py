"""Which kernel ran and why: what is noted when a kernel first runs in a recording, and the rows that are made of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from core import native
from core.declare import op as declarations
from core.dispatch import explain
from core.events import observe
from core.optim.update import table as updates
from core.utils.flops import flops
from widgets.figures import shape_text
from widgets.record import KernelRow

from .cell_trace import Leaf, Ref, Trace
from .tensor_types import TENSORS
from .tunable_kernels import of_c

BYTES = {"float64": 8, "int64": 8, "complex64": 8, "complex128": 16, "float16": 2, "bfloat16": 2, "int16": 2,
         "bool": 1, "int8": 1, "uint8": 1}  # fmt: skip

SAME = 0.02  # by how much the bytes of runs of one shape may differ: a small last batch
AXES = ("dim", "batch_first", "sizes")


@dataclass
class Choice:
    """A kernel's first run: on what, with which config, and who declined. No tensor is held."""

    name: str = ""
    """Of the declared op."""
    inputs: list[tuple[tuple[int, ...], str]] = field(default_factory=list)
    """(shape, dtype) of its tensors."""
    device: str = ""
    config: str = ""
    declined: list[str] = field(default_factory=list)
    asked: tuple[str, tuple[int, ...], str] | None = None
    """What a Triton kernel's launcher asked the tuner for: the kernel's name there, its shape and dtype."""
    params: dict[str, Any] = field(default_factory=dict)
    """Of its parameters those that say along which axis it ran."""


def chosen(e: observe.OpEvent) -> Choice:
    """Describe the kernel that has just run; called once for every kernel of a recording."""
    tensors = [t for t in e.inputs if isinstance(t, TENSORS)]
    found = Choice(getattr(e.declared, "name", "") or e.op)
    found.inputs = [(tuple(t._a.shape), t._kind.dtype.name) for t in tensors]
    if tensors:
        found.device = tensors[0]._kind.device.type
    if e.backend == "Triton":
        found.asked = _asked(e.kernel, found)
    found.params = {name: e.params[name] for name in AXES if name in e.params}
    if e.backend == "PyTorch" or not tensors:
        return found
    found.config = _config(e, found)
    if getattr(e.declared, "view", False):
        return found  # nothing is computed, so no kernel is wanted
    try:
        said = explain.of_op(e.declared, e.inputs, e.params)
    except Exception:  # an op of the user's, or an optimizer's step, which has no candidates
        return found
    for c in said.candidates:
        if c.reason is not None:
            found.declined.append(f"{c.kernel} ({c.backend}): {c.reason}")
        elif c.kernel == e.kernel:
            break  # those after it were not asked
    return found


def _config(e: observe.OpEvent, made: Choice) -> str:
    """Return the config that a launch was made with, where it is known."""
    backend = e.backend
    if backend == "C" and native.module is not None:
        return _threads(native.module.get_num_threads())
    runtime = sys.modules.get("triton_kernels.runtime")
    launch = getattr(runtime, "latest", None) if backend == "Triton" else None
    if launch is None:
        return ""
    space = getattr(sys.modules.get(launch.kernel.fn.__module__), "SPACE", None)
    settings = {**launch.constexprs, **launch.options}
    names = [n for n in settings if n in space.names] if space is not None else list(settings)
    return ", ".join(f"{n}={settings[n]}" for n in names)


def backwards(kernel: str, backend: str, op: str) -> Choice:
    """Describe a kernel that has just run in a backward pass; `op` is such as ``tanh backward``."""
    found = Choice(op)
    if backend == "Triton":
        found.asked = _asked(kernel, found)
    return found


def _asked(name: str, made: Choice) -> tuple[str, tuple[int, ...], str] | None:
    """Return what the launcher of a kernel asked the tuner, where the tuner knows a kernel of that name."""
    faults = sys.modules.get("triton_kernels.faults")
    for launch in reversed(getattr(faults, "recent", ())):
        kernel = getattr(launch, "kernel", None)
        if kernel is not None and kernel.fn.__name__ == name:
            family = kernel.fn.__module__ != "triton_kernels.generated"
            return launch.asked if family or _printed(name, made) else None
    return None


def _threads(n: int) -> str:
    return f"{n} thread{'' if n == 1 else 's'}"


def _printed(kernel: str, made: Choice) -> bool:
    """Return whether a kernel is one that was printed from a declaration: an elementwise op, or an optimizer's step."""
    op = made.name.removesuffix(" backward")
    if isinstance(declarations.table.get(op), declarations.Elementwise):
        return kernel == f"{op}_kernel" or kernel.startswith(f"{op}_backward")
    return any(kernel == f"{name}_kernel" or kernel.startswith(f"{name}_") for name in updates)


def tune_command(kernel: str, backend: str, made: Choice, forward: Choice | None = None) -> str:
    """Return the command that opens the tuner on a kernel and its shape; "" where the tuner has none of the kind.

    forward : of a backward pass, what is known of its op's kernel.

    >>> tune_command("gemm", "C", Choice("linear", [((64, 256), "float32"), ((512, 256), "float32")]))
    '%tune core_matmul 64x512x256 float32'
    >>> asked = ("softmax_kernel", (512, 1024), "float16")
    >>> tune_command("softmax_kernel", "Triton", Choice("softmax", [((8, 64, 1024), "float16")], asked=asked))
    '%tune softmax_kernel 512x1024 float16'
    """
    asked = made.asked if backend == "Triton" else None
    if backend == "C":
        elementwise = isinstance(declarations.table.get(made.name.removesuffix(" backward")), declarations.Elementwise)
        axes = forward.params if forward else made.params
        asked = of_c(made.name, elementwise, made.inputs, axes, forward.inputs if forward else ())
    name, shape, dtype = asked or ("", (), "")
    return f"%tune {name} {'x'.join(map(str, shape))} {dtype}" if name and all(shape) else ""


# -- at the end of the recording -------------------------------------------------------------------------------------


def rows(trace: Trace) -> list[KernelRow]:
    """Return a row for every kernel, that with most time first."""
    counted = _counted(trace)
    by_op = {made.name: made for made in trace.choices.values()}
    found = []
    for key, (count, ns, size) in trace.kernels.items():
        kernel, backend, op = key
        made = trace.choices.get(key) or Choice(op)
        operations, moved, inputs = counted.get(key, (0, 0, made.inputs))
        seconds = ns / 1e9
        row = KernelRow(kernel, backend, op, count, ns / 1e6, ns / 1e3 / count)
        row.bytes_per_s = (size or moved) / seconds if (size or moved) and ns else None
        row.flops_per_s = operations / seconds if operations and ns else None
        row.inputs = [f"{shape_text(shape)} {dtype}" for shape, dtype in inputs]
        row.dtype, row.device = (inputs[0][1] if inputs else ""), made.device
        row.config, row.declined = made.config, made.declined
        if op.endswith(" backward") and not made.inputs:
            made = replace(made, inputs=inputs)
        row.tune = tune_command(kernel, backend, made, by_op.get(op.removesuffix(" backward")))
        found.append(row)
    return sorted(found, key=lambda k: -k.total_ms)


def _counted(trace: Trace) -> dict[tuple[str, str, str], tuple[int, int, list[tuple[tuple[int, ...], str]]]]:
    """Return (operations, bytes of gradients in and out, kinds of inputs) by kernel, from the rows' shapes.

    A row's shapes are those of its first run: where the bytes that went through the kernel show that later runs had
    others, its operations are left out. A gradient's kernel is told by its op: where one op has several, so are theirs.
    """
    forward: dict[tuple[str, str, str], int] = {}
    expected: dict[tuple[str, str, str], int] = {}
    names: dict[str, list[tuple[str, str, str]]] = {}
    backward: dict[str, list[Any]] = {}
    for row in trace.rows:
        key = row.kernel, row.backend, row.op
        made = trace.choices.get(key)
        name = made.name if made is not None else row.op
        shapes = [ref.shape for ref in row.refs]
        n = flops(name, shapes, row.shape) or 0
        forward[key] = forward.get(key, 0) + n * row.count
        if n:
            names.setdefault(name, []).append(key)
            size = row.size + sum(size_bytes(ref) for ref in row.refs)
            expected[key] = expected.get(key, 0) + size * row.count
        if row.reached:
            wanted = [ref for ref in row.refs if ref.requires_grad]
            total = backward.setdefault(name, [0, 0, [], made.device if made else ""])
            total[0] += n * row.reached * min(len(wanted), 2)
            total[1] += row.reached * (row.size + sum(size_bytes(ref) for ref in wanted))
            total[2] = total[2] or [(row.shape, row.dtype)]
    varied = {key for key, size in expected.items() if abs(size - trace.kernels.get(key, [0, 0, 0])[2]) > SAME * size}
    found = {
        key: (0 if key in varied else n, 0, made.inputs)
        for key, n in forward.items()
        if (made := trace.choices.get(key))
    }
    kernels: dict[str, list[tuple[str, str, str]]] = {}
    for key in trace.kernels:
        if key[2].endswith(" backward"):
            kernels.setdefault(key[2].removesuffix(" backward"), []).append(key)
    for name, keys in kernels.items():
        if len(keys) == 1 and name in backward:
            operations, moved, inputs, device = backward[name]
            if any(key in varied for key in names.get(name, ())):
                operations = moved = 0
            found[keys[0]] = operations, moved, inputs
            trace.choices.setdefault(keys[0], Choice(name + " backward", inputs, device))
    return found


def size_bytes(ref: Ref) -> int:
    """Return the bytes of what an op read."""
    return prod(ref.shape) * BYTES.get(ref.dtype, 4) if isinstance(ref, Leaf) else ref.size
