"""What crosses to a worker process and back: pickles, with the memory of tensors and arrays beside them.

Classes and functions go by name where a fresh interpreter can import them. What is defined in a notebook's cell, in a
script or in another function goes to the worker as a whole, through cloudpickle; on the way back it goes by name.
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from ...base.errors import text
from ...tensors.tensor import Tensor
from .segments import offsets

_SMALL = 256  # bytes; what is smaller goes into the pickle itself
_Packed = tuple[bytes, list[Any]]


def _plain_dtype(data: memoryview, dtype: Any, shape: tuple[int, ...]) -> Any:
    return np.frombuffer(data, np.uint8).view(dtype).reshape(shape)


def _reduced(obj: Any) -> Any:
    """How tensors cross, and the arrays whose dtype NumPy does not give out as a buffer (bfloat16)."""
    if isinstance(obj, np.ndarray) and obj.dtype.isbuiltin == 2:
        flat: Any = np.ascontiguousarray(obj).reshape(-1).view(np.uint8)
        return _plain_dtype, (pickle.PickleBuffer(flat), obj.dtype, obj.shape)
    if isinstance(obj, Tensor):
        if obj.device.type != "cpu":
            raise RuntimeError(text("a tensor on a GPU cannot cross between processes", op="DataLoader",
                                    came=f"a tensor of shape {tuple(obj.shape)} on {obj.device}",
                                    remedy="t.cpu() in the worker, and .to('cuda') in the training loop"))  # fmt: skip
        if obj.grad_fn is not None:
            raise RuntimeError(text("Cannot serialize non-leaf tensor which requires_grad, since autograd does not "
                                    "support crossing process boundaries", op="DataLoader",
                                    came=f"a tensor of shape {tuple(obj.shape)} made by {obj.grad_fn.name()}",
                                    remedy="t.detach(), or with core.no_grad() around what makes it"))  # fmt: skip
    return NotImplemented


@cache
def _importable(module: str) -> bool:
    """Return whether a fresh interpreter with this one's path would find the module."""
    path: Any = None
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path) if find else None
            if spec is not None:
                break
        if spec is None:
            return False
        path = spec.submodule_search_locations
    return True


def _by_name(obj: Any) -> bool:
    """Return whether the other process finds this class or function under its name."""
    module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", "")
    if not isinstance(module, str):
        return True
    return module != "__main__" and "<" not in name and _importable(module)


class _NeedsValue(Exception):
    """A class or function that must go as a whole."""


class _ByName(pickle.Pickler):
    """To a worker, by names alone."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | FunctionType) and not _by_name(obj):
            raise _NeedsValue(f"{obj.__module__}.{obj.__qualname__}")
        return _reduced(obj)


@cache
def _by_value() -> Any:
    """To a worker, with what cannot be imported as a whole; None without cloudpickle."""
    try:
        import cloudpickle
    except ImportError:
        return None

    class ByValue(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            module = getattr(obj, "__module__", None)
            if isinstance(obj, type | FunctionType) and module != "__main__" and not _by_name(obj):
                found = sys.modules.get(str(module))
                if found is not None and not _importable(str(module)):
                    cloudpickle.register_pickle_by_value(found)
                    try:
                        return super().reducer_override(obj)
                    finally:
                        cloudpickle.unregister_pickle_by_value(found)
            found = _reduced(obj)
            return super().reducer_override(obj) if found is NotImplemented else found

    return ByValue


class _Home(pickle.Pickler):
    """From a worker to its parent, which knows what it sent by its name."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | FunctionType) and not _by_name(obj) and "<" not in obj.__qualname__:
            return _at_home, (obj.__module__, obj.__qualname__)
        return _reduced(obj)


def _at_home(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module) or importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _dumped(pickler: Any, obj: Any, inside: Callable[[Any], bool] = lambda buffer: False) -> _Packed:
    buffers: list[Any] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _SMALL or inside(raw):
            return True
        buffers.append(raw)
        return False

    file = io.BytesIO()
    pickler(file, protocol=5, buffer_callback=keep).dump(obj)
    return file.getvalue(), buffers


def parts(data: Any, sizes: Sequence[int]) -> list[Any]:
    """Return the buffers of these sizes that lie in `data`."""
    begins, _ = offsets(sizes)
    return [data[b : b + n] for b, n in zip(begins, sizes, strict=True)]


def order(obj: Any) -> bytes:
    """Return what a worker is told to do, indices with it."""
    file = io.BytesIO()
    try:
        _ByName(file, protocol=5).dump(obj)
        return file.getvalue()
    except (_NeedsValue, pickle.PicklingError, AttributeError, TypeError):
        body, _ = _dumped(_by_value() or pickle.Pickler, obj, lambda buffer: True)
        return body


def home(obj: Any) -> _Packed:
    """Return a worker's result for its parent. *Raises*: TypeError where it cannot be sent."""
    try:
        return _dumped(_Home, obj)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        first = error
    try:
        if (whole := _by_value()) is not None:
            return _dumped(whole, obj)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        first = error
    raise TypeError(text(f"DataLoader: a batch cannot be sent from its worker process: {first}", op="DataLoader",
                         came=f"a {type(obj).__name__}", remedy="tensors, arrays and plain values from the data set "
                         "and the collate_fn; or num_workers=0"))  # fmt: skip


def outward(what: dict[str, Any]) -> _Packed:
    """Return the data set and the functions of a loader, for its workers; `what` names them.

    *Raises*: TypeError or `pickle.PicklingError`, which say what cannot be sent, and the remedy.
    """
    try:
        return _dumped(_ByName, what)
    except (_NeedsValue, pickle.PicklingError, AttributeError, TypeError) as error:
        first = error.with_traceback(None)  # its frames would hold the loader's pass, and so its workers, in a cycle
    whole = _by_value()
    if whole is None and isinstance(first, _NeedsValue):
        raise pickle.PicklingError(
            text(f"DataLoader: {first} is defined in a notebook's cell, a script or a function, so a worker process "
                 "cannot import it, and cloudpickle, which sends it as a whole, is not installed", op="DataLoader",
                 remedy="pip install cloudpickle (or 'gradlab[lab]'); or move it to a module of its own and import it; "
                        "or num_workers=0")
        )  # fmt: skip
    if whole is not None:
        try:
            return _dumped(whole, what)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            first = error.with_traceback(None)
    kind = TypeError if isinstance(first, TypeError) else pickle.PicklingError
    raise kind(text(f"DataLoader: {_culprit(what, whole or _ByName)} cannot be sent to a worker process: {first}",
                    op="DataLoader", remedy="open files, locks and connections in __getitem__, or in worker_init_fn, "
                    "which run in the worker; or num_workers=0"))  # fmt: skip


def _culprit(what: dict[str, Any], pickler: Any) -> str:
    """Return which part cannot be pickled: "dataset.file (a TextIOWrapper)"."""

    def fails(obj: Any) -> bool:
        try:
            _dumped(pickler, obj)
        except Exception:
            return True
        return False

    for name, value in what.items():
        if fails(value):
            while inner := next(((k, v) for k, v in getattr(value, "__dict__", {}).items() if fails(v)), None):
                if name.count(".") > 4:
                    break
                name, value = f"{name}.{inner[0]}", inner[1]
            return f"{name} (a {type(value).__name__})"
    return "the data set"
