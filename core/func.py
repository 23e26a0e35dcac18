"""PyTorch's ``func``: gradients, Jacobians and batching as functions of functions, free to be nested.

Derivatives go backwards only: `jvp`, `linearize` and `jacfwd` are made of two backward passes. `vmap` runs each op once
for the whole batch where the op has a rule (elementwise, reductions, products, movement, indexing), example by example
where it has none; see `core.dispatch.vmap`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from .autograd.transformed import (
    Func,
    base_of,
    called,
    filled,
    gradients_of,
    leads_elsewhere,
    leaves,
    linear_part,
    mapped,
    plain,
    tensors,
)
from .base.errors import text
from .base.modes import enable_grad
from .base.modes import state as mode
from .declare.op import functions as _f
from .dispatch.vmap import Batched, batched, full_of, handler
from .nn.functional_call import functional_call, replace_all_batch_norm_modules_, stack_module_state
from .ops.creation import eye, zeros
from .tensors.tensor import Tensor

# -- derivatives ----------------------------------------------------------------------------------------------------


def grad_and_value(func: Func, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Func:
    """As `grad`, together with the value: ``(gradient, value)``, with `has_aux` ``(gradient, (value, aux))``.

    >>> import core
    >>> core.func.grad_and_value(lambda x: x**2)(core.tensor(3.0))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            xs, y, aux = called(func, args, kwargs, argnums, has_aux)
            if not isinstance(y, Tensor):
                raise RuntimeError("grad_and_value(f)(*args): Expected f(*args) to return a tensor, got "
                                   f"{type(y).__name__}")  # fmt: skip
            if y.ndim:
                raise RuntimeError(
                    text("grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor with "
                         f"{y.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?", op="grad",
                         came=f"shape {tuple(y.shape)}", remedy="y.sum() or y.mean()")
                )  # fmt: skip
            mine = tensors(xs)
            graph = leads_elsewhere([y], mine)
            found = filled(xs, gradients_of([y], mine, [None], False, graph))
        value = plain(y, graph)
        return found, ((value, plain(aux, graph)) if has_aux else value)

    return wrapper


