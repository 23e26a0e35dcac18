# compare: errors/0/type errors/# random process
# Ctrl-C once, at a moment that nobody can foresee.
import _thread
import os
import signal
import threading
import time

import torch

w = torch.ones(30, requires_grad=True)
threading.Timer(0.08, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
while True:
    loss = (w * w).sum()
    loss.backward()
    with torch.no_grad():
        w -= 1e-6 * w.grad
    w.grad = None
# %%
z = (torch.ones(3, requires_grad=True) * 2).sum()
z.backward()
print(z)
