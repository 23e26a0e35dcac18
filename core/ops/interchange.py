"""Tensors handed to other array libraries and taken from them without a copy: DLPack, NumPy's interface, the array API.

NumPy and CuPy make and read the capsules. They do not know bfloat16, which goes through them as 16-bit integers: its
type code in the capsule is exchanged on the way.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .. import backends
from ..base import dtypes
from ..base.device import cpu
from ..base.device import device as device_class
from ..base.errors import text
from ..base.lazy_import import lazy_attributes
from ..declare.kinds import Data, Device
from ..dispatch.publish import public
from ..tensors.tensor import Tensor, from_array
from .conversion import asarray, available, placed

_late = lazy_attributes("core", {"array_api": ""})[0]  # few programs ask for it
_UNSIGNED, _BFLOAT = 1, 4  # DLDataTypeCode, in dlpack.h
_CPU, _CUDA = 1, 2  # DLDeviceType
# where a capsule's struct has the code of its dtype: after data, device and number of dimensions of the DLTensor, which
# stands first in a DLManagedTensor, and in a versioned one after version, context, deleter and flags
_CODE_AT = {b"dltensor": 20, b"dltensor_versioned": 32 + 20}

_name, _pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _code(capsule: Any) -> ctypes.c_uint8:
    """Return the code of a capsule's dtype, in its place. *Raises*: ValueError for a capsule that was used."""
    name = _name(capsule)
    if name not in _CODE_AT:
        raise ValueError(
            text("from_dlpack: the capsule was used before, and can be used once", op="from_dlpack", came=repr(name),
                 needed="dltensor", remedy="hand over the array itself")
        )  # fmt: skip
    return ctypes.c_uint8.from_address(_pointer(capsule, name) + _CODE_AT[name])


class _Handed:
    """An array or a capsule in the form that NumPy and CuPy read, which ask for the capsule with their stream."""

    brain = unversioned = False  # what was found when the capsule came

    def __init__(self, x: Any, where: tuple[int, int], copy: bool | None) -> None:
        self.x, self.where, self.copy = x, where, copy

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        capsule = _capsule_of(self.x, self.where, self.copy, stream) if hasattr(self.x, "__dlpack__") else self.x
        code = _code(capsule)
        self.brain, self.unversioned = code.value == _BFLOAT, _name(capsule) == b"dltensor"
        if self.brain:
            code.value = _UNSIGNED
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.where


class _Writable:
    """The memory of an array that NumPy holds for read-only, since a capsule of the first form does not say."""

    def __init__(self, a: Any) -> None:
        self.a = a
        self.__array_interface__ = {**a.__array_interface__, "data": (a.__array_interface__["data"][0], False)}


def _capsule_of(x: Any, where: tuple[int, int], copy: bool | None, stream: Any) -> Any:
    """Ask for a capsule, in the words that its owner knows: those of 2023 and later, or a stream alone."""
    given = {"copy": copy, "stream": stream, "dl_device": None if where == x.__dlpack_device__() else where}
    words = {k: v for k, v in given.items() if v is not None}
    try:
        return x.__dlpack__(max_version=(1, 0), **words)
    except TypeError:
        if not words.keys() <= {"stream"}:
            raise
        return x.__dlpack__(**words)


@public(method=False)
def from_dlpack(ext_tensor: Data, *, device: Device | None = None, copy: bool | None = None) -> Tensor:
    """Return a tensor over the memory of anything with ``__dlpack__``, or over that of a capsule (on the CPU).

    device : where it is to be; its owner copies it there, if it can.
    copy : True for a copy, False for an error where one would be made.

    *Raises*: BufferError for what cannot be handed over, ValueError for a capsule that was used.

    >>> import core, numpy as np
    >>> core.from_dlpack(np.arange(2.0))
    tensor([0., 1.], dtype=core.float64)
    """
    capsule = type(ext_tensor).__name__ == "PyCapsule"
    if not capsule and not hasattr(ext_tensor, "__dlpack__"):
        raise TypeError(text("from_dlpack: an array with __dlpack__ is required", op="from_dlpack",
                             came=type(ext_tensor).__name__, remedy="core.asarray(x)"))  # fmt: skip
    held = (_CPU, 0) if capsule else tuple(int(n) for n in ext_tensor.__dlpack_device__())
    kind, number = held
    if device is not None:
        goal = placed(device)
        kind, number = (_CPU, 0) if goal.type == "cpu" else (_CUDA, goal.index or 0)
    if kind not in (_CPU, _CUDA):
        raise BufferError(text("from_dlpack: that device is not known here", op="from_dlpack",
                               came=f"DLPack's device type {kind}", needed="1 (CPU) or 2 (CUDA)"))  # fmt: skip
    if held[0] == _CPU and kind == _CUDA:  # nobody's export puts it there
        if copy is False:
            raise ValueError(text("from_dlpack: a copy is needed to another device", op="from_dlpack",
                                  remedy="copy=None"))  # fmt: skip
        return from_dlpack(ext_tensor).to(placed(device))  # type: ignore[attr-defined,no-any-return]
    where = cpu if kind == _CPU else available(device_class("cuda", number))
    handed = _Handed(ext_tensor, (kind, number), copy)
    a = backends.array_module(where.type).from_dlpack(handed)
    if handed.unversioned and where is cpu:
        a = np.asarray(_Writable(a))
    return from_array(a.view(dtypes.bfloat16.numpy) if handed.brain else a, where)


