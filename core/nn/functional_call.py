"""Modules as functions: `functional_call` with other parameters than a module's own, and modules stacked into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..declare.op import functions as _f
from ..tensors.tensor import Tensor
from .modules.batchnorm import _BatchNorm


def _merged(dicts: Any) -> dict[str, Any]:
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, Sequence):
        raise ValueError("Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
                         f"{type(dicts)}")  # fmt: skip
    if not all(isinstance(d, dict) for d in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = [name for d in dicts for name in d]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise ValueError(f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {k: v for d in dicts for k, v in d.items()}


def _tied(module: Any, given: dict[str, Any]) -> dict[str, Any]:
    """`given`, with every other name of a tensor that several names share."""
    groups: dict[int, list[str]] = {}
    for many in (module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)):
        for name, t in many:
            groups.setdefault(id(t), []).append(name)
    out = dict(given)
    for names in groups.values():
        mine = [n for n in names if n in given]
        if len(names) > 1 and mine:
            if len({id(given[n]) for n in mine}) > 1:
                raise ValueError(f"functional_call got multiple values for keys {sorted(mine)}, which are tied. "
                                 "Consider using tie_weights=False")  # fmt: skip
            out.update(dict.fromkeys(names, given[mine[0]]))
    return out


def _put(owner: Any, name: str, value: Any) -> Any:
    """Put a tensor in a module's place; gives what undoes it."""
    for store in (owner._parameters, owner._buffers):
        if name in store:
            before = store[name]
            store[name] = value
            return lambda: store.__setitem__(name, before)
    if isinstance(getattr(type(owner), name, None), property):
        before = getattr(owner, name)
        setattr(owner, name, value)
        return lambda: setattr(owner, name, before)
    missing = object()
    before = owner.__dict__.get(name, missing)
    owner.__dict__[name] = value
    return lambda: owner.__dict__.pop(name) if before is missing else owner.__dict__.__setitem__(name, before)


def functional_call(module: Any, parameter_and_buffer_dicts: Any, args: Any = None, kwargs: Any = None, *,
                    tie_weights: bool = True, strict: bool = False) -> Any:  # fmt: skip
    """Call a module with other parameters and buffers than its own, given by their names in one dict or several.

    tie_weights : a tensor that the module has under several names is replaced under all of them.
    strict : every name must be given, and no other.

    A buffer that the call assigns anew is found in the dict afterwards.

    *Raises*: RuntimeError, with `strict`, where names are missing or too many; TypeError for what is no tensor;
    AttributeError for a path to a module that is not there.

    >>> import core
    >>> layer = core.nn.Linear(2, 1, bias=False)
    >>> core.func.functional_call(layer, {"weight": core.ones(1, 2)}, (core.tensor([1.0, 2.0]),))
    tensor([3.])
    """
    given = _merged(parameter_and_buffer_dicts)
    full = _tied(module, given) if tie_weights else dict(given)
    if strict:
        known = {n for f in (module.named_parameters, module.named_buffers) for n, _ in f(remove_duplicate=False)}
        found = (("Unexpected", set(full) - known), ("Missing", known - set(full)))
        wrong = [f"{what} key(s): {', '.join(map(repr, sorted(names)))}." for what, names in found if names]
        if wrong:
            raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(wrong))
    modules: dict[str, Any] = dict(module.named_modules(remove_duplicate=False))
    undo: list[Any] = []
    placed: list[tuple[str, Any, str]] = []
    try:
        for name, value in full.items():
            if not isinstance(value, Tensor):
                raise TypeError(f"{value} is not an instance of torch.Tensor")
            path, _, last = name.rpartition(".")
            owner = modules[path] if path in modules else module.get_submodule(path)
            undo.append(_put(owner, last, value))
            placed.append((name, owner, last))
        many = () if args is None else args if isinstance(args, tuple) else (args,)
        result = module(*many, **({} if kwargs is None else kwargs))
        for name, owner, last in placed:
            if last in owner._buffers and name in given:
                given[name] = owner._buffers[last]
        return result
    finally:
        for back in reversed(undo):
            back()


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the parameters and the buffers of equal modules, stacked by name, for a `vmap` over `functional_call`.

    *Raises*: RuntimeError for none, or for modules of several classes or modes.

    >>> import core
    >>> params, _ = core.func.stack_module_state([core.nn.Linear(2, 3) for _ in range(4)])
    >>> params["weight"].shape
    core.Size([4, 3, 2])
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(name: str) -> dict[str, Tensor]:
        each = [dict(getattr(m, name)()) for m in models]
        return {k: _f["stack"]([d[k].detach() for d in each]).requires_grad_(each[0][k].requires_grad) for k in each[0]}

    return stacked("named_parameters"), stacked("named_buffers")


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Take the running statistics out of every batch norm within, so that it can be run under `vmap`.

    >>> import core
    >>> core.func.replace_all_batch_norm_modules_(core.nn.BatchNorm1d(2)).running_mean is None
    True
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
