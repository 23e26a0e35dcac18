"""Pruning during training: a little more at a time, by a cubic schedule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ....base.errors import text
from ....base.modes import no_grad
from ....declare.op import functions as _f
from ....ops.creation import ones_like
from ...modules.module import Module
from .. import prune
from .plan import ShrinkPlan, planned


def cubic_amount(step: int, amount: float, begin: int, end: int) -> float:
    """Return the share that is pruned at a step: none until `begin`, `amount` from `end` on, fast at first between.

    Source: arXiv 1710.01878, equation 1.

    >>> [round(cubic_amount(step, 0.8, 0, 4), 2) for step in range(6)]
    [0.0, 0.46, 0.7, 0.79, 0.8, 0.8]
    """
    if end <= begin:
        raise ValueError(text("a schedule ends after it begins", op="cubic_amount", came=f"{begin} to {end}"))
    left = 1 - min(1.0, max(0.0, (step - begin) / (end - begin)))
    return amount * (1 - left**3)


class GradualPruning:
    """Masks more and more entries of parameters while they are trained, those that matter least over all of them.

    parameters : pairs of a module and the name of its parameter.
    amount : the share that is masked at the end; `begin` and `end` are steps, `every` how many lie between changes.
    by : "magnitude", or "movement": how far weights have moved away from zero (arXiv 2005.07683), for which `step` is
        called while the gradients are there.

    The masks are those of `core.nn.utils.prune`; what was cut stays cut. Nothing gets faster by it.

    >>> import core
    >>> layer = core.nn.Linear(10, 10)
    >>> schedule = core.nn.utils.shrink.GradualPruning([(layer, "weight")], 0.5, begin=0, end=2)
    >>> for _ in range(3):
    ...     schedule.step()
    >>> layer.weight_mask.sum()
    tensor(50.)
    """

    def __init__(self, parameters: Iterable[tuple[Module, str]], amount: float, begin: int, end: int, every: int = 1,
                 by: str = "magnitude") -> None:  # fmt: skip
        if by not in ("magnitude", "movement"):
            raise ValueError(text(f"no schedule goes by {by!r}", op="GradualPruning", needed="magnitude or movement"))
        cubic_amount(0, amount, begin, end)
        self.parameters = list(parameters)
        self.amount, self.begin, self.end, self.every, self.by = amount, begin, end, every, by
        self.steps = 0
        self._moved: list[Any] = [None] * len(self.parameters)
        for module, name in self.parameters:
            prune.identity(module, name)

    def step(self) -> None:
        """Note that a step of training was made, and mask what is due."""
        if self.by == "movement":
            for k, (module, name) in enumerate(self.parameters):
                p = getattr(module, name + "_orig")
                if p.grad is not None:
                    now = -(p.grad.detach() * p.detach())
                    self._moved[k] = now if self._moved[k] is None else self._moved[k] + now
        if self.begin <= self.steps <= self.end and not (self.steps - self.begin) % self.every:
            self._mask(cubic_amount(self.steps, self.amount, self.begin, self.end))
        self.steps += 1

    def _mask(self, share: float) -> None:
        with no_grad():
            scores = []
            for (module, name), moved in zip(self.parameters, self._moved, strict=True):
                p, mask = getattr(module, name + "_orig").detach(), getattr(module, name + "_mask")
                score = p.abs() if self.by == "magnitude" else moved if moved is not None else p * 0
                scores.append(score.masked_fill(mask == 0, float("-inf")).reshape(-1))
            every = _f["cat"](scores)
            count = int(share * every.numel())
            keep = ones_like(every)
            if count:
                keep[every.topk(count, largest=False).indices] = 0
            at = 0
            for module, name in self.parameters:
                mask = getattr(module, name + "_mask")
                mask.copy_(keep[at : at + mask.numel()].reshape(mask.shape))
                at += mask.numel()

    def remove(self) -> None:
        """Make the parameters plain ones again, with their zeros."""
        for module, name in self.parameters:
            prune.remove(module, name)


class GradualShrink:
    """Shrinks a model several times while it is trained, until `amount` of each group of channels is gone.

    begin, end, times : at `times` steps between `begin` and `end` the cubic schedule's share is removed.
    optimizer : its state follows. The other arguments are those of `shrink`; scores that it takes by ``by="taylor"``
        are the gradients that are there when `step` is called.

    >>> import core
    >>> model = core.nn.Sequential(core.nn.Linear(4, 32), core.nn.ReLU(), core.nn.Linear(32, 2))
    >>> schedule = core.nn.utils.shrink.GradualShrink(model, core.ones(1, 4), 0.5, begin=0, end=4, times=2)
    >>> for _ in range(6):
    ...     _ = schedule.step()
    >>> model[0]
    Linear(in_features=4, out_features=16, bias=True)
    """

    def __init__(self, model: Module, example_inputs: Any, amount: float, begin: int, end: int, times: int = 4,
                 optimizer: Any = None, **options: Any) -> None:  # fmt: skip
        cubic_amount(0, amount, begin, end)
        self.model, self.example_inputs, self.amount = model, example_inputs, amount
        self.begin, self.end, self.optimizer, self.options = begin, end, optimizer, options
        self.due = sorted({begin + round((end - begin) * (k + 1) / times) for k in range(times)})
        self.steps, self._once = 0, dict[Any, int]()

    def step(self) -> ShrinkPlan | None:
        """Note that a step of training was made, and shrink the model where that is due; give the plan that was
        applied, or None."""
        now, self.steps = self.steps, self.steps + 1
        if now not in self.due:
            return None
        share = cubic_amount(now, self.amount, self.begin, self.end)
        plan, families = planned(self.model, self.example_inputs, share, once=self._once, **self.options)
        self._once = self._once or {f.places: len(f) for f in families}
        return plan.apply(self.optimizer) if plan.keep else None
