"""`Optimizer`: parameter groups, state, saving and loading, and what happens around a step."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, TypeAlias

from ..base.errors import text
from ..base.modes import enable_grad, set_grad_enabled
from ..base.modes import state as mode
from ..base.source import warn
from ..events import observe
from ..graph.node import RemovableHandle
from ..nn.modules.module import typename, zeroed
from ..ops.complex import view_as_real
from ..tensors.tensor import Tensor

_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks",
          "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks",
          "_optimizer_load_state_dict_post_hooks")  # fmt: skip
Closure = Callable[[], Any] | None
_every_pre_hook: dict[int, Any] = {}
_every_post_hook: dict[int, Any] = {}


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before every step of every optimizer."""
    return RemovableHandle(_every_pre_hook, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after every step of every optimizer."""
    return RemovableHandle(_every_post_hook, hook)


def _hooks(optimizer: Any, which: str) -> tuple[Any, ...]:
    """Return an optimizer's hooks: none where a wrapper of another one has left `Optimizer.__init__` out."""
    return tuple(optimizer.__dict__.get(which, {}).values())


def is_unheard(optimizer: Optimizer) -> bool:
    """Return whether nobody wants to know of the optimizer's next step: no hook, no observer, no follower."""
    if observe.observers or _every_pre_hook or _every_post_hook:
        return False
    if observe.followers and observe.tally.steps >= observe.resting:
        return False
    own = optimizer.__dict__
    return not (own.get("_optimizer_step_pre_hooks") or own.get("_optimizer_step_post_hooks"))


def _around(step: Callable[..., Any]) -> Callable[..., Any]:
    """`step` with its hooks, in the phase "update" (a closure is again of the phase "forward"), told to observers."""

    @functools.wraps(step)
    def wrapper(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if self._stepping:  # a subclass calls super().step()
            return step(self, *args, **kwargs)
        for hook in (*_every_pre_hook.values(), *_hooks(self, "_optimizer_step_pre_hooks")):
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not isinstance(changed, tuple) or len(changed) != 2:
                    raise RuntimeError(
                        f"{step} must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                    )
                args, kwargs = changed
        observe.tally.steps += 1
        watching, before = observe.listening(), mode.phase
        params = [p for group in self.param_groups for p in group["params"]] if watching else []
        begun = False

        def begin() -> None:
            nonlocal begun
            if not begun:
                begun = True
                if observe.followers and observe.tally.steps > observe.resting:
                    observe.tell("stepping", self)
                observe.notify(watching, "update", self, params, True)

        def within(closure: Callable[[], Any]) -> Callable[[], Any]:
            def run() -> Any:
                mode.phase = "forward"
                try:
                    with enable_grad():
                        return closure()
                finally:
                    mode.phase = "update"
                    begin()  # what the closure takes is no part of the update

            return run

        if args and callable(args[0]):
            args = (within(args[0]), *args[1:])
        elif callable(kwargs.get("closure")):
            kwargs = {**kwargs, "closure": within(kwargs["closure"])}
        else:
            begin()
        self._stepping, mode.phase = True, "update"
        try:
            out = step(self, *args, **kwargs)
        finally:
            self._stepping, mode.phase = False, before
        if begun:
            observe.notify(watching, "update", self, params, False)
            if observe.followers and observe.tally.steps > observe.resting:
                observe.tell("stepped", self)
        if "_opt_called" in self.__dict__:  # a schedule wants to know
            self._opt_called = True
        for hook in (*_hooks(self, "_optimizer_step_post_hooks"), *_every_post_hook.values()):
            hook(self, args, kwargs)
        return out

    return wrapper


Params: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
"""What an optimizer steps: tensors, groups of them with settings of their own, or tensors with their names."""


ParamsT = Params  # PyTorch's names for it
params_t = _params_t = Params


class _Required:
    """Stands for a setting that has no default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """Let a step of one's own keep gradients where its group says ``differentiable``; PyTorch's decorator."""

    @functools.wraps(func)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(bool(self.defaults.get("differentiable", False))):
            return func(self, *args, **kwargs)

    return wrapped


def _get_value(x: Any) -> Any:
    """Return a number, or that of a tensor of one element."""
    return x.item() if isinstance(x, Tensor) else x


def _view_as_real(params: Any, *state_and_grads: Any) -> None:
    """Replace complex tensors in lists by their parts, in place."""
    for i, p in enumerate(params):
        if p.is_complex():
            for many in (params, *state_and_grads):
                many[i] = view_as_real(many[i])


def _default_to_fused_or_foreach(params: Any, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Return whether a step should be one call for many tensors: not here, where that is told by the optimizer."""
    return False, False


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Return the devices on which steps are captured in graphs."""
    return ["cuda"]


StateDict = dict[str, Any]  # PyTorch's names for types
DeviceDict = dict[Any, Tensor]


class Optimizer:
    """Base of all optimizers: it holds groups of parameters with their settings, and a state for each parameter.

    params : tensors, ``(name, tensor)`` pairs, or dicts with the key "params" and settings of their own.
    defaults : the settings of groups that say nothing else.
    """

    _optimizer_step_pre_hooks: dict[int, Any]
    _optimizer_step_post_hooks: dict[int, Any]
    _optimizer_state_dict_pre_hooks: dict[int, Any]
    _optimizer_state_dict_post_hooks: dict[int, Any]
    _optimizer_load_state_dict_pre_hooks: dict[int, Any]
    _optimizer_load_state_dict_post_hooks: dict[int, Any]
    _stepping = False
    _opt_called: bool

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _around(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                            f"{typename(params)}")  # fmt: skip
        self.defaults = defaults
        self._make_hooks()
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        if not isinstance(params, Iterable):
            raise TypeError(text(f"{typename(params)!r} object is not iterable", op=type(self).__name__,
                                 came=f"an object of class {typename(params)}", needed="tensors, or dicts of them",
                                 remedy="model.parameters()" if hasattr(params, "parameters") else ""))  # fmt: skip
        groups = list(params)
        if not groups:
            raise ValueError(text("optimizer got an empty parameter list", op=type(self).__name__,
                                  remedy="a generator such as model.parameters() gives its tensors once: "
                                  "call it anew, or keep list(model.parameters())"))  # fmt: skip
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)  # type: ignore[arg-type] # it says what is wrong with another

    def _make_hooks(self) -> None:
        for name in _HOOKS:
            self.__dict__.setdefault(name, {})

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hooks()
        for group in self.param_groups:  # groups saved before a setting was known
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += [""] * (i > 0) + [f"Parameter Group {i}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # -- groups --------------------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with settings of their own: ``{"params": ..., "lr": ...}``.

        *Raises*: TypeError or ValueError for what is no leaf tensor, or stands in a group already.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError("optimizer parameters need to be organized in ordered collections, but the ordering of "
                            "tensors in sets will change between runs. Please use a list instead.")  # fmt: skip
        given = [given] if isinstance(given, Tensor) else list(given)
        names = [p[0] for p in given if isinstance(p, tuple)]
        params = param_group["params"] = [p[1] if isinstance(p, tuple) else p for p in given]
        if names:
            if len(names) != len(params):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            param_group["param_names"] = names
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {typename(p)}")
            if not (p.is_leaf or p.retains_grad or self.defaults.get("differentiable")):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, value in self.defaults.items():
            param_group.setdefault(name, value)
        if len(params) != len(set(params)):
            warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
            )
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param group "
                    f"{'with' if 'param_names' in param_group else 'without'} names to the optimizer"
                )
            if not set(group["params"]).isdisjoint(params):
                raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or fill them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if p._grad is not None:
                    p._grad = None if set_to_none else zeroed(p._grad)

    # -- the step ------------------------------------------------------------------------------------------------------

    def step(self, closure: Closure = None) -> Any:
        """Change the parameters by their gradients; `closure` computes the loss anew and its gradients first."""
        raise NotImplementedError(f'{type(self).__name__} is missing the required "step" function')

    # -- hooks ---------------------------------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before every step; it may return new (args, kwargs)."""
        return RemovableHandle(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after every step."""
        return RemovableHandle(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before `state_dict`."""
        return RemovableHandle(self._optimizer_state_dict_pre_hooks, hook, first=prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after `state_dict`; what it returns replaces it."""
        return RemovableHandle(self._optimizer_state_dict_post_hooks, hook, first=prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before loading; what it returns replaces the state dict."""
        return RemovableHandle(self._optimizer_load_state_dict_pre_hooks, hook, first=prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after loading."""
        return RemovableHandle(self._optimizer_load_state_dict_post_hooks, hook, first=prepend)

    # -- saving and loading --------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the settings; parameters are numbered in the order of the groups.

        >>> import core
        >>> opt = core.optim.SGD([core.ones(1, requires_grad=True)], lr=0.1)
        >>> opt.state_dict()["param_groups"][0]["params"]
        [0]
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        number: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                number.setdefault(id(p), len(number))
            packed = {k: v for k, v in group.items() if k != "params"}
            groups.append(packed | {"params": [number[id(p)] for p in group["params"]]})
        state = {number[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            result = result if changed is None else changed
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back a state dict; its tensors become of their parameter's dtype and device.

        *Raises*: ValueError where the groups do not match.
        """
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        if "param_groups" not in state_dict:
            raise KeyError(f"param_groups: {type(self).__name__}.load_state_dict needs an optimizer's state_dict(), "
                           f"and got a dict of {', '.join(map(repr, [*state_dict][:4]))}")  # fmt: skip
        saved = deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        by_number: dict[int, Tensor] = {}
        for mine, theirs in zip(self.param_groups, saved, strict=True):
            if len(mine["params"]) != len(theirs["params"]):
                raise ValueError("loaded state dict contains a parameter group that doesn't match the size of "
                                 "optimizer's "
                                 "group")  # fmt: skip
            by_number.update(zip(theirs["params"], mine["params"], strict=True))
            theirs["params"] = mine["params"]
            if "param_names" in mine:
                theirs.setdefault("param_names", mine["param_names"])
        state: defaultdict[Any, Any] = defaultdict(dict)
        for k, v in state_dict["state"].items():
            if k in by_number:
                state[by_number[k]] = _like(by_number[k], v)
            else:
                state[k] = v
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)


@contextmanager
def swap_in_optimizer_params_and_state(optimizer: Optimizer, swapin_parameters: dict[str, Tensor],
                                       swapin_optim_state: dict[str, Any]) -> Iterator[None]:  # fmt: skip
    """Within the block the optimizer works on other parameters with another state; then it has its own again.

    swapin_parameters : tensors in the order of the optimizer's own.
    swapin_optim_state : what `Optimizer.state_dict` gives; its tensors are changed in place.

    >>> import core
    >>> from core.optim import swap_in_optimizer_params_and_state
    >>> mine, other = core.ones(1, requires_grad=True), core.ones(1, requires_grad=True)
    >>> opt = core.optim.SGD([mine], lr=0.5)
    >>> other.grad = core.ones(1)
    >>> with swap_in_optimizer_params_and_state(opt, {"w": other}, opt.state_dict()):
    ...     opt.step()
    >>> mine, other
    (tensor([1.], requires_grad=True), tensor([0.5000], requires_grad=True))
    """
    tensors = list(swapin_parameters.values())
    count = sum(len(group["params"]) for group in optimizer.param_groups)
    if len(tensors) != count:
        raise ValueError(f"swap_in_optimizer_params_and_state: the optimizer holds {count} parameters, "
                         f"got {len(tensors)}")  # fmt: skip
    groups, state, number = optimizer.param_groups, optimizer.state, 0
    by_number: dict[Any, Tensor] = {}
    swapped = []
    for mine, theirs in zip(groups, swapin_optim_state["param_groups"], strict=True):
        params = tensors[number : number + len(mine["params"])]
        number += len(params)
        by_number.update(zip(theirs["params"], params, strict=True))
        swapped.append({**theirs, "params": params})
    optimizer.param_groups = swapped
    optimizer.state = defaultdict(dict)
    for k, v in swapin_optim_state["state"].items():
        optimizer.state[by_number.get(k, k)] = dict(v) if isinstance(v, dict) else v
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = groups, state


def _like(p: Tensor, value: Any, key: Any = None) -> Any:
    """Return a loaded value as its parameter needs it."""
    if isinstance(value, Tensor):
        if key == "step":
            return value  # stays on the CPU, whatever the parameter
        # PyTorch keeps the very tensor where nothing changes; so do we
        return value.to(dtype=p.dtype if p.is_floating_point() else None, device=p.device)  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return {k: _like(p, v, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return type(value)(_like(p, v) for v in value)  # type: ignore[call-arg]
    return value


def number(value: Any) -> Any:
    """Return a setting that may be a tensor of one element, as a number."""
    return float(value.item()) if isinstance(value, Tensor) else value


def check_setting(value: Any, what: str, *, below: float | None = None) -> None:
    """ValueError for a setting that is negative (or not below `below`)."""
    if not number(value) >= 0.0 or (below is not None and not number(value) < below):
        raise ValueError(f"Invalid {what}: {value}")


def check_lr(lr: Any, text: str = "Invalid learning rate") -> None:
    """ValueError for a learning rate that is negative or a tensor of several elements."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if not number(lr) >= 0.0:
        raise ValueError(f"{text}: {lr}")


def check_betas(betas: Any) -> None:
    """ValueError for a decay rate outside [0, 1)."""
    for i in range(2):
        check_setting(betas[i], f"beta parameter at index {i}", below=1.0)


def check_ways(foreach: bool | None, fused: bool | None, differentiable: bool) -> None:
    """RuntimeError for ways to make a step that exclude one another. Here all are one kernel but `differentiable`."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
