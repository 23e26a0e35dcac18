"""Backends are rows, not branches: for every op an ordered list of kernels, of which the first that accepts runs.

The last row is always the reference: the op's own NumPy text, run by NumPy on the CPU and by CuPy on a GPU.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from .. import native
from ..base.device import Kind
from ..base.device import device as Device
from ..declare.expr import Joint, Program
from ..declare.op import Operation


class Kernel(NamedTuple):
    """What runs: `run(*arrays, *params)` for a map, `run(*arrays, **params)` for a structured op."""

    run: Callable[..., Any]
    name: str
    backend: str  # "C", "Triton", "NumPy" or "CuPy"


class Row(NamedTuple):
    """A kernel of a structured op and its own account of what it takes: `declines` gives the reason, or None.

    `entry` is the same for the C path: called with the arrays and the parameters' values in the op's order (a
    gradient's with what its vjp asks for), it gives what `run` gives, or NotImplemented for what is not for it.
    """

    name: str
    backend: str
    run: Callable[..., Any]
    declines: Callable[..., str | None]
    entry: Callable[..., Any] | None = None


def as_rows(a: Any) -> Any:
    """An array of any leading shape as a matrix; also one without elements, where -1 says nothing."""
    return a if a.ndim == 2 else a.reshape(math.prod(a.shape[:-1]), a.shape[-1])


@cache
def of(device_type: str) -> tuple[Any, ...]:
    """The backends of a device, fastest first. Each has `name`, `map(program, kind)` and `rows(op name)`."""
    from . import reference

    if device_type == "cpu":
        from . import cpu

        return (cpu, reference.numpy_backend)
    from . import cuda

    return (cuda, reference.cuda_backend())


def map_kernel(program: Program, kind: Kind) -> Kernel:
    """The kernel that maps `program` over arrays of `kind`."""
    for backend in of(kind.device.type):
        found = backend.map(program, kind)
        if isinstance(found, Kernel):
            reference_on_gpu = kind.device.type != "cpu" and backend is of(kind.device.type)[-1]
            return found._replace(run=there(_told(found.run), kind.device)) if reference_on_gpu else found
    raise AssertionError("the reference accepts everything")


def joint_kernel(joint: Joint, kind: Kind) -> Kernel | None:
    """The kernel that gives all results of `joint` at once, as a tuple; None where the backend has none."""
    fastest = of(kind.device.type)[0]
    found = fastest.map_joint(joint, kind) if hasattr(fastest, "map_joint") else None
    return found if isinstance(found, Kernel) else None


@cache
def rows(name: str, device_type: str) -> tuple[Row, ...]:
    """The rows of the kernel `name` ("softmax" or "softmax.backward"), the reference's not among them."""
    own = _registered.get((name, device_type), ())
    found = (*own, *(row for backend in of(device_type) for row in backend.rows(name)))
    return found if device_type == "cpu" else tuple([row._replace(run=_told(row.run)) for row in found])


def _told(run: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of a GPU whose errors are told in words, and whose results are counted under the interpreter."""
    from .cuda.memory import following
    from .cuda.shared import retell

    def told(*arrays: Any, **params: Any) -> Any:
        try:
            return run(*arrays, **params)
        except RuntimeError as error:
            retell(error)

    return following(told)


_registered: dict[tuple[str, str], tuple[Row, ...]] = {}  # the kernels of users' ops; the newest is tried first


def register(name: str, device_type: str, row: Row) -> None:
    """Add a row for the op `name` on a device, before those that are there."""
    _registered[name, device_type] = (row, *_registered.get((name, device_type), ()))
    _changed()


def forget(name: str) -> None:
    """Take away the rows that were registered for `name`."""
    for key in [k for k in _registered if k[0] == name]:
        del _registered[key]
    _changed()


def _changed() -> None:
    rows.cache_clear()
    if native.module is not None:
        native.module.rows_changed()


def pick(name: str, device_type: str, arrays: tuple[Any, ...], params: dict[str, Any]) -> Kernel | None:
    """The first row that accepts; None leaves the op to its reference."""
    for row in rows(name, device_type):
        if row.declines(*arrays, **params) is None:
            return Kernel(row.run, row.name, row.backend)
    return None


def reference_kernel(op: Operation, device_type: str) -> Kernel:
    """The op's own text on the device's array library."""
    found: Kernel = of(device_type)[-1].operation(op)
    return found if device_type == "cpu" or op.name == "move" else found._replace(run=_told(found.run))


many = False
"""Whether there are several GPUs, so that arrays and kernels must be told which is theirs."""


def be_on(where: Device) -> None:
    """Make `where` the current GPU, for whoever puts back what was before."""
    if where.index is not None:
        from .cuda.devices import make_current

        make_current(where.index)


def current() -> Device:
    """The current GPU; asked for only where there are many."""
    from .cuda.devices import current

    return Device("cuda", current())


def there(run: Callable[..., Any], where: Device) -> Callable[..., Any]:
    """`run` with the GPU `where` the current one."""
    if where.index is None:
        return run
    from .cuda.devices import guarded

    return guarded(run, where)  # type: ignore[no-any-return]


def as_ran(kernel: Kernel) -> Kernel:
    """A kernel as observers are told of it after it ran: an op of a GPU may have gone to the CPU."""
    fallback = sys.modules.get(f"{__name__}.cuda.fallback")
    return kernel if fallback is None else fallback.as_ran(kernel)


def making(where: Device, make: Callable[[Any], Any]) -> Any:
    """The array that ``make(array library)`` gives, in the memory of `where`."""
    if where.index is None:
        return make(array_module(where.type))
    from .cuda.devices import on
    from .cuda.memory import made
    from .cuda.shared import retell

    try:
        with on(where):
            return made(make(array_module(where.type)))
    except RuntimeError as error:
        retell(error)


def array_module(device_type: str) -> Any:
    """NumPy, or what holds the arrays of a GPU: CuPy, or NumPy under Triton's interpreter."""
    return of(device_type)[-1].xp


def explain(name: str, program: Program | None, kind: Kind, arrays: tuple[Any, ...],
            params: dict[str, Any]) -> list[tuple[str, str, str | None]]:  # fmt: skip
    """Every candidate as (kernel, backend, reason it declined or None), in order; the last is the reference."""
    out: list[tuple[str, str, str | None]] = []
    if program is not None:
        for backend in of(kind.device.type):
            found = backend.map(program, kind)
            out.append((found.name, found.backend, None) if isinstance(found, Kernel)
                       else (program.name, backend.name, found))  # fmt: skip
        return out
    for row in rows(name, kind.device.type):
        out.append((row.name, row.backend, row.declines(*arrays, **params)))
    last = of(kind.device.type)[-1]
    if not any(r[1] == "C" or r[1] == "Triton" for r in out):
        first = of(kind.device.type)[0]
        out.append((name, first.name, first.absent(name)))
    return [*out, (f"{name}_reference", last.name, None)]


def __getattr__(name: str) -> Any:  # settings that PyTorch's programs make, loaded when asked for
    if name not in ("cuda", "cudnn", "mps"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module(f".{name}", __name__)
