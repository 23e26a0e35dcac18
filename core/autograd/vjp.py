"""One step back: the gradients of a node's inputs from those of its outputs.

Without `create_graph` gradients are arrays and an elementwise gradient is one fused kernel, printed from the same text
that, with `create_graph`, runs as ops on tensors.
"""

from __future__ import annotations

from typing import Any

from .. import backends
from ..device import Kind
from ..op import Elementwise, Operation
from ..tensor import Tensor, wrap
from ..node import Node


def gradients(node: Node, grads: Any, create_graph: bool) -> tuple[tuple[Any, ...], str]:
    """The gradient for every edge (None where none is wanted) and the name of the kernel that made them.

    `grads` is one gradient, or a list where the op has several outputs. Gradients are arrays, with `create_graph`
    tensors.
    """
    op = node.op
    if isinstance(op, Elementwise):
        return _elementwise_tensors(node, grads) if create_graph else _elementwise_arrays(node, grads)
    if isinstance(op, Operation):
        return _operation(node, grads, create_graph)
    return op.gradients(node, grads, create_graph)  # type: ignore[attr-defined]


def _elementwise_arrays(node: Node, g: Any) -> tuple[tuple[Any, ...], str]:
    op: Any = node.op
    kind = node.kind
    recipes = op.__dict__.setdefault("_recipes", {}).get(kind)
    if recipes is None:
        recipes = op._recipes[kind] = tuple(_recipe(op, i, kind) for i in range(len(op.vjps)))
    out: list[Any] = []
    name = ""
    saved, params, shapes = node.saved, node.params, node.in_shapes
    for i, e in enumerate(node.edges):
        if e is None:
            out.append(None)
            continue
        run, sources, name = recipes[i]
        if run is None:
            gi = g
        else:
            gi = run(*[g if src < 0 else saved[src] if src < 100 else params[src - 100] for src in sources])
        if shapes is not None and gi.shape != shapes[i]:
            gi = sum_to(gi, shapes[i], kind)
        out.append(gi)
    return tuple(out), name


def _recipe(op: Elementwise, i: int, kind: Kind) -> tuple[Any, tuple[int, ...], str]:
    """How to compute gradient `i`: the kernel (None: the incoming gradient passes) and where its arguments come from:
    -1 the gradient, 0.. what was saved, 100.. the parameters."""
    vjp, program = op.vjps[i], op.gradient_programs[i]
    if vjp is None or program is None:
        return None, (), ""
    if not program.statements and program.result == "g":
        return None, (), "passes"
    slots = {s.name: k for k, s in enumerate(op.slots)}
    params = {n: 100 + k for k, n in enumerate(op.params)}
    sources = tuple(
        -1 if n == "g" else slots[n] if n in slots else params[n] for n in (*program.inputs, *program.params)
    )
    kernel = backends.map_kernel(program, kind)
    return kernel.run, sources, kernel.name


def _elementwise_tensors(node: Node, g: Tensor) -> tuple[tuple[Any, ...], str]:
    op: Any = node.op
    named: dict[str, Any] = dict(zip(op.params, node.params, strict=True)) | unpack(node, True)
    out: list[Any] = []
    for i, e in enumerate(node.edges):
        v = op.vjps[i]
        if e is None or v is None:
            out.append(None)
            continue
        gi = v.function(*[g if n == "g" else named[n] for n in v.names])
        if not isinstance(gi, Tensor):
            gi = g * gi
        shape = gi._a.shape if node.in_shapes is None else node.in_shapes[i]
        out.append(gi if gi._a.shape == shape else gi.sum_to_size(shape))  # type: ignore[attr-defined]
    return tuple(out), op.name


