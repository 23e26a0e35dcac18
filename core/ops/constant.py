"""A value that does not depend on the tensors it came from as far as gradients go: they get zeros, not None."""

from __future__ import annotations

from typing import Any

from ..declare import op as declarations
from ..dispatch.declare import operation
from ..tensors.tensor import Tensor
from .creation import zeros


def _zeros(g: Tensor, like_shape: tuple[int, ...], like_dtype: Any) -> Tensor:
    return zeros(like_shape, dtype=like_dtype, device=g.device)


_constant = operation("constant", lambda xp, value, like: value.copy(), inputs="value like", vjp=(lambda g: g, _zeros),
                      samples=lambda rng: [((rng.uniform(-1, 1, (2, 3)), rng.uniform(-1, 1, (4,))), {})],
                      doc="The value; a gradient of zeros for what it was computed from.")  # fmt: skip


_piecewise = operation("piecewise", lambda xp, x: x, vjp=lambda g: g, piecewise=True,
                       samples=lambda rng: [((rng.uniform(-1, 1, (2, 3)),), {})],
                       doc="x, as the result of something linear in pieces.")  # fmt: skip


def piecewise(value: Tensor) -> Tensor:
    """`value`, a fresh result, as that of an op that is linear in pieces: its gradient's own gradient is zeros.

    >>> import core
    >>> from core.ops.constant import piecewise
    >>> x = core.ones(2, requires_grad=True)
    >>> (g,) = core.autograd.grad(piecewise(2 * x).sum(), x, create_graph=True)
    >>> core.autograd.grad(g.sum(), x)
    (tensor([0., 0.]),)
    """
    return _piecewise(value) if value.requires_grad else value  # type: ignore[no-any-return]


def constant(value: Tensor, *sources: Any) -> Tensor:
    """`value` with a history that gives each of `sources` that requires a gradient zeros, as PyTorch does it.

    >>> import core
    >>> from core.ops.constant import constant
    >>> x = core.ones(2, requires_grad=True)
    >>> constant(core.tensor([3.0, 4.0]), x).sum().backward()
    >>> x.grad
    tensor([0., 0.])
    """
    for source in sources:
        if isinstance(source, Tensor) and source.requires_grad:
            value = _constant(value, source)
    return value


declarations.functions["constant"] = constant  # in-place operations ask for it
