"""An elementwise op is added by one declaration: in a copy of the tree, it then passes conformance on every backend."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def declaration() -> str:
    """The declaration that CONTRIBUTING.md shows."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return textwrap.dedent(text.split("```python\n")[1].split("```")[0])


def run(folder: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder), "TRITON_INTERPRET": "1", "GRADLAB_REQUIRE_NATIVE": "1"}
    environment["CFLAGS"] = "-O0"  # what is right without optimisation is compiled in a sixth of the time
    done = subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_one_declaration_gives_an_op_on_every_backend(tmp_path: Path) -> None:
    for name in ("core", "triton_kernels"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "__pycache__", "generated"))
    (tmp_path / "tests").mkdir()
    shutil.copytree(ROOT / "tests" / "conformance", tmp_path / "tests" / "conformance")
    tests = [f"tests/{name}.py" for name in ("__init__", "conftest", "thinning")]
    for name in ("pyproject.toml", "README.md", "LICENSE", *tests):
        shutil.copy(ROOT / name, tmp_path / name)
    with open(tmp_path / "core/ops/elementwise.py", "a") as f:
        f.write("\n\n" + declaration())
    run(tmp_path, "-c", "from setuptools import setup; setup()", "-q", "build_ext", "--inplace")
    where = run(tmp_path, "-c", "import core; print(core.__file__)")
    assert str(tmp_path) in where
    out = run(tmp_path, "-m", "pytest", "-q", "tests/conformance/test_elementwise.py", "-k", "bent_identity")
    assert "passed" in out
    assert "failed" not in out
    question = "[core.explain('bent_identity', core.ones(3, device=d)).runs for d in ('cpu', 'cuda')]"
    kernels = run(tmp_path, "-c", f"import core; print({question})")
    assert "bent_identity_f32" in kernels
    assert "Triton" in kernels
