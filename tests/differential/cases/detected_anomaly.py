# compare: errors values random files
import torch

w = torch.tensor([-1.0, 2.0], requires_grad=True)
with torch.autograd.detect_anomaly():
    y = w.sqrt()
    y.sum().backward()
