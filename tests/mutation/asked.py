"""Which tests are asked about a fault, and in which order: the stages of its part, and the tests that pass its line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .copies import ROOT, SLOW

PARTS = {
    "core/native": [
        f"core/native/{room}/**/*.{kind}" for room in ("kernels", "runtime", "sampler", "binding") for kind in "ch"
    ],
    "core/ops": ["core/ops/*.py"],
    "lab/diagnose": ["lab/diagnose/**/*.py"],
    "triton_kernels": ["triton_kernels/*.py", "triton_kernels/tune/*.py"],
}
TESTS = {"core/native": "tests/core/native", "core/ops": "tests/core/ops", "lab/diagnose": "tests/lab/diagnose",
         "triton_kernels": "tests/triton_kernels"}  # fmt: skip


class Stage(NamedTuple):
    """Tests that are asked together: files and folders, but not those left out, and a word of their names."""

    paths: list[str]
    without: str = ""
    word: str = ""

    def arguments(self) -> list[str]:
        """Return what pytest is told."""
        ignored = [f"--ignore={self.without}"] if self.without else []
        return [*self.paths, *ignored, *(["-k", self.word] if self.word else [])]

    def has(self, test: str) -> bool:
        """Return whether a test's id is one of this stage."""
        file = test.partition("::")[0]
        if not any(_under(file, path) for path in self.paths) or any(_under(file, path) for path in SLOW):
            return False
        if self.without and _under(file, self.without):
            return False
        return not self.word or ("cuda" in test.lower()) != self.word.startswith("not")


def _under(file: str, path: str) -> bool:
    return file == path or file.startswith(path + "/")


def part_of(file: str) -> str:
    """Return the part that a file belongs to."""
    return next(part for part in PARTS if file.startswith(part + "/"))


def nearest(file: str) -> list[Stage]:
    """Return the stages of tests for a file, from the nearest to the widest."""
    path = Path(file)
    stem = path.stem
    part = part_of(file)
    folder = TESTS[part] + ("/tune" if path.parent.name == "tune" else "")
    near = [str(p) for p in sorted(Path(ROOT, folder).glob("test_*.py"))
            if stem in p.stem or p.stem.removeprefix("test_") in stem]  # fmt: skip
    near = [os.path.relpath(p, ROOT) for p in near]
    if file.endswith(".py"):
        near.insert(0, file)  # its examples
    wide = {
        "core/native": [
            Stage([folder, "tests/lab/recorder/test_stack_sampler.py"]),
            Stage(["tests/core"], folder),
            Stage(["tests/conformance"]),
        ],
        "core/ops": [
            Stage([folder]),
            Stage(["tests/conformance"], word="not cuda"),
            Stage(["tests/core", "tests/test_programs.py"], folder),
        ],
        "lab/diagnose": [
            Stage([f"{folder}/test_planted.py", f"{folder}/test_findings_page.py"]),
            Stage([folder]),
            Stage(["tests/lab"], folder),
        ],
        "triton_kernels": [
            Stage([folder]),
            Stage(["tests/conformance"], word="cuda"),
            Stage(["tests/core/backends", "tests/lab"]),
        ],
    }[part]
    return ([Stage(near)] if near else []) + wide


def every(files: Iterable[str]) -> list[str]:
    """Return the paths in which all tests lie that are asked about any of the files."""
    found = {path for file in files for stage in nearest(file) for path in stage.paths}
    return sorted(path for path in found if not any(_under(path, other) for other in found - {path}))


class Recording(NamedTuple):
    """What two runs of the tests without a fault have seen, one in order and one in reversed order."""

    probed: set[int]
    runs: list[dict[str, Any]]

    def passing(self, number: int, file: str) -> set[str]:
        """Return the tests that pass a probe or read the file's text, and those of which nothing is known.

        Nothing is known of a test that has failed in every run: it may have ended before the line. Where it passed in
        one, that run tells.
        """
        found = set.intersection(*(set(run["failed"]) for run in self.runs)) if self.runs else set()
        for run in self.runs:
            found |= {test for test, numbers in run["passed"].items() if number in numbers}
            found |= set(run["readers"].get(file, ()))
        return found

    def complete(self, number: int) -> bool:
        """Return whether no other test can depend on the line.

        It can where no probe could be made, where the line ran outside the tests (an import, a declaration), and where
        the order of the tests decides who runs it: somebody runs it once and others use what came of it.
        """
        if number not in self.probed or not self.runs or any(number in run["outside"] for run in self.runs):
            return False
        passed = [{test for test, numbers in run["passed"].items() if number in numbers} for run in self.runs]
        return all(tests == passed[0] for tests in passed)

    def seconds(self, tests: Iterable[str]) -> dict[str, float]:
        """Return each test's processor time, the longer of the two runs."""
        return {test: max((run["seconds"].get(test, 0.0) for run in self.runs), default=0.0) for test in tests}
