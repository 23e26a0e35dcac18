"""A cell of `%%tune` with a kernel of one's own in Triton, its arguments, grid and reference.

A cell of Python runs as any other, and what it defines stays. Then its `@triton.jit` kernel is tuned: on the GPU where
one is connected, else compiled for `--target` and estimated, with the best ones run in Triton's interpreter against the
reference, or against its first config. `c_cell` knows C.
"""

from __future__ import annotations

import argparse
import ast
from typing import Any

from core.base import syntax
from triton_kernels.tune.own import own_problem
from triton_kernels.tune.problem import Problem

from . import c_cell
from .command import Wrong

EXAMPLE = """%%tune --target sm_90
import numpy as np, triton, triton.language as tl

@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

x = y = np.random.rand(100_000).astype(np.float32)
arguments = dict(x=x, y=y, out=np.empty_like(x), n=x.size)    # all but the tunables
grid = lambda config: (triton.cdiv(x.size, config["BLOCK"]),)
reference = lambda x, y, out, n: x + y                        # in float64; without it the default config is one
configs = dict(BLOCK=[256, 512, 1024], num_warps=[4, 8])      # or triton.Config objects; may be left out"""
"""A whole cell, for who gives one that is not."""


def problem_of(text: str, names: dict[str, Any], options: argparse.Namespace) -> Problem:
    """Return the problem that a cell states. *Raises*: Wrong with an example of a whole cell, or problem.Unknown."""
    kernel = kernel_of(text, names)
    missing = [n for n in ("arguments", "grid") if n not in _assigned(text)]
    if missing:
        raise Wrong(f"the cell says no {' and no '.join(missing)}. A whole cell:\n\n{EXAMPLE}")
    configs = names["configs"] if "configs" in _assigned(text) else None
    reference = names["reference"] if "reference" in _assigned(text) else None
    return own_problem(kernel, names["arguments"], grid=names["grid"], reference=reference, configs=configs,
                       target=options.target, tolerance=options.tolerance)  # fmt: skip


def kernel_of(text: str, names: dict[str, Any]) -> Any:
    """Return the kernel that a cell defines: of several with `@triton.jit` the last. *Raises*: Wrong."""
    tree = syntax.parse(text)
    for node in reversed(tree.body):
        if isinstance(node, ast.FunctionDef) and hasattr(names.get(node.name), "fn"):
            return names[node.name]
    raise Wrong(f"the cell defines no kernel with @triton.jit, and is no C. A whole cell:\n\n{EXAMPLE}\n\nOr in C:\n\n"
                f"{c_cell.EXAMPLE}")  # fmt: skip


def _assigned(text: str) -> set[str]:
    """Return the names that a cell gives a value at its top level."""
    found = set()
    for node in syntax.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        found |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return found
