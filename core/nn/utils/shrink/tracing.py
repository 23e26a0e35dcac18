"""One run of a model, op by op: which axes are tied to which, by the rules of its ops."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np

from .... import native
from ....base.modes import state as mode
from ....base.shape import Size
from ....base.source import describe, here, is_ours
from ....declare import op as declarations
from ....declare.op import Elementwise
from ....events import observe
from ....export import sizes
from ....rng.generator import set_states, states
from ....tensors.tensor import Tensor
from ....utils._pytree import tree_leaves
from ...modules.module import Module
from ...modules.multihead import MultiheadAttention
from ...modules.transformer import Transformer, TransformerDecoderLayer, TransformerEncoderLayer
from .atoms import Atoms, Axis
from .python_numbers import Attribute, Held, Number, formula_of, trusted


class ShrinkError(RuntimeError):
    """A model, or a part of it, that cannot be made smaller, with the op, the user's line and the reason."""


class Call(NamedTuple):
    """An op that ran, as its rule sees it: `axes` of each input (None of what is no tensor), shapes, parameters."""

    op: str
    axes: tuple[list[Axis] | None, ...]
    inputs: tuple[Any, ...]  # the tensors; numbers and None as they were
    shapes: tuple[tuple[int, ...], ...]  # of the outputs
    params: dict[str, Any]
    place: Any
    module: Module | None  # the innermost module that was running
    values: tuple[int | None, ...] = ()  # the numbers of the inputs among all values
    outputs: tuple[int, ...] = ()

    @property
    def where(self) -> str:
        """The op and the user's line."""
        return f"{self.op} at {describe(self.place)}" if self.place else self.op


Rule = Callable[["Trace", Call], "list[list[Axis]]"]
rules: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Return a decorator: how the axes of these ops' outputs follow from those of their inputs."""

    def note(function: Rule) -> Rule:
        rules.update(dict.fromkeys(names, function))
        return function

    return note


