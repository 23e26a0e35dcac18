"""PyTorch's older way to checkpoint: a custom function whose backward runs the function again, and its backward."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..autograd.function import Function
from ..autograd.gradients import backward as run_backward
from ..base.errors import text
from ..base.modes import enable_grad
from ..base.modes import state as mode
from ..base.source import warn
from ..dispatch import autocast
from ..rng import generator
from ..tensors.tensor import Tensor


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the inputs, tensors cut off the graph and requiring gradients as they did.

    >>> import core
    >>> core.utils.checkpoint.detach_variable((core.ones(1, requires_grad=True) * 2, 3))[0].is_leaf
    True
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(t.detach().requires_grad_(t.requires_grad) if isinstance(t, Tensor) else t for t in inputs)  # type: ignore[attr-defined]


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn where no input requires a gradient: then none flows.

    >>> import core
    >>> core.utils.checkpoint.check_backward_validity([core.ones(1, requires_grad=True)])
    """
    if not any(isinstance(t, Tensor) and t.requires_grad for t in inputs):
        warn("None of the inputs have requires_grad=True. Gradients will be None")


class CheckpointFunction(Function):
    """``CheckpointFunction.apply(function, preserve_rng_state, *args)``: `checkpoint` with ``use_reentrant=True``."""

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function, ctx.preserve_rng_state = run_function, preserve_rng_state
        ctx.casts = autocast.snapshot()
        ctx.states = generator.states() if preserve_rng_state else None
        ctx.others = [None if isinstance(a, Tensor) else a for a in args]
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if mode.task is not None and mode.task[1] is not None:
            raise RuntimeError(
                text("When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an "
                     "`inputs` parameter to .backward().", op="checkpoint",
                     remedy="checkpoint(..., use_reentrant=False), or .backward() without `inputs`")
            )  # fmt: skip
        given = list(ctx.others)
        for i, t in zip(ctx.places, ctx.saved_tensors, strict=True):
            given[i] = t
        args = detach_variable(tuple(given))
        with generator.fork_rng(enabled=ctx.states is not None), enable_grad(), autocast.as_it_was(ctx.casts):
            if ctx.states is not None:
                generator.set_states(ctx.states)
            outputs = ctx.run_function(*args)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        wanted = [(t, g) for t, g in zip(outputs, grads, strict=True) if isinstance(t, Tensor) and t.requires_grad]
        if not wanted:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary\n"
                               "  remedy: a function whose output depends on what requires a gradient")  # fmt: skip
        run_backward([t for t, _ in wanted], [g for _, g in wanted])
        return None, None, *[a.grad if isinstance(a, Tensor) else None for a in args]
