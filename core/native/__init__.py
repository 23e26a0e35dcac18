"""The C kernels, where the extension was built: `available` says whether, `reason` why not.

Without the extension `core` runs on NumPy and warns once, when it is imported. ``GRADLAB_NATIVE=0`` in the environment
leaves the extension alone without a word.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

import numpy as np


class NativeWarning(UserWarning):
    """The C extension is missing, so that everything runs on NumPy and slower."""


def _load() -> tuple[ModuleType | None, str]:
    if os.environ.get("GRADLAB_NATIVE") == "0":
        return None, "GRADLAB_NATIVE=0 in the environment turns the C kernels off"
    try:
        found = importlib.import_module("core.native._native")
        if hasattr(found, "set_convolution_method"):  # one of the newest things in it
            return found, ""
        reason = "the C extension was built from older sources than these; install again"
    except ModuleNotFoundError:
        reason = "the C extension is not built; install again with a C compiler (gcc or clang) present"
    except ImportError as error:
        own = str(error).startswith("core.native._native:")  # what the extension itself says: it has no other place
        reason = f"the C extension does not load ({error})" + ("" if own else "; install again")
    warnings.warn(f"core runs on NumPy, without its C kernels: {reason}", NativeWarning, stacklevel=_level_outside())
    return None, reason


def _level_outside() -> int:
    """Return the `stacklevel` for a caller of this function that names the line which imports `core`."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    package = tuple(os.path.join(root, name) + os.sep for name in ("core", "widgets", "lab"))
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_code.co_filename.startswith((*package, "<frozen importlib")):
        level += frame.f_code.co_filename.startswith(package)  # warnings does not count the import system's frames
        frame = frame.f_back
    return level


module, reason = _load()
available = module is not None


def copy_of(array: Any) -> Any:
    """Return the same items in row-major order, in memory of their own; NumPy's by all threads, in memory used before.

    >>> copy_of(np.broadcast_to(np.float32(1), (2, 2)))
    array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return module.copied(array) if module is not None and type(array) is np.ndarray else array.copy()


def sum_of(a: Any, b: Any) -> Any:
    """Return ``a + b``: of two arrays of float32 or float64 of one shape in memory used before.

    >>> sum_of(np.ones(2), np.ones(2))
    array([2., 2.])
    """
    alike = type(a) is type(b) is np.ndarray and a.shape == b.shape and a.dtype == b.dtype
    if module is not None and alike and a.dtype.char in "fd":
        return module.maps["add", a.dtype.char](a, b)
    return a + b


def paths_taken(call: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
    """Return what `call` gives, and which ways through the C code it took, and how often: {name: count}.

    ``call_...`` says what read the arguments of public functions (``call_python``: their Python function), ``op_...``
    what computed structured ops (``op_reference``: their own forward, on NumPy); the others are ways inside kernels
    (runtime/paths.h). All threads are counted. Without the extension there is none. Where `core.explain` says which
    kernel would serve, this runs the call and says what did.

    >>> import core
    >>> x = core.ones(2, 3)
    >>> paths_taken(lambda: x.sum(1).tolist())[0]
    [3.0, 3.0]
    """
    before = module.paths() if module is not None else {}
    result = call()
    after = module.paths() if module is not None else {}
    return result, {name: after[name] - before[name] for name in after if after[name] != before[name]}


from . import choices  # noqa: E402  it hands the kernels what the tuner has stored

choices.begin()