class Trace(observe.Observer):
    """What one run of a model ties together."""

    wants = frozenset({"as ops"})

    def __init__(self, model: Module) -> None:
        self.atoms = Atoms()
        self.held = Held(model)
        self.calls: list[Call] = []
        self.numbers: list[Number] = []
        self.axes: list[list[Axis]] = []  # of every value
        self.own: dict[int, tuple[str, Tensor, list[Axis]]] = {}  # id -> name, parameter or buffer, axes
        self.inexact: list[tuple[Axis, str]] = []  # axes over which an op gives otherwise where zeros are left out
        self.tuples: list[tuple[Module, str, list[Axis]]] = []  # sizes that a layer holds as a tuple, and of what
        self.error: Exception | None = None
        self._paths = {id(m): path for path, m in model.named_modules()}
        self._known: dict[int, int] = {}
        self._alive: list[Any] = []
        self._positions: dict[int, tuple[Axis, str]] = {}  # values that are places along an axis
        self._modules: list[Module] = []
        self._thread = threading.get_ident()
        for name, t in [*model.named_parameters(), *model.named_buffers()]:
            axes = [self.atoms.axis(n) if n > 1 else np.zeros((n, 0), int) for n in t._a.shape]
            self.own[id(t)] = name, t, axes
            self._note(t, axes)

    # -- values --------------------------------------------------------------------------------------------------------

    def _note(self, t: Tensor, axes: list[Axis]) -> int:
        self.axes.append(axes)
        self._known[id(t)] = len(self.axes) - 1
        self._alive.append(t)
        return len(self.axes) - 1

    def value(self, t: Tensor, reason: str = "") -> int:
        """Return the number of a tensor's value; one that was never seen is fixed."""
        known = self._known.get(id(t))
        if known is not None:
            return known
        why = reason or f"a tensor of shape {tuple(t._a.shape)} that is no parameter, no buffer and no op's result"
        return self._note(t, [self.atoms.fixed(n, why) for n in t._a.shape])

    def used(self, t: Tensor) -> int:
        """Return the number of a value that is used: where it is places along an axis, that axis has to stay."""
        k = self.value(t)
        if k in self._positions:
            self.atoms.pin(*self._positions[k])
        return k

    def asserted(self, attribute: Attribute, weight: Tensor) -> None:
        """Note that a module of core asserts an attribute to be the inputs of a weight."""
        if attribute in self.held.values and id(weight) in self.own:
            size = "size", attribute, "attribute"
            self.numbers.append(Number(size, self.own[id(weight)][2][1], "assertion", None))

    def is_positions(self, call: Call, output: int, axis: Axis) -> None:
        """Note that an output is places along an axis, which have to stay if anybody uses them."""
        self._positions[call.outputs[output]] = axis, f"{call.where} gives places along it"

    def number(self, x: Any, left_of: Axis, call: Call, elements: int = -1) -> None:
        """Note that a number of Python's has to be as many as are left of an axis. A number that stands in the source,
        or of which nobody knows, is found out by the trial."""
        bare = isinstance(formula_of(x), tuple) and formula_of(x)[0] == "size"
        if trusted(x, elements) and (bare or call.module is None or not _of_core(call.module)):
            self.numbers.append(Number(formula_of(x), left_of, call.op, call.place))

    def path_of(self, module: Module) -> str | None:
        """Return the name of a module in the model; None of one that is not in it."""
        return self._paths.get(id(module))

    def as_many(self, a: Axis, b: Axis, call: Call) -> None:
        """Note that two axes have to keep as many indices."""
        self.numbers.append(Number(0, a, call.op, call.place, b))

    def made_axis(self, x: Any, call: Call) -> Axis:
        """Return the axis of what is alike all along it, such as zeros: any index can go where the number follows, and
        where nobody knows of the number the trial tells."""
        if x == 1:
            return np.zeros((1, 0), int)
        axis = self.atoms.axis(int(x))
        self.number(x, axis, call)
        return axis

    # -- events --------------------------------------------------------------------------------------------------------

    def op(self, event: observe.OpEvent) -> None:
        """Tie what the op ties."""
        declared = event.declared
        if threading.get_ident() != self._thread or not is_declared(declared):
            return
        numbers: list[int | None] = [self.used(t) if isinstance(t, Tensor) else None for t in event.inputs]
        axes = tuple([None if k is None else self.axes[k] for k in numbers])
        params = {} if isinstance(declared, Elementwise) else dict(event.params)
        first = len(self.axes)
        call = Call(declared.name, axes, event.inputs, tuple([t._a.shape for t in event.outputs]), params, event.place,
                    self._modules[-1] if self._modules else None, tuple(numbers),
                    tuple(range(first, first + len(event.outputs))))  # fmt: skip
        self.calls.append(call)
        known = rules["elementwise"] if isinstance(declared, Elementwise) else rules.get(declared.name)
        if known is None or any(0 in s for s in call.shapes):
            self.refuse(call, f"{call.where} is not followed")
            found = [self._unknown(s, call) for s in call.shapes]
        else:
            found = self._ruled(known, call)
        for t, a in zip(event.outputs, found, strict=True):
            self._note(t, a)

    def _ruled(self, known: Rule, call: Call) -> list[list[Axis]]:
        """Return what a rule says; of a call for which it was not written nothing is removed."""
        try:
            found = known(self, call)
            if [tuple(map(len, axes)) for axes in found] == list(call.shapes):
                return found
            why = "its rule does not give its shape"
        except (IndexError, KeyError, TypeError, ValueError) as error:
            why = f"{type(error).__name__} in its rule"
        self.refuse(call, f"{call.where} is not followed: {why}")
        return [self._unknown(s, call) for s in call.shapes]

    def refuse(self, call: Call, reason: str, which: Sequence[int] = ()) -> None:
        """Let nothing of an op's inputs be removed."""
        for k, axes in enumerate(call.axes):
            for a in axes or () if not which or k in which else ():
                self.atoms.pin(a, reason)

    def _unknown(self, shape: Sequence[int], call: Call) -> list[Axis]:
        return [self.atoms.fixed(n, f"{call.where} is not followed") for n in shape]

    def write(self, event: observe.WriteEvent) -> None:
        """Tie what is written in place to what it is written with."""
        if threading.get_ident() != self._thread:
            return
        target = self.axes[self.value(event.target)]
        if event.result is None:
            for a in target:
                self.atoms.pin(a, f"{event.name} at {describe(event.place)} writes values from elsewhere")
            return
        for a, b in zip(target, self.axes[self.value(event.result)], strict=True):
            self.atoms.join(a, b, f"{event.name} at {describe(event.place)}")

    def made(self, event: observe.MadeEvent) -> None:
        """Note a tensor that was made from numbers: of ones or at random any index is like another."""
        if threading.get_ident() != self._thread:
            return
        t = event.tensor
        call = Call(event.how, (), (), (), {}, event.place, self._modules[-1] if self._modules else None)
        if event.how in ("full", "random"):
            sizes = event.given[0] if event.how == "full" else t._a.shape
            self._note(t, [self.made_axis(n, call) for n in sizes])
        else:
            self.value(t, f"made by {event.how} at {describe(event.place)}")

    def cut(self, event: observe.CutEvent) -> None:
        """Follow a tensor that shares another's memory without an op; of what leaves for NumPy nothing is removed."""
        if threading.get_ident() != self._thread:
            return
        k = self.value(event.tensor)
        if event.kind in ("detach", "data"):
            self._known[id(event.result)] = k
            self._alive.append(event.result)
        else:
            for a in self.axes[k]:
                self.atoms.pin(a, f"{event.kind} at {describe(event.place)} reads it in Python")

    def failed(self, error: Exception) -> None:
        """Keep the error of a rule, for the end of the run."""
        self.error = self.error or error

    def enter_module(self, module: Any) -> None:
        self._modules.append(module)

    def exit_module(self, module: Any) -> None:
        if self._modules:
            self._modules.pop()

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def shape_of(self, t: Tensor) -> Size:
        """Return a tensor's shape, in integers that remember whose they are."""
        if threading.get_ident() != self._thread or id(t) not in self._known:
            return Size(t._a.shape)
        k = self._known[id(t)]
        return Size([sizes.Dim(n, ("size", k, axis)) for axis, n in enumerate(t._a.shape)])

    def compared(self, symbol: str, left: Any, right: Any, truth: bool) -> None:
        """Note a comparison of sizes in the user's code, which has to come out as it did."""
        place = here(3)
        if threading.get_ident() == self._thread and place is not None:
            file = sys._getframe(2).f_code.co_filename
            if not is_ours(file) or os.path.basename(os.path.dirname(file)) == "modules":
                self.numbers.append(Number(left, None, "comparison", place, (symbol, right, truth)))


