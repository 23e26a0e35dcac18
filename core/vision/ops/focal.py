"""`sigmoid_focal_loss`: a cross entropy in which what is already right counts little."""

from __future__ import annotations

from ...base.errors import text
from ...nn.functional import logsigmoid, sigmoid
from ...ops.loss import chosen_reduction, reduced, torch_size
from ...tensors.tensor import Tensor


def sigmoid_focal_loss(inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2,
                       reduction: str = "none") -> Tensor:  # fmt: skip
    """Weigh the binary cross entropy of logits by how wrong each of them is: (1 - p_t)**gamma, p_t the probability of
    the truth.

    alpha : the weight of ones, against 1 - alpha of zeros; -1 for none. gamma : 0 is the cross entropy itself.
    reduction : "none", "mean" or "sum".

    *Shapes*: inputs and targets alike; targets between 0 and 1.

    *Raises*: ValueError for another `alpha` or `reduction`, and for shapes that differ.

    *Source*: T.-Y. Lin et al., "Focal loss for dense object detection" (2017), equation 5.

    >>> import core
    >>> sigmoid_focal_loss(core.tensor([0.0, 4.0, -4.0]), core.tensor([1.0, 1.0, 1.0]))
    tensor([4.3322e-02, 1.4679e-06, 9.6873e-01])
    """
    if not 0 <= alpha <= 1 and alpha != -1:
        raise ValueError(text(f"Invalid alpha value: {alpha}. alpha must be in the range [0,1] or -1 for ignore.",
                              op="sigmoid_focal_loss"))  # fmt: skip
    reduction = chosen_reduction(reduction, None, None)
    if inputs.shape != targets.shape:
        raise ValueError(
            text(f"Target size ({torch_size(targets)}) must be the same as input size ({torch_size(inputs)})",
                 op="sigmoid_focal_loss", needed="a target for every logit", remedy="F.one_hot for classes")
        )  # fmt: skip
    targets = targets.to(inputs.dtype)
    # both are sums of what is small where the answer is right: x - x t and 1 - p_t would have no digits left there
    entropy = -(1 - targets) * logsigmoid(-inputs) - targets * logsigmoid(inputs)
    wrong = sigmoid(inputs) * (1 - targets) + sigmoid(-inputs) * targets
    losses = entropy * wrong**gamma
    if alpha >= 0:
        losses = (alpha * targets + (1 - alpha) * (1 - targets)) * losses
    return reduced(losses, reduction)
