import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        x = torch.full((3,), float(i))
        return x * x, i % 2


torch.manual_seed(3)
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
total = 0.0
for epoch in range(2):
    for x, y in DataLoader(Squares(), batch_size=5, shuffle=True, num_workers=2):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
print(total)
