"""Running elementwise ops: the C path where it serves, else the general way, and their public functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from .. import backends, native
from ..backends import Kernel
from ..base.device import Kind
from ..base.errors import text
from ..base.modes import state as mode
from ..base.shape import broadcast_shapes
from ..declare import op as declarations
from ..declare.kinds import Operand
from ..declare.op import Elementwise
from ..declare.signature import of_elementwise, public_name, shown, spellings_among
from ..events import observe
from ..tensors.tensor import Tensor
from . import of_values, sparse
from .emit import dispatch_files, emit_failed, emit_op, emit_starting
from .operands import need_tensors, promote
from .out import into
from .publish import bind, elementwise_doc
from .record import record_node
from .structured import no_arithmetic

new = Tensor.__new__
dispatch_files.add(__file__)


def kernel_for(op: Elementwise, kind: Kind) -> Kernel:
    """Return the kernel of an elementwise op for arrays of `kind`."""
    found: Kernel | None = op.kernels.get(kind)
    if found is None:
        if kind.dtype.moved and op.label not in ("eq", "ne", "mul", "abs", "where", "isnan"):
            raise no_arithmetic(op.label, kind.dtype)
        found = op.kernels[kind] = backends.map_kernel(op.program, kind)
        if _computes_as_is(op, kind):
            op.c_kernels[kind] = getattr(found.run, "quick", found.run)  # what that does not take comes here
    return found


def _computes_as_is(op: Elementwise, kind: Kind) -> bool:
    """Return whether operands that are all of `kind` are computed as they are, so that the C path may do it."""
    if len(op.bools) == len(op.inputs):
        return kind.dtype.category == 0
    if kind.dtype.category == 2:
        return True
    promoted = op.out == "float" or (op.out == "number" and kind.dtype.category == 0)
    return kind.dtype.category < 2 and kind.device.type == "cpu" and not promoted


def call_map(op: Elementwise, args: tuple[Any, ...], params: tuple[float, ...] = ()) -> Tensor:
    """Run an elementwise op: the general way, with promotion and observers."""
    if mode.batch is not None and (found := mode.batch.map(op, args, params)) is not NotImplemented:
        return found  # type: ignore[no-any-return]
    if of_values.seen and (found := sparse.call_map(op, args, params)) is not NotImplemented:
        return found  # type: ignore[no-any-return]
    if not observe.observers:
        return run_map(op, args, params, False)
    try:
        return run_map(op, args, params, True)
    except Exception as e:
        emit_failed(op, args, e)
        raise


def run_map(
    op: Elementwise, args: tuple[Any, ...], params: tuple[float, ...], watched: bool, given: Any = None
) -> Tensor:
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
        emit_starting(op, args, params)
    start = perf_counter_ns() if watched else 0
    try:
        array = kernel.run(*arrays, *params) if given is None else given
    except (ValueError, TypeError, ZeroDivisionError) as e:
        raise _explain_failure(op, args, kind, e) from None
    stop = perf_counter_ns() if watched else 0
    out = new(Tensor)
    out._a, out._kind = array, kind.boolean if op.program.is_bool else kind
    node = record_node(op, (out,), args, arrays, (array,), params) if mode.enabled else None
    if node is not None and any(getattr(a, "shape", array.shape) != array.shape for a in arrays):
        node.in_shapes = tuple([getattr(a, "shape", None) for a in arrays])
    if watched:
        if kind.device.index is not None:
            kernel = backends.as_observed(kernel, kind.device)
        emit_op(op, args, (out,), params, kernel, start, stop, node)
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
    """Return the public function of an op of one tensor: the C path where it serves, else the general way."""
    fast = fast_path(op, ("input",))

    def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        result = fast(input) if out is None else None
        return into(out, call_map(op, (input,)), op.label) if result is None else result

    function.elementwise_call = fast  # type: ignore[attr-defined] # core.dispatch.autocast.public_function asks it first
    return function


def binary_map(op: Elementwise) -> Callable[..., Any]:
    """Return the public function of an op of two operands: the C path where it serves, else the general way."""
    fast = fast_path(op, ("input", "other"))

    def function(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
        result = fast(input, other) if out is None else None
        if result is None and op.tensors:
            need_tensors(op.label, op.tensors, (input, other))
        return into(out, call_map(op, (input, other)), op.label) if result is None else result

    function.elementwise_call = fast  # type: ignore[attr-defined] # core.dispatch.autocast.public_function asks it first
    return function


def with_numbers(function: Any) -> Callable[..., Tensor]:
    """Return the public function of an op of two operands that may not be numbers, for ops in which they may."""
    op = function.op
    fast = fast_path(op, ("input", "other"), numbers=True)

    def either(input: Any, other: Any) -> Tensor:
        result = fast(input, other)
        return call_map(op, (input, other)) if result is None else result

    return either


def fast_path(op: Elementwise, names: Sequence[str] = (), *, numbers: bool = False) -> Callable[..., Tensor | None]:
    """Return the op's C path (native/binding/graph/elementwise_call.c), which gives None for what is not for it; always
    None without C.

    `names` are those of the arguments, the op's own where they are left out; `numbers` lets any of them be a number."""
    if native.module is None:
        return lambda *operands: None
    names = tuple([sys.intern(n) for n in names or (*op.inputs, *op.params)])
    defaults = tuple([float(p) for p in op.params.values()])
    bools = sum([1 << op.inputs.index(n) for n in op.bools])
    tensors = 0 if numbers else (1 << len(op.tensors)) - 1
    return native.module.ElementwiseCall(
        op, op.c_kernels, op.layout, op.recorded, op.out == "bool", names, defaults, bools, tensors
    )  # type: ignore[no-any-return]


def general_map(op: Elementwise) -> Callable[..., Any]:
    inputs, defaults = op.inputs, op.params
    names = (*inputs, *defaults)
    n = len(inputs)
    own = {public_name(k): k for k in inputs}
    own.update({s: own[n] for s, n in spellings_among(tuple(own), op.label).items() if s not in names})
    fast = fast_path(op)

    def function(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
        if out is None and not kwargs and (result := fast(*args)) is not None:
            return result
        if len(args) > len(names):
            raise TypeError(f"{op.label}() takes ({', '.join(map(public_name, names))}), got {len(args)} arguments")
        if len(args) < len(names) or kwargs:
            given = dict(zip(names, args, strict=False))
            meant = [own.get(k, k) for k in kwargs]
            twice = [k for k in meant if meant.count(k) > 1]
            kwargs = {own.get(k, k): v for k, v in kwargs.items()}
            unknown = twice or [k for k in kwargs if k not in names or k in given]
            values = {**defaults, **given, **kwargs}
            missing = [k for k in names if k not in values]
            if unknown or missing:
                what = "unexpected" if unknown else "missing"
                raise TypeError(f"{op.label}(): {what} argument {public_name((unknown or missing)[0])!r}; it takes "
                                f"({', '.join(map(public_name, names))})")  # fmt: skip
            args = tuple([values[k] for k in names])
        if op.tensors:
            need_tensors(op.label, op.tensors, args)
        return into(out, call_map(op, args[:n], tuple([float(p) for p in args[n:]])), op.label)

    function.elementwise_call = fast  # type: ignore[attr-defined] # core.dispatch.autocast.public_function asks it first
    function.__signature__ = shown(of_elementwise(op), "Tensor")  # type: ignore[attr-defined]
    return function


def public_elementwise(op: Elementwise, *, public: bool, aliases: Sequence[str], example: tuple[str, str] | None,
                       namespace: str) -> Callable[..., Any]:  # fmt: skip
    """Return the public function of an elementwise op, registered and bound."""
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
