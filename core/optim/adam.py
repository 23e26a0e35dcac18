"""Adam and AdamW."""

from __future__ import annotations

from typing import Any

from ..tensors.tensor import Tensor
from . import updates
from .optimizer import Params, check_betas, check_lr, check_setting, check_ways
from .stepping import Elementwise, Group


class Adam(Elementwise):
    """Steps of ``lr m / (sqrt(v) + eps)``: m and v are running means of the gradient and its square, start corrected.

    `weight_decay` adds ``weight_decay p`` to the gradient, unless `decoupled_weight_decay` (see `AdamW`). `amsgrad`
    takes the largest v so far. *Raises*: ValueError for settings out of range.

    *Source*: arXiv 1412.6980, arXiv 1904.09237.

    >>> import core
    >>> w = core.tensor([1.0], requires_grad=True)
    >>> opt = core.optim.Adam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    _update = updates.adam

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999),
                 eps: float = 1e-8,
                 weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None, decoupled_weight_decay: bool = False) -> None:  # fmt: skip
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        check_lr(lr)
        check_setting(eps, "epsilon value")
        check_betas(betas)
        check_setting(weight_decay, "weight_decay value")
        if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        if isinstance(betas[0], Tensor) and foreach and not capturable:
            raise ValueError("betas[0] as a Tensor is not supported for capturable=False and foreach=True")
        check_ways(foreach, fused, differentiable)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps,
                                  "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize,
                                  "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
                                  "fused": fused, "decoupled_weight_decay": decoupled_weight_decay})  # fmt: skip

    def _present(self, group: Group) -> tuple[str, ...]:
        largest = ("max_exp_avg_sq",) if group["amsgrad"] else ()
        return ("exp_avg", "exp_avg_sq", *largest)

    def _settings(self, group: Group, stage: Any) -> tuple[dict[str, Any], frozenset[str]]:
        beta1, beta2 = group["betas"]
        settings = {k: group[k] for k in ("lr", "eps", "weight_decay", "maximize")}
        settings |= {"step": stage, "beta1": beta1, "beta2": beta2, "decoupled": group["decoupled_weight_decay"]}
        return settings, frozenset(self._present(group)[2:])

    def _op(self, group: Group) -> str:
        return "adamw_step" if group["decoupled_weight_decay"] else "adam_step"


class AdamW(Adam):
    """Adam whose weight decay, ``p = p (1 - lr weight_decay)``, stays out of the running means.

    *Source*: arXiv 1711.05101.

    >>> import core
    >>> layer = core.nn.Linear(4, 2)
    >>> opt = core.optim.AdamW(layer.parameters(), lr=1e-2)
    >>> opt.param_groups[0]["weight_decay"]
    0.01
    """

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999),
                 eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=fused,
                         decoupled_weight_decay=True)  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
