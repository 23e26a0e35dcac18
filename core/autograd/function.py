"""`Function`: an op with a gradient of one's own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from ..backends import Kernel
from ..base.errors import text
from ..base.modes import state as mode
from ..base.signatures import signature
from ..base.source import user_frame
from ..declare.op import Slot
from ..dispatch import saved_tensor_hooks
from ..dispatch.emit import dispatch_files, emit_failed, emit_op
from ..dispatch.inplace import leaf_check, rewritten
from ..events import observe
from ..graph.node import Node
from ..graph.versions import edge, storage_of
from ..tensors.tensor import Tensor, wrap
from .vjp import sum_to, zeros

dispatch_files.add(__file__)


class Context(Node):
    """What `forward` leaves for `backward`; it is the node itself."""

    unpacks_itself = True  # one saved tensor after the other, when `saved_tensors` is asked for

    to_save: tuple[Tensor | None, ...] = ()
    non_differentiable: tuple[Tensor, ...] = ()
    dirty: tuple[Tensor, ...] = ()
    materialize_grads = True
    needs_input_grad: tuple[bool, ...] = ()
    is_tensor: tuple[bool, ...] = ()  # of every argument of apply
    in_meta: tuple[tuple[tuple[int, ...], Any], ...] = ()  # shapes and kinds of the tensors among them
    out_places: tuple[int | None, ...] = ()  # of every output, its number among the tensors; None: it is none

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `backward`, where they are `saved_tensors`; changes in place are noticed."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep nothing: it is for a `jvp`, and forward-mode derivatives are two passes through `backward` here."""

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept."""
        self.check()
        out = []
        for t, slot in zip(self.saved or (), self.op.slots, strict=True):
            if isinstance(t, saved_tensor_hooks.Packed):
                t = t.get()
            if slot.where == "output":  # made anew, for the node must not keep its own output alive
                t = wrap(t._a, t._kind)
                if mode.enabled:
                    t._node, t._nr, t._requires_grad = self, slot.index, True
            out.append(t)
        return tuple(out)

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs `forward` changed in place."""
        self.dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether missing output gradients reach `backward` as zeros (True) or None."""
        self.materialize_grads = value

    def name(self) -> str:
        return f"{self.op.name}Backward"


FunctionCtx = BackwardCFunction = Context  # PyTorch's names


class _CustomOp:
    """What a node wants of an op, for one call of a `Function`."""

    variadic = False
    returns = 0
    steps = None

    def __init__(self, cls: type[Function]) -> None:
        self.cls, self.name, self.label = cls, cls.__name__, cls.__name__
        self.slots: list[Slot] = []

    def gradients(
        self, node: Context, edges: tuple[Any, ...], grads: Any, create_graph: bool
    ) -> tuple[tuple[Any, ...], str]:
        backward = self.cls.backward if self.cls.vjp is Function.vjp else self.cls.vjp
        many = grads if node.out_meta is not None else [grads]
        given: list[Tensor | None] = []
        for at in node.out_places:
            g = None if at is None else many[at]
            if g is not None and not create_graph:
                g = wrap(g, node.kind if node.out_meta is None else node.out_meta[at or 0][1])
            elif g is None and at is not None and node.materialize_grads:
                assert node.out_meta is not None
                g = zeros(node.out_meta[at], True)
            given.append(g)
        needed = iter([e is not None for e in edges])
        node.needs_input_grad = tuple([t and next(needed) for t in node.is_tensor])
        out = backward(node, *given)
        out = out if isinstance(out, tuple) else (out,)
        if len(out) > len(node.is_tensor) and all(g is None for g in out[len(node.is_tensor) :]):
            out = out[: len(node.is_tensor)]
        if len(out) != len(node.is_tensor):
            raise RuntimeError(
                text(f"function {self.name}Backward returned an incorrect number of gradients (expected "
                     f"{len(node.is_tensor)}, got {len(out)})", op=self.name,
                     remedy="one for each argument of forward, None for those without")
            )  # fmt: skip
        picked = [self._fitted(i, g, *node.in_meta[i]) for i, g in
                  enumerate(g for g, is_tensor in zip(out, node.is_tensor, strict=True) if is_tensor)]  # fmt: skip
        return tuple(None if g is None else g if create_graph else g._a for g in picked), self.name

    def _fitted(self, i: int, g: Any, shape: tuple[int, ...], kind: Any) -> Tensor | None:
        """Return a gradient in the shape and kind of its input; RuntimeError where it cannot be."""
        if g is None:
            return None
        if not isinstance(g, Tensor):
            raise TypeError(f"{self.name}.backward must return tensors or None, got {type(g).__name__} at index {i}")
        have = g._a.shape
        if have != shape:
            lead = len(have) - len(shape)
            if lead < 0 or any(n not in (1, m) for n, m in zip(shape, have[lead:], strict=True)):
                raise RuntimeError(
                    text(f"Function {self.name}Backward returned an invalid gradient at index {i} - got {list(have)} "
                         f"but expected shape compatible with {list(shape)}", op=self.name,
                         remedy="a gradient has its input's shape")
                )  # fmt: skip
            g = g.sum_to_size(shape) if g.requires_grad else wrap(sum_to(g._a, shape, g._kind), g._kind)
        return g if g._kind is kind else g.to(kind)


class Function:
    """Base of ops with a gradient of one's own: subclass it, write `forward` and `backward`, call `apply`.

    >>> import core
    >>> class Cube(core.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return g * 3 * x * x
    >>> x = core.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Where given, `forward` takes no ctx and this fills it."""

    @staticmethod
    def backward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement either the backward or vjp method for your custom "
                                  "autograd.Function to use it with backward mode AD.")  # fmt: skip

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Is not asked: forward-mode derivatives are two passes through `backward` (core.func.jvp)."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with "
                                  "forward mode AD.")  # fmt: skip

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` and put a node with `backward` on the graph. To observers it is one op.

        Arguments by name, and defaults, are for functions with `setup_context`.
        """
        separate = cls.setup_context is not Function.setup_context
        if separate:
            bound = signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        elif kwargs:
            raise TypeError(f"{cls.__name__}.apply takes no keyword arguments, got {', '.join(kwargs)}")
        tensors = [a for a in args if isinstance(a, Tensor)]
        edges = tuple([edge(t) for t in tensors])
        frame = user_frame(sys._getframe(1))
        op: Any = _CustomOp(cls)
        kind = tensors[0]._kind if tensors else None
        ctx = Context(op, edges, kind, frame.f_code if frame else None, frame.f_lasti if frame else 0)
        ctx.nrs = tuple([t._nr for t in tensors])
        ctx.is_tensor = tuple([isinstance(a, Tensor) for a in args])
        ctx.in_meta = tuple([(t._a.shape, t._kind) for t in tensors])
        needed = iter([e is not None for e in edges])
        ctx.needs_input_grad = tuple([t and next(needed) for t in ctx.is_tensor])
        whole = mode.muted or not observe.wanted("as ops")  # to observers it is one op
        start = perf_counter_ns()
        recording, mode.enabled = mode.enabled, False
        outer, mode.muted = mode.muted, whole
        try:  # nothing is called before it: Ctrl-C could come there
            if separate:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
            else:
                result = cls.forward(ctx, *args)
        except BaseException as e:
            mode.muted = outer
            emit_failed(op, tuple(tensors), e)
            raise
        finally:
            mode.enabled, mode.muted = recording, outer
        stop = perf_counter_ns()
        outs = result if isinstance(result, tuple) else (result,)
        graph = recording and any(e is not None for e in edges)
        if graph:
            outs = _connect(ctx, op, tensors, outs)
        if observe.observers:
            kernel = Kernel(cls.forward, f"{cls.__name__}.forward", "Python")
            emit_op(op, tuple(tensors), tuple([o for o in outs if isinstance(o, Tensor)]), args, kernel, start, stop,
                 ctx if graph else None)  # fmt: skip
        return tuple(outs) if isinstance(result, tuple) else outs[0]


def _connect(ctx: Context, op: Any, tensors: list[Tensor], outs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tie the outputs to the node, and keep what `forward` saved."""
    fresh: list[Any] = []
    for o in outs:
        dirty = isinstance(o, Tensor) and any(o is d for d in ctx.dirty)
        if dirty:
            leaf_check(o, ctx.op.name)
        if isinstance(o, Tensor) and not dirty and (o._base is not None or any(o is t for t in tensors)):
            same = wrap(o._a, o._kind)  # an input handed through, or a view of one, is another tensor on the graph
            same._storage = storage_of(o)
            ctx.to_save = tuple(same if s is o and all(o is not t for t in tensors) else s for s in ctx.to_save)
            ctx.non_differentiable = tuple(same if s is o else s for s in ctx.non_differentiable)
            o = same
        fresh.append(o)
    live = [o for o in fresh if isinstance(o, Tensor)]
    numbers = iter(range(len(live)))
    ctx.out_places = tuple(next(numbers) if isinstance(o, Tensor) else None for o in fresh)
    if live:
        ctx.kind = live[0]._kind
    if len(live) != 1:
        ctx.out_meta = tuple((o._a.shape, o._kind) for o in live)
    saved: list[Tensor | None] = []
    for k, t in enumerate(ctx.to_save):
        at = next((j for j, o in enumerate(live) if o is t), None)
        op.slots.append(Slot(f"saved tensor {k}", "input" if at is None else "output", k if at is None else at))
        saved.append(t if t is None or at is None else wrap(t._a, t._kind))
    ctx.saved, ctx.storages = tuple(saved), tuple(None if t is None else storage_of(t) for t in ctx.to_save)
    ctx.versions = tuple(0 if s is None else s.version for s in ctx.storages)
    if saved_tensor_hooks.active:
        saved_tensor_hooks.pack(ctx)
    ctx.to_save = ()
    for j, o in enumerate(live):
        if o._kind.dtype.category >= 2 and not any(o is n for n in ctx.non_differentiable):
            if any(o is d for d in ctx.dirty):
                rewritten(o, ctx, j)
            else:
                o._node, o._nr, o._requires_grad = ctx, j, True
    ctx.dirty = ctx.non_differentiable = ()
    return tuple(fresh)


class _Refusal:
    """The op of a gradient that has no gradient itself."""

    name = label = "once_differentiable"
    slots: tuple[Slot, ...] = ()
    returns = 0

    def gradients(self, node: Node, edges: tuple[Any, ...], grads: Any, create_graph: bool) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable\n"
                           "  remedy: write its backward in ops of this package and leave the mark away")  # fmt: skip


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a `backward` that cannot itself be differentiated: going through its results raises."""

    @functools.wraps(backward)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        was, mode.enabled = mode.enabled, False
        try:
            out = backward(ctx, *grads)
        finally:
            mode.enabled = was
        given = [g for g in grads if isinstance(g, Tensor) and g.requires_grad]
        if not was or (not given and not any(e is not None for e in ctx.edges)):
            return out
        many = [
            wrap(o._a, o._kind) if isinstance(o, Tensor) else o for o in (out if isinstance(out, tuple) else (out,))
        ]
        edges = (*(edge(g) for g in given), *ctx.edges)
        for o in many:
            if isinstance(o, Tensor):
                refusal: Any = _Refusal()
                o._node, o._requires_grad = Node(refusal, edges, o._kind, ctx.code, ctx.lasti), True
        return tuple(many) if isinstance(out, tuple) else many[0]

    return wrapper
