"""Where core tells, at almost no cost, how a training loop goes on while no observer listens.

An optimizer's step ends, a backward pass begins and ends, a model is put to another mode: functions that run once or a
few times a step, round which somebody may be told. `lab.adapters.torch_marks` has the same of PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol

from numpy import ndarray

from core.nn import Module
from core.optim.optimizer import register_optimizer_step_post_hook
from core.tensors import tensor
from core.tensors.tensor import Tensor

from .patch import Patch
from .step_ends import PASSES


class Told(Protocol):
    """Who is told; what one of these raises ends the telling and reaches nobody else."""

    passes: int
    """Backward passes that have begun since an optimizer stepped."""

    def stepped(self, marks: Any, optimizer: Any) -> None:
        """An optimizer has stepped."""

    def passing(self, marks: Any, loss: Any) -> None:
        """A backward pass is about to begin, from a tensor."""

    def passed(self) -> None:
        """It has come to its end; told where more than `PASSES` did without a step of an optimizer."""

    def turned(self, module: Any) -> None:
        """A module was put to training or evaluation mode, alone or with those around it."""

    def failed(self, error: Exception) -> None:
        """One of the methods above raised `error`, and none is called any more."""


class Marks:
    """Tells somebody of core's steps, backward passes and modes between `start` and `stop`."""

    def __init__(self, told: Told) -> None:
        self.told: Told | None = told
        self._handle: Any = None
        self._patches = [
            Patch(Tensor, "backward", self._backward(vars(Tensor)["backward"])),
            Patch(Module, "train", self.train(vars(Module)["train"])),
        ]

    def start(self) -> None:
        """Begin to tell."""
        self._handle = register_optimizer_step_post_hook(self.hook)
        for patch in self._patches:
            patch.on()

    def stop(self) -> None:
        """Take it all back; what somebody has kept of it tells nothing any more."""
        self.told = None
        if self._handle is not None:
            self._handle.remove()
        for patch in self._patches:
            patch.off()

    def hook(self, optimizer: Any, *given: Any) -> None:
        """After a step of any optimizer."""
        if self.told is not None:
            try:
                self.told.stepped(self, optimizer)
            except Exception as error:
                self.fails(error)

    def fails(self, error: Exception) -> None:
        """Tell nobody any more, since who was told raised `error`."""
        told, self.told = self.told, None
        if told is not None:
            told.failed(error)

    def _backward(self, own: Any) -> Any:
        marks = self

        @wraps(own)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if marks.told is not None and args:
                try:
                    marks.told.passing(marks, args[0])
                except Exception as error:
                    marks.fails(error)
            result = own(*args, **kwargs)
            if marks.told is not None and marks.told.passes > PASSES:
                marks.over()
            return result

        return as_library(backward, tensor.__file__)

    def over(self) -> None:
        """A backward pass has come to its end, one of many without a step of an optimizer."""
        try:
            if self.told is not None:
                self.told.passed()
        except Exception as error:
            self.fails(error)

    def train(self, own: Any) -> Any:
        """Return what stands in for `Module.train`."""
        marks = self

        @wraps(own)
        def train(module: Any, *args: Any, **kwargs: Any) -> Any:
            result = own(module, *args, **kwargs)
            if marks.told is not None:
                try:
                    marks.told.turned(module)
                except Exception as error:
                    marks.fails(error)
            return result

        return as_library(train, own.__code__.co_filename)

    def value(self, loss: Any) -> float:
        """Return a loss; 0.0 where it is not one number that lies on this machine."""
        a = loss._a
        return float(a) if a.__class__ is ndarray and not a.ndim else 0.0

    def gradient(self, p: Any) -> tuple[int, int]:
        """Return what tells a parameter's gradient from another one, and how often it was written; (0, 0): none."""
        g = p._grad
        return (0, 0) if g is None else (id(g), g._version)


def as_library(ours: Callable[..., Any], file: str) -> Callable[..., Any]:
    """Return a function whose frame counts as one of a library's file: a frame of the lab's would end the chain of
    the user's frames."""
    ours.__code__ = ours.__code__.replace(co_filename=file)  # type: ignore[attr-defined]
    return ours
