"""The forward and the backward part of a recorded call, each as a program of its own, and the values between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..declare import op as declarations
from ..declare.op import Elementwise
from ..export.ir import Block, Node, Tree, Value, needed, values_in
from ..export.joined import Joined
from ..tensors.tensor import Tensor
from .recording import Recording

_MOVES = frozenset(("permute", "transpose", "t", "squeeze", "unsqueeze", "expand", "view", "reshape", "slice", "select",
                    "cast", "full", "arange", "clone", "contiguous"))  # fmt: skip
"""Ops besides the elementwise ones that are computed again in the backward part."""


class Part(NamedTuple):
    """Ops with what they read and give."""

    nodes: list[Node]
    inputs: list[Value]
    outputs: list[Value]


class Parts(NamedTuple):
    """A recorded call as programs.

    tensors : of each value that the call was given its tensor: arguments first, then what it read.
    results, updates : outputs of the forward part. saved : those that the backward part reads, after these.
    """

    forward: Part
    backward: Part | None
    tensors: dict[Value, Tensor]
    cotangents: list[Value]
    results: list[Value]
    updates: list[tuple[Value, Value]]
    saved: list[Value]
    gradients: list[Value]


def parts_of(tape: Recording, inputs: Sequence[Tensor], count: int, whole: bool = False) -> Parts:
    """Return the parts of a recorded call of `count` results; `whole` puts the gradients into the forward part."""
    joined = Joined([tape], [{}], {})  # type: ignore[list-item]
    arguments = Tree("tuple", None, (Tree("tensor"),) * len(inputs))
    names = [f"x{k}" for k in range(len(inputs))]
    program = joined.program("call", names, arguments, arguments, lambda t: "t")
    tensors: dict[Value, Tensor] = dict(zip(program.inputs, inputs, strict=True))
    cotangents = {id(t) for t in tape.cotangents}
    given: dict[int, Value] = {}
    for o in tape.outside:
        value = joined.values[o.index]
        if id(o.tensor) in cotangents:
            given[id(o.tensor)] = value
        else:
            tensors[value] = o.tensor
    results = list(program.outputs[:count])
    gradients = list(program.outputs[count:])
    updates = list(program.updates)
    ends = list(dict.fromkeys([*results, *(new for _, new in updates)]))
    first = needed(program.nodes, ends)
    if not gradients:
        return Parts(Part(first, _read(first, ends, tensors), ends), None, tensors, [], results, updates, [], [])
    wanted = [given[id(t)] for t in tape.cotangents if id(t) in given]
    if whole:
        second, _ = _backward(program.nodes, first, ends, gradients)
        both = _one_after_other(needed(program.nodes, [*ends, *gradients]), first, second)
        ends = list(dict.fromkeys([*ends, *gradients]))
        both = needed(both, ends)
        read = _read(both, ends, {**tensors, **dict.fromkeys(wanted)})
        return Parts(Part(both, read, ends), None, tensors, wanted, results, updates, [], gradients)
    second, saved = _backward(program.nodes, first, ends, gradients)
    outputs = [*ends, *(v for v in saved if v not in ends)]
    first = needed(program.nodes, outputs)
    read = _read(second, gradients, {**tensors, **dict.fromkeys(wanted), **dict.fromkeys(saved)})
    return Parts(Part(first, _read(first, outputs, tensors), outputs), Part(second, read, gradients), tensors, wanted,
                 results, updates, saved, gradients)  # fmt: skip


def _read(nodes: Sequence[Node], outputs: Sequence[Value], given: Any) -> list[Value]:
    """Return those of some values that nodes read, or that are given back."""
    found = {v for node in nodes for v in values_in(node)} | set(outputs)
    return [v for v in given if v in found]


def _backward(nodes: Sequence[Node], first: Sequence[Node], ends: Sequence[Value],
              gradients: Sequence[Value]) -> tuple[list[Node], list[Value]]:  # fmt: skip
    """Return the ops of the backward part, and which values of the forward part it reads.

    What loops make again from values that are kept anyway is not kept: that costs less than writing and reading it.
    """
    ran = {v for node in first for v in node.outputs if v is not None}
    whole = [n for n in nodes if any(v in ran for v in n.outputs if v is not None)]  # with outputs for gradients alone
    maker = {v: node for node in whole for v in node.outputs if v is not None}
    rest = [n for n in needed(nodes, gradients) if not any(v in maker for v in n.outputs if v is not None)]
    own = {v for n in rest for v in n.outputs if v is not None}
    inner = {v for n in rest for b in n.blocks for m in b.nodes for v in m.outputs if v is not None}
    direct = ({v for n in rest for v in values_in(n)} | set(gradients)) - own - inner
    there: dict[Value, bool] = {}

    def is_there(v: Value) -> bool:
        """Return whether the backward part has a value without more being kept than it reads itself."""
        if v not in there:
            there[v] = v in direct or v in ends or is_remade(v)
        return there[v]

    def is_remade(v: Value) -> bool:
        node = maker.get(v)
        return node is not None and v not in ends and _cheap(node) and all(map(is_there, values_in(node)))

    remade = {v for v in direct if is_remade(v)}
    saved = {v: None for v in maker if v in direct and v not in remade}
    copies: list[Node] = []
    done: set[Value] = set()

    def make(v: Value) -> None:
        node = maker.get(v)
        if node is None or v in done or v in saved:
            return
        if v in ends:
            saved[v] = None
            return
        done.update(x for x in node.outputs if x is not None)
        for x in values_in(node):
            make(x)
        copies.append(node)

    for v in maker:
        if v in remade:
            make(v)
    return needed([*copies, *rest], gradients), list(saved)


def _one_after_other(nodes: Sequence[Node], first: Sequence[Node], second: Sequence[Node]) -> list[Node]:
    """Return the ops of both parts as one program, in which what the second makes again has values of its own."""
    ran = {v for node in first for v in node.outputs if v is not None}
    again = {v for node in second for v in node.outputs if v is not None and v in ran}
    new = {v: Value(f"{v.name}.again", v.dtype, v.shape) for v in again}
    found = [n for n in nodes if any(v in ran for v in n.outputs if v is not None)]
    for node in second:
        inputs, params, blocks = _replaced((node.inputs, tuple(node.params.items()), node.blocks), new)
        outputs = tuple([None if v is None else new.get(v, v) for v in node.outputs])
        found.append(node._replace(inputs=inputs, params=dict(params), outputs=outputs, blocks=blocks))
    return found


def _replaced(x: Any, new: dict[Value, Value]) -> Any:
    """Return something of an op with other values in it."""
    if isinstance(x, Value):
        return new.get(x, x)
    if isinstance(x, Node | Block):
        return type(x)(*(_replaced(part, new) for part in x))
    if isinstance(x, dict):
        return {k: _replaced(v, new) for k, v in x.items()}
    return tuple([_replaced(v, new) for v in x]) if type(x) is tuple else x


def _cheap(node: Node) -> bool:
    return not node.blocks and (node.op in _MOVES or isinstance(declarations.table.get(node.op), Elementwise))
