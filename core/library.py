"""`custom_op`: ops of one's own, with a vjp and a shape rule, from Python, a Triton kernel or C text; `opcheck`.

A custom op is an op as those of this package: it has a place in the graph with its line, `explain` and the recorder
know it, and kernels are rows that are tried before the Python text, which remains the reference.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import backends
from .autograd.function import Function
from .base.device import device as Device
from .base.errors import text
from .base.modes import no_grad
from .base.shape import Rule, broadcast_shapes
from .base.signatures import signature as signature_of
from .declare import op as declarations
from .declare.op import Operation
from .dispatch.structured import call_operation
from .tensors.tensor import Tensor, from_array

_early: dict[str, Callable[..., Any]] = {}  # what `register_fake` was given before its op was declared


class CustomOp:
    """An op that a user declared; call it as a function. Made by `custom_op` and `c_op`."""

    def __init__(self, name: str, forward: Callable[..., Any], inputs: Sequence[str], params: dict[str, Any],
                 returns: int, shape: str, vjp: Any, samples: Any,
                 signature: inspect.Signature | None) -> None:  # fmt: skip
        space, colons, short = name.partition("::")
        if not colons or not space.isidentifier() or not short.isidentifier():
            raise ValueError(
                text("expected the name of a custom op to be 'namespace::name'", op="custom_op", came=repr(name),
                     remedy="custom_op('mine::sine')")
            )  # fmt: skip
        self.name, self.signature, self.python = name, signature, forward
        self.fake: Callable[..., Any] | None = _early.pop(name, None)
        self._function: type[Function] | None = None
        self.kernels: dict[str, backends.Row] = {}
        old = declarations.table.get(name)
        if old is not None and not isinstance(getattr(old, "custom", None), CustomOp):
            raise ValueError(f"an op named {name!r} is declared already; choose another name")
        declarations.table.pop(name, None)  # a cell that is run again declares its op anew
        backends.forget(name)
        outputs = ("y",) if returns == 1 else tuple(f"y{k}" for k in range(max(returns, 8)))
        optional = [n + "?" if signature and signature.parameters[n].default is None else n for n in inputs]
        self.op = Operation(name, self._reference, inputs=" ".join(optional), params=dict(params),
                            outputs=" ".join(outputs), returns=returns, shape=shape, over="", vjp=vjp, view=False,
                            samples=samples, doc=inspect.getdoc(forward) or "", label=short)  # fmt: skip
        self.op.custom = self  # type: ignore[attr-defined]
        self.op.holomorphic = False  # its writer says gradients of complex numbers as PyTorch wants them
        functools.update_wrapper(self, forward, updated=())

    # -- calling -------------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors, params = self._bind(args, kwargs)
        if self._function is None:
            return call_operation(self.op, tensors, params)
        return self._function.apply(*tensors, *params.values())

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        names = (*self.op.inputs, *self.op.params)
        if self.signature is not None:
            bound = self.signature.bind(*args, **kwargs)
            bound.apply_defaults()
            values = bound.arguments
        else:
            values = {**self.op.params, **dict(zip(names, args, strict=False)), **kwargs}
        return tuple(values[n] for n in self.op.inputs), {n: values[n] for n in self.op.params}

    def _reference(self, xp: Any, *arrays: Any, **params: Any) -> Any:
        """Return the Python text on arrays, as `Operation.forward` wants it."""
        where = Device("cpu") if xp is np else Device("cuda", 0)  # under the interpreter they are NumPy's all the same
        given = dict(zip(self.op.inputs, (None if a is None else from_array(a, where) for a in arrays), strict=True))
        with no_grad():
            result = self.python(**given, **params)
        return self._arrays(result, arrays)

    def _arrays(self, result: Any, inputs: Sequence[Any]) -> Any:
        many = result if isinstance(result, tuple | list) else (result,)
        if self.op.returns == 1 and len(many) != 1:
            raise RuntimeError(
                text(f"{self.name} returned {len(many)} results", op=self.name, needed="one Tensor",
                     remedy="say so in its annotation: -> tuple[Tensor, Tensor]")
            )  # fmt: skip
        for t in many:
            if not isinstance(t, Tensor):
                raise TypeError(f"{self.name} must return Tensors, got {type(t).__name__}")
            if any(a is not None and np.may_share_memory(a, t._a) for a in inputs if isinstance(a, np.ndarray)):
                raise RuntimeError(
                    text(f"{self.name}: The output of this custom operator (1) must not also be an input to this "
                         "custom operator and (2) may not alias any inputs to this custom operator or other returns.",
                         op=self.name, remedy="return y.clone()")
                )  # fmt: skip
        return many[0]._a if self.op.returns == 1 else tuple(t._a for t in many)

    # -- declaring more ------------------------------------------------------------------------------------------------

    def register_autograd(self, backward: Callable[..., Any], /, *,
                          setup_context: Callable[..., None] | None = None) -> None:  # fmt: skip
        """Give the op a gradient in PyTorch's form: ``setup_context(ctx, inputs, output)``, ``backward(ctx, *grads)``.

        `custom_op(..., vjp=...)` is the shorter way, and says what is saved by itself.
        """
        op, n = self.op, len(self.op.inputs)

        def forward(*args: Any) -> Any:
            return call_operation(op, args[:n], dict(zip(op.params, args[n:], strict=True)))

        def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            if setup_context is not None:
                setup_context(ctx, inputs, output)

        members = {"forward": staticmethod(forward), "setup_context": staticmethod(setup),
                   "backward": staticmethod(backward)}  # fmt: skip
        self._function = type(self.op.label, (Function,), members)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Decorator: a function of the same arguments that gives empty tensors of the results' shapes and dtypes."""
        self.fake = fn
        return fn

    def register_kernel(self, device_types: str | Sequence[str], fn: Callable[..., Any] | None = None, /) -> Any:
        """Decorator: a faster text for "cpu" or "cuda", of the same arguments; the first one stays the reference."""
        if fn is None:
            return lambda f: self.register_kernel(device_types, f)

        for kind in (device_types,) if isinstance(device_types, str) else device_types:
            run = functools.partial(self._on_tensors, fn, Device(kind, 0) if kind == "cuda" else Device(kind))
            self._add(kind, backends.Row(fn.__name__, "Python", run, lambda *arrays, **params: None))
        return fn

    def _on_tensors(self, fn: Callable[..., Any], where: Device, *arrays: Any, **params: Any) -> Any:
        tensors = (None if a is None else from_array(a, where) for a in arrays)
        with no_grad():
            result = fn(**dict(zip(self.op.inputs, tensors, strict=True)), **params)
        return self._arrays(result, arrays)

    def register_triton(self, launch: Callable[..., None], /) -> Callable[..., None]:
        """Decorator: a function that launches a Triton kernel on "cuda": it gets pointers to the inputs and to outputs
        of the shapes the rule says (``p.array`` is the array behind each), then the parameters by name."""

        def run(*arrays: Any, **params: Any) -> Any:
            from triton_kernels.runtime import Pointer

            xp = backends.array_module("cuda")
            kept = [None if a is None else xp.ascontiguousarray(a) for a in arrays]
            outs, _ = self._outputs(xp, kept)
            launch(*(None if a is None else Pointer(a) for a in kept), *map(Pointer, outs), **params)
            return outs[0] if self.op.returns == 1 else tuple(outs)

        self._add("cuda", backends.Row(launch.__name__, "Triton", run, lambda *arrays, **params: None))
        return launch

    def register_c(self, source: str, function: str = "") -> None:
        """A kernel for "cpu" from C text; see `c_op` for its form. It is compiled when it is first called."""
        from .declare.compile_c import CKernel  # it brings subprocess and its kin

        kernel = CKernel(source, function or self.op.label)

        def fill(inputs: list[Any], outputs: list[Any], sizes: list[int], params: dict[str, Any]) -> None:
            kernel(inputs, outputs, sizes, tuple(map(float, params.values())))

        self.register_out("cpu", "C", f"{kernel.function}_c", fill, lambda *a, **p: kernel.declines(*a))

    def register_out(self, device_type: str, backend: str, name: str, fill: Callable[..., None],
                     declines: Callable[..., str | None] = lambda *arrays, **params: None) -> None:  # fmt: skip
        """A kernel that fills outputs of the shapes the rule says: ``fill(inputs, outputs, sizes, params)``.

        Inputs are arrays of the device's library, their leading dimensions broadcast to the outputs' (all of them,
        where there is no rule); None stands for an optional one. ``sizes[0]`` counts the stacked problems, or the
        elements without a rule, and the rule's letters follow in the order they first appear.

        backend, name : what `explain` and the recorder say of it. declines : why it does not take these arrays.
        """

        def run(*arrays: Any, **params: Any) -> Any:
            xp = backends.array_module(device_type)
            outs, sizes = self._outputs(xp, arrays)
            shape = outs[0].shape
            if self.op.rule is None:
                given = [None if a is None else xp.broadcast_to(a, shape) for a in arrays]
            else:
                given = [None if a is None else self._whole(xp, a, k, shape) for k, a in enumerate(arrays)]
            fill(given, outs, sizes, params)
            return outs[0] if self.op.returns == 1 else tuple(outs)

        self._add(device_type, backends.Row(name, backend, run, declines))

    def _add(self, device_type: str, row: backends.Row) -> None:
        self.kernels[f"{device_type} {row.backend} {row.name}"] = row
        backends.register(self.op.name, device_type, row)

    def _lead(self, rule: Rule, arrays: Sequence[Any]) -> tuple[int, ...]:
        shapes = [a.shape[: a.ndim - len(d)] for a, d in zip(arrays, rule.inputs, strict=True) if a is not None]
        return broadcast_shapes(*shapes, op=self.name)

    def _whole(self, xp: Any, a: Any, k: int, out_shape: tuple[int, ...]) -> Any:
        """Return an input with its leading dimensions broadcast."""
        rule = self.op.rule
        assert rule is not None
        lead = out_shape[: len(out_shape) - len(rule.outputs[0])]
        return xp.broadcast_to(a, (*lead, *a.shape[a.ndim - len(rule.inputs[k]) :]))

    def _outputs(self, xp: Any, arrays: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """Empty outputs as the shape rule says, and the sizes a kernel is told."""
        first, rule = next(a for a in arrays if a is not None), self.op.rule
        if rule is None:
            shape = broadcast_shapes(*(a.shape for a in arrays if a is not None), op=self.name)
            return [xp.empty(shape, first.dtype) for _ in range(max(self.op.returns, 1))], [int(np.prod(shape))]
        sizes = rule.check(self.name, self.op.inputs, [None if a is None else a.shape for a in arrays])
        lead = self._lead(rule, arrays)
        letters = dict.fromkeys(d for dims in rule.inputs for d in dims if not d.isdigit())
        outs = [xp.empty((*lead, *(int(d) if d.isdigit() else sizes[d] for d in dims)), first.dtype)
                for dims in rule.outputs]  # fmt: skip
        return outs, [int(np.prod(lead)), *(sizes[d] for d in letters)]

    def __repr__(self) -> str:
        return f"<CustomOp {self.name}({', '.join((*self.op.inputs, *self.op.params))})>"


def custom_op(name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: Any = (), device_types: Any = None,
              schema: str | None = None, shape: str = "", vjp: Any = None, samples: Any = None) -> Any:  # fmt: skip
    """Decorator: make an op of a function of tensors. To autograd it is one op.

    name : ``"namespace::name"``. A second declaration of the same name takes the place of the first.
    fn : arguments annotated as Tensor (or without an annotation and a default) are inputs, the others parameters; with
        ``-> tuple[...]`` it gives several results. It is the reference, which kernels are checked against.
    mutates_args : only ``()``: ops that change their arguments are not supported.
    shape : a rule such as ``"(m,k),(k,n)->(m,n)"``; without one the inputs broadcast and the output has their shape.
    vjp : one function, or one an input. It asks for what it needs by name: ``g``, inputs, the output ``y`` (``y0``,
        ``y1`` of several), parameters, ``x_shape``; only that is saved. `register_autograd` is PyTorch's form of it.
    samples : ``rng -> [((arrays...), {params}), ...]`` for `opcheck`.

    *Raises*: ValueError for a name without namespace; NotImplementedError for `mutates_args`.

    >>> import core
    >>> @core.library.custom_op("mine::cube", vjp=lambda g, x: 3 * g * x * x)
    ... def cube(x: core.Tensor) -> core.Tensor:
    ...     return x * x * x
    >>> x = core.tensor([2.0], requires_grad=True)
    >>> cube(x).backward()
    >>> x.grad
    tensor([12.])
    """
    if fn is None:
        return lambda f: custom_op(name, f, mutates_args=mutates_args, device_types=device_types, schema=schema,
                                   shape=shape, vjp=vjp, samples=samples)  # fmt: skip
    if mutates_args:
        raise NotImplementedError(
            text("custom ops that change their arguments are not supported", op="custom_op",
                 came=f"mutates_args={mutates_args!r}", remedy="return the new value")
        )  # fmt: skip
    signature = signature_of(fn)
    inputs, params = [], {}
    for p in signature.parameters.values():
        note = p.annotation if isinstance(p.annotation, str) else getattr(p.annotation, "__name__", str(p.annotation))
        known = p.annotation is not p.empty
        if "Tensor" in note or (not known and (p.default is p.empty or p.default is None)):
            inputs.append(p.name)
        else:
            params[p.name] = None if p.default is p.empty else p.default
    given = signature.return_annotation
    several = "tuple" in str(given).lower() or "list" in str(given).lower()
    return CustomOp(name, fn, inputs, params, 0 if several else 1, shape, vjp, samples, signature)


def c_op(name: str, source: str, *, inputs: str = "x", params: dict[str, float] | None = None, shape: str = "",
         vjp: Any = None, samples: Any = None, function: str = "") -> CustomOp:  # fmt: skip
    """Return an op of C text, compiled by the system's compiler when it is first called and kept in the user's cache.

    source : holds ``void name(const real *x, ..., real *y, const int64_t *sizes, double parameter, ...)``. `real` is
        float or double. Without a `shape` rule arrays are flat and ``sizes[0]`` is their length; with one ``sizes[0]``
        counts the stacked problems and the rule's letters follow in the order they first appear.
    inputs, params : names; numbers with their defaults.
    shape, vjp, samples : as in `custom_op`.

    *Raises*: RuntimeError where there is no compiler, or the text does not compile; TypeError for other dtypes than
    float32 and float64.

    >>> import core
    >>> double = core.library.c_op("mine::twice", '''
    ... void twice(const real *x, real *y, const int64_t *sizes) {
    ...     for (int64_t i = 0; i < sizes[0]; i++) y[i] = 2 * x[i];
    ... }''', vjp=lambda g: 2 * g)
    >>> double(core.tensor([1.0, 2.5]))
    tensor([2., 5.])
    """

    def refuse(**given: Any) -> Any:
        came = ", ".join(str(t.dtype) for t in given.values() if isinstance(t, Tensor))
        raise TypeError(text(f"{name} takes float32 and float64", op=name, came=came, remedy="x.float()"))

    refuse.__doc__ = f"{name}, from C text."
    op = CustomOp(name, refuse, inputs.replace("?", "").split(), dict(params or {}), 1, shape, vjp, samples, None)
    op.register_c(source, function)
    return op


# PyTorch's module has these beside custom_op; here they take the op itself or its name.


def _named(op: Any) -> CustomOp:
    found = op if isinstance(op, CustomOp) else getattr(declarations.table.get(op), "custom", None)
    if found is None:
        raise RuntimeError(f"no custom op named {op!r}; known: "
                           f"{', '.join(n for n in declarations.table if '::' in n) or 'none'}")  # fmt: skip
    return found


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None) -> None:
    """As `CustomOp.register_autograd`, for an op or its name."""
    _named(op).register_autograd(backward, setup_context=setup_context)


def register_kernel(op: Any, device_types: Any, func: Any = None, /) -> Any:
    """As `CustomOp.register_kernel`, for an op or its name."""
    return _named(op).register_kernel(device_types, func)


def register_fake(op: Any, func: Any = None, /) -> Any:
    """As `CustomOp.register_fake`, for an op or its name; of a name that is not declared, for when it will be."""
    if isinstance(op, str) and op not in declarations.table:
        return functools.partial(register_fake, op) if func is None else _early.setdefault(op, func)
    return _named(op).register_fake if func is None else _named(op).register_fake(func)


impl_abstract = register_fake  # PyTorch's older name


from .autograd.opcheck import opcheck  # noqa: E402 - it is written on what stands above
from .defined_ops import Library, define, impl, triton_op, wrap_triton  # noqa: E402

__all__ = ["CustomOp", "Library", "c_op", "custom_op", "define", "impl", "opcheck", "register_autograd",
           "register_fake", "register_kernel", "triton_op", "wrap_triton"]  # fmt: skip
