import torch
from torch import nn

torch.manual_seed(0)


def batches(n):
    try:
        for i in range(n):
            yield torch.randn(4, 3) + i
    finally:
        print("closed")


@torch.no_grad()
def evaluated(model, xs):
    for x in xs:
        yield model(x).mean()


model = nn.Linear(3, 2)
stream = batches(5)
first = next(stream)
for x in batches(3):
    model(x).sum().backward()
means = [m.item() for m in evaluated(model, batches(2))]
print(means, torch.is_grad_enabled())


def sending():
    total = torch.zeros(2)
    while True:
        x = yield total
        total = total + x


adder = sending()
next(adder)
adder.send(torch.ones(2))
last = adder.send(torch.ones(2) * 3)
try:
    adder.throw(RuntimeError, "stop here")
except RuntimeError as error:
    print(error)
# %%
rest = [x.sum().item() for x in stream]
print(rest)
