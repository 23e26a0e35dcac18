"""Without the C extension everything runs on NumPy, and one warning names the user's own import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import core

TEXT = """import sys
sys.modules["core.native._native"] = None  # as if it had not been built
import core
x = core.tensor([[1.0, 2.0]], requires_grad=True)
core.softmax(x, 1)[0, 0].backward()
print([round(v, 4) for v in x.grad[0].tolist()], core.explain("softmax", x, 1).runs.backend)
"""


def run(file: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(core.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, str(file)],
        env={**os.environ, "PYTHONPATH": root, **environment},
        capture_output=True,
        text=True,
        check=True,
    )


def test_one_warning_that_names_the_import(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(TEXT)
    ran = run(file)
    assert ran.stdout == "[0.1966, -0.1966] NumPy\n"
    warning, line = ran.stderr.splitlines()
    assert warning.startswith(f"{file}:3: NativeWarning: core runs on NumPy, without its C kernels: ")
    assert line.strip() == "import core"


def test_turned_off_without_a_word(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(TEXT)
    ran = run(file, GRADLAB_NATIVE="0")
    assert ran.stdout == "[0.1966, -0.1966] NumPy\n"
    assert not ran.stderr


def test_an_extension_of_older_sources(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(TEXT.replace("= None  # as if it had not been built", "= sys  # as if it were another"))
    ran = run(file)
    assert ran.stdout == "[0.1966, -0.1966] NumPy\n"
    assert "was built from older sources than these; install again" in ran.stderr
