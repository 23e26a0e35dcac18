"""Running a model on some batches, to look at what its layers are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...base.errors import text
from ...base.modes import no_grad


def run_batches(model: Any, batches: Iterable[Any], op: str) -> int:
    """Call a model in evaluation on each batch, of a pair (inputs, labels) on the first; gives how many there were.

    *Raises*: ValueError where there are none.
    """
    training = model.training
    count = 0
    model.eval()
    try:
        with no_grad():
            for batch in batches:
                model(batch[0] if isinstance(batch, tuple | list) else batch)
                count += 1
    finally:
        model.train(training)
    if not count:
        raise ValueError(text("there is no batch to look at", op=op, came="no batches",
                              remedy="a list, or a loader: an iterator that was used up gives none"))  # fmt: skip
    return count


def inputs_of(layers: Iterable[Any], look: Callable[[Any, Any], None]) -> list[Any]:
    """Let ``look(layer, input)`` see the inputs of each layer; gives the hooks, to be removed."""
    return [layer.register_forward_pre_hook(lambda m, args: look(m, args[0])) for layer in layers]
