"""The C kernels, where the extension was built: `available` says whether, `reason` why not.

Without the extension `core` runs on NumPy and warns once, when it is imported. ``GRADLAB_NATIVE=0`` in the environment
leaves the extension alone without a word.
"""

from __future__ import annotations

import importlib
import os
import warnings
from types import ModuleType


class NativeWarning(UserWarning):
    """The C extension is missing, so that everything runs on NumPy and slower."""


def _load() -> tuple[ModuleType | None, str]:
    if os.environ.get("GRADLAB_NATIVE") == "0":
        return None, "GRADLAB_NATIVE=0 in the environment turns the C kernels off"
    try:
        return importlib.import_module("core.native._native"), ""
    except ModuleNotFoundError:
        reason = "the C extension is not built; install again with a C compiler (gcc or clang) present"
    except ImportError as error:
        reason = f"the C extension does not load ({error}); install again"
    warnings.warn(f"core runs on NumPy, without its C kernels: {reason}", NativeWarning, stacklevel=3)
    return None, reason


module, reason = _load()
available = module is not None
