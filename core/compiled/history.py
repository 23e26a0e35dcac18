"""The backward part of a variant, as one node of the graph."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from ..autograd.gradients import grad
from ..base.modes import enable_grad
from ..base.modes import state as mode
from ..base.source import user_frame
from ..declare.op import Slot
from ..export.ir import Value
from ..graph.node import Node
from ..graph.versions import edge, storage_of
from ..tensors.tensor import Tensor, wrap
from .draws import Drawn, again
from .lowered import Lowered
from .parts import Parts
from .program import CompiledProgram
from .recording import Recording

if TYPE_CHECKING:
    from .variant import Variant


class CompiledNode(Node):
    """The call of a compiled function on the graph."""

    unpacks_itself = True
    call: Any = None  # what runs the function again, for second derivatives
    drawn: Drawn = (0, 0)  # where its random numbers begin

    def name(self) -> str:
        return "CompiledBackward0"


class _Op:
    """What a node wants of its op."""

    variadic, returns, steps = False, 0, None
    name = label = "compiled"

    def __init__(self, history: History) -> None:
        self.history = history
        self.slots = [Slot(f"saved tensor {k}", "input", k) for k in range(len(history.reads))]

    def gradients(self, node: CompiledNode, edges: tuple[Any, ...], grads: Any,
                  create_graph: bool) -> tuple[tuple[Any, ...], str]:  # fmt: skip
        """Return the gradients of the sources, by the compiled backward part; with a graph by the function itself."""
        node.check()
        many = grads if node.out_meta is not None else [grads]
        if create_graph:
            with again(node.drawn) if self.history.variant.draws else nullcontext():
                return self.history.again(node.call, many), "compiled"
        return self.history.gradients(node.saved or (), many, node.drawn), "compiled"


class History:
    """The backward part.

    rooted : the numbers of the results that have a gradient.
    sources : of each gradient the place, among arguments and what is read, of the tensor it is of.
    reads : what the backward part reads besides the cotangents: ("given", place) or ("made", number of an output).
    """

    def __init__(self, variant: Variant, parts: Parts, tape: Recording, order: dict[int, int],
                 places: dict[int, int], at: dict[Value, int]) -> None:  # fmt: skip
        self.variant = variant
        self.rooted = tape.rooted
        self.sources = [order[id(t)] for t, _ in tape.sources]
        numbers = iter(range(len(parts.gradients)))
        self.which = [None if k is None else next(numbers) for _, k in tape.sources]
        self.shapes = [(t._a.shape, t._kind) for t in tape.cotangents]
        self.reads: list[tuple[str, int]] = []
        self.cotangents: list[int] = []  # of each cotangent that is read its number
        self.inputs: list[Value] = []
        heard = {id(o.tensor) for o in tape.outside}
        asked = [k for k, t in enumerate(tape.cotangents) if id(t) in heard]
        number = dict(zip(parts.cotangents, asked, strict=True))
        assert parts.backward is not None
        later: list[Value] = []
        for v in parts.backward.inputs:
            if v in number:
                self.cotangents.append(number[v])
                self.inputs.append(v)
            elif v in at:
                self.reads.append(("made", at[v]))
                later.append(v)
            elif id(v) in places:
                self.reads.append(("given", places[id(v)]))
                later.append(v)
        self.inputs += later
        self.op: Any = _Op(self)

    def program(self, parts: Parts, constants: dict[Value, Any]) -> CompiledProgram:
        """Return the backward part as a program."""
        assert parts.backward is not None
        strides = []
        for v in self.inputs:
            t = parts.tensors.get(v)
            if t is not None:
                strides.append(tuple(s // t._a.itemsize for s in t._a.strides))
            else:
                strides.append(_dense(v.shape))
        found = CompiledProgram(Lowered(parts.backward.nodes, self.inputs, strides, constants, parts.backward.outputs))
        found.build()
        return found

    # -- running -------------------------------------------------------------------------------------------------------

    def connect(self, results: list[Tensor], made: Sequence[Tensor], given: Sequence[Tensor], call: Any,
                drawn: Drawn) -> None:  # fmt: skip
        """Put the call on the graph."""
        sources = [given[k] for k in self.sources]
        frame = user_frame(sys._getframe(1))
        first = results[self.rooted[0]]
        node = CompiledNode(self.op, tuple([edge(t) for t in sources]), first._kind,
                            frame.f_code if frame else None, frame.f_lasti if frame else 0)  # fmt: skip
        node.nrs = tuple([t._nr for t in sources])
        saved = tuple([given[k] if where == "given" else made[k] for where, k in self.reads])
        node.saved = tuple([wrap(t._a, t._kind) for t in saved])  # the node must not keep its own results alive
        node.storages = tuple([storage_of(t) for t in saved])
        node.versions = tuple([s.version for s in node.storages])
        node.call, node.drawn = call, drawn
        if len(self.rooted) > 1:
            node.out_meta = tuple([(results[k]._a.shape, results[k]._kind) for k in self.rooted])
        for j, k in enumerate(self.rooted):
            t = results[k]
            t._node, t._nr, t._requires_grad = node, j, True

    def gradients(self, saved: Sequence[Tensor], grads: Sequence[Any], drawn: Drawn) -> tuple[Any, ...]:
        """Return the arrays of the gradients from those of the results."""
        cotangents = []
        for k in self.cotangents:
            shape, kind = self.shapes[k]
            g = grads[k]
            cotangents.append(_zeros(shape, kind) if g is None else wrap(g, kind))
        found = self._run(saved, cotangents, drawn)
        return tuple([None if k is None else found[k]._a for k in self.which])

    def _run(self, saved: Sequence[Tensor], cotangents: Sequence[Tensor], drawn: Drawn) -> list[Tensor]:
        program = self.variant.backward
        if program is None:
            raise RuntimeError("the backward part of a compiled function is gone; call the function again")
        given = [t if t._a.flags.c_contiguous else t.contiguous() for t in cotangents]
        was, mode.enabled = mode.enabled, False
        try:
            return program([*given, *saved], drawn)
        finally:
            mode.enabled = was

    def run(self, made: Sequence[Tensor], given: Sequence[Tensor], cotangents: Sequence[Tensor],
            drawn: Drawn) -> list[Tensor | None]:  # fmt: skip
        """Return the gradients as tensors, for a trial."""
        saved = [given[k] if where == "given" else made[k] for where, k in self.reads]
        found = self._run(saved, [cotangents[k] for k in self.cotangents], drawn)
        return [None if k is None else found[k] for k in self.which]

    def again(self, call: Any, grads: Sequence[Any]) -> tuple[Any, ...]:
        """Return the gradients with a graph, by running the function itself."""
        function, given = call
        with enable_grad():
            found = function()
            roots = [found[k] for k in self.rooted]
            pairs = [(r, g) for r, g in zip(roots, grads, strict=True) if g is not None]
            sources = [given[k] for k in self.sources]
            return grad([r for r, _ in pairs], sources, [g for _, g in pairs], create_graph=True, allow_unused=True)


def _zeros(shape: tuple[int, ...], kind: Any) -> Tensor:
    return wrap(np.zeros(shape, kind.dtype.name), kind)


def _dense(shape: Sequence[Any]) -> tuple[int, ...]:
    found, step = [], 1
    for n in reversed(shape):
        found.append(step)
        step *= n
    return tuple(reversed(found))
