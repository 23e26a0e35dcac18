"""``python -m tests.packages.census --path FOLDER ...``: which of PyTorch's names packages use, and which core has.

The Python files of the packages in the folders are read, not imported; a package's own tests are left out. A name
counts as there where the module that stands for ``torch`` gives it and it does more than raise. Names that begin with
an underscore, and names that the PyTorch beside it has not either (they are of older ones), are counted apart; so are
the methods of tensors, of which the text of a program tells no more than a name.

``--json FILE`` writes everything, ``--rest N`` says how many of the missing names are printed.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
import types
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
# folders beside packages that are none, and PyTorch itself
OTHERS = {"test", "tests", "docs", "examples", "example", "benchmarks", "scripts", "bin", "share", "torch", "functorch",
          "torchgen", "caffe2", "build", "recipes", "extensions", "extension_templates", "sota-implementations",
          "sphinx"}  # fmt: skip
TESTS = re.compile(r"tests?|testing|unit_?tests|test_.*\.py|.*_tests?\.py|conftest\.py")
PYTHONS = {
    name for kind in (str, bytes, list, dict, set, tuple, int, float, complex, type, object) for name in dir(kind)
}
PYTHONS |= {*dir(np.ndarray), *dir(np), *dir(Path)}

Uses = dict[str, Counter[str]]  # by name, how often each package uses it


def files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the package and the path of each Python file below a folder, without tests."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        if parts[0] not in OTHERS and not any(TESTS.fullmatch(p) for p in parts[1:]):
            yield parts[0].removesuffix(".py"), path


def names(tree: ast.AST) -> Counter[str]:
    """Return how often a file uses each of PyTorch's names; a name with a leading dot is a method that is called.

    >>> tree = ast.parse("import torch.nn as nn; from torch import ones as o; o(2).erfinv_(); nn.Linear.forward")
    >>> sorted(names(tree).items())
    [('.erfinv_', 1), ('torch.nn', 1), ('torch.nn.Linear.forward', 1), ('torch.ones', 2)]
    """
    found: Counter[str] = Counter()
    short: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.partition(".")[0] == "torch":
                    found[one.name] += 1
                    short[one.asname or "torch"] = one.name if one.asname else "torch"
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] == "torch":
            for one in node.names:
                if one.name != "*":
                    found[f"{node.module}.{one.name}"] += 1
                    short[one.asname or one.name] = f"{node.module}.{one.name}"
    if short:
        found += _chains(tree, short)
    return found


def _chains(tree: ast.AST, short: dict[str, str]) -> Counter[str]:
    """Return the names that begin with one of the imported ones, each as long as it is written, and called methods."""
    found: Counter[str] = Counter()
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found[f".{node.func.attr}"] += not _dotted(node.func, short)
        if isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner:
            name = _dotted(node, short)
            below: Any = node
            while isinstance(below, ast.Attribute):
                below = below.value
                inner.add(id(below))
            if name and isinstance(node.ctx, ast.Load):
                found[name] += 1
    return found


def _dotted(node: ast.AST, short: dict[str, str]) -> str:
    """Return what an expression names below ``torch``; "" where it is something else."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in short:
        return ""
    return ".".join([short[node.id], *reversed(parts)])


def gather(folders: Iterable[Path]) -> tuple[Uses, Counter[str]]:
    """Return who uses which name, and how many files of each package import PyTorch."""
    uses: Uses = defaultdict(Counter)
    importing: Counter[str] = Counter()
    for folder in folders:
        for package, path in files(folder):
            source = path.read_text(errors="replace")
            if "torch" not in source:
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = names(ast.parse(source))
            except SyntaxError:  # a template, or another version's grammar
                continue
            importing[package] += bool(found)
            for name, n in found.items():
                uses[name][package] += n
    return uses, importing


def only_raises(found: Any) -> bool:
    """Return whether a function does nothing but raise: it refuses, as what is marked absent does.

    >>> def no(x): raise NotImplementedError
    >>> only_raises(no), only_raises(only_raises)
    (True, False)
    """
    if not isinstance(found, types.FunctionType):
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(found))).body[0]
    except (OSError, SyntaxError, TypeError, IndentationError):
        return False
    if not isinstance(tree, ast.FunctionDef):
        return False
    body = [x for x in tree.body if not (isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant))]
    never = isinstance(tree.returns, ast.Name) and tree.returns.id == "NoReturn"
    return never or (len(body) == 1 and isinstance(body[0], ast.Raise))


def resolve(name: str, whole: bool = False) -> tuple[str, str, str]:
    """Return a name without what is asked of a value, the module that has it, and "there", "refuses" or "".

    whole : nothing of the name is asked of a value.

    >>> import core
    >>> with core.as_torch():
    ...     resolve("torch.float32.itemsize"), resolve("torch.nn.no.such")
    (('torch.float32', 'torch', 'there'), ('torch.nn.no.such', 'torch.nn', ''))
    """
    first, *rest = name.split(".")
    owner: Any = importlib.import_module(first)
    place, told = first, first
    for part in rest:
        inside = isinstance(owner, types.ModuleType)
        if not (inside or isinstance(owner, type) or whole):
            break
        owner, found = _part(owner, part, f"{told}.{part}" if inside else "")
        if not found:
            return name, place, ""
        told = f"{told}.{part}"
        place = told if isinstance(owner, types.ModuleType) else place
    return told, place, _state(owner)


def _part(owner: Any, part: str, module: str) -> tuple[Any, bool]:
    """Return an attribute, or the module of that name, and whether there is one."""
    try:
        return getattr(owner, part), True
    except Exception:
        try:
            return (importlib.import_module(module), True) if module else (None, False)
        except BaseException:
            return None, False


