"""``python -m tests.core.native.sanitized 600``: the C kernels under AddressSanitizer and UndefinedBehaviorSanitizer.

The sources are copied to a folder of their own and built there with both sanitizers; the tests of `core/native` run on
that build, then `fuzz` for so many seconds. The first error ends the run, with the sanitizer's report.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g"
# Tests that build or import anew, hold the memory of a process to a figure or measure speed have nothing to say here.
TUNED = "tests/core/native/test_choices.py::test_what_is_tuned_in_this_process_is_taken_at_once"
# test_build is one of them: the copy's flags are not those that it asks for.
TESTS = ["tests/core/native", "--deselect", TUNED]
TESTS += [f"--ignore=tests/core/native/test_{name}.py" for name in ("absent", "build", "build_lock", "machines")]


def library(name: str) -> str:
    """Where the compiler keeps a sanitizer's library."""
    found = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout
    path = found.strip()
    if not os.path.isabs(path):
        raise SystemExit(f"sanitized: gcc has no {name}. Remedy: install gcc with its sanitizers")
    return path


def main(argv: list[str] | None = None) -> int:
    """The command; the exit status of what failed first."""
    parser = argparse.ArgumentParser(prog="python -m tests.core.native.sanitized",
                                     description=(__doc__ or "").split("\n")[0])  # fmt: skip
    parser.add_argument("seconds", nargs="?", type=float, default=60.0, help="how long the fuzzer runs")
    parser.add_argument("--no-tests", action="store_true", help="the fuzzer alone")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory("gradlab-sanitized") as name:
        folder = Path(name)
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True,
                                text=True, check=True).stdout.splitlines()  # fmt: skip
        for file in listed:
            if (ROOT / file).is_file():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / file, folder / file)
        # the last -O counts: the project's -O3 would take minutes longer and tell no more
        steps = folder / "core/native/build.py"
        steps.write_text(steps.read_text(encoding="utf-8").replace('"-O3"', '"-O1"'), encoding="utf-8")
        build = {**os.environ, "CFLAGS": FLAGS, "LDFLAGS": FLAGS, "GRADLAB_REQUIRE_NATIVE": "1"}
        print(f"building with {FLAGS}", flush=True)
        code = 'from setuptools import setup; setup(script_args=["-q", "build_ext", "--inplace"])'
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=folder, env=build, check=True)
        environment = {
            **os.environ,
            "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
            # an interpreter frees not all it has at its end; what is too large for any memory is an error of Python's
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
            "PYTHONPATH": str(folder),
            "PYTHONMALLOC": "malloc",  # else an array's end lies within the interpreter's own blocks
            "GRADLAB_REQUIRE_NATIVE": "1",
        }
        runs = [] if options.no_tests else [["-m", "pytest", "-q", "-p", "no:cacheprovider", "--capture=sys", *TESTS]]
        for run in [*runs, ["-m", "tests.core.native.fuzz", str(options.seconds)]]:
            status = subprocess.run([sys.executable, *run], cwd=folder, env=environment, check=False).returncode
            if status:
                return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
