"""`checkpoint`: what ops would save for backward is not kept, but computed again when backward needs it.

It stands on `saved_tensors_hooks`: packing a saved tensor keeps a number; the first one that is unpacked runs the
function again, under hooks that collect what it saves in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any

from ..autograd.graph import saved_tensors_hooks
from ..base.device import device as Device
from ..base.errors import text
from ..base.modes import enable_grad
from ..base.source import describe
from ..dispatch import autocast, saved_tensor_hooks
from ..events import observe
from ..rng import generator
from ..tensors.tensor import Tensor
from .reentrant import CheckpointFunction, check_backward_validity, detach_variable
from .selective import CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts

_early_stop = True
_debug: bool | None = None


class CheckpointError(RuntimeError):
    """What was computed again differs from what was computed the first time."""


class _Enough(Exception):
    """Everything that was asked for is there: the rest of the function need not run."""


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether the second run ends as soon as everything saved is there again (the default), or runs to its end.

    >>> import core
    >>> with core.utils.checkpoint.set_checkpoint_early_stop(False):
    ...     pass
    """
    global _early_stop
    was, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = was


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Whether errors of all checkpoints list the ops of both runs; None leaves it to each one's `debug`.

    >>> import core
    >>> with core.utils.checkpoint.set_checkpoint_debug_enabled(True):
    ...     pass
    """
    global _debug
    was, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = was


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Return the `context_fn` that does nothing."""
    return nullcontext(), nullcontext()


