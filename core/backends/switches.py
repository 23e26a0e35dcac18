"""Switches of libraries that PyTorch computes with, for programs that set them: none of these libraries is here.

Each is a module of its own in PyTorch (``backends.mkldnn``, ``backends.openmp``). Settings are kept, without effect.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

SETTINGS: dict[str, dict[str, Any]] = {
    "mkl": {},
    "mkldnn": {"enabled": True, "deterministic": False, "allow_tf32": True},
    "openmp": {},
    "opt_einsum": {"enabled": False, "strategy": None},
    "quantized": {"engine": "none", "supported_engines": ["none"]},
    "xeon": {},
    "kleidiai": {},
    "nnpack": {},
    "cusparselt": {},
    "mha": {},
    "miopen": {"immediate": False},
    "xnnpack": {"enabled": False},
}


class Switches(types.ModuleType):
    """A module of settings, and of answers that the library is not there."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        super().__init__(name, f"PyTorch's settings of {name.rpartition('.')[2]}: kept, and without effect.")
        self.__dict__.update(settings)
        self._settings = list(settings)

    def is_available(self) -> bool:
        """Return whether the library is there: no."""
        return False

    def version(self) -> None:
        """Return its version: None."""

    @contextlib.contextmanager
    def flags(self, **changes: Any) -> Iterator[None]:
        """Set some for a block.

        *Raises*: TypeError for a setting that it has not.
        """
        for name in changes:
            if name not in self._settings:
                raise TypeError(f"flags() got an unexpected keyword argument {name!r}")
        before = {name: getattr(self, name) for name in changes}
        self.__dict__.update(changes)
        try:
            yield
        finally:
            self.__dict__.update(before)

    def set_flags(self, _enabled: bool = True) -> tuple[bool]:
        """Set whether the library is used; return what it was."""
        before, self.enabled = bool(self.__dict__.get("enabled", True)), _enabled
        return (before,)
