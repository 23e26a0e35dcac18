# Threads that share a model and step it under a lock, each with its own backward().
import threading

import torch
from torch import nn

torch.manual_seed(0)
models = [nn.Linear(4, 1) for _ in range(4)]
data = torch.randn(16, 4)
errors = []


def train(model):
    try:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(25):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()
    except Exception as error:
        errors.append(repr(error))


threads = [threading.Thread(target=train, args=(model,)) for model in models]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(errors, [round(model.bias.item(), 6) for model in models])
