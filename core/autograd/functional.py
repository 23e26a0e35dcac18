"""Jacobians, Hessians and their products with vectors, of a function of tensors, under PyTorch's names.

Everything goes backwards: a jvp is the gradient of a vjp with respect to its vector (the "double backward" way of
Townsend, 2017), since the operations have a vjp each and no forward rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import text
from ..base.modes import enable_grad
from ..declare.op import functions
from ..ops.creation import ones_like, zeros
from ..tensors.tensor import Tensor
from .gradients import grad

Func = Callable[..., Any]


def vjp(func: Func, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """Return the outputs of `func`, and the product of `v` with its Jacobian: ``v @ J``.

    v : of the outputs' shape; left out for an output of one element.
    create_graph : whether the results can be differentiated again.
    strict : raise where an output does not depend on an input, in place of zeros.

    *Shapes*: the product has the shape of `inputs`. *Raises*: RuntimeError for a `v` of another shape.

    >>> import core
    >>> core.autograd.functional.vjp(lambda x: x**2, core.tensor([1.0, 2.0]), core.tensor([1.0, 10.0]))[1]
    tensor([ 2., 40.])
    """
    with enable_grad():
        xs, single, ys, single_y = _called("vjp", func, inputs, create_graph, strict)
        vs = _vectors("vjp", v, ys, "the output")
        found = _backward("vjp", ys, xs, vs, create_graph, strict)
    return _given_back(ys, single_y, create_graph), _given_back(found, single, create_graph)


def jvp(func: Func, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """Return the outputs of `func`, and the product of its Jacobian with `v`: ``J @ v``.

    v : of the inputs' shape; left out for an input of one element.

    *Shapes*: the product has the shape of the outputs. *Raises*: RuntimeError for a `v` of another shape.

    >>> import core
    >>> core.autograd.functional.jvp(lambda x: x.exp().sum(), core.zeros(3), core.tensor([1.0, 2.0, 3.0]))[1]
    tensor(6.)
    """
    with enable_grad():
        xs, _, ys, single_y = _called("jvp", func, inputs, create_graph, strict)
        vs = _vectors("jvp", v, xs, "the input")
        found = _forward("jvp", ys, xs, vs, create_graph, strict)
    return _given_back(ys, single_y, create_graph), _given_back(found, single_y, create_graph)


def jacobian(func: Func, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
             strategy: str = "reverse-mode") -> Any:  # fmt: skip
    """Return the Jacobian of `func`: a tensor, or tuples of them where there are several outputs (outer) or inputs
    (inner).

    vectorize, strategy : taken for PyTorch's sake; a row is a backward pass of its own whatever they say.

    *Shapes*: ``output.shape + input.shape``. *Raises*: ValueError for an unknown strategy; TypeError for outputs that
    are not tensors.

    >>> import core
    >>> core.autograd.functional.jacobian(lambda x: x.exp(), core.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    _check_strategy("jacobian", strategy)
    with enable_grad():
        xs, single, ys, single_y = _called("jacobian", func, inputs, create_graph, strict)
        rows = [_rows("jacobian", y, i, xs, create_graph, strict) for i, y in enumerate(ys)]
    out = [_given_back(row, single, create_graph) for row in rows]
    return out[0] if single_y else tuple(out)


def hessian(func: Func, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
            outer_jacobian_strategy: str = "reverse-mode") -> Any:  # fmt: skip
    """Return the second derivatives of a `func` that gives one element; a tuple of tuples where there are several
    inputs.

    *Shapes*: ``input.shape + input.shape``. *Raises*: RuntimeError where the output has more than one element.

    >>> import core
    >>> core.autograd.functional.hessian(lambda x: (x**3).sum(), core.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    _check_strategy("hessian", outer_jacobian_strategy)
    single = isinstance(inputs, Tensor)

    def first(*xs: Tensor) -> Any:
        found = jacobian(lambda *ts: _one("hessian", func(*ts)), xs, create_graph=True)
        return tuple(found)

    found = jacobian(first, inputs, create_graph=create_graph, strict=strict)
    return found[0] if single else found


def vhp(func: Func, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """Return the output of a `func` that gives one element, and the product of `v` with its Hessian: ``v @ H``.

    *Raises*: RuntimeError where the output has more than one element or `v` another shape than the inputs.

    >>> import core
    >>> core.autograd.functional.vhp(lambda x: (x**3).sum(), core.tensor([1.0, 2.0]), core.ones(2))[1]
    tensor([ 6., 12.])
    """
    with enable_grad():
        xs, single, ys, _ = _called("vhp", func, inputs, create_graph, strict)
        y = _one("vhp", ys[0] if len(ys) == 1 else tuple(ys))
        vs = _vectors("vhp", v, xs, "the input")
        slopes = _backward("vhp", [y], xs, [None], True, strict)
        found = _backward("vhp", slopes, xs, vs, create_graph, strict)
    return _given_back([y], True, create_graph), _given_back(found, single, create_graph)


def hvp(func: Func, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """As `vhp` with the factors the other way round: ``H @ v``. `vhp` is the cheaper one, and gives the same wherever
    the second derivatives are continuous.

    >>> import core
    >>> core.autograd.functional.hvp(lambda x: (x**3).sum(), core.tensor([1.0, 2.0]), core.ones(2))[1]
    tensor([ 6., 12.])
    """
    with enable_grad():
        xs, single, ys, _ = _called("hvp", func, inputs, create_graph, strict)
        y = _one("hvp", ys[0] if len(ys) == 1 else tuple(ys))
        vs = _vectors("hvp", v, xs, "the input")
        slopes = _backward("hvp", [y], xs, [None], True, strict)
        found = _forward("hvp", slopes, xs, vs, create_graph, strict)
    return _given_back([y], True, create_graph), _given_back(found, single, create_graph)


# -- steps -------------------------------------------------------------------------------------------------------------


def _called(op: str, func: Func, inputs: Any, create_graph: bool,
            strict: bool) -> tuple[list[Tensor], bool, list[Tensor], bool]:  # fmt: skip
    """Run `func` on inputs of our own, so that a gradient with respect to them is theirs alone."""
    single = isinstance(inputs, Tensor)
    xs: list[Tensor] = []
    for i, x in enumerate((inputs,) if single else tuple(inputs)):
        if not isinstance(x, Tensor):
            raise TypeError(f"The inputs given to {op} must be either a Tensor or a tuple of Tensors but the value at "
                            f"index {i} has type {type(x)}.")  # fmt: skip
        # still on the caller's graph where the result shall be
        xs.append(x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_())
    result = func(*xs)
    single_y = isinstance(result, Tensor)
    ys = [result] if single_y else list(result)
    for i, y in enumerate(ys):
        if not isinstance(y, Tensor):
            raise TypeError(f"The outputs of the user-provided function given to {op} must be either a Tensor or a "
                            f"tuple of Tensors but the value at index {i} has type {type(y)}.")  # fmt: skip
        if strict and not y.requires_grad:
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The outputs must be computed in "
                "a differentiable manner from the input when running in strict mode."
            )
    return xs, single, ys, single_y


def _vectors(op: str, v: Any, like: Sequence[Tensor], whose: str) -> list[Tensor]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                text(f"The vector v can only be None if {whose} of the user-provided function is a single Tensor with "
                     "a single element.", op=op, came=", ".join(str(tuple(t.shape)) for t in like))
            )  # fmt: skip
        return [_ones(like[0])]
    vs = [v] if isinstance(v, Tensor) else list(v)
    if len(vs) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vs)}.")
    for i, (a, t) in enumerate(zip(vs, like, strict=True)):
        if a.shape != t.shape:
            raise RuntimeError(
                text(f"Entry {i} in v has invalid size: should be {tuple(t.shape)} but got {tuple(a.shape)}.", op=op)
            )
    return vs


def _backward(op: str, ys: Sequence[Tensor], xs: Sequence[Tensor], vs: Sequence[Tensor | None], create_graph: bool,
              strict: bool) -> list[Tensor]:  # fmt: skip
    """Gradients of the outputs that have a history; zeros for inputs without a path."""
    live = [(y, v) for y, v in zip(ys, vs, strict=True) if y.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(xs)
    if live:
        found = grad([y for y, _ in live], list(xs), [v for _, v in live], retain_graph=True, create_graph=create_graph,
                     allow_unused=True)  # fmt: skip
    out = []
    for i, (g, x) in enumerate(zip(found, xs, strict=True)):
        if g is None and strict:
            raise RuntimeError(f"The output of the user-provided function is independent of input {i}. This is not "
                               "allowed in strict mode.\n  op: " + op)  # fmt: skip
        out.append(_empty(x, tuple(x.shape)) if g is None else g)
    return out


def _forward(op: str, ys: Sequence[Tensor], xs: Sequence[Tensor], vs: Sequence[Tensor], create_graph: bool,
             strict: bool) -> list[Tensor]:  # fmt: skip
    """J @ v: a vjp is linear in its vector u, and the gradient of (u @ J) @ v with respect to u is J @ v."""
    us = [_empty(y, tuple(y.shape)).requires_grad_() for y in ys]
    slopes = _backward(op, ys, xs, us, True, strict)
    return _backward(op, slopes, us, list(vs), create_graph, False)


def _rows(op: str, y: Tensor, i: int, xs: Sequence[Tensor], create_graph: bool, strict: bool) -> list[Tensor]:
    rows: list[list[Tensor]] = [[] for _ in xs]
    flat = y.reshape(-1)
    for k in range(y.numel()):
        found: Sequence[Tensor | None] = [None] * len(xs)
        if y.requires_grad:
            found = grad(flat[k], list(xs), retain_graph=True, create_graph=create_graph, allow_unused=True)
        for j, (row, x, g) in enumerate(zip(rows, xs, found, strict=True)):
            if g is None and strict:
                raise RuntimeError(f"Output {i} of the user-provided function is independent of input {j}. This is not "
                                   "allowed in strict mode.\n  op: " + op)  # fmt: skip
            row.append(_empty(x, tuple(x.shape)) if g is None else g)
    shape = tuple(y.shape)
    return [
        functions["stack"](row).reshape(*shape, *x.shape) if row else _empty(y, (*shape, *x.shape))
        for row, x in zip(rows, xs, strict=True)
    ]


def _ones(like: Tensor) -> Tensor:
    """Ones in the shape of `like`."""
    return ones_like(like)


def _empty(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    return zeros(shape, dtype=like.dtype, device=like.device)


def _one(op: str, y: Any) -> Tensor:
    if not isinstance(y, Tensor):
        raise RuntimeError(f"The function given to {op} should return a single Tensor")
    if y.numel() != 1:
        raise RuntimeError(
            text(f"The Tensor returned by the function given to {op} should contain a single element", op=op,
                 came=f"shape {tuple(y.shape)}", remedy="y.sum() in the function")
        )  # fmt: skip
    return y.reshape(())


def _given_back(ts: Sequence[Tensor], single: bool, create_graph: bool) -> Any:
    """As the caller gave it: one tensor, or a tuple; outside the graph unless that was asked for."""
    out = tuple(t if create_graph else t.detach() for t in ts)
    return out[0] if single else out


def _check_strategy(op: str, strategy: str) -> None:
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f"Expected strategy to be either \"reverse-mode\" or \"forward-mode\". Hint: {op}() got "
                         f"{strategy!r}.")  # fmt: skip
