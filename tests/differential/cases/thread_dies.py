# compare: errors values random
# An exception in a thread is the thread's own; so is one after the cell has gone on.
import threading

import torch

caught = []
threading.excepthook = lambda given: caught.append((given.exc_type.__name__, str(given.exc_value)))


def broken():
    torch.ones(2, 3) @ torch.ones(2, 3)


thread = threading.Thread(target=broken)
thread.start()
thread.join()
threading.excepthook = threading.__excepthook__
names = [name for name, _ in caught]
