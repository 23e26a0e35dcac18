"""Dispatch: picks the kernel, runs it, makes the node, tells whoever observes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from . import backends, dtypes, observe, op as declarations
from .modes import state as mode
from .node import Node, Storage
from .backends import Kernel
from .device import Kind, device, kind as kind_of
from .errors import text
from .op import Elementwise, Op, Operation
from .shape import broadcast_shapes
from .source import is_ours, user_frame
from .tensor import Tensor, from_array, refresh, storage_of, wrap

new = Tensor.__new__


# -- making the node ---------------------------------------------------------------------------------------------------


def attach(op: Op, outs: Sequence[Tensor], tensors: Sequence[Any], arrays: Sequence[Any], out_arrays: Sequence[Any],
           params: Any) -> Node | None:  # fmt: skip
    """Make the node of an op that ran, if any input requires a gradient, and tie its outputs to it."""
    if not op.differentiable:
        return None
    mask, edges, nrs, storages_wanted = 0, [], None, False
    for i, t in enumerate(tensors):
        e = None
        if isinstance(t, Tensor):
            if t._view is not None:
                refresh(t)
            if t._requires_grad:
                e = t if t._node is None else t._node
                mask |= 1 << i
                if t._nr:
                    nrs = nrs or [0] * len(tensors)
                    nrs[i] = t._nr
        edges.append(e)
    if not mask:
        return None
    frame: Any = sys._getframe(2)
    if is_ours(frame.f_code.co_filename):
        frame = user_frame(frame)
    code, lasti = (frame.f_code, frame.f_lasti) if frame is not None else (None, 0)
    node = Node(op, tuple(edges), mask, outs[0]._kind, code, lasti)
    if nrs:
        node.nrs = tuple(nrs)
    node.params = params
    slots = op.plan(mask)
    if slots:
        saved: list[Any] = []
        storages: list[Storage | None] = []
        for slot in slots:
            value, storage = None, None
            if slot is None:
                pass
            elif slot.where == "input":
                if op.variadic:
                    value = tuple(arrays)
                else:
                    value, t = arrays[slot.index], tensors[slot.index]
                    if isinstance(t, Tensor):
                        storage = t._storage
                        if storage is None:
                            storage = t._storage = Storage()
            elif slot.where == "output":
                value = out_arrays[slot.index]
                if slot.index < len(outs):
                    storage = storage_of(outs[slot.index])
            elif op.variadic:
                value = tuple(a.shape for a in arrays) if slot.where == "shape" else tuple(t.dtype for t in tensors)
            elif arrays[slot.index] is not None:
                shape_wanted = slot.where == "shape"
                value = getattr(arrays[slot.index], "shape", ()) if shape_wanted else tensors[slot.index]._kind.dtype
            if storage is not None and storage.version:
                storages_wanted = True
            saved.append(value)
            storages.append(storage)
        node.saved, node.storages = tuple(saved), tuple(storages)
        if storages_wanted:
            node.versions = tuple(0 if st is None else st.version for st in storages)
    if len(outs) == 1:
        out = outs[0]
        out._node, out._requires_grad = node, True
    else:
        node.out_meta = tuple((out._a.shape, out._kind) for out in outs)
        for j, out in enumerate(outs):
            if out._kind.dtype.category >= 2:
                out._node, out._requires_grad, out._nr = node, True, j
    return node


# -- elementwise -------------------------------------------------------------------------------------------------------


def kernel_for(op: Elementwise, kind: Kind) -> Kernel:
    """The kernel of an elementwise op for arrays of `kind`."""
    found = op.__dict__.setdefault("_kernels", {}).get(kind)
    if found is None:
        found = op._kernels[kind] = backends.map_kernel(op.program, kind)  # type: ignore[attr-defined]
        op.fast[kind] = found.run
    return found


def _number(x: Any) -> Any:
    """A Python number as kernels take it; None if it is not a number."""
    if type(x) is float or type(x) is int:
        return x
    if isinstance(x, bool | np.bool_):
        return int(x)
    if isinstance(x, int | float):
        return float(x) if isinstance(x, float) else int(x)
    if isinstance(x, np.integer | np.floating):
        return x.item()
    return None


def same_device(op: str, tensors: Sequence[Any]) -> device:
    """The one device of all tensors; RuntimeError where they differ. 0-d CPU tensors go anywhere."""
    found: Tensor | None = None
    for t in tensors:
        if isinstance(t, Tensor):
            if found is None or (found._kind.device is not t._kind.device and found._a.ndim == 0 and not found.is_cuda):
                found = t
            elif t._kind.device is not found._kind.device and (t._a.ndim or t.is_cuda):
                raise RuntimeError(
                    text(
                        "Expected all tensors to be on the same device, but found at least two devices, "
                        f"{found._kind.device} and {t._kind.device}!",
                        op=op,
                        came=", ".join(
                            f"{tuple(x._a.shape)} on {x._kind.device}" for x in tensors if isinstance(x, Tensor)
                        ),
                        remedy="move one with .to(device)",
                    )  # fmt: skip
                )
    assert found is not None
    return found._kind.device


def promote(op: Elementwise, args: tuple[Any, ...]) -> tuple[Kind, tuple[Any, ...]]:
    """Bring the inputs of an elementwise op to one kind by PyTorch's rules, through differentiable casts."""
    args = tuple(from_array(a) if isinstance(a, np.ndarray) else a for a in args)
    if not any(isinstance(a, Tensor) for a in args):
        came = ", ".join(type(a).__name__ for a in args)
        raise TypeError(f"{op.name}(): argument must be Tensor, not {came}\n  remedy: core.tensor(value)")
    where = same_device(op.name, args)
    dimmed, zero, numbers = [], [], []
    for name, a in zip(op.inputs, args, strict=True):
        if name in op.bools:
            continue
        if isinstance(a, Tensor):
            (dimmed if a._a.ndim else zero).append(a._kind.dtype)
        elif isinstance(a, complex) or _number(a) is not None:
            numbers.append(dtypes.of_number(a))
        else:
            raise TypeError(
                text(f"{op.name}(): argument {name!r} must be Tensor or Number, not {type(a).__name__}", op=op.name)
            )
    found = dtypes.result_type(dimmed, zero, numbers) if dimmed or zero or numbers else dtypes.bool_
    if op.out == "float" and found.category < 2:
        found = dtypes.get_default_dtype()
    kind = kind_of(found, where)
    out: list[Any] = []
    for name, a in zip(op.inputs, args, strict=True):
        if name in op.bools:
            if not isinstance(a, Tensor):
                a = wrap(backends.array_module(where.type).asarray(bool(a)), kind.boolean)
            elif a._kind is not kind.boolean:
                a = convert(a, kind_of(a._kind.dtype, where)) != 0
        elif isinstance(a, Tensor):
            a = a if a._kind is kind else convert(a, kind)
        else:
            a = a if isinstance(a, complex) else _number(a)
        out.append(a)
    return kind, tuple(out)


