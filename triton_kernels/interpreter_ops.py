"""Operations that Triton's compiler has and its interpreter lacks: sums and the like by descriptors, a GPU's own words.

A descriptor's `atomic_add` is the pointers' that it stands for. The functions of ``tl.extra`` (`smid`, `gdc_wait`) want
to be told who compiles them, as those of ``tl`` are. A function is mapped over elements one after another.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as it

_EXTRA = ("triton.language.extra.cuda", "triton.language.extra.cuda.utils", "triton.language.extra.cuda.gdc")


def _reduced(self: Any, kind: Any, desc: Any, value: Any, indices: Any) -> None:
    pointers, mask = desc.materialize_pointers(indices)
    name = str(kind).rpartition(".")[2].upper()
    dtype = value.dtype.scalar
    if name == "ADD" and dtype.is_floating():
        name = "FADD"
    if name in ("MIN", "MAX") and dtype.is_int_unsigned():
        name = f"U{name}"
    self.create_atomic_rmw(getattr(it._ir.ATOMIC_OP, name), pointers, value, mask, it._ir.MEM_SEMANTIC.RELAXED, None)


def _told(function: Any) -> Any:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **{**named, "_semantic": it.interpreter_semantic})

    return call


def _mapped(scalar_fn: Any, *args: Any, pack: Any = 1, _semantic: Any = None, _generator: Any = None) -> Any:
    """Return what a function gives for each element, or for `pack` of them together."""
    pack = int(getattr(pack, "value", pack))
    given = it.interpreter_semantic.broadcast_tensors(*map(it.interpreter_semantic.to_tensor, args))
    lanes = [each.handle.data.reshape(-1) for each in given]
    results: list[list[Any]] = []
    for k in range(0, lanes[0].size, pack):
        parts = [_scalar(lane[k + j], each) for lane, each in zip(lanes, given, strict=True) for j in range(pack)]
        found = scalar_fn(*parts)
        results.append(list(found) if isinstance(found, tuple | tl.tuple) else [found])
    made = []
    for first in range(0, len(results[0]), pack):
        kind = results[0][first].dtype
        data = np.array([np.asarray(r[first + j].handle.data).reshape(-1)[0] for r in results for j in range(pack)])
        data = data.astype(it._get_np_dtype(kind)).reshape(lanes and given[0].handle.data.shape)
        made.append(tl.tensor(it.TensorHandle(data, kind), given[0].type.with_element_ty(kind)))
    return made[0] if len(made) == 1 else tuple(made)


def _scalar(value: Any, of: Any) -> Any:
    return tl.tensor(it.TensorHandle(np.array([value]), of.dtype.scalar), of.dtype.scalar)


def install() -> None:
    """Let the interpreter have them, for good."""
    it.InterpreterBuilder.create_descriptor_reduce = _reduced
    for name in ("wait", "launch_dependents"):  # one launch is over before another begins
        setattr(it.InterpreterBuilder, f"create_grid_dependency_{name}", lambda self: None)
    for home in _homes():
        for name, value in list(vars(home).items()):
            if inspect.isfunction(value) and tl.core.is_builtin(value):
                setattr(home, name, _told(value))
    for home in (tl, tl.core):
        if hasattr(home, "map_elementwise"):
            home.map_elementwise = _mapped


def _homes() -> list[Any]:
    """Return the modules of ``tl.extra``: those that are imported by name, and the others that ``tl.extra.cuda`` is."""
    found = []
    for words in _EXTRA:
        with contextlib.suppress(ImportError, AttributeError):
            found.append(importlib.import_module(words))
            found.append(functools.reduce(getattr, words.split(".")[2:], tl))
    return found
