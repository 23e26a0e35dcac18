"""Attention whose scores a function changes, under PyTorch's path ``nn.attention.flex_attention``.

The functions get all scores and indices at once, shaped to broadcast, where PyTorch's get one of each: what is written
for one number (arithmetic, comparisons, lookups in tensors by index) gives the same. Nothing is left out for a mask:
scores that a mask hides are computed, and hidden.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...base import dtypes
from ...ops.creation import arange, full
from ...ops.joining import stack
from ...ops.where import where
from ...tensors.tensor import Tensor

__all__ = ["AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention",
           "noop_mask", "or_masks"]  # fmt: skip

Score = Callable[..., Tensor]
_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """What `flex_attention` gives beside its result: the logarithm of the weights' sum, the largest score."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by `AuxRequest`."""

    lse: Any = None
    max_scores: Any = None


def _indices(b: int, h: int, q: int, k: int, device: Any) -> tuple[Tensor, ...]:
    """Return the indices of batch, head, query and key, each along its own axis of four."""
    sizes = (b, h, q, k)
    return tuple(arange(n, device=device).reshape(*(n if i == at else 1 for i in range(4)))
                 for at, n in enumerate(sizes))  # fmt: skip


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """Return a mask that hides nothing."""
    return full((1, 1, 1, 1), True)


def and_masks(*mask_mods: Score) -> Score:
    """Return a mask of what all of the masks show."""

    def both(b: Any, h: Any, q: Any, k: Any) -> Any:
        found = mask_mods[0](b, h, q, k)
        for more in mask_mods[1:]:
            found = found & more(b, h, q, k)
        return found

    return both


def or_masks(*mask_mods: Score) -> Score:
    """Return a mask of what any of the masks shows."""

    def either(b: Any, h: Any, q: Any, k: Any) -> Any:
        found = mask_mods[0](b, h, q, k)
        for more in mask_mods[1:]:
            found = found | more(b, h, q, k)
        return found

    return either


def create_mask(mod_fn: Score, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Tensor:
    """Return a mask as a tensor of truths (B, H, Q_LEN, KV_LEN): True where a key is seen.

    >>> from core.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, k: q >= k, 1, 1, 2, 2)[0, 0]
    tensor([[ True, False],
            [ True,  True]])
    """
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    return mod_fn(*_indices(*shape, device=device)).expand(*shape)  # type: ignore[attr-defined, no-any-return]


class BlockMask:
    """A mask for `flex_attention`, made by `create_block_mask`. Its blocks are counted and nothing is left out by them.

    mask_mod : the function. shape : (B, H, Q_LEN, KV_LEN).
    """

    def __init__(self, mask_mod: Score, shape: tuple[int, int, int, int], device: Any,
                 block_size: tuple[int, int]) -> None:  # fmt: skip
        self.mask_mod, self.shape, self.BLOCK_SIZE, self._device = mask_mod, shape, block_size, device
        self.seq_lengths = shape[2:]

    def to_dense(self) -> Tensor:
        """Return which blocks are seen at least in part: (B, H, blocks of queries, blocks of keys), 0 or 1."""
        b, h, q, k = self.shape
        mask = create_mask(self.mask_mod, b, h, q, k, self._device)
        rows = [mask[:, :, i : i + self.BLOCK_SIZE[0]] for i in range(0, q, self.BLOCK_SIZE[0])]
        return stack([stack([row[..., j : j + self.BLOCK_SIZE[1]].flatten(2).any(-1)
                             for j in range(0, k, self.BLOCK_SIZE[1])], -1) for row in rows], -2).int()  # fmt: skip

    def sparsity(self) -> float:
        """Return how many percent of the blocks are hidden as a whole."""
        return 100.0 * (1.0 - float(self.to_dense().float().mean()))

    def to(self, device: Any) -> BlockMask:
        """Return the mask for another device."""
        return BlockMask(self.mask_mod, self.shape, device, self.BLOCK_SIZE)

    def numel(self) -> int:
        """Return how many scores it decides upon."""
        return math.prod(self.shape)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def create_block_mask(mask_mod: Score, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
                      BLOCK_SIZE: int | tuple[int, int] = 128, **ignored: Any) -> BlockMask:  # fmt: skip
    """Return a mask for `flex_attention` of a function of (batch, head, query, key): True where a key is seen.

    B, H : None where the mask is the same for all of them.
    """
    block = BLOCK_SIZE if isinstance(BLOCK_SIZE, tuple) else (BLOCK_SIZE, BLOCK_SIZE)
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), device, block)


def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: Score | None = None,
                   block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False,
                   return_lse: bool = False, kernel_options: Any = None, *,
                   return_aux: AuxRequest | None = None) -> Any:  # fmt: skip
    """Return softmax(score_mod(scale * query @ key^T)) @ value, 0 for queries that see no key.

    query : (B, H, L, E). key : (B, H, S, E). value : (B, H, S, Ev); of fewer heads with `enable_gqa`.
    score_mod : from (score, batch, head, query, key) to a score. block_mask : which keys are seen.
    scale : 1/sqrt(E) where none is given. return_lse : the logarithm of the weights' sum too, (B, H, L).

    *Raises*: ValueError for heads that differ without `enable_gqa`.

    >>> import core
    >>> from core.nn.attention.flex_attention import flex_attention
    >>> q = core.ones(1, 1, 2, 4)
    >>> flex_attention(q, q, q, lambda score, b, h, i, j: score - (i - j).abs()).shape
    core.Size([1, 1, 2, 4])
    """
    q, k, v = query, key, value  # type: Any, Any, Any
    if q.shape[1] != k.shape[1]:
        if not enable_gqa or q.shape[1] % k.shape[1]:
            raise ValueError(f"Expect query and key/value to have the same number of heads but got Hq={q.shape[1]} and "
                             f"Hkv={k.shape[1]}. Try setting enable_gqa=True for GQA.")  # fmt: skip
        times = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
    scores = (q @ k.transpose(-1, -2)) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if scores.dtype in (dtypes.float16, dtypes.bfloat16):
        scores = scores.float()
    b, h, length, seen = scores.shape
    places = _indices(b, h, length, seen, q.device)
    if score_mod is not None:
        scores = score_mod(scores, *places)
    if block_mask is not None:
        scores = where(block_mask.mask_mod(*places), scores, -math.inf)
    most = scores.amax(-1, keepdim=True)
    safe = where(most == -math.inf, 0.0, most).detach()
    weights = (scores - safe).exp()
    total = weights.sum(-1, keepdim=True)
    out = ((weights / where(total == 0, 1.0, total)).to(v.dtype)) @ v
    if not return_lse and return_aux is None:
        return out
    lse = (total.log() + safe).squeeze(-1)
    if return_aux is not None:
        return out, AuxOutput(lse if return_aux.lse else None, most.squeeze(-1) if return_aux.max_scores else None)
    return out, lse
