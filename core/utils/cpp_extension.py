"""PyTorch's ``utils.cpp_extension``: C++ that is written against PyTorch's own headers cannot be built here.

Each name that builds says so when it is used. An op of one's own in C is `core.library.c_op`, in Triton
`core.library.custom_op` with `register_triton`.
"""

from __future__ import annotations

import os
import shutil

from ..base.absent import absent_class, absent_function

__all__ = ["BuildExtension", "CUDAExtension", "CUDA_HOME", "CppExtension", "ROCM_HOME", "SyclExtension",
           "include_paths", "is_ninja_available", "library_paths", "load", "load_inline"]  # fmt: skip

CUDA_HOME = os.getenv("CUDA_HOME") or os.getenv("CUDA_PATH")
ROCM_HOME = os.getenv("ROCM_HOME")
_OURS = "core.library.c_op(name, source) for an op in C; the package runs without its extension where it can"

CppExtension = absent_function("CppExtension", __name__, "An extension in C++.", _OURS)
CUDAExtension = absent_function("CUDAExtension", __name__, "An extension in CUDA.", _OURS)
SyclExtension = absent_function("SyclExtension", __name__, "An extension in SYCL.", _OURS)
BuildExtension = absent_class("BuildExtension", __name__, "What setuptools builds extensions with.", _OURS)
load = absent_function("load", __name__, "Build an extension from files.", _OURS)
load_inline = absent_function("load_inline", __name__, "Build an extension from text.", _OURS)


def include_paths(device_type: str = "cpu", *ignored: object) -> list[str]:
    """Return the folders of PyTorch's headers: there are none."""
    return []


library_paths = include_paths


def is_ninja_available() -> bool:
    """Return whether the program ninja is there."""
    return shutil.which("ninja") is not None
