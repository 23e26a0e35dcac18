import copy
import io
import os
import pickle

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x, y = torch.randn(6, 4), torch.randint(0, 2, (6,))
loss = nn.functional.cross_entropy(model(x), y)
loss.backward()
optimizer.step()
with open("model.pickle", "wb") as file:
    pickle.dump(model, file)
with open("tensors.pickle", "wb") as file:
    pickle.dump([x, y, loss.detach(), model[0].weight, model[0].weight.grad], file)
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
torch.save(model, "whole.pt")
again = pickle.loads(pickle.dumps(model))
twin, shadow = copy.deepcopy(model), copy.copy(x)
buffer = io.BytesIO()
torch.save(x, buffer)
buffer.seek(0)
back = torch.load(buffer)
state = torch.load("checkpoint.pt")
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
print(len(pickle.dumps(x)), len(pickle.dumps(model.state_dict())), sorted(os.listdir(".")))
print(torch.equal(back, x), torch.equal(twin[0].weight, model[0].weight), again)
