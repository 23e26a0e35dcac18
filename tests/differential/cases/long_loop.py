import torch

x, total = torch.ones(4), 0.0
for i in range(6000):
    x = x * 0.999 + 0.001
w = torch.ones(2, requires_grad=True)
for i in range(1500):
    loss = (w * w).sum()
    loss.backward()
    with torch.no_grad():
        w -= 0.01 * w.grad
        w.grad.zero_()
y = w
for i in range(700):
    y = y * 1.0001
y.sum().backward()
print(x, w, w.grad)
