"""`MultiheadAttention`: attention of several heads between two projections."""

from __future__ import annotations

from typing import Any

from ...ops.creation import empty
from ...ops.multihead import attend
from ...tensors.tensor import Tensor
from .. import init
from ..parameter import MaybeParameter, Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module


class MultiheadAttention(Module):
    """Attention of `num_heads` heads. Source: arXiv 1706.03762.

    *Shapes*: query ``(l, n, e)``, key and value ``(s, n, e)``; ``(n, l, e)`` with `batch_first`; or without n. Gives
    the output and the weights, ``(n, l, s)``.

    >>> import core
    >>> layer = core.nn.MultiheadAttention(4, 2)
    >>> x = core.ones(3, 1, 4)
    >>> y, weights = layer(x, x, x)
    >>> y.shape, weights.shape
    (core.Size([3, 1, 4]), core.Size([1, 3, 3]))
    """

    in_proj_weight: MaybeParameter
    in_proj_bias: MaybeParameter
    q_proj_weight: MaybeParameter
    k_proj_weight: MaybeParameter
    v_proj_weight: MaybeParameter
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError("embed_dim and num_heads must be greater than 0, got "
                             f"embed_dim={embed_dim} and num_heads={num_heads} instead")  # fmt: skip
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        packed = {"in_proj_weight": (3 * embed_dim, embed_dim)}
        apart = {"q_proj_weight": (embed_dim, embed_dim), "k_proj_weight": (embed_dim, self.kdim),
                 "v_proj_weight": (embed_dim, self.vdim)}  # fmt: skip
        wanted, absent = (packed, apart) if self._qkv_same_embed_dim else (apart, packed)
        for name, shape in wanted.items():
            self.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)))
        for name in absent:
            self.register_parameter(name, None)
        made = Parameter(empty(3 * embed_dim, device=device, dtype=dtype)) if bias else None
        self.register_parameter("in_proj_bias", made)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        for name in ("bias_k", "bias_v"):
            made = Parameter(empty(1, 1, embed_dim, device=device, dtype=dtype)) if add_bias_kv else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew; biases start at 0."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None and self.out_proj.bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
                need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        apart = None if self._qkv_same_embed_dim else (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        return attend(query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias,
                      self.bias_k, self.bias_v, self.add_zero_attn, self.dropout if self.training else 0.0,
                      self.out_proj.weight, self.out_proj.bias, key_padding_mask, need_weights, attn_mask, apart, None,
                      None, average_attn_weights, is_causal, self.batch_first)  # fmt: skip

    def merge_masks(self, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
                    query: Tensor) -> tuple[Tensor | None, int | None]:  # fmt: skip
        """Return the masks as one, and its kind: of shape ``(n, num_heads, l, l)`` and 2 where there is an
        `attn_mask`, else the padding as it is and 1; None where there is neither."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        n, length = query._a.shape[:2]
        attn_mask = attn_mask.reshape(n, -1, length, length) if attn_mask.ndim == 3 else attn_mask
        wide = attn_mask.expand(n, self.num_heads, -1, -1)
        if key_padding_mask is None:
            return wide, 2
        return wide + key_padding_mask.reshape(n, 1, 1, length).expand(-1, self.num_heads, -1, -1), 2
