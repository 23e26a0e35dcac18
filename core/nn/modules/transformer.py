"""The Transformer: encoder and decoder layers, their stacks, and both together. Source: arXiv 1706.03762."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ...base.dtypes import dtype as Dtype
from ...base.modes import state as mode
from ...events import observe
from ...ops.creation import full
from ...tensors.tensor import Tensor
from .. import functional as F
from .. import init
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .multihead import MultiheadAttention
from .normalization import LayerNorm

Activation = str | Callable[[Tensor], Tensor]


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Dtype | None = None) -> Tensor:
    return full((sz, sz), -float("inf"), dtype=dtype, device=device).triu(1)  # type: ignore[attr-defined, no-any-return]


def _detect_is_causal_mask(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Return whether the mask is the one of `generate_square_subsequent_mask`, unless the caller has said so
    already."""
    if is_causal is not None or mask is None:
        return is_causal is True
    sz = mask._a.shape[-2] if size is None else size
    if mask._a.shape[-2:] != (sz, sz) or not mask.dtype.is_floating_point:
        return False
    with observe.muted():  # it chooses between equal ways, and decides nothing
        return bool((mask == _generate_square_subsequent_mask(sz, mask.device, mask.dtype)).all())


def _length(src: Tensor, batch_first: bool) -> int:
    return int(src._a.shape[0 if src.ndim == 2 or not batch_first else 1])


