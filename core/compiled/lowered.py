"""From the ops of a recorded call to steps: fused loops as C, and core's own kernels between them.

It is the exporter's lowering, with two differences. What the exporter would call a C kernel of its own for, and what
it has no C for, is core's kernel, called as the program itself calls it. And sizes are numbers, so that long sums are
made in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..declare import op as declarations
from ..declare.op import Elementwise
from ..export import c_writer as _rows  # noqa: F401 - the rows of ops are entered when it is loaded
from ..export.groups import Group, delayed, materialised, merged, read_by, schedule, written_by
from ..export.ir import ExportError, Node, Value
from ..export.lower_views import reshape, transpose
from ..export.lowering import COPY, Builder
from ..export.plan import BYTES, Buffer, Call, Item, View, row_major
from .calls import kernel_addresses

KERNEL = "kernel"
"""The `function` of a call of core's own kernel; its arguments are the node, its inputs, the views of its outputs."""

_OPENED = (
    "linear",
    "matmul",
    "softmax",
    "log_softmax",
    "sum",
    "mean",
    "expand",
    "reshape",
    "slice",
    "permute",
    "transpose",
    "amax",
    "amin",
)
"""Ops whose gradient is fused op by op: their forward is."""
PRODUCT, COLUMNS = "product", "column_sums"
"""The functions of calls that stand within the C of a part: core's product of matrices, and the sums of columns."""
_IN_C = (PRODUCT, COLUMNS, "gather")
"""The functions of C that a part calls."""
_FEW = 512  # classes up to which a cross entropy is loops
_OWN = ("nll_loss", "batch_norm", "group_norm", "im2col", "col2im", "einsum", "cumsum", "sort", "dropout")
"""Ops that core's kernel does better than loops would."""
_MOST = 96  # ops in a loop
_PIECE = 2048  # elements of a row's piece
_LONGEST = 8192  # elements of a row up to which it is one piece


class _NotFused(Exception):
    """An op that core's own kernel computes."""


