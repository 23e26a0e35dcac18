"""Dispatch: picks the kernel, runs it, makes the node, tells whoever observes."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from .. import backends, native
from ..backends import Kernel, errstate
from ..backends.sum_to import sum_to
from ..base import dtypes
from ..base.device import Kind, cpu, device
from ..base.device import kind as kind_of
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.modes import state as mode
from ..base.shape import broadcast_shapes
from ..base.source import here, ours, user_frame
from ..declare import op as declarations
from ..declare.op import Elementwise, Operation
from ..events import observe
from ..graph.node import Node, Storage
from ..graph.versions import refresh, storage_of
from ..tensors.tensor import Tensor, from_array, wrap
from . import saved_tensor_hooks
from .emit import machinery, tell, tell_failed, tell_starting
from .record import attach

new = Tensor.__new__
machinery.add(__file__)


# -- elementwise -------------------------------------------------------------------------------------------------------


def kernel_for(op: Elementwise, kind: Kind) -> Kernel:
    """The kernel of an elementwise op for arrays of `kind`."""
    found: Kernel | None = op.kernels.get(kind)
    if found is None:
        found = op.kernels[kind] = backends.map_kernel(op.program, kind)
        if _is_hot(op, kind):
            op.hot[kind] = getattr(found.run, "quick", found.run)  # what that does not take comes here
    return found


def _is_hot(op: Elementwise, kind: Kind) -> bool:
    """Whether operands that are all of `kind` are computed as they are, so that the C path may do it."""
    if len(op.bools) == len(op.inputs):
        return kind.dtype.category == 0
    if kind.dtype.category == 2:
        return True
    promoted = op.out == "float" or (op.out == "number" and kind.dtype.category == 0)
    return kind.dtype.category < 2 and kind.device.type == "cpu" and not promoted


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
                    )
                )
    assert found is not None
    return found._kind.device


def _operand(a: Any) -> Tensor:
    """A NumPy array among the operands, in its own memory; its origin is not lost."""
    from ..events.lineage import note

    t = from_array(a.view(np.ndarray))
    note(t, a)
    return t


def _public(name: str) -> str:
    """What users call an input that a formula calls x, a or b: PyTorch's names."""
    return {"x": "input", "a": "input", "b": "other"}.get(name, name)


def promote(op: Elementwise, args: tuple[Any, ...]) -> tuple[Kind, tuple[Any, ...]]:
    """Bring the inputs of an elementwise op to one kind by PyTorch's rules, through differentiable casts."""
    args = tuple([_operand(a) if isinstance(a, np.ndarray) else a for a in args])
    if not any(isinstance(a, Tensor) for a in args):
        came = ", ".join(type(a).__name__ for a in args)
        raise TypeError(f"{op.label}(): argument must be Tensor, not {came}\n  remedy: core.tensor(value)")
    where = same_device(op.label, args)
    dimmed: list[Dtype] = []
    zero: list[Dtype] = []
    numbers: list[Dtype] = []
    for k, (name, a) in enumerate(zip(op.inputs, args, strict=True)):
        if name in op.bools:
            continue
        if isinstance(a, Tensor):
            (dimmed if a._a.ndim else zero).append(a._kind.dtype)
        elif isinstance(a, complex) or _number(a) is not None:
            numbers.append(dtypes.of_number(a))
        else:
            raise TypeError(
                text(
                    f"{op.label}(): argument {_public(name)!r} (position {k + 1}) must be Tensor or Number, not "
                    f"{type(a).__name__}",
                    op=op.label,
                )
            )
    found = dtypes.result_type(dimmed, zero, numbers) if dimmed or zero or numbers else dtypes.bool_
    if op.out == "float" and found.category < 2:
        found = dtypes.get_default_dtype()
    elif op.out == "number" and found.category == 0:
        found = dtypes.int64
    kind = kind_of(found, where)
    out: list[Any] = []
    for name, a in zip(op.inputs, args, strict=True):
        if name in op.bools:
            if not isinstance(a, Tensor):
                a = wrap(backends.array_module(where.type).asarray(bool(a)), kind.boolean)
            elif a._kind is not kind.boolean:
                a = convert(a, kind_of(a._kind.dtype, where)) != 0
        elif isinstance(a, Tensor):
            a = a if a._kind is kind else _promoted(a, kind)
        else:
            a = a if isinstance(a, complex) else _number(a)
        out.append(a)
    return kind, tuple(out)


def _promoted(t: Tensor, kind: Kind) -> Tensor:
    """An operand as its op's kind. A write to `t` is one to what the op saves of it, as where nothing is converted."""
    out = convert(t, kind)
    if mode.enabled:
        out._storage = storage_of(t)
    return out


