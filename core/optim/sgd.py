"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.device import kind
from ..base.dtypes import from_numpy
from ..dispatch.sparse import gradient_over
from ..tensors.tensor import Tensor
from . import updates
from .optimizer import Params, check_lr, check_setting, check_ways, number
from .stepping import Elementwise, Group, State, zeros


class SGD(Elementwise):
    """``b = momentum b + (1 - dampening) g``, ``p = p - lr b``; with `nesterov` the step is ``g + momentum b``.

    `weight_decay` adds ``weight_decay p`` to the gradient. *Raises*: ValueError for negative settings. *Source*:
    Sutskever et al., On the importance of initialization and momentum in deep learning (2013).

    >>> import core
    >>> w = core.tensor([1.0], requires_grad=True)
    >>> opt = core.optim.SGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w
    tensor([0.8000], requires_grad=True)
    """

    _update = updates.sgd
    _counts = False

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, momentum: float = 0, dampening: float = 0,
                 weight_decay: Any = 0,
                 nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None,
                 differentiable: bool = False, fused: bool | None = None) -> None:  # fmt: skip
        check_lr(lr)
        check_setting(momentum, "momentum value")
        check_setting(weight_decay, "weight_decay value")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        check_ways(foreach, fused, differentiable)
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
                                  "differentiable": differentiable, "fused": fused})  # fmt: skip

    def _present(self, group: Group) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def _states(self, group: Group, params: Sequence[Tensor]) -> list[State]:
        if group["momentum"] == 0:  # it leaves no state
            return [{}] * len(params)
        return [self.state[p] for p in params]

    def _stages(self, group: Group, states: Sequence[State]) -> Sequence[Any]:
        """Return whether the buffer is yet to be filled, which the first step does with the gradient."""
        return [group["momentum"] != 0 and state.get("momentum_buffer") is None for state in states]

    def _counted_together(self, group: Group) -> tuple[Any, ...]:
        return (False,)  # where a buffer is yet to be filled it is not there, and C declines

    def _settings(self, group: Group, stage: Any) -> tuple[dict[str, Any], frozenset[str]]:
        settings = {k: group[k] for k in ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize")}
        return settings, frozenset([*self._present(group), *(["first"] if stage else [])])

    def _rows(self, p: Any, g: Any, state: State, group: Group) -> None:
        step = g * -1 if group["maximize"] else g
        if group["momentum"] != 0:
            held = state.get("momentum_buffer")
            if held is None:
                held = state["momentum_buffer"] = gradient_over(step.in_order().copy(), kind(from_numpy(p.dtype)))
            else:
                mixed = held._a * group["momentum"] + step * (1 - group["dampening"])
                held = state["momentum_buffer"] = gradient_over(mixed.in_order(), kind(from_numpy(p.dtype)))
            step = step + held._a * group["momentum"] if group["nesterov"] else held._a
        (step * -number(group["lr"])).add_to(p)

    def _step(self, group: Group, params: list[Tensor], states: list[State], settings: dict[str, Any],
              on: frozenset[str]) -> None:  # fmt: skip
        if "first" in on:
            for p, state in zip(params, states, strict=True):
                state["momentum_buffer"] = zeros(p)
        super()._step(group, params, states, settings, on)
