"""The build step of the C extension, for setuptools; it works without the package around it.

setuptools loads this file alone, before `core` can be imported. `BuildExt` has `core` print its elementwise kernels and
the stubs of its functions (in a process of its own, on NumPy alone), then compiles the kernels with the hand-written
files, on all cores. Nothing here may fail an installation: without a compiler `core` runs on NumPy, and says so.
GRADLAB_REQUIRE_NATIVE=1 makes failures errors; an -O or -g in CFLAGS stands in place of ours.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]

try:
    import fcntl
except ImportError:  # Windows: builds there take their turns by hand
    fcntl = None  # type: ignore[assignment]

NATIVE = Path("core/native")
NAME = "core.native._native"
LOCK = Path("build/native.lock")

# -fno-trapping-math lets comparisons become selects, -fno-math-errno lets sqrt be one instruction; neither changes a
# result. -ffp-contract=fast rounds a*b+c once where the processor can: polynomials are faster and closer, and a result
# may differ in its last bit between processors with and without FMA. Never -ffast-math or -Ofast: a library linked
# with them turns subnormals off for the whole process. -g0: Python's own flags ask for debugging information, which is
# a fifth of the compile time and two thirds of the file; who wants it sets CFLAGS=-g.
FLAGS = [
    "-std=gnu11", "-O3", "-g0", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fvisibility=hidden",
    "-fopenmp-simd", "-pthread", "-Werror=incompatible-pointer-types", "-Werror=int-conversion",
    "-Werror=return-type",
]  # fmt: skip
EMIT = """
import sys; sys.path.insert(0, ".")
import core
from core import stubs
from core.native import emit
emit.write_all()
stubs.write_all()
"""


def flags() -> list[str]:
    """FLAGS without those for which CFLAGS has another: setuptools puts CFLAGS before them, and the last one stands."""
    asked = {flag[:2] for flag in os.environ.get("CFLAGS", "").split()} & {"-O", "-g"}
    return [flag for flag in FLAGS if flag[:2] not in asked]


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def alone() -> Iterator[None]:
    """One build of these sources at a time: two would print and link the same files and leave a broken extension.

    The lock belongs to the process: who is killed leaves none behind, and the file may stay.
    """
    if fcntl is None:
        yield
        return
    LOCK.parent.mkdir(exist_ok=True)
    file = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(
                f"another build of these sources is running ({LOCK}); waiting for its end", file=sys.stderr, flush=True
            )
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def hand_written() -> list[Path]:
    """Return the C files that people write, in their rooms; what is printed lies in `generated`."""
    return [p for p in NATIVE.rglob("*.c") if p.parent.name != "generated"]


class BuildExt(build_ext):  # type: ignore[misc]
    """Prints the kernels, completes the extension that pyproject.toml declares, and compiles."""

    extensions: list[Any]

    def finalize_options(self) -> None:
        """Name the hand-written sources, so that a source distribution holds them."""
        super().finalize_options()
        for extension in self.extensions or []:
            if extension.name == NAME:
                extension.sources = sorted(p.as_posix() for p in hand_written())
                extension.depends = sorted(p.as_posix() for p in NATIVE.rglob("*.h"))

    def run(self) -> None:
        """Print the kernels and compile; on failure warn, and leave an installation without the extension."""
        with alone():
            if self.inplace:
                self._compile_python()
            try:
                self._prepare()
            except Exception as error:
                if os.environ.get("GRADLAB_REQUIRE_NATIVE") == "1":
                    raise
                warnings.warn(f"gradlab is installed without its C kernels and runs on NumPy: {error}", stacklevel=1)
                self.extensions = [e for e in self.extensions if e.name != NAME]
            super().run()

    def _compile_python(self) -> None:
        """Write the bytecode of sources that are imported where they lie, as pip does for those that it installs.

        Where Python may write none itself (PYTHONDONTWRITEBYTECODE, a folder of another user's) every `import core`
        would otherwise compile its files anew, which takes more than twice the time of the rest.
        """
        folders = sorted({name.partition(".")[0] for name in self.distribution.packages or ()})
        command = [sys.executable, "-m", "compileall", "-qq", "-j", str(cores()), *folders]
        if folders:  # without one, compileall would take everything on sys.path
            subprocess.run(command, check=False)

    def _prepare(self) -> None:
        mine = [e for e in self.extensions or [] if e.name == NAME]
        if not mine:
            return
        import numpy

        environment = {**os.environ, "GRADLAB_NATIVE": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", EMIT]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"printing the elementwise kernels failed\n{done.stderr.strip()}")
        if not self.inplace:
            self._copy_stubs()
        for extension in mine:
            extension.sources = sorted({*extension.sources, *(p.as_posix() for p in NATIVE.glob("generated/*.c"))})
            extension.depends = sorted(p.as_posix() for p in NATIVE.rglob("*.h"))  # the printed ones too
            extension.include_dirs = [NATIVE.as_posix(), numpy.get_include()]
            extension.extra_compile_args = flags()
            extension.extra_link_args = ["-pthread"]
            extension.libraries = [] if sysconfig.get_platform().startswith("win") else ["m"]
            extension.optional = os.environ.get("GRADLAB_REQUIRE_NATIVE") != "1"

    def _copy_stubs(self) -> None:
        """Put the printed stubs into what becomes a wheel: its other files were gathered before they were there."""
        folder = Path(self.build_lib) / NATIVE / "generated"
        folder.mkdir(parents=True, exist_ok=True)
        for stub in NATIVE.glob("generated/*.pyi"):
            shutil.copy2(stub, folder)

    def build_extension(self, ext: Any) -> None:
        """Compile the files side by side, the largest first, so that no core waits long for the last."""
        compile_files: Callable[..., list[str]] = self.compiler.compile

        def compile_all(sources: list[str], **options: Any) -> list[str]:
            largest_first = sorted(sources, key=os.path.getsize, reverse=True)
            with ThreadPoolExecutor(cores()) as threads:
                made = {source: threads.submit(compile_files, [source], **options) for source in largest_first}
                return [name for source in sources for name in made[source].result()]

        self.compiler.compile = compile_all
        try:
            super().build_extension(ext)
        finally:
            self.compiler.compile = compile_files
