"""Adam and AdamW."""

from __future__ import annotations

from typing import Any

from ..creation import tensor
from ..dtypes import float32, float64, get_default_dtype
from ..tensor import Tensor, wrap
from . import kernels
from .optimizer import Closure, Optimizer, check_differentiable, check_lr, check_setting, number


def _step_counter(value: float = 0.0) -> Tensor:
    return tensor(value, dtype=float64 if get_default_dtype() is float64 else float32)


class Adam(Optimizer):
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

    def __init__(self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None, decoupled_weight_decay: bool = False) -> None:  # fmt: skip
        check_lr(lr)
        check_setting(eps, "epsilon value")
        for i in range(2):
            check_setting(betas[i], f"beta parameter at index {i}", below=1.0)
        check_setting(weight_decay, "weight_decay value")
        check_differentiable(differentiable, type(self).__name__)
        if fused and foreach:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        super().__init__(params, {"lr": lr, "betas": (number(betas[0]), number(betas[1])), "eps": eps,
                                  "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize,
                                  "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
                                  "fused": fused, "decoupled_weight_decay": decoupled_weight_decay})  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for own in self.state.values():
            if isinstance(own, dict) and "step" in own and not isinstance(own["step"], Tensor):
                own["step"] = _step_counter(float(own["step"]))

    def step(self, closure: Closure = None) -> Any:
        """Change the parameters by their gradients; gives what `closure` gave."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else [])]
            buckets: dict[Any, list[Tensor]] = {}  # parameters of one kind that have made the same number of steps
            for p in group["params"]:
                if p._grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = _step_counter()
                    for name in names:
                        state[name] = wrap(kernels.zeros_like(p._a), p._kind)
                state["step"]._a[...] += 1
                buckets.setdefault((p._kind, state["step"]._a.item()), []).append(p)
            beta1, beta2 = group["betas"]
            settings = {k: number(group[k]) for k in ("lr", "eps", "weight_decay")}
            settings |= {"beta1": beta1, "beta2": beta2, "maximize": group["maximize"], "amsgrad": group["amsgrad"],
                         "decoupled": group["decoupled_weight_decay"]}  # fmt: skip
            op = "adamw_step" if group["decoupled_weight_decay"] else "adam_step"
            for (_, step), params in buckets.items():
                lists = ([p._grad._a for p in params], *([self.state[p][n]._a for p in params] for n in names))  # type: ignore[union-attr]
                kernels.step(op, params, lists, settings | {"step": step})
        return loss


class AdamW(Adam):
    """Adam whose weight decay, ``p = p (1 - lr weight_decay)``, stays out of the running means.

    *Source*: arXiv 1711.05101.

    >>> import core
    >>> layer = core.nn.Linear(4, 2)
    >>> opt = core.optim.AdamW(layer.parameters(), lr=1e-2)
    >>> opt.param_groups[0]["weight_decay"]
    0.01
    """

    def __init__(self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
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