def grad(func: Func, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Func:
    """Return the function that gives the gradient of `func` with respect to its arguments `argnums`.

    has_aux : `func` returns ``(value, aux)``, and the gradient comes as ``(gradient, aux)``.

    *Raises*: RuntimeError where `func` does not give a 0-d tensor.

    >>> import core
    >>> core.func.grad(core.func.grad(lambda x: x.sin()))(core.tensor(0.5))
    tensor(-0.4794)
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        found, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapper


def vjp(func: Func, *primals: Any, has_aux: bool = False) -> Any:
    """Return the outputs of `func`, and a function that gives the product of a vector with its Jacobian.

    >>> import core
    >>> y, pull = core.func.vjp(lambda x: x**2, core.tensor([1.0, 2.0]))
    >>> pull(core.tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    with enable_grad():
        xs, y, aux = called(func, primals, {}, tuple(range(len(primals))), has_aux)
    mine, ys = tensors(xs), tensors(y)
    graph = leads_elsewhere(ys, mine)

    def pull(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        vs = tensors(cotangents)
        if len(vs) != len(ys):
            raise RuntimeError(f"Expected {len(ys)} cotangents, one for each output, got {len(vs)}")
        further = graph or any(base_of(v).requires_grad for v in vs) if create_graph is None else create_graph
        with enable_grad():
            return filled(xs, gradients_of(ys, mine, vs, retain_graph, further))

    return (plain(y, graph), pull, plain(aux, graph)) if has_aux else (plain(y, graph), pull)


def _tangents_of(op: str, primals: Any, tangents: Any) -> list[Tensor]:
    """Return the tangents in a row. *Raises*: RuntimeError where they are not built and shaped as the primals are."""
    if mapped(type, primals) != mapped(type, tangents):
        raise RuntimeError(
            text(f"{op}: Expected primals and tangents to have the same python structure", op=op,
                 came=f"{mapped(lambda t: type(t).__name__, tangents)}",
                 needed=f"{mapped(lambda t: type(t).__name__, primals)}")
        )  # fmt: skip
    ts = tensors(tangents)
    for x, t in zip(tensors(primals), ts, strict=True):
        if x.shape != t.shape:
            raise RuntimeError(
                text(f"{op}: Trying to set a forward gradient that has a different size than that of the original "
                     "Tensor, this is not supported.", op=op, came=f"a tangent of shape {tuple(t.shape)}",
                     needed=f"{tuple(x.shape)}")
            )  # fmt: skip
    return ts


def jvp(func: Func, primals: tuple[Any, ...], tangents: tuple[Any, ...], *, strict: bool = False,
        has_aux: bool = False) -> Any:  # fmt: skip
    """Return the outputs of `func`, and the product of its Jacobian with `tangents`; by two backward passes.

    strict : an output that does not depend on the inputs is an error, and not a tangent of zeros.

    *Raises*: RuntimeError for tangents of another structure or shape, and for outputs that are not tensors.

    >>> import core
    >>> core.func.jvp(core.sin, (core.tensor(0.0),), (core.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(
            text("jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call "
                 "f(*primals).", op="jvp", came=type(primals).__name__, remedy="(x,)")
        )  # fmt: skip
    ts = _tangents_of("jvp(f, primals, tangents)", primals, tangents)
    with enable_grad():
        xs, y, aux = called(func, primals, {}, tuple(range(len(primals))), has_aux)
        mine, ys = tensors(xs), tensors(y)
        other = next((v for v in leaves(y) if not isinstance(v, Tensor)), None)
        if other is not None:
            raise RuntimeError("jvp(f, primals, tangents): expected f(*primals) to return only tensors, got "
                               f"unsupported type {type(other)}")  # fmt: skip
        if strict and not all(t.requires_grad for t in ys):
            raise RuntimeError("jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
                               "This is not allowed with strict=True.")  # fmt: skip
        graph = leads_elsewhere(ys, mine) or any(base_of(t).requires_grad for t in ts)
        pushed = linear_part(mine, ys)(ts, graph)
    out = (plain(y, graph), filled(y, pushed))
    return (*out, plain(aux, graph)) if has_aux else out


def linearize(func: Func, *primals: Any) -> tuple[Any, Func]:
    """Return the outputs of `func`, and a function of tangents that gives those of the outputs: `jvp` at these inputs,
    without running `func` again.

    >>> import core
    >>> y, push = core.func.linearize(lambda x: x**2, core.tensor([1.0, 2.0]))
    >>> push(core.ones(2)), push(core.tensor([0.0, 10.0]))
    (tensor([2., 4.]), tensor([ 0., 40.]))
    """
    with enable_grad():
        xs, y, _ = called(func, primals, {}, tuple(range(len(primals))), False)
        mine, ys = tensors(xs), tensors(y)
        graph = leads_elsewhere(ys, mine)
        push = linear_part(mine, ys)

    def jvp_fn(*tangents: Any) -> Any:
        ts = _tangents_of("linearize", primals, tangents)
        with enable_grad():
            return filled(y, push(ts, graph or any(base_of(t).requires_grad for t in ts)))

    return plain(y, graph), jvp_fn


def jacrev(func: Func, argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False,
           chunk_size: int | None = None) -> Func:  # fmt: skip
    """Return the function that gives the Jacobian of `func`, one backward pass for each element of the outputs.

    *Shapes*: ``output.shape + input.shape``, in the structure of the outputs and in it that of `argnums`.

    >>> import core
    >>> core.func.jacrev(lambda x: x**2)(core.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            xs, y, aux = called(func, args, kwargs, argnums, has_aux)
            mine = tensors(xs)
            graph = leads_elsewhere(tensors(y), mine)
            found = mapped(lambda t: filled(xs, _jacobian(t, mine, graph)), y)
        return (found, plain(aux, graph)) if has_aux else found

    return wrapper


def _jacobian(y: Tensor, xs: Sequence[Tensor], graph: bool) -> list[Tensor]:
    flat = y.reshape(-1)
    rows = [gradients_of([flat[k]], xs, [None], True, graph) for k in range(y.numel())]
    shape = tuple(y.shape)
    return [
        _f["stack"]([row[j] for row in rows]).reshape((*shape, *x.shape)) if rows
        else zeros((*shape, *x.shape), dtype=x.dtype, device=x.device)
        for j, x in enumerate(xs)
    ]  # fmt: skip


def jacfwd(func: Func, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *,
           randomness: str = "error") -> Func:  # fmt: skip
    """As `jacrev`, column by column where the inputs have fewer elements than the outputs: `func` is run once, and each
    column is one backward pass through its gradient (see `jvp`), so that `func` has to be differentiable twice.

    >>> import core
    >>> core.func.jacfwd(lambda x: x**2)(core.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            xs, y, aux = called(func, args, kwargs, argnums, has_aux)
            mine, ys = tensors(xs), tensors(y)
            graph = leads_elsewhere(ys, mine)
            if sum(x.numel() for x in mine) < sum(t.numel() for t in ys):  # type: ignore[attr-defined]
                columns = iter(_columns(mine, ys, graph))
                found = mapped(lambda t: filled(xs, next(columns)), y)
            else:
                found = mapped(lambda t: filled(xs, _jacobian(t, mine, graph)), y)
        return (found, plain(aux, graph)) if has_aux else found

    return wrapper


def _columns(xs: Sequence[Tensor], ys: Sequence[Tensor], graph: bool) -> list[list[Tensor]]:
    """For each output its Jacobians with respect to `xs`, made of the tangents of all outputs for each element."""
    push = linear_part(xs, ys)
    rest = [zeros(x.shape, dtype=x.dtype, device=x.device) for x in xs]
    found: list[list[Tensor]] = [[] for _ in ys]
    for j, x in enumerate(xs):
        ones = eye(x.numel(), dtype=x.dtype, device=x.device)  # type: ignore[attr-defined]
        pushed = [push([*rest[:j], one.reshape(x.shape), *rest[j + 1 :]], graph) for one in ones]
        for i, y in enumerate(ys):
            shape = (*y.shape, *x.shape)
            found[i].append(
                _f["stack"]([p[i] for p in pushed], -1).reshape(shape) if pushed
                else zeros(shape, dtype=y.dtype, device=y.device)
            )  # fmt: skip
    return found


def hessian(func: Func, argnums: int | tuple[int, ...] = 0) -> Func:
    """Return the function that gives the second derivatives of `func`, by two backward passes; forward over reverse,
    which `jacfwd` makes of backward passes too, would be three.

    >>> import core
    >>> core.func.hessian(lambda x: (x**3).sum())(core.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacrev(jacrev(func, argnums), argnums)


# -- batching -------------------------------------------------------------------------------------------------------


def vmap(func: Func, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
         chunk_size: int | None = None) -> Func:  # fmt: skip
    """`func`, written for one example, for a batch of them.

    in_dims : which dimension of each argument runs over the examples (None: the same for all); nested as they are.
    out_dims : where that dimension goes in the outputs.
    randomness : taken for PyTorch's sake. What `func` draws is drawn once and is the same for all examples, except
        that dropout of a batched tensor differs between them.
    chunk_size : so many examples at a time.

    *Raises*: ValueError for batches of different sizes; RuntimeError for what needs to see values (``if x > 0``,
    ``x.item()``).

    >>> import core
    >>> core.func.vmap(lambda x, y: x @ y)(core.ones(3, 2), core.ones(3, 2))
    tensor([2., 2., 2.])
    >>> core.func.vmap(core.func.grad(lambda x: (x**3).sum()))(core.tensor([[1.0], [2.0]]))
    tensor([[ 3.],
            [12.]])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        dims = _paired(tuple(in_dims) if isinstance(in_dims, list) else in_dims, args)
        sizes = [t.shape[d] for t, d in dims if d is not None]
        if not sizes:
            raise ValueError("vmap(f, in_dims, ...)(*inputs): at least one input must have a dimension to map over")
        if len(set(sizes)) > 1:
            raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                             f"{sizes} for the mapped dimension")  # fmt: skip
        size = sizes[0]
        if chunk_size is None or size <= chunk_size:
            return _batch(func, args, kwargs, [d for _, d in dims], out_dims, size)
        parts = []
        for start in range(0, size, chunk_size):
            n = min(chunk_size, size - start)
            cut = iter([t if d is None else t.narrow(d, start, n) for t, d in dims])
            piece = mapped(lambda _, cut=cut: next(cut), args)
            parts.append(_batch(func, piece, kwargs, [d for _, d in dims], out_dims, n))
        columns = zip(*(leaves(p) for p in parts), strict=True)
        places = iter(_out_dims(parts[0], out_dims))
        joined = iter([_f["cat"](list(c), next(places) or 0) for c in columns])
        return mapped(lambda _: next(joined), parts[0])

    return wrapper


def _paired(in_dims: Any, args: Any) -> list[tuple[Any, int | None]]:
    """Every leaf of the arguments with its dimension, counted from the front."""
    if isinstance(args, tuple | list | dict) and not isinstance(in_dims, int | None):
        values = list(args.values()) if isinstance(args, dict) else list(args)
        each = [in_dims[k] for k in args] if isinstance(args, dict) else list(in_dims)
        if len(each) != len(values):
            raise ValueError(
                text(f"vmap: in_dims is not compatible with the structure of inputs. Got in_dims={in_dims}", op="vmap",
                     came=f"{len(values)} inputs", needed="an entry for each of them")
            )  # fmt: skip
        return [pair for d, v in zip(each, values, strict=True) for pair in _paired(d, v)]
    out: list[tuple[Any, int | None]] = []
    for leaf in leaves(args):
        if in_dims is None or not isinstance(leaf, Tensor):
            out.append((leaf, None))
            continue
        if not -leaf.ndim <= in_dims < leaf.ndim:
            raise ValueError(
                text(f"vmap: Got in_dim={in_dims} for an input, but that input is a Tensor of dimensionality "
                     f"{leaf.ndim}", op="vmap", came=f"shape {tuple(leaf.shape)}")
            )  # fmt: skip
        out.append((leaf, in_dims % leaf.ndim))
    return out


def _batch(func: Func, args: Any, kwargs: dict[str, Any], dims: list[int | None], out_dims: Any, size: int) -> Any:
    state = handler()
    outer = state.sizes
    try:
        level = len(outer) + 1
        state.sizes = [*outer, size]
        each = iter(dims)

        def inside(leaf: Any) -> Any:
            d = next(each)
            return leaf if d is None else batched(leaf.movedim(d, 0) if d else leaf, level)

        result = func(*mapped(inside, args), **kwargs)
        places = iter(_out_dims(result, out_dims))

        def outside(leaf: Any) -> Any:
            d = next(places)
            if not isinstance(leaf, Tensor):
                raise ValueError(f"vmap: the mapped function must return Tensors, got type {type(leaf).__name__}")
            if d is None:
                if isinstance(leaf, Batched) and leaf._level == level:
                    raise ValueError("vmap: out_dims is None for an output that differs between the examples")
                return leaf
            full = full_of(leaf, level, size)
            return full if d == 0 else full.movedim(0, d)

        return mapped(outside, result)
    finally:
        state.sizes = outer  # no call here: Ctrl-C would leave the rest out
        if not outer and mode.batch is state:
            mode.batch = None  # ops take their quick way again


def _out_dims(result: Any, out_dims: Any) -> list[int | None]:
    if isinstance(out_dims, tuple | list) and isinstance(result, tuple | list):
        return [d for r, o in zip(result, out_dims, strict=True) for d in _out_dims(r, o)]
    return [out_dims] * len(leaves(result))


__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
           "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap"]  # fmt: skip
