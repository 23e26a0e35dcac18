import threading

import torch

w = torch.ones(50, requires_grad=True)
go, done, out = threading.Event(), threading.Event(), []


def later():
    go.wait(20)
    for _ in range(50):
        (g,) = torch.autograd.grad((w * w).sum(), w)
    out.append(g.sum().item())
    done.set()


threading.Thread(target=later).start()
y = (w * 2).sum().item()
# %%
go.set()
z = (w * 3).sum().item()
done.wait(20)
print(y, z, out)
