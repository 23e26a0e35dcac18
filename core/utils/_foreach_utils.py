"""Lists of tensors put together by device and dtype, as optimizers written for PyTorch do before ``_foreach_`` ops."""

from __future__ import annotations

from typing import Any

from ..tensors.tensor import Tensor

Groups = dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]


def _group_tensors_by_device_and_dtype(tensorlistlist: Any, with_indices: bool = False) -> Groups:
    """Return, for each device and dtype of the first list's tensors, the parts of all lists, and their places.

    >>> import core
    >>> groups = _group_tensors_by_device_and_dtype([[core.ones(1), core.ones(2).double()], [None, None]], True)
    >>> [(str(dtype), places) for (_, dtype), (_, places) in groups.items()]
    [('core.float32', [0]), ('core.float64', [1])]
    """
    first: Any = next((lst for lst in tensorlistlist if lst), [])
    groups: Groups = {}
    for place, t in enumerate(first):
        lists, places = groups.setdefault((t.device, t.dtype), ([[] for _ in tensorlistlist], []))
        for part, whole in zip(lists, tensorlistlist, strict=True):
            if whole:
                part.append(whole[place])
        if with_indices:
            places.append(place)
    return groups


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Return the types of accelerator on which lists run as one."""
    return ["cuda"]


_get_fused_kernels_supported_devices = _get_foreach_kernels_supported_devices


def _device_has_foreach_support(device: Any) -> bool:
    """Return whether ``_foreach_`` ops run there."""
    return device.type in ("cpu", *_get_foreach_kernels_supported_devices())


def _has_foreach_support(tensors: list[Tensor], device: Any) -> bool:
    """Return whether ``_foreach_`` ops run on these tensors."""
    return _device_has_foreach_support(device) and all(t is None or isinstance(t, Tensor) for t in tensors)
