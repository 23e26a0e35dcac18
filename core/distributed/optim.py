"""PyTorch's optimizers for several processes, under ``distributed.optim``."""

from __future__ import annotations

from typing import Any

from ..base.absent import absent_class, absent_names
from ..optim.optimizer import Optimizer
from .zero import ZeroRedundancyOptimizer

__all__ = ["PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]

_ALONE = "use the optimizer as it is, or ZeroRedundancyOptimizer"
DistributedOptimizer = absent_class("DistributedOptimizer", __name__, "An optimizer of other processes' parameters.",
                                    _ALONE)  # fmt: skip


class PostLocalSGDOptimizer(Optimizer):
    """An optimizer after whose steps an averager averages the parameters over processes, where it is time."""

    def __init__(self, optim: Optimizer, averager: Any) -> None:
        self.optim, self.averager = optim, averager
        self.defaults = optim.defaults
        self._make_hooks()

    @property
    def param_groups(self) -> Any:  # type: ignore[override]
        """The groups of the optimizer."""
        return self.optim.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The state of the optimizer."""
        return self.optim.state

    def step(self, closure: Any = None) -> Any:
        """Make a step of the optimizer, and let the averager follow."""
        loss = self.optim.step(closure)
        self.averager.average_parameters(self.optim.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group."""
        self.optim.add_param_group(param_group)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimizer, and the averager's step."""
        return {**self.optim.state_dict(), "step": getattr(self.averager, "step", 0)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state."""
        self.optim.load_state_dict({k: x for k, x in state_dict.items() if k != "step"})
        self.averager.step = state_dict.get("step", 0)


__getattr__ = absent_names(__name__, _ALONE)
