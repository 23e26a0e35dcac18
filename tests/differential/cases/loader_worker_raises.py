# compare: errors values random files
import torch
from torch.utils.data import DataLoader, Dataset


class Broken(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == 5:
            raise KeyError(f"item {i}")
        return torch.ones(2) * i


got = 0
for batch in DataLoader(Broken(), batch_size=2, num_workers=1):
    got += 1
