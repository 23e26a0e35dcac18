"""``python -m tests.mutation 60 --seed 1``: so many random faults, one at a time, and whether a test notices each.

The sources are copied to a folder of their own. A fault is told as killed when pytest fails, crashes or hangs on the
tests nearest to the file or, where those pass, on the wider ones of its part (`nearest`); the slowest of the suite
(browsers, notebooks) are not asked, so the share of killed faults is a lower bound. Survivors are printed with their
line: whether such a fault changes what anybody can see is for a person to judge. Faults that do not compile are drawn
again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .faults import Fault, faults

ROOT = Path(__file__).resolve().parents[2]
PARTS = {
    "core/native": [f"core/native/{room}/**/*.{kind}" for room in ("kernels", "runtime", "binding") for kind in "ch"],
    "core/ops": ["core/ops/*.py"],
    "lab/diagnose": ["lab/diagnose/*.py"],
    "triton_kernels": ["triton_kernels/*.py", "triton_kernels/tune/*.py"],
}
SLOW = [
    "tests/core/native/test_build_lock.py", "tests/core/native/test_absent.py", "tests/core/native/test_machines.py",
    "tests/triton_kernels/test_compile_check.py", "tests/core/test_cuda_training.py",
]  # fmt: skip
TIMEOUT = 900.0  # seconds a stage: a fault that makes a loop endless is noticed by whoever waits


def nearest(file: str) -> list[list[str]]:
    """Return the stages of tests for a file, each a list of pytest's arguments, from the nearest to the widest."""
    path = Path(file)
    stem = path.stem
    part = next(p for p in PARTS if file.startswith(p + "/"))
    folder = {"core/native": "tests/core/native", "core/ops": "tests/core/ops", "lab/diagnose": "tests/lab/diagnose",
              "triton_kernels": "tests/triton_kernels"}[part]  # fmt: skip
    if path.parent.name == "tune":
        folder += "/tune"
    near = [str(p) for p in sorted(Path(ROOT, folder).glob("test_*.py"))
            if stem in p.stem or p.stem.removeprefix("test_") in stem]  # fmt: skip
    near = [os.path.relpath(p, ROOT) for p in near]
    asked = f"--ignore={folder}"
    wide = {
        "core/native": [[folder], ["tests/core", asked], ["tests/conformance"]],
        "core/ops": [
            [folder],
            ["tests/conformance", "-k", "not cuda"],
            ["tests/core", asked, "tests/test_programs.py"],
        ],
        "lab/diagnose": [
            [f"{folder}/test_planted.py", f"{folder}/test_findings_page.py"],
            [folder],
            ["tests/lab", asked],
        ],
        "triton_kernels": [[folder], ["tests/conformance", "-k", "cuda"], ["tests/core/backends", "tests/lab"]],
    }[part]
    return ([near] if near else []) + wide


