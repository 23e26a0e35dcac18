import multiprocessing

import torch
from torch import nn


def square(n):
    torch.manual_seed(n)
    w = torch.ones(n, requires_grad=True)
    (w * w).sum().backward()
    return n, w.grad.tolist()


def child(queue, w):
    loss = (w.detach().clone().requires_grad_() * 2).sum()
    loss.backward()
    queue.put(float(loss))


if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    with fork.Pool(2) as pool:
        print(pool.map(square, [1, 2, 3, 4]))
    queue = fork.Queue()
    w = torch.ones(5)
    (w * 3).sum()
    worker = fork.Process(target=child, args=(queue, w))
    worker.start()
    print(queue.get())
    worker.join()
    print(worker.exitcode)