def _activation(given: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(given, str):
        return given
    if given not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {given}\n  remedy: a function, such as F.{given}")
    found: Callable[[Tensor], Tensor] = getattr(F, given)
    return found


def _copies(module: Module, n: int) -> ModuleList:
    return ModuleList(copy.deepcopy(module) for _ in range(n))


class _Layer(Module):
    """What both kinds of layer have: attention to itself, two linear maps with an activation between, and norms."""

    norms = 2

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int, dropout: float, activation: Activation,
                 layer_norm_eps: float, batch_first: bool, norm_first: bool, bias: bool, device: Any,
                 dtype: Any) -> None:  # fmt: skip
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        attentions = ("self_attn", "multihead_attn")[: self.norms - 1]
        for name in attentions:
            self.add_module(name, MultiheadAttention(d_model, nhead, dropout=dropout, bias=bias,
                                                     batch_first=batch_first, **kind))  # fmt: skip
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **kind)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **kind)
        self.norm_first = norm_first
        for i in range(1, self.norms + 1):
            self.add_module(f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kind))
        for i in range(1, self.norms + 1):
            self.add_module(f"dropout{i}", Dropout(dropout))
        self.activation: Any = _activation(activation)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("activation", F.relu)

    def _ff_block(self, x: Tensor, last: Module) -> Tensor:
        return last(self.linear2(self.dropout(self.activation(self.linear1(x)))))  # type: ignore[no-any-return]

    def _add(self, x: Tensor, norm: Module, block: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the block beside a shortcut, with the norm before the block or behind the sum."""
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))


class TransformerEncoderLayer(_Layer):
    """Attention of a sequence to itself, then a feed-forward net, each beside a shortcut and with a layer norm.

    Parameters
    ----------
    d_model, nhead, dim_feedforward, dropout : the width, the heads that share it, the net's width, the drop rate.
    activation : ``"relu"``, ``"gelu"`` or a function.
    batch_first : inputs are ``(n, l, d_model)`` and not ``(l, n, d_model)``.
    norm_first : normalise before each block and not after each sum. Source: arXiv 2002.04745.

    In `forward`, a mask that is bool says what may *not* be looked at, another is added to the scores; `is_causal` says
    that `src_mask` is causal, so that the scores of what comes later need not be read from it.

    >>> import core
    >>> core.nn.TransformerEncoderLayer(d_model=8, nhead=2, batch_first=True)(core.ones(3, 5, 8)).shape
    core.Size([3, 5, 8])
    """

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
                 norm_first: bool = False, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:  # fmt: skip
        super().__init__(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
                         bias, device, dtype)  # fmt: skip

    def forward(self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                is_causal: bool = False) -> Tensor:  # fmt: skip
        def attend(x: Tensor) -> Tensor:
            y = self.self_attn(x, x, x, attn_mask=src_mask, key_padding_mask=src_key_padding_mask, need_weights=False,
                               is_causal=is_causal)[0]  # fmt: skip
            return self.dropout1(y)  # type: ignore[no-any-return]

        x = self._add(src, self.norm1, attend)
        return self._add(x, self.norm2, lambda x: self._ff_block(x, self.dropout2))


class TransformerDecoderLayer(_Layer):
    """As `TransformerEncoderLayer`, with attention to an encoder's output, `memory`, between its two blocks.

    >>> import core
    >>> layer = core.nn.TransformerDecoderLayer(d_model=8, nhead=2)
    >>> layer(core.ones(4, 3, 8), memory=core.ones(6, 3, 8)).shape
    core.Size([4, 3, 8])
    """

    norms = 3

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
                 norm_first: bool = False, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:  # fmt: skip
        super().__init__(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
                         bias, device, dtype)  # fmt: skip

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
                tgt_is_causal: bool = False, memory_is_causal: bool = False) -> Tensor:  # fmt: skip
        def to_itself(x: Tensor) -> Tensor:
            y = self.self_attn(x, x, x, attn_mask=tgt_mask, key_padding_mask=tgt_key_padding_mask, need_weights=False,
                               is_causal=tgt_is_causal)[0]  # fmt: skip
            return self.dropout1(y)  # type: ignore[no-any-return]

        def to_memory(x: Tensor) -> Tensor:
            y = self.multihead_attn(x, memory, memory, attn_mask=memory_mask, key_padding_mask=memory_key_padding_mask,
                                    need_weights=False, is_causal=memory_is_causal)[0]  # fmt: skip
            return self.dropout2(y)  # type: ignore[no-any-return]

        x = self._add(tgt, self.norm1, to_itself)
        x = self._add(x, self.norm2, to_memory)
        return self._add(x, self.norm3, lambda x: self._ff_block(x, self.dropout3))


class TransformerEncoder(Module):
    """`num_layers` copies of an encoder layer in a row, and a norm at the end if one is given.

    Without gradients, in evaluation, with `batch_first` and padding at the end of the sequences, `enable_nested_tensor`
    makes the outputs of padded positions 0, as PyTorch's does; nothing else depends on it.

    >>> import core
    >>> layer = core.nn.TransformerEncoderLayer(d_model=8, nhead=2)
    >>> core.nn.TransformerEncoder(layer, num_layers=2)(core.ones(5, 3, 8)).shape
    core.Size([5, 3, 8])
    """

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
                 enable_nested_tensor: bool = True, mask_check: bool = True) -> None:  # fmt: skip
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    @property
    def use_nested_tensor(self) -> bool:
        """Whether padded positions may come out as 0."""
        one = self.layers[0] if len(self.layers) else None
        return (
            self.enable_nested_tensor
            and isinstance(one, TransformerEncoderLayer)
            and one.self_attn.batch_first
            and not one.norm_first
            and one.self_attn._qkv_same_embed_dim
            and one.self_attn.in_proj_bias is not None
            and (one.activation in (F.relu, F.gelu) or type(one.activation).__name__ in ("ReLU", "GELU"))
            and one.norm1.eps == one.norm2.eps
            and one.self_attn.num_heads % 2 == 0
        )

    def _emptied(self, src: Tensor, padding: Tensor | None, mask: Tensor | None) -> bool:
        if padding is None or mask is not None or self.training or src.ndim != 3 or not self.use_nested_tensor:
            return False
        if mode.enabled and (src.requires_grad or any(p.requires_grad for p in self.parameters())):
            return False
        a = padding._a if padding.dtype.name == "bool" else padding._a < 0
        at_the_end = not (a[:, :-1] & ~a[:, 1:]).any()
        return at_the_end or not self.mask_check

    def forward(self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                is_causal: bool | None = None) -> Tensor:  # fmt: skip
        first = getattr(getattr(self.layers[0], "self_attn", None), "batch_first", False) if len(self.layers) else False
        is_causal = _detect_is_causal_mask(mask, is_causal, _length(src, first))
        y: Tensor = src
        for layer in self.layers:
            y = layer(y, src_mask=mask, is_causal=is_causal, src_key_padding_mask=src_key_padding_mask)
        if self._emptied(src, src_key_padding_mask, mask) and src_key_padding_mask is not None:
            padded = src_key_padding_mask if src_key_padding_mask.dtype.name == "bool" else src_key_padding_mask < 0
            y = y.masked_fill(padded.unsqueeze(-1), 0.0)
        return y if self.norm is None else self.norm(y)


class TransformerDecoder(Module):
    """`num_layers` copies of a decoder layer in a row, and a norm at the end if one is given.

    >>> import core
    >>> layer = core.nn.TransformerDecoderLayer(d_model=8, nhead=2)
    >>> core.nn.TransformerDecoder(layer, num_layers=2)(core.ones(4, 3, 8), core.ones(6, 3, 8)).shape
    core.Size([4, 3, 8])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
                tgt_is_causal: bool | None = None, memory_is_causal: bool = False) -> Tensor:  # fmt: skip
        first = getattr(getattr(self.layers[0], "self_attn", None), "batch_first", False) if len(self.layers) else False
        tgt_is_causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, _length(tgt, first))
        y: Tensor = tgt
        for layer in self.layers:
            y = layer(y, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                      memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
                      memory_is_causal=memory_is_causal)  # fmt: skip
        return y if self.norm is None else self.norm(y)


