"""Parameters and buffers of a module by their names with dots, read, set and exchanged."""

from __future__ import annotations

from typing import Any

from ...base.errors import text
from ...tensors.tensor import Tensor
from ..modules.module import Module

__all__ = ["NamedMemberAccessor", "set_tensor", "swap_tensor"]


def swap_tensor(module: Module, name: str, tensor: Tensor | None, allow_missing: bool = False) -> Tensor | None:
    """Put a tensor in the place of a parameter or buffer of the module itself; return what stood there.

    None takes it away. *Raises*: KeyError for a name with a dot, or of nothing where `allow_missing` is not said.

    >>> import core
    >>> layer = core.nn.Linear(2, 1)
    >>> old = swap_tensor(layer, "weight", core.ones(1, 2))
    >>> layer.weight, old.shape
    (tensor([[1., 1.]]), core.Size([1, 2]))
    """
    if "." in name or not name:
        raise KeyError(text(f"tensor name can't contain '.', got: {name!r}", op="swap_tensor",
                            remedy="NamedMemberAccessor(module).swap_tensor"))  # fmt: skip
    kept: Any = next((d for d in (module._parameters, module._buffers) if name in d), module.__dict__)
    if name not in kept and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute {name!r}")
    found = kept.get(name)
    if tensor is None:
        kept.pop(name, None)
    else:
        kept[name] = tensor
    return found  # type: ignore[no-any-return]


def set_tensor(module: Module, name: str, tensor: Tensor | None) -> None:
    """Put a tensor in the place of a parameter or buffer."""
    swap_tensor(module, name, tensor, allow_missing=True)


class NamedMemberAccessor:
    """The members of a module and of those below it, by the names that ``named_parameters`` gives."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def get_submodule(self, name: str) -> Module:
        """Return a module below it; itself for no name."""
        return self.module.get_submodule(name)

    def get_tensor(self, name: str) -> Tensor:
        """Return a parameter or buffer."""
        place, _, last = name.rpartition(".")
        return getattr(self.get_submodule(place), last)  # type: ignore[no-any-return]

    def set_tensor(self, name: str, value: Tensor | None) -> None:
        """Put a tensor in the place of one."""
        place, _, last = name.rpartition(".")
        set_tensor(self.get_submodule(place), last, value)

    def swap_tensor(self, name: str, value: Tensor | None, allow_missing: bool = False) -> Tensor | None:
        """Put a tensor in the place of one, which is returned."""
        place, _, last = name.rpartition(".")
        return swap_tensor(self.get_submodule(place), last, value, allow_missing)

    def swap_tensors_dict(self, named: dict[str, Tensor], allow_missing: bool = False) -> tuple[dict[str, Any], Any]:
        """Exchange several; return those that stood there, and the names that were not there."""
        found = {n: self.swap_tensor(n, t, allow_missing) for n, t in named.items()}
        return found, [n for n, t in found.items() if t is None]
