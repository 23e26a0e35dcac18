"""`Function`: an op with a gradient of one's own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from ..op import Slot
from ..source import user_frame
from ..tensor import Tensor, storage_of, wrap
from ..modes import state as mode
from ..node import Node


class Context(Node):
    """What `forward` leaves for `backward`; it is the node itself."""

    to_save: tuple[Any, ...] = ()
    non_differentiable: tuple[Tensor, ...] = ()
    dirty: tuple[Tensor, ...] = ()
    materialize_grads = True
    needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `backward`, where they are `saved_tensors`; changes in place are noticed."""
        self.to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept."""
        self.check()
        out = []
        for t, (what, where) in zip(self.to_save, self._origins, strict=True):
            if what == "output" and mode.enabled:
                t = wrap(t._a, t._kind)
                t._node, t._nr, t._requires_grad = self, where, True
            out.append(t)
        return tuple(out)

    _origins: tuple[tuple[str, int], ...] = ()

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


class _CustomOp:
    """The op table's view of a `Function` subclass."""

    variadic = False

    def __init__(self, cls: type[Function]) -> None:
        self.cls, self.name = cls, cls.__name__
        self.slots: list[Slot] = []

    def gradients(self, node: Context, grads: Any, create_graph: bool) -> tuple[tuple[Any, ...], str]:
        many = grads if isinstance(grads, list) else [grads]
        given = []
        for j, g in enumerate(many):
            if g is None:
                given.append(_zeros(node, j) if node.materialize_grads else None)
            else:
                given.append(
                    g if create_graph else wrap(g, node.kind if node.out_meta is None else node.out_meta[j][1])
                )
        out = self.cls.backward(node, *given)
        out = out if isinstance(out, tuple) else (out,)
        if len(out) != len(node.positions):  # type: ignore[attr-defined]
            raise RuntimeError(
                f"function {self.name}Backward returned an incorrect number of gradients "
                f"(expected {len(node.positions)}, got {len(out)})"  # type: ignore[attr-defined]
            )
        picked = []
        for k, is_tensor in enumerate(node.positions):  # type: ignore[attr-defined]
            if is_tensor:
                g = out[k]
                if g is not None and not isinstance(g, Tensor):
                    raise TypeError(f"{self.name}.backward must return tensors or None, got {type(g).__name__}")
                picked.append(g if g is None or create_graph else g._a)
        return tuple(picked), self.name


def _zeros(node: Context, j: int) -> Tensor:
    from .vjp import _zeros as zeros

    meta = node.out_meta[j] if node.out_meta is not None else None
    assert meta is not None
    return zeros(meta, True)


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
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise NotImplementedError("You must implement the backward function for custom autograd.Function.")

    vjp = backward

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run `forward` and put a node with `backward` on the graph."""
        tensors = [a for a in args if isinstance(a, Tensor)]
        needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        frame = user_frame(sys._getframe(1))
        from ..tensor import edge

        edges = tuple(edge(t) for t in tensors)
        op: Any = _CustomOp(cls)
        kind = tensors[0]._kind if tensors else None
        mask = sum(1 << i for i, e in enumerate(edges) if e is not None)
        ctx = Context(op, edges, mask, kind, frame.f_code if frame else None, frame.f_lasti if frame else 0)
        ctx.nrs = tuple(t._nr for t in tensors)
        ctx.needs_input_grad = needs
        ctx.positions = tuple(isinstance(a, Tensor) for a in args)  # type: ignore[attr-defined]
        recording, mode.enabled = mode.enabled, False
        try:
            if cls.setup_context is not Function.setup_context:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
            else:
                result = cls.forward(ctx, *args)
        finally:
            mode.enabled = recording
        outs = result if isinstance(result, tuple) else (result,)
        if recording and mask:
            outs = cls._connect(ctx, op, tensors, outs)
        return tuple(outs) if isinstance(result, tuple) else outs[0]

    @staticmethod
    def _connect(ctx: Context, op: Any, tensors: list[Tensor], outs: tuple[Any, ...]) -> tuple[Any, ...]:
        fresh = []
        for o in outs:
            if isinstance(o, Tensor) and any(o is t for t in tensors) and not any(o is d for d in ctx.dirty):
                same = wrap(o._a, o._kind)  # an input handed through is another tensor on the graph
                same._storage = storage_of(o)
                ctx.to_save = tuple(same if s is o else s for s in ctx.to_save)
                o = same
            fresh.append(o)
        live = [o for o in fresh if isinstance(o, Tensor)]
        if live:
            ctx.kind = live[0]._kind
        if len(live) > 1 or not ctx.materialize_grads:
            ctx.out_meta = tuple((o._a.shape, o._kind) for o in live)
        saved, storages, origins = [], [], []
        for k, t in enumerate(ctx.to_save):
            at = next((j for j, o in enumerate(live) if o is t), None)
            origins.append(("output", at) if at is not None else ("input", k))
            saved.append(None if t is None else t._a)
            storages.append(None if t is None else storage_of(t))
            op.slots.append(Slot(f"saved tensor {k}", "output" if at is not None else "input", k))
        ctx.to_save = tuple(wrap(t._a, t._kind) if o[0] == "output" else t
                            for t, o in zip(ctx.to_save, origins, strict=True))  # fmt: skip
        ctx.saved, ctx.storages, ctx._origins = tuple(saved), tuple(storages), tuple(origins)
        ctx.versions = tuple(0 if s is None else s.version for s in storages)
        for j, o in enumerate(live):
            if o._kind.dtype.category >= 2 and not any(o is n for n in ctx.non_differentiable):
                o._node, o._nr, o._requires_grad = ctx, j, True
        return tuple(fresh)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a `backward` that cannot itself be differentiated: trying to raises."""

    @functools.wraps(backward)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        was = mode.enabled
        with_graph = was and any(isinstance(g, Tensor) and g.requires_grad for g in grads)
        mode.enabled = False
        try:
            out = backward(ctx, *grads)
        finally:
            mode.enabled = was
        if with_graph:
            raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")
        return out

    return wrapper
