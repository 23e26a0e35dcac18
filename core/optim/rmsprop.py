"""RMSprop, Rprop and ASGD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tensors.tensor import Tensor
from . import updates
from .optimizer import Params, check_lr, check_setting, number
from .stepping import Elementwise, Group, State, count, count_together, scalar


class RMSprop(Elementwise):
    """Steps of ``lr g / (sqrt(v) + eps)``: v is the running mean of the squared gradient; if `centered`, its variance.

    With `momentum` these are added up as ``b = momentum b + g / (sqrt(v) + eps)``. *Raises*: ValueError for negative
    settings. *Source*: Hinton, Neural networks for machine learning, lecture 6; centered: arXiv 1308.0850.

    >>> import core
    >>> w = core.tensor([1.0], requires_grad=True)
    >>> opt = core.optim.RMSprop([w], lr=0.1, momentum=0.9, centered=True)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> list(opt.state[w])
    ['step', 'square_avg', 'momentum_buffer', 'grad_avg']
    """

    _update = updates.rmsprop

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
                 weight_decay: float = 0,
                 momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False) -> None:  # fmt: skip
        check_lr(lr)
        check_setting(eps, "epsilon value")
        check_setting(momentum, "momentum value")
        check_setting(weight_decay, "weight_decay value")
        check_setting(alpha, "alpha value")
        super().__init__(params, {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
                                  "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach,
                                  "maximize": maximize, "differentiable": differentiable})  # fmt: skip

    def _present(self, group: Group) -> tuple[str, ...]:
        names = ["square_avg"]
        if group["momentum"] > 0:
            names.append("momentum_buffer")
        if group["centered"]:
            names.append("grad_avg")
        return tuple(names)

    def _stages(self, group: Group, states: Sequence[State]) -> Sequence[Any]:
        count(states)  # of no account
        return [None] * len(states)

    def _counted_together(self, group: Group) -> tuple[Any, ...]:
        return (None,) if count_together(group, self.state) else ()

    def _settings(self, group: Group, stage: Any) -> tuple[dict[str, Any], frozenset[str]]:
        settings = {k: group[k] for k in ("lr", "alpha", "eps", "weight_decay", "momentum", "maximize")}
        return settings, frozenset(self._present(group)[1:])


class Rprop(Elementwise):
    """Resilient backpropagation: every element has a step of its own, which grows while its gradient keeps its sign.

    The steps start at `lr`, are multiplied by ``etas = (smaller, larger)`` and kept within `step_sizes`; after a change
    of sign the element stands still once. It is for gradients of the whole data set. *Raises*: ValueError for settings
    out of range. *Source*: Riedmiller and Braun, A direct adaptive method for faster backpropagation learning (1993).

    >>> import core
    >>> w = core.tensor([1.0], requires_grad=True)
    >>> opt = core.optim.Rprop([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    _update = updates.rprop

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
                 step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False) -> None:  # fmt: skip
        check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {"lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach,
                                  "maximize": maximize, "differentiable": differentiable,
                                  "capturable": capturable})  # fmt: skip

    def _present(self, group: Group) -> tuple[str, ...]:
        return ("prev", "step_size")

    def _begin(self, state: State, p: Tensor, group: Group) -> None:
        super()._begin(state, p, group)
        lr = number(group["lr"])
        state["step_size"]._a[...] = complex(lr, lr) if p.is_complex() else lr

    def _stages(self, group: Group, states: Sequence[State]) -> Sequence[Any]:
        count(states)  # of no account
        return [None] * len(states)

    def _settings(self, group: Group, stage: Any) -> tuple[dict[str, Any], frozenset[str]]:
        (minus, plus), (low, high) = group["etas"], group["step_sizes"]
        return {"eta_minus": minus, "eta_plus": plus, "smallest": low, "largest": high,
                "maximize": group["maximize"]}, frozenset()  # fmt: skip


class ASGD(Elementwise):
    """Averaged stochastic gradient descent: ``p = p (1 - lambd eta) - eta g``; ``ax`` is the mean of p from `t0` on.

    The rate falls as ``eta = lr / (1 + lambd lr step)**alpha``. *Raises*: ValueError for a negative rate or weight
    decay. *Source*: Polyak and Juditsky, Acceleration of stochastic approximation by averaging (1992).

    >>> import core
    >>> w = core.tensor([1.0], requires_grad=True)
    >>> opt = core.optim.ASGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w, opt.state[w]["ax"]
    (tensor([0.8000], requires_grad=True), tensor([0.8000]))
    """

    _update = updates.asgd
    _numbers = ("step", "eta", "mu")

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, lambd: float = 1e-4, alpha: float = 0.75,
                 t0: float = 1e6,
                 weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:  # fmt: skip
        check_lr(lr)
        check_setting(weight_decay, "weight_decay value")
        super().__init__(params, {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
                                  "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
                                  "capturable": capturable})  # fmt: skip

    def _present(self, group: Group) -> tuple[str, ...]:
        return ("ax",)

    def _begin(self, state: State, p: Tensor, group: Group) -> None:
        super()._begin(state, p, group)
        ax = state.pop("ax")
        state |= {"eta": scalar(number(group["lr"])), "mu": scalar(1.0), "ax": ax}

    def _stages(self, group: Group, states: Sequence[State]) -> Sequence[Any]:
        """Return the rate and the weight of the mean for this step; those for the next one are left in the state."""
        lr, lambd, alpha, t0 = (number(group[k]) for k in ("lr", "lambd", "alpha", "t0"))
        stages = []
        for step, state in zip(count(states), states, strict=True):
            eta, mu = state["eta"]._a, state["mu"]._a
            stages.append((eta.item(), mu.item()))
            eta[...] = lr / (1 + lambd * lr * step) ** alpha
            mu[...] = 1 / max(1, step - t0)
        return stages

    def _settings(self, group: Group, stage: Any) -> tuple[dict[str, Any], frozenset[str]]:
        settings = {k: group[k] for k in ("lr", "lambd", "weight_decay", "maximize")}
        return settings | {"eta": stage[0], "mu": stage[1]}, frozenset(["averaging"] if stage[1] != 1 else [])
