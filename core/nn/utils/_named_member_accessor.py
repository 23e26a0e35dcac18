"""Tensors and modules of a module by their paths: read, put, exchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...base.errors import text
from ...tensors.tensor import Tensor
from ..modules.module import Module
from ..parameter import Parameter

__all__ = ["NamedMemberAccessor", "set_tensor", "swap_submodule", "swap_tensor"]

_ABSENT: Any = object()


def _split(path: str) -> tuple[str, str]:
    above, _, name = path.rpartition(".")
    return above, name


def set_tensor(module: Module, name: str, tensor: Any) -> None:
    """Put a tensor in the place of a module's own parameter, buffer or attribute."""
    swap_tensor(module, name, tensor, allow_missing=True)


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Put a tensor in the place of a module's own and return what was there; None where `allow_missing` found nothing.

    It stays a parameter or a buffer where one was, whatever the tensor is.

    *Raises*: TypeError for what is no module or no tensor; KeyError for a name with a dot or none;
    AttributeError where there is no such tensor.

    >>> import core
    >>> from core.nn.utils._named_member_accessor import swap_tensor
    >>> layer = core.nn.Linear(2, 1, bias=False)
    >>> before = swap_tensor(layer, "weight", core.ones(1, 2))
    >>> layer(core.tensor([1.0, 2.0]))
    tensor([3.])
    """
    _named_in(module, name)
    if tensor is not None and tensor is not _ABSENT and not isinstance(tensor, Tensor):
        raise TypeError(text(f"{tensor} should be an instance of torch.Tensor", op="swap_tensor"))
    for group in (module._parameters, module._buffers, module.__dict__):
        if name in group:
            before = group.pop(name) if tensor is _ABSENT else group[name]
            if before is not None and not isinstance(before, Tensor):
                raise TypeError(text(f"attribute `{name}`: {before} is not an instance of torch.Tensor",
                                     op="swap_tensor"))  # fmt: skip
            if tensor is not _ABSENT:
                group[name] = tensor
            return before
    if not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if tensor is not _ABSENT:
        setattr(module, name, tensor)
    return None


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Put a module in the place of a module's own, and return what was there."""
    _named_in(module, name)
    if not isinstance(submodule, Module):
        raise TypeError(text(f"{submodule} is not an instance of torch.nn.Module", op="swap_submodule"))
    before = module._modules.get(name)
    if before is None:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    module._modules[name] = submodule
    return before


def _named_in(module: Any, name: str) -> None:
    if not isinstance(module, Module):
        raise TypeError(text(f"{module} is not an instance of torch.nn.Module", op="swap_tensor"))
    if not name or "." in name:
        raise KeyError(f"a tensor's own name is one word without dots, not {name!r}")


class NamedMemberAccessor:
    """The tensors and modules of a module by their paths.

    >>> import core
    >>> from core.nn.utils._named_member_accessor import NamedMemberAccessor
    >>> model = NamedMemberAccessor(core.nn.Sequential(core.nn.Linear(2, 1)))
    >>> model.get_tensor("0.weight").shape
    core.Size([1, 2])
    """

    def __init__(self, module: Module) -> None:
        self.module = module

    def get_submodule(self, name: str) -> Module:
        """Return the module at a path."""
        return self.module.get_submodule(name)

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Put a module at a path, and return what was there."""
        above, name = _split(path)
        return swap_submodule(self.get_submodule(above), name, value)

    def get_tensor(self, name: str) -> Any:
        """Return the tensor at a path."""
        above, own = _split(name)
        found = getattr(self.get_submodule(above), own)
        if not isinstance(found, Tensor):
            raise TypeError(text(f"{found} is not an instance of torch.Tensor", op="NamedMemberAccessor", came=name))
        return found

    def set_tensor(self, name: str, value: Any) -> None:
        """Put a tensor at a path."""
        self.swap_tensor(name, value, allow_missing=True)

    def del_tensor(self, name: str) -> None:
        """Take the tensor at a path away."""
        self.swap_tensor(name, _ABSENT)

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        """Put a tensor at a path, and return what was there."""
        above, own = _split(name)
        return swap_tensor(self.get_submodule(above), own, value, allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        """Return the tensors at paths."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Any]) -> None:
        """Put tensors at paths."""
        self.swap_tensors(names, values, allow_missing=True)

    def set_tensors_dict(self, named_tensors: dict[str, Any]) -> None:
        """Put tensors at paths."""
        self.swap_tensors_dict(named_tensors, allow_missing=True)

    def del_tensors(self, names: Iterable[str]) -> None:
        """Take the tensors at paths away."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names: Iterable[str], values: Iterable[Any], allow_missing: bool = False) -> list[Any]:
        """Put tensors at paths, and return what was there."""
        return [self.swap_tensor(n, v, allow_missing) for n, v in zip(names, values, strict=True)]

    def swap_tensors_dict(self, named_tensors: dict[str, Any],
                          allow_missing: bool = False) -> tuple[dict[str, Any], list[str]]:  # fmt: skip
        """Put tensors at paths; return what was there, and the paths where nothing was. All or none is changed."""
        before: dict[str, Any] = {}
        missing: list[str] = []
        try:
            for name, tensor in named_tensors.items():
                try:
                    before[name] = self.swap_tensor(name, tensor)
                except AttributeError:
                    if not allow_missing:
                        raise
                    missing.append(name)
        except Exception:
            for name, tensor in before.items():
                self.swap_tensor(name, tensor)
            raise
        return before, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the paths of tensors that are not among the keys, and the keys that are no such paths."""
        given, valid = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(valid - given), sorted(given - valid)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with their paths."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers with their paths."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Yield parameters, then buffers, with their paths."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """Yield the modules with their paths."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)
