"""Matrix products."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..base.dtypes import float32
from ..base.errors import text
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.publish import bind, bind_operator, public
from ..tensors.tensor import Tensor
from .precision import rounded, wide

# -- the general product -----------------------------------------------------------------------------------------------


def _matmul_forward(xp: Any, a: Any, b: Any) -> Any:
    return rounded(xp.matmul(wide(a), wide(b)), a.dtype)


def _matmul_a(g: Tensor, b: Tensor, a_shape: tuple[int, ...]) -> Tensor:
    return matmul(g, b.mT).sum_to_size(a_shape)


def _matmul_b(g: Tensor, a: Tensor, b_shape: tuple[int, ...]) -> Tensor:
    return matmul(a.mT, g).sum_to_size(b_shape)


def _samples(rng: Any) -> list[Any]:
    shapes = [((2, 3), (3, 4)), ((2, 2, 3), (3, 4)), ((2, 1, 2, 3), (3, 3, 2))]
    return [((rng.uniform(-1, 1, a), rng.uniform(-1, 1, b)), {}) for a, b in shapes]


_matmul = operation("matmul", _matmul_forward, inputs="a b", shape="(m,k),(k,n)->(m,n)", vjp=(_matmul_a, _matmul_b),
                    samples=_samples, contiguous=True)  # fmt: skip


def _sizes(t: Tensor) -> str:
    return "x".join(map(str, t._a.shape if t.ndim > 1 else (1, *t._a.shape)))


def _need_tensors(op: str, *named: tuple[str, Any]) -> None:
    for i, (name, t) in enumerate(named):
        if not isinstance(t, Tensor):
            raise TypeError(f"{op}(): argument '{name}' (position {i + 1}) must be Tensor, not {type(t).__name__}")


def _need_one_dtype(op: str, a: Tensor, b: Tensor) -> None:
    if a._kind is not b._kind and a.dtype is not b.dtype:
        raise RuntimeError(
            text(
                f"expected m1 and m2 to have the same dtype, but got: {a.dtype.c_type} != {b.dtype.c_type}",
                op=op,
                came=f"{a.dtype} and {b.dtype}",
                remedy=f"input.to({b.dtype!r})",
            )
        )


def _need_inner(op: str, a: Tensor, b: Tensor, have: int, want: int, remedy: str) -> None:
    if have != want:
        raise RuntimeError(text(f"mat1 and mat2 shapes cannot be multiplied ({_sizes(a)} and {_sizes(b)})", op=op,
                                came=f"{tuple(a._a.shape)} @ {tuple(b._a.shape)}",
                                needed=f"equal inner sizes, not {have} and {want}", remedy=remedy))  # fmt: skip


def _product(op: str, a: Tensor, b: Tensor) -> Tensor:
    """Return the product after all checks; vectors are made matrices and taken back."""
    if a.dtype.category == 0 and a.numel() and b.numel():
        raise NotImplementedError(
            text("\"addmm_impl_cpu_\" not implemented for 'Bool'", op=op, remedy="x.float() @ y.float()")
        )
    if a.ndim > 1 and b.ndim > 1:
        return _matmul(a, b)
    row, column = a.ndim == 1, b.ndim == 1
    y = _matmul(a.reshape(1, -1) if row else a, b.reshape(-1, 1) if column else b)
    shape = tuple(y.shape)
    shape = shape[:-2] + (() if row else (shape[-2],)) + (() if column else (shape[-1],))
    y = y.reshape(shape)
    y._base = None  # of nothing that anybody else can see
    return y


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Return the matrix product; of vectors the inner product, of stacks of matrices one product each.

    *Shapes*: ``(..., m, k) @ (..., k, n) -> (..., m, n)``, leading dimensions broadcast; a vector on the left is a row,
    on the right a column. *Raises*: RuntimeError where the inner sizes or the dtypes differ.

    >>> import core
    >>> core.matmul(core.tensor([[1.0, 2.0]]), core.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    a, b = input, other
    if not isinstance(b, Tensor) or not isinstance(a, Tensor):
        _need_tensors("matmul", ("input", a), ("other", b))
    if a.ndim == 0 or b.ndim == 0:
        raise RuntimeError(text("both arguments to matmul need to be at least 1D, but they are "
                                f"{a.ndim}D and {b.ndim}D", op="matmul", remedy="x * y for a scalar"))  # fmt: skip
    _need_one_dtype("matmul", a, b)
    inner = b._a.shape[-2 if b.ndim > 1 else 0]
    if a._a.shape[-1] != inner:
        if a.ndim > 2 and b.ndim > 2:
            phrase = (
                f"Expected size for first two dimensions of batch2 tensor to be: [{b._a.shape[0]}, {a._a.shape[-1]}] "
                f"but got: [{b._a.shape[0]}, {inner}]."
            )
            raise RuntimeError(text(phrase, op="matmul", came=f"{tuple(a._a.shape)} @ {tuple(b._a.shape)}",
                                    needed=f"equal inner sizes, not {a._a.shape[-1]} and {inner}"))  # fmt: skip
        if a.ndim == 1 and b.ndim == 1:
            raise RuntimeError(_unequal(a, b))
        if b.ndim == 1 and a.ndim == 2:
            raise RuntimeError(_no_mv(a, b))
        _need_inner("matmul", a, b, a._a.shape[-1], inner, "transpose one (.mT), or check the layer's in_features")
    return _product("matmul", a, b)


matmul = bind(
    matmul,
    "matmul",
    home="matmul",
    fast=[Fast(body="product(op.matmul, input, other)", types={"input": "real", "other": "real"})],
)
bind_operator("matmul", matmul)


# -- products of given ranks -------------------------------------------------------------------------------------------


@public(
    home="matmul", fast=[Fast(body="ranked(op.matmul, input, mat2, 2, 2)", types={"input": "real", "mat2": "real"})]
)
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of two matrices; nothing broadcasts.

    *Shapes*: ``(m, k) @ (k, n) -> (m, n)``.

    >>> import core
    >>> core.mm(core.tensor([[1.0, 2.0]]), core.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    _need_tensors("mm", ("input", input), ("mat2", mat2))
    for name, t in (("self", input), ("mat2", mat2)):
        if t.ndim != 2:
            raise RuntimeError(text(f"{name} must be a matrix", op="mm", came=f"shape {tuple(t.shape)}",
                                    remedy="matmul takes vectors and stacks too"))  # fmt: skip
    _need_one_dtype("mm", input, mat2)
    _need_inner("mm", input, mat2, input._a.shape[1], mat2._a.shape[0], "transpose one (.mT)")
    return _product("mm", input, mat2)


@public(
    home="matmul", fast=[Fast(body="ranked(op.matmul, input, mat2, 3, 3)", types={"input": "real", "mat2": "real"})]
)
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the products of two stacks of matrices, one by one; nothing broadcasts.

    *Shapes*: ``(b, m, k) @ (b, k, n) -> (b, m, n)``.

    >>> import core
    >>> core.bmm(core.ones(2, 1, 3), core.ones(2, 3, 1)).shape
    core.Size([2, 1, 1])
    """
    _need_tensors("bmm", ("input", input), ("mat2", mat2))
    for name, t in (("batch1", input), ("batch2", mat2)):
        if t.ndim != 3:
            raise RuntimeError(text(f"{name} must be a 3D tensor", op="bmm", came=f"shape {tuple(t.shape)}",
                                    remedy="matmul broadcasts stacks"))  # fmt: skip
    want, have = [input._a.shape[0], input._a.shape[2]], list(mat2._a.shape[:2])
    if want != have:
        raise RuntimeError(
            text(
                f"Expected size for first two dimensions of batch2 tensor to be: {want} but got: {have}.",
                op="bmm",
                came=f"{tuple(input.shape)} @ {tuple(mat2.shape)}",
            )
        )
    if input.dtype is not mat2.dtype:
        raise RuntimeError(
            text(
                f"expected scalar type {input.dtype.scalar_type} but found {mat2.dtype.scalar_type}",
                op="bmm",
                remedy=f"x.to({input.dtype!r})",
            )
        )
    return _product("bmm", input, mat2)


