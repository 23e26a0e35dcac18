"""How PyTorch's quantised tensors find their scale: names to compare with and to store; no tensor here has one."""

from __future__ import annotations

__all__ = ["per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric", "per_tensor_affine",
           "per_tensor_symmetric", "qscheme"]  # fmt: skip


class qscheme:
    """One scale for a tensor, or one for each channel; with a zero point, or symmetric about 0.

    >>> import core
    >>> core.per_tensor_affine, isinstance(core.per_channel_symmetric, core.qscheme)
    (core.per_tensor_affine, True)
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"core.{self.name}"

    def __reduce__(self) -> str:
        return self.name


per_tensor_affine, per_channel_affine = qscheme("per_tensor_affine"), qscheme("per_channel_affine")
per_tensor_symmetric, per_channel_symmetric = qscheme("per_tensor_symmetric"), qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")
