"""PyTorch's steps, told to the course of a run: passes, optimizers' steps, numbers that leave the graph.

It is no function mode: ops run as if it were not there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import wraps
from typing import Any

from core.base import source

from ..recorder.run_course import RunCourse
from ..recorder.step_values import Library
from .compiled import Patch

SAMPLE = 4096  # values of a parameter whose step is measured


class Torch(Library):
    """Reads PyTorch's tensors; what is on a GPU is asked for together, and rarely."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self._plain = torch._C._disabled_torch_dispatch_impl
        self._dispatches = torch._C._len_torch_dispatch_stack
        self._undispatched = sys.modules["torch.utils._python_dispatch"]._disable_current_modes

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """Let no mode and no subclass of the user's hear of what is asked in a block."""
        with self.torch._C.DisableTorchFunction(), self._undispatched() if self._dispatches() else nullcontext():
            yield

    def answers(self, t: Any) -> bool:
        """Return whether PyTorch itself answers for a tensor, and not its class."""
        return t is None or type(t).__torch_dispatch__ is self._plain

    def number(self, t: Any) -> float | None:
        if not self.answers(t) or t.device.type != "cpu" or t.numel() != 1 or t.is_complex():
            return None
        return float(self.torch._C.TensorBase.item(t))

    def held(self, t: Any) -> Any:
        return t.detach() if self.answers(t) and t.numel() == 1 and not t.is_complex() else None

    def numbers(self, held: Sequence[Any]) -> list[float]:
        with self.unheard(), self.torch.no_grad():
            stacked = self.torch.stack([t.reshape(()).double() for t in held])
            return [float(v) for v in stacked.cpu().tolist()]

    def weights(self, optimizer: Any) -> list[Any]:
        return [p for p in super().weights(optimizer) if self.answers(p) and self.answers(p.grad)]

    def quiet(self) -> bool:
        return not self.torch.is_grad_enabled()

    def gradients(self, parameters: Sequence[Any]) -> list[Any]:
        return [p.grad for p in parameters]

    def squares(self, arrays: Sequence[Any]) -> list[float | None]:
        known = [a.detach() for a in arrays if a is not None]
        if any(a.is_sparse for a in known):
            known = [a.coalesce().values() if a.is_sparse else a for a in known]
        sums = [a.float().square().sum() for a in known]
        found = iter(self.numbers(sums) if sums else [])
        return [None if a is None else next(found) for a in arrays]

    def samples(self, parameters: Sequence[Any]) -> list[Any]:
        with self.torch.no_grad():
            flat = [p.detach().reshape(-1) for p in parameters]
            return [a[:: max(a.numel() // SAMPLE, 1)].float().clone() for a in flat]

    def memory(self) -> int:
        cuda = self.torch.cuda
        return int(cuda.memory_allocated()) if cuda.is_available() and cuda.is_initialized() else 0


class Ear:
    """Tells one course what PyTorch does, between `start` and `stop`."""

    def __init__(self, course: RunCourse, torch: Any) -> None:
        self.course, self.torch = course, torch
        self.library = Torch(torch)
        self._patches = [Patch(torch.autograd, "backward", self._backward(torch.autograd.backward))]
        self._handles: list[Any] = []
        self._numbers: dict[str, Any] = {}
        self._stepping = False
        self._compiling = torch.compiler.is_compiling
        course.libraries.append(self.library)
        source.add_package(os.path.dirname(torch.__file__))

    def start(self) -> None:
        """Begin to listen."""
        optimizer = sys.modules["torch.optim.optimizer"]
        for patch in self._patches:
            patch.on()
        for name in ("item", "__float__"):
            if name not in vars(self.torch.Tensor):  # it has them from its base
                self._numbers[name] = self._number(getattr(self.torch._C.TensorBase, name))
                setattr(self.torch.Tensor, name, self._numbers[name])
        self._handles = [
            optimizer.register_optimizer_step_pre_hook(self._stepping_begins),
            optimizer.register_optimizer_step_post_hook(self._stepping_ends),
        ]

    def stop(self) -> None:
        """Take everything back, each also where another cannot be; twice does nothing more."""
        with ExitStack() as undo:
            for handle in self._handles:
                undo.callback(handle.remove)
            for patch in self._patches:
                undo.callback(patch.off)
            for name, ours in self._numbers.items():
                if vars(self.torch.Tensor).get(name) is ours:
                    undo.callback(delattr, self.torch.Tensor, name)

    def _safely(self, work: Any, *args: Any) -> None:
        """As in the recorder, an error of ours is never the user's."""
        try:
            with self.library.unheard():
                work(self.library, *args)
        except Exception as error:
            self.course.failed(error)

    def _asked(self, question: Callable[[], bool]) -> bool:
        """Return what the course answers, where nothing is being compiled; an error of ours is no answer."""
        if self._compiling():
            return False
        try:
            return question()
        except Exception as error:
            self.course.failed(error)
            return False

    def _backward(self, own: Any) -> Any:
        @wraps(own)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            inputs = kwargs.get("inputs")
            if inputs is None and len(args) < 5:
                roots = (tensors,) if isinstance(tensors, self.torch.Tensor) else tuple(tensors)
                if self._asked(self.course.takes_pass):
                    self._safely(self.course.backward, roots)
                return own(roots if tensors is not roots and len(roots) != 1 else tensors, *args, **kwargs)
            return own(tensors, *args, **kwargs)

        return backward

    def _number(self, own: Any) -> Any:
        @wraps(own)
        def number(t: Any) -> Any:
            value = own(t)
            # what an optimizer reads is its own affair
            if not self._stepping and self._asked(self.course.takes_number):
                self._safely(self.course.number, value)
            return value

        return number

    def _stepping_begins(self, optimizer: Any, *given: Any) -> None:
        self._stepping = True
        if self.course.due and self._asked(self.course.takes_weights):
            self._safely(self.course.before, optimizer)

    def _stepping_ends(self, optimizer: Any, *given: Any) -> None:
        self._stepping = False
        if self._asked(self.course.takes_step):
            self._safely(self.course.after, optimizer)
