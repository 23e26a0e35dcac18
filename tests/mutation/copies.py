"""A copy of the tree, in which one fault at a time is made and tests are run."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from . import children, probes

ROOT = Path(__file__).resolve().parents[2]
SLOW = [
    "tests/core/native/test_build_lock.py", "tests/core/native/test_absent.py", "tests/core/native/test_machines.py",
    "tests/triton_kernels/test_compile_check.py", "tests/core/test_cuda_training.py",
]  # fmt: skip


class Copy:
    """A copy of the tree with an extension of its own, and the memory in which its probes note who passes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for file in tracked():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, folder / file)
        self.environment = {**os.environ, "PYTHONPATH": str(folder), "GRADLAB_REQUIRE_NATIVE": "1",
                            "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}  # fmt: skip
        self.failing: set[str] = set()  # tests that fail on the sources as they are
        self.cpu = 0.0  # processor time of all commands so far
        self.objects = folder / "objects"
        self.library = folder / f"core/native/_native{sysconfig.get_config_var('EXT_SUFFIX')}"
        self.memory = folder / "probes"
        self.memory.write_bytes(bytes(probes.SIZE))
        with self.memory.open("r+b") as file:
            self.shared = mmap.mmap(file.fileno(), probes.SIZE)

    # -- the extension ------------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Compile the whole extension once; afterwards only the files that a fault touches."""
        from core.native.build import EMIT

        subprocess.run([sys.executable, "-c", EMIT], cwd=self.folder, check=True,
                       env={**self.environment, "GRADLAB_NATIVE": "0"})  # fmt: skip
        self.objects.mkdir()
        self.sources_and_includes()
        if not self.compile(self.sources):
            raise SystemExit("mutation: the sources do not compile as they are")

    def sources_and_includes(self) -> None:
        """Find the C files and what each includes."""
        import numpy

        from core.native.build import FLAGS

        include = [f"-I{self.folder}/core/native", f"-I{numpy.get_include()}", f"-I{sysconfig.get_paths()['include']}"]
        self.command = ["gcc", *FLAGS, "-fPIC", "-w", *include]
        self.sources = sorted((self.folder / "core/native").rglob("*.c"))
        self.includes = {}
        for source in self.sources:
            told = subprocess.run(
                ["gcc", "-MM", *include, str(source)], capture_output=True, text=True, check=True
            ).stdout
            self.includes[source] = {Path(p).resolve() for p in told.replace("\\\n", " ").split()[1:]}

    def take_build(self, other: Copy) -> None:
        """Take over what another copy has built."""
        shutil.copytree(other.folder / "core/native/generated", self.folder / "core/native/generated",
                        dirs_exist_ok=True)  # fmt: skip
        shutil.copytree(other.objects, self.objects)
        shutil.copyfile(other.library, self.library)
        self.sources_and_includes()

    def _object(self, source: Path) -> str:
        if not source.is_relative_to(self.folder / "core/native"):
            return source.with_suffix(".o").name
        return "-".join(source.relative_to(self.folder / "core/native").with_suffix(".o").parts)

    def compile(self, sources: list[Path]) -> bool:
        """Compile files and link the library; False where the compiler refuses."""
        for source in sources:
            command = [*self.command, "-c", str(source), "-o", str(self.objects / self._object(source))]
            if self.command_run(command).status:
                return False
        made = [str(p) for p in sorted(self.objects.glob("*.o"))]
        linked = self.library.with_suffix(".linked")  # never written over while a process has it mapped
        link = ["gcc", "-shared", "-pthread", *made, "-lm", "-o", str(linked)]
        if self.command_run(link).status:
            return False
        linked.replace(self.library)
        return True

    def place(self, file: str, text: str) -> bool:
        """Write a file's text and rebuild what includes it; False where it does not compile."""
        path = self.folder / file
        path.write_text(text, encoding="utf-8")
        if file.endswith(".py"):
            return True
        return self.compile([s for s in self.sources if path.resolve() in self.includes[s]])

    # -- commands -----------------------------------------------------------------------------------------------------

    def command_run(self, command: list[str], **limits: Any) -> children.Done:
        """Run a command in the copy and add up what it cost."""
        done = children.run(command, self.folder, self.environment, **limits)
        self.cpu += done.cpu
        return done

    def pytest(
        self, tests: list[str], most_cpu: float | None = None, stop: bool = True, **settings: Any
    ) -> tuple[children.Done, dict[str, Any]]:
        """Run tests, by default until one fails; return how it ended and what the recorder has seen."""
        out, named = self.folder / "seen.json", self.folder / "settings.json"
        out.unlink(missing_ok=True)
        settings = {"memory": str(self.memory), "out": str(out), "left_out": sorted(self.failing), **settings}
        named.write_text(json.dumps(settings), encoding="utf-8")
        self.environment["GRADLAB_MUTATION"] = str(named)
        self.shared[:] = bytes(probes.SIZE)
        options = ["-q", *(["-x"] if stop else []), "-p", "no:cacheprovider", "-p", "tests.mutation.recorder",
                   "--no-header", "--hypothesis-seed=0", *(f"--ignore={p}" for p in SLOW)]  # fmt: skip
        done = self.command_run([sys.executable, "-m", "pytest", *options, *tests], most_cpu=most_cpu,
                                progress=lambda: int.from_bytes(self.shared[probes.SIZE - 8 :], "little"))  # fmt: skip
        seen = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
        return done, seen


def tracked() -> list[str]:
    """Return the files of the tree that git knows or would take."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [file for file in listed.splitlines() if (ROOT / file).is_file()]
