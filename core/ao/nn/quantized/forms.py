"""Forms in which a weight is kept: whole numbers of 2 to 8 bits with scales, or a smaller floating type.

A form packs a tensor into a few others by the names "values", "scale" and "zero", and widens these again. It knows
nothing of layers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ....base import dtypes
from ....base.errors import text
from ....ops.creation import ones, zeros_like
from ....ops.joining import stack
from ....ops.where import where
from ....tensors.tensor import Tensor

Packed = dict[str, Tensor]


def halves(packed: Tensor) -> Any:
    """Return the numbers 0 to 15 of each byte, that of the low half first.

    >>> import core
    >>> from core.ao.nn.quantized.forms import halves
    >>> halves(core.tensor([[0x21]], dtype=core.uint8))
    tensor([[1, 2]], dtype=core.uint8)
    """
    t: Any = packed
    return stack([t & 15, t >> 4], -1).reshape(t.shape[0], -1)


def paired(q: Any) -> Tensor:
    """Return numbers 0 to 15 as bytes of two, what `halves` takes apart."""
    q = q.to(dtypes.uint8)
    return q[:, ::2] | (q[:, 1::2] << 4)


def _nonzero(scale: Any) -> Any:
    return where(scale == 0, 1.0, scale)


@dataclass(frozen=True)
class Ints:
    """Whole numbers: ``(values - zero) * scale``, a scale (and a zero) for each group of a row, or for the whole row.

    bits : 2 to 8; up to 4 lie in halves of bytes, the others in bytes. group : numbers that share a scale, None for
    a row. symmetric : as far below 0 as above it, else from the least to the greatest of the group.

    >>> import core
    >>> from core.ao.nn.quantized.forms import Ints
    >>> packed = Ints(8).pack(core.tensor([[127.0, -3.0], [1.0, 0.5]]))
    >>> packed["values"], packed["scale"]
    (tensor([[127,  -3],
            [127,  64]], dtype=core.int8), tensor([1.0000, 0.0079]))
    """

    bits: int
    group: int | None = None
    symmetric: bool = True

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 8:
            raise ValueError(text("weights have 2 to 8 bits", op="quantize_", came=f"{self.bits}",
                                  remedy="core.int2 to core.int8"))  # fmt: skip
        if self.bits > 4 and (self.group is not None or not self.symmetric):
            raise NotImplementedError(
                text("groups and zeros are for weights of up to 4 bits", op="quantize_", came=f"{self.bits} bits",
                     needed="one scale for each row", remedy="leave group_size out, or take 4 bits"))  # fmt: skip

    @property
    def halved(self) -> bool:
        """Whether two numbers share a byte."""
        return self.bits <= 4

    def fits(self, weight: Tensor) -> str:
        """Return why a weight cannot be kept so, or ""."""
        row = self._row(weight)
        if self.halved and row % 2:
            return f"rows of {row} numbers are no whole bytes of two"
        if self.group is not None and row % self.group:
            return f"rows of {row} numbers are no whole groups of {self.group}"
        return ""

    @staticmethod
    def _row(weight: Tensor) -> int:
        return math.prod(weight.shape[1:])

    def scales(self, weight: Tensor) -> tuple[Any, Any]:
        """Return the scale and the zero of each group, (rows, groups), as the numbers lie in memory."""
        parts: Any = weight.detach().to(dtypes.float32).reshape(weight.shape[0], -1, self.group or self._row(weight))
        if not self.symmetric:
            low, high = parts.amin(-1), parts.amax(-1)
            scale = _nonzero((high - low) / (2**self.bits - 1))
            return scale, -low / scale
        most = parts.abs().amax(-1)
        if self.bits == 8:
            scale = most / 127
            return scale, zeros_like(scale)
        scale = _nonzero(most / ((2**self.bits - 1) / 2))
        return scale, zeros_like(scale) + (8 if self.halved else 0)

    @property
    def range(self) -> tuple[int, int]:
        """The least and the greatest whole number, as they lie in memory."""
        if not self.symmetric:
            return 0, 2**self.bits - 1
        half, shift = 2 ** (self.bits - 1), 8 if self.halved else 0
        return shift - half, shift + half - 1

    def rounded(self, numbers: Any, scale: Any, zero: Any) -> Any:
        """Return real numbers as whole ones; scale and zero spread over them."""
        return (numbers / _nonzero(scale) + zero).round().clamp(*self.range)

    def pack(self, weight: Tensor) -> Packed:
        """Return a weight as whole numbers and scales."""
        scale, zero = self.scales(weight)
        parts: Any = weight.detach().to(dtypes.float32).reshape(*scale.shape, -1)
        return self.packed(weight, self.rounded(parts, scale.unsqueeze(-1), zero.unsqueeze(-1)), scale, zero)

    def packed(self, weight: Tensor, q: Any, scale: Any, zero: Any) -> Packed:
        """Return whole numbers of any shape, and their scales, as they are kept for `weight`."""
        dtype: Any = weight.dtype
        if self.halved:
            return {"values": paired(q.reshape(weight.shape[0], -1)), "scale": scale.to(dtype), "zero": zero.to(dtype)}
        return {"values": q.to(dtypes.int8).reshape(weight.shape), "scale": scale[:, 0].to(dtype)}

    def widen(self, kept: Packed, shape: tuple[int, ...]) -> Tensor:
        """Return the weight that `pack` made into `kept`, as near as it is."""
        values, scale = kept["values"], kept["scale"]
        if not self.halved:
            spread = scale.reshape(-1, *[1] * (len(shape) - 1))
            return values.to(scale.dtype) * spread
        q = halves(values).to(scale.dtype).reshape(*scale.shape, -1)
        return ((q - kept["zero"].unsqueeze(-1)) * scale.unsqueeze(-1)).reshape(shape)

    def __str__(self) -> str:
        said = f"{self.bits} bits"
        return said if self.group is None else f"{said} in groups of {self.group}"


@dataclass(frozen=True)
class Floats:
    """Numbers of a smaller floating type; those of 8 bits with a scale for each row, so that its greatest fits.

    >>> import core
    >>> from core.ao.nn.quantized.forms import Floats
    >>> form = Floats(core.bfloat16)
    >>> form.widen(form.pack(core.tensor([[1.0, 3.14159]])), (1, 2))
    tensor([[1.0000, 3.1406]])
    """

    dtype: Any

    def fits(self, weight: Tensor) -> str:
        """Return why a weight cannot be kept so, or ""."""
        return ""

    def pack(self, weight: Tensor) -> Packed:
        """Return a weight in the smaller type, and what its rows are to be multiplied with."""
        w: Any = weight.detach()
        if self.dtype.itemsize > 1:
            return {"values": w.to(self.dtype), "scale": ones((), dtype=w.dtype, device=w.device)}
        greatest = 448.0 if self.dtype is dtypes.float8_e4m3fn else 57344.0
        scale = _nonzero(w.reshape(len(w), -1).abs().amax(-1) / greatest)
        return {"values": (w / scale.reshape(-1, *[1] * (w.ndim - 1))).to(self.dtype), "scale": scale}

    def widen(self, kept: Packed, shape: tuple[int, ...]) -> Tensor:
        """Return the weight that `pack` made into `kept`, as near as it is."""
        scale: Any = kept["scale"]
        wide: Any = kept["values"].to(scale.dtype)
        return wide if scale.ndim == 0 else wide * scale.reshape(-1, *[1] * (len(shape) - 1))

    def __str__(self) -> str:
        return str(self.dtype.name)


Form = Ints | Floats
