"""What is done once, when a program is written: ops of constants are computed, and batch norms go into weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..declare import op as declarations
from ..declare.expr import numpy_source
from ..declare.op import Elementwise, Operation
from .ir import Node, Sized, Value

_LARGEST = 1 << 24  # bytes of a constant that is computed ahead: larger ones are cheaper to compute than to store


def simplified(program: Any) -> tuple[list[Node], dict[Value, Any], dict[Value, Value]]:
    """Return the nodes that are left, the values of those that were computed, and for values that are gone others of
    their shape."""
    moved = {old for old, _ in program.updates}
    known = {value: np.asarray(array) for value, array in program.state.values() if value not in moved}
    given = set(known)
    wanted = set(program.outputs) | {new for _, new in program.updates}
    nodes, gone = _normed(program.nodes, known, wanted)
    kept = []
    for node in nodes:
        found = _computed(node, known)
        if found is None:
            kept.append(node)
        else:
            known.update(found)
    return kept, {v: a for v, a in known.items() if v not in given}, gone


def _computed(node: Node, known: dict[Value, Any]) -> dict[Value, Any] | None:
    """Return the outputs of a node whose inputs are all constants, by the NumPy reference of its op."""
    values = [x for x in node.inputs if isinstance(x, Value)]
    declared = declarations.table.get(node.op)
    if not values or any(v not in known for v in values) or declared is None or node.blocks:
        return None
    if any(_has_size(x) for x in (*node.inputs, *node.params.values())):
        return None
    if any(v is not None and not all(isinstance(d, int) for d in v.shape) for v in node.outputs):
        return None
    inputs = [known[x] if isinstance(x, Value) else x for x in node.inputs]
    if isinstance(declared, Elementwise):
        if any(st.op in ("erf", "erfc") for st in declared.program.statements):
            return None
        scope: dict[str, Any] = {}
        exec(numpy_source(declared.program), scope)
        with np.errstate(all="ignore"):
            results: Any = (scope[declared.program.name](np, None, *inputs, *node.params.values()),)
    elif isinstance(declared, Operation) and not declared.variadic:
        with np.errstate(all="ignore"):
            results = declared.forward(np, *inputs, **node.params)
    else:
        return None
    results = results if isinstance(results, tuple | list) else (results,)
    arrays = {v: np.asarray(a).astype(v.dtype, copy=False) for v, a in zip(node.outputs, results, strict=False)
              if v is not None}  # fmt: skip
    if sum(a.nbytes for a in arrays.values()) > _LARGEST:
        return None
    return arrays if all(a.shape == v.shape for v, a in arrays.items()) else None


def _has_size(x: Any) -> bool:
    if isinstance(x, tuple) and not isinstance(x, Sized):
        return any(_has_size(v) for v in x)
    if isinstance(x, slice):
        return any(_has_size(v) for v in (x.start, x.stop, x.step))
    return isinstance(x, Sized)


def _normed(nodes: Sequence[Node], known: dict[Value, Any],
            wanted: set[Value]) -> tuple[list[Node], dict[Value, Value]]:  # fmt: skip
    """Put a batch norm of constants that alone reads a convolution into its weights; return the nodes, and for the
    convolution's result, whose sizes others may ask for, the norm's."""
    gone: dict[Value, Value] = {}
    readers: dict[Value, int] = {}
    for node in nodes:
        for v in _read(node):
            readers[v] = readers.get(v, 0) + 1
    made = {v: k for k, node in enumerate(nodes) for v in node.outputs if v is not None}
    out: list[Node | None] = list(nodes)
    for k, node in enumerate(nodes):
        if node.op != "batch_norm_eval" or any(x is not None and x not in known for x in node.inputs[1:]):
            continue
        source = node.inputs[0]
        at = made.get(source)
        conv = out[at] if at is not None else None
        if conv is None or conv.op not in ("conv", "linear") or readers.get(source) != 1 or source in wanted:
            continue
        x, weight, bias = conv.inputs
        if weight not in known or (bias is not None and bias not in known) or node.outputs[0] is None:
            continue
        if conv.op == "linear" and len(source.shape) != 2:
            continue
        numbers: list[Any] = [None if v is None else known[v].astype(np.float64) for v in node.inputs[1:]]
        mean, var, gamma, beta = numbers
        scale = 1 / np.sqrt(var + node.params["eps"])
        scale = scale if gamma is None else scale * gamma
        w = known[weight]
        shift = -mean if bias is None else known[bias] - mean
        shift = shift * scale if beta is None else shift * scale + beta
        new_weight = Value(f"{weight.name}.normed", weight.dtype, weight.shape)
        new_bias = Value(f"{weight.name}.shift", weight.dtype, (len(shift),))
        known[new_weight] = (w * scale.reshape(-1, *(1,) * (w.ndim - 1))).astype(w.dtype)
        known[new_bias] = shift.astype(w.dtype)
        assert at is not None
        out[at], out[k] = conv._replace(inputs=(x, new_weight, new_bias), outputs=node.outputs), None
        gone[source] = node.outputs[0]
    return [n for n in out if n is not None], gone


def used_values(nodes: Sequence[Node]) -> set[Value]:
    """Return the values that nodes read, in their blocks too."""
    return {v for node in nodes for v in _read(node)}


def _read(node: Node) -> list[Value]:
    found = [x for x in node.inputs if isinstance(x, Value)]
    for block in node.blocks:
        found += [v for n in block.nodes for v in _read(n)] + list(block.outputs)
    return found
