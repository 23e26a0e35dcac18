"""How axes go through ops that compute: elementwise ones, products, reductions, what joins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....tensors.tensor import Tensor
from .atoms import Axis
from .tracing import Call, Trace, rule

_SAME = ("cast", "clone", "contiguous", "conj", "constant", "copy", "dropout", "fill", "move", "restride", "digamma",
         "bitwise_not", "lgamma", "erfcx", "i0", "i0e", "i1", "i1e", "log_ndtr", "ndtri", "polygamma",
         "piecewise")  # fmt: skip
_BROADCAST = ("elementwise", "bitwise_and", "bitwise_or", "bitwise_left_shift", "bitwise_right_shift", "complex",
              "isclose", "nextafter", "gcd", "lcm", "zeta", "gammainc", "gammaincc", "bitwise_xor")  # fmt: skip


def nothing(n: int) -> Axis:
    """Return an axis of which nothing is removed, for no reason of its own."""
    return np.zeros((n, 0), int)


def joined(t: Trace, axes: Sequence[Axis], call: Call) -> Axis:
    """Tie axes of one size to each other; return them as one."""
    for a in axes[1:]:
        t.atoms.join(axes[0], a, call.where)
    return next((a for a in axes if t.atoms.reason(a)), axes[0])


def broadcast(t: Trace, operands: Sequence[Sequence[Axis]], shape: Sequence[int], call: Call) -> list[Axis]:
    """Return the axes of operands that broadcast to a shape."""
    found = []
    for d in range(-len(shape), 0):
        same = [axes[d] for axes in operands if len(axes) >= -d and len(axes[d]) == shape[d]]
        found.append(joined(t, same, call) if same else nothing(shape[d]))
    return found


def tensors(call: Call) -> list[list[Axis]]:
    """Return the axes of the inputs that are tensors."""
    return [a for a in call.axes if a is not None]


@rule(*_BROADCAST)
def _elementwise(t: Trace, call: Call) -> list[list[Axis]]:
    return [broadcast(t, tensors(call), shape, call) for shape in call.shapes]


@rule(*_SAME)
def _same(t: Trace, call: Call) -> list[list[Axis]]:
    axes = [a for a in tensors(call) if len(a) <= len(call.shapes[0])]
    return [broadcast(t, axes, call.shapes[0], call)]


@rule("linear")
def _linear(t: Trace, call: Call) -> list[list[Axis]]:
    x, weight = tensors(call)[:2]
    t.atoms.join(weight[-1], x[-1], call.where)
    if len(weight) == 1:
        return [x[:-1]]
    out = joined(t, [weight[0], *(b[-1] for b in tensors(call)[2:])], call)
    return [[*x[:-1], out]]


@rule("matmul")
def _matmul(t: Trace, call: Call) -> list[list[Axis]]:
    a, b = tensors(call)
    t.atoms.join(a[-1], b[-2] if len(b) > 1 else b[0], call.where)
    lead = broadcast(t, [a[:-2], b[:-2]], call.shapes[0][: max(len(a), len(b), 2) - 2], call)
    return [[*lead, *(a[-2:-1] if len(a) > 1 else []), *(b[-1:] if len(b) > 1 else [])]]


@rule("einsum")
def _einsum(t: Trace, call: Call) -> list[list[Axis]]:
    terms, _, result = call.params["equation"].replace(" ", "").partition("->")
    letters: dict[str, list[Axis]] = {}
    rest: list[list[Axis]] = []
    for term, axes in zip(terms.split(","), tensors(call), strict=True):
        before, dots, after = term.partition("...")
        middle = len(axes) - len(before) - len(after)
        for letter, a in zip(before + after, [*axes[: len(before)], *axes[len(before) + middle :]], strict=True):
            letters.setdefault(letter, []).append(a)
        if dots:
            rest.append(axes[len(before) : len(before) + middle])
    one = {k: joined(t, [a for a in v if len(a) == max(map(len, v))], call) for k, v in letters.items()}
    before, dots, after = result.partition("...")
    shape = call.shapes[0][len(before) : len(call.shapes[0]) - len(after)]
    return [[*(one[k] for k in before), *(broadcast(t, rest, shape, call) if dots else []), *(one[k] for k in after)]]


@rule("attention")
def _attention(t: Trace, call: Call) -> list[list[Axis]]:
    q, k, v, *mask = tensors(call)
    t.atoms.join(q[-1], k[-1], call.where)
    t.atoms.join(k[-2], v[-2], call.where)
    t.inexact.append((q[-1], call.where))
    t.inexact.append((k[-2], call.where))
    shape = call.shapes[0]
    lead = broadcast(t, [q[:-2], k[:-2], v[:-2], *(m[:-2] for m in mask)], shape[:-2], call)
    broadcast(t, [[*lead, q[-2], k[-2]], *mask], (*shape[:-1], len(k[-2])), call)
    return [[*lead, q[-2], v[-1]]]


# -- reductions --------------------------------------------------------------------------------------------------------

_EXACT = {"sum", "vector_norm", "any", "count_nonzero"}  # zeros add nothing


def _dims(call: Call, n: int) -> list[int]:
    dim = call.params.get("dim")
    if dim is None or dim == ():
        return list(range(n))
    return [d % n for d in (dim if isinstance(dim, list | tuple) else (dim,))] if n else []


@rule("sum", "mean", "var", "std", "amax", "amin", "prod", "all", "any", "logsumexp", "vector_norm", "count_nonzero",
      "max_dim", "min_dim", "argmax", "argmin", "norm_count", "median", "mode", "kthvalue")  # fmt: skip
def _reduced(t: Trace, call: Call) -> list[list[Axis]]:
    axes = tensors(call)[0]
    dims = _dims(call, len(axes))
    for d in dims:
        if call.op not in _EXACT:
            t.inexact.append((axes[d], call.where))
    found = []
    for output, shape in enumerate(call.shapes):
        keep = len(shape) == len(axes) and bool(axes)
        found.append([nothing(1) if d in dims else a for d, a in enumerate(axes) if d not in dims or keep])
        if output == 1 or call.op in ("argmax", "argmin"):
            for d in dims:
                t.is_positions(call, output, axes[d])
    return found


@rule("softmax", "log_softmax")
def _softmax(t: Trace, call: Call) -> list[list[Axis]]:
    axes = tensors(call)[0]
    if axes:
        t.inexact.append((axes[call.params["dim"] % len(axes)], call.where))
    return [list(axes)]


@rule("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "sort", "topk")
def _along(t: Trace, call: Call) -> list[list[Axis]]:
    """Ops along an axis whose order counts."""
    axes = list(tensors(call)[0])
    d = call.params["dim"] % len(axes) if axes else 0
    if axes:
        t.atoms.pin(axes[d], f"the order along it counts for {call.where}")
        axes[d] = t.atoms.fixed(call.shapes[0][d], call.where)
    return [list(axes) for _ in call.shapes]


@rule("tril", "triu", "triangle_mask", "diagonal_mask", "cholesky", "inv", "det", "matrix_exp", "slogdet")
def _matrices(t: Trace, call: Call) -> list[list[Axis]]:
    axes = tensors(call)[0]
    for a in axes[-2:]:
        t.atoms.pin(a, f"{call.where} takes matrices whole")
    return [list(axes[: len(s)]) for s in call.shapes]


# -- joining and taking ------------------------------------------------------------------------------------------------


@rule("cat")
def _cat(t: Trace, call: Call) -> list[list[Axis]]:
    many = [a for a in tensors(call) if len(a) == len(call.shapes[0])]  # an empty one may stand among them
    d = call.params["dim"] % len(call.shapes[0])
    found = [joined(t, [a[k] for a in many], call) if k != d else _after_one_another(t, [a[d] for a in many])
             for k in range(len(call.shapes[0]))]  # fmt: skip
    return [found]


def _after_one_another(t: Trace, axes: Sequence[Axis]) -> Axis:
    wide = max(a.shape[1] for a in axes)
    return np.concatenate([np.pad(a, ((0, 0), (0, wide - a.shape[1])), constant_values=-1) for a in axes])


@rule("stack")
def _stack(t: Trace, call: Call) -> list[list[Axis]]:
    many = tensors(call)
    d = call.params["dim"] % len(call.shapes[0])
    found = [joined(t, list(axes), call) for axes in zip(*many, strict=True)]
    found.insert(d, nothing(call.shapes[0][d]))
    return [found]


@rule("embedding", "sparse_embedding")
def _embedding(t: Trace, call: Call) -> list[list[Axis]]:
    weight, index = tensors(call)[:2]
    t.atoms.pin(weight[0], f"the rows that {call.where} looks up")
    return [[*index, weight[1]]]


@rule("one_hot_rows")
def _one_hot(t: Trace, call: Call) -> list[list[Axis]]:
    return [[*tensors(call)[0], t.atoms.fixed(call.shapes[0][-1], f"the classes of {call.where}")]]


def _indexed(t: Trace, call: Call, x: list[Axis], indices: list[list[Axis]], shape: Sequence[int]) -> list[Axis]:
    """Return the axes of ``x[i, :, j]``; those that are indexed stay as they are."""
    where = [*call.params["where"], *[False] * (len(x) - len(call.params["where"]))]
    for a, is_indexed in zip(x, where, strict=True):
        if is_indexed:
            t.atoms.pin(a, f"the places that {call.where} takes or writes")
    lead = max(map(len, indices), default=0)
    at = [d for d, w in enumerate(where) if w]
    first = at[0] if at == list(range(at[0], at[-1] + 1)) else 0  # apart from each other they come first
    rest = [a for a, w in zip(x, where, strict=True) if not w]
    middle = broadcast(t, indices, shape[first : first + lead], call)
    return [*rest[:first], *middle, *rest[first:]]


@rule("index")
def _index(t: Trace, call: Call) -> list[list[Axis]]:
    x, *indices = tensors(call)
    return [_indexed(t, call, x, indices, call.shapes[0])]


@rule("index_put")
def _index_put(t: Trace, call: Call) -> list[list[Axis]]:
    x, *rest = tensors(call)
    has_values = isinstance(call.inputs[1], Tensor)
    values, indices = (rest[0], rest[1:]) if has_values else ([], rest)
    lead = max(map(len, indices), default=0)
    shape: list[int] = [0] * lead
    for i in indices:
        for d in range(1, len(i) + 1):
            shape[-d] = max(shape[-d], len(i[-d]))
    where = [*call.params["where"], *[False] * (len(x) - len(call.params["where"]))]
    at = [d for d, w in enumerate(where) if w]
    first = at[0] if at == list(range(at[0], at[-1] + 1)) else 0
    rest_sizes = [len(a) for a, w in zip(x, where, strict=True) if not w]
    whole = [*rest_sizes[:first], *shape, *rest_sizes[first:]]
    broadcast(t, [_indexed(t, call, x, indices, whole), values], whole, call)
    return [list(x)]


@rule("gather", "scatter", "scatter_add", "scatter_reduce")
def _gather(t: Trace, call: Call) -> list[list[Axis]]:
    x, *others = tensors(call)
    d = call.params["dim"] % len(x) if x else 0
    out = list(x)
    for k, a in enumerate(x):
        for other in others:
            if k == d or len(other[k]) != len(a):
                t.atoms.pin(a, f"the places that {call.where} takes or writes")
                t.atoms.pin(other[k], f"the places that {call.where} takes or writes")
                out[k] = other[k] if call.op == "gather" else a
            else:
                t.atoms.join(a, other[k], call.where)
    return [out]


@rule("cross_entropy", "nll_loss", "class_weight", "counted_targets", "target_mass")
def _loss(t: Trace, call: Call) -> list[list[Axis]]:
    t.refuse(call, f"the classes of {call.where}")
    return [[t.atoms.fixed(n, call.where) for n in s] for s in call.shapes]
