"""PyTorch's package ``functorch``: the names of `core.func`, and the older ones that give a module as a function."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from .base.errors import text
from .declare.op import functions as _f
from .func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from .nn.modules.module import Module
from .tensors.tensor import Tensor

__all__ = ["FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functional_call", "grad",
           "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional", "make_functional_with_buffers",
           "vjp", "vmap"]  # fmt: skip

Tensors = tuple[Tensor, ...]


class FunctionalModuleWithBuffers(Module):
    """A module as a function of its parameters, its buffers and its input; made by `make_functional_with_buffers`."""

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.stateless_model = model
        self.param_names = tuple(name for name, _ in model.named_parameters())
        self.buffer_names = tuple(name for name, _ in model.named_buffers())

    def forward(self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Return what the module gives with these parameters and buffers."""
        state = dict(zip(self.param_names, params, strict=True)) | dict(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers as a function of its parameters and its input; made by `make_functional`."""

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """Return what the module gives with these parameters."""
        return super().forward(params, (), *args, **kwargs)


def _parted(model: Module, detach: bool) -> tuple[Module, Tensors, Tensors]:
    copied = copy.deepcopy(model)
    params = tuple(p.detach().clone() if detach else p for p in copied.parameters())
    return copy.deepcopy(model).requires_grad_(False), params, tuple(copied.buffers())


def make_functional(model: Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, Tensors]:
    """Return a module as a function, and its parameters.

    *Raises*: RuntimeError for a module with buffers.

    >>> import core
    >>> from core.functorch import make_functional
    >>> f, params = make_functional(core.nn.Linear(2, 1))
    >>> f([core.ones(1, 2), core.zeros(1)], core.tensor([1.0, 2.0]))
    tensor([3.])
    """
    if next(iter(model.buffers()), None) is not None:
        raise RuntimeError(text("make_functional(model): `model` has buffers", op="make_functional",
                                remedy="make_functional_with_buffers(model)"))  # fmt: skip
    stateless, params, _ = _parted(model, disable_autograd_tracking)
    return FunctionalModule(stateless), params


def make_functional_with_buffers(model: Module, disable_autograd_tracking: bool = False,
                                 ) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:  # fmt: skip
    """Return a module as a function, its parameters and its buffers."""
    stateless, params, buffers = _parted(model, disable_autograd_tracking)
    return FunctionalModuleWithBuffers(stateless), params, buffers


def combine_state_for_ensemble(models: Sequence[Module]) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Return modules of one class as a function for `vmap`, and their parameters and buffers stacked.

    *Raises*: RuntimeError for none, for modules of several classes, and for some that train and some that do not.
    """
    if not models or len({type(m) for m in models}) > 1 or len({m.training for m in models}) > 1:
        raise RuntimeError(text("combine_state_for_ensemble: Expected at least one model, all of one class and all in "
                                "training or all in eval mode", op="combine_state_for_ensemble",
                                came=str([type(m).__name__ for m in models])))  # fmt: skip
    parts = [make_functional_with_buffers(m) for m in models]
    stack = lambda k: tuple(_f["stack"](list(x)) for x in zip(*(p[k] for p in parts), strict=True))
    return parts[0][0], stack(1), stack(2)  # type: ignore[no-untyped-call]
