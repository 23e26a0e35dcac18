"""One run of `lab.fit`: epochs, steps, validation, schedule, checkpoint, and how it ends.

The losses are read off their arrays, so that no value leaves the graph as far as a recording can hear.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import core
from core.base import source
from core.tensors.tensor import Tensor, wrap

from ..console.progress import Screen
from . import showing
from .batches import samples, to_device
from .history import Epoch, History
from .metric import metrics_of
from .resume import load, save

source.ours[__file__] = True

Step = tuple[Tensor, Any, Any, int]
_PAIRS = (list, tuple)
PENDING = 1000  # losses on a GPU that wait before they are read


class Run:
    """One call of `fit`."""

    def __init__(self, model: Any, data: Any, loss: Any, optimizer: Any, epochs: int, validation: Any, metrics: Any,
                 scheduler: Any, scheduler_every: str | None, clip: float | None, accumulate: int, amp: Any,
                 checkpoint: Any, callback: Any, stop_on_nan: bool, screen: Screen, title: str) -> None:  # fmt: skip
        self.model, self.data, self.loss, self.optimizer, self.epochs = model, data, loss, optimizer, epochs
        self.validation, self.scheduler, self.clip, self.accumulate = validation, scheduler, clip, accumulate
        self.checkpoint, self.callback, self.stop_on_nan = checkpoint, callback, stop_on_nan
        self.screen, self.title = screen, title
        self.history = History()
        self.metrics = metrics_of(metrics)
        self.parameters = list(model.parameters()) if hasattr(model, "parameters") else []
        self.device = self.parameters[0].device if self.parameters else core.device("cpu")
        self.check()
        kind = type(scheduler).__name__
        self.every = scheduler_every or ("step" if kind in ("OneCycleLR", "CyclicLR") else "epoch")
        self.plateau = kind == "ReduceLROnPlateau"
        self.amp, self.scaler = _mixed(amp, self.device)
        self.history.expected = _length(data)
        self.gathered = 0  # batches whose gradients wait for an update
        self.batch: Any = None
        self.epoch = self.step = 0  # of this epoch
        self.pending: list[Any] = []
        self.sums = [0.0, 0]  # of losses times samples, and samples, of this epoch
        self.began = perf_counter()
        self.counted = 0  # steps of this call, without those of a checkpoint
        self.waited = 0.0
        self.note = ""

    def check(self) -> None:
        """Arguments that cannot be meant are told before anything runs."""
        if not callable(self.model) or not hasattr(self.optimizer, "step"):
            raise ValueError(f"lab.fit(model, data, loss, optimizer, epochs): came: model {type(self.model).__name__}, "
                             f"optimizer {type(self.optimizer).__name__}; needed: a module, an optimizer")  # fmt: skip
        for name, value in (("epochs", self.epochs), ("accumulate", self.accumulate)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"lab.fit: {name}={value!r}; needed: an integer of at least 1")
        if self.loss is not None and not callable(self.loss):
            raise ValueError(f"lab.fit: loss={self.loss!r}; needed: a function of (output, target), or None")
        if self.clip is not None and self.clip <= 0:
            raise ValueError(f"lab.fit: clip={self.clip!r}; needed: a positive norm")
        held = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        if self.parameters and not any(id(p) in held for p in self.parameters):
            raise ValueError("lab.fit: the optimizer holds none of the model's parameters, so it would not learn\n"
                             "  remedy: make the optimizer from model.parameters() after the model")  # fmt: skip

    # -- the loop ------------------------------------------------------------------------------------------------------

    def go(self) -> None:
        """All epochs."""
        if self.checkpoint is not None and (resumed := load(self, self.checkpoint)):
            self.note = f"continued after epoch {resumed} of {os.fspath(self.checkpoint)}"
        step = self.by_closure if type(self.optimizer).__name__ == "LBFGS" else self.by_step
        for epoch in range(len(self.history.epochs) + 1, self.epochs + 1):
            began = perf_counter()
            self.epoch, self.step, self.sums = epoch, 0, [0.0, 0]
            for metric in self.metrics:
                metric.reset()
            if hasattr(self.model, "train"):
                self.model.train()
            before = perf_counter()
            for batch in self.data:
                self.waited += perf_counter() - before
                if not step(batch):
                    return
                before = perf_counter()
                if before >= self.screen.next:
                    self.read()
                    self.screen.draw(showing.moment(self))
                    before = perf_counter()
            if not self.finish_epoch(began):
                return
        self.end("done", "")

    def forward(self, batch: Any) -> Step:
        """Return (loss, output, target, samples) of a batch."""
        self.batch = batch
        n, here = 0, self.device
        if type(batch) is list or type(batch) is tuple:  # the common case first: a step may take no more than 0.2 ms
            for part in batch:
                if type(part) is not Tensor or part._kind.device is not here:
                    break
            else:
                n = len(batch[0]._a) if batch and batch[0]._a.ndim else 1
        if not n:
            self.batch = batch = to_device(batch, here)
            n = samples(batch)
        if self.amp is not None:
            with core.amp.autocast(self.device.type, self.amp):
                loss, output, target = self.compute(batch)
        else:
            loss, output, target = self.compute(batch)
        if not isinstance(loss, Tensor) or loss._a.size != 1:
            came = f"a tensor of {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            raise ValueError(f"lab.fit: the loss is one number for a batch\n  came: {came}; needed: a tensor of one "
                             "element; remedy: reduction='mean', or .mean()")  # fmt: skip
        return loss, output, target, n

    def compute(self, batch: Any) -> tuple[Any, Any, Any]:
        """Return (loss, output, target): who gets what of a batch."""
        pair = isinstance(batch, _PAIRS)
        if self.loss is None:
            if isinstance(batch, Mapping):
                loss = self.model(**batch)
            else:
                loss = self.model(*batch) if pair else self.model(batch)
            return (loss[0] if isinstance(loss, tuple) else loss), None, None
        if pair:
            target = batch[-1]
            output = self.model(*batch[:-1]) if len(batch) != 1 else self.model(target)
        elif isinstance(batch, Mapping):
            output, target = self.model(**batch), batch
        else:
            output, target = self.model(batch), batch
        return self.loss(output, target), output, target

    def by_step(self, batch: Any) -> bool:
        """Forward, backward and, at the end of a group, an update; whether to go on."""
        k = self.step % self.accumulate
        if k == 0:
            self.optimizer.zero_grad()
        loss, output, target, n = self.forward(batch)
        self.note_loss(loss, n)
        if not self.finite():
            return False
        if self.metrics:
            self.measure(output, target, n)
        size = self.accumulate
        if self.history.expected and 0 < (rest := self.history.expected - (self.step - k)) < size:
            size = rest  # a shorter last group
        part = loss / size if size > 1 else loss
        (self.scaler.scale(part) if self.scaler is not None else part).backward()
        self.step += 1
        self.counted += 1
        self.gathered = k + 1
        if k + 1 >= size:
            self.update()
        return True

    def update(self) -> None:
        """One step of the optimizer."""
        self.gathered = 0
        if self.clip is not None:
            if self.scaler is not None:
                self.scaler.unscale_(self.optimizer)
            core.nn.utils.clip_grad_norm_(self.parameters, self.clip)
        if self.scaler is not None:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        if self.scheduler is not None and self.every == "step":
            self.scheduler.step()

    def by_closure(self, batch: Any) -> bool:
        """Return a step of an optimizer that asks for the loss again and again."""
        first: list[Step] = []

        def closure() -> Tensor:
            self.optimizer.zero_grad()
            found = self.forward(batch)
            first.append(found)
            found[0].backward()
            if self.clip is not None:
                core.nn.utils.clip_grad_norm_(self.parameters, self.clip)
            return found[0]

        self.optimizer.step(closure)
        loss, output, target, n = first[0]
        self.note_loss(loss, n)
        self.measure(output, target, n)
        self.step += 1
        self.counted += 1
        return self.finite()

    def measure(self, output: Any, target: Any, n: int) -> None:
        """What the metrics make of a batch; the output without its history, silently: no value leaves the graph."""
        if output is not None:
            with core.no_grad():
                plain = wrap(output._a, output._kind) if isinstance(output, Tensor) else output
                for metric in self.metrics:
                    metric.update(plain, target, n)

    def note_loss(self, loss: Tensor, n: int) -> None:
        """Keep a loss; on a GPU its array, which is read later."""
        if self.device.type == "cpu":
            value = float(loss._a)
            self.history.steps.append(value)
            self.sums[0] += value * n
        else:
            self.pending.append((loss._a, n))
            if len(self.pending) >= PENDING:
                self.read()
        self.sums[1] += n

    def read(self) -> None:
        """Read the losses that wait."""
        for a, n in self.pending:
            value = float(a)
            self.history.steps.append(value)
            self.sums[0] += value * n
        self.pending.clear()

    def finite(self) -> bool:
        """Return whether the last loss is finite, or nobody minds."""
        steps = self.history.steps
        if not self.stop_on_nan or not steps or math.isfinite(steps[-1]):
            return True
        return self.not_finite(len(steps) - 1)

    def not_finite(self, at: int) -> bool:
        """Stop for the loss of step `at`, counted from 0 over all epochs."""
        self.read()
        value, done = self.history.steps[at], sum(e.steps for e in self.history.epochs)
        self.history.stop_step = at
        early = self.device.type == "cpu" and type(self.optimizer).__name__ != "LBFGS"
        weights = "the weights are those from before it" if early else "the weights may hold it already"
        place = f"in epoch {self.epoch}, step {at - done + 1} ({at + 1:,} in all)"
        self.end("nan", f"the loss was {value} {place}; {weights}. Remedy: a smaller learning rate, or clip=1.0; "
                 "%%autograd on the cell names the op that made it")  # fmt: skip
        return False

    # -- the end of an epoch -------------------------------------------------------------------------------------------

    def finish_epoch(self, began: float) -> bool:
        """Validation, schedule, checkpoint and callback; whether to go on."""
        self.read()
        if self.step == 0:
            once = " The data seem to be an iterator that was used up by the first epoch." if self.epoch > 1 else ""
            raise ValueError(f"lab.fit: the data gave no batch in epoch {self.epoch}.{once}\n  needed: what can be "
                             "gone through once an epoch; remedy: a DataLoader or a list")  # fmt: skip
        if self.stop_on_nan and self.device.type != "cpu":
            tail = self.history.steps[-self.step :]
            bad = next((k for k, v in enumerate(tail) if not math.isfinite(v)), None)
            if bad is not None:
                return self.not_finite(len(self.history.steps) - self.step + bad)
        if self.gathered:
            self.update()  # the last group was shorter than the data's length let expect
        self.history.expected = self.step
        row = Epoch(self.epoch, self.sums[0] / max(self.sums[1], 1), self.step, 0.0,
                    metrics={m.name: m.value() for m in self.metrics if m.seen},
                    learning_rate=float(self.optimizer.param_groups[0]["lr"]))  # fmt: skip
        if self.validation is not None:
            self.validate(row)
        row.seconds = perf_counter() - began
        self.history.epochs.append(row)
        if self.scheduler is not None and self.every == "epoch":
            if self.plateau:
                self.scheduler.step(row.loss if row.validation is None else row.validation)
            else:
                self.scheduler.step()
        wide = len(str(self.epochs))
        self.screen.say(f"epoch {self.epoch:>{wide}}/{self.epochs}  {row}")
        if self.checkpoint is not None:
            save(self, self.checkpoint)
        if self.callback is not None and self.callback(self.history) is True:
            self.end("stopped", f"the callback stopped it after epoch {self.epoch}")
            return False
        return True

    def validate(self, row: Epoch) -> None:
        """Loss and metrics of the validation data."""
        total, count = 0.0, 0
        for metric in self.metrics:
            metric.reset()
        if hasattr(self.model, "eval"):
            self.model.eval()
        with core.no_grad():
            for batch in self.validation:  # type: ignore[union-attr]
                loss, output, target, n = self.forward(batch)
                total, count = total + float(loss._a) * n, count + n
                self.measure(output, target, n)
                if perf_counter() >= self.screen.next:
                    self.screen.draw(showing.moment(self, "validation of "))
        if not count:
            raise ValueError("lab.fit: the validation data gave no batch\n  remedy: a DataLoader or a list")
        row.validation, row.validation_metrics = total / count, {m.name: m.value() for m in self.metrics if m.seen}

    # -- how it ends ---------------------------------------------------------------------------------------------------

    def where(self) -> str:
        """Return where the run is, in words."""
        return f"in epoch {max(self.epoch, 1)}, step {self.step + 1}"

    def end(self, state: str, message: str) -> None:
        """The last picture of the run."""
        self.read()
        self.history.state, self.history.message = state, message
        self.screen.draw(showing.last(self, message), final=True)


def _length(data: Any) -> int | None:
    try:
        return len(data)
    except TypeError:
        return None


def _mixed(amp: Any, device: Any) -> tuple[Any, Any]:
    """Return (the dtype to compute in, a scaler where it is float16)."""
    if amp is None or amp is False:
        return None, None
    dtype = (core.float16 if device.type == "cuda" else core.bfloat16) if amp is True else amp
    dtype = getattr(core, dtype) if isinstance(dtype, str) else dtype
    if dtype not in (core.float16, core.bfloat16):
        raise ValueError(f"lab.fit: amp={amp!r}; needed: True, core.bfloat16 or core.float16")
    return dtype, core.amp.GradScaler(device.type) if dtype is core.float16 else None