def _state(found: Any) -> str:
    from core.base.absent import is_absent

    return "refuses" if is_absent(found) or only_raises(found) else "there"


def of_pytorch(wanted: Iterable[str]) -> dict[str, tuple[str, str, str]]:
    """Return what `resolve` says of the names in the PyTorch that is installed; {} where there is none."""
    code = ("import json, sys, warnings; warnings.simplefilter('ignore')\ntry: import torch\n"
            "except ImportError: sys.exit(3)\nfrom tests.packages.census import resolve\n"
            "out = {n: resolve(n) for n in json.load(sys.stdin)}\n"
            "out |= {'.' + n: ('', '', '') for n in dir(torch.Tensor)}\n"
            "print('\\nfound', json.dumps(out), flush=True); import os; os._exit(0)")  # fmt: skip
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps(sorted(wanted)), capture_output=True,
                          text=True, env=env)  # fmt: skip
    line = next((x for x in reversed(done.stdout.splitlines()) if x.startswith("found ")), None)
    return {} if line is None else json.loads(line.removeprefix("found "))


def _as_theirs(state: str, theirs: str) -> str:
    """Return the state of a name; what only raises in PyTorch too, for subclasses to write, is there."""
    return "there" if state == theirs == "refuses" else state


def private(name: str) -> bool:
    """Return whether a part of a name begins with one underscore."""
    return any(p.startswith("_") and not p.startswith("__") for p in name.split("."))


def judged(uses: Uses) -> dict[str, dict[str, Any]]:
    """Return by name, cut where a value begins: its group, the module that has it, its state, its packages and uses."""
    import core

    wanted = sorted(n for n in uses if not n.startswith("."))
    theirs = of_pytorch(wanted)
    table: dict[str, dict[str, Any]] = {}
    with core.as_torch(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in wanted:
            cut, place, known = theirs.get(name) or resolve(name)
            group = "private" if private(cut) else "public" if known or not theirs else "older"
            if cut not in table:
                table[cut] = {
                    "group": group,
                    "module": place,
                    "state": _as_theirs(resolve(cut, whole=True)[2], known if theirs else ""),
                    "packages": Counter(),
                }
            table[cut]["packages"].update(uses[name])
        import torch

        for name in (n for n in uses if n.startswith(".") and n[1:] not in PYTHONS):
            if name in theirs or (not theirs and hasattr(torch.Tensor, name[1:])):
                method = getattr(torch.Tensor, name[1:], None)
                state = "" if method is None else _state(method)
                table[f"torch.Tensor{name} (called)"] = {"group": "private" if private(name[1:]) else "method",
                    "module": "methods", "state": state, "packages": uses[name]}  # fmt: skip
    return table


def shares(table: dict[str, dict[str, Any]], group: str, module: str = "") -> tuple[int, int, int, int, int, int]:
    """Return of a group how many names are there, refuse, and are used at all; and the same of the uses."""
    rows = [r for r in table.values() if r["group"] == group and (not module or r["module"] == module)]
    n = [sum(r["state"] == s for r in rows) for s in ("there", "refuses")]
    u = [sum(r["packages"].total() for r in rows if r["state"] == s) for s in ("there", "refuses")]
    return n[0], n[1], len(rows), u[0], u[1], sum(r["packages"].total() for r in rows)


def _said(of: tuple[int, int, int, int, int, int]) -> str:
    n, no, names_, u, refused, uses = of
    return (f"names {n:5}/{names_:5} {n / max(1, names_):6.1%}   uses {u:7}/{uses:7} {u / max(1, uses):7.2%}   "
            f"named, refuse: {no} names, {refused} uses")  # fmt: skip


GROUPS = {
    "public": "public names",
    "method": "methods called on something",
    "private": "names with an underscore",
    "older": "names that PyTorch has not either",
}


def report(table: dict[str, dict[str, Any]], importing: Counter[str], rest: int) -> None:
    """Print the table."""
    print(f"{sum(n > 0 for n in importing.values())} packages, {importing.total()} files that import torch\n")
    for group, title in GROUPS.items():
        print(f"{title:34}{_said(shares(table, group))}")
    print("\nPublic names by module")
    for module in sorted({r["module"] for r in table.values() if r["group"] == "public"}):
        print(f"  {module:44}{_said(shares(table, 'public', module))}")
    for group, title in GROUPS.items():
        if group == "older":
            continue
        missing = [(len(r["packages"]), r["packages"].total(), n, r) for n, r in table.items()
                   if r["group"] == group and r["state"] != "there"]  # fmt: skip
        missing.sort(key=lambda m: (-m[0], -m[1], m[2]))
        print(f"\nNot there, {title}: {len(missing)}, by packages and uses")
        for packages, n, name, r in missing[:rest]:
            who = ", ".join(p for p, _ in r["packages"].most_common(6))
            print(f"  {packages:3} {n:5}  {name}{'  (refuses)' if r['state'] else ''}  {who}")


def main(argv: list[str] | None = None) -> None:
    """Read the folders and print what they use."""
    options = argparse.ArgumentParser(prog="python -m tests.packages.census", description=__doc__.split("\n\n")[0])
    options.add_argument("--path", nargs="+", type=Path, required=True, metavar="FOLDER")
    options.add_argument("--json", type=Path, metavar="FILE")
    options.add_argument("--rest", type=int, default=100, metavar="N")
    chosen = options.parse_args(argv)
    uses, importing = gather(chosen.path)
    table = judged(uses)
    report(table, importing, chosen.rest)
    if chosen.json:
        chosen.json.write_text(json.dumps(table, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
