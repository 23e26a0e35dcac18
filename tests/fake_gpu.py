"""A machine with a GPU that is none: the fake libcuda, the stand-in for CuPy, and processes that run on them."""

from __future__ import annotations

import atexit
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
from typing import Any

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent
DOUBLE = HERE / "triton_kernels" / "double"


@functools.cache
def folder() -> pathlib.Path:
    """Where the library lies, and Triton's cache of what it compiled; made once a process."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler, "Triton itself needs a C compiler to launch"
    found = pathlib.Path(tempfile.mkdtemp(prefix="fake-gpu-"))
    atexit.register(shutil.rmtree, found, ignore_errors=True)
    library = found / "libcuda.so.1"
    source = HERE / "triton_kernels" / "fake_cuda.c"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    (found / "libcuda.so").symlink_to(library)
    return found


def environment(**settings: Any) -> dict[str, str]:
    """The environment of a process on that machine; `settings` as in FAKE_DEVICES=2."""
    here = folder()
    kept = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "CUDA_LAUNCH_BLOCKING")}
    return kept | {
        "LD_LIBRARY_PATH": str(here),
        "TRITON_LIBCUDA_PATH": str(here),
        "TRITON_CACHE_DIR": str(here / "cache"),
        "PYTHONPATH": os.pathsep.join([str(DOUBLE), str(ROOT)]),
        "XDG_DATA_HOME": str(here / "data"),
        **{k: str(v) for k, v in settings.items()},
    }


def script(name: str, text: str) -> pathlib.Path:
    """A script as a file: Triton reads a kernel's text from it."""
    path = folder() / name
    path.write_text(text)
    return path


def run(code: str | pathlib.Path, **settings: Any) -> Any:
    """Run a script (a file, or its text) there; what the JSON on its last line says."""
    given = [str(code)] if isinstance(code, pathlib.Path) else ["-c", textwrap.dedent(code)]
    done = subprocess.run([sys.executable, *given], env=environment(**settings), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])
