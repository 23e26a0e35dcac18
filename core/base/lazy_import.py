"""Parts of a package that are imported when somebody first asks for them, so that importing the package stays quick."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_attributes(package: str, files: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__`` for names that are not imported with it.

    Parameters
    ----------
    package : its name, ``__name__``.
    files : by each late name the module of the package that has it (".name" one beside the package); "" where the name
        is itself a module.

    Returns
    -------
    The two functions, to be assigned to ``__getattr__, __dir__`` in the package's ``__init__.py``. What was asked for
    once is an ordinary name of the package from then on.

    Examples
    --------
    >>> from core.base.lazy_import import lazy_attributes
    >>> find, names = lazy_attributes("core", {"metrics": ""})
    >>> find("metrics").__name__, "metrics" in names(), "Tensor" in names()
    ('core.metrics', True, True)
    """

    def find(name: str) -> Any:
        file = files.get(name)
        if file is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f".{file or name}", package)
        found = getattr(module, name) if file else module
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *files})

    return find, names
