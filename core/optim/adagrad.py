"""Adagrad, Adadelta and Adamax: steps scaled by sums, means and largest values of past gradients."""

from __future__ import annotations

from typing import Any

from ..tensors.tensor import Tensor
from . import updates
from .optimizer import Params, check_betas, check_lr, check_setting, check_ways, number
from .stepping import Elementwise, Group, State, count


class Adagrad(Elementwise):
    """Steps of ``lr g / (sqrt(sum) + eps)``: the sum is that of all squared gradients.

    The rate falls as ``lr / (1 + (step - 1) lr_decay)``; the sum starts at `initial_accumulator_value`. *Raises*:
    ValueError for negative settings. *Source*: Duchi, Hazan and Singer, Adaptive subgradient methods (2011).

    >>> import core
    >>> w = core.tensor([1.0], requires_grad=True)
    >>> opt = core.optim.Adagrad([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    _update = updates.adagrad

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
                 initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
                 maximize: bool = False, differentiable: bool = False, fused: bool | None = None) -> None:  # fmt: skip
        check_lr(lr)
        check_setting(lr_decay, "lr_decay value")
        check_setting(weight_decay, "weight_decay value")
        check_setting(initial_accumulator_value, "initial_accumulator_value value")
        check_setting(eps, "epsilon value")
        check_ways(foreach, fused, differentiable)
        super().__init__(params, {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                                  "initial_accumulator_value": initial_accumulator_value, "foreach": foreach,
                                  "maximize": maximize, "differentiable": differentiable, "fused": fused})  # fmt: skip
        for group in self.param_groups:
            for p in group["params"]:
                self._begin(self.state[p], p, group)

    def _present(self, group: Group) -> tuple[str, ...]:
        return ("sum",)

    def _begin(self, state: State, p: Tensor, group: Group) -> None:
        super()._begin(state, p, group)
        value = group["initial_accumulator_value"]
        state["sum"]._a[...] = complex(value, value) if p.is_complex() else value

    def _rows(self, p: Any, g: Any, state: State, group: Group) -> None:
        (step,) = count([state])
        g = g.in_order()  # the square of a sum is no sum of squares
        at, values = tuple(g.index[0]), -g.values if group["maximize"] else g.values
        total = state["sum"]._a
        total[at] += values * values.conj() if values.dtype.kind == "c" else values * values
        rate = number(group["lr"]) / (1 + (float(step) - 1) * group["lr_decay"])
        p[at] -= (rate * values / (total[at] ** 0.5 + group["eps"])).astype(p.dtype)

    def share_memory(self) -> None:
        """Put the state where other processes see it.

        *Raises*: NotImplementedError; core's tensors are not shared between processes.
        """
        raise NotImplementedError("Adagrad.share_memory: core's tensors cannot be shared between processes.\n"
                                  "  remedy: keep the optimizer in one process and send it the gradients")  # fmt: skip

    def _settings(self, group: Group, stage: Any) -> tuple[dict[str, Any], frozenset[str]]:
        settings = {k: group[k] for k in ("lr", "lr_decay", "eps", "weight_decay", "maximize")}
        return settings | {"step": stage}, frozenset()


class Adadelta(Elementwise):
    """Steps of ``lr sqrt(acc + eps) / sqrt(square + eps) g``: running means of the squared steps and gradients.

    *Raises*: ValueError for settings out of range. *Source*: arXiv 1212.5701.

    >>> import core
    >>> w = core.tensor([1.0], requires_grad=True)
    >>> opt = core.optim.Adadelta([w], lr=1.0)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w
    tensor([0.9968], requires_grad=True)
    """

    _update = updates.adadelta

    def __init__(self, params: Params, lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6,
                 weight_decay: float = 0,
                 foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False,
                 differentiable: bool = False) -> None:  # fmt: skip
        check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_setting(eps, "epsilon value")
        check_setting(weight_decay, "weight_decay value")
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                                  "capturable": capturable, "foreach": foreach,
                                  "differentiable": differentiable})  # fmt: skip

    def _present(self, group: Group) -> tuple[str, ...]:
        return ("square_avg", "acc_delta")

    def _stages(self, group: Group, states: Any) -> Any:
        super()._stages(group, states)  # counted, and of no account
        return [None] * len(states)

    def _settings(self, group: Group, stage: Any) -> tuple[dict[str, Any], frozenset[str]]:
        return {k: group[k] for k in ("lr", "rho", "eps", "weight_decay", "maximize")}, frozenset()


class Adamax(Elementwise):
    """Adam with the largest gradient, ``u = max(beta2 u, abs(g) + eps)``, in place of the root of the mean square.

    *Raises*: ValueError for settings out of range. *Source*: arXiv 1412.6980, section 7.

    >>> import core
    >>> w = core.tensor([1.0], requires_grad=True)
    >>> opt = core.optim.Adamax([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    _update = updates.adamax

    def __init__(self, params: Params, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8,
                 weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:  # fmt: skip
        check_lr(lr)
        check_setting(eps, "epsilon value")
        check_betas(betas)
        check_setting(weight_decay, "weight_decay value")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
                                  "capturable": capturable})  # fmt: skip

    def _present(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf")

    def _settings(self, group: Group, stage: Any) -> tuple[dict[str, Any], frozenset[str]]:
        settings = {k: group[k] for k in ("lr", "eps", "weight_decay", "maximize")}
        return settings | {"step": stage, "beta1": group["betas"][0], "beta2": group["betas"][1]}, frozenset()