class Planner(Builder):
    """The steps of a program whose sizes are numbers.

    strides : of the inputs, in elements.
    """

    def __init__(self, inputs: Sequence[Value], strides: Sequence[Sequence[int]],
                 constants: Mapping[Value, Any]) -> None:  # fmt: skip
        super().__init__({})
        self.products = bool(kernel_addresses())  # whether C can call core's product
        self.inputs: list[Buffer] = []
        for k, (value, steps) in enumerate(zip(inputs, strides, strict=True)):
            shape = tuple(value.shape)
            buffer = Buffer(f"in{k}", value.dtype, _size(shape), "input", k)
            self.inputs.append(buffer)
            self.known[value] = View(
                buffer, shape, tuple(0 if n == 1 else s for n, s in zip(shape, steps, strict=True))
            )
        for value, array in constants.items():
            self.known[value] = self.constant(array)

    def lowered(self, node: Node) -> list[View | None]:
        """Return the views of the outputs of an op: by loops where it is made of these alone, else by core's kernel."""
        if node.op == "gradient" and self._opens(node):
            self.run(node.blocks[0].nodes)
            self.node = node
            return [self.known[v] for v in node.outputs if v is not None]
        if node.op in ("if", "while"):
            raise ExportError("control flow")
        if node.op not in _OWN and not _many_classes(node) and node.op != "gradient":
            mark, checks = len(self.steps), len(self.checks)
            try:
                found = self._multiplied(node) if node.op in ("linear", "matmul") else super().lowered(node)
                if any(isinstance(step, Call) and step.function not in _IN_C for step in self.steps[mark:]):
                    raise _NotFused
                for value, view in zip(node.outputs, found, strict=False):
                    if value is not None and view is None and value in self.used:
                        raise _NotFused
                    if value is not None and view is not None:
                        self._agree(value, view)
                return found
            except (ExportError, _NotFused, KeyError, NotImplementedError):
                del self.steps[mark:], self.checks[checks:]
        return self._kernel(node)

    def _opens(self, node: Node) -> bool:
        """Return whether a gradient is computed op by op."""
        if node.params["of"] in ("linear", "matmul"):
            shapes = [v.shape for v in node.inputs if isinstance(v, Value)]
            plain = all(v.dtype in ("float32", "float64") for v in node.inputs if isinstance(v, Value))
            return self.products and plain and all(len(s) == 2 and 0 not in s for s in shapes)
        if node.params["of"] == "cross_entropy":
            return not any(_many_classes(n) for n in node.blocks[0].nodes)
        return node.params["of"] in _OPENED

    def _kernel(self, node: Node) -> list[View | None]:
        """Add a call of core's kernel."""
        given = [self.known[x] if isinstance(x, Value) else x for x in node.inputs]
        outs: list[View | None] = []
        for value in node.outputs:
            if value is None:
                outs.append(None)
                continue
            self.count += 1
            shape = tuple(value.shape)
            buffer = Buffer(f"{node.op}_{self.count}", value.dtype, _size(shape), "kernel")
            outs.append(View(buffer, shape, row_major(shape)))
        reads = tuple(dict.fromkeys(v.buffer for v in given if isinstance(v, View)))
        writes = tuple(v.buffer for v in outs if v is not None)
        self.steps.append(Call(KERNEL, (node, tuple(given), tuple(outs)), reads, writes, node.line, node.op))
        return outs

    def _multiplied(self, node: Node) -> list[View | None]:
        """Return a product of two matrices, by core's own function called from C."""
        if not self.products:
            raise _NotFused
        x, m = (self.known[v] for v in node.inputs[:2])
        bias = self.known[node.inputs[2]] if node.op == "linear" and node.inputs[2] is not None else None
        m = transpose(self, node, m, 0, 1) if node.op == "linear" else m
        if len(x.shape) < 2 or len(m.shape) != 2 or x.dtype != m.dtype or x.dtype not in ("float32", "float64"):
            raise _NotFused
        rows = x if len(x.shape) == 2 else reshape(self, node, x, (_size(x.shape[:-1]), x.shape[-1]))
        if 0 in rows.shape or 0 in m.shape or rows.shape[1] != m.shape[0]:
            raise _NotFused
        out = self.new((rows.shape[0], m.shape[1]), x.dtype, "product")
        bias = None if bias is None else self.dense(bias)
        self.call(PRODUCT, rows, m, bias, out, writes=[out], title=node.op)
        return [reshape(self, node, out, (*x.shape[:-1], m.shape[1]))]

    def reduce(self, how: str, v: View, dims: Sequence[int], keepdim: bool = False, dtype: str = "") -> View:
        """Return sum, max, min or prod over the last axes; long rows in pieces."""
        rank = len(v.shape)
        over = sorted({d % rank for d in dims}) if rank else []
        kept = [d for d in range(rank) if d not in over and v.shape[d] != 1]
        wide = [d for d in over if v.shape[d] != 1]
        if kept and wide and max(kept) > min(wide):
            return self._columns(how, v, wide, kept, over, keepdim, dtype)
        width = _size([v.shape[d] for d in over])
        if over and width > _LONGEST and v.is_contiguous():
            piece = next((p for p in range(_PIECE, _PIECE // 4, -1) if width % p == 0), None)
            if piece is None:
                raise _NotFused
            lead = tuple(v.shape[d] for d in range(rank) if d not in over)
            shape = (*lead, width // piece, piece)
            parts = super().reduce(
                how, View(v.buffer, shape, row_major(shape), v.offset), [len(shape) - 1], False, dtype
            )
            whole = super().reduce(how, parts, [len(shape) - 2], False, dtype)
            if not keepdim:
                return whole
            steps = iter(whole.strides)
            return View(whole.buffer, tuple(1 if d in over else n for d, n in enumerate(v.shape)),
                        tuple(0 if d in over else next(steps) for d in range(rank)), whole.offset)  # fmt: skip
        return super().reduce(how, v, dims, keepdim, dtype)

    def _columns(self, how: str, v: View, over: list[int], kept: list[int], all_over: list[int], keepdim: bool,
                 dtype: str) -> View:  # fmt: skip
        """Return sums over the first axes, of memory that lies in order."""
        if how != "sum" or max(over) > min(kept) or v.dtype not in ("float32", "float64") or dtype not in ("", v.dtype):
            raise _NotFused
        v = self.dense(v)
        rows, columns = _size([v.shape[d] for d in over]), _size([v.shape[d] for d in kept])
        left = [d for d in range(len(v.shape)) if d not in all_over]
        out = self.new([v.shape[d] for d in left], v.dtype, "sums")
        self.call(COLUMNS, v, out, rows, columns, writes=[out], title="sum")
        if not keepdim:
            return out
        steps = iter(out.strides)
        return View(out.buffer, tuple(1 if d in all_over else n for d, n in enumerate(v.shape)),
                    tuple(0 if d in all_over else next(steps) for d in range(len(v.shape))), 0)  # fmt: skip


def _size(shape: Sequence[int]) -> int:
    n = 1
    for d in shape:
        n *= d
    return n


class Lowered:
    """The steps of a program and where its results are.

    steps : groups of fused ops and calls of core's kernels, in order.
    outputs : of each result its view: of a buffer of its own (place "output", numbered) or of a kernel's result.
    held : the buffers that lie in memory.
    """

    def __init__(self, nodes: Sequence[Node], inputs: Sequence[Value], strides: Sequence[Sequence[int]],
                 constants: Mapping[Value, Any], outputs: Sequence[Value]) -> None:  # fmt: skip
        for value in (*inputs, *outputs):
            if value.dtype not in BYTES:
                raise ExportError(f"{value.dtype} is not compiled")
        b = Planner(inputs, strides, constants)
        b.used = {x for node in nodes for x in _read(node)} | set(outputs)
        b.run(nodes)
        b.node = None
        if b.checks:
            raise ExportError("a size that is known only when it runs")
        self.outputs: list[View] = []
        made: list[Buffer] = []
        for value in outputs:
            view = b.known[value]
            own = view.buffer
            if own.place == "kernel" and view.is_whole() and not _gives_views(b.steps, own) and own not in made:
                made.append(own)
                self.outputs.append(view)
                continue
            if own.place != "arena" or not view.is_whole() or own in made:
                shape = view.shape
                target = View(Buffer(f"out{len(made)}", view.dtype, _size(shape), "output"), shape, row_major(shape))
                view = b.ew(COPY, view, dtype=view.dtype, out=target)
            view.buffer.place = "output"
            made.append(view.buffer)
            self.outputs.append(view)
        wanted = set(made)
        self.steps = merged(schedule(delayed(_needed(b.steps, set(wanted))), _MOST, apart=True))
        self.held = materialised(self.steps) | wanted
        self.inputs, self.given = b.inputs, [b.known[v] for v in inputs]

    def groups(self) -> list[Group]:
        """Return the fused loops."""
        return [step for step in self.steps if isinstance(step, Group)]

    def whole(self) -> dict[Buffer, View]:
        """Return of each input, output and kernel's result the view that is all of it."""
        found = dict(zip(self.inputs, self.given, strict=True)) | {v.buffer: v for v in self.outputs}
        for step in self.steps:
            if is_kernel(step):
                found |= {v.buffer: v for v in step.arguments[2] if v is not None}
        return found

    def last_reads(self) -> dict[Buffer, int]:
        """Return after which step each buffer is no longer needed."""
        found: dict[Buffer, int] = {}
        for k, step in enumerate(self.steps):
            for b in read_by(step) | written_by(step):
                found[b] = k
        return found


def _many_classes(node: Node) -> bool:
    """Return whether it is a cross entropy, or a part of its gradient, of more classes than loops do well."""
    if node.op == "cross_entropy":
        return len(node.inputs[0].shape) != 2 or node.inputs[0].shape[1] > _FEW
    return node.op == "target_mass" and node.params["classes"] > _FEW


def _needed(steps: Sequence[Any], wanted: set[Buffer]) -> list[Any]:
    """Return the steps without those whose results nobody reads; `wanted` are read at the end."""
    kept = []
    for step in reversed(steps):
        if (step.out.buffer in wanted) if isinstance(step, Item) else any(b in wanted for b in step.writes):
            wanted |= read_by(step)
            kept.append(step)
    return kept[::-1]


def is_kernel(step: Any) -> bool:
    """Return whether a step is a call of a kernel from Python."""
    return isinstance(step, Call) and step.function == KERNEL


def _gives_views(steps: Sequence[Any], buffer: Buffer) -> bool:
    """Return whether the kernel that makes a buffer may give its input's memory, or what is kept elsewhere."""
    for step in steps:
        if is_kernel(step) and buffer in step.writes:
            declared = declarations.table.get(step.arguments[0].op)
            return declared is None or isinstance(declared, Elementwise) or bool(getattr(declared, "view", False))
    return True


def _read(node: Node) -> list[Value]:
    found = [x for x in node.inputs if isinstance(x, Value)]
    for block in node.blocks:
        found += [v for n in block.nodes for v in _read(n)] + list(block.outputs)
    return found
