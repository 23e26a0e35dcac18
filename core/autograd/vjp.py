"""One step back: the gradients of a node's inputs from those of its outputs.

Without `create_graph` gradients are arrays and an elementwise gradient is one fused kernel, printed from the same text
that, with `create_graph`, runs as ops on tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import backends
from ..backends.sum_to import sum_to
from ..base.device import Kind
from ..base.errors import OpNotDifferentiable, text
from ..base.modes import state as mode
from ..base.source import describe
from ..declare import op as declarations
from ..declare.op import Elementwise, Op, Operation
from ..dispatch import autocast
from ..dispatch.sparse import gradient_over
from ..events import observe
from ..graph.node import Node
from ..tensors.tensor import Tensor, from_array, wrap


def gradients(node: Node, edges: tuple[Any, ...], grads: Any, create_graph: bool) -> tuple[tuple[Any, ...], str]:
    """Return the gradient for every edge (None where none is wanted) and the name of the kernel that made them.

    `edges` are the node's, with None in place of those that nobody asked for. `grads` is one gradient, or a list where
    the op has several outputs. Gradients are arrays, with `create_graph` tensors.
    """
    op = node.op
    if autocast.busy() and isinstance(op, Op):  # a gradient is of the types that its forward had
        with autocast.plain():
            return _of_any_op(op, node, edges, grads, create_graph)
    return _of_any_op(op, node, edges, grads, create_graph)


def _of_any_op(op: Any, node: Node, edges: tuple[Any, ...], grads: Any,
               create_graph: bool) -> tuple[tuple[Any, ...], str]:  # fmt: skip
    if node.kind.dtype.category == 3 and isinstance(op, Op) and op.holomorphic:
        found, kernel = _gradients(op, node, edges, _conj(grads), create_graph)
        return tuple([_conj(r) for r in found]), kernel
    return _gradients(op, node, edges, grads, create_graph)


def _conj(g: Any) -> Any:
    """Return the conjugate of a gradient, an array or a tensor, or of each in a list."""
    if g is None or isinstance(g, list | tuple):
        return None if g is None else [_conj(x) for x in g]
    turned = g.conj()
    return np.asarray(turned) if isinstance(turned, np.generic) else turned  # NumPy makes a scalar of a 0-d array


def _gradients(op: Any, node: Node, edges: tuple[Any, ...], grads: Any,
               create_graph: bool) -> tuple[tuple[Any, ...], str]:  # fmt: skip
    if isinstance(op, Op) and not op.differentiable:
        raise OpNotDifferentiable(
            text(f"derivative for {op.label} is not implemented", op=op.label,
                 came=f"a gradient for {describe(node.place)}",
                 remedy="detach() its input if no gradient is meant to flow")
        )  # fmt: skip
    if isinstance(op, Elementwise):
        if create_graph:
            return _elementwise_tensors(op, node, edges, grads)
        return _elementwise_arrays(op, node, edges, grads)
    if isinstance(op, Operation):
        return _operation(op, node, edges, grads, create_graph)
    return op.gradients(node, edges, grads, create_graph)  # type: ignore[attr-defined, no-any-return]


def _elementwise_arrays(op: Elementwise, node: Node, edges: tuple[Any, ...], g: Any) -> tuple[tuple[Any, ...], str]:
    kind = node.kind
    recipes = op.recipes.get(kind)
    if recipes is None:
        recipes = op.recipes[kind] = tuple([_recipe(op, i, kind) for i in range(len(op.vjps))])
        if kind.device.type == "cpu" and kind.dtype.category == 2:
            op.steps[kind] = tuple([_step(op, i, kind) for i in range(len(op.vjps))])
    out: list[Any] = []
    name = ""
    shapes = node.in_shapes
    if kind.device.type != "cpu" and len(edges) > 1 and (found := _at_once(op, node, edges, g)) is not None:
        return found
    for i, e in enumerate(edges):
        gi = None
        if e is not None:
            compute, name = recipes[i]
            if compute is not None:
                gi = compute(g, node.saved, node.params)
                if shapes is not None and gi.shape != shapes[i]:
                    gi = sum_to(gi, shapes[i], kind)
        out.append(gi)
    return tuple(out), name


def _at_once(op: Elementwise, node: Node, edges: tuple[Any, ...], g: Any) -> tuple[tuple[Any, ...], str] | None:
    """Return the gradients of several inputs by one launch, where all that compute something are wanted."""
    kind = node.kind
    if kind not in op.joint_recipes:
        op.joint_recipes[kind] = _joint_recipe(op, kind)
    recipe = op.joint_recipes[kind]
    if recipe is None or any(edges[i] is None for i in recipe[0]):
        return None
    which, compute, name = recipe
    made = dict(zip(which, compute(g, node.saved, node.params), strict=True))
    out: list[Any] = []
    for i, e in enumerate(edges):
        gi = made.get(i)
        if gi is None and e is not None:
            other = op.recipes[kind][i][0]
            gi = None if other is None else other(g, node.saved, node.params)
        if gi is not None and node.in_shapes is not None and gi.shape != node.in_shapes[i]:
            gi = sum_to(gi, node.in_shapes[i], kind)
        out.append(gi)
    return tuple(out), name


def _joint_recipe(op: Elementwise, kind: Kind) -> Any:
    joint = op.joint_gradients
    kernel = None if joint is None else backends.joint_kernel(joint[1], kind)
    if joint is None or kernel is None:
        return None
    return joint[0], _compiled(op, joint[1], kernel), kernel.name


def _compiled(op: Elementwise, program: Any, kernel: Any) -> Any:
    """Return a function of the incoming gradient, what was saved and the parameters that runs a gradient's kernel."""
    found = {"g": "g"} | {s.name: f"saved[{k}]" for k, s in enumerate(op.slots)}
    found |= {n: f"params[{k}]" for k, n in enumerate(op.params)}
    arguments = ", ".join(found[n] for n in (*program.inputs, *program.params))
    return eval(f"lambda g, saved, params: run({arguments})", {"run": kernel.run})


