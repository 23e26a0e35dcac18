# compare: errors/0/type values/cleaned values/caught stdout
# ways: cell script
import os
import signal
import threading

import torch

w, cleaned, caught = torch.ones(30, requires_grad=True), 0, 0
for attempt in range(5):
    timer = threading.Timer(0.03, lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        try:
            timer.start()
            while True:
                (w * w).sum().backward()
        finally:
            cleaned += 1
    except KeyboardInterrupt:
        caught += 1
    timer.join()
print(cleaned, caught)
