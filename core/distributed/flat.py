"""Many tensors as few: how they are divided into flat buffers, and sent in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.modes import no_grad
from ..ops.creation import empty
from ..tensors.tensor import Tensor
from .collectives import broadcast
from .groups import get_rank

__all__ = ["CHUNK_BYTES", "broadcast_coalesced", "divided", "flat_buffer", "own_part"]

CHUNK_BYTES = 25 << 20  # of what is sent at once where nothing is computed meanwhile


def divided(tensors: Sequence[Tensor], first_bytes: int, cap_bytes: int) -> list[list[int]]:
    """Return the numbers of tensors in groups of one dtype and device, each closed once it has so many bytes.

    The groups are ordered by their last members: when tensors come in the order given, that is the order in which the
    groups are whole.

    >>> import core
    >>> from core.distributed.flat import divided
    >>> divided([core.ones(4), core.ones(2, dtype=core.float64), core.ones(4), core.ones(4)], 16, 32)
    [[0], [1], [2, 3]]
    """
    growing: dict[Any, tuple[list[int], int]] = {}
    closed: list[list[int]] = []
    for k, t in enumerate(tensors):
        key = t.dtype, t.device
        group, size = growing.pop(key, ([], 0))
        group.append(k)
        size += t._a.size * t.element_size()
        if size >= (cap_bytes if closed else first_bytes):
            closed.append(group)
        else:
            growing[key] = group, size
    return sorted([*closed, *(group for group, _ in growing.values())], key=lambda group: group[-1])


def flat_buffer(tensors: Sequence[Tensor], copied: bool = False) -> tuple[Tensor, list[Tensor]]:
    """Return a buffer that holds tensors of one dtype one behind the other, and its parts in their shapes.

    Of tensors that are divided among processes it holds this process's parts.

    copied : whether the values are copied into it.
    """
    with no_grad():
        own = [own_part(t) for t in tensors]
    whole = empty(sum(t.numel() for t in own), dtype=own[0].dtype, device=own[0].device)
    parts, at = [], 0
    for t in own:
        parts.append(whole[at : at + t.numel()].view(t.shape))  # type: ignore[attr-defined]
        at += t.numel()
    if copied:
        with no_grad():
            for part, t in zip(parts, own, strict=True):
                part.copy_(t.detach())
    return whole, parts


def own_part(t: Any) -> Any:
    """Return what this process holds of a tensor: a `DTensor`'s part, another one itself."""
    return t._local_tensor if hasattr(t, "full_tensor") else t


def broadcast_coalesced(tensors: Sequence[Tensor], src: int, group: Any = None, cap_bytes: int = CHUNK_BYTES) -> None:
    """Give all processes of a group the values that tensors have on the one numbered `src` among them.

    They are sent in buffers of about `cap_bytes`.
    """
    mine = get_rank(group) == src
    many = [t for t in tensors if t._a.size]
    for numbers in divided(many, cap_bytes, cap_bytes):
        chunk = [many[k] for k in numbers]
        whole, parts = flat_buffer(chunk, copied=mine)
        broadcast(whole, group=group, group_src=src)
        if not mine:
            with no_grad():
                for t, part in zip(chunk, parts, strict=True):
                    own_part(t).copy_(part)