def _recipe(op: Elementwise, i: int, kind: Kind) -> tuple[Any, str]:
    """How to compute gradient `i`: a function of the incoming gradient, what was saved and the parameters (None where
    there is no gradient), and its kernel's name."""
    program = op.gradient_programs[i]
    if program is None:
        return None, ""
    if not program.statements and program.result == "g":
        return lambda g, saved, params: g, "passes"
    kernel = backends.map_kernel(program, kind)
    return _compiled(op, program, kernel), kernel.name


def _step(op: Elementwise, i: int, kind: Kind) -> Any:
    """`_recipe` as native/binding/graph/state.c takes it."""
    program = op.gradient_programs[i]
    if program is None:
        return False
    if not program.statements and program.result == "g":
        return None
    found = {"g": 255} | {s.name: k for k, s in enumerate(op.slots)} | {n: 128 + k for k, n in enumerate(op.params)}
    sources = bytes(found[n] for n in (*program.inputs, *program.params))
    return backends.map_kernel(program, kind).run, sources


def _elementwise_tensors(op: Elementwise, node: Node, edges: tuple[Any, ...], g: Tensor) -> tuple[tuple[Any, ...], str]:
    named: dict[str, Any] = dict(zip(op.params, node.params, strict=True)) | unpack(node, True)
    out: list[Any] = []
    for i, e in enumerate(edges):
        v = op.vjps[i]
        if e is None or v is None:
            out.append(None)
            continue
        gi = v.function(*[g if n == "g" else named[n] for n in v.names])
        if not isinstance(gi, Tensor):
            gi = g * gi
        shape = gi._a.shape if node.in_shapes is None else node.in_shapes[i]
        gi = gi if gi._a.shape == shape else gi.sum_to_size(shape)
        out.append(_with_zeros(gi, node, i) if op.piecewise else gi)
    return tuple(out), op.name


def _with_zeros(gi: Tensor, node: Node, i: int) -> Tensor:
    """Return the gradient of input i of an op that is linear in pieces, with zeros as its own gradient for that
    input."""
    if gi._kind.dtype.category < 2:
        return gi
    like = _again(wrap(gi._a, gi._kind), node.edges[i], node.nrs[i] if node.nrs else 0)
    return declarations.functions["constant"](gi, like)  # type: ignore[no-any-return]


