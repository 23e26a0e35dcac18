"""`%%tune` on a cell of C: a function with macros that may vary, on the notebook's arrays, beside a Python reference.

After the cell the function is there to be called, with the config that was stored for the shape it is called at.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Mapping
from typing import Any

from core.base import syntax
from triton_kernels.tune.c_text import Declared, function_of, looks_like_c
from triton_kernels.tune.own_c import CFunction, c_problem
from triton_kernels.tune.problem import Problem

from .command import Wrong

EXAMPLE = """x = np.random.rand(1000, 800).astype(np.float32)          # in a cell before it
out = np.empty((800, 1000), np.float32)
n, m = x.shape
reference = lambda x: x.T                                 # in float64; a dict by name for several outputs

%%tune --budget 30s
#define TILE 8      // tune: 1, 4, 8, 16, 32, 64
#define THREADS 1   // tune: threads

void transpose(const float *x, float *out, long n, long m) {
#pragma omp parallel for num_threads(THREADS)
    for (long i0 = 0; i0 < n; i0 += TILE)
        for (long j0 = 0; j0 < m; j0 += TILE)
            for (long i = i0; i < i0 + TILE && i < n; i++)
                for (long j = j0; j < j0 + TILE && j < m; j++) out[j * n + i] = x[i * m + j];
}"""
"""Two whole cells, for who gives one that lacks something."""

_FIRST = 2  # the number that a notebook gives to the line after %%tune


def is_c(text: str, language: str | None) -> bool:
    """Return whether a cell is C.

    >>> is_c("void f(float *x) { x[0] = 1; }", None), is_c("x = 'void f() {}'", None)
    (True, False)
    """
    if language is not None:
        return language == "c"
    try:
        syntax.parse(text)
    except SyntaxError:
        return looks_like_c(text)
    return False


def problem_of(text: str, names: dict[str, Any], options: argparse.Namespace) -> Problem:
    """Return the problem that a cell of C states; its function is put among the notebook's names. *Raises*:
    ValueError."""
    if options.target not in (None, "cpu"):
        raise Wrong(f"C is measured on this processor: --target {options.target} is for Triton kernels")
    declared = function_of(text, options.function)
    arguments = arguments_of(declared, names, options.args)
    reference = _evaluated("--reference", options.reference, names, declared)
    if not callable(reference):
        raise Wrong(f"--reference {options.reference} is a {type(reference).__name__}; needed is a function of "
                    f"{', '.join(p.name for p in declared.arrays)} or some of these")  # fmt: skip
    configs = _evaluated("--configs", options.configs, names, declared) if options.configs else None
    problem = c_problem(text, arguments, reference=reference, configs=configs, function=options.function,
                        allowed=options.tolerance, first_line=_FIRST)  # fmt: skip
    names[declared.name] = CFunction(text, configs, options.function, _FIRST)
    return problem


def arguments_of(declared: Declared, names: Mapping[str, Any], given: str) -> dict[str, Any]:
    """Return what the function is called with: `given`, as in ``n=x.size``, else the variables of its parameters'
    names.

    >>> declared = function_of("void f(float *x, int n) { }")
    >>> arguments_of(declared, {"x": "an array", "size": 3}, "n=size")
    {'x': 'an array', 'n': 3}
    """
    said = {}
    if given:
        try:
            call = syntax.expression(f"dict({given})")
        except SyntaxError:
            call = None
        if not isinstance(call, ast.Call) or call.args or not all(k.arg for k in call.keywords):
            raise Wrong(f'--args {given!r} cannot be read; needed: name=value, ..., as in --args "n=x.size"')
        said = {k.arg: _evaluated("--args", ast.unparse(k.value), names, declared) for k in call.keywords if k.arg}
    found = {}
    for p in declared.parameters:
        if p.name not in said and p.name not in names:
            like = "np.empty_like(x)" if p.pointer else "x.size"
            raise Wrong(f'{declared}: the notebook has no {p.name}. Remedy: {p.name} = ... in a cell before it, or '
                        f'--args "{p.name}={like}"\n\n{EXAMPLE}')  # fmt: skip
        found[p.name] = said.pop(p.name) if p.name in said else names[p.name]
    if said:
        raise Wrong(f"--args: {declared} has no parameter {', '.join(said)}")
    return found


def _evaluated(option: str, text: str, names: Mapping[str, Any], declared: Declared) -> Any:
    try:
        return eval(text, dict(names))
    except Exception as error:
        if option == "--reference" and text not in names and text.isidentifier():
            raise Wrong(f"nothing says what {declared} should compute. Remedy: reference = lambda ...: ... in a cell "
                        f"before it, or --reference NAME\n\n{EXAMPLE}") from None  # fmt: skip
        raise Wrong(f"{option} {text}: {type(error).__name__}: {error}") from None
