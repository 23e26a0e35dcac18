"""The C sources for other machines than this one: every file compiles for aarch64, without a warning."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

NATIVE = Path(__file__).resolve().parents[3] / "core/native"
COMPILER = shutil.which("aarch64-linux-gnu-gcc")
# .ci/run installs it; its C library's headers come with it, Python's and NumPy's are the same for both machines
FLAGS = ["-std=gnu11", "-O0", "-fopenmp-simd", "-pthread", "-fsyntax-only", "-Wall", "-Werror"]


@pytest.mark.skipif(COMPILER is None, reason="needs the compiler of Debian's gcc-aarch64-linux-gnu")
def test_everything_compiles_for_aarch64() -> None:
    include = [f"-I{NATIVE}", f"-I{sysconfig.get_paths()['include']}", f"-I{np.get_include()}"]
    printed = sorted(NATIVE.glob("generated/*.c"))
    assert len(printed) >= 6, "the build prints the elementwise kernels"
    sources = [str(p) for p in sorted(NATIVE.rglob("*.c"))]
    assert len(sources) >= len(printed) + 60
    done = subprocess.run([str(COMPILER), *FLAGS, *include, *sources], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
