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
# PyTorch's public path torch.random is a module, so core.random is one too, and so on
LIKE_THE_STANDARD_LIBRARY = {"core/random.py", "core/signal/__init__.py", "core/multiprocessing.py", "core/types.py"}
MAX_LINES = 500
# Inside core and lab each folder imports from itself and from those before it. What is not named here, PyTorch's public
# paths and lab's commands, stands above them all.
FLOORS = {
    "core": ("native", "base", "declare", "events", "graph", "tensors", "rng", "backends", "dispatch", "autograd",
             "ops"),
    "lab": ("console", "recorder", "diagnose", "adapters", "report", "session", "prove", "training",
            "shrinking", "planning", "ranks", "tuning", "notebook", "serving", "benchmarks", "pages"),
}  # fmt: skip
# files that stand elsewhere than their folder: tools that print or check what is declared above, public functions
ELSEWHERE = {
    "core.return_types": "base", "core.native.emit": "", "core.native.emit_updates": "", "core.native.tunables": "",
    "core.backends.compile_check": "", "core.autograd.forward_ad": "", "core.autograd.functional": "",
    "core.autograd.gradcheck": "", "core.autograd.opcheck": "", "core.autograd.profiler": "",
    "core.autograd.transformed": "", "core.autograd": "", "core.random": "ops", "core.utils.checkpoint": "ops",
    "core.utils.selective": "ops", "core.utils.reentrant": "ops",
    **dict.fromkeys(["core.sparse", *(f"core.sparse.{n}" for n in ("gradient", "making", "methods", "pattern",
                                                                   "products", "rules"))], "ops"),
}  # fmt: skip
# imports inside functions, each with its reason
INSIDE = {
    "core.cuda.graphs": "one of a pair: graphed callables are made of graphs, and asked for among them",
    "core.distributed.rank_cells": "MPI begins when it is imported, after the fork",
    "core.distributed.groups": "MPI begins with a world of more than one process",
    "core.distributed.joining": "MPI begins where the processes have joined",
    "core.dispatch.vmap": "the rules of vmap are loaded with its first use, and build on it",
    "core.library": "compiles C: loaded when an op is given as C",
    "core.native.emit": "one of a pair, run when the extension is built",
    "core.nn.utils.clip_grad": "the optimizers are not loaded with core",
    "core.ops.embedding": "core.sparse is not loaded with core",
    "core.ops.joining": "index_select is built of what joins",
    "core.ops.linear_loss": "core.utils is not loaded with core",
    "core.ops.sparse_names": "core.sparse is not loaded with core",
    "core.serialization": "each file format is loaded when a file of it is read or written",
    "lab": "IPython is needed by %load_ext alone",
    "lab.adapters": "PyTorch's adapter is loaded where the session has imported PyTorch",
    "lab.notebook.card_buttons": "one of a pair with the tuner's panel, which is loaded when a button asks for it",
    "lab.notebook.magics": "the tuner is loaded by the first %tune",
    "lab.notebook.tuned_display": "the tuner is loaded when a cell shows what it returned",
    "lab.notebook.op_magics": "compilers are loaded by the first cell with a kernel",
}
CIRCLES = 3  # files that import one another, at most


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


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def edges() -> dict[str, dict[str, bool]]:
    """Of every file of core and lab the files of its package that it imports, and whether only inside functions."""
    files = {module_of(p): p for package in FLOORS for p in (ROOT / package).rglob("*.py")}
    found: dict[str, dict[str, bool]] = {}
    for name, path in files.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        mine = found[name] = {}
        stack: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text()), False)]
        while stack:
            node, inside = stack.pop()
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            if isinstance(node, ast.ImportFrom) and node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])
                for alias in node.names:
                    target = f"{base}.{alias.name}" if f"{base}.{alias.name}" in files else base
                    if target in files and target != name:
                        mine[target] = mine.get(target, True) and inside
            inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            stack += [(child, inside) for child in ast.iter_child_nodes(node)]
    return found


def floor(name: str) -> int:
    """The number of a file's floor in its package."""
    package, *parts = name.split(".")
    folder, floors = ELSEWHERE.get(name, parts[0] if parts else ""), FLOORS[package]
    return floors.index(folder) if folder in floors else len(floors)


def test_floors_import_downwards():
    wrong = [f"{a} imports {b}" for a, found in edges().items() for b in found if floor(b) > floor(a)]
    assert not wrong, f"a lower floor must not know a higher one: {wrong}"


def test_every_folder_of_lab_is_a_floor():
    folders = {p.parent.name for p in (ROOT / "lab").glob("*/__init__.py")}
    assert folders == set(FLOORS["lab"])
    assert {p.stem for p in (ROOT / "lab").glob("*.py")} == {
        "__init__", "__main__", "doctor", "prerequisites", "rows", "run", "tour",
    }  # fmt: skip


def test_lab_imports_the_layers_below_it_at_the_top_of_its_files():
    """What is imported inside functions is Jupyter's, and optional."""
    wrong = []
    for path in (ROOT / "lab").rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            for node in ast.walk(function) if isinstance(function, ast.FunctionDef) else ():
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
                wrong += [f"{name(path)}:{node.lineno} imports {n}" for n in names if n.split(".")[0] not in NOTEBOOK]
    assert not wrong, f"import it at the top of the file: {wrong}"


def test_imports_inside_functions_are_listed_with_their_reasons():
    found = {a for a, targets in edges().items() if any(targets.values())}
    assert found == set(INSIDE), "list it in INSIDE with its reason, or import at the top of the file"


def test_no_circle_of_imports_is_large():
    reach: dict[str, set[str]] = {}
    for name in edges():
        seen, stack = set(), [name]
        while stack:
            new = set(edges()[stack.pop()]) - seen
            seen |= new
            stack += new
        reach[name] = seen
    circles = {frozenset(b for b in seen if a in reach[b]) for a, seen in reach.items() if a in seen}
    assert not [sorted(c) for c in circles if len(c) > CIRCLES]


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
    assert (
        floor("core.ops.softmax") > floor("core.dispatch.declare") > floor("core.tensors.tensor") > floor("core.base")
    )
    assert floor("lab.run") > floor("lab.notebook.magics") > floor("lab.recorder.observer") > floor("lab.console")
    assert "lab.recorder.cell_trace" in edges()["lab.diagnose.finding"]
    assert {"core.tensors.tensor", "core.graph.node", "core.autograd.vjp", "numpy"} <= set(engine)
