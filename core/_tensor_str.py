"""PyTorch's names for the parts of a tensor's text, on core.tensors.printing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .tensors import printing
from .tensors.tensor import Tensor

__all__ = ["PRINT_OPTS", "_add_suffixes", "_str_intern", "_tensor_str"]


class _Options(SimpleNamespace):
    """The options of `core.set_printoptions`, as attributes."""

    def __getattribute__(self, name: str) -> Any:
        if name in printing._options:
            return printing._options[name]
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        printing._options[name] = value


PRINT_OPTS = _Options()


def _tensor_str(self: Tensor, indent: int) -> str:
    """Return the elements of a tensor in brackets, each line after the first moved right by `indent`.

    >>> import core
    >>> _tensor_str(core.tensor([1.0, 2.5]), 0)
    '[1.0000, 2.5000]'
    """
    return printing.elements_text(self, indent)


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """Return a text that ends with what is true of the whole, on a line of its own where there is no room."""
    return printing._with_tail(tensor_str, suffixes, indent) + ")"


def _str_intern(inp: Tensor, *, tensor_contents: str | None = None) -> str:
    """Return the text of a tensor."""
    return repr(inp) if tensor_contents is None else f"{inp._shown}({tensor_contents})"