def convert(t: Tensor, kind: Kind) -> Tensor:
    """`t` as another kind, on the graph."""
    return t if t._kind is kind else declarations.functions["to"](t, kind)


def call_map(op: Elementwise, args: tuple[Any, ...], params: tuple[float, ...] = ()) -> Tensor:
    """Run an elementwise op: the general way, with promotion and observers."""
    if mode.batch is not None and (found := mode.batch.map(op, args, params)) is not NotImplemented:
        return found  # type: ignore[no-any-return]
    if not observe.observers:
        return _map(op, args, params, False)
    try:
        return _map(op, args, params, True)
    except Exception as e:
        tell_failed(op, args, e)
        raise


def _map(op: Elementwise, args: tuple[Any, ...], params: tuple[float, ...], watched: bool, given: Any = None) -> Tensor:
    """Run an elementwise op; `given` is its result where that is there already."""
    kind, args = promote(op, args)
    if kind.dtype.category == 3 and op.complex_form is not op:
        if op.complex_form is not None:
            return op.complex_form(*args, *params)
        raise NotImplementedError(
            text(f'"{op.label}_cpu" not implemented for {kind.dtype.scalar_type!r}', op=op.label, came=str(kind.dtype),
                 needed="real numbers", remedy="x.abs(), x.real or x.imag")
        )  # fmt: skip
    arrays = tuple([a._a if isinstance(a, Tensor) else a for a in args])
    kernel = kernel_for(op, kind)
    if watched:
        tell_starting(op, args, params)
    start = perf_counter_ns() if watched else 0
    try:
        array = kernel.run(*arrays, *params) if given is None else given
    except (ValueError, TypeError, ZeroDivisionError) as e:
        raise _explain_failure(op, args, kind, e) from None
    stop = perf_counter_ns() if watched else 0
    out = new(Tensor)
    out._a, out._kind = array, kind.boolean if op.program.is_bool else kind
    node = attach(op, (out,), args, arrays, (array,), params) if mode.enabled else None
    if node is not None and any(getattr(a, "shape", array.shape) != array.shape for a in arrays):
        node.in_shapes = tuple([getattr(a, "shape", None) for a in arrays])
    if watched:
        if kind.device.index is not None:
            kernel = backends.as_ran(kernel)
        tell(op, args, (out,), params, kernel, start, stop, node)
    return out


def _explain_failure(op: Elementwise, args: tuple[Any, ...], kind: Kind, e: Exception) -> Exception:
    shapes = [tuple(a._a.shape) for a in args if isinstance(a, Tensor)]
    if isinstance(e, ZeroDivisionError):
        return RuntimeError(text("ZeroDivisionError", op=op.label, came=f"{kind.dtype} divided by 0",
                                 needed="a divisor without zeros",
                                 remedy="x.float(), or core.where(d == 0, 1, d)"))  # fmt: skip
    try:
        broadcast_shapes(*shapes, op=op.label)
    except RuntimeError as better:
        return better
    phrase = f'"{op.label}" not implemented for {kind.dtype.scalar_type!r}'
    return RuntimeError(text(phrase, op=op.label, came=f"{kind} of shapes {shapes}", needed=str(e)))


def unary_map(op: Elementwise) -> Callable[..., Any]:
    """The public function of an op of one tensor: the C path where it serves, else the general way."""
    hot = hot_path(op, ("input",))

    def function(input: Any, *, out: Tensor | None = None) -> Tensor:
        result = hot(input) if out is None else None
        return into(out, call_map(op, (input,)), op.label) if result is None else result

    function.hot = hot  # type: ignore[attr-defined] # core.dispatch.autocast.face asks it first
    return function


