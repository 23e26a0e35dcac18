"""torchdiffeq: solvers, the adjoint, and an event."""

import torch
from told import steps, tell
from torchdiffeq import odeint, odeint_adjoint, odeint_event

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


class Flow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net

    def forward(self, t, y):
        return self.net(y)


flow, y0, ts = Flow(), torch.tensor([[1.0, 0.5]]), torch.linspace(0, 1, 4)
found = {
    m: steps(net.parameters(), lambda m=m: odeint(flow, y0, ts, method=m).square().mean())
    for m in ("dopri5", "rk4", "euler", "midpoint", "bosh3", "explicit_adams", "dopri8")
}
found["adjoint"] = steps(net.parameters(), lambda: odeint_adjoint(flow, y0, ts).square().mean())
g = torch.tensor(9.8, requires_grad=True)
t, y = odeint_event(
    lambda t, s: torch.stack([s[1], -g]),
    torch.tensor([10.0, 0.0]),
    torch.tensor(0.0),
    event_fn=lambda t, s: s[0],
    atol=1e-8,
    rtol=1e-8,
)
t.backward()
tell(**found, event=[t, g.grad])
