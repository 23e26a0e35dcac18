"""The stand-in's `cupyx`: arrays in page-locked memory."""

import math

import numpy as np
from cupy import cuda


def empty_pinned(shape, dtype=float, order="C"):
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    memory = cuda.alloc_pinned_memory(math.prod(shape) * np.dtype(dtype).itemsize)
    return np.ndarray(shape, dtype, buffer=memory, order=order)
