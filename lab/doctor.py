"""`python -m lab doctor`: what this machine can do, what it cannot, why not, and what to do about it."""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

import core
from core import native
from core.backends import cuda
from core.base import shadowing

from .console.options import Parser
from .diagnose.finding import capital


@dataclass
class Check:
    """One thing looked at: `state` is "ok", "missing" (something works less well) or "broken" (core does not work)."""

    name: str
    state: str
    found: str
    remedy: str = ""


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _python() -> Check:
    return Check("Python", "ok", f"{platform.python_version()} ({sys.executable})")


def _numpy() -> Check:
    version = _version("numpy")
    if version is None:
        return Check("NumPy", "broken", "not installed", "pip install 'numpy>=2.1'")
    if int(version.split(".")[0]) < 2:
        return Check("NumPy", "broken", version, "pip install 'numpy>=2.1'")
    return Check("NumPy", "ok", version)


def _core() -> Check:
    """One gradient, worked out and compared."""
    try:
        x: Any = vars(core)["tensor"]([2.0, 3.0], requires_grad=True)
        (x * x).sum().backward()
        right = x.grad is not None and x.grad.tolist() == [4.0, 6.0]
    except Exception as error:
        return Check("core", "broken", f"{type(error).__name__}: {error}", "Install again: pip install -e '.[lab]'")
    where = os.path.dirname(os.path.abspath(core.__file__))
    if not right:
        return Check("core", "broken", "gives a wrong gradient of x*x", "Install again: pip install -e '.[lab]'")
    return Check("core", "ok", f"gradients are right ({where})")


def _c_kernels() -> Check:
    if native.module is not None:
        count = native.module.get_num_threads()
        return Check("C kernels", "ok", f"built, {count} thread{'' if count == 1 else 's'}")
    remedy = "Take GRADLAB_NATIVE=0 out of the environment." if os.environ.get("GRADLAB_NATIVE") == "0" else \
        "Install a C compiler (apt-get install gcc python3-dev), then again: pip install -e '.[lab]'"  # fmt: skip
    return Check("C kernels", "missing", f"core runs on NumPy: {native.reason.partition('; ')[0]}", remedy)


def _triton() -> Check:
    version = _version("triton")
    if version is None:
        return Check("Triton", "missing", "not installed: no device cuda", "pip install triton (Linux only)")
    how = "interpreter (TRITON_INTERPRET=1)" if os.environ.get("TRITON_INTERPRET") == "1" else "compiler"
    return Check("Triton", "ok", f"{version}, {how}")


def _kernel_package() -> Check:
    """OpenAI's Triton repository has a package of the same name: whichever comes first on the path is imported."""
    try:
        package = importlib.import_module("triton_kernels")
    except Exception as error:
        return Check(
            "triton_kernels", "missing", f"{type(error).__name__}: {error}", "Install again: pip install -e '.[lab]'"
        )
    if getattr(package, "DISTRIBUTION", "") != "gradlab":
        said, _, remedy = shadowing.hidden("triton_kernels").partition(" Remedy: ")
        return Check("triton_kernels", "missing", said or f"another package of this name: {package.__file__}",
                     capital(remedy) or "Uninstall it: pip uninstall triton_kernels.")  # fmt: skip
    return Check("triton_kernels", "ok", "ours")


def _cuda() -> Check:
    there, reason = cuda.availability()
    if there:
        return Check("device cuda", "ok", reason)
    remedy = "With a GPU: pip install 'gradlab[gpu]'. Without one: TRITON_INTERPRET=1 interprets the kernels, slowly."
    return Check("device cuda", "missing", reason.partition("; pip install")[0], remedy)


def _package(title: str, distribution: str, why: str) -> Callable[[], Check]:
    def look() -> Check:
        version = _version(distribution)
        if version is None:
            return Check(title, "missing", f"not installed: {why}", "pip install 'gradlab[lab]'")
        return Check(title, "ok", version)

    return look


CHECKS: tuple[Callable[[], Check], ...] = (
    _python,
    _numpy,
    _package("ml_dtypes", "ml_dtypes", "no bfloat16"),
    _core,
    _c_kernels,
    _triton,
    _kernel_package,
    _cuda,
    _package("IPython", "ipython", "no %%autograd"),
    _package("JupyterLab", "jupyterlab", "no notebooks"),
    _package("ipywidgets", "ipywidgets", "no live panels"),
    _package("anywidget", "anywidget", "no live panels"),
    _package("matplotlib", "matplotlib", "no picture where scripts are stripped"),
    _package("scikit-learn", "scikit-learn", "no data set for the tour"),
)
MARKS = {"ok": "✓", "missing": "–", "broken": "✕"}


def examine() -> list[Check]:
    """All checks. One that fails in an unforeseen way is "missing" with its error."""
    found = []
    for look in CHECKS:
        try:
            found.append(look())
        except Exception as error:
            found.append(Check(look.__name__.strip("_"), "missing", f"{type(error).__name__}: {error}"))
    return found


def main(argv: list[str] | None = None) -> int:
    """Run the command line; 0 when core works, 1 when it does not."""
    parser = Parser(prog="python -m lab doctor", description=__doc__, example="python -m lab doctor --json")
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")
    options = parser.parse_args(argv)
    checks = examine()
    if options.json:
        print(json.dumps([asdict(check) for check in checks], indent=1, ensure_ascii=False))
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            print(f"{MARKS[check.state]} {check.name.ljust(width)}  {check.found}")
            if check.state != "ok" and check.remedy:
                print(f"  {'':{width}}  -> {check.remedy}")
        if not any(check.state == "broken" for check in checks):
            print("core works on this machine.")
    return 1 if any(check.state == "broken" for check in checks) else 0