class _Log(observe.Observer):
    """The ops of a run, with their lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def op(self, event: observe.OpEvent) -> None:
        self.lines.append(f"{event.op} at {describe(event.place)}")


class _Frame:
    """One call of a function under `checkpoint`: what it saved, and how to have that again."""

    def __init__(self, function: Callable[[], Any], preserve_rng_state: bool, early_stop: bool, checks: bool,
                 recompute_context: AbstractContextManager[Any], debug: bool) -> None:  # fmt: skip
        self.function, self.early_stop, self.checks, self.context = function, early_stop, checks, recompute_context
        self.casts = autocast.snapshot()
        self.logs = (_Log(), _Log()) if debug else None
        self.metas: list[tuple[Any, ...]] = []  # of what the first run saved, in order
        self.again: dict[int, Tensor] = {}
        self.state = generator.states() if preserve_rng_state else None

    def pack(self, t: Tensor) -> int:
        self.metas.append((tuple(t.shape), t.dtype, t.device))
        return len(self.metas) - 1

    def unpack(self, k: int) -> Tensor:
        if k not in self.again:
            self._run_again()
        return self.again.pop(k)  # let go: a retained graph computes it again

    def _run_again(self) -> None:
        found: list[Tensor] = []

        def collect(t: Tensor) -> Tensor:
            found.append(t.detach())
            if self.early_stop and len(found) >= len(self.metas):
                raise _Enough
            return t

        with ExitStack() as around:
            around.enter_context(generator.fork_rng(enabled=self.state is not None))
            around.enter_context(enable_grad())
            around.enter_context(autocast.as_it_was(self.casts))
            around.enter_context(self.context)
            if self.logs is not None:
                around.enter_context(observe.observing(self.logs[1]))
            if self.state is not None:
                generator.set_states(self.state)
            with saved_tensors_hooks(collect, lambda t: t), suppress(_Enough):
                self.function()
        metas = [(tuple(t.shape), t.dtype, t.device) for t in found]
        if self.checks and metas != self.metas:
            raise CheckpointError(self._difference(metas))
        self.again = dict(enumerate(found))

    def _difference(self, metas: list[tuple[Any, ...]]) -> str:
        remedy = "a function that does the same whenever it is run: no global state, no randomness of one's own"
        if len(metas) != len(self.metas):
            return text("torch.utils.checkpoint: A different number of tensors was saved during the original forward "
                        "and recomputation.", op="checkpoint", came=f"{len(metas)} tensors",
                        needed=f"{len(self.metas)} tensors", remedy=remedy) + self._logged()  # fmt: skip
        i = next(k for k, (a, b) in enumerate(zip(metas, self.metas, strict=True)) if a != b)
        return text("torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                    "during the forward pass.", op="checkpoint", came=f"saved tensor {i}: {_in_words(metas[i])}",
                    needed=_in_words(self.metas[i]), remedy=remedy) + self._logged()  # fmt: skip

    def _logged(self) -> str:
        if self.logs is None:
            return "\n  debug=True lists the ops of both runs"
        runs = zip(("the first run", "the second run"), self.logs, strict=True)
        return "".join(f"\n  {run}:" + "".join(f"\n    {line}" for line in log.lines) for run, log in runs)


def _in_words(meta: tuple[Any, ...]) -> str:
    shape, dtype, device = meta
    return f"{shape} {dtype} on {device}"


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
               context_fn: Callable[[], tuple[Any, Any]] | None = None, determinism_check: str = "default",
               debug: bool = False, early_stop: bool = True, preserve_rng_state: bool = True,
               **kwargs: Any) -> Any:  # fmt: skip
    """Call ``function(*args, **kwargs)`` and keep nothing of what its ops save: backward runs it again.

    The second run has the random numbers and the autocast of the first.

    use_reentrant : True takes PyTorch's older way, a custom function whose backward runs backward: it makes no graph in
        the first run, and knows no keywords and no `autograd.grad`. False, and None, is the way without its limits.
    context_fn : gives two context managers, for the first run and for the second
        (`create_selective_checkpoint_contexts` makes a pair).
    determinism_check : "default" compares shapes, dtypes and devices of the two runs, "none" nothing.
    debug : an error lists the ops of both runs.
    early_stop : end the second run as soon as everything saved is there.
    preserve_rng_state : the second run draws the random numbers of the first.

    *Raises*: CheckpointError in backward where the second run saved something else; ValueError for settings that do not
    go together.

    >>> import core
    >>> x = core.tensor([1.0, 2.0], requires_grad=True)
    >>> core.utils.checkpoint.checkpoint(lambda t: (t.exp() * t).sum(), x, use_reentrant=False).backward()
    >>> x.grad
    tensor([ 5.4366, 22.1672])
    """
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    if use_reentrant:
        if kwargs:
            raise ValueError(
                f"Unexpected keyword arguments: {','.join(kwargs)}\n  remedy: use_reentrant=False takes them"
            )
        if context_fn is not None or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    first, second = (context_fn or noop_context_fn)()
    frame = _Frame(lambda: function(*args, **kwargs), preserve_rng_state, early_stop and _early_stop,
                   determinism_check == "default", second, debug if _debug is None else _debug)  # fmt: skip
    before = saved_tensor_hooks.stack.hooks
    try:
        saved_tensor_hooks.push(frame.pack, frame.unpack)
        with first, nullcontext() if frame.logs is None else observe.observing(frame.logs[0]):
            return function(*args, **kwargs)
    finally:
        try:
            saved_tensor_hooks.back_to(before)
        finally:  # Ctrl-C that came as it began has left it undone; a second call does nothing more
            saved_tensor_hooks.back_to(before)


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None,
                          preserve_rng_state: bool = True, **kwargs: Any) -> Any:  # fmt: skip
    """Run a sequence of functions (or a Sequential) in `segments` pieces, of which all but the last are checkpointed.

    >>> import core
    >>> model = core.nn.Sequential(core.nn.Linear(3, 3), core.nn.Tanh(), core.nn.Linear(3, 1))
    >>> core.utils.checkpoint.checkpoint_sequential(model, 2, core.ones(2, 3)).shape
    core.Size([2, 1])
    """
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
    steps: Sequence[Callable[[Any], Any]] = list(functions.children() if hasattr(functions, "children") else functions)
    if not 0 < segments <= max(len(steps), 1):
        raise ValueError(
            text("segments must be between 1 and the number of functions", op="checkpoint_sequential",
                 came=f"{segments} segments of {len(steps)} functions")
        )  # fmt: skip

    def piece(start: int, stop: int) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for step in steps[start:stop]:
                x = step(x)
            return x

        return run

    size = len(steps) // segments
    for k in range(segments - 1):
        input = checkpoint(piece(k * size, (k + 1) * size), input, use_reentrant=use_reentrant,
                           preserve_rng_state=preserve_rng_state)  # fmt: skip
    return piece((segments - 1) * size, len(steps))(input)


__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "SelectiveCheckpointContext",
    "check_backward_validity", "checkpoint", "checkpoint_sequential", "create_selective_checkpoint_contexts",
    "detach_variable", "noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop",
]  # fmt: skip


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Return the GPUs on which there are tensors among the arguments, and their generators' states."""
    devices = sorted({a.device.index or 0 for a in args if isinstance(a, Tensor) and a.is_cuda})
    return devices, [generator.default_of(Device("cuda", k)).get_state() for k in devices]


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Let the generators of GPUs stand where `get_device_states` found them."""
    for k, state in zip(devices, states, strict=True):
        generator.default_of(Device(device_type or "cuda", k)).set_state(state)
