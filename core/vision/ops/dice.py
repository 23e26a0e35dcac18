"""`dice_loss`: how little two masks overlap, however small their part of the picture."""

from __future__ import annotations

from ...base.errors import text
from ...nn.functional import one_hot, sigmoid, softmax
from ...ops.loss import chosen_reduction, reduced, torch_size
from ...ops.where import where
from ...tensors.tensor import Tensor


def dice_loss(inputs: Tensor, targets: Tensor, smooth: float = 1.0, ignore_index: int = -100,
              reduction: str = "mean") -> Tensor:  # fmt: skip
    """Return 1 - (2 Σ p t + smooth) / (Σ p + Σ t + smooth) of every channel, p the probabilities of the logits.

    targets : the numbers of the classes, then p is the softmax over the channels; or a mask for every channel, then p
    is the sigmoid of each. smooth : keeps a channel that neither has from dividing 0 by 0; it has loss 0.
    ignore_index : a class whose pixels count for no channel. reduction : "none", "mean" or "sum".

    *Shapes*: inputs (N, C, ...); targets (N, ...) of integers or (N, C, ...); the losses are (N, C).

    *Raises*: ValueError for shapes that do not go together; RuntimeError for a class that is none.

    *Source*: F. Milletari, N. Navab, S.-A. Ahmadi, "V-Net" (2016); C. Sudre et al., "Generalised Dice overlap as a deep
    learning loss function for highly unbalanced segmentations" (2017), equation 1.

    >>> import core
    >>> mask = core.tensor([[[0.0, 1.0, 1.0]]])
    >>> dice_loss(20 * (2 * mask - 1), mask), dice_loss(core.zeros(1, 1, 3), mask)
    (tensor(0.), tensor(0.3333))
    """
    reduction = chosen_reduction(reduction, None, None)
    if inputs.ndim < 2 or targets.shape not in (inputs.shape, (inputs.shape[0], *inputs.shape[2:])):
        raise ValueError(
            text(f"Target size ({torch_size(targets)}) does not go with input size ({torch_size(inputs)})",
                 op="dice_loss", needed="inputs (N, C, ...) and targets (N, ...) or (N, C, ...)",
                 remedy="unsqueeze(1) for pictures of one channel")
        )  # fmt: skip
    if targets.shape == inputs.shape:
        p, t = sigmoid(inputs), targets.to(inputs.dtype)
    else:
        counts = (targets != ignore_index).unsqueeze(1)
        classes = where(targets == ignore_index, 0, targets)
        t = one_hot(classes, inputs.shape[1]).movedim(-1, 1).to(inputs.dtype) * counts
        p = softmax(inputs, 1) * counts
    p, t = p.flatten(2) if p.ndim > 2 else p.unsqueeze(2), t.flatten(2) if t.ndim > 2 else t.unsqueeze(2)
    both, either = (p * t).sum(2), p.sum(2) + t.sum(2)
    return reduced(1 - (2 * both + smooth) / (either + smooth), reduction)
