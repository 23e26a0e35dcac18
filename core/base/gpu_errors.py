"""What a GPU's errors are raised as: `core.AcceleratorError` and `core.OutOfMemoryError`, both RuntimeErrors.

>>> import core
>>> issubclass(core.OutOfMemoryError, RuntimeError), core.cuda.OutOfMemoryError is core.OutOfMemoryError
(True, True)
"""

from triton_kernels.faults import AcceleratorError, OutOfMemoryError

__all__ = ["AcceleratorError", "OutOfMemoryError"]
