"""What a model costs, part by part and per sample: operations, bytes kept for backward, bytes handed on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import core
from core.events import observe
from core.nn import Module, ModuleList, Sequential
from core.utils.flop_counter import flops_of

__all__ = ["ModelCosts", "Part", "costs_of"]


@dataclass
class Part:
    """A part of a model that a pipeline does not cut. All but `parameters` is of one sample, forward."""

    name: str
    parameters: int = 0
    flops: float = 0.0
    saved: float = 0.0
    """Bytes kept until its gradient has run."""
    out: float = 0.0
    """Bytes of its result, which the next part takes."""
    summed: float = 0.0
    """Bytes that ranks sum where its linear layers are divided: the results of every second layer of a chain."""
    sums: int = 0
    """How many sums that are."""
    ops: int = 0
    """Calls of ops, however many samples there are."""
    moved: float = 0.0
    """Bytes that its ops read and write, weights left out."""


@dataclass
class ModelCosts:
    """A model's parts, in the order in which they run, for inputs of `samples` samples."""

    parts: list[Part]
    samples: int
    tensors: int = 0
    """Parameters that are tensors of their own."""
    title: str = ""

    @property
    def parameters(self) -> int:
        """How many numbers are trained."""
        return sum(p.parameters for p in self.parts)

    @property
    def flops(self) -> float:
        """Operations of a forward pass, a sample; a training step takes three times as many."""
        return sum(p.flops for p in self.parts)

    @property
    def saved(self) -> float:
        """Bytes kept for backward, a sample."""
        return sum(p.saved for p in self.parts)


def costs_of(model: Module, inputs: Sequence[Any], title: str = "") -> ModelCosts:
    """Return what a model costs, by one forward pass whose ops are heard. On the device ``meta`` it takes no memory and
    no time, however large the model.

    inputs : what the model is called with; the first dimension of the first tensor counts the samples.

    >>> import core
    >>> model = core.nn.Sequential(core.nn.Linear(8, 32), core.nn.ReLU(), core.nn.Linear(32, 8))
    >>> found = costs_of(model, [core.ones(4, 8)])
    >>> found.parameters, found.flops, [p.name for p in found.parts]
    (552, 1024.0, ['0', '1', '2'])
    """
    first = next((x for x in inputs if isinstance(x, core.Tensor)), None)
    if first is None or not first.ndim:
        raise ValueError("plan: the inputs hold no tensor whose first dimension could count the samples")
    heard = _Heard(model)
    with observe.observing(heard), core.enable_grad():
        model(*inputs)
    if heard.error is not None:
        raise heard.error
    parts = [p for p in heard.parts.values() if p.flops or p.parameters or p.saved]
    if not parts:
        raise ValueError("plan: the model ran no op of core's")
    samples = int(first.shape[0])
    for part in parts:
        for name in ("flops", "saved", "out", "summed", "moved"):
            setattr(part, name, getattr(part, name) / samples)
    return ModelCosts(parts, samples, sum(p.requires_grad for p in model.parameters()), title)


def _cut(model: Module) -> dict[int, str]:
    """Return the modules that are parts: the model's children; of a list of modules among them its items."""
    found: dict[int, str] = {}

    def take(module: Module, path: str) -> None:
        for name, child in module.named_children():
            inner = f"{path}{name}"
            if isinstance(child, ModuleList | Sequential) and len(child):
                take(child, f"{inner}.")
            else:
                found[id(child)] = inner

    take(model, "")
    return found or {id(model): ""}


@dataclass
class _Heard(observe.Observer):
    model: Module
    parts: dict[str, Part] = field(default_factory=dict)
    error: Exception | None = None

    def __post_init__(self) -> None:
        self._names = _cut(self.model)
        self._stack: list[Part] = []
        self._entered: list[bool] = []
        self._counted: set[int] = set()
        self._read = 0  # what the last linear layers read; held, so that its identity is nobody else's
        self._held: Any = None
        self._column = False  # whether the last linear layers would be divided by columns
        self._own(self.model, self._part(""))  # a parameter of no part is the whole model's

    def _part(self, name: str) -> Part:
        return self.parts.setdefault(name, Part(name))

    def _own(self, module: Module, part: Part, whole: bool = False) -> None:
        for p in module.parameters() if whole else module.parameters(recurse=False):
            if p.requires_grad and id(p) not in self._counted:
                self._counted.add(id(p))
                part.parameters += p.numel()

    def enter_module(self, module: Any) -> None:
        name = self._names.get(id(module))
        self._entered.append(name is not None)
        if name is not None:
            part = self._part(name)
            self._own(module, part, whole=True)
            self._stack.append(part)

    def exit_module(self, module: Any) -> None:
        if self._entered and self._entered.pop():
            self._stack.pop()

    def op(self, event: observe.OpEvent) -> None:
        part = self._stack[-1] if self._stack else self._part("")
        part.flops += flops_of(event.op, event.inputs, event.outputs, event.params)
        size = sum(y.numel() * y.element_size() for y in event.outputs if isinstance(y, core.Tensor))
        if event.node is not None and not any(getattr(y, "_base", None) is not None for y in event.outputs):
            part.saved += size
        part.out = size
        part.ops += 1
        part.moved += size + sum(x.numel() * x.element_size() for x in event.inputs
                                 if isinstance(x, core.Tensor) and not (x.is_leaf and x.requires_grad))  # fmt: skip
        if event.op in ("linear", "matmul") and any(x.is_leaf and x.requires_grad for x in event.inputs[1:2]):
            self._divided(event, part, size)

    def _divided(self, event: observe.OpEvent, part: Part, size: int) -> None:
        """Linear layers of one input are divided by columns together, and the next ones by rows; after these their
        results are summed over the ranks."""
        source = event.inputs[0]
        if self._held is not source:
            self._held, self._column = source, not self._column
            if not self._column:
                part.sums += 1
        if not self._column:
            part.summed += size

    def failed(self, error: Exception) -> None:
        self.error = error
