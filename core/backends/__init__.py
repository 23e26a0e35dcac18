"""Backends are rows, not branches: for every op an ordered list of kernels, of which the first that accepts runs.

The last row is always the reference: the op's own NumPy text, run by NumPy on the CPU and by CuPy on a GPU.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from .. import native
from ..base.device import Kind, know_type
from ..base.device import device as Device
from ..base.errors import text
from ..declare.expr import Joint, Program
from ..declare.op import Operation
from ..tensors import device_read
from . import switches


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


def as_matrix(a: Any) -> Any:
    """Return an array of any leading shape as a matrix; also one without elements, where -1 says nothing."""
    return a if a.ndim == 2 else a.reshape(math.prod(a.shape[:-1]), a.shape[-1])


class DeviceBackend:
    """What a device brings: its kernels, and how they are run where it is. This one is the CPU's.

    A package beneath `core.backends` (or of anybody's own) makes one for a further device and hands it to `add`;
    nothing else of `core` names it. A device other than the CPU has an index, which `check` gives it.

    kernels : the backends, fastest first and the reference last, each with `name`, `map(program, kind)`,
        `rows(op name)` and `absent(op name)`; the first perhaps with `map_joint(joint, kind)`, the last
        with `operation(op)` and `xp`.
    """

    def __init__(self, type: str, kernels: Callable[[], tuple[Any, ...]]) -> None:
        self.type, self.kernels = type, cache(kernels)

    def check(self, where: Device) -> Device:
        """Return the device with its index. Raise RuntimeError, with the reason, where it is not there."""
        return where

    def current(self) -> Device:
        """Return the device on which new arrays of this type are made."""
        return Device(self.type)

    def make_current(self, where: Device) -> None:
        """Make new arrays on `where` from now on."""

    def on_device(self, run: Callable[..., Any], where: Device) -> Callable[..., Any]:
        """Return `run` with `where` as the current device."""
        return run

    def with_our_errors(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return a kernel whose errors are raised in this package's words."""
        return run

    def as_observed(self, kernel: Kernel) -> Kernel:
        """Return a kernel as observers are told of it after it ran."""
        return kernel

    def allocated(self, where: Device, make: Callable[[Any], Any]) -> Any:
        """Return the array that ``make(array library)`` gives, in the memory of `where`."""
        return make(self.kernels()[-1].xp)

    def drawing(self, engine: Any) -> Any:
        """Return what draws random numbers here for a generator's engine."""
        return engine

    def read(self, fetch: Callable[[], Any]) -> Any:
        """Return the value that `fetch` brings to the CPU, once all that it depends on has run."""
        return fetch()

    def copied(self, x: Any, to: Device, origin: Device, non_blocking: bool) -> Any:
        """Return the array `x` of `origin` in the memory of `to`, of which one is this device and the other the CPU or
        this device as well."""
        return x.copy()


_devices: dict[str, DeviceBackend] = {}


def add(found: DeviceBackend) -> None:
    """Register a device. Its type is then one that `core.device` knows."""
    _devices[found.type] = found
    know_type(found.type)
    device_read.readers[found.type] = found.read
    _changed()


def device(device_type: str) -> DeviceBackend:
    """Return what is registered for that type of device. *Raises*: RuntimeError where there is none of it here."""
    found = _devices.get(device_type)
    if found is None and device_type == "meta":  # which few programs ask for
        importlib.import_module(".meta", __name__)
        return _devices[device_type]
    if found is None:
        raise RuntimeError(text(f"there is no device of type {device_type!r} here", op="device", came=repr(device_type),
                                needed=" or ".join(map(repr, _devices)), remedy='x.to("cpu")'))  # fmt: skip
    return found


def of(device_type: str) -> tuple[Any, ...]:
    """Return the backends of a device, fastest first."""
    return _devices[device_type].kernels()


def map_kernel(program: Program, kind: Kind) -> Kernel:
    """Return the kernel that maps `program` over arrays of `kind`."""
    for backend in of(kind.device.type):
        found = backend.map(program, kind)
        if isinstance(found, Kernel):
            reference_on_gpu = kind.device.type != "cpu" and backend is of(kind.device.type)[-1]
            return found._replace(run=_on_device(found.run, kind.device)) if reference_on_gpu else found
    raise AssertionError("the reference accepts everything")


def joint_kernel(joint: Joint, kind: Kind) -> Kernel | None:
    """Return the kernel that gives all results of `joint` at once, as a tuple; None where the backend has none."""
    fastest = of(kind.device.type)[0]
    found = fastest.map_joint(joint, kind) if hasattr(fastest, "map_joint") else None
    return found if isinstance(found, Kernel) else None


@cache
def rows(name: str, device_type: str) -> tuple[Row, ...]:
    """Return the rows of the kernel `name` ("softmax" or "softmax.backward"), the reference's not among them."""
    own = _registered.get((name, device_type), ())
    found = (*own, *(row for backend in of(device_type) for row in backend.rows(name)))
    translated = _devices[device_type].with_our_errors
    return tuple([row._replace(run=translated(row.run)) for row in found])


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
    """Return the first row that accepts; None leaves the op to its reference."""
    for row in rows(name, device_type):
        if row.declines(*arrays, **params) is None:
            return Kernel(row.run, row.name, row.backend)
    return None


def reference_kernel(op: Operation, device_type: str) -> Kernel:
    """Return the op's own text on the device's array library."""
    found: Kernel = of(device_type)[-1].operation(op)
    return found if op.name == "move" else found._replace(run=_devices[device_type].with_our_errors(found.run))


def has_values(xp: Any) -> bool:
    """Return whether arrays of that library have values, so that a reference may look at them; on `meta` they have
    not."""
    return not getattr(xp, "without_values", False)


many = False
"""Whether there are several GPUs, so that arrays and kernels must be told which is theirs."""


def make_current(where: Device) -> None:
    """Make `where` the current device of its type, for whoever puts back what was before."""
    if where.index is not None:
        _devices[where.type].make_current(where)


def current() -> list[Device]:
    """Return the current device of every type but the CPU; asked for only where there are several of one."""
    return [found.current() for found in _devices.values() if found.type != "cpu"]


def on_device(run: Callable[..., Any], where: Device) -> Callable[..., Any]:
    """Return `run` with `where` as the current device."""
    return run if where.index is None else _devices[where.type].on_device(run, where)


def _on_device(run: Callable[..., Any], where: Device) -> Callable[..., Any]:
    """Return a kernel as `on_device` and `DeviceBackend.with_our_errors` make it."""
    return on_device(_devices[where.type].with_our_errors(run), where)


def as_observed(kernel: Kernel, where: Device) -> Kernel:
    """Return a kernel as observers are told of it after it ran on `where`."""
    return _devices[where.type].as_observed(kernel)


def allocated(where: Device, make: Callable[[Any], Any]) -> Any:
    """Return the array that ``make(array library)`` gives, in the memory of `where`."""
    return _devices[where.type].allocated(where, make)


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
    if name in ("cuda", "cudnn", "mps"):
        return importlib.import_module(f".{name}", __name__)
    if name in switches.SETTINGS:
        found = globals()[name] = switches.Switches(f"{__name__}.{name}", switches.SETTINGS[name])
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
