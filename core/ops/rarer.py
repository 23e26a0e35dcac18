"""Functions of nn.functional that are written in other ops."""

from __future__ import annotations

import math
from itertools import pairwise

from ..base.errors import text
from ..dispatch.inplace import write
from ..dispatch.publish import bind, public
from ..tensors.tensor import Tensor
from .creation import empty_like, ones, tensor, zeros
from .dropout import _ALPHA, _run, _thinned
from .elementwise import leaky_relu
from .embedding import embedding
from .joining import stack
from .linalg import matmul
from .padding import pad
from .softmax import softmax
from .where import where


@public(method=False)
@public(method=False, namespace="nn.functional")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x1ᵀ W_o x2 + b_o for every output o.

    *Shapes*: ``(..., i), (..., j), (o, i, j) -> (..., o)``. *Raises*: RuntimeError for sizes that do not fit.

    >>> import core
    >>> core.nn.functional.bilinear(core.ones(1, 2), core.ones(1, 3), core.ones(4, 2, 3))
    tensor([[6., 6., 6., 6.]])
    """
    if input1.ndim != input2.ndim or input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(text("bilinear(): input batch dimensions do not match", op="bilinear",
                                came=f"{tuple(input1.shape)} and {tuple(input2.shape)}"))  # fmt: skip
    for k, x in enumerate((input1, input2), 1):
        if x.shape[-1] != weight.shape[k]:
            raise RuntimeError(text(f"bilinear(): input{k} size does not match weight size: got {x.shape[-1]} but "
                                    f"expected {weight.shape[k]}", op="bilinear"))  # fmt: skip
    lead = tuple(input1.shape[:-1])
    a, b = input1.reshape(-1, input1.shape[-1]), input2.reshape(-1, input2.shape[-1])  # type: ignore[attr-defined]
    y = (matmul(a, weight) * b).sum(-1).t().reshape(*lead, weight.shape[0])
    return y if bias is None else y + bias  # type: ignore[no-any-return]


@public(method=False)
@public(method=False, namespace="nn.functional")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Return the p-norm distance of every pair of rows, in the order (0, 1), (0, 2), ..., (1, 2), ...

    >>> import core
    >>> core.nn.functional.pdist(core.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    if input.ndim != 2:
        raise RuntimeError(text(f"pdist only supports 2D tensors, got: {input.ndim}D", op="pdist"))
    n = input.shape[0]
    first = tensor([i for i in range(n) for _ in range(i + 1, n)]).long()  # type: ignore[attr-defined]
    second = tensor([j for i in range(n) for j in range(i + 1, n)]).long()  # type: ignore[attr-defined]
    return (input[first] - input[second]).norm(p, 1)  # type: ignore[attr-defined, no-any-return]


@public(method=False, namespace="nn.functional")
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Each channel divided by (k + alpha · the mean square of `size` neighbouring channels)^beta.

    *Shapes*: ``(n, c, ...)``. *Raises*: ValueError for fewer than three dimensions. Source: Krizhevsky et al., 2012.

    >>> import core
    >>> core.nn.functional.local_response_norm(core.ones(1, 2, 1), 2, alpha=1.0)
    tensor([[[0.7378],
             [0.5946]]])
    """
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)\n"
                         "  op: local_response_norm")  # fmt: skip
    if not input.numel():
        return input
    squares = pad(input * input, (0, 0) * (input.ndim - 2) + (size // 2, (size - 1) // 2))
    n = input.shape[1]
    mean = sum((squares.narrow(1, i, n) for i in range(1, size)), squares.narrow(1, 0, n)) / size
    return input / (mean * alpha + k) ** beta  # type: ignore[no-any-return]


@public(method=False, namespace="nn.functional")
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Return a draw from the Gumbel-Softmax distribution; a `hard` one is one-hot with the soft one's gradient.

    Source: arXiv 1611.01144.

    >>> import core
    >>> core.nn.functional.gumbel_softmax(core.zeros(4), hard=True).sum()
    tensor(1.)
    """
    noise = -empty_like(logits).exponential_().log()  # type: ignore[attr-defined]
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    at = soft.max(dim, keepdim=True)[1]  # type: ignore[attr-defined]
    return zeros(tuple(logits.shape), dtype=soft.dtype, device=soft.device).scatter(dim, at, 1.0) - soft.detach() + soft  # type: ignore[attr-defined, no-any-return]


@public(method=False, namespace="nn.functional")
def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """x above 0, below it x times a slope: drawn between `lower` and `upper` in training, else their mean.

    Source: arXiv 1505.00853.

    >>> import core
    >>> core.nn.functional.rrelu(core.tensor([-4.0, 2.0]), 0.25, 0.75)
    tensor([-2.,  2.])
    """
    for name, bound in (("lower", lower), ("upper", upper)):
        if not math.isfinite(bound):
            raise RuntimeError(text(f"rrelu: {name} bound must be finite, got {bound}", op="rrelu"))
    if lower > upper:
        raise RuntimeError(text("Lower bound should be less than or equal to the upper bound", op="rrelu",
                                came=f"lower={lower}, upper={upper}"))  # fmt: skip

    def compute(x: Tensor) -> Tensor:
        if not training:
            return leaky_relu(x, (lower + upper) / 2)  # type: ignore[no-any-return]
        return where(x <= 0, x * empty_like(x.detach()).uniform_(lower, upper), x)  # type: ignore[attr-defined, no-any-return]

    return write(input, "rrelu_", compute) if inplace else compute(input.contiguous())  # type: ignore[attr-defined]


bind(rrelu, "rrelu", method=False)  # of its own: PyTorch's takes other names than nn.functional's


@public(method=False, namespace="nn.functional")
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels. Source: arXiv 1706.02515.

    >>> import core
    >>> core.nn.functional.feature_alpha_dropout(core.ones(1, 2, 3)).shape
    core.Size([1, 2, 3])
    """

    def compute(x: Tensor) -> Tensor:
        if p == 1:
            return x * 0.0
        shape = tuple(x.shape[:2]) + (1,) * (x.ndim - 2)
        keep = _thinned(ones(shape, dtype=x.dtype, device=x.device), p) * (1 - p)
        a = float(((_ALPHA * _ALPHA * p + 1) * (1 - p)) ** -0.5)
        return x * (keep * a) + ((keep - 1) * (-_ALPHA * a) - _ALPHA * a * p)

    return _run("feature_alpha_dropout", input, p, training, inplace, compute)


def _starts(offsets: Tensor, n: int, include_last_offset: bool) -> list[int]:
    """Return where the bags of `n` indices begin, and where the last one ends."""
    if offsets.dtype.name not in ("int64", "int32"):
        raise RuntimeError(text("Expected tensor for argument #1 'offsets' to have one of the following scalar types: "
                                f"Long, Int; but got torch.{offsets.dtype.scalar_type}Tensor instead (while checking "
                                "arguments for embedding_bag)", op="embedding_bag",
                                remedy="offsets.long()"))  # fmt: skip
    given = offsets.tolist()
    if given and given[0] != 0:
        raise RuntimeError(text("offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
                                f"position 0. However, got {given[0]}", op="embedding_bag"))  # fmt: skip
    if given and given[-1] > n:
        raise RuntimeError(text(f"offsets[-1] can not be greater than input's length {n} but got offsets[-1] of "
                                f"{given[-1]}", op="embedding_bag"))  # fmt: skip
    if any(not 0 <= at <= n for at in given):
        raise IndexError(text("index out of range in self", op="embedding_bag", came=f"offsets {given}",
                              needed=f"offsets from 0 to {n}"))  # fmt: skip
    return given if include_last_offset else [*given, n]


@public(method=False, namespace="nn.functional")
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the mean, sum or greatest of the rows of `weight` in each bag of indices.

    *Shapes*: bags are the rows of `input` ``(n, k)``, or pieces of ``(k,)`` that start at `offsets`; ``-> (n, d)``.
    *Raises*: RuntimeError, IndexError for offsets that do not fit the input; ValueError for a mode that is not known.

    >>> import core
    >>> table = core.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> core.nn.functional.embedding_bag(core.tensor([0, 1, 1]), table, core.tensor([0, 2]))
    tensor([[2., 3.],
            [3., 4.]])
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"mode has to be one of sum, mean or max\n  op: embedding_bag; came: {mode!r}")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(text("embedding_bag: per_sample_weights was not None. per_sample_weights is "
                                       f"only supported for mode='sum' (got mode='{mode}').",
                                       op="embedding_bag"))  # fmt: skip
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
                             "fixed length sequences.\n  op: embedding_bag")  # fmt: skip
        n, k = input.shape
        starts = [i * k for i in range(n + 1)]
    elif offsets is None or input.ndim != 1:
        raise ValueError(
            "offsets has to be a 1D Tensor but got None\n  op: embedding_bag; needed: offsets for a 1-d input"
        )
    else:
        starts = _starts(offsets, input.numel(), include_last_offset)
    flat = input.reshape(-1)  # type: ignore[attr-defined]
    rows = embedding(flat, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)  # type: ignore[attr-defined]
    skipped = None if padding_idx is None else flat == padding_idx % weight.shape[0]
    if input.ndim == 2 and skipped is None and input.numel():
        sets = rows.reshape(*input.shape, weight.shape[1])
        return sets.max(1)[0] if mode == "max" else sets.sum(1) if mode == "sum" else sets.mean(1)
    bags = []
    for a, b in pairwise(starts):
        piece = rows[a:b] if skipped is None else rows[a:b][~skipped[a:b]]
        if not piece.shape[0]:
            bags.append(zeros(weight.shape[1], dtype=weight.dtype, device=weight.device))
        else:
            bags.append(piece.max(0)[0] if mode == "max" else piece.sum(0) if mode == "sum" else piece.mean(0))
    return stack(bags) if bags else zeros(0, weight.shape[1], dtype=weight.dtype, device=weight.device)
