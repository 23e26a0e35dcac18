"""Two builds at once take their turns; a build that is killed blocks nobody."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fcntl")
BUILD = Path(__file__).parents[3] / "core/native/build.py"
# The real `run`, with the printing and the compiling replaced: it says that it is inside and stays until it is told.
PROGRAM = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("build", {str(BUILD)!r})
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)

class Command(build.BuildExt):
    def _prepare(self):
        print("inside", flush=True)
        sys.stdin.readline()
        if "fail" in sys.argv:
            raise OSError("no compiler")

build.build_ext.run = lambda self: print("compiled", flush=True)
from setuptools import Distribution
command = Command(Distribution())
command.extensions = []
command.run()
"""
WAITING = "another build of these sources is running (build/native.lock); waiting for its end\n"


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    # where an extension is required (in CI), a build that fails is an error; here it is a warning
    environment = {k: v for k, v in os.environ.items() if k != "GRADLAB_REQUIRE_NATIVE"}
    program = [sys.executable, "-W", "ignore", "-c", PROGRAM, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(program, cwd=folder, text=True, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)


@pytest.mark.parametrize("how", ["", "fail", "kill"])
def test_the_second_waits_for_the_end_of_the_first(tmp_path: Path, how: str) -> None:
    with start(tmp_path, how) as first:
        assert first.stdout.readline() == "inside\n"  # type: ignore[union-attr]
        with start(tmp_path) as second:
            assert second.stderr.readline() == WAITING  # type: ignore[union-attr]
            if how == "kill":
                first.kill()
                first.wait(60)
            else:
                assert first.communicate("\n", timeout=60)[0] == "compiled\n"
            assert second.communicate("\n", timeout=60) == ("inside\ncompiled\n", "")
            assert second.returncode == 0
    assert stat.S_IMODE((tmp_path / "build/native.lock").stat().st_mode) == 0o600


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "build/native.lock").symlink_to(tmp_path / "elsewhere")
    with start(tmp_path) as only:
        assert "Too many levels of symbolic links" in only.communicate("\n", timeout=60)[1]
    assert not (tmp_path / "elsewhere").exists()
