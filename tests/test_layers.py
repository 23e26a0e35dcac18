"""The direction of the imports, read from the sources: lab -> widgets -> core -> triton_kernels, and never upwards."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("triton_kernels", "core", "widgets", "lab")  # each may import those before it
NOTEBOOK = {"IPython", "ipywidgets", "ipykernel", "jupyter_client", "jupyter_core", "jupyter_server", "jupyterlab",
            "anywidget", "matplotlib", "nbformat", "nbclient", "traitlets", "sklearn"}  # fmt: skip
# PyTorch's public path torch.random is a module, so core.random is one too
LIKE_THE_STANDARD_LIBRARY = {"core/random.py", "core/signal/__init__.py"}
MAX_LINES = 500


def files() -> list[Path]:
    return [p for layer in LAYERS for p in sorted((ROOT / layer).rglob("*.py"))]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@functools.cache
def imports(path: Path) -> tuple[tuple[int, str, int], ...]:
    """(line, module, level) of every import of a file, at any depth of its code."""
    found: list[tuple[int, str, int]] = []
    tree = ast.parse(path.read_text())
    # what a file does when it is run as a script is outside the package
    tree.body = [node for node in tree.body if not ast.unparse(node).startswith("if __name__ == '__main__':")]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += ((node.lineno, alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.append((node.lineno, node.module or "", node.level))
    return tuple(found)


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """(line, absolute module) of every import."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for line, module, level in imports(path):
        base = package[: len(package) - level + 1] if level else ()
        yield line, ".".join([*base, *([module] if module else [])])


@pytest.fixture(params=files(), ids=name)
def path(request) -> Path:
    return request.param


def test_imports_run_downwards(path):
    layer = path.relative_to(ROOT).parts[0]
    above = set(LAYERS[LAYERS.index(layer) + 1 :])
    wrong = [
        f"{name(path)}:{line} imports {module}" for line, module in imported(path) if module.split(".")[0] in above
    ]
    assert not wrong, f"a lower layer must not know a higher one: {wrong}"


def test_who_may_import_what(path):
    layer = path.relative_to(ROOT).parts[0]
    wrong = []
    for line, module in imported(path):
        top = module.split(".")[0]
        if top in ("torch", "tensorflow", "jax"):
            wrong.append(f"{name(path)}:{line} imports {module}: no such library at run time")
        if top in NOTEBOOK and layer not in ("lab", "widgets"):
            wrong.append(f"{name(path)}:{line} imports {module}: only lab and widgets may")
        if top == "triton" and layer != "triton_kernels":
            wrong.append(f"{name(path)}:{line} imports {module}: only triton_kernels may")
        if top == "cupy" and not name(path).startswith("core/backends/"):
            wrong.append(f"{name(path)}:{line} imports {module}: only core/backends may")
    assert not wrong, wrong


def test_imports_inside_a_package_are_relative(path):
    layer = path.relative_to(ROOT).parts[0]
    wrong = [f"{name(path)}:{line} imports {module}" for line, module, level in imports(path)
             if not level and module.split(".")[0] == layer]  # fmt: skip
    assert not wrong, f"inside a package imports are relative: {wrong}"


def test_no_module_bears_a_standard_name(path):
    stem = path.parent.name if path.name == "__init__.py" else path.stem
    assert stem not in sys.stdlib_module_names or stem == "__main__" or name(path) in LIKE_THE_STANDARD_LIBRARY, (
        f"{name(path)} has the name of a module of the standard library; choose another"
    )


def test_no_file_is_too_long(path):
    lines = len(path.read_text().splitlines())
    assert lines <= MAX_LINES, f"{name(path)} has {lines} lines: what second thing has moved in?"


def test_the_tests_read_something():
    assert {p.relative_to(ROOT).parts[0] for p in files()} == set(LAYERS)
    engine = dict(map(reversed, imported(ROOT / "core/autograd/engine.py")))
    assert {"core.tensor", "core.node", "core.autograd.vjp", "numpy"} <= set(engine)
