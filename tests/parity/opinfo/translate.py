"""PyTorch's samples as `core`'s: tensors with their strides, dtypes, functions that are written in terms of torch."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import types
from typing import Any

import numpy as np
import torch
from torch.testing._internal.opinfo.core import OpInfo

import core

SEED = 42
_NAMESPACES = (torch, torch.nn.functional, torch.linalg, torch.special, torch.fft, torch.signal.windows)
_OURS = ("", "nn.functional", "linalg", "special", "fft", "signal.windows")


class Absent(Exception):
    """`core` has no such function, dtype or kind of tensor."""


def find(path: str) -> Any:
    """What stands at a dotted path in `core`."""
    found: Any = core
    for part in filter(None, path.split(".")):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise Absent(f"core.{path}") from None
    return found


@functools.cache
def _paths() -> dict[int, list[str]]:
    """The dotted paths of each function of PyTorch by its identity."""
    paths: dict[int, list[str]] = {}
    for module, path in zip(_NAMESPACES, _OURS, strict=True):
        for name in dir(module):
            if callable(f := getattr(module, name)) and not isinstance(f, type):
                paths.setdefault(id(f), []).append(f"{path}.{name}".lstrip("."))
    for name in dir(torch.Tensor):
        paths.setdefault(id(getattr(torch.Tensor, name)), []).append(f"Tensor.{name}")
    return paths


def _at_any(paths: list[str]) -> Any:
    """What stands at the first of the paths that `core` has: F.hardshrink is torch.hardshrink."""
    for path in paths:
        with contextlib.suppress(Absent):
            return find(path)
    raise Absent(f"core.{paths[0]}")


def dtype(d: torch.dtype) -> Any:
    """`core`'s dtype of the same name."""
    found = getattr(core, str(d).removeprefix("torch."), None)
    if found is None:
        raise Absent(str(d))
    return found


def array(t: torch.Tensor) -> Any:
    """The tensor's numbers as NumPy's; bfloat16 as float32."""
    t = t.detach()
    return (t.float() if t.dtype is torch.bfloat16 else t).numpy(force=True)


def tensor(t: torch.Tensor) -> Any:
    """The tensor as `core`'s: same numbers, strides and dtype, a leaf if it requires a gradient."""
    if t.layout is not torch.strided or t.is_nested or t.is_quantized:
        raise Absent(f"a tensor of layout {t.layout}")
    if t.device.type != "cpu":
        raise Absent(f"a tensor on {t.device}")
    t, needs = t.detach().resolve_conj().resolve_neg(), t.requires_grad
    whole = t.untyped_storage().nbytes() // t.element_size()
    if t.is_contiguous() and t.numel() == whole:
        made = core.tensor(array(t), dtype=dtype(t.dtype))
    else:  # with what lies beside it: as_strided reaches there
        flat = array(torch.as_strided(t, (whole,), (1,), 0))
        made = core.as_strided(core.tensor(flat, dtype=dtype(t.dtype)), tuple(t.shape), t.stride(), t.storage_offset())
    return made.detach().requires_grad_() if needs else made