def _no_mv(a: Tensor, b: Tensor) -> str:
    m, k = a._a.shape
    return text(f"size mismatch, got input ({m}), mat ({m}x{k}), vec ({b._a.shape[0]})", op="mv",
                came=f"{tuple(a.shape)} @ {tuple(b.shape)}", needed=f"a vector of {k} elements")  # fmt: skip


@public(home="matmul", fast=[Fast(body="ranked(op.matmul, input, vec, 2, 1)", types={"input": "real", "vec": "real"})])
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Return a matrix times a vector.

    *Shapes*: ``(m, k) @ (k) -> (m)``.

    >>> import core
    >>> core.mv(core.tensor([[1.0, 2.0], [3.0, 4.0]]), core.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    _need_tensors("mv", ("input", input), ("vec", vec))
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(text(f"vector + matrix @ vector expected, got 1, {input.ndim}, {vec.ndim}", op="mv",
                                came=f"{tuple(input.shape)} @ {tuple(vec.shape)}"))  # fmt: skip
    if input._a.shape[1] != vec._a.shape[0]:
        raise RuntimeError(_no_mv(input, vec))
    if input.dtype is not vec.dtype:
        a, b = input.dtype.scalar_type, vec.dtype.scalar_type
        raise RuntimeError(text(f"addmv input tensors must have the same dtype, but got {b}, {a}, and {b}", op="mv"))
    return _product("mv", input, vec)


def _unequal(a: Tensor, b: Tensor) -> str:
    n, m = a._a.shape[0], b._a.shape[0]
    return text(
        f"inconsistent tensor size, expected tensor [{n}] and src [{m}] to have the same number of elements, but got "
        f"{n} and {m} elements respectively",
        op="dot",
    )


@public(
    home="matmul", fast=[Fast(body="ranked(op.matmul, input, tensor, 1, 1)", types={"input": "real", "tensor": "real"})]
)
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Return the inner product of two vectors.

    >>> import core
    >>> core.dot(core.tensor([1.0, 2.0]), core.tensor([3.0, 4.0]))
    tensor(11.)
    """
    _need_tensors("dot", ("input", input), ("tensor", tensor))
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(text(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors", op="dot",
                                remedy="x.flatten(), or matmul for matrices"))  # fmt: skip
    if input.dtype is not tensor.dtype:
        raise RuntimeError(text("dot : expected both vectors to have same dtype, but found "
                                f"{input.dtype.scalar_type} and {tensor.dtype.scalar_type}", op="dot"))  # fmt: skip
    if input.shape != tensor.shape:
        raise RuntimeError(_unequal(input, tensor))
    return _product("dot", input, tensor)


@public("ger", home="rearranged", state="quiet",
        fast=[Fast(body="outer_of(input, vec2)", types={"input": "real", "vec2": "real"})])  # fmt: skip
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """Return the outer product of two vectors.

    *Shapes*: ``(m), (n) -> (m, n)``.

    >>> import core
    >>> core.outer(core.tensor([1.0, 2.0]), core.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    _need_tensors("outer", ("input", input), ("vec2", vec2))
    for name, t in (("self", input), ("vec2", vec2)):
        if t.ndim != 1:
            raise RuntimeError(text(f"outer: Expected 1-D argument {name}, but got {t.ndim}-D", op="outer"))
    return input.reshape(-1, 1) * vec2


def _scaled_sum(input: Tensor, product: Callable[[Any, Any], Tensor], a: Tensor, b: Tensor, beta: float,
                alpha: float) -> Tensor:  # fmt: skip
    """beta * input + alpha * product(a, b); half-precision numbers are summed in float32 and rounded once."""
    d = a.dtype
    if d.category == 2 and d.itemsize == 2 and input.dtype is b.dtype is d:
        return _sum_of(input.to(float32), product(a.to(float32), b.to(float32)), beta, alpha).to(d)  # type: ignore[attr-defined,no-any-return]
    return _sum_of(input, product(a, b), beta, alpha)


def _sum_of(input: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    if product.dtype.category == 1:  # of integers the factors are integers too
        beta, alpha = int(beta), int(alpha)
    y = product if alpha == 1 else product * alpha
    input = input.expand(tuple(y.shape))
    if beta == 0:  # a NaN in the input is then not to be seen
        return y
    return y + (input if beta == 1 else input * beta)


@public(inplace=True, home="matmul",
        fast=[Fast(body="sum_with_product(op.matmul, input, mat1, mat2, beta, alpha)",
                   types={"input": "real", "mat1": "real", "mat2": "real"})])  # fmt: skip
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2); `input` broadcasts to the product's shape.

    >>> import core
    >>> core.addmm(core.tensor([1.0]), core.ones(1, 2), core.ones(2, 1))
    tensor([[3.]])
    """
    _need_tensors("addmm", ("input", input), ("mat1", mat1), ("mat2", mat2))
    if input.dtype is not mat2.dtype or mat1.dtype is not mat2.dtype:
        odd = mat1 if input.dtype is mat2.dtype else input
        raise RuntimeError(text(f"self and mat2 must have the same dtype, but got {odd.dtype.scalar_type} and "
                                f"{mat2.dtype.scalar_type}", op="addmm"))  # fmt: skip
    for name, t in (("mat1", mat1), ("mat2", mat2)):
        if t.ndim != 2:
            raise RuntimeError(text(f"{name} must be a matrix, got {t.ndim}-D tensor", op="addmm"))
    _need_inner("addmm", mat1, mat2, mat1._a.shape[1], mat2._a.shape[0], "transpose one (.mT)")
    return _scaled_sum(input, partial(_product, "addmm"), mat1, mat2, beta, alpha)


@public(inplace=True)
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * bmm(batch1, batch2); `input` broadcasts to the products' shape.

    >>> import core
    >>> core.baddbmm(core.ones(1), core.ones(2, 1, 3), core.ones(2, 3, 1)).shape
    core.Size([2, 1, 1])
    """
    _need_tensors("baddbmm", ("input", input), ("batch1", batch1), ("batch2", batch2))
    return _scaled_sum(input, bmm, batch1, batch2, beta, alpha)


# -- the layer's product -----------------------------------------------------------------------------------------------


def _linear_forward(xp: Any, x: Any, weight: Any, bias: Any) -> Any:
    y = xp.matmul(wide(x), wide(weight).T)
    if bias is not None:
        y += wide(bias)
    return rounded(y, x.dtype)


def _linear_x(g: Tensor, weight: Tensor) -> Tensor:
    return matmul(g, weight)


def _linear_weight(g: Tensor, x: Tensor) -> Tensor:
    rows = g.reshape(-1, g._a.shape[-1])
    return matmul(rows.mT, x.reshape(rows._a.shape[0], x._a.shape[-1]))


def _linear_bias(g: Tensor) -> Tensor:
    return g if g.ndim == 1 else g.reshape(-1, g._a.shape[-1]).sum(0)


def _linear_samples(rng: Any) -> list[Any]:
    sets = [((2, 3), True), ((2, 3), False), ((3,), True), ((2, 2, 3), True)]
    return [
        ((rng.uniform(-1, 1, s), rng.uniform(-1, 1, (4, 3)), rng.uniform(-1, 1, 4) if b else None), {}) for s, b in sets
    ]


_linear = operation("linear", _linear_forward, inputs="x weight bias?", vjp=(_linear_x, _linear_weight, _linear_bias),
                    samples=_linear_samples, contiguous=True)  # fmt: skip


@public(method=False, namespace="nn.functional", home="matmul",
        fast=[Fast(op="linear(input, weight, bias)", types={"input": "real", "weight": "real", "bias": "real"},
                   check=("is_layer(input, weight, bias)",))])  # fmt: skip
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``, the layer of a network.

    *Shapes*: input ``(..., in)``, weight ``(out, in)`` or ``(in)``, bias ``(out)`` -> ``(..., out)``.
    *Raises*: RuntimeError where the sizes or the dtypes do not fit.

    >>> import core
    >>> core.nn.functional.linear(core.tensor([[1.0, 2.0]]), core.tensor([[3.0, 4.0]]), core.tensor([0.5]))
    tensor([[11.5000]])
    """
    _need_tensors("linear", ("input", input), ("weight", weight))
    if input.ndim == 0 or weight.ndim == 0:
        raise RuntimeError(text(f"both arguments to linear need to be at least 1D, but they are {input.ndim}D and "
                                f"{weight.ndim}D", op="linear"))  # fmt: skip
    _need_one_dtype("linear", input, weight)
    if weight.ndim == 1:
        y = matmul(input, weight)
        return y if bias is None else y + bias
    inner = weight._a.shape[1]
    if input._a.shape[-1] != inner:
        rows = input._a.size // max(1, input._a.shape[-1])
        phrase = (
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{input._a.shape[-1]} and {inner}x{weight._a.shape[0]})"
        )
        raise RuntimeError(
            text(
                phrase,
                op="linear",
                came=f"input {tuple(input.shape)}, weight {tuple(weight.shape)}",
                needed=f"an input whose last size is {inner} (in_features)",
                remedy=f"a layer of in_features={input._a.shape[-1]}, or reshape the input",
            )
        )
    if bias is not None:
        if bias.dtype is not input.dtype:
            raise RuntimeError(
                text(
                    f"self and mat2 must have the same dtype, but got {bias.dtype.scalar_type} and "
                    f"{input.dtype.scalar_type}",
                    op="linear",
                    came=f"bias of {bias.dtype}",
                )
            )
        if bias._a.shape != weight._a.shape[:1]:
            out = weight._a.shape[0]
            if bias._a.size != 1:
                rows = input._a.size // max(1, inner)
                raise RuntimeError(
                    text(
                        f"The expanded size of the tensor ({out}) must match the existing size ({bias._a.size}) at "
                        f"non-singleton dimension 1.  Target sizes: [{rows}, {out}].  Tensor sizes: "
                        f"{list(bias.shape)}",
                        op="linear",
                        needed=f"a bias of {out} elements (out_features)",
                    )
                )
            bias = bias.reshape(1).expand(out)
    return _linear(input, weight, bias)
