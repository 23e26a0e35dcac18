# Recursion that only just fits: the recorder may use no frames of the user's allowance.
import sys

import torch

sys.setrecursionlimit(400)


def down(n, x):
    return x if n == 0 else down(n - 1, x + 1)


x = down(300, torch.zeros(2))
sys.setrecursionlimit(1000)
print(x)