def value(v: Any, seen: dict[int, Any] | None = None) -> Any:
    """A value in a sample as `core`'s. A tensor that is given twice is one tensor."""
    seen = {} if seen is None else seen
    if isinstance(v, torch.Tensor):
        if id(v) not in seen:
            seen[id(v)] = tensor(v)
        return seen[id(v)]
    if isinstance(v, torch.Size):
        return core.Size(tuple(v))
    if isinstance(v, tuple) and hasattr(v, "_fields"):
        return tuple(value(x, seen) for x in v)
    if isinstance(v, tuple | list):
        return type(v)(value(x, seen) for x in v)
    if isinstance(v, dict):
        return {k: value(x, seen) for k, x in v.items()}
    if isinstance(v, slice):
        return slice(value(v.start, seen), value(v.stop, seen), value(v.step, seen))
    if isinstance(v, torch.dtype):
        return dtype(v)
    if isinstance(v, torch.device):
        return core.device(str(v))
    if isinstance(v, torch.layout | torch.memory_format):
        name = str(v).removeprefix("torch.")
        return getattr(core, name, name)  # of a layout that there is not, such as sparse_coo, its name
    if isinstance(v, torch.Generator):
        made = core.Generator(kind="torch")
        made.manual_seed(v.initial_seed())
        return made
    if isinstance(v, torch.nn.Module):  # one without parameters: its settings are its constants
        return find(f"nn.{type(v).__name__}")(
            **{k: getattr(v, k) for k in v.__constants__ if k in inspect.signature(type(v)).parameters}
        )
    if dataclasses.is_dataclass(v) and type(v).__module__.startswith("torch.nn"):
        kept = {f.name: value(getattr(v, f.name)) for f in dataclasses.fields(v) if f.init}
        return find(f"nn.{type(v).__name__}")(**kept)
    if callable(v) and not isinstance(v, OpInfo):
        return function(v)
    return v


def _seeded(op: Any, *args: Any, **kwargs: Any) -> Any:
    """`wrapper_set_seed` of PyTorch's tests."""
    core.manual_seed(SEED, kind="torch")
    return op(*args, **kwargs)


class _Names(dict):
    """The globals of a function of PyTorch's tests, each turned into `core`'s when it is read."""

    def __init__(self, theirs: dict[str, Any]) -> None:
        super().__init__(__builtins__=__builtins__)
        self.theirs = theirs

    def fill(self, code: types.CodeType) -> _Names:
        for name in (n for c in _codes(code) for n in c.co_names if n in self.theirs):
            self[name] = function(self.theirs[name])
        return self


def _codes(code: types.CodeType) -> list[types.CodeType]:
    inner = [c for k in code.co_consts if isinstance(k, types.CodeType) for c in _codes(k)]
    return [code, *inner]


def function(f: Any) -> Any:
    """A function of PyTorch as `core`'s: of the same path, or the same text run with ``torch`` meaning `core`."""
    if f is torch:
        return core
    if f is torch.nn.functional:
        return core.nn.functional
    if f is np or f is None or isinstance(f, bool | int | float | complex | str | bytes):
        return f
    if isinstance(f, OpInfo):
        return f
    if isinstance(f, torch.dtype | torch.Tensor | tuple | list | dict):
        return value(f)
    if getattr(f, "__name__", "") == "wrapper_set_seed":
        return _seeded
    if id(f) in _paths():
        return _at_any(_paths()[id(f)])
    if isinstance(f, functools.partial):
        return functools.partial(function(f.func), *value(f.args), **value(f.keywords))
    if isinstance(f, types.FunctionType):
        if f.__module__.startswith(("torch.testing", "torch._refs")) or f.__name__ == "<lambda>":
            return _rebuilt(f)
        raise Absent(f"{f.__module__}.{f.__qualname__}")
    if isinstance(f, type):
        if issubclass(f, torch.Tensor | torch.nn.Module):
            return find(f"{f.__module__}.{f.__name__}".removeprefix("torch."))
        return f
    module = getattr(f, "__module__", "") or ""
    if module.startswith(("torch", "functools")) or (
        isinstance(f, types.ModuleType) and f.__name__.startswith("torch")
    ):
        raise Absent(getattr(f, "__name__", repr(f)))
    return f


def _rebuilt(f: types.FunctionType) -> Any:
    cells = None
    if f.__closure__:
        cells = tuple(types.CellType(function(c.cell_contents)) for c in f.__closure__)
    names = _Names(f.__globals__).fill(f.__code__)
    defaults = None if f.__defaults__ is None else tuple(value(d) for d in f.__defaults__)
    made = types.FunctionType(f.__code__, names, f.__name__, defaults, cells)
    made.__kwdefaults__ = None if f.__kwdefaults__ is None else value(f.__kwdefaults__)
    return made
