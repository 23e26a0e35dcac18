import random

import numpy as np
import torch
from torch import nn

torch.manual_seed(5)
a = torch.randn(3), torch.rand(2), torch.randperm(5), torch.randint(0, 9, (3,))
drop = nn.Dropout(0.5)(torch.ones(50))
state = torch.get_rng_state()
b = torch.randn(2)
torch.set_rng_state(state)
c = torch.randn(2)
generator = torch.Generator()
generator.manual_seed(3)
d = torch.rand(2, generator=generator)
e = torch.bernoulli(torch.full((5,), 0.3)), torch.normal(0.0, torch.ones(3)), torch.multinomial(torch.ones(5), 2)
f = nn.init.xavier_uniform_(torch.empty(3, 3)), random.random(), np.random.rand(2)
noise = torch.empty(3).uniform_(-1, 1), torch.randn_like(b)
print(a, drop, b, c, d, e, f, noise)
