"""`backward` and `grad`: the passes through the graph that people ask for."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ..base.errors import text
from ..base.source import warn
from ..declare.op import functions
from ..declare.signature import Fast
from ..dispatch.of_values import with_history, with_places
from ..dispatch.publish import offer
from ..dispatch.vmap import batched, full_of, level_of
from ..events import observe
from ..tensors import tensor
from ..tensors.tensor import Tensor
from . import engine
from .vjp import zeros as _zeros

Many = Tensor | Sequence[Tensor]


def backward(tensors: Many, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
             inputs: Many | None = None, *, grad_variables: Any = None) -> None:  # fmt: skip
    """Add the gradients of `tensors` to the `.grad` of the leaves they were made from (or of `inputs` only).

    `grad_variables` is an older name of `grad_tensors`. *Raises*: RuntimeError where both are given.

    >>> import core
    >>> a, b = core.tensor(2.0, requires_grad=True), core.tensor(3.0, requires_grad=True)
    >>> core.autograd.backward(a**2 * b + b**3)
    >>> a.grad, b.grad
    (tensor(12.), tensor(31.))
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                               "`backward()`. Please only use `grad_tensors`.")  # fmt: skip
        grad_tensors = grad_variables
    if observe.followers and inputs is None and observe.tally.steps >= observe.resting:
        observe.tell("passed", (tensors,) if isinstance(tensors, Tensor) else tuple(tensors))
    _backward(tensors, grad_tensors, retain_graph, create_graph, inputs)


def _backward(tensors: Many, grad_tensors: Any, retain_graph: bool | None, create_graph: bool,
              inputs: Many | None) -> None:  # fmt: skip
    roots = with_history((tensors,) if isinstance(tensors, Tensor) else tuple(tensors))
    targets = None if inputs is None else (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    targets = None if targets is None else with_history(targets)
    if targets is not None:
        if not targets:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        _check_inputs("backward", targets)
    keep = create_graph if retain_graph is None else retain_graph
    given = _given(grad_tensors, roots)
    if level_of(given) > level_of(roots):
        raise RuntimeError(
            text("backward() called inside a functorch transform. This is not supported", op="backward",
                 came="a gradient that differs between the examples of a vmap", remedy="autograd.grad or func.vjp")
        )  # fmt: skip
    engine.run(roots, given, keep, create_graph, targets, accumulate=True)


tensor._backward = _backward  # of Tensor.backward
Tensor.backward = offer(  # type: ignore[method-assign]
    Tensor.backward, method=True, namespace=None, home="backward", state="any",
    fast=[Fast(body="backward_from(self, gradient, retain_graph)", types={"self": "any"}, raw=("gradient",))],
)  # fmt: skip
_unheard = Tensor.backward


@functools.wraps(Tensor.backward)
def _heard(self: Tensor, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False,
           inputs: Any = None) -> None:  # fmt: skip
    if inputs is not None:
        _unheard(self, gradient, retain_graph, create_graph, inputs)
        return
    if observe.tally.steps >= observe.resting:
        observe.tell("passed", (self,))
    if gradient is None and not create_graph:
        _unheard(self, retain_graph=retain_graph)
    else:
        _unheard(self, gradient, retain_graph, create_graph)


def _followed(anybody: bool) -> None:
    """What runs a usual pass in C tells nobody: while somebody follows, `Tensor.backward` tells before it."""
    if Tensor.backward is (_unheard if anybody else _heard):
        Tensor.backward = _heard if anybody else _unheard  # type: ignore[method-assign]


observe.when_followed.append(_followed)


def grad(outputs: Many, inputs: Many, grad_outputs: Any = None, retain_graph: bool | None = None,
         create_graph: bool = False, only_inputs: bool = True, allow_unused: bool | None = None,
         is_grads_batched: bool = False, materialize_grads: bool = False) -> tuple[Tensor | Any, ...]:  # fmt: skip
    """Return the gradients of `outputs` with respect to `inputs`, as a tuple; no `.grad` is touched.

    only_inputs : PyTorch's old name for what is always so; False warns.

    is_grads_batched : each of `grad_outputs` holds many gradients along a first dimension of its own, and so does the
        answer: one pass for each of them.

    Raises
    ------
    RuntimeError
        When an input does not require a gradient, or took no part and `allow_unused` was not given.

    >>> import core
    >>> x = core.tensor(3.0, requires_grad=True)
    >>> (g,) = core.autograd.grad(x**3, x, create_graph=True)
    >>> core.autograd.grad(g, x)
    (tensor(18.),)
    """
    if not only_inputs:
        warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True); "
            "core.autograd.backward gathers the gradients of the rest.",
            FutureWarning,
        )
    roots = with_history((outputs,) if isinstance(outputs, Tensor) else tuple(outputs))
    targets = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    _check_inputs("grad", targets)
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
                         "allow_unused=False.")  # fmt: skip
    keep = create_graph if retain_graph is None else retain_graph
    given = _given(grad_outputs, roots)
    whole, targets = targets, with_history(targets)
    found = (_batched if is_grads_batched else _pass)(roots, given, keep, create_graph, targets)
    if whole is not targets:
        found = [with_places(g, t) for g, t in zip(found, whole, strict=True)]
    if materialize_grads:
        return tuple(
            _zeros(((*_batch_of(given), *t._a.shape) if is_grads_batched else t._a.shape, t._kind), True)
            if g is None
            else g
            for g, t in zip(found, targets, strict=True)
        )
    if not allow_unused and any(g is None for g in found):
        i = next(k for k, g in enumerate(found) if g is None)
        raise RuntimeError(
            text(
                "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True "
                "if this is the desired behavior.",
                op="grad",
                came=f"input {i} of shape {tuple(targets[i].shape)}, which no path from the outputs reaches",
            )
        )
    return tuple(found)


