"""C text compiled on the spot by the system's compiler, kept in a private folder of the user's cache."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import text

FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
PRELUDE = "#include <stdint.h>\n#include <stddef.h>\n#include <tgmath.h>\n"
_C_NAMES = {"float32": "float", "float64": "double"}


def cache_folder() -> Path:
    """Return the folder of compiled kernels; made if need be, for its owner alone.

    *Raises*: RuntimeError where it belongs to somebody else or others may write into it: what lies there is loaded.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "gradlab" / "kernels"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    if not stat.S_ISDIR(found.st_mode) or not mine:
        raise RuntimeError(
            text("the folder of compiled kernels is not this user's own", op="compile", came=str(folder),
                 remedy="set XDG_CACHE_HOME to a folder of your own")
        )  # fmt: skip
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)
    return folder


def compiler() -> str:
    """Return the C compiler: $CC, the one Python was built with, cc, gcc or clang. *Raises*: RuntimeError where none
    is."""
    built_with = (sysconfig.get_config_var("CC") or "").split()[:1]
    for name in (os.environ.get("CC"), *built_with, "cc", "gcc", "clang"):
        path = shutil.which(name) if name else None
        if path:
            return path
    raise RuntimeError(
        text("no C compiler was found", op="compile", needed="cc, gcc or clang on the path",
             remedy="install one (apt install gcc), or write the kernel in Python")
    )  # fmt: skip


def library(source: str, dtype: str) -> ctypes.CDLL:
    """Return the compiled text, with `real` standing for the C type of `dtype`."""
    whole = PRELUDE + '#line 1 "kernel.c"\n' + source
    return ctypes.CDLL(str(built(whole, (*FLAGS, f"-Dreal={_C_NAMES[dtype]}"))))


def built(source: str, flags: Sequence[str], told: str = "") -> Path:
    """Return the shared library of a C text, from the cache where it is there.

    told : what else the result depends on: headers, the processor.

    *Raises*: RuntimeError where there is no compiler, or the text does not compile.
    """
    cc = compiler()
    key = hashlib.sha256("\0".join((cc, *flags, sys.platform, told, source)).encode()).hexdigest()[:32]
    path = cache_folder() / f"{key}.so"
    if not path.exists():
        handle, temporary = tempfile.mkstemp(suffix=".so", dir=path.parent)
        os.close(handle)
        try:
            done = subprocess.run([cc, *flags, "-x", "c", "-", "-o", temporary, "-lm"], input=source, text=True,
                                  capture_output=True, check=False)  # fmt: skip
            if done.returncode:
                raise RuntimeError(
                    text("the C text does not compile:\n" + done.stderr.strip(), op="compile",
                         remedy="its lines are numbered from 1 as kernel.c")
                )  # fmt: skip
            os.replace(temporary, path)  # whole, or not there
        finally:
            if os.path.exists(temporary):
                os.remove(temporary)
    return path


class CKernel:
    """One function of a C text: ``void f(const real *x, ..., real *y, ..., const int64_t *sizes, double k, ...)``."""

    def __init__(self, source: str, function: str) -> None:
        self.source, self.function = source, function
        self._loaded: dict[str, Any] = {}

    def declines(self, *arrays: Any) -> str | None:
        """Why it does not take these arrays, or None."""
        names = {a.dtype.name for a in arrays if a is not None}
        if len(names) != 1 or not names <= set(_C_NAMES):
            return f"takes float32 or float64, got {', '.join(sorted(names))}"
        return None

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any], sizes: Sequence[int],
                 numbers: Sequence[float]) -> None:  # fmt: skip
        """Run it on C-contiguous arrays; None passes as a null pointer."""
        dtype = outputs[0].dtype.name
        f = self._loaded.get(dtype)
        if f is None:
            f = self._loaded[dtype] = self._load(dtype)
        kept = [None if a is None else np.ascontiguousarray(a) for a in inputs]
        pointers = [None if a is None else a.ctypes.data for a in (*kept, *outputs)]
        f(*map(ctypes.c_void_p, pointers), (ctypes.c_int64 * len(sizes))(*sizes), *map(ctypes.c_double, numbers))

    def _load(self, dtype: str) -> Any:
        try:
            f = getattr(library(self.source, dtype), self.function)
        except AttributeError:
            raise RuntimeError(
                text(f"the C text has no function {self.function!r}", op="compile",
                     remedy="its name is the op's name after '::', or the one given; it must not be static")
            ) from None  # fmt: skip
        f.restype = None
        return f
