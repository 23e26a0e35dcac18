"""A user's own file or folder that is called as one of our packages: what hides which, and the remedy, is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# as an editable installation by a finder finds us: after all folders, so that a folder without __init__.py hides us too
# (by a line in a .pth file it does not, for a package comes before such a folder wherever it stands on sys.path)
FINDER = f"""
import importlib.machinery, sys
sys.path[:] = [p for p in sys.path if p != {str(ROOT)!r}]
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.machinery.PathFinder.find_spec(name, [{str(ROOT)!r}]) if path is None else None
sys.meta_path.insert(1 + sys.meta_path.index(importlib.machinery.PathFinder), Finder)
"""
IPYTHON = """
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
shell = InteractiveShell.instance(config=Config({'HistoryManager': {'enabled': False}}))
shell.colors = 'nocolor'
"""
FORMS = ("file", "package", "folder")


def put(folder: Path, name: str, form: str) -> Path:
    """The user's own module, which prints when it runs."""
    if form == "file":
        made = folder / f"{name}.py"
        made.write_text("print('mine ran')")
        return made
    made = folder / name
    made.mkdir()
    (made / ("__init__.py" if form == "package" else "data.py")).write_text("print('mine ran')")
    return made


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a folder, which Python then looks into first."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-c", FINDER + code], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["core", "widgets"])
def test_what_hides_what_lab_needs(tmp_path: Path, name: str, form: str) -> None:
    made = put(tmp_path, name, form)
    kind = "file" if form == "file" else "folder"
    ran = run(tmp_path, IPYTHON + "shell.run_cell('%load_ext lab')" if form == "file" else "import lab")
    said = ran.stdout + ran.stderr
    assert f"ImportError: {name}: the {kind} {made} hides gradlab's package '{name}' ({ROOT / name})" in said
    assert f"Remedy: rename the {kind}" in said
    assert "mine ran" not in said
    already = run(tmp_path, f"import {name}\nimport lab")
    assert f"{made} hides gradlab's package" in already.stderr


@pytest.mark.by_turns
@pytest.mark.parametrize("form", FORMS)
def test_what_hides_the_kernels_is_the_reason_why_there_is_no_gpu(tmp_path: Path, form: str) -> None:
    made = put(tmp_path, "triton_kernels", form)
    code = "import core, lab\nassert (core.ones(3) + 1).sum() == 6\n"
    ran = run(tmp_path, code + "print(core.backends.cuda.availability())\ncore.ones(3, device='cuda')")
    assert f"{made} hides gradlab's package 'triton_kernels'" in ran.stdout
    assert f"{made} hides gradlab's package 'triton_kernels'" in ran.stderr.splitlines()[-1]
    ran = run(tmp_path, code + IPYTHON + "shell.run_line_magic('load_ext', 'lab')\nshell.run_cell('%tune')")
    assert f"{made} hides gradlab's package 'triton_kernels'" in ran.stdout + ran.stderr
    ran = run(tmp_path, "import lab.__main__\nlab.__main__.main(['doctor'])")
    assert f"{made} hides gradlab's package 'triton_kernels'" in ran.stdout
    assert ran.stdout.count("Rename the") == 1


@pytest.mark.by_turns
@pytest.mark.parametrize("form", FORMS)
def test_what_hides_lab_is_said_by_core(tmp_path: Path, form: str) -> None:
    made = put(tmp_path, "lab", form)
    ran = run(tmp_path, IPYTHON + "shell.run_cell('import core')\nshell.run_cell('print(core.ones(2).sum())')")
    assert f"%load_ext lab will not find it: the {'file' if form == 'file' else 'folder'} {made} hides" in ran.stderr
    assert "tensor(2.)" in ran.stdout
    strict = "import warnings\nwarnings.simplefilter('error')\nimport core\nprint('whole', core.ones(2).sum())"
    assert "whole tensor(2.)" in run(tmp_path, "import IPython\n" + strict).stdout
    assert run(tmp_path, "import core").stderr == ""  # a program without a notebook may call its own package so
    ran = run(tmp_path, "import core.__main__, sys\nsys.exit(core.__main__.main())")
    assert ran.returncode == 1
    assert f"✕ lab: the {'file' if form == 'file' else 'folder'} {made} hides" in ran.stdout
    assert "✓ widgets" in ran.stdout


@pytest.mark.by_turns
def test_nothing_is_said_where_nothing_hides(tmp_path: Path) -> None:
    (tmp_path / "cores.py").write_text("")
    ran = run(tmp_path, IPYTHON + "shell.run_cell('import core\\n%load_ext lab')")
    assert (ran.stdout, ran.stderr) == ("", "")
    assert run(tmp_path, "import core.__main__, sys\nsys.exit(core.__main__.main())").returncode == 0
