"""`AdaptiveLogSoftmaxWithLoss`: a softmax over very many classes, the rare ones in clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...ops.joining import cat
from ...tensors.tensor import Tensor, from_array
from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """The log-probability of each target and their mean loss, at a cost that falls with the rarity of the class.

    Classes are sorted by how often they come: the first ``cutoffs[0]`` stand in the head beside one unit for each
    cluster, cluster i holds those from ``cutoffs[i]`` to ``cutoffs[i + 1]`` behind a bottleneck of ``in_features //
    div_value ** (i + 1)``. Source: Grave et al., arXiv:1609.04309.

    *Shapes*: input ``(n, in_features)`` or ``(in_features,)``, target ``(n,)`` or ``()``; gives ``(output, loss)``.
    *Raises*: ValueError for cutoffs out of order, RuntimeError for targets that are no classes.

    >>> import core
    >>> layer = core.nn.AdaptiveLogSoftmaxWithLoss(16, 100, cutoffs=[10, 50])
    >>> output, loss = layer(core.ones(3, 16), core.tensor([1, 20, 99]))
    >>> output.shape, core.allclose(layer.log_prob(core.ones(3, 16)).exp().sum(1), core.ones(3))
    (core.Size([3]), True)
    """

    def __init__(self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
                 head_bias: bool = False, device: Any = None, dtype: Any = None) -> None:  # fmt: skip
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        whole = all(int(c) == c for c in cutoffs)
        if not whole or cutoffs != sorted(set(cutoffs)) or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1:
            raise ValueError("cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                             f"where each value is between 1 and n_classes-1\n  came: {cutoffs}")  # fmt: skip
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*cutoffs, n_classes]
        self.shortlist_size, self.n_clusters = self.cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            narrow = int(in_features // div_value ** (i + 1))
            width = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(Linear(in_features, narrow, False, device, dtype),
                                        Linear(narrow, width, False, device, dtype)))  # fmt: skip

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for projection, output in self.tail:  # type: ignore[attr-defined]
            projection.reset_parameters()
            output.reset_parameters()

    def _check(self, input: Tensor, target: Tensor) -> None:
        if target.ndim == 1:
            if input.ndim != 2 or input.shape[0] != target.shape[0]:
                raise RuntimeError("Input and target should have the same size in the batch dimension.\n  came: "
                                   f"{tuple(input.shape)} and {tuple(target.shape)}")  # fmt: skip
        elif target.ndim == 0:
            if input.ndim != 1:
                raise RuntimeError(
                    f"0D target tensor expects 1D input tensors, but found inputs with size {input.shape}"
                )
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if target.numel() and (int(target.min()) < 0 or int(target.max()) >= self.n_classes):  # type: ignore[attr-defined]
            raise RuntimeError(f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                               f"[{int(target.min())}, {int(target.max())}] were found. ")  # type: ignore[attr-defined] # fmt: skip

    def forward(self, input: Tensor, target: Tensor) -> _ASMoutput:
        self._check(input, target)
        single = target.ndim == 0
        x, t = (input.unsqueeze(0), target.unsqueeze(0)) if single else (input, target)  # type: ignore[attr-defined]
        classes = t.cpu()._a
        places, parts, in_head = [], [], classes.copy()
        for i, (low, high) in enumerate(zip([0, *self.cutoffs[:-1]], self.cutoffs, strict=True)):
            rows = ((classes >= low) & (classes < high)).nonzero()[0]
            if not len(rows):
                continue
            at = from_array(rows).to(x.device)  # type: ignore[attr-defined]
            places.append(at)
            if i == 0:
                parts.append(x.new_zeros(len(rows)))  # type: ignore[attr-defined]
                continue
            in_head[rows] = self.shortlist_size + i - 1
            inside = F.log_softmax(self.tail[i - 1](x.index_select(0, at)), 1)  # type: ignore[attr-defined]
            parts.append(inside.gather(1, (t.index_select(0, at) - low).unsqueeze(1)).squeeze(1))  # type: ignore[attr-defined]
        of_head = F.log_softmax(self.head(x), 1).gather(1, from_array(in_head).to(x.device).unsqueeze(1)).squeeze(1)  # type: ignore[attr-defined]
        output = of_head + cat(parts).index_select(0, cat(places).argsort()) if parts else of_head  # type: ignore[attr-defined]
        loss = (-output).mean()
        return _ASMoutput(output.squeeze(0) if single else output, loss)

    def _whole(self, input: Tensor, head: Tensor) -> Tensor:
        """Return the log-probabilities of all classes, from the head's outputs."""
        known = F.log_softmax(head, 1)
        parts = [known[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            cluster = self.shortlist_size + i
            parts.append(F.log_softmax(tail(input), 1) + known[:, cluster : cluster + 1])
        return cat(parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes: ``(n, in_features) -> (n, n_classes)``."""
        return self._whole(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """Return the likeliest class of each: ``log_prob(input).argmax(1)``, at less cost where the head decides."""
        head = self.head(input)
        found = head.argmax(1)
        rare = (found >= self.shortlist_size).nonzero().squeeze(1)
        if not rare.numel():
            return found  # type: ignore[no-any-return]
        best = self._whole(input.index_select(0, rare), head.index_select(0, rare)).argmax(1)  # type: ignore[attr-defined]
        return found.index_copy(0, rare, best)  # type: ignore[no-any-return]
