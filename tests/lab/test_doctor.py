"""`python -m lab doctor` says each thing once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def without_c(tmp_path: Path) -> dict[str, str]:
    """The environment of a process in which the C extension is not built."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['core.native._native'] = None\n")
    environment = {k: v for k, v in os.environ.items() if k != "GRADLAB_NATIVE"}
    return environment | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}


@pytest.mark.by_turns
def test_what_is_missing_is_said_once(without_c: dict[str, str]) -> None:
    ran = subprocess.run([sys.executable, "-m", "lab", "doctor"], env=without_c, capture_output=True, text=True)
    assert ran.returncode == 0
    said = ran.stdout + ran.stderr
    assert "Warning" not in said
    assert said.count("core runs on NumPy") == 1
    assert said.count("C compiler") == 1
    assert all(said.count(f"pip install {what}") <= 1 for what in ("'gradlab[gpu]'", "triton"))
    ran = subprocess.run(
        [sys.executable, "-m", "lab", "doctor", "--json"], env=without_c, capture_output=True, text=True
    )
    kernels = next(check for check in json.loads(ran.stdout) if check["name"] == "C kernels")
    assert kernels["state"] == "missing"
    assert kernels["found"] == "core runs on NumPy: the C extension is not built"


def test_a_script_that_imports_lab_is_warned_at_its_own_line(without_c: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("x = 1\nimport lab\n")
    ran = subprocess.run([sys.executable, script], env=without_c, capture_output=True, text=True)
    assert ran.stderr.startswith(f"{script}:2: NativeWarning: core runs on NumPy")
    assert ran.stderr.count("NativeWarning") == 1
