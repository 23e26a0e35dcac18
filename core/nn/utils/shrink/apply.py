"""Makes parameters smaller in the modules that hold them, tries whether the model runs, and tells optimizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....base.source import describe
from ....declare.op import functions as _f
from ....events import observe
from ....ops.creation import tensor
from ....tensors.tensor import Tensor
from ...modules.module import Module
from ...modules.multihead import MultiheadAttention
from ...modules.transformer import Transformer
from .choice import Fitting
from .rules_layers import attention_sizes, layer_sizes
from .tracing import Call, Trace, as_it_was, is_declared

Indices = dict[int, Any]  # axis -> the indices that stay


def remaining(trace: Trace, fitting: Fitting) -> dict[str, Indices]:
    """Return by the names of parameters and buffers which indices stay along the axes that get shorter."""
    found: dict[str, Indices] = {}
    for name, _, axes in trace.own.values():
        masks = {d: fitting.mask(a) for d, a in enumerate(axes)}
        short = {d: np.flatnonzero(m) for d, m in masks.items() if not m.all()}
        if short:
            found[name] = short
    return found


def taken(t: Tensor, keep: Indices) -> Tensor:
    """Return the part of a tensor that stays, in memory of its own."""
    for axis, index in keep.items():
        t = _f["index_select"](t, axis, tensor(index, device=t.device))
    return t


class Swap:
    """A model with its parameters made smaller, which can be undone."""

    def __init__(self, model: Module, trace: Trace, fitting: Fitting) -> None:
        self.model, self.trace, self.fitting = model, trace, fitting
        self.keep = remaining(trace, fitting)
        self.scaled: list[Call] = []  # ops that are given another number by the smaller model
        self._before: list[tuple[Tensor, Any, Any]] = []
        self._sizes: list[tuple[dict[str, Any], str, Any]] = []

    def do(self) -> None:
        """Make them smaller: parameters and buffers stay the same objects, and module sizes are set."""
        for name, t, _ in self.trace.own.values():
            if name in self.keep:
                with observe.muted():
                    part = taken(t.detach(), self.keep[name])
                self._before.append((t, t._a, t._kind))
                t.data = part
        self.trace.held.set(self.fitting.values)
        for module in self.model.modules():
            found = layer_sizes(module) if type(module).__module__.startswith("core.nn.") else {}
            if isinstance(module, MultiheadAttention):
                found |= attention_sizes(module)
            if isinstance(module, Transformer):
                heads = {m.num_heads for m in module.modules() if isinstance(m, MultiheadAttention)}
                found |= {"nhead": heads.pop()} if len(heads) == 1 else {}
            for key, size in found.items():
                self._set(vars(module), key, int(size))
        for holder, key, axes in self.trace.tuples:
            self._set(vars(holder), key, tuple(self.fitting.left(a) for a in axes))

    def _set(self, held: dict[str, Any], key: str, value: Any) -> None:
        if held[key] != value:
            self._sizes.append((held, key, held[key]))
            held[key] = value

    def undo(self) -> None:
        """Put everything back."""
        for t, a, kind in self._before:
            t._a, t._kind = a, kind
        for held, key, value in reversed(self._sizes):
            held[key] = value
        self.trace.held.set(self.trace.held.values)
        self._before, self._sizes = [], []

    def gradients(self) -> None:
        """Make the gradients that are there as small as their parameters."""
        for name, t, _ in self.trace.own.values():
            if name in self.keep and t.grad is not None:
                t.grad = taken(t.grad.detach(), self.keep[name])


class _Trial(observe.Observer):
    """Hears whether a run gives the shapes that are expected."""

    wants = frozenset({"as ops"})

    def __init__(self, trace: Trace, fitting: Fitting) -> None:
        self.calls, self.fitting = trace.calls, fitting
        self.order = [k for k, c in enumerate(trace.calls) if c.op not in _COPIES]
        self.count, self.wrong = 0, -1
        self.scaled: list[Call] = []  # ops that are given another number than before

    @property
    def at(self) -> int:
        """The number of the op that is due, or went wrong."""
        return self.order[min(self.wrong if self.wrong >= 0 else self.count, len(self.order) - 1)]

    def op(self, event: observe.OpEvent) -> None:
        """Compare an op with the one that ran when the model was traced."""
        if not is_declared(event.declared) or self.wrong >= 0 or event.declared.name in _COPIES:
            return
        k, self.count = self.count, self.count + 1
        call = self.calls[self.order[k]] if k < len(self.order) else None
        if (
            call is None
            or call.op != event.declared.name
            or [t._a.shape for t in event.outputs] != self.fitting.shapes(call)
        ):
            self.wrong = k
        elif _numbers(event.inputs) != _numbers(call.inputs):
            self.scaled.append(call)


_COPIES = {"contiguous"}  # whether one is made depends on strides


def _numbers(inputs: Sequence[Any]) -> list[float]:
    return [float(x) for x in inputs if isinstance(x, int | float)]


def tried(swap: Swap, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, str] | None:
    """Run the smaller model once, and put it back. Return the number of the op at which it does not run as it
    should, and what happened; None where it does."""
    trial, failed = _Trial(swap.trace, swap.fitting), ""
    with as_it_was(swap.model):
        try:
            swap.do()
            with observe.observing(trial):
                swap.model(*args, **kwargs)
        except Exception as error:
            failed = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        finally:
            swap.undo()
    if not failed and trial.wrong < 0 and trial.count == len(trial.order):
        swap.scaled = trial.scaled
        return None
    return trial.at, failed or "it gives another shape than it should"


def refused(call: Call, what: str) -> str:
    """Return why something stays, of an op at which a trial ended."""
    return f"{call.op} at {describe(call.place)} cannot follow ({what})"


def update_optimizer(optimizer: Any, keep: Mapping[str, Indices], named: Mapping[str, Tensor],
                     before: Mapping[str, Sequence[int]]) -> None:  # fmt: skip
    """Make the state of an optimizer as small as its parameters: each tensor of a parameter's former shape."""
    names = {id(p): name for name, p in named.items()}
    for group in optimizer.param_groups:
        for p in group["params"]:
            name = names.get(id(p))
            if name is None or name not in keep or p not in optimizer.state:
                continue
            state = optimizer.state[p]
            for key, value in state.items():
                if isinstance(value, Tensor) and tuple(value._a.shape) == tuple(before[name]):
                    state[key] = taken(value.detach(), keep[name])
                elif isinstance(value, Tensor) and value.ndim > 1:  # factored or otherwise made: begins anew
                    state.clear()
                    break
