"""jaxtyping: shapes as annotations, checked."""

import torch
from jaxtyping import Float, Int
from told import steps, tell
from torch import Tensor

torch.manual_seed(0)
layer = torch.nn.Linear(4, 2)
x = torch.linspace(-1, 1, 12).view(3, 4)
checked = [
    isinstance(x, Float[Tensor, "3 4"]),
    isinstance(x, Float[Tensor, "a a"]),
    isinstance(x.long(), Int[Tensor, "b c"]),
    isinstance(x, Int[Tensor, "..."]),
    isinstance(x.double(), Float[torch.Tensor, "*n 4"]),
    isinstance(x.half(), Float[Tensor, "..."]),
]
tell(
    checked=checked,
    trained=steps(layer.parameters(), lambda: layer(x).square().mean()),
    same=[Float[Tensor, "b"] is Float[Tensor, "b"]],
)