def _operation(node: Node, grads: Any, create_graph: bool) -> tuple[tuple[Any, ...], str]:
    op: Any = node.op
    needs = tuple(e is not None for e in node.edges)
    if op.returns != 1 and isinstance(grads, list):
        grads = tuple(_zeros(meta, create_graph) if g is None and meta[1].dtype.category >= 2 else g
                      for g, meta in zip(grads, node.out_meta or (), strict=False))  # fmt: skip
    if not create_graph and op.joint:
        named = {"g": grads, "needs": needs, **node.params}
        named |= {s.name: v for s, v in zip(op.slots, node.saved or (), strict=False)}
        args = {n: named[n] for n in op.vjps[0].names}
        row = _pick(op.name + ".backward", node.kind.device.type, args)
        if row is not None:
            found = row.run(**args)
            return found if isinstance(found, tuple) else (found,), row.name
    wrapped: Any = grads
    if not create_graph:
        wrapped = tuple(None if g is None else _tensor(g, node.kind) for g in grads) if isinstance(grads, tuple) \
            else _tensor(grads, node.kind)  # fmt: skip
    named = {"g": wrapped, "needs": needs, **node.params, **unpack(node, create_graph)}
    if op.joint:
        v = op.vjps[0]
        result = v.function(**{n: named[n] for n in v.names})
        result = result if isinstance(result, tuple | list) else (result,)
    else:
        result = [v.function(**{n: named[n] for n in v.names}) if need and v else None
                  for v, need in zip(op.vjps, needs, strict=False)]  # fmt: skip
    out = [None if r is None or not need else r for r, need in zip(result, needs, strict=False)]
    if not create_graph:
        out = [None if r is None else r._a for r in out]
    return tuple(out), op.name + " vjp"


def _pick(name: str, device_type: str, args: dict[str, Any]) -> Any:
    for row in backends.rows(name, device_type):
        if row.declines(**args) is None:
            return row
    return None


def _zeros(meta: Any, create_graph: bool) -> Any:
    shape, kind = meta
    a = backends.array_module(kind.device.type).zeros(shape, kind.dtype.numpy)
    return wrap(a, kind) if create_graph else a


def _tensor(a: Any, kind: Kind) -> Tensor:
    if a.dtype == kind.dtype.numpy:
        return wrap(a, kind)
    from ..tensor import from_array

    return from_array(a, kind.device)


def unpack(node: Node, with_history: bool) -> dict[str, Any]:
    """What the node saved, by name, as tensors; with their history where gradients of gradients are wanted.

    A hidden output has no history: a vjp that needs its derivative computes it again from the inputs.
    """
    from ..tensor import from_array

    returned = getattr(node.op, "returns", 1)
    out: dict[str, Any] = {}
    for slot, value in zip(node.op.slots, node.saved or (), strict=False):
        if slot.where not in ("input", "output") or value is None or not hasattr(value, "dtype"):
            if isinstance(value, tuple) and slot.where == "input":
                value = tuple(from_array(v, node.kind.device) for v in value)
                if with_history:
                    value = tuple(_again(v, e, 0) for v, e in zip(value, node.edges, strict=True))
            out[slot.name] = value
            continue
        t = _tensor(value, node.kind)
        if with_history:
            if slot.where == "output" and t._kind.dtype.category >= 2 and (returned == 0 or slot.index < returned):
                t._node, t._nr, t._requires_grad = node, slot.index, True
            elif slot.where == "input":
                t = _again(t, node.edges[slot.index], node.nrs[slot.index] if node.nrs else 0)
        out[slot.name] = t
    return out


def _again(t: Tensor, e: Any, nr: int) -> Tensor:
    """A saved input with the history its edge tells."""
    if isinstance(e, Node):
        t._node, t._nr, t._requires_grad = e, nr, True
        return t
    return t if e is None else e


def sum_to(a: Any, shape: tuple[int, ...] | None, kind: Kind) -> Any:
    """Sum a gradient over the dimensions that its input was stretched along."""
    shape = shape or ()
    lead = a.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(lead + i for i, n in enumerate(shape) if n == 1 and a.shape[lead + i] != 1)
    row = backends.pick("sum", kind.device.type, (a,), {"dim": axes, "keepdim": False})
    total = row.run(a, dim=axes, keepdim=False) if row is not None else a.sum(axis=axes, dtype=a.dtype)
    return total.reshape(shape)