def binary_map(op: Elementwise) -> Callable[..., Any]:
    """The public function of an op of two operands: the C path where it serves, else the general way."""
    hot = hot_path(op, ("input", "other"))

    def function(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        result = hot(input, other) if out is None else None
        if result is None and op.tensors:
            need_tensors(op.label, op.tensors, (input, other))
        return into(out, call_map(op, (input, other)), op.label) if result is None else result

    function.hot = hot  # type: ignore[attr-defined] # core.dispatch.autocast.face asks it first
    return function


def with_numbers(function: Any) -> Callable[..., Tensor]:
    """The public function of an op of two operands that may not be numbers, for ops in which they may."""
    op = function.op
    hot = hot_path(op, ("input", "other"), numbers=True)

    def either(input: Any, other: Any) -> Tensor:
        result = hot(input, other)
        return call_map(op, (input, other)) if result is None else result

    return either


def hot_path(op: Elementwise, names: Sequence[str] = (), *, numbers: bool = False) -> Callable[..., Tensor | None]:
    """The op's C path (native/module_hot.c), which gives None for what is not for it; always None without C.

    `names` are those of the arguments, the op's own where they are left out; `numbers` lets any of them be a number."""
    if native.module is None:
        return lambda *operands: None
    names = tuple([sys.intern(n) for n in names or (*op.inputs, *op.params)])
    defaults = tuple([float(p) for p in op.params.values()])
    bools = sum([1 << op.inputs.index(n) for n in op.bools])
    tensors = 0 if numbers else (1 << len(op.tensors)) - 1
    return native.module.Hot(op, op.hot, op.layout, op.recorded, op.out == "bool", names, defaults, bools, tensors)  # type: ignore[no-any-return]


def need_tensors(op: str, names: Sequence[str], args: Sequence[Any]) -> None:
    """TypeError where one of the first arguments, which `names` tells, is no tensor."""
    for k, name in enumerate(names):
        if not isinstance(args[k], Tensor):
            raise TypeError(
                text(f"{op}(): argument {name!r} (position {k + 1}) must be Tensor, not {type(args[k]).__name__}",
                     op=op, came=repr(args[k])[:80], needed="a tensor", remedy=f"core.tensor({name})")
            )  # fmt: skip


def general_map(op: Elementwise) -> Callable[..., Any]:
    inputs, defaults = op.inputs, op.params
    names = (*inputs, *defaults)
    n = len(inputs)
    own = {_public(k): k for k in inputs}
    hot = hot_path(op)

    def function(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
        if out is None and not kwargs and (result := hot(*args)) is not None:
            return result
        if len(args) > len(names):
            raise TypeError(f"{op.label}() takes ({', '.join(map(_public, names))}), got {len(args)} arguments")
        if len(args) < len(names) or kwargs:
            given = dict(zip(names, args, strict=False))
            kwargs = {own.get(k, k): v for k, v in kwargs.items()}
            unknown = [k for k in kwargs if k not in names or k in given]
            values = {**defaults, **given, **kwargs}
            missing = [k for k in names if k not in values]
            if unknown or missing:
                what = "unexpected" if unknown else "missing"
                raise TypeError(f"{op.label}(): {what} argument {_public((unknown or missing)[0])!r}; it takes "
                                f"({', '.join(map(_public, names))})")  # fmt: skip
            args = tuple([values[k] for k in names])
        if op.tensors:
            need_tensors(op.label, op.tensors, args)
        return into(out, call_map(op, args[:n], tuple([float(p) for p in args[n:]])), op.label)

    function.hot = hot  # type: ignore[attr-defined] # core.dispatch.autocast.face asks it first
    return function


def public_elementwise(op: Elementwise, *, public: bool, aliases: Sequence[str], example: tuple[str, str] | None,
                       namespace: str) -> Callable[..., Any]:  # fmt: skip
    """The public function of an elementwise op, registered and bound."""
    from .publish import bind, elementwise_doc

    n = len(op.inputs)
    make = general_map if op.params or n > 2 else unary_map if n == 1 else binary_map
    function = make(op)
    function.__name__ = function.__qualname__ = op.name
    function.__module__ = "core"
    function.__doc__ = elementwise_doc(op, example, namespace)
    function.op = op  # type: ignore[attr-defined]
    if op.tensors:
        declarations.numbered[op.name] = with_numbers(function)
    return bind(function, op.name, aliases, method=public, namespace=namespace if public else None, inplace=public)


def into(out: Tensor | None, result: Tensor, name: str = "") -> Tensor:
    """Copy a result into ``out=`` where one was given. `name` is the op's; left out, the calling function's."""
    if out is None:
        return result
    name = name or sys._getframe(1).f_code.co_name
    if mode.enabled and (out.requires_grad or result.requires_grad):
        raise RuntimeError(
            text(f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
                 "arguments requires grad.", op=name, remedy="leave out= away, or do it under core.no_grad()")
        )  # fmt: skip
    have, want = result._kind.dtype, out._kind.dtype
    if want.category < have.category:
        raise RuntimeError(
            text(f"result type {have.scalar_type} can't be cast to the desired output type {want.scalar_type}", op=name,
                 came=f"out= of {want}", needed=f"{have} or higher")
        )  # fmt: skip
    if out._a.shape != result._a.shape:
        if out._a.size:
            warnings.warn(
                f"An output with one or more elements was resized since it had shape {list(out._a.shape)}, which does "
                f"not match the required output shape {list(result._a.shape)}. This behavior is deprecated, and in a "
                "future PyTorch release outputs will not be resized unless they have zero elements.",
                stacklevel=2,
            )
        out._a = result._a.astype(want.numpy)
    elif (
        out._a.size > 1
        and 0 in out._a.strides
        and any(s == 0 and n > 1 for s, n in zip(out._a.strides, out._a.shape, strict=True))
    ):
        raise RuntimeError(
            text("unsupported operation: more than one element of the written-to tensor refers to a single memory "
                 "location. Please clone() the tensor before performing the operation.", op=name,
                 came=f"an expanded tensor of shape {tuple(out._a.shape)}", remedy="clone() it first")
        )  # fmt: skip
    else:
        out._a[...] = result._a
    storage_of(out).wrote(f"{name}(out=)", here(2))
    return out


# -- structured --------------------------------------------------------------------------------------------------------


def call_operation(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Run a structured op: check its rule, pick a row, make the node, tell observers."""
    if mode.batch is not None and (found := mode.batch.operation(op, tensors, params)) is not NotImplemented:
        return found
    if not observe.observers:
        return _operate(op, tensors, params, False)
    try:
        return _operate(op, tensors, params, True)
    except Exception as e:
        tell_failed(op, tensors, e)
        raise


def _operate(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], watched: bool, given: Any = None) -> Any:
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
    arrays = tuple([None if t is None else t._a for t in tensors])
    if op.rule is not None and not op.over:
        op.rule.check(op.label, op.inputs, [None if a is None else a.shape for a in arrays])
    kernel = backends.pick(op.name, where.type, arrays, params) or backends.reference_kernel(op, where.type)
    if watched:
        tell_starting(op, tensors, params)
    start = perf_counter_ns() if watched else 0
    run = kernel.run if where.index is None else backends.there(kernel.run, where)
    results = run(*arrays, **params) if given is None else given
    stop = perf_counter_ns() if watched else 0
    if not isinstance(results, tuple):
        results = (results,)
    returned = len(results) if op.returns == 0 else op.returns  # 0: as many as come
    outs, out_arrays, known = [], list(results), first._kind
    for j, r in enumerate(results[:returned]):
        if not hasattr(r, "strides") or isinstance(r, np.generic):  # a number instead of a 0-d array
            r = out_arrays[j] = backends.array_module(where.type).asarray(r)
        out = new(Tensor)
        out._a = r
        out._kind = known if r.dtype == known.dtype.numpy else kind_of(dtypes.from_numpy(r.dtype), where)
        outs.append(out)
    if op.view:
        _mark_views(op, first, outs, params)
    node = attach(op, outs, tensors, arrays, out_arrays, params) if mode.enabled and outs else None
    if watched:
        if where.index is not None:
            kernel = backends.as_ran(kernel)
        tell(op, tensors, tuple(outs), params, kernel, start, stop, node)
    return outs[0] if op.returns == 1 else tuple(outs)


def _mark_views(op: Operation, x: Tensor, outs: list[Tensor], params: dict[str, Any]) -> None:
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
    """The callable of a structured op: `op(*tensors, **params)`."""
    defaults = op.params

    def general(*tensors: Any, **params: Any) -> Any:
        return call_operation(op, tensors, {**defaults, **params} if len(params) < len(defaults) else params)

    function: Any = general
    if native.module is not None and op.view and op.returns != 1:
        native.module.know_views(general, op, op.name, tuple(defaults), tuple(defaults.values()))
    elif native.module is not None:  # native/module_operate.c
        function = native.module.Structured(op, op.name, general, tuple(defaults), tuple(defaults.values()),
                                            op.forward if op.view else None if errstate.variable else _reference(op),
                                            op.rule_codes(), op.view, op.recorded, op.variadic, op.returns)  # fmt: skip
    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = op.doc
    function.op = op  # type: ignore[attr-defined]
    declarations.functions.setdefault(op.name, function)
    declarations.structured[op.name] = function
    return function


def _kind_named(numpy: Any) -> Kind:
    return kind_of(dtypes.from_numpy(numpy), cpu)


def _reference(op: Operation) -> Callable[..., Any]:
    """The op's reference on the CPU, looked up when it is first wanted: the backends are not there yet."""
    run: Callable[..., Any] | None = None

    def reference(*arrays: Any, **params: Any) -> Any:
        nonlocal run
        if run is None:
            run = backends.reference_kernel(op, "cpu").run
        return run(*arrays, **params)

    return reference


if native.module is not None:
    native.module.connect(
        tensor_type=Tensor, node_type=Node, observe=vars(observe), saving=vars(saved_tensor_hooks), mode=mode,
        ours=ours, user_frame=user_frame, refresh=refresh, storage_of=storage_of, storage_type=Storage, cpu=cpu,
        rows=backends.rows, operate=_operate, mark_views=_mark_views, numpy=np,
        add_float=native.module.maps.get(("add", "f")), add_double=native.module.maps.get(("add", "d")),
        sum_to=sum_to,
    )  # fmt: skip
    native.module.lend_results(_kind_named)
