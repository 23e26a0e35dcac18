"""``python -m lab tune file.py:kernel``: a program is run, its launches are captured, one kernel of them is tuned."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triton_kernels import tune
from triton_kernels.tune.problem import Problem, Unknown


def names_a_file(word: str) -> bool:
    """Return whether a word stands for a program and a kernel in it.

    >>> names_a_file("train.py:add_kernel"), names_a_file("train.py"), names_a_file("softmax_kernel")
    (True, True, False)
    """
    return word.partition(":")[0].endswith(".py")


def problem_of(
    word: str, target: str | None = None, tolerance: float | None = None, function: str | None = None
) -> Problem:
    """Run a program as a script and return the problem of a kernel that it launches. *Raises*: Unknown.

    function : of the program, without arguments, whose result configs are judged by that one launch finds wrong.
    """
    path, _, kernel = word.partition(":")
    if not Path(path).is_file():
        raise Unknown(f"there is no file {path}. Needed: a program, as in train.py:add_kernel")
    if "torch" in Path(path).read_text(encoding="utf-8") and importlib.util.find_spec("torch"):
        importlib.import_module("torch")  # so that it sees the GPU that is pretended: see tune.pretend
    names: dict[str, Any] = {}
    with tune.capture() as seen, _as_script(path):
        try:
            names = runpy.run_path(path, run_name="__main__")
        except SystemExit as ended:
            if ended.code not in (None, 0):
                raise Unknown(f"{path} ended with {ended.code}, after {len(seen)} launches") from None
    if not len(seen):
        raise Unknown(f"{path} launches no Triton kernel when it is run as a script. Remedy: a launch at its end, "
                      'below if __name__ == "__main__":')  # fmt: skip
    if function is not None and not callable(names.get(function)):
        raise Unknown(f"{path} has no function {function} when it has run. Needed: one without arguments, which "
                      "launches the kernel and returns its result")  # fmt: skip
    program = None if function is None else names[function]
    with _as_script(path):
        return seen.problem(kernel or None, target=target, tolerance=tolerance, program=program)


@contextlib.contextmanager
def _as_script(path: str) -> Iterator[None]:
    words, places = sys.argv, list(sys.path)
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = words, places
