"""Kernel Tuner on the C kernels of ``c-kernels``: the same text, flags, data and number of evaluations.

Its C backend wants functions that return how long they took, and compiles all configs with the same flags; so a
function that times a call is added to the text, and the config's flags are added to its own. It measures each config
seven times, as it does by default, and compares the outputs with the same reference.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import random
import re
import warnings
from typing import Any
from unittest import mock

import numpy as np

from triton_kernels.tune.c_kernels import VARIED_FLAGS
from triton_kernels.tune.c_text import function_of, without_defaults
from triton_kernels.tune.measure_cpu import FLAGS
from triton_kernels.tune.own_c import OwnCMeasure
from triton_kernels.tune.space import Config

from .c_programs import Program

STRATEGY = "adaptive_tabu_greywolf"  # the best of its strategies on recorded spaces: see replay_anchors
_OF_C = ("-std=", "-Werror=", "-shared", "-fPIC")  # it compiles as C++, and adds the last two itself


def by_kernel_tuner(program: Program, seed: int, evaluations: int) -> Config:
    """Return the config that Kernel Tuner finds best."""
    kernel_tuner: Any = importlib.import_module("kernel_tuner")
    backend: Any = importlib.import_module("kernel_tuner.backends.compiler")

    class Flagged(backend.CompilerFunctions):  # type: ignore[misc, name-defined]
        """Its C backend, which compiles with a config's flags too."""

        compiler_options: list[str]

        def compile(self, kernel_instance: Any) -> Any:
            own: list[str] = self.compiler_options
            self.compiler_options = [*own, *kernel_instance.params[VARIED_FLAGS].split()]
            try:
                return super().compile(kernel_instance)
            finally:
                self.compiler_options = own

    problem = program.problem()
    measure = problem.measure
    assert isinstance(measure, OwnCMeasure)
    random.seed(seed)  # it draws from the global generators
    np.random.seed(seed)  # noqa: NPY002
    given = [_argument(measure.arguments[p.name], p.dtype) for p in measure.declared.parameters]
    answer = [_answer(measure, p.name) for p in measure.declared.parameters]
    with mock.patch.object(backend, "CompilerFunctions", Flagged), contextlib.redirect_stdout(io.StringIO()), \
            warnings.catch_warnings():  # fmt: skip
        warnings.simplefilter("ignore")
        results, _ = kernel_tuner.tune_kernel(
            f"timed_{program.name}", timed_text(program, problem.space.names), 1, given,
            {t.name: list(t.values) for t in problem.space.tunables}, lang="C", answer=answer, atol=1e-2,
            compiler_options=[f for f in FLAGS if not f.startswith(_OF_C)], strategy=STRATEGY,
            strategy_options={"max_fevals": evaluations}, verbose=False, quiet=True,
        )  # fmt: skip
    best = min((r for r in results if isinstance(r.get("time"), float)), key=lambda r: r["time"])
    return {name: best[name] for name in problem.space.names}


def _argument(value: Any, dtype: str) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else np.dtype(dtype).type(value)


def _answer(measure: OwnCMeasure, name: str) -> Any:
    expected = measure.expected.get(name)
    return None if expected is None else expected.astype(measure.arguments[name].dtype)


def timed_text(program: Program, names: tuple[str, ...]) -> str:
    """Return a program's text with a function that returns the ms of a call, without its own values of the macros."""
    text = without_defaults(program.text, names)
    declared = function_of(text)
    header = re.search(rf"void {declared.name}\(([^)]*)\)", text)
    assert header is not None
    given = ", ".join(p.name for p in declared.parameters)
    return f"""#include <time.h>
{text}
float timed_{declared.name}({header[1]})
{{
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    {declared.name}({given});
    clock_gettime(CLOCK_MONOTONIC, &ended);
    return (float)(1e3 * (ended.tv_sec - began.tv_sec) + 1e-6 * (ended.tv_nsec - began.tv_nsec));
}}
"""
