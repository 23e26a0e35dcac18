# The library refuses, and says the same with and without.
import copy

import torch

w = torch.ones(3, requires_grad=True)
kept = copy.deepcopy(w)
y = w * 2
copy.deepcopy(y)
