"""Running structured ops: a row of the backend's, or the reference."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np

from .. import backends, native
from ..backends import errstate
from ..base import dtypes
from ..base.device import Kind, cpu
from ..base.device import kind as kind_of
from ..base.errors import text
from ..base.modes import state as mode
from ..declare import op as declarations
from ..declare.op import Operation
from ..events import observe
from ..graph.versions import storage_of
from ..tensors.tensor import Tensor
from . import of_values, sparse
from .emit import dispatch_files, emit_failed, emit_op, emit_starting
from .operands import same_device
from .record import record_node

new = Tensor.__new__
dispatch_files.add(__file__)


def call_operation(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Run a structured op: check its rule, pick a row, make the node, tell observers."""
    if mode.batch is not None and (found := mode.batch.operation(op, tensors, params)) is not NotImplemented:
        return found
    if of_values.seen and (found := sparse.call_operation(op, tensors, params)) is not NotImplemented:
        return found
    if not observe.observers:
        return operate(op, tensors, params, False)
    try:
        return operate(op, tensors, params, True)
    except Exception as e:
        emit_failed(op, tensors, e)
        raise


def operate(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], watched: bool, given: Any = None) -> Any:
    """Run a structured op; `given` are its results where they are there already."""
    first = None
    for t in tensors:
        if t is not None:
            if not isinstance(t, Tensor):
                raise TypeError(f"{op.label}(): argument must be Tensor, not {type(t).__name__}")
            first = t if first is None else first
    if first is None:
        raise TypeError(f"{op.label}() needs at least one tensor")
    where = first._kind.device if len(tensors) == 1 else same_device(op.label, tensors)
    if first._kind.dtype.moved and not op.view and op.name not in _MOVES:
        raise no_arithmetic(op.label, first._kind.dtype)
    arrays = tuple([None if t is None else t._a for t in tensors])
    if op.rule is not None and not op.over:
        op.rule.check(op.label, op.inputs, [None if a is None else a.shape for a in arrays])
    kernel = backends.pick(op.name, where.type, arrays, params) or backends.reference_kernel(op, where.type)
    if watched:
        emit_starting(op, tensors, params)
    start = perf_counter_ns() if watched else 0
    run = kernel.run if where.index is None else backends.on_device(kernel.run, where)
    plain = {k: _exact(v) for k, v in params.items()} if watched and observe.wanted("as ops") else params
    results = run(*arrays, **plain) if given is None else given
    stop = perf_counter_ns() if watched else 0
    if not isinstance(results, tuple):
        results = (results,)
    returned = len(results) if op.returns == 0 else op.returns  # 0: as many as come
    outs, out_arrays, known = [], list(results), first._kind
    for j, r in enumerate(results[:returned]):
        if not hasattr(r, "strides") or isinstance(r, np.generic):  # a number instead of a 0-d array
            r = out_arrays[j] = backends.array_module(where.type).asarray(r)
        elif op.contiguous and not r.flags.c_contiguous:
            r = out_arrays[j] = r.copy()
        out = new(Tensor)
        out._a = r
        out._kind = known if r.dtype == known.dtype.numpy else kind_of(dtypes.from_numpy(r.dtype), where)
        outs.append(out)
    if op.view:
        mark_views(op, first, outs, params)
    node = record_node(op, outs, tensors, arrays, out_arrays, params) if mode.enabled and outs else None
    if watched:
        if where.index is not None:
            kernel = backends.as_observed(kernel, where)
        emit_op(op, tensors, tuple(outs), params, kernel, start, stop, node)
    return outs[0] if op.returns == 1 else tuple(outs)


def no_arithmetic(op: str, dtype: Any) -> NotImplementedError:
    """Return the error for an op that PyTorch does not compute of numbers that are there to be stored."""
    return NotImplementedError(
        text(f'"{op}_cpu" not implemented for {dtype.scalar_type!r}', op=op, came=str(dtype),
             needed="a dtype to compute in", remedy=f"x.float(), and .to({dtype!r}) of the result"))  # fmt: skip


# the ops that only move what float8 tensors hold
_MOVES = {"cast", "clone", "contiguous", "fill", "copy", "cat", "stack", "index", "index_put", "repeat", "constant",
          "any", "masked_scatter", "copy_into", "where", "transfer", "set", "view_scatter"}  # fmt: skip


def _exact(x: Any) -> Any:
    """Return numbers as they are to kernels: sizes that remember their formulas (core.export) as plain ints."""
    if isinstance(x, tuple):
        return tuple([_exact(v) for v in x])
    return int(x) if isinstance(x, int) and type(x) not in (int, bool) else x


def mark_views(op: Operation, x: Tensor, outs: list[Tensor], params: dict[str, Any]) -> None:
    """Views share their base's version counter and know the way from it."""
    storage = storage_of(x)
    base, way = (x, ()) if x._base is None else (x._base, x._way)
    rule = "no_grad" if not mode.enabled else op.name if op.returns != 1 else x._rule
    for j, out in enumerate(outs):

        def step(t: Tensor, j: int = j) -> Tensor:
            y = call_operation(op, (t,), params)
            return y if op.returns == 1 else y[j]

        out._storage, out._base, out._way, out._view_version = storage, base, (*way, step), storage.version
        if base._undo:
            out._undone = x._undone if x._base is not None else len(base._undo)
        if rule:
            out._rule = rule


def callable_operation(op: Operation) -> Callable[..., Any]:
    """Return the callable of a structured op: `op(*tensors, **params)`."""
    defaults = op.params

    def general(*tensors: Any, **params: Any) -> Any:
        return call_operation(op, tensors, {**defaults, **params} if len(params) < len(defaults) else params)

    function: Any = general
    if native.module is not None and op.view and op.returns != 1:
        native.module.register_views(general, op, op.name, tuple(defaults), tuple(defaults.values()))
    elif native.module is not None:  # native/binding/graph/structured_call.c
        function = native.module.Structured(op, op.name, general, tuple(defaults), tuple(defaults.values()),
                                            op.forward if op.view else None if errstate.variable else _reference(op),
                                            op.rule_codes(), op.view, op.recorded, op.variadic, op.returns,
                                            op.contiguous)  # fmt: skip
    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = op.doc
    function.op = op  # type: ignore[attr-defined]
    declarations.functions.setdefault(op.name, function)
    declarations.structured[op.name] = function
    return function


def kind_named(numpy: Any) -> Kind:
    return kind_of(dtypes.from_numpy(numpy), cpu)


def _reference(op: Operation) -> Callable[..., Any]:
    """Return the op's reference on the CPU, looked up when it is first wanted: the backends are not there yet."""
    run: Callable[..., Any] | None = None

    def reference(*arrays: Any, **params: Any) -> Any:
        nonlocal run
        if run is None:
            run = backends.reference_kernel(op, "cpu").run
        return run(*arrays, **params)

    return reference
