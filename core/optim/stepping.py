"""`Elementwise`: the optimizers whose step is one formula over all elements; what they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from .. import native
from ..base.dtypes import float32, float64, get_default_dtype
from ..base.errors import text
from ..base.modes import enable_grad, no_grad
from ..dispatch import of_values
from ..dispatch.sparse import SparseTensor
from ..events import observe
from ..ops.complex import view_as_real
from ..ops.creation import tensor
from ..tensors.tensor import Tensor, wrap
from . import kernels
from .optimizer import Closure, Optimizer, number
from .update import Update

State = dict[str, Any]
Group = dict[str, Any]


def scalar(value: float = 0.0) -> Tensor:
    """Return a number of a parameter's state: a tensor of one element on the CPU, float32 unless the default is
    float64."""
    return tensor(value, dtype=float64 if get_default_dtype() is float64 else float32)


def count(states: Sequence[State]) -> Sequence[Any]:
    """Count one more step in every state; the steps. To who wants them as ops they are tensors."""
    if observe.wanted("as ops"):
        with no_grad():
            return [s["step"].add_(1).double() for s in states]
    counters = [s["step"]._a for s in states]
    if native.module is not None:
        return native.module.count_up(counters)
    for a in counters:
        a[...] += 1
    return [float(a.item()) for a in counters]


def count_together(group: Group, states: dict[Any, State]) -> tuple[Any, ...]:
    """Count one more step of a group's parameters in C; the steps, in a tuple, or an empty one where they differ."""
    at = native.module and native.module.count_together(group["params"], states, "step")
    return () if at is None else (at,)


class Elementwise(Optimizer):
    """A subclass names its formula and says what the state is, and what of a group's settings the formula takes."""

    _update: ClassVar[Update]
    _numbers: ClassVar[tuple[str, ...]] = ("step",)  # the entries of a state that are numbers
    _counts: ClassVar[bool] = True  # whether `_stages` counts

    # -- what a subclass says ------------------------------------------------------------------------------------------

    def _present(self, group: Group) -> tuple[str, ...]:
        """Return the arrays of the state that this group has, in the formula's order."""
        raise NotImplementedError

    def _begin(self, state: State, p: Tensor, group: Group) -> None:
        """Make the state of a parameter's first step."""
        state["step"] = scalar()
        for name in self._present(group):
            state[name] = zeros(p)

    def _stages(self, group: Group, states: Sequence[State]) -> Sequence[Any]:
        """Count the step; for every state what distinguishes its step. Those that have it in common go together."""
        return count(states)

    def _settings(self, group: Group, stage: Any) -> tuple[dict[str, Any], frozenset[str]]:
        """Return what the formula takes, and which of its flags and optional arrays are on."""
        raise NotImplementedError

    def _op(self, group: Group) -> str:
        """Return what observers are told."""
        return self._update.name

    # -- the step ------------------------------------------------------------------------------------------------------

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for own in self.state.values():
            for name in self._numbers:  # states saved before PyTorch 1.12 have numbers here
                if isinstance(own, dict) and name in own and not isinstance(own[name], Tensor):
                    own[name] = scalar(float(own[name]))

    def step(self, closure: Closure = None) -> Any:
        """Change the parameters by their gradients; gives what `closure` gave."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            self._group_step(group)
        return loss

    def _group_step(self, group: Group, counted: tuple[Any, ...] = ()) -> None:
        """Make the step of a group; `counted` holds the stage of all its parameters where these are counted already."""
        params = [p for p in group["params"] if p._grad is not None]
        if of_values.seen:
            params = self._sparse_steps(group, params)
        if not params:
            return
        check_params(group, params)
        states = self._states(group, params)
        stages = counted * len(params) or self._stages(group, states)
        buckets: dict[Any, tuple[list[Tensor], list[State]]] = {}
        for p, state, stage in zip(params, states, stages, strict=True):
            bucket = buckets.get((p._kind, stage))
            if bucket is None:
                bucket = buckets[p._kind, stage] = ([], [])
            bucket[0].append(p)
            bucket[1].append(state)
        for (_, stage), (members, their) in buckets.items():
            self._step(group, members, their, *self._settings(group, stage))

    def _counted_together(self, group: Group) -> tuple[Any, ...]:
        """Count the step of a group's parameters without a look at each in Python; what `_stages` gives for all of
        them, in a tuple. An empty one, with nothing counted, where they are not alike."""
        return count_together(group, self.state) if type(self)._stages is Elementwise._stages else ()

    def step_at_once(self) -> None:
        """Make a step of which nobody is told, and around which nobody has a hook: of each group by one call of C,
        where its parameters are dense and alike."""
        for group in self.param_groups:
            params = group["params"]
            plain = not (group["differentiable"] or group.get("capturable") or of_values.seen)
            counted = self._counted_together(group) if plain and type(params) is list and params else ()
            if not counted:
                self._group_step(group)
                continue
            settings, on = self._settings(group, counted[0])
            names = self._present(group)
            if not kernels.step_tensors(self._op(group), self._update, on, params, self.state, names, settings):
                self._group_step(group, counted if self._counts else ())

    def _sparse_steps(self, group: Group, params: list[Tensor]) -> list[Tensor]:
        """Make the step of those parameters whose gradient is sparse; the others."""
        few = [p for p in params if isinstance(p._grad, SparseTensor)]
        if few:
            check_sparse(self, group)
            for p in few:
                state = self._states(group, [p])[0]
                kernels.one(self._op(group), p, partial(self._rows, state=state, group=group))
        return [p for p in params if not isinstance(p._grad, SparseTensor)]

    def _rows(self, p: Any, g: Any, state: State, group: Group) -> None:
        """Make the step of one parameter by a sparse gradient, in place."""
        raise NotImplementedError

    def _states(self, group: Group, params: Sequence[Tensor]) -> list[State]:
        states = []
        held = self.state
        for p in params:
            state = held[p]
            if not state:
                self._begin(state, p, group)
            states.append(state)
        return states

    def _step(self, group: Group, params: list[Tensor], states: list[State], settings: dict[str, Any],
              on: frozenset[str]) -> None:  # fmt: skip
        names = self._present(group)
        if group["differentiable"] or observe.wanted("as ops"):
            for p, state in zip(params, states, strict=True):
                self._differentiable_step(p, state, names, settings, on)
            return
        settings = {k: number(v) for k, v in settings.items()}
        grads = [p._grad for p in params]
        if any(g is None for g in grads):  # another thread took them away just now
            there = [k for k, g in enumerate(grads) if g is not None]
            params, states, grads = ([x[k] for k in there] for x in (params, states, grads))  # type: ignore[assignment]
            if not params:
                return
        lists = [[p._a for p in params], [g._a for g in grads]]  # type: ignore[union-attr]
        lists += [[s[name]._a for s in states] for name in names]
        kernels.step(self._op(group), self._update, on, params, lists, settings)

    def _differentiable_step(self, p: Tensor, state: State, names: tuple[str, ...], settings: dict[str, Any],
                             on: frozenset[str]) -> None:  # fmt: skip
        """The formula in ops on tensors: the new parameter depends on the gradient, the state and tensor settings."""
        held = {name: state[name] for name in names} | {"p": p, "g": p._grad}
        if p.is_complex():
            held = {name: view_as_real(t) for name, t in held.items()}
        flags = {name: name in on for name in self._update.flags}
        with enable_grad() if self.defaults["differentiable"] else no_grad():
            values = self._update(*(held.get(name) for name in self._update.arrays), **settings, **flags)
            for name, value in zip(["p", *names], values, strict=True):
                held[name].copy_(value)


class Gradual(Optimizer):
    """The optimizers that look at each parameter as a whole: a subclass writes `_begin` and `_one`, on arrays."""

    def _begin(self, state: State, p: Tensor, group: Group) -> None:
        """Make the state of a parameter's first step."""
        raise NotImplementedError

    _takes_rows: ClassVar[bool] = False  # whether a gradient may be sparse

    def _one(self, p: Any, g: Any, state: State, step: float, group: Group) -> None:
        """Step number `step` of one parameter, in place; half precision comes as float32, the state as it is stored."""
        raise NotImplementedError

    def step(self, closure: Closure = None) -> Any:
        """Change the parameters by their gradients; gives what `closure` gave."""
        loss = None if closure is None else closure()
        op = f"{type(self).__name__.lower()}_step"
        for group in self.param_groups:
            for p in group["params"]:
                if p._grad is None:
                    continue
                if of_values.seen and isinstance(p._grad, SparseTensor) and not self._takes_rows:
                    check_sparse(self, group)
                if p.is_complex():
                    raise RuntimeError(f"{type(self).__name__} does not support complex parameters")
                state = self.state[p]
                if not state:
                    self._begin(state, p, group)
                kernels.one(op, p, partial(self._one, state=state, step=_counted(state), group=group))
        return loss


