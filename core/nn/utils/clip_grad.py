"""Clipping gradients by their common norm or by value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ... import backends, native
from ...backends.errstate import Quiet
from ...base.modes import no_grad
from ...base.source import warn
from ...dispatch.sparse import held_by
from ...events import observe
from ...linalg import vector_norm
from ...ops.creation import tensor
from ...ops.joining import stack
from ...tensors import overriding
from ...tensors.tensor import Tensor, storage_of, wrap


def _list(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def get_total_norm(tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                   foreach: bool | None = None) -> Tensor:  # fmt: skip
    """Return the norm of all tensors as if they were one vector.

    Raises
    ------
    RuntimeError
        For a norm that is NaN or infinite, if `error_if_nonfinite`.

    >>> import core
    >>> core.nn.utils.get_total_norm([core.tensor([3.0]), core.tensor([4.0])])
    tensor(5.)
    """
    if overriding.active:  # divided tensors have a norm of all processes
        answer = overriding.ask(get_total_norm, (tensors, norm_type, error_if_nonfinite), {})
        if answer is not NotImplemented:
            return answer  # type: ignore[no-any-return]
    many = held_by(_list(tensors))
    p = float(norm_type)
    if not many:
        return tensor(0.0)
    if observe.wanted("as ops") and not error_if_nonfinite:
        with no_grad():
            return vector_norm(stack([vector_norm(t, p) for t in many]), p)
    kind = many[0]._kind
    xp = backends.array_module(kind.device.type)
    found: Any
    if kind.device.type == "cpu":
        found = _in_one_call([t._a for t in many], p)
    else:
        from ...backends.cuda import clip

        found = clip.total(many, p)
    if found is None:
        each = xp.stack([xp.linalg.norm(t._a.reshape(-1), p).astype(t._a.dtype) for t in many])
        found = xp.linalg.norm(each, p)
    total = wrap(xp.asarray(found).astype(kind.dtype.numpy), kind)
    if error_if_nonfinite and not math.isfinite(float(total._a)):
        raise RuntimeError(
            f"The total norm of order {p} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable "
            "this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def _in_one_call(arrays: list[Any], p: float) -> float | None:
    """Return the norm by the C kernel over all arrays; None where it does not take them."""
    kinds = {2.0: 0, 1.0: 1, math.inf: 2}
    if native.module is None or p not in kinds:
        return None
    found = native.module.total(arrays, kinds[p])
    return math.sqrt(found) if found is not None and p == 2.0 else found


def _change(op: str, formula: str, grads: list[Tensor], number: float) -> None:
    """Run an update with one setting on all gradients, those of one kind in one call."""
    from ...optim import kernels, update  # nn is imported before optim

    (variant,) = update.table[formula].variants.values()
    kinds: dict[Any, list[Tensor]] = {}
    for g in grads:
        kinds.setdefault(g._kind, []).append(g)
    # an infinite norm makes NaN of infinite gradients, as PyTorch's does
    with Quiet():
        for kind, same in kinds.items():
            lists, copied = (
                kernels.real([[g._a for g in same]]) if kind.dtype.is_complex else ([[g._a for g in same]], [])
            )
            kernels.run(variant, kind.device.type, variant.scalars(number), [*lists, *lists])
            for a, dense in copied:
                a[...] = dense
    for g in grads:
        storage_of(g).wrote(op, None)


def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scale the gradients by ``min(1, max_norm / (total_norm + 1e-6))``."""
    grads = held_by([g for p in _list(parameters) if (g := p._grad) is not None])
    if observe.wanted("as ops"):
        with no_grad():
            factor_ = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)  # type: ignore[attr-defined]
            for g in grads:
                g.mul_(factor_)  # type: ignore[attr-defined]
        return
    if all(t._kind.device.type == "cpu" for t in (total_norm, *grads)):
        factor = float((float(max_norm) / (total_norm._a + 1e-6)).clip(max=1.0))
        _change("clip_grad_norm_", "scale_step", grads if factor != 1.0 else [], factor)
        return
    from ...backends.cuda import clip

    if not clip.scale(grads, total_norm, float(max_norm)):
        for g in grads:  # here too the factor stays on the GPU: the CPU need not wait for it
            scale = (float(max_norm) / (total_norm._a + 1e-6)).clip(max=1.0).astype(g._a.dtype)
            with Quiet():
                g._a *= scale
    for g in grads:
        storage_of(g).wrote("clip_grad_norm_", None)


def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                    foreach: bool | None = None) -> Tensor:  # fmt: skip
    """Scale all gradients so that their common norm is at most `max_norm`; gives the norm they had.

    >>> import core
    >>> w = core.nn.Parameter(core.zeros(2))
    >>> w.grad = core.tensor([3.0, 4.0])
    >>> core.nn.utils.clip_grad_norm_([w], 1.0), w.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    many = _list(parameters)
    with no_grad():
        total = get_total_norm([g for p in many if (g := p.grad) is not None], norm_type, error_if_nonfinite)
        clip_grads_with_norm_(many, max_norm, total)
    return total


def clip_grad_norm(parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                   foreach: bool | None = None) -> Tensor:  # fmt: skip
    """As `clip_grad_norm_`, which is its newer name."""
    warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.", FutureWarning
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Keep every element of every gradient between -`clip_value` and `clip_value`.

    >>> import core
    >>> w = core.nn.Parameter(core.zeros(2))
    >>> w.grad = core.tensor([3.0, -0.5])
    >>> core.nn.utils.clip_grad_value_([w], 1.0)
    >>> w.grad
    tensor([ 1.0000, -0.5000])
    """
    grads = held_by([g for p in _list(parameters) if (g := p._grad) is not None])
    _change("clip_grad_value_", "clip_step", grads, float(clip_value))