def convert(t: Tensor, kind: Kind) -> Tensor:
    """`t` as another kind, on the graph."""
    return t if t._kind is kind else declarations.functions["to"](t, kind)


def call_map(op: Elementwise, args: tuple[Any, ...], params: tuple[float, ...] = ()) -> Tensor:
    """Run an elementwise op: the general way, with promotion and observers."""
    kind, args = promote(op, args)
    arrays = tuple(a._a if isinstance(a, Tensor) else a for a in args)
    kernel = kernel_for(op, kind)
    watched = bool(observe.observers)
    start = perf_counter_ns() if watched else 0
    try:
        array = kernel.run(*arrays, *params)
    except (ValueError, TypeError, ZeroDivisionError) as e:
        error = _explain_failure(op, args, kind, e)
        if watched:
            tell_failed(op.name, args, error)
        raise error from None
    stop = perf_counter_ns() if watched else 0
    out = new(Tensor)
    out._a, out._kind = array, kind.boolean if op.program.is_bool else kind
    node = attach(op, (out,), args, arrays, (array,), params) if mode.enabled else None
    if node is not None and any(getattr(a, "shape", array.shape) != array.shape for a in arrays):
        node.in_shapes = tuple(getattr(a, "shape", None) for a in arrays)
    if watched:
        tell(op.name, args, (out,), params, kernel, start, stop, node)
    return out


def _explain_failure(op: Elementwise, args: tuple[Any, ...], kind: Kind, e: Exception) -> Exception:
    shapes = [tuple(a._a.shape) for a in args if isinstance(a, Tensor)]
    try:
        broadcast_shapes(*shapes, op=op.name)
    except RuntimeError as better:
        return better
    phrase = f'"{op.name}" not implemented for {kind.dtype.name!r}'
    return RuntimeError(text(phrase, op=op.name, came=f"{kind} of shapes {shapes}", needed=str(e)))


