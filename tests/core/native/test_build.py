"""The build step: all cores, CFLAGS that stand in place of ours, and what an editable installation leaves behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from setuptools import Distribution

from core.native import build

ROOT = Path(__file__).parents[3]
PACKAGES = ("core", "core/native", "lab", "triton_kernels", "widgets")


def test_an_editable_installation_is_a_line_in_a_pth_file_and_has_bytecode(tmp_path: Path) -> None:
    """No finder that every start of Python would import; no source that every `import core` would compile."""
    for package in PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
    for name in ("pyproject.toml", "README.md", "LICENSE", "core/native/build.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    environment = {k: v for k, v in os.environ.items() if k not in ("GRADLAB_REQUIRE_NATIVE", "PYTHONPATH")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [sys.executable, "-W", "ignore", "-c", "from setuptools.build_meta import *; build_editable('out')"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tmp_path / "out").glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        code = [name for name in packed.namelist() if ".dist-info/" not in name]
        assert code == ["__editable__.gradlab-0.1.0.pth"]
        assert packed.read(code[0]).decode() == f"{tmp_path}\n"
    for package in PACKAGES:
        assert list((tmp_path / package / "__pycache__").glob("__init__.*.pyc")), package


@pytest.mark.parametrize(
    ("asked", "gone"),
    [("", set()), ("-O1", {"-O3"}), ("-fsanitize=address -g", {"-g0"}), ("-ggdb -Og", {"-O3", "-g0"})],
)
def test_what_cflags_ask_for_is_not_overridden(monkeypatch: pytest.MonkeyPatch, asked: str, gone: set[str]) -> None:
    monkeypatch.setenv("CFLAGS", asked)
    assert build.flags() == [flag for flag in build.FLAGS if flag not in gone]
    assert gone <= set(build.FLAGS)


def test_files_are_compiled_on_all_cores_and_linked_in_their_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As many files at a time as there are cores, the largest first: each of the first three waits for the others."""
    sources = [str(tmp_path / name) for name in ("a.c", "b.c", "c.c", "d.c")]
    for source, size in zip(sources, (1, 40, 30, 20), strict=True):
        Path(source).write_text(" " * size)
    together, begun, linked = threading.Barrier(3), [], []

    class Compiler:
        def compile(self, files: list[str], **options: Any) -> list[str]:
            begun.extend(files)
            if len(begun) <= 3:
                together.wait(60)
            return [file + ".o" for file in files]

    def link(self: Any, extension: Any) -> None:
        linked.extend(self.compiler.compile(sources))

    monkeypatch.setattr(build, "cores", lambda: 3)
    monkeypatch.setattr(build.build_ext, "build_extension", link)
    command = build.BuildExt(Distribution())
    command.compiler = Compiler()
    command.build_extension(None)
    assert sorted(begun[:3]) == sources[1:]
    assert begun[3] == sources[0]
    assert linked == [source + ".o" for source in sources]


def test_the_printed_stubs_reach_what_becomes_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel's other files are gathered before the stubs are printed."""
    monkeypatch.chdir(tmp_path)
    printed = tmp_path / build.NATIVE / "generated"
    printed.mkdir(parents=True)
    (printed / "methods.pyi").write_text("class Methods: ...")
    command = build.BuildExt(Distribution())
    command.build_lib = str(tmp_path / "lib")
    command._copy_stubs()
    assert (tmp_path / "lib" / build.NATIVE / "generated" / "methods.pyi").read_text() == "class Methods: ..."


def test_what_is_to_be_packed_beside_python_files_is_there() -> None:
    """A pattern without a file is silent: without core/py.typed a type checker ignores the installed package."""
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    for package, patterns in packed.items():
        for pattern in patterns:
            if (package, pattern) == ("triton_kernels", "bundled/*.json"):
                continue  # no GPU's choices ship yet
            assert list((ROOT / package.replace(".", "/")).glob(pattern)), (package, pattern)
