"""Where PyTorch tells how a training loop goes on while nobody listens to its functions, as `recorder.step_marks`."""

from __future__ import annotations

import sys
from functools import wraps
from typing import Any

from ..recorder.patch import Patch
from ..recorder.step_ends import PASSES
from ..recorder.step_marks import Marks, Told


class TorchMarks(Marks):
    """Tells somebody of PyTorch's steps, backward passes and modes between `start` and `stop`."""

    def __init__(self, told: Told, torch: Any) -> None:
        self.told, self._torch, self._handle = told, torch, None
        self._plain = (torch.Tensor, torch.nn.Parameter)  # no subclass's own answers
        c = torch._C
        self._tensor, self._item = torch.Tensor, c.TensorBase.item  # what follows a run hears of `Tensor.item`
        self._functions, self._dispatches = c._len_torch_function_stack, c._len_torch_dispatch_stack
        module = sys.modules["torch.nn.modules.module"].Module
        self._patches = [
            Patch(torch.autograd, "backward", self._backward(torch.autograd.backward)),
            Patch(module, "train", self.train(vars(module)["train"])),
        ]

    def start(self) -> None:
        """Begin to tell, after all else that hears of a step: what is told of its end may stop listening."""
        self._handle = sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(self.hook)
        for patch in self._patches:
            patch.on()

    def _backward(self, own: Any) -> Any:
        marks = self

        @wraps(own)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if marks.told is not None and args:
                roots = args[0]
                try:
                    marks.told.passing(marks, roots[0] if isinstance(roots, list | tuple) and roots else roots)
                except Exception as error:
                    marks.fails(error)
            result = own(*args, **kwargs)
            if marks.told is not None and marks.told.passes > PASSES:
                marks.over()
            return result

        return backward

    def value(self, loss: Any) -> float:
        """Return a loss; 0.0 where it is not one number on this machine, or where modes of the user's would hear of
        the question."""
        if (
            loss.__class__ is not self._tensor
            or not loss.is_cpu
            or loss.ndim
            or self._functions()
            or self._dispatches()
        ):
            return 0.0
        return self._item(loss)  # type: ignore[no-any-return]

    def gradient(self, p: Any) -> tuple[int, int]:
        """Return what tells a parameter's gradient from another one, and how often it was written; (0, 0): none."""
        if p.__class__ not in self._plain:
            return 0, 0
        g = p.grad
        return (0, 0) if g is None else (id(g), g._version)
