"""The older `weight_norm` and `spectral_norm`, which compute the weight in a hook before forward."""

from __future__ import annotations

from typing import Any

from ...base.modes import no_grad
from ...base.source import warn
from .. import functional as F
from ..modules.module import Module
from ..parameter import Parameter
from .parametrizations import default_dim, norm_except_dim


def _alone(module: Module, kind: Any, name: str, called: str) -> None:
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, kind) and hook.name == name:
            raise RuntimeError(f"Cannot register two {called} hooks on the same parameter {name}")


def _taken(module: Module, kind: Any, name: str, called: str) -> Any:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            del module._forward_pre_hooks[key]
            return hook
    raise ValueError(f"{called} of '{name}' not found in {module}")


class WeightNorm:
    """The hook of `weight_norm`: length times direction."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / norm_except_dim(v, self.dim))

    def remove(self, module: Module) -> None:
        weight = self.compute_weight(module)
        for name in (self.name, self.name + "_g", self.name + "_v"):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Return a weight as a length ``weight_g`` times a direction ``weight_v``.

    `nn.utils.parametrizations.weight_norm` is newer. Source: arXiv 1602.07868.

    >>> import core, warnings
    >>> warnings.simplefilter("ignore")
    >>> list(core.nn.utils.weight_norm(core.nn.Linear(2, 3)).state_dict())
    ['bias', 'weight_g', 'weight_v']
    """
    warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
    )
    _alone(module, WeightNorm, name, "weight_norm")
    hook = WeightNorm(name, dim)
    weight = getattr(module, name).data
    delattr(module, name)
    module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, hook.dim)))
    module.register_parameter(name + "_v", Parameter(weight))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make a weight of `weight_norm` an ordinary parameter again.

    *Raises*: ValueError where there is none.
    """
    _taken(module, WeightNorm, name, "weight_norm").remove(module)
    return module


class SpectralNorm:
    """The hook of `spectral_norm`: the weight divided by its largest singular value."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def matrix(self, weight: Any) -> Any:
        return (weight.movedim(self.dim, 0) if self.dim else weight).flatten(1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Any:
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.T.mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def remove(self, module: Module) -> None:
        with no_grad():
            weight = self.compute_weight(module, False)
        for name in (self.name, self.name + "_u", self.name + "_v", self.name + "_orig"):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def note(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]) -> None:
        """Say in a state dict what its buffers mean, as PyTorch does."""
        local_metadata.setdefault("spectral_norm", {})[self.name + ".version"] = 1

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
                  dim: int | None = None) -> Module:  # fmt: skip
    """Return a weight divided by its largest singular value; `nn.utils.parametrizations.spectral_norm` is newer.

    Source: arXiv 1802.05957.

    >>> import core
    >>> list(core.nn.utils.spectral_norm(core.nn.Linear(2, 3)).state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    _alone(module, SpectralNorm, name, "spectral_norm")
    if n_power_iterations <= 0:
        raise ValueError("Expected n_power_iterations to be positive, but got "
                         f"n_power_iterations={n_power_iterations}")  # fmt: skip
    hook = SpectralNorm(name, n_power_iterations, default_dim(module) if dim is None else dim, eps)
    weight = getattr(module, name)
    with no_grad():
        rows, columns = hook.matrix(weight).shape
        u, v = (F.normalize(weight.new_empty(n).normal_(0, 1), dim=0, eps=eps) for n in (rows, columns))
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.data)  # a plain tensor: the hook puts another one here before each call
    module.register_buffer(name + "_u", u)
    module.register_buffer(name + "_v", v)
    module.register_forward_pre_hook(hook)
    module.register_state_dict_post_hook(hook.note)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make a weight of `spectral_norm` an ordinary parameter again.

    *Raises*: ValueError where there is none.
    """
    hook = _taken(module, SpectralNorm, name, "spectral_norm")
    hook.remove(module)
    for key, other in list(module._state_dict_hooks.items()):
        if getattr(other, "__self__", None) is hook:
            del module._state_dict_hooks[key]
    return module
