"""PyTorch's ``func``: gradients, Jacobians and batching as functions of functions, free to be nested.

Derivatives go backwards only: `jvp` and `jacfwd` are made of two backward passes. `vmap` runs each op once for the
whole batch where the op has a rule (elementwise, reductions, products, movement, indexing), example by example where
it has none; see `core.dispatch.vmap`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from . import autograd
from .base.errors import text
from .base.modes import enable_grad
from .base.modes import state as mode
from .declare.op import functions as _f
from .dispatch.vmap import Batched, batched, full_of, handler
from .graph.versions import edge
from .nn.functional_call import functional_call, replace_all_batch_norm_modules_, stack_module_state
from .ops.creation import ones_like, zeros, zeros_like
from .tensors.tensor import Tensor

Func = Callable[..., Any]

# -- nested structures ----------------------------------------------------------------------------------------------


def _flat(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for v in tree.values() for leaf in _flat(v)]
    return [leaf for v in tree for leaf in _flat(v)] if isinstance(tree, tuple | list) else [tree]


def _map(function: Func, tree: Any) -> Any:
    if isinstance(tree, dict):
        return {k: _map(function, v) for k, v in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_map(function, v) for v in tree))
    return type(tree)(_map(function, v) for v in tree) if isinstance(tree, tuple | list) else function(tree)


def _tensors(tree: Any) -> list[Tensor]:
    return [t for t in _flat(tree) if isinstance(t, Tensor)]


# -- derivatives ----------------------------------------------------------------------------------------------------


def _base(t: Any) -> Any:
    """Return the tensor at the bottom of all levels of batching."""
    while isinstance(t, Batched):
        t = t._full
    return t


def _like(t: Tensor, base: Tensor) -> Tensor:
    """`base` at the levels of batching that `t` has."""
    return batched(_like(t._full, base), t._level) if isinstance(t, Batched) else base


def _fresh(x: Any) -> Any:
    """Return an input of our own: a leaf, or where the caller differentiates too, a computed tensor. It is batched
    at every level that is open, so that each example has its own gradient."""
    if not isinstance(x, Tensor):
        return x
    sizes = mode.batch.sizes if mode.batch is not None else []
    t, levels = x, {b._level for b in _chain(x)}
    for level, size in enumerate(sizes, 1):
        if level not in levels:
            t = _stretched(t, level, size)
    base = _base(t)
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


def _called(func: Func, args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Any, has_aux: bool) -> Any:
    """Run `func` on inputs of our own: those inputs, its result, the extra."""
    many = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for n in many:
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"Got argnum={n}, but only {len(args)} positional inputs")
    places = [n % len(args) for n in many]
    given = tuple(_map(_fresh, a) if i in places else a for i, a in enumerate(args))
    result = func(*given, **kwargs)
    aux = None
    if has_aux:
        if not isinstance(result, tuple) or len(result) != 2:
            raise RuntimeError("grad_and_value(f)(*args): output of function f should be a tuple: (output, aux) if "
                               "has_aux is True")  # fmt: skip
        result, aux = result
    wanted = [given[n] for n in places]
    return (wanted[0] if isinstance(argnums, int) else tuple(wanted)), result, aux


def _others(ys: Sequence[Tensor], mine: Sequence[Tensor]) -> bool:
    """Return whether a graph leads to tensors that are not ours, so that somebody may differentiate further."""
    own = {id(_base(t)) for t in mine}
    if any(_base(t)._node is not None for t in mine):
        return True
    stack = [edge(_base(y)) for y in ys]
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


def _gradients(ys: Sequence[Tensor], xs: Sequence[Tensor], vs: Sequence[Tensor | None], keep: bool,
               create_graph: bool) -> list[Tensor]:  # fmt: skip
    """Gradients with respect to `xs`; zeros where no path leads."""
    roots, seeds = [], []
    for y, v in zip(ys, vs, strict=True):
        if y.requires_grad:
            base = _base(y)
            seed = ones_like(base) if v is None else _matched(v, y)
            roots.append(base)
            seeds.append(seed)
    bases = [_base(x) for x in xs]
    found: Sequence[Tensor | None] = [None] * len(xs)
    if roots:
        found = autograd.grad(roots, bases, seeds, retain_graph=keep or create_graph, create_graph=create_graph,
                              allow_unused=True)  # fmt: skip
    return [_like(x, zeros_like(b) if g is None else g) for x, b, g in zip(xs, bases, found, strict=True)]


def _matched(v: Tensor, y: Tensor) -> Tensor:
    """Return the bottom of a vector, batched at the levels of `y`."""
    if not isinstance(y, Batched):
        return v
    full = full_of(v, y._level, y._full.shape[0]) if not (isinstance(v, Batched) and v._level == y._level) else v._full
    return _matched(full, y._full)


def _plain(tree: Any, graph: bool) -> Any:
    return tree if graph else _map(lambda t: t.detach() if isinstance(t, Tensor) else t, tree)


def _filled(tree: Any, values: Sequence[Any]) -> Any:
    it = iter(values)
    return _map(lambda t: next(it) if isinstance(t, Tensor) else t, tree)


def grad_and_value(func: Func, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Func:
    """As `grad`, together with the value: ``(gradient, value)``, with `has_aux` ``(gradient, (value, aux))``.

    >>> import core
    >>> core.func.grad_and_value(lambda x: x**2)(core.tensor(3.0))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            xs, y, aux = _called(func, args, kwargs, argnums, has_aux)
            if not isinstance(y, Tensor):
                raise RuntimeError("grad_and_value(f)(*args): Expected f(*args) to return a tensor, got "
                                   f"{type(y).__name__}")  # fmt: skip
            if y.ndim:
                raise RuntimeError(
                    text("grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor with "
                         f"{y.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?", op="grad",
                         came=f"shape {tuple(y.shape)}", remedy="y.sum() or y.mean()")
                )  # fmt: skip
            mine = _tensors(xs)
            graph = _others([y], mine)
            found = _filled(xs, _gradients([y], mine, [None], False, graph))
        value = _plain(y, graph)
        return found, ((value, _plain(aux, graph)) if has_aux else value)

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
        xs, y, aux = _called(func, primals, {}, tuple(range(len(primals))), has_aux)
    mine, ys = _tensors(xs), _tensors(y)
    graph = _others(ys, mine)

    def pull(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        vs = _tensors(cotangents)
        if len(vs) != len(ys):
            raise RuntimeError(f"Expected {len(ys)} cotangents, one for each output, got {len(vs)}")
        further = graph or any(_base(v).requires_grad for v in vs) if create_graph is None else create_graph
        with enable_grad():
            return _filled(xs, _gradients(ys, mine, vs, retain_graph, further))

    return (_plain(y, graph), pull, _plain(aux, graph)) if has_aux else (_plain(y, graph), pull)


def jvp(func: Func, primals: tuple[Any, ...], tangents: tuple[Any, ...], *, strict: bool = False,
        has_aux: bool = False) -> Any:  # fmt: skip
    """Return the outputs of `func`, and the product of its Jacobian with `tangents`; by two backward passes.

    >>> import core
    >>> core.func.jvp(core.sin, (core.tensor(0.0),), (core.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    with enable_grad():
        xs, y, aux = _called(func, tuple(primals), {}, tuple(range(len(primals))), has_aux)
        mine, ys, ts = _tensors(xs), _tensors(y), _tensors(tangents)
        graph = _others(ys, mine) or any(_base(t).requires_grad for t in ts)
        us = [_fresh(zeros_like(t.detach())) for t in ys]
        slopes = _gradients(ys, mine, us, True, True)
        pushed = _gradients(slopes, us, ts, True, graph)
    out = (_plain(y, graph), _filled(y, pushed))
    return (*out, _plain(aux, graph)) if has_aux else out


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
            xs, y, aux = _called(func, args, kwargs, argnums, has_aux)
            mine = _tensors(xs)
            graph = _others(_tensors(y), mine)
            found = _map(lambda t: _filled(xs, _jacobian(t, mine, graph)), y)
        return (found, _plain(aux, graph)) if has_aux else found

    return wrapper


def _jacobian(y: Tensor, xs: Sequence[Tensor], graph: bool) -> list[Tensor]:
    flat = y.reshape(-1)
    rows = [_gradients([flat[k]], xs, [None], True, graph) for k in range(y.numel())]
    shape = tuple(y.shape)
    return [
        _f["stack"]([row[j] for row in rows]).reshape((*shape, *x.shape)) if rows
        else zeros((*shape, *x.shape), dtype=x.dtype, device=x.device)
        for j, x in enumerate(xs)
    ]  # fmt: skip


def jacfwd(func: Func, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *,
           randomness: str = "error") -> Func:  # fmt: skip
    """As `jacrev`, which makes the same matrix: derivatives go backwards only in this package.

    >>> import core
    >>> core.func.jacfwd(lambda x: x**2)(core.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func: Func, argnums: int | tuple[int, ...] = 0) -> Func:
    """Return the function that gives the second derivatives of `func`.

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
            piece = _map(lambda _, cut=cut: next(cut), args)
            parts.append(_batch(func, piece, kwargs, [d for _, d in dims], out_dims, n))
        columns = zip(*(_flat(p) for p in parts), strict=True)
        places = iter(_out_dims(parts[0], out_dims))
        joined = iter([_f["cat"](list(c), next(places) or 0) for c in columns])
        return _map(lambda _: next(joined), parts[0])

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
    for leaf in _flat(args):
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

        result = func(*_map(inside, args), **kwargs)
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

        return _map(outside, result)
    finally:
        state.sizes = outer  # no call here: Ctrl-C would leave the rest out
        if not outer and mode.batch is state:
            mode.batch = None  # ops take their quick way again


def _out_dims(result: Any, out_dims: Any) -> list[int | None]:
    if isinstance(out_dims, tuple | list) and isinstance(result, tuple | list):
        return [d for r, o in zip(result, out_dims, strict=True) for d in _out_dims(r, o)]
    return [out_dims] * len(_flat(result))


__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
           "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap"]  # fmt: skip
