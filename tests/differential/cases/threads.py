import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
results = {}
parts = [torch.randn(8, 4) for _ in range(8)]
lock = threading.Lock()


def work(i):
    for _ in range(20):
        out = model(parts[i]).square().mean()
        grads = torch.autograd.grad(out, list(model.parameters()))
    with lock:
        results[i] = [g.sum().item() for g in grads]


threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with ThreadPoolExecutor(4) as pool:
    means = list(pool.map(lambda part: model(part).mean().item(), parts))
results = dict(sorted(results.items()))
print(results[0], means)
