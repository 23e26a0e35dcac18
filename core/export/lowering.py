"""From a program to a plan: elementwise ops and reductions become items, structured ops calls or several of these.

The rows for ops are in `lower_views`, `lower_moves` and `lower_nn`; what they have in common is `Builder`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..declare import expr
from ..declare import op as declarations
from ..declare.op import Elementwise
from .ir import Block, ExportError, Node, Sized, Value
from .plan import BYTES, Access, Branch, Buffer, Call, Check, Index, Item, Loop, View, refused, row_major
from .polynomial import Count, Poly, polynomial, product
from .sizes import leaves

COPY = expr.trace("copy", lambda x: x, ["x"])
LOWERED: dict[str, Callable[..., Any]] = {}
"""Name of an op -> what gives the views of its outputs: ``(builder, node, *inputs, **params)``."""

_ORDER = ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")


def lowers(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function in `LOWERED`."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            LOWERED[name] = function
        return function

    return enter


class Builder:
    """A plan while it is made."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.steps: list[Any] = []
        self.checks: list[Check] = []
        self.known: dict[Value, View] = {}
        self.names = names  # of a size -> its name in C
        self.node: Any = None
        self.count = 0
        self.made: dict[Any, View] = {}  # constants in another layout, by what they were made of
        self.used: set[Value] = set()  # the values that something reads
        self.gone: dict[Value, Value] = {}  # a value that is not computed -> one of its shape

    # -- sizes and numbers ---------------------------------------------------------------------------------------------

    def size_of(self, value: Value, axis: int) -> Count:
        """Return the size of a value of the program."""
        return self.known[self.gone.get(value, value)].shape[axis]

    def counted(self, formula: Any) -> Count:
        """Return a formula of whole numbers as a polynomial of the sizes of the run."""
        return polynomial(self._renamed(formula), self.size_of)

    def _renamed(self, formula: Any) -> Any:
        if isinstance(formula, tuple) and formula[0] != "size":
            return (formula[0], *(self._renamed(part) for part in formula[1:]))
        return self.names[formula] if isinstance(formula, str) else formula

    def given(self, x: Any) -> Any:
        """Return what stands for an input or a parameter: views for values, polynomials for sizes."""
        if isinstance(x, Value):
            return self.known[x]
        if isinstance(x, Sized):
            try:
                return self.counted(x.formula)
            except KeyError:
                return Sized(self._inlined(x.formula))
        if isinstance(x, tuple):
            return tuple(self.given(v) for v in x)
        if isinstance(x, slice):
            return slice(self.given(x.start), self.given(x.stop), self.given(x.step))
        return x

    def _inlined(self, formula: Any) -> Any:
        """Return a formula with numbers in it that are not whole, its sizes as polynomials."""
        if isinstance(formula, tuple) and formula[0] != "size":
            return (formula[0], *(self._inlined(part) for part in formula[1:]))
        return formula if isinstance(formula, int | float) else self.counted(formula)

    def check(self, left: Any, comparison: str, right: Any, why: str) -> None:
        """Let the run fail at sizes where this does not hold; what is known to hold is not asked."""
        if isinstance(left, int) and isinstance(right, int):
            if {"<": left < right, "<=": left <= right, "==": left == right}[comparison]:
                return
            raise refused(self.node, f"{why}: {left} {comparison} {right} does not hold", "report this")
        if left != right:
            self.checks.append(Check(left, comparison, right, True, why))

    # -- memory --------------------------------------------------------------------------------------------------------

    def new(self, shape: Sequence[Count], dtype: str = "float32", name: str = "") -> View:
        """Return room in the arena."""
        self.count += 1
        buffer = Buffer(f"{name or (self.node.op if self.node else 'part')}_{self.count}", dtype, product(shape))
        return View(buffer, tuple(shape), row_major(shape))

    def constant(self, array: Any, name: str = "constant") -> View:
        """Return values that stand among the weights."""
        array = np.array(array, order="C", copy=None)
        self.count += 1
        buffer = Buffer(f"{name}_{self.count}", array.dtype.name, array.size, "weights", array=array)
        return View(buffer, array.shape, row_major(array.shape))

    def array_of(self, v: View) -> Any:
        """Return the values of a view of weights, or None where they are known only in the run."""
        array = v.buffer.array
        if array is None or not all(isinstance(n, int) for n in (*v.shape, *v.strides, v.offset)):
            return None
        flat = array.reshape(-1)
        steps = [n * array.itemsize for n in v.strides]
        return np.lib.stride_tricks.as_strided(flat[v.offset :] if flat.size else flat, v.shape, steps)

    # -- elements ------------------------------------------------------------------------------------------------------

    def broadcast(self, shapes: Sequence[tuple[Count, ...]]) -> tuple[Count, ...]:
        """Return the shape that all broadcast to."""
        rank = max((len(s) for s in shapes), default=0)
        out: list[Count] = []
        for axis in range(-rank, 0):
            sizes = [s[axis] for s in shapes if len(s) >= -axis]
            chosen: Count = 1
            for n in sizes:
                if n != 1 and chosen == 1:
                    chosen = n
                elif n != 1:
                    self.check(n, "==", chosen, "operands broadcast")
            out.append(chosen)
        return tuple(out)

    def access(self, v: View, shape: tuple[Count, ...]) -> Any:
        """Return how a view is read when it is broadcast to `shape`, axes of one left out; the number itself where
        it is a single known one."""
        array = v.buffer.array
        if array is not None and array.size == 1:
            return array.reshape(-1)[0].item()
        lead = len(shape) - len(v.shape)
        strides = []
        for axis, n in enumerate(shape):
            if n != 1:
                one = axis < lead or v.shape[axis - lead] == 1
                strides.append(0 if one else v.strides[axis - lead])
        return Access(v.buffer, v.offset, tuple(strides))

    def ew(self, op: Any, *operands: Any, params: Sequence[Any] = (), dtype: str = "", out: View | None = None,
           kind: str = "", shape: tuple[Count, ...] | None = None) -> View:  # fmt: skip
        """Return an elementwise op of views, numbers and `Index`es of the axes of `shape`, or write it to `out`."""
        traced = declarations.table[op].program if isinstance(op, str) else op  # type: ignore[attr-defined]
        views = [v for v in operands if isinstance(v, View)]
        if shape is None:
            shape = out.shape if out is not None else self.broadcast([v.shape for v in views])
        dtype = dtype or (out.dtype if out is not None else "bool" if traced.is_bool else self.promoted(operands))
        alone = out is not None
        if out is None:
            out = self.new(shape, dtype, traced.name)
        axes = [k for k, n in enumerate(shape) if n != 1]
        given = []
        for x in operands:
            if isinstance(x, View):
                x = self.access(x, shape)
            elif isinstance(x, Index):
                x = Index(axes.index(x.axis)) if x.axis in axes else 0
            given.append(x)
        target = self.access(out, shape)
        space = tuple(shape[k] for k in axes)
        kind = kind or self.kind_of(traced, operands, dtype)
        line = self.node.line if self.node is not None else None
        self.steps.append(Item(traced, tuple(params), space, tuple(given), target, 0, kind, line, alone))
        return out

    def promoted(self, operands: Sequence[Any]) -> str:
        """Return the dtype that operands are computed in."""
        dtypes = [v.dtype for v in operands if isinstance(v, View)]
        found = max(dtypes, key=_ORDER.index, default="int64")
        numbers = [x for x in operands if isinstance(x, float | Sized)]
        if numbers and not found.startswith("float"):
            return "float32"
        return "int64" if found == "bool" and any(isinstance(x, int) and not isinstance(x, bool) for x in operands) \
            else found  # fmt: skip

    def kind_of(self, traced: Any, operands: Sequence[Any], dtype: str) -> str:
        """Return the dtype in which C computes an op: that of the result, of a comparison that of the operands."""
        if dtype != "bool":
            return dtype
        numbers = [x for x, k in zip(operands, traced.kinds, strict=True) if k != "bool"]
        found = self.promoted(numbers) if numbers else "bool"
        return "int64" if found in ("bool", "uint8", "int8", "int16", "int32") else found

    def copy(self, v: View, dtype: str = "", out: View | None = None) -> View:
        """Return the elements of a view one after the other, in another dtype where asked, or write them to `out`."""
        return self.ew(COPY, v, dtype=dtype or (out.dtype if out is not None else v.dtype), out=out)

    def dense(self, v: View) -> View:
        """Return the view where it is contiguous, else a copy."""
        return v if v.is_contiguous() else self.copy(v)

    def reduce(self, how: str, v: View, dims: Sequence[int], keepdim: bool = False, dtype: str = "") -> View:
        """Return sum, max, min or prod over axes."""
        rank = len(v.shape)
        over = sorted({d % rank for d in dims}) if rank else []
        kept = [d for d in range(rank) if d not in over]
        dtype = dtype or v.dtype
        out = self.new([v.shape[d] for d in kept], dtype, how)
        order = [d for d in (*kept, *over) if v.shape[d] != 1]
        inner = sum(d in over for d in order)
        if not inner:
            self.ew(COPY, View(v.buffer, tuple(v.shape[d] for d in kept), tuple(v.strides[d] for d in kept), v.offset),
                    out=out)  # fmt: skip
        else:
            source = Access(v.buffer, v.offset, tuple(v.strides[d] for d in order))
            strides = dict(zip(kept, out.strides, strict=True))
            to = Access(out.buffer, 0, tuple(strides.get(d, 0) for d in order))
            space = tuple(v.shape[d] for d in order)
            self.steps.append(Item(how, (), space, (source,), to, inner, dtype, self.node and self.node.line))
        if not keepdim:
            return out
        shape = tuple(1 if d in over else n for d, n in enumerate(v.shape))
        return View(out.buffer, shape, tuple(0 if d in over else strides_of(out, kept, d) for d in range(rank)))

    def call(self, function: str, *arguments: Any, writes: Sequence[View | Buffer], title: str = "",
             fails: bool = False, loops: Any = ()) -> None:  # fmt: skip
        """Add a call; views among the arguments that it does not write are read."""
        written = tuple(v.buffer if isinstance(v, View) else v for v in writes)
        named = [a.buffer if isinstance(a, View) else a for a in arguments if isinstance(a, View | Buffer)]
        reads = tuple(dict.fromkeys(b for b in named if b not in written))
        line = self.node.line if self.node is not None else None
        self.steps.append(Call(function, arguments, reads, written, line, title, fails, tuple(loops)))

    # -- ops -----------------------------------------------------------------------------------------------------------

    def run(self, nodes: Sequence[Node]) -> None:
        """Lower ops in order."""
        for node in nodes:
            self.node = node
            for v in node.outputs:
                if v is not None and v.dtype not in BYTES:
                    raise refused(node, f"gives {v.dtype}", "float32, float64, integers and bool are written")
            results = self.lowered(node)
            for value, view in zip(node.outputs, results, strict=False):
                if value is None or (view is None and value not in self.used):
                    continue
                if view is None:
                    raise refused(node, f"its output {value.name} is asked for", "leave it out of the result")
                self._agree(value, view)
                self.known[value] = view

    def _agree(self, value: Value, view: View) -> None:
        """Hold the sizes that were computed to those that were captured."""
        if len(value.shape) != len(view.shape) or value.dtype != view.dtype:
            raise ExportError(f"the C of {self.node.op} gives {view.dtype} of shape {view.shape}, not {value!r}")
        for formula, n in zip(value.shape, view.shape, strict=True):
            if not any(isinstance(leaf, tuple) for leaf in leaves(formula)):
                self.check(n, "==", self.counted(formula), f"the size of {value.name}")

    def lowered(self, node: Node) -> list[View | None]:
        """Return the views of the outputs of an op."""
        if node.op == "if":
            return self._if(node)
        if node.op == "while":
            return self._while(node)
        inputs = [self.given(x) for x in node.inputs]
        params = {k: self.given(v) for k, v in node.params.items()}
        declared = declarations.table.get(node.op)
        if isinstance(declared, Elementwise):
            return [self._elementwise(node, declared, inputs, list(params.values()))]
        if node.op not in LOWERED:
            raise refused(node, "is not written in C", "compute it before or after, or use program.numpy()")
        result = LOWERED[node.op](self, node, *inputs, **params)
        return list(result) if isinstance(result, tuple | list) and not isinstance(result, View) else [result]

    def _elementwise(self, node: Node, declared: Elementwise, inputs: list[Any], params: list[Any]) -> View:
        value = node.outputs[0]
        assert value is not None
        return self.ew(declared.program, *inputs, params=params, dtype=value.dtype)

    # -- control flow --------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> tuple[list[Any], list[View]]:
        """Return the steps of a block and the views of what it gives."""
        outside, self.steps = self.steps, []
        self.run(block.nodes)
        inside, self.steps = self.steps, outside
        return inside, [self.known[v] for v in block.outputs]

    def _into(self, steps: list[Any], views: Sequence[View], targets: Sequence[View]) -> None:
        """Add the copies of views to targets, by way of others where a target is read after it is written."""
        outside, self.steps = self.steps, steps
        owned = {t.buffer for t in targets}
        views = [self.copy(v) if v.buffer in owned else v for v in views]
        for v, target in zip(views, targets, strict=True):
            self.move(v, target)
        self.steps = outside

    def move(self, v: View, target: View) -> None:
        """Copy into a buffer that is written more than once: as a call, which keeps its place among the steps."""
        v = self.dense(v)
        if target.dtype != v.dtype:
            v = self.copy(v, target.dtype)
        count = target.size * BYTES[target.dtype]
        self.call("memmove", target, v, Size(count), writes=[target], title="copy")

    def _held(self, views: Sequence[View], name: str) -> list[View]:
        held = [self.new(v.shape, v.dtype, name) for v in views]
        for v in held:
            v.buffer.kept = True
        return held

    def _if(self, node: Node) -> list[View | None]:
        condition = self.given(node.inputs[0])
        then, a = self.block(node.blocks[0])
        other, b = self.block(node.blocks[1])
        self.node = node
        targets = self._held(a, "if")
        self._into(then, a, targets)
        for x, t in zip(b, targets, strict=True):
            if len(x.shape) != len(t.shape):
                raise refused(node, "its branches give other shapes", "give both the same shape")
        self._into(other, b, targets)
        self.steps.append(Branch(condition, then, other, node.line))
        return list(targets)

    def _while(self, node: Node) -> list[View | None]:
        start = [self.given(x) if isinstance(x, Value) else self.constant(np.asarray(x)) for x in node.inputs]
        test, body = node.blocks
        carried = self._held(start, "while")
        for v, t in zip(start, carried, strict=True):
            self.move(v, t)
        self.known.update(zip(test.inputs, carried, strict=True))
        testing, condition = self.block(test)
        self.known.update(zip(body.inputs, carried, strict=True))
        running, after = self.block(body)
        self.node = node
        self._into(running, after, carried)
        self.steps.append(Loop(testing, condition[0], running, node.line, tuple(v.buffer for v in carried)))
        return list(carried)


class Size:
    """A number of sizes among the arguments of a call."""

    __slots__ = ("count",)

    def __init__(self, count: Count) -> None:
        self.count = count


def strides_of(out: View, kept: Sequence[int], d: int) -> Count:
    """Return the stride of the axis that was `d` before others were left out."""
    return out.strides[list(kept).index(d)]


def is_static(*counts: Any) -> bool:
    """Return whether sizes are the same in every run."""
    return not any(isinstance(n, Poly) for n in counts)
