"""PyTorch's activity as the recorder's events: ops by a function mode, gradients by hooks, modules and optimizers too.

Nothing of the user's code changes, and PyTorch is used only where it has been imported already. What PyTorch's own
Python calls inside one public function is one op: the lines and names are the user's. Memory is not followed, since
PyTorch's saved tensors outlive their Python objects.
"""

from __future__ import annotations

import os
import sys
import weakref
from contextlib import ExitStack
from functools import partial, wraps
from threading import get_ident
from typing import Any

from core.base import dtypes, source

from ..recorder import tensor_types
from ..recorder.patch import Patch
from .compiled import Compiled
from .hooks import Ear
from .tensors import Shadow
from .warned import Warned

_live: weakref.WeakSet[Watch] = weakref.WeakSet()


class Watch(Compiled):
    """Tells one recorder what PyTorch does between `start` and `stop` in the thread that made it.

    While a compiled function runs nothing of this is there: what compiles it would compile the recorder too.
    """

    def __init__(self, recorder: Any, torch: Any) -> None:
        self.recorder, self.torch = recorder, torch
        self.alive = False
        self.still = torch._C.DisableTorchFunction  # no question asked in it reaches the user's modes and subclasses
        self.current = torch._C._current_autograd_node
        self._began: dict[int, int] = {}
        self._thread = get_ident()
        self._ear = Ear(self)
        self._shadows: dict[int, tuple[Any, Shadow]] = {}
        self._handles: list[Any] = []
        self._registered = []
        self._registered_steps = []
        self._hooked: dict[int, Shadow] = {}
        self._busy = self._updating = False
        self._backwards = 0
        self._asked_for = False  # whether the innermost of them is `autograd.grad`
        self._stepping: Any = None
        self._arrays = {torch.bfloat16: torch.float32}
        known = {"float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "complex64",
                 "complex128"}  # fmt: skip
        self._dtypes = {getattr(torch, n): getattr(dtypes, n) for n in known} | {torch.bool: dtypes.bool_}
        self._grad = torch.autograd.grad
        self._when_heard = {}
        self.checker: Any = None  # under --check
        self.precision: Any = None  # under --precision
        self.after_backward = None  # who is told when a backward pass has been told of
        self._mode = _mode(self)
        self._hooks, self._step_hooks = self._global_hooks()
        self._patches = self._all_patches()
        self._warned = Warned()
        self._compiled: tuple[Any, int] | None = None  # the frame that runs a compiled function, and since when
        self._dispatching = sys.modules["torch.utils._python_dispatch"]._disable_current_modes
        source.add_package(os.path.dirname(torch.__file__))
        _live.add(self)

    # -- beginning and end ---------------------------------------------------------------------------------------------

    def _global_hooks(self) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]:
        """Return what to call of every module, and of every optimizer: (how it is registered, the hook)."""
        module, optimizer = sys.modules["torch.nn.modules.module"], sys.modules["torch.optim.optimizer"]
        enter, leave = self.recorder.enter_module, self.recorder.exit_module
        after = partial(module.register_module_forward_hook, always_call=True)
        modules = [
            (module.register_module_forward_pre_hook, lambda m, _: self.safely(self._quietly, enter, m)),
            (after, lambda m, *_: self.safely(self._quietly, leave, m)),
        ]
        return modules, [
            (optimizer.register_optimizer_step_pre_hook, lambda o, *given: self.safely(self._update, o, True, given)),
            (optimizer.register_optimizer_step_post_hook, lambda o, *_: self.safely(self._update, o, False)),
        ]

    def _all_patches(self) -> list[Patch]:
        """Return what stands in for functions of PyTorch's that no mode and no hook hears of."""
        function = sys.modules["torch.autograd.function"].Function
        parameter = sys.modules["torch.nn.parameter"].Parameter
        apply, new = function.__dict__["apply"], parameter.__dict__["__new__"]
        bare = getattr(new, "__func__", new)

        @wraps(apply.__func__)
        def custom(cls: Any, *given: Any, **named: Any) -> Any:
            return self._custom(apply.__func__, cls, given, named)

        @wraps(bare)
        def parameter_new(cls: Any, *given: Any, **named: Any) -> Any:
            made = bare(cls, *given, **named)
            self.safely(self._parameter, made, named.get("data", given[0] if given else None))
            return made

        patches = [
            Patch(function, "apply", classmethod(custom)),
            Patch(parameter, "__new__", staticmethod(parameter_new)),
        ]
        compiler = self.torch.compile

        @wraps(compiler)
        def compiling(*args: Any, **kwargs: Any) -> Any:
            made = compiler(*args, **kwargs)
            self.safely(self._hear_compiled)  # the compiler is imported when it is first asked for
            return made

        patches.append(Patch(self.torch, "compile", compiling))
        utils = sys.modules.get("torch.utils")
        if hasattr(utils, "swap_tensors"):
            swap = utils.swap_tensors  # type: ignore[union-attr]

            @wraps(swap)
            def swap_tensors(t1: Any, t2: Any) -> Any:
                self.safely(self._forget, t1, t2)  # it refuses tensors that somebody holds weak references to
                return swap(t1, t2)

            patches.append(Patch(utils, "swap_tensors", swap_tensors))
        return patches

    def start(self) -> None:
        """Begin to listen."""
        self.alive = True
        tensor_types.adapters.append(self.adapt)
        self._warned.on()
        self._on()

    def stop(self) -> None:
        """Stop listening and take every hook back, each also where another cannot be."""
        self.alive = False
        self._ear.watch = None
        with ExitStack() as undo:
            for handle in self._handles:
                undo.callback(handle.remove)
            self._handles = []
            undo.callback(self._warned.off)
            undo.callback(self._off)

    def can_pause(self) -> bool:
        """Return whether nothing of ours runs now: no function of PyTorch's that is heard, none that is compiled."""
        return self._compiled is None and not self._busy and not self._backwards

    def pause(self) -> None:
        """Hear nothing for some steps, at the cost of almost nothing; the hooks of steps stay, since PyTorch goes
        through them while a step ends, which is when this is called."""
        self.alive = self._updating = False
        self._stepping = None
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._hooked.clear()
        self._began.clear()
        self._quiet()

    def resume(self) -> None:
        """Listen again."""
        self.alive = True
        self._listen(self._enter_mode)

    def close(self) -> None:
        """After the record is made: forget the tensors, and take back what `stop` could not."""
        if self.adapt in tensor_types.adapters:
            tensor_types.adapters.remove(self.adapt)
        self._shadows.clear()
        self._hooked.clear()
        self.stop()


def _forked() -> None:
    """A child of `fork`, as a data loader's worker, is silent, though all that its parent had put in place is there."""
    for watch in list(_live):
        watch.alive = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _mode(watch: Watch) -> Any:
    """Return a function mode of PyTorch's that hands every call to `watch`."""

    class Listening(watch.torch.overrides.TorchFunctionMode):  # type: ignore[misc,name-defined]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            try:
                passes = watch.passes(function)
            except Exception as error:  # `safely` costs more than most of these calls
                watch.ended(error)
                passes = True
            if passes:
                return function(*args, **(kwargs or {}))
            return watch.run(function, args, kwargs or {})

    return Listening()
