"""`History`: the losses, metrics and times of a training run; `Plot` draws them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from widgets import training
from widgets.training import Training, loss_text, seconds_text


@dataclass
class Epoch:
    """One pass over the data: means over its samples."""

    epoch: int
    loss: float
    steps: int
    seconds: float
    validation: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    """Of the training data, as the model was while it learnt."""
    validation_metrics: dict[str, float] = field(default_factory=dict)
    learning_rate: float | None = None

    def __str__(self) -> str:
        parts = [f"loss {loss_text(self.loss)}"]
        parts += [f"{name} {metric_text(value)}" for name, value in self.metrics.items()]
        if self.validation is not None:
            parts.append(f"validation {loss_text(self.validation)}")
        parts += [f"validation {name} {metric_text(value)}" for name, value in self.validation_metrics.items()]
        return "  ".join([*parts, seconds_text(self.seconds)])


def metric_text(value: float) -> str:
    """Return a metric in four digits.

    >>> metric_text(0.97194), metric_text(3)
    ('0.9719', '3')
    """
    return str(value) if isinstance(value, int) else loss_text(value)


class History:
    """What `lab.fit` returns: one `Epoch` a pass in `epochs`, the loss of every single step in `losses`.

    state : "done", "stopped" (by the callback), "interrupted", "nan" or "failed"; `message` says more.

    >>> history = History()
    >>> history.steps.extend([4.0, 2.0])
    >>> history.epochs.append(Epoch(1, 3.0, 2, 0.1, validation=2.5))
    >>> history
    <History: 1 epoch, 2 steps, loss 3.000, validation 2.500, 0.1 s>
    >>> history.losses, history.validation, history.best.epoch
    ([4.0, 2.0], [2.5], 1)
    """

    def __init__(self) -> None:
        self.epochs: list[Epoch] = []
        self.steps = array("d")
        self.state = "running"
        self.message = ""
        self.stop_step: int | None = None
        """The step, counted from 0, whose loss was not finite."""
        self.expected: int | None = None
        """Steps of an epoch, as far as known."""

    @property
    def losses(self) -> list[float]:
        """The loss of every step."""
        return self.steps.tolist()

    @property
    def loss(self) -> list[float]:
        """The mean loss of every epoch."""
        return [e.loss for e in self.epochs]

    @property
    def validation(self) -> list[float | None]:
        """The validation's loss after every epoch."""
        return [e.validation for e in self.epochs]

    @property
    def metrics(self) -> dict[str, list[float]]:
        """Every metric, epoch by epoch; the validation's are called "validation ..."."""
        found: dict[str, list[float]] = {}
        for e in self.epochs:
            for name, value in e.metrics.items():
                found.setdefault(name, []).append(value)
            for name, value in e.validation_metrics.items():
                found.setdefault(f"validation {name}", []).append(value)
        return found

    @property
    def seconds(self) -> float:
        """How long all epochs took."""
        return sum(e.seconds for e in self.epochs)

    @property
    def best(self) -> Epoch:
        """The epoch of the least validation loss; without validation, of the least loss.

        *Raises*: RuntimeError before the first epoch has ended.
        """
        if not self.epochs:
            raise RuntimeError("no epoch has ended yet, so none is the best")
        checked = [e for e in self.epochs if e.validation is not None]
        return min(checked or self.epochs, key=lambda e: e.loss if e.validation is None else e.validation)

    def knots(self) -> list[tuple[float, float]]:
        """Return (step, epoch) pairs at the ends of the epochs."""
        out, total = [(0.0, 0.0)], 0
        for k, e in enumerate(self.epochs, 1):
            total += e.steps
            out.append((float(total), float(k)))
        return out

    def view(self, **changes: Any) -> Training:
        """Return the run as plain data for `widgets.training`."""
        knots = self.knots()
        over = len(self.steps) - knots[-1][0]
        if over > 0 and self.expected:  # within an epoch
            knots.append((float(len(self.steps)), knots[-1][1] + min(1.0, over / self.expected)))
        steps_only = not self.epochs and not self.expected  # how long an epoch is, nobody knows yet
        base: dict[str, Any] = {
            "state": self.state, "message": self.message, "losses": self.steps,
            "knots": [(0.0, 0.0), (over, over)] if steps_only else knots, "axis": "step" if steps_only else "epoch",
            "checks": [(float(k), e.validation) for k, e in enumerate(self.epochs, 1) if e.validation is not None],
            "place": f"{len(self.epochs)} epoch{'s' * (len(self.epochs) != 1)}, {len(self.steps):,} steps",
            "timing": seconds_text(self.seconds), "figures": self.figures(),
        }  # fmt: skip
        return Training(**{**base, **changes})

    def figures(self) -> list[tuple[str, str]]:
        """Return the last epoch in figures, and which one was the best."""
        if not self.epochs:
            return []
        last = self.epochs[-1]
        out = [("loss", loss_text(last.loss))]
        if last.validation is not None:
            out.append(("validation", loss_text(last.validation)))
            if (best := self.best) is not last:
                out.append(("best validation", f"{loss_text(best.validation)} in epoch {best.epoch}"))
        out += [(name, metric_text(value)) for name, value in last.metrics.items()]
        return out + [(f"validation {name}", metric_text(value)) for name, value in last.validation_metrics.items()]

    def plot(self, title: str = "") -> Plot:
        """Return the plot again: shown by a notebook where it is a cell's last value; `.html()` and `print()` give
        it."""
        return Plot(self.view(title=title))

    def table(self) -> str:
        """Return the epochs as lines of text."""
        wide = len(str(len(self.epochs)))
        return "\n".join(f"epoch {e.epoch:>{wide}}  {e}" for e in self.epochs)

    def state_dict(self) -> dict[str, Any]:
        """All of it as plain values, for a checkpoint."""
        return {"epochs": [asdict(e) for e in self.epochs], "steps": self.losses}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.epochs = [Epoch(**e) for e in state["epochs"]]
        self.steps = array("d", state["steps"])

    def __repr__(self) -> str:
        n = len(self.epochs)
        parts = [f"{n} epoch{'s' * (n != 1)}", f"{len(self.steps):,} steps"]
        if n:
            parts.append(f"loss {loss_text(self.epochs[-1].loss)}")
            if self.epochs[-1].validation is not None:
                parts.append(f"validation {loss_text(self.epochs[-1].validation)}")
            parts.append(seconds_text(self.seconds))
        if self.state not in ("running", "done"):
            parts.append(self.message.split(";")[0].split(":")[0] or self.state)
        return f"<History: {', '.join(parts)}>"


class Plot:
    """A drawn history: HTML in a notebook, text elsewhere."""

    def __init__(self, view: Training) -> None:
        self.data = view

    def html(self) -> str:
        """One self-contained piece of HTML, to be written to a file."""
        return training.html(self.data, final=True)

    def __str__(self) -> str:
        return training.text(self.data)

    __repr__ = __str__

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": str(self)}
