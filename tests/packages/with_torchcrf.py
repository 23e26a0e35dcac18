"""pytorch-crf: two steps of a conditional random field, and the best tags."""

import torch
from told import steps, tell
from torchcrf import CRF

torch.manual_seed(0)
crf = CRF(4, batch_first=True)
scores, tags = torch.linspace(-1, 1, 2 * 5 * 4).view(2, 5, 4).sin(), torch.tensor([[0, 1, 2, 3, 0], [1, 1, 0, 2, 3]])
tell(trained=steps(crf.parameters(), lambda: -crf(scores, tags)), tags=crf.decode(scores))