class Copy:
    """A copy of the tree, in which one fault at a time is made and tested."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = ["git", "ls-files", "-co", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for file in listed.splitlines():
            if (ROOT / file).is_file():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / file, folder / file)
        self.environment = {**os.environ, "PYTHONPATH": str(folder), "GRADLAB_REQUIRE_NATIVE": "1",
                            "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}  # fmt: skip
        self.failing: set[str] = set()  # tests that fail on the sources as they are
        self.objects = folder / "objects"
        self.library = folder / f"core/native/_native{sysconfig.get_config_var('EXT_SUFFIX')}"

    def build(self) -> None:
        """Compile the whole extension once; afterwards only the files that a fault touches."""
        import numpy

        from core.native.build import EMIT, FLAGS

        subprocess.run([sys.executable, "-c", EMIT], cwd=self.folder, check=True,
                       env={**self.environment, "GRADLAB_NATIVE": "0"})  # fmt: skip
        self.objects.mkdir()
        include = [f"-I{self.folder}/core/native", f"-I{numpy.get_include()}", f"-I{sysconfig.get_paths()['include']}"]
        self.command = ["gcc", *FLAGS, "-fPIC", "-w", *include]
        self.sources = sorted((self.folder / "core/native").rglob("*.c"))
        self.includes = {}
        for source in self.sources:
            told = subprocess.run(
                ["gcc", "-MM", *include, str(source)], capture_output=True, text=True, check=True
            ).stdout
            self.includes[source] = {Path(p).resolve() for p in told.replace("\\\n", " ").split()[1:]}
        if not self.compile(self.sources):
            raise SystemExit("mutation: the sources do not compile as they are")

    def _object(self, source: Path) -> str:
        return "-".join(source.relative_to(self.folder / "core/native").with_suffix(".o").parts)

    def compile(self, sources: list[Path]) -> bool:
        """Compile files and link the library; False where the compiler refuses."""
        for source in sources:
            done = subprocess.run([*self.command, "-c", str(source), "-o", str(self.objects / self._object(source))],
                                  capture_output=True, check=False)  # fmt: skip
            if done.returncode:
                return False
        made = [str(p) for p in sorted(self.objects.glob("*.o"))]
        link = ["gcc", "-shared", "-pthread", *made, "-lm", "-o", str(self.library)]
        return not subprocess.run(link, capture_output=True, check=False).returncode

    def place(self, file: str, text: str) -> bool:
        """Write a file's text and rebuild what includes it; False where it does not compile."""
        path = self.folder / file
        path.write_text(text, encoding="utf-8")
        if file.endswith(".py"):
            return True
        return self.compile([s for s in self.sources if path.resolve() in self.includes[s]])

    def run(self, tests: list[str]) -> tuple[int, str]:
        """Run tests until one fails; return pytest's exit status and the test that failed, where it names one."""
        options = ["-q", "-x", "-p", "no:cacheprovider", "--no-header", *(f"--ignore={p}" for p in SLOW)]
        options += [f"--deselect={test}" for test in self.failing]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              timeout=TIMEOUT, check=False)  # fmt: skip
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        return done.returncode, failed.group(1) if failed else ""

    def tests(self, file: str, before: str, after: str) -> tuple[str, str]:
        """Make the fault and run the stages until one notices; return whether one did, and which test.

        A test that fails without the fault as well has noticed nothing: it is left out from then on.
        """
        stages = nearest(file)
        while stages:
            if not self.place(file, after):
                return "does not compile", ""
            try:
                status, failed = self.run(stages[0])
            except subprocess.TimeoutExpired:
                return "killed", f"timeout in {' '.join(stages[0])}"
            if status in (0, 5):
                stages = stages[1:]
                continue
            self.place(file, before)
            if not failed:
                return "killed", f"exit {status} in {' '.join(stages[0])}"
            if self.run([failed])[0] == 0:
                return "killed", failed
            self.failing.add(failed)
        return "passed", " ".join(nearest(file)[-1])


def drawn(part: str, rng: random.Random) -> Iterator[Fault]:
    """Yield random faults of a part without end, each as likely as any other."""
    found = []
    for pattern in PARTS[part]:
        for path in sorted(ROOT.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            found += faults(path.relative_to(ROOT).as_posix(), text, sentences=part == "lab/diagnose")
    while True:
        yield rng.choice(found)


def main(argv: list[str] | None = None) -> int:
    """Run the command; the exit status is 1 where fewer than nine tenths are killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("count", nargs="?", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", choices=PARTS, action="append", help="this part alone; may be repeated")
    parser.add_argument("--list", action="store_true", help="show the faults without testing them")
    parser.add_argument("--json", type=Path, help="a file that takes one result a line, as it comes; "
                        "what stands in it already is not tried again")  # fmt: skip
    options = parser.parse_args(argv)
    parts = options.part or list(PARTS)
    rows: list[dict[str, Any]] = []
    if options.json and options.json.exists():
        rows += [json.loads(line) for line in options.json.read_text(encoding="utf-8").splitlines()]
    tried = {row["fault"] for row in rows}
    with tempfile.TemporaryDirectory("gradlab-mutation") as name:
        copy = None if options.list else Copy(Path(name))
        if copy is not None and "core/native" in parts:
            copy.build()
        elif copy is not None:
            shutil.copy(next((ROOT / "core/native").glob("_native*.so")), copy.library)
        for number, part in enumerate(parts):
            share = options.count // len(parts) + (number < options.count % len(parts))
            draws = drawn(part, random.Random(f"{options.seed} {part}"))
            while share:
                fault = next(draws)
                before = (ROOT / fault.file).read_text(encoding="utf-8")
                after = fault.apply(before)
                if fault.told(before) in tried:
                    share -= 1
                    continue
                if copy is None:
                    print(fault.told(before))
                    share -= 1
                    continue
                begun = time.monotonic()
                outcome, said = copy.tests(fault.file, before, after)
                copy.place(fault.file, before)
                if outcome == "does not compile":
                    continue
                share -= 1
                row = {"outcome": outcome, "fault": fault.told(before), "by": said, "seconds": time.monotonic() - begun}
                rows.append(row)
                print(f"{outcome:7} {row['seconds']:5.0f} s {row['fault']}\n    {said}", flush=True)
                if options.json:
                    with options.json.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
    if options.list:
        return 0
    killed = sum(row["outcome"] == "killed" for row in rows)
    print(f"{killed} of {len(rows)} faults were noticed; of the others see above whether they change what can be seen")
    return int(killed < 0.9 * len(rows))


if __name__ == "__main__":
    sys.exit(main())
