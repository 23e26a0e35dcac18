"""A block after which random numbers and the models of a function are as before it, and copies to try things on."""

from __future__ import annotations

import copy
import functools
import io
import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from core.base.pytorch import libraries

_SHARED = (type, FunctionType, BuiltinFunctionType, ModuleType, bytes)
_STATE = ("state_dict", "load_state_dict")
MOST_BYTES = 256 << 20
"""Of arrays that a copy has of its own; further ones it shares with what it was made of."""


@contextmanager
def put_back(step: Any = None, *generators: Any) -> Iterator[None]:
    """A block that leaves no trace in random numbers, in these generators, and in what a function trains.

    What has a `state_dict` and a `load_state_dict` among the function's variables (models, optimizers, schedules) gets
    its state again, and parameters their gradients. What else the function changes stays changed.

    >>> import core
    >>> model = core.nn.Linear(2, 1)
    >>> before = model.bias.item()
    >>> with put_back(lambda: model.bias.zero_()):
    ...     with core.no_grad():
    ...         _ = model.bias.add_(1.0)
    >>> model.bias.item() == before
    True
    """
    # a model asked of modules and closures is asked once
    parts = list({id(part): part for part in _trained(step)}.values())
    states = [(part, copy.deepcopy(part.state_dict())) for part in parts]
    gradients = [(p, p.grad) for part in parts if hasattr(part, "parameters") for p in part.parameters()]
    for p, _ in gradients:
        p.grad = None  # what a step adds to is then its own
    modes = [(m, m.training) for part in parts if hasattr(part, "modules") for m in part.modules()]
    drawn = [(generator, generator.get_state()) for generator in generators if hasattr(generator, "get_state")]
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - what users draw from
    sources = [source for library in libraries() for source in (library, library.cuda)
               if source is library or source.is_initialized()]  # fmt: skip
    defaults = [(source, source.get_rng_state()) for source in sources]
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        for source, state in defaults:
            source.set_rng_state(state)
        for generator, state in drawn:
            generator.set_state(state)
        for part, state in states:
            part.load_state_dict(state)
        for p, g in gradients:
            p.grad = g
        for module, mode in modes:
            module.training = mode


def _trained(step: Any) -> Iterator[Any]:
    """Yield what a function could train: among its variables, its defaults, and what it is bound to."""
    for value in _variables(step):
        for one in value if isinstance(value, list | tuple) else (value,):
            if not isinstance(one, type | ModuleType) and all(map(hasattr, (one, one), _STATE)):
                yield one


def _variables(step: Any, depth: int = 3) -> Iterator[Any]:
    if isinstance(step, functools.partial):
        yield from (*step.args, *step.keywords.values())
        yield from _variables(step.func, depth)
    elif isinstance(step, MethodType):
        yield step.__self__
        yield from vars(step.__self__).values() if hasattr(step.__self__, "__dict__") else ()
        yield from _variables(step.__func__, depth)
    elif isinstance(step, FunctionType):
        yield from (*(step.__defaults__ or ()), *(step.__kwdefaults__ or {}).values())
        names = [step.__globals__[n] for n in step.__code__.co_names if n in step.__globals__]
        cells = [c.cell_contents for c in step.__closure__ or () if _is_full(c)]
        for value in (*names, *cells):
            yield value
            if depth:  # a function of the user's that this one calls
                yield from _variables(value, depth - 1)
    elif hasattr(step, "__dict__") and not isinstance(step, type | ModuleType):
        yield step
        yield from vars(step).values()


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def copied(value: Any, *others: Any) -> Any:
    """Return a copy whose state is its own; functions, classes, arrays beyond `MOST_BYTES` and `others` it shares.

    *Raises*: TypeError or `pickle.PicklingError` for what cannot be copied: open files, generators, sockets.

    >>> rows = [[1], {"a": print}]
    >>> other = copied(rows)
    >>> other[0].append(2)
    >>> rows, other[1]["a"] is print
    ([[1], {'a': <built-in function print>}], True)
    """
    shared: list[Any] = []
    whole = {id(other) for other in others}
    room = MOST_BYTES
    arrays = (np.ndarray, *(library.Tensor for library in libraries()))

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: Any) -> int | None:
            nonlocal room
            if isinstance(obj, arrays):
                size = int(obj.nbytes)
                if size <= room:
                    room -= size
                    return None
            elif id(obj) not in whole and not isinstance(obj, _SHARED):
                return None
            shared.append(obj)
            return len(shared) - 1

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, pid: Any) -> Any:
            return shared[pid]

    written = io.BytesIO()
    Pickler(written, protocol=5).dump(value)
    written.seek(0)
    return Unpickler(written).load()
