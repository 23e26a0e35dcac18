"""What optimizers keep of parameters that are divided among processes, as divided tensors and back."""

from __future__ import annotations

from typing import Any

from ..base.modes import no_grad
from ..optim.optimizer import Optimizer
from ..tensors.tensor import Tensor, wrap
from .dtensor import DTensor, local_of, placed
from .placements import Replicate
from .redistributing import moved

__all__ = ["begun", "divided_alike", "local_state", "named_state", "own_state", "own_state_dict"]


def begun(optimizer: Any) -> None:
    """Let an optimizer that has made no step make one that changes nothing, so that it has a state.

    Where a parameter has a gradient already it is left as it is.
    """
    optimizer = getattr(optimizer, "optim", optimizer)  # of one that steps a part, what steps it
    params = [p for g in optimizer.param_groups for p in g["params"]]
    if optimizer.state or any(p._grad is not None for p in params):
        return
    rates = [g.get("lr") for g in optimizer.param_groups]
    trained = [p for p in params if p.requires_grad]
    with no_grad():
        for p in trained:
            p._grad = wrap(p._a * 0, p._kind)
        before = optimizer._stepping
        optimizer._stepping = True  # no step of the training: it is not counted, and no hook hears of it
        try:
            for g in optimizer.param_groups:
                if "lr" in g:
                    g["lr"] = 0.0
            optimizer.step()
        finally:
            optimizer._stepping = before
            for g, rate in zip(optimizer.param_groups, rates, strict=True):
                if "lr" in g:
                    g["lr"] = rate
            for p in trained:
                p._grad = None


def divided_alike(p: Any, state: Any) -> Any:
    """Return what an optimizer keeps of a parameter; of a divided one, tensors of its part's shape as divided ones."""
    if not isinstance(p, DTensor) or not isinstance(state, dict):
        return state
    return {k: placed(local_of(x), p._mesh, p._places, p._whole)
            if isinstance(x, Tensor) and x._a.ndim and x._a.shape == p._a.shape else x
            for k, x in state.items()}  # fmt: skip


def own_state(p: Any, state: Any) -> Any:
    """Return what an optimizer loads for a parameter: of a divided one this process's part of whole tensors."""
    if not isinstance(p, DTensor) or not isinstance(state, dict):
        return state
    whole = (Replicate(),) * p._mesh.ndim

    def one(x: Any) -> Any:
        if isinstance(x, DTensor):
            return local_of(x).detach()
        if isinstance(x, Tensor) and x.ndim and tuple(x.shape) == p._whole:
            return moved(x, p._mesh, whole, p._places, p._whole).clone()
        return x

    return {k: one(x) for k, x in state.items()}


def _params(optimizer: Optimizer) -> list[Any]:
    return [p for g in optimizer.param_groups for p in g["params"]]


def own_state_dict(optimizer: Any) -> dict[str, Any]:
    """Return an optimizer's state dict; of one whose state is dealt out to processes, this one's part."""
    own = getattr(optimizer, "own_state_dict", optimizer.state_dict)
    return own()  # type: ignore[no-any-return]


def named_state(optimizer: Optimizer) -> dict[str, Any]:
    """Return an optimizer's state dict, in which what it keeps of divided parameters is divided."""
    params, state = _params(optimizer), own_state_dict(optimizer)
    return {**state, "state": {k: divided_alike(params[k], x) for k, x in state["state"].items()}}


def local_state(optimizer: Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    """Return a state of `named_state` as the optimizer's own `load_state_dict` takes it."""
    params = _params(optimizer)
    return {**state, "state": {k: own_state(params[k], x) for k, x in state["state"].items()}}