def is_declared(op: Any) -> bool:
    """Return whether an op is one of core's or of a library's; the ops of a custom Function are heard one by one."""
    return op is not None and declarations.table.get(op.name) is op


def _of_core(module: Module) -> bool:
    return type(module).__module__.startswith("core.nn.")


@contextmanager
def _watched(trace: Trace) -> Iterator[None]:
    """Let a trace hear of shapes and of comparisons of sizes."""
    was, sizes.compared = sizes.compared, trace.compared
    shapes = native.module.watch_sizes(trace.shape_of) if native.module is not None else None
    try:
        yield
    finally:
        sizes.compared = was
        if native.module is not None:
            native.module.watch_sizes(shapes)


@contextmanager
def as_it_was(model: Module) -> Iterator[None]:
    """Put back what a run writes: buffers and the state of random numbers; nothing is recorded for gradients."""
    buffers = [(b, b._a.copy()) for b in model.buffers()]
    drawn = states()
    was, mode.enabled = mode.enabled, False
    try:
        yield
    finally:
        mode.enabled = was
        set_states(drawn)
        for t, a in buffers:
            t._a[...] = a


def traced(model: Module, args: tuple[Any, ...], kwargs: dict[str, Any], kept: dict[int, str]) -> Trace:
    """Return the trace of a run. `kept` are the parameters of which nothing may be removed, by id, and why."""
    trace = Trace(model)
    for k, x in enumerate(t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)):
        trace.value(x, f"input {k} of the model")
    for id_, why in kept.items():
        for a in trace.own[id_][2]:
            trace.atoms.pin(a, why)
    with ExitStack() as stack:
        stack.enter_context(as_it_was(model))
        stack.enter_context(trace.held.remembering())
        stack.enter_context(_watched(trace))
        stack.enter_context(observe.observing(trace))
        result = model(*args, **kwargs)
    if trace.error is not None:
        raise trace.error
    for path, module in model.named_modules():
        if isinstance(module, MultiheadAttention):  # what it asserts of its query
            weight = module.in_proj_weight if module._qkv_same_embed_dim else module.q_proj_weight
            trace.asserted(Attribute(path, "embed_dim"), weight)
        elif isinstance(module, Transformer):
            for part in module.modules():
                if isinstance(part, TransformerEncoderLayer | TransformerDecoderLayer):
                    trace.asserted(Attribute(path, "d_model"), part.linear1.weight)
    for x in tree_leaves(result):
        if isinstance(x, Tensor):
            for a in trace.axes[trace.used(x)]:
                trace.atoms.pin(a, "an output of the model")
    return trace
