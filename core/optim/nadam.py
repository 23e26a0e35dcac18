"""NAdam and RAdam: Adam that looks one momentum ahead, and Adam whose first steps are rectified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tensors.tensor import Tensor
from . import updates
from .optimizer import Params, check_betas, check_lr, check_setting, number
from .stepping import Elementwise, Group, State, count, scalar


class NAdam(Elementwise):
    """Adam with Nesterov's momentum, which rises with the steps: ``mu = beta1 (1 - 0.96**(step momentum_decay) / 2)``.

    *Raises*: ValueError for settings out of range. *Source*: Dozat, Incorporating Nesterov momentum into Adam (2016).

    >>> import core
    >>> w = core.tensor([1.0], requires_grad=True)
    >>> opt = core.optim.NAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> list(opt.state[w])
    ['step', 'mu_product', 'exp_avg', 'exp_avg_sq']
    """

    _update = updates.nadam
    _numbers = ("step", "mu_product")

    def __init__(self, params: Params, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8,
                 weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False) -> None:  # fmt: skip
        check_lr(lr)
        check_setting(eps, "epsilon value")
        check_betas(betas)
        check_setting(weight_decay, "weight_decay value")
        check_setting(momentum_decay, "momentum_decay value")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
                                  "maximize": maximize, "foreach": foreach, "capturable": capturable,
                                  "differentiable": differentiable})  # fmt: skip

    def _present(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def _begin(self, state: State, p: Tensor, group: Group) -> None:
        super()._begin(state, p, group)
        arrays = {name: state.pop(name) for name in self._present(group)}
        state |= {"mu_product": scalar(1.0), **arrays}

    @staticmethod
    def _momentum(group: Group, step: float) -> float:
        return number(group["betas"][0]) * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))

    def _stages(self, group: Group, states: Sequence[State]) -> Sequence[Any]:
        """Return the step and the product of the momenta, which is rounded to the state's dtype as PyTorch does."""
        stages = []
        for step, state in zip(count(states), states, strict=True):
            product = state["mu_product"]._a
            np.multiply(product, self._momentum(group, step), out=product)
            stages.append((step, product.item()))
        return stages

    def _settings(self, group: Group, stage: Any) -> tuple[dict[str, Any], frozenset[str]]:
        step, product = stage
        beta1, beta2 = group["betas"]
        settings = {k: group[k] for k in ("lr", "eps", "weight_decay", "maximize")}
        settings |= {"step": step, "mu": self._momentum(group, step), "mu_next": self._momentum(group, step + 1),
                     "mu_product": product, "beta1": beta1, "beta2": beta2,
                     "decoupled": group["decoupled_weight_decay"]}  # fmt: skip
        return settings, frozenset()


class RAdam(Elementwise):
    """Adam whose step is rectified by how much is known of the squares; the first steps leave them out.

    *Raises*: ValueError for settings out of range. *Source*: arXiv 1908.03265.

    >>> import core
    >>> w = core.tensor([1.0], requires_grad=True)
    >>> opt = core.optim.RAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w
    tensor([0.8000], requires_grad=True)
    """

    _update = updates.radam

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8,
                 weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False) -> None:  # fmt: skip
        check_lr(lr)
        check_setting(eps, "epsilon value")
        check_betas(betas)
        check_setting(weight_decay, "weight_decay value")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "maximize": maximize, "foreach": foreach, "capturable": capturable,
                                  "decoupled_weight_decay": decoupled_weight_decay,
                                  "differentiable": differentiable})  # fmt: skip

    def _present(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def _settings(self, group: Group, stage: Any) -> tuple[dict[str, Any], frozenset[str]]:
        beta1, beta2 = group["betas"]
        # rho: the length of the simple moving average that v is worth, at the end and now
        end = 2 / (1 - number(beta2)) - 1
        power = number(beta2) ** stage
        now = end - 2 * stage * power / (1 - power)
        known = now > 5.0
        rectification = ((now - 4) * (now - 2) * end / ((end - 4) * (end - 2) * now)) ** 0.5 if known else 0.0
        settings = {k: group[k] for k in ("lr", "eps", "weight_decay", "maximize")}
        settings |= {"step": stage, "rectification": rectification, "beta1": beta1, "beta2": beta2,
                     "decoupled": group["decoupled_weight_decay"]}  # fmt: skip
        return settings, frozenset(["rectified"] if known else [])
