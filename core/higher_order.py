"""Loops and choices that PyTorch has as ops of ops, under ``torch.ops.higher_order``: plain Python here.

>>> import core
>>> core.ops.higher_order.while_loop(lambda i: i < 3, lambda i: (i + 1,), (core.tensor(0),))
(tensor(3),)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .declare import op as declarations
from .rarer_names import cond as _cond
from .utils import _pytree

__all__ = ["cond", "map_impl", "scan", "while_loop"]


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """Return what one of two functions makes of the operands: the first where `pred` is true."""
    return _cond(pred, true_fn, false_fn, operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any],
               additional_inputs: Sequence[Any] = ()) -> tuple[Any, ...]:  # fmt: skip
    """Return what `body_fn` makes of its own results as long as `cond_fn` says True of them."""
    carried = tuple(carried_inputs)
    while bool(cond_fn(*carried, *additional_inputs)):
        found = body_fn(*carried, *additional_inputs)
        carried = tuple(found) if isinstance(found, tuple | list) else (found,)
    return carried


def _stacked(steps: Sequence[Sequence[Any]]) -> list[Any]:
    return [declarations.functions["stack"](list(each)) for each in zip(*steps, strict=True)]


def scan(combine_fn: Callable[..., Any], init: Sequence[Any], xs: Sequence[Any],
         additional_inputs: Sequence[Any] = ()) -> list[Any]:  # fmt: skip
    """Return the last carry and the stacked results of a function that is called along the first dimension of `xs`."""
    carry, steps, n = list(init), [], len(init)
    for k in range(xs[0].shape[0]):
        found = list(combine_fn(*carry, *[x[k] for x in xs], *additional_inputs))
        carry = found[:n]
        steps.append(found[n:])
    return [*carry, *_stacked(steps)]


def map_impl(f: Callable[..., Any], xs: Sequence[Any], pos_args: Sequence[Any] = ()) -> Any:
    """Return the stacked results of a function of each place along the first dimension of `xs`."""
    found = [f(*[x[k] for x in xs], *pos_args) for k in range(xs[0].shape[0])]
    flat = [_pytree.tree_flatten(one) for one in found]
    return _pytree.tree_unflatten(_stacked([leaves for leaves, _ in flat]), flat[0][1])
