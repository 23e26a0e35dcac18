"""e3nn: spherical harmonics, a linear layer of irreps and a fully connected tensor product, two steps."""

import torch
from e3nn import o3
from told import steps, tell

torch.manual_seed(0)
x = torch.linspace(-1, 1, 15).view(5, 3)
harmonics = o3.spherical_harmonics([0, 1, 2], x, normalize=True)
product = o3.FullyConnectedTensorProduct("1x0e+1x1o+1x2e", "1x1o", "2x0e+2x1o")
linear = o3.Linear("2x0e+2x1o", "1x0e+1x1o")
many = [*product.parameters(), *linear.parameters()]
tell(harmonics=harmonics, trained=steps(many, lambda: linear(product(harmonics, x)).square().mean()))
