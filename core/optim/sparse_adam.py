"""SparseAdam: Adam for tables of which a batch reads a few rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.sparse_array import SparseArray
from ..tensors.tensor import Tensor
from . import kernels, updates
from .optimizer import Params, check_betas, check_lr, number
from .stepping import Gradual, Group, State, zeros


class SparseAdam(Gradual):
    """Adam that changes, and remembers, only the rows that have a gradient: for embeddings.

    The gradient is sparse, as ``nn.Embedding(sparse=True)`` makes it. PyTorch's class insists on that; here a dense one
    will do: the rows of its first dimension that are not zero all over are those that the step touches. *Raises*:
    ValueError for settings out of range and for sparse parameters.

    >>> import core
    >>> table = core.nn.Embedding(10, 3, sparse=True)
    >>> opt = core.optim.SparseAdam(table.parameters(), lr=0.1)
    >>> before = table.weight.detach().clone()
    >>> table(core.tensor([2, 5])).sum().backward()
    >>> opt.step()
    >>> (table.weight.detach() != before).any(1).nonzero().flatten()
    tensor([2, 5])
    """

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8,
                 maximize: bool = False) -> None:  # fmt: skip
        check_lr(lr)
        if not number(lr) > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        if any(p.is_sparse for group in self.param_groups for p in group["params"]):
            raise ValueError("SparseAdam requires dense parameter tensors")
        if any(p.is_complex() for group in self.param_groups for p in group["params"]):
            raise ValueError("SparseAdam does not support complex parameters")

    _takes_rows = True

    def _begin(self, state: State, p: Tensor, group: Group) -> None:
        state |= {"step": 0, "exp_avg": zeros(p), "exp_avg_sq": zeros(p)}

    def _one(self, p: Any, g: Any, state: State, step: float, group: Group) -> None:
        many = p.reshape(1, 1) if p.ndim == 0 else p
        held = [p, g, state["exp_avg"]._a, state["exp_avg_sq"]._a]
        if isinstance(g, SparseArray):
            g = g.in_order()
            rows: Any = tuple(g.index[0])
            taken = [(g.values if a is held[1] else a[rows]).astype(p.dtype) for a in held]
        else:
            rows = np.nonzero((g.reshape(many.shape) != 0).reshape(len(many), -1).any(axis=1))[0]
            taken = [a.reshape(many.shape)[rows].astype(p.dtype) for a in held]
        v = updates.adam.variants[frozenset()]
        beta1, beta2 = group["betas"]
        numbers = v.scalars(
            step=step,
            lr=number(group["lr"]),
            beta1=beta1,
            beta2=beta2,
            weight_decay=0.0,
            maximize=group["maximize"],
            decoupled=False,
            eps=group["eps"] / (1 - beta2**step) ** 0.5,
        )  # fmt: skip - added before the correction
        where = "cpu" if isinstance(p, np.ndarray) else "cuda"
        kernels.run(v, where, numbers, [[a] for a in taken])
        for k in (0, 2, 3):
            held[k].reshape(many.shape)[rows] = taken[k]