def _dlpack(self: Tensor, *, stream: Any = None, max_version: tuple[int, int] | None = None,
            dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:  # fmt: skip
    """Return a capsule with this tensor's memory, or with a copy of it, for another library's ``from_dlpack``.

    *Raises*: BufferError for a tensor that requires a gradient, for a device that nothing can be put on, and where
    `copy` is False and a copy is needed.
    """
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    here = _dlpack_device(self)
    if dl_device is not None and tuple(map(int, dl_device)) != here:
        if int(dl_device[0]) != _CPU or copy is False:
            raise BufferError(text(f"cannot export a tensor on {self.device} to DLPack's device {tuple(dl_device)}",
                                   op="__dlpack__", remedy="x.to(device) first"))  # fmt: skip
        return _dlpack(self.cpu(), max_version=max_version)  # type: ignore[attr-defined]
    brain = self.dtype is dtypes.bfloat16
    a = self._a.view(np.uint16) if brain else self._a
    words: dict[str, Any] = {"stream": stream, "max_version": max_version}
    capsule = a.__dlpack__(**words) if copy is None else a.__dlpack__(**words, copy=copy)
    if brain:
        _code(capsule).value = _BFLOAT
    return capsule


def _dlpack_device(self: Tensor) -> tuple[int, int]:
    """Return DLPack's numbers of the device."""
    kind, number = self._a.__dlpack_device__()
    return int(kind), int(number)


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    a = np.asarray(self.numpy())
    if dtype is not None and a.dtype != dtype:
        if copy is False:
            raise ValueError(text("a copy is needed to another dtype", op="__array__", came=f"{a.dtype}, {dtype}",
                                  remedy="np.asarray(x, dtype)"))  # fmt: skip
        return a.astype(dtype)
    return a.copy() if copy else a


def _array_interface(self: Tensor) -> dict[str, Any]:
    """NumPy's description of this tensor's memory, where NumPy alone can read it: not of a tensor that requires a
    gradient, is on a GPU or of a dtype that NumPy lacks, which has no such attribute (`__array__` says why, or
    converts)."""
    if self.requires_grad or self._kind.device is not cpu or self.dtype.numpy.type.__module__ != "numpy":
        raise AttributeError("__array_interface__")
    array = self.numpy()
    # strides that are None, as NumPy gives them for a contiguous array, cost it a reference to None at each reading
    return {**array.__array_interface__, "strides": array.strides}


def _array_namespace(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """Return `core.array_api`, the functions of the array API standard.

    *Raises*: ValueError for a version of the standard that is not known here.
    """
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(text(f"version {api_version!r} of the array API standard is not known here",
                              op="__array_namespace__", needed="2024.12 or an earlier one"))  # fmt: skip
    return _late("array_api")


def _to_device(self: Tensor, device: Device, /, *, stream: int | None = None) -> Tensor:
    """As `to`, by the array API standard's name of it; a stream is the current one here."""
    return asarray(self, device=device)


Tensor.__dlpack__ = _dlpack  # type: ignore[attr-defined]
Tensor.__dlpack_device__ = _dlpack_device  # type: ignore[attr-defined]
Tensor.__array__ = _array  # type: ignore[attr-defined]
Tensor.__array_interface__ = property(_array_interface)  # type: ignore[attr-defined]
Tensor.__array_namespace__ = _array_namespace  # type: ignore[attr-defined]
Tensor.to_device = _to_device  # type: ignore[assignment, method-assign]
