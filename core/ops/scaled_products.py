"""Products of matrices in groups, and of matrices that are stored with a scale: float8 times what it was divided by."""

from __future__ import annotations

import enum
from typing import Any

from ..base import dtypes
from ..base.errors import text
from ..declare import op as declarations
from ..dispatch.operands import need_tensors
from ..tensors.tensor import Tensor

__all__ = ["ScalingType", "SwizzleType", "grouped_mm", "scaled_grouped_mm", "scaled_mm"]


class ScalingType(enum.Enum):
    """How many elements share a scale: a matrix's, a row's, or a block's."""

    TensorWise, RowWise, BlockWise1x16, BlockWise1x32, BlockWise1x128, BlockWise128x128 = range(6)


class SwizzleType(enum.Enum):
    """In which order a GPU wants scales of blocks."""

    NO_SWIZZLE, SWIZZLE_32_4_4 = range(2)


def _bounds(offs: Any, op: str) -> list[tuple[int, int]]:
    if offs is None:
        raise RuntimeError(text("a matrix is divided into groups by offs", op=op, came="offs=None",
                                needed="where each group ends"))  # fmt: skip
    ends = [int(k) for k in offs.tolist()]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Tensor:
    """Return the products of groups of matrices; of a matrix among the operands, `offs` says where each group ends.

    *Shapes*: ``(t, k) @ (groups, k, n) -> (t, n)``; ``(groups, m, k) @ (k, n) -> (m, n)``;
    ``(m, k) @ (k, n) -> (groups, m, n)``; ``(groups, m, k) @ (groups, k, n) -> (groups, m, n)``. Rows or columns beyond
    the last group are 0.

    *Raises*: RuntimeError for other shapes, or where `offs` is missing.

    >>> import core
    >>> x, w = core.ones(3, 2), core.stack([core.eye(2), 2 * core.eye(2)])
    >>> core.nn.functional.grouped_mm(x, w, offs=core.tensor([1, 3])).tolist()
    [[1.0, 1.0], [2.0, 2.0], [2.0, 2.0]]
    """
    cat, stack = declarations.functions["cat"], declarations.functions["stack"]
    need_tensors("grouped_mm", ("mat_a", "mat_b"), (mat_a, mat_b))
    kind = (mat_a.ndim, mat_b.ndim)
    if kind == (3, 3):
        y = mat_a @ mat_b
    elif kind == (2, 3):
        parts = [mat_a[i:j] @ mat_b[k] for k, (i, j) in enumerate(_bounds(offs, "grouped_mm"))]
        rest = mat_a.shape[0] - sum(p.shape[0] for p in parts)
        y = cat([*parts, mat_a.new_zeros((rest, mat_b.shape[2]))])
    elif kind == (3, 2):
        parts = [mat_a[k] @ mat_b[:, i:j] for k, (i, j) in enumerate(_bounds(offs, "grouped_mm"))]
        rest = mat_b.shape[1] - sum(p.shape[1] for p in parts)
        y = cat([*parts, mat_a.new_zeros((mat_a.shape[1], rest))], 1)
    elif kind == (2, 2):
        y = stack([mat_a[:, i:j] @ mat_b[i:j] for i, j in _bounds(offs, "grouped_mm")])
    else:
        raise RuntimeError(text("mat_a and mat_b have to be 2D or 3D", op="grouped_mm", came=f"{kind} dimensions"))
    y = y if bias is None else y + bias
    return y if out_dtype is None else y.to(out_dtype)


def _real(op: str, x: Any, scale: Any, recipe: Any) -> Any:
    """Return a matrix in float32, times its scale."""
    recipes = recipe if isinstance(recipe, list | tuple) else (recipe,)
    scales = scale if isinstance(scale, list | tuple) else (scale,)
    for s, r in zip(scales, recipes, strict=True):
        if r not in (ScalingType.TensorWise, ScalingType.RowWise):
            raise NotImplementedError(text("scales of blocks are not read", op=op, came=f"{r}",
                                           needed="ScalingType.TensorWise or ScalingType.RowWise",
                                           remedy="x.float() * scale.repeat_interleave(block, dim)"))  # fmt: skip
        x = x.to(dtypes.float32) * s
    return x


def scaled_mm(mat_a: Any, mat_b: Any, scale_a: Any, scale_recipe_a: Any, scale_b: Any, scale_recipe_b: Any,
              swizzle_a: Any = None, swizzle_b: Any = None, bias: Any = None, output_dtype: Any = dtypes.bfloat16,
              contraction_dim: Any = (), use_fast_accum: bool = False) -> Tensor:  # fmt: skip
    """Return the product of two matrices, each times its scale, computed in float32.

    The scale of a matrix is one number, or ``(m, 1)`` of the rows of `mat_a` and ``(1, n)`` of the columns of `mat_b`.

    *Raises*: NotImplementedError for scales of blocks.

    >>> import core
    >>> a, one = core.eye(2).to(core.float8_e4m3fn), core.nn.functional.ScalingType.TensorWise
    >>> core.nn.functional.scaled_mm(a, a, core.tensor(2.0), one, core.tensor(3.0), one).tolist()
    [[6.0, 0.0], [0.0, 6.0]]
    """
    a = _real("scaled_mm", mat_a, scale_a, scale_recipe_a)
    y = a @ _real("scaled_mm", mat_b, scale_b, scale_recipe_b)
    return (y if bias is None else y + bias).to(output_dtype)  # type: ignore[no-any-return]


def scaled_grouped_mm(mat_a: Any, mat_b: Any, scale_a: Any, scale_recipe_a: Any, scale_b: Any, scale_recipe_b: Any,
                      swizzle_a: Any = None, swizzle_b: Any = None, bias: Any = None, offs: Any = None,
                      output_dtype: Any = dtypes.bfloat16, contraction_dim: Any = (),
                      use_fast_accum: bool = False) -> Tensor:  # fmt: skip
    """Return `grouped_mm` of two operands that are stored with one scale each. *Raises*: as `scaled_mm`."""
    for recipe in (scale_recipe_a, scale_recipe_b):
        if recipe is not ScalingType.TensorWise:
            raise NotImplementedError(text("scales of parts are not read", op="scaled_grouped_mm", came=f"{recipe}",
                                           needed="ScalingType.TensorWise",
                                           remedy="grouped_mm(x.float() * scale, ...)"))  # fmt: skip
    a = _real("scaled_grouped_mm", mat_a, scale_a, scale_recipe_a)
    b = _real("scaled_grouped_mm", mat_b, scale_b, scale_recipe_b)
    return grouped_mm(a, b, offs=offs, bias=bias, out_dtype=output_dtype)
