"""Runs programs in processes of their own, and gathers how recording changed them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from .compare import UNSEEN, differences, unsteady
from .programs import ROOT, Program, on


@dataclass
class Verdict:
    """What one program under one way of recording showed."""

    program: str
    way: str
    found: list[str]
    loose: list[str] = field(default_factory=list)
    ops: int = 0
    ended: str = ""  # the exception that ends it, recorded or not

    def __str__(self) -> str:
        kind = f"DIFFERENT in {len(self.found)}" if self.found else "same"
        notes = [f"{self.ops} ops"]
        if self.ended:
            notes.append(f"ends in {self.ended}")
        if self.loose:
            notes.append(f"{len(self.loose)} places differ between plain runs, as {self.loose[0]}")
        lines = [f"{kind}: {self.program} ({self.way}; {'; '.join(notes)})"]
        return "\n".join([*lines, *(f"    {line[:400]}" for line in self.found[:8])])


@dataclass
class Harness:
    """Two processes that fork runs: one has the lab imported, one never has."""

    package: str
    path: Path | None = None
    limit_s: float = 120.0
    programs: int = 0
    runs: int = 0
    compared: int = 0
    unrecorded: int = 0
    different: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="differential-"))
        self._zygotes = {kind: self._zygote(kind) for kind in ("plain", "recorded")}
        return self

    def __exit__(self, *raised: object) -> None:
        for zygote in self._zygotes.values():
            zygote.stdin.close()
            zygote.stdout.close()
            zygote.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _zygote(self, kind: str) -> Any:
        paths = [str(ROOT)]
        if self.path is not None:
            packages = self._folder / "packages"
            if not packages.exists():
                self._copy(self.path, packages)
            paths.append(str(packages))
        home = self._folder / "home"
        home.mkdir(exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "IPYTHONDIR": str(home),
            "MPLCONFIGDIR": str(home),
            "XDG_CACHE_HOME": str(home),
            "MPLBACKEND": "Agg",
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "COLUMNS": "120",
        }
        for name in ("GRADLAB_NATIVE",):
            if name in os.environ:
                environment[name] = os.environ[name]
        command = [sys.executable, "-m", "tests.differential.zygote", self.package, kind]
        zygote = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True)
        assert zygote.stdout is not None
        if zygote.stdout.readline() != "ready\n":
            raise RuntimeError(f"the process that runs {kind} programs did not start")
        return zygote

    def _copy(self, source: Path, into: Path) -> None:
        """A folder's copy, whose modules import this harness's package."""
        shutil.copytree(source, into, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        for module in into.rglob("*.py"):
            module.write_text(on(self.package, module.read_text(encoding="utf-8")), encoding="utf-8")

    def run(self, program: Program, way: str, recorded: bool, filled: bool = False) -> dict[str, Any]:
        """One run's observation; `filled`: memory is given with other bytes in it than the system's."""
        self.runs += 1
        folder = self._folder / "run"  # always the same name: a program may show it
        out = self._folder / "out"
        for place in (folder, out):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
        if program.folder:
            self._copy(Path(program.folder), folder)
        into = out / "observation.json"
        task = {
            "way": way,
            "recorded": recorded,
            "filled": filled,
            "cells": [on(self.package, text) for text in program.cells],
            "space": program.space,
            "folder": str(folder),
            "out": str(out),
            "into": str(into),
            "limit_s": self.limit_s,
        }
        zygote = self._zygotes["recorded" if recorded else "plain"]
        zygote.stdin.write(json.dumps(task) + "\n")
        zygote.stdin.flush()
        status = int(zygote.stdout.readline())
        if not into.exists():
            said = (out / "stderr").read_text(errors="replace")[-500:] if (out / "stderr").exists() else ""
            return {"status": f"{UNSEEN}: exit status {status}", "stderr": said.splitlines()}
        return json.loads(into.read_text(encoding="utf-8"))

    def alone(self, program: Program) -> str:
        """How a program ends without recording."""
        told = self.run(program, program.ways[0], False)
        return _ended(told) or "ends well"

    def verdicts(self, program: Program, ways: set[str] | None = None) -> Iterator[Verdict]:
        """A program compared in all of its ways."""
        self.programs += 1
        for way in program.ways:
            if ways is not None and way not in ways:
                continue
            plain, recorded = self.run(program, way, False), self.run(program, way, True)
            loose: set[str] = set()
            found = differences(plain, recorded, loose, program.parts)
            if found:  # by chance, perhaps, or from memory that nobody has written: another plain run shows it too
                loose = unsteady(plain, self.run(program, way, False, filled=True))
                found = differences(plain, recorded, loose, program.parts)
            self.compared += 1
            ops = int(recorded.get("ops", -1))
            self.unrecorded += ops <= 0
            if found:
                self.different.append(f"{program.name} ({way})")
            yield Verdict(program.name, way, found, sorted(loose), ops, _ended(plain))

    def summary(self) -> str:
        """The figures."""
        lines = [
            f"{self.package}: {self.programs} programs, {self.runs} runs, {self.compared} comparisons of a recorded"
            f" with a plain run ({self.unrecorded} recorded no op), {len(self.different)} differences"
        ]
        return "\n".join([*lines, *(f"    {name}" for name in self.different)])


def _ended(told: dict[str, Any]) -> str:
    """The last exception of an observation, in words."""
    if "harness" in told:
        return "the harness failed: " + told["harness"][-600:]
    errors = [error for error in told.get("errors", []) if error]
    if errors:
        last = errors[-1]
        return f"{last['type']}: {last['message'][:200]} {last['frames'][-1:]}"
    return str(told["status"]) if told.get("status") else ""