class Transformer(Module):
    """An encoder and a decoder, which looks at what the encoder gives. Source: arXiv 1706.03762.

    *Shapes*: src ``(s, n, d_model)``, tgt ``(t, n, d_model)`` -> ``(t, n, d_model)``; n comes first with `batch_first`,
    or is left out. Weights start as Xavier's uniform ones.

    *Raises*: RuntimeError where the batches of src and tgt differ, or a width is not `d_model`.

    >>> import core
    >>> model = core.nn.Transformer(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16)
    >>> mask = model.generate_square_subsequent_mask(4)
    >>> model(core.ones(6, 3, 8), core.ones(4, 3, 8), tgt_mask=mask).shape
    core.Size([4, 3, 8])
    """

    def __init__(self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
                 dim_feedforward: int = 2048, dropout: float = 0.1, activation: Activation = F.relu,
                 custom_encoder: Any = None, custom_decoder: Any = None, layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:  # fmt: skip
        super().__init__()
        settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias,
                    device, dtype)  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder if custom_encoder is not None else TransformerEncoder(
            TransformerEncoderLayer(*settings), num_encoder_layers, norm())  # fmt: skip
        self.decoder = custom_decoder if custom_decoder is not None else TransformerDecoder(
            TransformerDecoderLayer(*settings), num_decoder_layers, norm())  # fmt: skip
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None,
                memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
                src_is_causal: bool | None = None, tgt_is_causal: bool | None = None,
                memory_is_causal: bool = False) -> Tensor:  # fmt: skip
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and (tgt.ndim < 2 or src._a.shape[batch] != tgt._a.shape[batch]):
            raise RuntimeError(f"the batch number of src and tgt must be equal\n  came: {tuple(src.shape)} and "
                               f"{tuple(tgt.shape)}, the batch in dimension {batch}")  # fmt: skip
        if src._a.shape[-1] != self.d_model or tgt._a.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model\n  came: "
                               f"{tuple(src.shape)} and {tuple(tgt.shape)}; needed: {self.d_model} in the last "
                               "dimension")  # fmt: skip
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(  # type: ignore[no-any-return]
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal)  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Dtype | None = None) -> Tensor:
        """Return the mask that hides from every position what comes later: -inf above the diagonal, else 0.

        >>> import core
        >>> core.nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        return _generate_square_subsequent_mask(sz, device, dtype)

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)
