"""`compile_step`: a training step, its loss and gradients as one program, followed by the optimizer's own step."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time as clock
from typing import Any

from ..base.errors import text
from ..events import observe
from ..optim.optimizer import Optimizer, is_unheard
from ..optim.stepping import Elementwise
from ..tensors.tensor import Tensor
from .draws import standing
from .function import Compiled, unable
from .structure import Described
from .variant import Variant

_STEP = Elementwise.step


class CompiledStep(Compiled):
    """A training step that is replayed: what `compile_step` gives.

    Called with a batch it empties the gradients, computes the loss and its gradients, makes the optimizer's step, and
    gives the loss, without a history.
    """

    def __init__(self, model: Any, loss: Any, optimizer: Optimizer, check: int = 0, fullgraph: bool = False) -> None:
        if loss is None:

            def compute(*batch: Any) -> Any:
                return model(*batch)
        else:

            def compute(*batch: Any) -> Any:
                return loss(model(*batch[:-1]), batch[-1])

        super().__init__(compute, check, fullgraph)
        self.optimizer = optimizer

    @property
    def __name__(self) -> str:
        return "step"

    def _run(self, *args: Any) -> Tensor:
        """Make a step by core's ops."""
        self.optimizer.zero_grad()
        found: Tensor = self.function(*args)
        found.backward()
        self.optimizer.step()
        return found.detach()

    def _unable(self) -> str:
        if observe.hooked and any(p._post_hooks for group in self.optimizer.param_groups for p in group["params"]):
            return "a parameter has hooks that run after its gradient"
        return unable()

    def _variant(self, reads: Any, described: Described) -> Variant:
        return Variant(reads, described, True)

    def _recorded(self, v: Variant, args: tuple[Any, ...], kwargs: dict[str, Any],
                  described: Described) -> tuple[Any, Callable[[], None]]:  # fmt: skip
        self.optimizer.zero_grad()
        found, build = v.record(self.function, args, kwargs, described)
        if v.state == "building":
            every = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
            given = [*described.tensors, *v.held]
            if any(id(given[place]) not in every or given[place]._node is not None for place, _ in v.gradients):
                v.refuse("a tensor that the optimizer does not change gets a gradient")
            elif not v.gradients:
                v.refuse("the loss depends on no parameter")
        found.backward()
        self.optimizer.step()
        return found.detach(), build

    def _replayed(self, v: Variant, args: tuple[Any, ...], kwargs: dict[str, Any], described: Described) -> Any:
        given = [*described.tensors, *v.held]
        self.optimizer.zero_grad()  # first: old and new gradients need not be there at one time
        try:
            _, made = v.drawn_and_made(given)
        except Exception as error:
            return self._failed(v, error, args, kwargs)
        v.write(made, given)
        if observe.followers and observe.tally.steps >= observe.resting:
            observe.tell("passed", (made[v.results[0]],))
        observe.tally.passes += 1
        for place, k in v.gradients:
            given[place]._grad = made[k]
        self._update()
        return made[v.results[0]]

    def _update(self) -> None:
        """Make the optimizer's step; one of core's own of which nobody is told in as few calls as there are groups."""
        optimizer = self.optimizer
        kind, own = type(optimizer), optimizer.__dict__
        if kind.step is not _STEP or not kind.__module__.startswith("core.optim.") or "step" in own \
                or not is_unheard(optimizer):  # fmt: skip
            optimizer.step()
            return
        observe.tally.steps += 1
        optimizer.step_at_once()  # type: ignore[attr-defined]
        if "_opt_called" in own:  # a schedule wants to know
            optimizer._opt_called = True

    def _tried(self, v: Variant, args: tuple[Any, ...], kwargs: dict[str, Any], described: Described) -> Any:
        """Make a step by core's ops, and compare loss and gradients with what the program gives."""
        given = [*described.tensors, *v.held]
        self.optimizer.zero_grad()
        try:
            drawn = standing() or (0, 0)  # what eager is about to draw
            v.made(given, drawn)
            start = clock()
            v.holds(Described(args, kwargs))
            made = v.made(given, drawn)
            compiled = clock() - start
        except Exception as error:
            v.refuse(f"{type(error).__name__}: {error}", "eager")
            return self._run(*args, **kwargs)
        start = clock()
        found = self.function(*args, **kwargs)
        found.backward()
        eager = clock() - start
        pairs = [(made[v.results[0]], found), *((made[k], given[place]) for place, k in v.updates)]
        pairs += [(made[k], given[place]._grad) for place, k in v.gradients]
        v.judge(pairs, eager, compiled)
        self.optimizer.step()
        return found.detach()


def compile_step(
    model: Any, loss: Any, optimizer: Optimizer, *, check: int = 0, fullgraph: bool = False
) -> CompiledStep:
    """Return a training step of a batch: empty the gradients, loss, gradients, the optimizer's step; it gives the loss.

    loss : a function or a module of the model's result and the last argument of the step; the arguments before that go
        to the model. None where the model gives the loss itself, of all arguments.
    check, fullgraph : as for `core.compile`, to which this is what a step is to a function: loss and gradients are one
        program, which keeps in memory only what is yet to be read. What cannot be replayed runs as it is.

    *Raises*: TypeError for what is no optimizer.

    >>> import core
    >>> model = core.nn.Linear(2, 1)
    >>> step = core.compile_step(model, core.nn.MSELoss(), core.optim.SGD(model.parameters(), lr=0.1))
    >>> step(core.ones(4, 2), core.zeros(4, 1)).shape
    core.Size([])
    """
    if not isinstance(optimizer, Optimizer):
        raise TypeError(text("compile_step() takes a model, a loss and an optimizer", op="compile_step",
                             came=f"{type(optimizer).__name__} as the optimizer"))  # fmt: skip
    if not callable(model) or not (loss is None or callable(loss)):
        raise TypeError(text("the model and the loss are called", op="compile_step",
                             came=f"{type(model).__name__} and {type(loss).__name__}"))  # fmt: skip
    return CompiledStep(model, loss, optimizer, check, fullgraph)
