"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor, wrap
from . import kernels
from .optimizer import Closure, Optimizer, check_differentiable, check_lr, check_setting, number


class SGD(Optimizer):
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

    def __init__(self, params: Any, lr: Any = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0,
                 nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None,
                 differentiable: bool = False, fused: bool | None = None) -> None:  # fmt: skip
        check_lr(lr)
        check_setting(momentum, "momentum value")
        check_setting(weight_decay, "weight_decay value")
        check_differentiable(differentiable, "SGD")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        if fused and foreach:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
                                  "differentiable": differentiable, "fused": fused})  # fmt: skip

    def step(self, closure: Closure = None) -> Any:
        """Change the parameters by their gradients; gives what `closure` gave."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            momentum = group["momentum"] != 0
            buckets: dict[Any, list[Tensor]] = {}  # parameters of one kind that have, or do not have, a buffer yet
            for p in group["params"]:
                if p._grad is not None:
                    first = momentum and self.state[p].get("momentum_buffer") is None
                    buckets.setdefault((p._kind, first), []).append(p)
            settings = {k: number(group[k]) for k in ("lr", "momentum", "dampening", "weight_decay")}
            settings |= {k: group[k] for k in ("nesterov", "maximize")}
            for (_, first), params in buckets.items():
                lists: list[Any] = [[p._grad._a for p in params]]  # type: ignore[union-attr]
                if momentum:
                    if first:
                        for p in params:
                            self.state[p]["momentum_buffer"] = wrap(kernels.zeros_like(p._a), p._kind)
                    lists.append([self.state[p]["momentum_buffer"]._a for p in params])
                kernels.step("sgd_step", params, tuple(lists), settings | {"first": first})
        return loss
