"""Forward-mode derivatives by PyTorch's names: dual tensors, whose tangents are those of what is computed from them.

No tangent runs beside the values here: a dual tensor is a tensor that the graph remembers, and `unpack_dual` makes the
tangent of two backward passes through that graph (see `core.func.jvp`). Values are those of a forward pass; the cost is
that of a gradient and its gradient for each tensor that is unpacked, and ops have to be differentiable twice. What is
computed under `no_grad` inside a level is not in the graph and has no tangent.

>>> import core
>>> from core.autograd import forward_ad
>>> with forward_ad.dual_level():
...     x = forward_ad.make_dual(core.tensor(3.0), core.tensor(1.0))
...     forward_ad.unpack_dual(x**2)
UnpackedDualTensor(primal=tensor(9.), tangent=tensor(6.))
"""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any, NamedTuple

from ..base.errors import text
from ..base.modes import enable_grad
from ..base.modes import is_grad_enabled as _recorded
from ..base.modes import set_grad_enabled as _record
from ..ops.creation import ones_like
from ..tensors.tensor import Tensor
from .gradients import grad
from .transformed import leads_elsewhere, linear_part

# the duals of each open level, with their tangents, and whether ops were recorded before it
_levels: list[tuple[list[tuple[Tensor, Tensor]], bool]] = []


def __getattr__(name: str) -> int:
    """``_current_level``, the number of the open level: 0, or -1 where none is."""
    if name == "_current_level":
        return len(_levels) - 1
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Open a level, in which dual tensors can be made and ops are recorded; its number comes back, which is 0.

    *Raises*: RuntimeError where one is open.
    """
    if _levels:
        raise RuntimeError(
            text("Nested forward mode AD is not supported at the moment", op="enter_dual_level", came="an open level",
                 remedy="core.func.jvp, which can be nested")
        )  # fmt: skip
    _levels.append(([], _recorded()))
    _record(True)
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level: its tensors are ordinary ones from then on. *Raises*: RuntimeError where none is open."""
    if not _levels or level not in (None, 0):
        raise RuntimeError(
            text("Trying to exit a forward AD level that was not the last one that was created. This is not supported.",
                 op="exit_dual_level", came=f"level {level}, {len(_levels)} open", remedy="with dual_level():")
        )  # fmt: skip
    _record(_levels.pop()[1])


class dual_level(ContextDecorator):
    """The level as a context: ``with dual_level():``; also a decorator.

    >>> from core.autograd import forward_ad
    >>> with forward_ad.dual_level() as level:
    ...     level
    0
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *_: object) -> None:
        exit_dual_level()


def _need_number(what: str, t: Any) -> None:
    if not isinstance(t, Tensor) or not (t.is_floating_point() or t.is_complex()):  # type: ignore[attr-defined]
        came = t.dtype if isinstance(t, Tensor) else type(t).__name__
        raise ValueError(
            text(f"Expected {what} to be floating point or complex, but got: {came}", op="make_dual",
                 remedy="x.float()")
        )  # fmt: skip


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return `tensor` with a tangent: a tensor over the same memory that requires a gradient, which tells the graph.

    *Raises*: RuntimeError outside a level, under `no_grad`, for a tangent of another shape, for a dual tensor;
    ValueError for integers.
    """
    if not _levels:
        raise RuntimeError(
            text("Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() "
                 "first.", op="make_dual", remedy="with dual_level():")
        )  # fmt: skip
    _need_number("primal", tensor)
    _need_number("tangent", tangent)
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            text("Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
                 "not supported.", op="make_dual", came=f"a tangent of shape {tuple(tangent.shape)}",
                 needed=f"{tuple(tensor.shape)}")
        )  # fmt: skip
    if not _recorded():
        raise RuntimeError(
            text("a dual tensor cannot be made where nothing is recorded", op="make_dual", came="no_grad in the level",
                 remedy="no_grad around the level, which records again")
        )  # fmt: skip
    duals = _levels[-1][0]
    if unpack_dual(tensor).tangent is not None:
        raise RuntimeError(
            text("Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is "
                 "not supported.", op="make_dual", remedy="unpack_dual(x).primal")
        )  # fmt: skip
    known: Any = tensor
    x = known.view_as(known) if known.requires_grad else known.detach().requires_grad_()
    duals.append((x, tangent))
    return x  # type: ignore[no-any-return]


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the value and the tangent of a tensor; None where it was not computed from a dual tensor of the level.

    Both keep their graph where it leads to other tensors that require gradients: reverse over forward.
    """
    duals = _levels[-1][0] if _levels else []
    if not duals or not tensor.requires_grad:
        return UnpackedDualTensor(tensor, None)
    xs, ts = [x for x, _ in duals], [t for _, t in duals]
    with enable_grad():
        if all(g is None for g in grad(tensor, xs, ones_like(tensor), retain_graph=True, allow_unused=True)):
            return UnpackedDualTensor(tensor, None)
        further = leads_elsewhere([tensor], xs) or any(t.requires_grad for t in ts)
        (tangent,) = linear_part(xs, [tensor])(ts, further)
    return UnpackedDualTensor(tensor if further else tensor.detach(), tangent)  # type: ignore[attr-defined]


__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]
