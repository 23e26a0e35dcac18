import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(20, 3), torch.randn(20, 1)
model = nn.Linear(3, 1)
calls = []
lbfgs = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)


def closure():
    lbfgs.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    calls.append(loss.item())
    return loss


for _ in range(2):
    lbfgs.step(closure)
adam = torch.optim.Adam(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.OneCycleLR(adam, max_lr=0.2, total_steps=6)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(adam)
rates = []
for _ in range(5):
    adam.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    adam.step()
    scheduler.step()
    rates.append(adam.param_groups[0]["lr"])
plateau.step(1.0)


class Sign(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(p.grad.sign(), alpha=-group["lr"])
                self.state[p]["n"] = self.state[p].get("n", 0) + 1


sign = Sign(model.parameters(), 0.01)
sign.step()
print(calls, rates, sign.state_dict())
