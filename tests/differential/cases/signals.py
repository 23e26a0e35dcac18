import signal

import torch

heard = []
signal.signal(signal.SIGALRM, lambda number, frame: heard.append(frame.f_code.co_name))
signal.setitimer(signal.ITIMER_REAL, 0.05)
w = torch.ones(50, requires_grad=True)
n = 0
while not heard and n < 100000:
    (w * w).sum().backward()
    n += 1
signal.signal(signal.SIGALRM, signal.SIG_DFL)
ended = n < 100000
del n, heard, w
print(ended)
