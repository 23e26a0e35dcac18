"""`lab.fit`: the training loop that everybody writes, with a live plot; a loop of your own needs none of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from core.base import source

from ..console.progress import Screen
from .batches import shapes
from .history import History
from .run import Run

source.ours[__file__] = True  # under `%%autograd` the ops belong to the user's line that calls `lab.fit`
_HERE = os.path.dirname(os.path.abspath(__file__))


def fit(model: Any, data: Iterable[Any], loss: Callable[..., Any] | None, optimizer: Any, epochs: int = 1, *,
        validation: Iterable[Any] | None = None, metrics: Any = None, scheduler: Any = None,
        scheduler_every: str | None = None, clip: float | None = None, accumulate: int = 1, amp: Any = None,
        checkpoint: str | os.PathLike[str] | None = None, callback: Callable[[History], Any] | None = None,
        stop_on_nan: bool = True, show: bool | str = True, title: str = "") -> History:  # fmt: skip
    """Train a model, with a bar and a live plot of the loss; returns the history.

    data : batches, such as a DataLoader gives. Of a pair or longer the last is the target, the others are the model's
        inputs: ``loss(model(*inputs), target)``. A single tensor is both; a dict goes to the model by name, and whole
        to the loss. With ``loss=None`` the model is called with the whole batch and returns the loss.
    validation : batches whose loss is taken after every epoch, in eval mode and without gradients.
    metrics : a function of (output, target), or an object with `update`, `compute` and `reset`, or several in a list or
        a dict of names; means over the samples of an epoch.
    scheduler : stepped after every epoch, or after every optimizer step with ``scheduler_every="step"``, which is what
        OneCycleLR and CyclicLR get unasked. ReduceLROnPlateau gets the validation's loss, or the training's.
    clip : the largest norm of all gradients together. accumulate : batches to an optimizer step.
    amp : True, or a dtype, for automatic mixed precision; float16 with a GradScaler.
    checkpoint : a file, written after every epoch; if it is there already, training goes on from it.
    callback : called with the history after every epoch; when it returns True, training stops.
    stop_on_nan : end before the weights are spoilt when a loss is not finite, and say at which step.
    show : False shows nothing; "notebook", "terminal" or "lines" choose the way, which otherwise fits the place.

    Ctrl-C, or a notebook's Stop, ends training: the history so far is returned, and the weights stay as they are.

    *Raises*: ValueError for arguments that cannot be meant; whatever model, loss and data raise, with epoch, step and
    the batch's shapes added.

    >>> import core, lab
    >>> _ = core.manual_seed(0)
    >>> x = core.randn(64, 3)
    >>> data = core.utils.data.DataLoader(core.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16)
    >>> model = core.nn.Linear(3, 1)
    >>> history = lab.fit(model, data, core.nn.functional.mse_loss, core.optim.SGD(model.parameters(), 0.1), epochs=20,
    ...                   show=False)
    >>> len(history.epochs), len(history.losses), history.loss[-1] < 1e-3
    (20, 80, True)
    """
    run = Run(model, data, loss, optimizer, epochs, validation, metrics, scheduler, scheduler_every, clip, accumulate,
               amp, checkpoint, callback, stop_on_nan, Screen(show), title)  # fmt: skip
    was_training = getattr(model, "training", True)
    try:
        run.go()
    except KeyboardInterrupt:
        run.end("interrupted", f"interrupted {run.where()}; the weights are as they were then")
    except Exception as error:
        place = run.where()
        run.end("failed", f"{type(error).__name__} {place}: {(str(error).splitlines() or [''])[0]}")
        if hasattr(error, "add_note"):
            error.add_note(f"lab.fit: {place}" + (f", batch of {shapes(run.batch)}" if run.batch is not None else ""))
        raise error.with_traceback(_outside(error.__traceback__)) from error.__cause__
    finally:
        if was_training is False and hasattr(model, "eval"):
            model.eval()
    return run.history


def _outside(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the loop's own frames."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE):
        trace = trace.tb_next
    return trace
