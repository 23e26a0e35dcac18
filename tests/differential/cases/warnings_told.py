import warnings

import torch

warnings.simplefilter("default")
a = torch.nn.functional.mse_loss(torch.ones(3, 1), torch.ones(3))
optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
scheduler.step()
w = torch.ones(2, requires_grad=True)
y = w * 2
y.grad
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    (w * 3).grad
    warnings.warn("mine")
print([str(c.message)[:40] for c in caught])
