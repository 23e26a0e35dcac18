"""einops: rearrange, reduce, repeat and a layer, with gradients."""

import torch
from einops import einsum, rearrange, reduce, repeat
from einops.layers.torch import Rearrange
from told import steps, tell

torch.manual_seed(0)
model = torch.nn.Sequential(Rearrange("b c (h p) (w q) -> b (h w) (c p q)", p=2, q=2), torch.nn.Linear(12, 4))
x = torch.linspace(-1, 1, 2 * 3 * 4 * 4).view(2, 3, 4, 4)
tell(trained=steps(model.parameters(), lambda: reduce(model(x), "b n d -> b d", "max").square().mean()),
     moved=rearrange(x, "b c h w -> h (b w) c"), again=repeat(x[0, 0], "h w -> h w n", n=2),
     product=einsum(x, x, "b c h w, b d h w -> b c d"))  # fmt: skip