def fast_unary(op: Elementwise) -> Callable[..., Any]:
    fast = op.fast

    def function(input: Any, *, out: Tensor | None = None) -> Tensor:
        if observe.observers or out is not None or not isinstance(input, Tensor):
            return into(out, call_map(op, (input,)))
        kind = input._kind
        run = fast.get(kind)
        if run is None or op.out == "float" and kind.dtype.category < 2:
            return call_map(op, (input,))
        x = input._a
        array = run(x)
        y = new(Tensor)
        y._a, y._kind = array, kind.boolean if op.out == "bool" else kind
        if mode.enabled and (input._requires_grad or input._view is not None):
            attach(op, (y,), (input,), (x,), (array,), ())
        return y

    return function


def fast_binary(op: Elementwise) -> Callable[..., Any]:
    fast = op.fast
    floating = op.out == "float"

    def function(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        try:
            kind = input._kind
            if other.__class__ is float or other.__class__ is int:
                b, y = False, other
                if kind.dtype.category < 2:
                    return into(out, call_map(op, (input, other)))
            else:
                if other._kind is not kind:
                    return into(out, call_map(op, (input, other)))
                b, y = other._requires_grad or other._view is not None, other._a
        except AttributeError:
            return into(out, call_map(op, (input, other)))
        run = fast.get(kind)
        if run is None or observe.observers or out is not None or (floating and kind.dtype.category < 2):
            return into(out, call_map(op, (input, other)))
        x = input._a
        try:
            array = run(x, y)
        except (ValueError, TypeError, ZeroDivisionError):
            return call_map(op, (input, other))  # which says what is wrong
        result = new(Tensor)
        result._a, result._kind = array, kind.boolean if op.out == "bool" else kind
        if mode.enabled and (b or input._requires_grad or input._view is not None):
            node = attach(op, (result,), (input, other), (x, y), (array,), ())
            if node is not None:
                shape = array.shape
                if x.shape != shape or getattr(y, "shape", shape) != shape:
                    node.in_shapes = (x.shape, getattr(y, "shape", None))
        return result

    return function


def general_map(op: Elementwise) -> Callable[..., Any]:
    inputs, defaults = op.inputs, op.params
    names = (*inputs, *defaults)
    n = len(inputs)

    def function(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
        if len(args) < len(names) or kwargs:
            given = dict(zip(names, args, strict=False))
            if "input" in kwargs and inputs[0] not in kwargs:
                kwargs[inputs[0]] = kwargs.pop("input")
            unknown = [k for k in kwargs if k not in names or k in given]
            values = {**defaults, **given, **kwargs}
            missing = [k for k in names if k not in values]
            if unknown or missing:
                what = f"unexpected argument {unknown[0]!r}" if unknown else f"missing argument {missing[0]!r}"
                raise TypeError(f"{op.name}(): {what}; it takes ({', '.join(names)})")
            args = tuple(values[k] for k in names)
        elif len(args) > len(names):
            raise TypeError(f"{op.name}() takes ({', '.join(names)}), got {len(args)} arguments")
        return into(out, call_map(op, args[:n], tuple(float(p) for p in args[n:])))

    return function


def public_elementwise(op: Elementwise, *, public: bool, aliases: Sequence[str], example: tuple[str, str] | None,
                       namespace: str) -> Callable[..., Any]:  # fmt: skip
    """The public function of an elementwise op, registered and bound."""
    from .binding import bind, elementwise_doc

    n = len(op.inputs)
    make = general_map if op.params or n > 2 or op.bools else fast_unary if n == 1 else fast_binary
    function = make(op)
    function.__name__ = function.__qualname__ = op.name
    function.__module__ = "core"
    function.__doc__ = elementwise_doc(op, example, namespace)
    function.op = op  # type: ignore[attr-defined]
    bind(function, op.name, aliases, method=public, namespace=namespace if public else None, inplace=public)
    return function


def into(out: Tensor | None, result: Tensor) -> Tensor:
    """Copy a result into ``out=`` where one was given."""
    if out is None:
        return result
    if out.requires_grad or result.requires_grad:
        raise RuntimeError(f"{_outer_name()}(): functions with out=... arguments don't support automatic "
                           "differentiation, but one of the arguments requires grad.")  # fmt: skip
    if out._kind.dtype.category < result._kind.dtype.category:
        raise RuntimeError(f"result type {result._kind.dtype.name} can't be cast to the desired output type "
                           f"{out._kind.dtype.name}")  # fmt: skip
    if out._a.shape != result._a.shape:
        out._a = result._a.astype(out._kind.dtype.numpy)
    else:
        out._a[...] = result._a
    storage_of(out).wrote("out=", None)
    return out


def _outer_name() -> str:
    return sys._getframe(2).f_code.co_name


# -- structured --------------------------------------------------------------------------------------------------------


def call_operation(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Run a structured op: check its rule, pick a row, make the node, tell observers."""
    first = None
    for t in tensors:
        if t is not None:
            if not isinstance(t, Tensor):
                raise TypeError(f"{op.name}(): argument must be Tensor, not {type(t).__name__}")
            first = t if first is None else first
    if first is None:
        raise TypeError(f"{op.name}() needs at least one tensor")
    where = first._kind.device if len(tensors) == 1 else same_device(op.name, tensors)
    arrays = tuple(None if t is None else t._a for t in tensors)
    if op.rule is not None and not op.over:
        op.rule.check(op.name, op.inputs, [None if a is None else a.shape for a in arrays])
    kernel = backends.pick(op.name, where.type, arrays, params) or backends.reference_kernel(op, where.type)
    watched = bool(observe.observers)
    start = perf_counter_ns() if watched else 0
    try:
        results = kernel.run(*arrays, **params)
    except Exception as e:
        if watched:
            tell_failed(op.name, tensors, e)
        raise
    stop = perf_counter_ns() if watched else 0
    if not isinstance(results, tuple):
        results = (results,)
    returned = len(results) if op.returns == 0 else op.returns  # 0: as many as come
    outs = []
    for r in results[:returned]:
        if type(r) is not type(arrays[0]) and not hasattr(r, "strides"):
            r = backends.array_module(where.type).asarray(r)
        elif not r.shape and not isinstance(r, type(first._a)):
            r = backends.array_module(where.type).asarray(r)
        known = first._kind
        out = new(Tensor)
        out._a = r
        out._kind = known if r.dtype == known.dtype.numpy else kind_of(dtypes.from_numpy(r.dtype), where)
        outs.append(out)
    if op.view:
        _mark_views(op, first, outs, params)
    node = (
        attach(op, outs, tensors, arrays, [o._a for o in outs] + list(results[returned:]), params)
        if mode.enabled and outs
        else None
    )
    if watched:
        tell(op.name, tensors, tuple(outs), params, kernel, start, stop, node)
    return outs[0] if op.returns == 1 else tuple(outs)


def _mark_views(op: Operation, x: Tensor, outs: list[Tensor], params: dict[str, Any]) -> None:
    """Views share their base's version counter and know the way from it."""
    storage = storage_of(x)
    base, path = x._view if x._view is not None else (x, ())
    rule = "no_grad" if not mode.enabled else op.name if op.returns != 1 else x._rule
    for j, out in enumerate(outs):

        def step(t: Tensor, j: int = j) -> Tensor:
            y = call_operation(op, (t,), params)
            return y if op.returns == 1 else y[j]

        out._storage, out._view, out._view_version = storage, (base, (*path, step)), storage.version
        if rule:
            out._rule = rule


def callable_operation(op: Operation) -> Callable[..., Any]:
    """The callable of a structured op: `op(*tensors, **params)`."""
    defaults = op.params

    def function(*tensors: Any, **params: Any) -> Any:
        return call_operation(op, tensors, {**defaults, **params} if len(params) < len(defaults) else params)

    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = op.doc
    function.op = op  # type: ignore[attr-defined]
    declarations.functions.setdefault(op.name, function)
    return function


# -- telling -----------------------------------------------------------------------------------------------------------


def places() -> tuple[observe.Place, observe.Place]:
    """The user's place, and the line outside dispatch that called the op (which may be in our own layers)."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    if frame is None:
        return None, None
    inner = (frame.f_code, frame.f_lasti)
    frame = user_frame(frame)
    return (None if frame is None else (frame.f_code, frame.f_lasti)), inner


def tell(op: str, inputs: tuple[Any, ...], outputs: tuple[Tensor, ...], params: Any, kernel: Kernel, start: int,
         stop: int, node: Node | None) -> None:  # fmt: skip
    """Tell every observer that an op ran."""
    place, inner = places()
    event = observe.OpEvent(op, inputs, outputs, params, kernel.name, kernel.backend, start, stop, place, inner, node,
                            observe.phase)  # fmt: skip
    for o in observe.observers:
        o.op(event)


def tell_failed(op: str, inputs: tuple[Any, ...], error: BaseException) -> None:
    """Tell every observer that an op raised."""
    place, _ = places()
    for o in observe.observers:
        o.op_failed(op, inputs, place, error)