def _operation(op: Operation, node: Node, edges: tuple[Any, ...], grads: Any,
               create_graph: bool) -> tuple[tuple[Any, ...], str]:  # fmt: skip
    needs = tuple([e is not None for e in edges])
    if node.out_meta is not None:
        grads = tuple(zeros(meta, create_graph) if g is None and meta[1].dtype.category >= 2 else g
                      for g, meta in zip(grads, node.out_meta, strict=True))  # fmt: skip
    elif op.returns != 1:
        grads = (grads,)  # split into one piece
    if not create_graph and backends.rows(op.name + ".backward", node.kind.device.type):
        named = {"g": grads, "needs": needs, **node.params}
        named |= {s.name: v for s, v in zip(op.slots, node.saved or (), strict=False)}
        args = {n: named.get(n) for n in op.row_names}
        row = _pick(op.name + ".backward", node.kind.device.type, args)
        if row is not None:
            found = row.run(**args)
            return found if isinstance(found, tuple) else (found,), row.name
    wrapped: Any = grads
    if not create_graph:
        wrapped = tuple(None if g is None else _tensor(g, node.kind) for g in grads) if isinstance(grads, tuple) \
            else _tensor(grads, node.kind)  # fmt: skip
    named = {"g": wrapped, "needs": needs, **node.params, **unpack(node, create_graph)}
    told = create_graph and not mode.enabled and backends.rows(op.name + ".backward", node.kind.device.type)
    if told:  # an observer wants ops
        given = {n: named.get(n) for n in op.row_names}
        event = observe.GradientOpsEvent(op, given, None, node.place)
        observe.notify(observe.listening(), "gradient_ops", event)
    if op.joint:
        v = op.vjps[0]
        assert v is not None
        result: Any = v.function(**{n: named[n] for n in v.names})
        result = result if isinstance(result, tuple | list) else (result,)
    else:
        result = [v.function(**{n: named[n] for n in v.names}) if need and v else None
                  for v, need in zip(op.vjps, needs, strict=False)]  # fmt: skip
    out = [None if r is None or not need else r for r, need in zip(result, needs, strict=False)]
    if create_graph and op.piecewise:
        out = [None if r is None else _with_zeros(r, node, i) for i, r in enumerate(out)]
    if told:
        observe.notify(observe.listening(), "gradient_ops", event._replace(results=tuple(out)))
    if not create_graph:
        out = [None if r is None else r._a for r in out]
    return tuple(out), op.name + " vjp"


def _pick(name: str, device_type: str, args: dict[str, Any]) -> Any:
    for row in backends.rows(name, device_type):
        if row.declines(**args) is None:
            return row
    return None


def zeros(meta: Any, create_graph: bool) -> Any:
    """Return the gradient of an output that none arrived for; `meta` is its shape and kind."""
    shape, kind = meta
    a = backends.array_module(kind.device.type).zeros(shape, kind.dtype.numpy)
    if not create_graph:
        return a
    t = wrap(a, kind)
    if observe.wanted("as ops"):
        observe.notify(observe.listening(), "made", observe.MadeEvent("full", t, (tuple(shape), 0.0), None))
    return t


def _tensor(a: Any, kind: Kind) -> Tensor:
    if a.dtype == kind.dtype.numpy:
        return gradient_over(a, kind)
    return from_array(a, kind.device)


def unpack(node: Node, with_history: bool) -> dict[str, Any]:
    """Return what the node saved, by name, as tensors; with their history where gradients of gradients are wanted.

    A hidden output has no history: a vjp that needs its derivative computes it again from the inputs.
    """
    returned = node.op.returns
    out: dict[str, Any] = {}
    for slot, value, storage in zip(node.op.slots, node.saved or (), node.storages, strict=False):
        if slot.where not in ("input", "output") or value is None or not hasattr(value, "dtype"):
            if isinstance(value, tuple) and slot.where == "input":
                value = tuple(from_array(v, node.kind.device) for v in value)
                if with_history:
                    nrs = node.nrs or (0,) * len(value)
                    value = tuple(_again(v, e, nr) for v, e, nr in zip(value, node.edges, nrs, strict=True))
            out[slot.name] = value
            continue
        t = _tensor(value, node.kind)
        t._storage = storage
        if with_history:
            if slot.where == "output" and t._kind.dtype.category >= 2 and (returned == 0 or slot.index < returned):
                t._node, t._nr, t._requires_grad = node, slot.index, True
            elif slot.where == "input":
                t = _again(t, node.edges[slot.index], node.nrs[slot.index] if node.nrs else 0)
        out[slot.name] = t
    return out


def _again(t: Tensor, e: Any, nr: int) -> Tensor:
    """Return a saved input with the history its edge tells."""
    if isinstance(e, Node):
        t._node, t._nr, t._requires_grad = e, nr, True
        return t
    return t if e is None else e