def check_sparse(optimizer: Optimizer, group: Group) -> None:
    """RuntimeError for a sparse gradient where the optimizer does not take one."""
    kind: Any = type(optimizer)
    if isinstance(optimizer, Elementwise) and kind._rows is not Elementwise._rows:
        if group.get("fused") or group.get("weight_decay"):
            raise RuntimeError(
                text("weight_decay option is not compatible with sparse gradients" if group.get("weight_decay") else
                     f"`_fused_{kind.__name__.lower()}` does not support sparse gradients",
                     op=f"{kind.__name__}.step", remedy="nn.Embedding(..., sparse=False)")
            )  # fmt: skip
        return
    name = next((c.__name__ for c in kind.__mro__ if c.__name__ == "Adam"), kind.__name__)
    better = ", please consider SparseAdam instead" if name == "Adam" else ""
    raise RuntimeError(text(f"{name} does not support sparse gradients{better}", op=f"{kind.__name__}.step",
                            came="a gradient of layout sparse_coo",
                            remedy="SparseAdam, SGD or Adagrad, or nn.Embedding(..., sparse=False)"))  # fmt: skip


def _counted(state: State) -> float:
    """One more step of a state that counts them, as a tensor or a number."""
    held = state.get("step")
    if isinstance(held, Tensor):
        return count([state])[0]
    if held is not None:
        state["step"] = held + 1
        return float(held + 1)
    return 0.0


def zeros(p: Tensor) -> Tensor:
    """Zeros like a parameter."""
    return wrap(kernels.zeros_like(p), p._kind)


def check_params(group: Group, params: Sequence[Tensor]) -> None:
    """What `capturable`, `fused` and `foreach` ask of the parameters."""
    if group.get("capturable") and any(p._kind.device.type == "cpu" for p in params):
        raise AssertionError("If capturable=True, params and state_steps must be on supported devices: ['cuda'].")
    if group.get("fused") and not all(p._kind.dtype.is_floating_point for p in params):
        odd = next(p for p in params if not p._kind.dtype.is_floating_point)
        raise RuntimeError("`fused=True` requires all the params to be floating point Tensors of supported devices: "
                           f"['cpu', 'cuda'] but {odd.dtype} and {odd.device.type}")  # fmt: skip
    if group["differentiable"] and group["foreach"]:
        raise AssertionError("_foreach ops don't support autograd")
