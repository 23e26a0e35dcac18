"""Devices. `cpu` is always there; `cuda` is there with CuPy and a GPU, or under Triton's interpreter."""

from __future__ import annotations

from typing import Any

from .dtypes import bool_, dtype

NAMED = ("meta", "mps", "xpu", "mtia", "hpu", "hip", "xla", "vulkan", "ipu", "privateuseone")
"""PyTorch's other types of device: programs compare with them. But for `meta` (core.backends.meta) none is here, and to
place a tensor on one is refused."""


class device:
    """Where a tensor lives: ``core.device("cuda:0")``. There is one object for each device, so `is` compares.

    >>> device("cpu"), device("cuda", 0) is device("cuda:0"), str(device("cuda:1"))
    (device(type='cpu'), True, 'cuda:1')
    """

    __slots__ = ("index", "type")
    _known: dict[tuple[str, int | None], device] = {}  # noqa: RUF012 - the register of all devices
    _types: list[str] = ["cpu"]  # noqa: RUF012 - `core.backends.add` tells of others
    type: str
    index: int | None

    def __new__(cls, spec: Any = "cpu", index: int | None = None) -> device:
        if isinstance(spec, device):
            return spec
        if isinstance(spec, int):
            spec, index = "cuda", spec
        kind, colon, number = str(spec).partition(":")
        if kind not in cls._types and kind not in NAMED:
            known = dict.fromkeys((*cls._types, "meta"))  # which is there once it is asked for
            needed = " or ".join(f"'{k}'" if k in ("cpu", "meta") else f"'{k}', '{k}:N'" for k in known)
            raise RuntimeError(
                f"Expected one of {', '.join(known)} device type at start of device string: {spec!r}\n"
                f"  came: {spec!r}; needed: {needed}"
            )
        if colon:
            if not number.isdigit():
                raise RuntimeError(f"Invalid device string: {spec!r}; the part after ':' must be a number")
            index = int(number)
        if kind in ("cpu", "meta"):
            index = None
        found = cls._known.get((kind, index))
        if found is None:
            found = object.__new__(cls)
            found.type, found.index = kind, index
            cls._known[(kind, index)] = found
        return found

    def __enter__(self) -> device:
        """Make tensors here where no device is named, until the end of the block."""
        _before.append(default_place[0])
        default_place[0] = self
        return self

    def __exit__(self, *raised: object) -> None:
        default_place[0] = _before.pop()

    def __repr__(self) -> str:
        return f"device(type={self.type!r}" + (f", index={self.index})" if self.index is not None else ")")

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (str(self),))


cpu = device("cpu")
default_place = [cpu]  # where tensors are made, one item: `core.set_default_device`, or a block of a device's
_before: list[device] = []


def know_type(type: str) -> None:
    """Let `device` take a further type of device."""
    if type not in device._types:
        device._types.append(type)


class Kind:
    """A dtype on a device. There is one object for each pair: one `is` tells whether two tensors go together, and
    kernels are looked up by it."""

    __slots__ = ("_bool", "device", "dtype")
    _known: dict[tuple[dtype, device], Kind] = {}  # noqa: RUF012 - the register of all kinds

    def __init__(self, d: dtype, where: device) -> None:
        self.dtype, self.device = d, where
        self._bool: Kind | None = None

    @property
    def boolean(self) -> Kind:
        """The kind of a comparison's result."""
        if self._bool is None:
            self._bool = kind(bool_, self.device)
        return self._bool

    def __repr__(self) -> str:
        return f"{self.dtype.name} on {self.device}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (kind, (self.dtype, self.device))


def kind(d: dtype, where: device = cpu) -> Kind:
    """Return the one `Kind` of that dtype on that device."""
    found = Kind._known.get((d, where))
    if found is None:
        found = Kind._known.setdefault((d, where), Kind(d, where))
    return found
