"""A few steps of training, which give a pruned variant its accuracy back: on one part of the user's data, so that all
variants can be judged on the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import core
from core.nn import functional as F

from .samples import Samples
from .scoring import first_tensor

ROWS = 64  # of a step
RATE = 1e-3
SEED = 0


def _cross_entropy(output: Any, target: Any) -> Any:
    if output.shape[:-1] == target.shape:  # classes along the last axis, else along the second
        output, target = output.reshape(-1, output.shape[-1]), target.reshape(-1)
    return F.cross_entropy(output, target)


LOSSES: dict[str, Callable[[Any, Any], Any]] = {"accuracy": _cross_entropy, "mse": F.mse_loss, "mae": F.l1_loss}
"""By the measure that a variant is judged by."""


@dataclass
class Retraining:
    """How pruned variants are trained: on which part of the data, and for how many steps."""

    samples: Samples
    steps: int

    def loss_of(self, measure: str) -> Callable[[Any, Any], Any]:
        """Return the loss that goes with a measure. *Raises*: ValueError where none is known."""
        if measure not in LOSSES:
            raise ValueError(f"shrink: no loss is known for the measure {measure!r:.40}; needed for --retrain: "
                             f"--metric {', '.join(LOSSES)}")  # fmt: skip
        return LOSSES[measure]

    def run(self, model: Any, measure: str) -> None:
        """Train a model of core, where it stands, and leave it in evaluation."""
        loss_of, rng = self.loss_of(measure), np.random.default_rng(SEED)
        optimizer = core.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE)
        model.train()
        for step in range(self.steps):
            inputs, target = self.samples.batches[step % len(self.samples.batches)]
            at = rng.permutation(len(target))[:ROWS].tolist()
            optimizer.zero_grad()
            output = first_tensor(model(*(x[at] for x in inputs)), core)
            loss_of(output, target[at]).backward()
            optimizer.step()
        model.eval()


def divided(samples: Samples, steps: int) -> tuple[Samples, Retraining]:
    """Return the last quarter of some data, to judge by, and the others, to train on.

    *Raises*: ValueError for data without targets, or of fewer than two items.
    """
    if not samples.labelled or samples.count < 2:
        raise ValueError(f"shrink: --retrain needs targets, and items to train on and to judge by; came: "
                         f"{samples.count} item(s), {'with' if samples.labelled else 'without'} targets")  # fmt: skip
    left = max(1, samples.count * 3 // 4)
    parts = Samples(loaded=samples.loaded, cut=samples.cut), Samples(loaded=samples.loaded, cut=samples.cut)
    for inputs, target in samples.batches:
        here = min(left, len(target))
        left -= here
        for part, rows in zip(parts, (slice(None, here), slice(here, None)), strict=True):
            if len(target[rows]):
                part.batches.append((tuple(x[rows] for x in inputs), target[rows]))
    return parts[1], Retraining(parts[0], steps)
