"""torchsde: a stochastic differential equation, with gradients and the adjoint."""

import torch
import torchsde
from told import steps, tell


class SDE(torch.nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.theta = torch.nn.Parameter(torch.tensor([[0.1, 0.2]]))

    def f(self, t, y):
        return torch.sin(t) + self.theta * y

    def g(self, t, y):
        return 0.3 * torch.sigmoid(torch.cos(t) * torch.exp(-y))


ts = torch.linspace(0, 1, 5)
y0 = torch.full((3, 2), 0.1)


def run(solve):
    sde = SDE()

    def loss():
        noise = torchsde.BrownianInterval(t0=0.0, t1=1.0, size=(3, 2), entropy=7, levy_area_approximation="space-time")
        return solve(sde, y0, ts, bm=noise, dt=0.1).square().mean()

    return steps(sde.parameters(), loss)


tell(plain=run(torchsde.sdeint), adjoint=run(torchsde.sdeint_adjoint))
