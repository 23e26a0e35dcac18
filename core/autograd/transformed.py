"""What derivatives of functions share: nested structures, inputs of one's own, gradients where no path leads too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import text
from ..base.modes import state as mode
from ..dispatch.vmap import Batched, batched, full_of
from ..graph.versions import edge
from ..ops.creation import ones_like, zeros_like
from ..tensors.tensor import Tensor
from .gradients import grad

Func = Callable[..., Any]

# -- nested structures ----------------------------------------------------------------------------------------------


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for v in tree.values() for leaf in leaves(v)]
    return [leaf for v in tree for leaf in leaves(v)] if isinstance(tree, tuple | list) else [tree]


def mapped(function: Func, tree: Any) -> Any:
    if isinstance(tree, dict):
        return {k: mapped(function, v) for k, v in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(mapped(function, v) for v in tree))
    return type(tree)(mapped(function, v) for v in tree) if isinstance(tree, tuple | list) else function(tree)


def tensors(tree: Any) -> list[Tensor]:
    return [t for t in leaves(tree) if isinstance(t, Tensor)]


# -- inputs, outputs, gradients ------------------------------------------------------------------------------------


def base_of(t: Any) -> Any:
    """Return the tensor at the bottom of all levels of batching."""
    while isinstance(t, Batched):
        t = t._full
    return t


def _like(t: Tensor, base: Tensor) -> Tensor:
    """`base` at the levels of batching that `t` has."""
    return batched(_like(t._full, base), t._level) if isinstance(t, Batched) else base


def fresh(x: Any) -> Any:
    """Return an input of our own: a leaf, or where the caller differentiates too, a computed tensor. It is batched
    at every level that is open, so that each example has its own gradient."""
    if not isinstance(x, Tensor):
        return x
    sizes = mode.batch.sizes if mode.batch is not None else []
    t, levels = x, {b._level for b in _chain(x)}
    for level, size in enumerate(sizes, 1):
        if level not in levels:
            t = _stretched(t, level, size)
    base = base_of(t)
    if not base.is_floating_point() and not base.is_complex():
        raise RuntimeError(
            text("only Tensors of floating point and complex dtype can require gradients", op="grad",
                 came=f"an input of {base.dtype}", remedy="x.float(), or other argnums")
        )  # fmt: skip
    return _like(t, base.view_as(base) if base.requires_grad else base.detach().requires_grad_())


def _chain(t: Any) -> list[Batched]:
    found = []
    while isinstance(t, Batched):
        found.append(t)
        t = t._full
    return found


def _stretched(t: Tensor, level: int, size: int) -> Tensor:
    """`t` batched at one more level, under those that lie further in."""
    if isinstance(t, Batched) and t._level > level:
        return batched(_stretched(t._full, level, size), t._level)
    return batched(t.unsqueeze(0).expand(size, *t.shape), level)


def called(func: Func, args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Any, has_aux: bool) -> Any:
    """Run `func` on inputs of our own: those inputs, its result, the extra."""
    many = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for n in many:
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"Got argnum={n}, but only {len(args)} positional inputs")
    places = [n % len(args) for n in many]
    given = tuple(mapped(fresh, a) if i in places else a for i, a in enumerate(args))
    result = func(*given, **kwargs)
    aux = None
    if has_aux:
        if not isinstance(result, tuple) or len(result) != 2:
            raise RuntimeError("grad_and_value(f)(*args): output of function f should be a tuple: (output, aux) if "
                               "has_aux is True")  # fmt: skip
        result, aux = result
    wanted = [given[n] for n in places]
    return (wanted[0] if isinstance(argnums, int) else tuple(wanted)), result, aux


def leads_elsewhere(ys: Sequence[Tensor], mine: Sequence[Tensor]) -> bool:
    """Return whether a graph leads to tensors that are not ours, so that somebody may differentiate further."""
    own = {id(base_of(t)) for t in mine}
    if any(base_of(t)._node is not None for t in mine):
        return True
    stack = [edge(base_of(y)) for y in ys]
    seen = set()
    while stack:
        e = stack.pop()
        if e is None or id(e) in seen:
            continue
        seen.add(id(e))
        if isinstance(e, Tensor):
            if id(e) not in own:
                return True
        else:
            stack.extend(e.edges)
    return False


def gradients_of(ys: Sequence[Tensor], xs: Sequence[Tensor], vs: Sequence[Tensor | None], keep: bool,
               create_graph: bool) -> list[Tensor]:  # fmt: skip
    """Gradients with respect to `xs`; zeros where no path leads."""
    roots, seeds = [], []
    for y, v in zip(ys, vs, strict=True):
        if y.requires_grad:
            base = base_of(y)
            seed = ones_like(base) if v is None else _matched(v, y)
            roots.append(base)
            seeds.append(seed)
    bases = [base_of(x) for x in xs]
    found: Sequence[Tensor | None] = [None] * len(xs)
    if roots:
        found = grad(roots, bases, seeds, retain_graph=keep or create_graph, create_graph=create_graph,
                              allow_unused=True)  # fmt: skip
    return [_like(x, zeros_like(b) if g is None else g) for x, b, g in zip(xs, bases, found, strict=True)]


def _matched(v: Tensor, y: Tensor) -> Tensor:
    """Return the bottom of a vector, batched at the levels of `y`."""
    if not isinstance(y, Batched):
        return v
    full = full_of(v, y._level, y._full.shape[0]) if not (isinstance(v, Batched) and v._level == y._level) else v._full
    return _matched(full, y._full)


def plain(tree: Any, graph: bool) -> Any:
    return tree if graph else mapped(lambda t: t.detach() if isinstance(t, Tensor) else t, tree)


def filled(tree: Any, values: Sequence[Any]) -> Any:
    it = iter(values)
    return mapped(lambda t: next(it) if isinstance(t, Tensor) else t, tree)


def linear_part(mine: Sequence[Tensor], ys: Sequence[Tensor]) -> Callable[[Sequence[Tensor], bool], list[Tensor]]:
    """Return what makes of tangents of `mine` those of `ys`, outputs computed from them, and whether to keep a graph.

    A vjp is linear in the vector that it is given, so that its own vjp is the product with the Jacobian.
    """
    live = [y.requires_grad and (y.is_floating_point() or y.is_complex()) for y in ys]  # type: ignore[attr-defined]
    moving = [y for y, lives in zip(ys, live, strict=True) if lives]
    us = [fresh(zeros_like(y.detach())) for y in moving]  # type: ignore[attr-defined]
    slopes = gradients_of(moving, mine, us, True, True)

    def push(ts: Sequence[Tensor], graph: bool) -> list[Tensor]:
        found = iter(gradients_of(slopes, us, ts, True, graph))
        return [next(found) if lives else zeros_like(y.detach()) for y, lives in zip(ys, live, strict=True)]  # type: ignore[attr-defined]

    return push