def _pass(roots: Sequence[Tensor], given: Sequence[Any], keep: bool, create_graph: bool,
          targets: Sequence[Tensor]) -> list[Tensor | None]:  # fmt: skip
    """Return the gradients of a pass; in a vmap, of one an example, where the graph was made outside of it."""
    level = level_of(given)
    if level <= level_of(roots):
        return engine.run(roots, given, keep, create_graph, targets, accumulate=False)
    size = next(len(g._full) for g in given if level_of([g]) == level)
    whole = [functions["ones_like"](y) if g is None else g for g, y in zip(given, roots, strict=True)]
    found = _batched(roots, [full_of(g, level, size) for g in whole], keep, create_graph, targets)
    return [None if g is None else batched(g, level) for g in found]


def _batch_of(given: Sequence[Tensor | None]) -> tuple[int, ...]:
    return tuple(next(g.shape[:1] for g in given if g is not None))


def _batched(roots: Sequence[Tensor], given: Sequence[Any], keep: bool, create_graph: bool,
             targets: Sequence[Tensor]) -> list[Tensor | None]:  # fmt: skip
    """Return a pass for each of the gradients that are stacked; the answers stacked."""
    n = next((len(g) for g in given if g is not None), 0)
    if any(g is None or g.ndim == 0 or len(g) != n or g.shape[1:] != y.shape
           for g, y in zip(given, roots, strict=True)) or not n:  # fmt: skip
        raise RuntimeError(
            text("If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                 "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                 "output.", op="grad", came=", ".join("None" if g is None else str(tuple(g.shape)) for g in given),
                 needed=", ".join(f"(n, {', '.join(map(str, y.shape))})" for y in roots))
        )  # fmt: skip
    each = [_pass(roots, [g[k] for g in given], keep or k < n - 1, create_graph, targets) for k in range(n)]
    return [None if rows[0] is None else functions["stack"](list(rows)) for rows in zip(*each, strict=True)]


def _check_inputs(op: str, targets: Sequence[Tensor]) -> None:
    for i, t in enumerate(targets):
        if not isinstance(t, Tensor):
            raise TypeError(f"{op}(): inputs must be Tensors, got {type(t).__name__} at index {i}")
        if not t.requires_grad:
            raise RuntimeError(
                text("One of the differentiated Tensors does not require grad", op=op,
                     came=f"input {i} of shape {tuple(t.shape)}", remedy="x.requires_grad_() before it is used")
            )  # fmt: skip


def _given(grads: Any, roots: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    if grads is None:
        return (None,) * len(roots)
    if isinstance(grads, Tensor) and len(roots) == 1:
        return with_history((grads,))
    if not isinstance(grads, Tensor | list | tuple):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(grads).__name__}")
    many = (grads,) if isinstance(grads, Tensor) else tuple(grads)
    if len(many) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(many)} gradients")
    return with_history(many)
