"""``python -m core.backends.compile_check``: compile every Triton kernel for GPUs that are not there.

The hand-written kernels are compiled with every config of their spaces; to them come the elementwise kernels printed
from the op table, forward, gradient and the gradients of several inputs at once, which share one body and one space
and are compiled at its default, and the optimizers' steps, printed from their formulas. The options are those of
``triton_kernels.compile_check``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from .. import ops  # noqa: F401 - the ops are declared
from ..declare import op
from ..declare.expr import triton_lines
from ..optim.kernels import triton_kernel
from ..optim.update import table
from .cuda.maps import joint_kernel


def printed_kernels() -> list[Any]:
    """Return an elementwise kernel for every program of the op table, each once."""
    from triton_kernels import elementwise
    from triton_kernels.primitives import PRIMITIVES

    kernels = {}
    for declared in op.table.values():
        for program in declared.programs if isinstance(declared, op.Elementwise) else ():
            lines, result = triton_lines(program, PRIMITIVES)
            bools = [n for n, k in zip(program.inputs, program.kinds, strict=True) if k == "bool"]
            kind = "bool" if program.is_bool else "same"
            kernels[program.name] = elementwise.build(
                program.name, program.inputs, program.params, lines, result, kind, bools
            )
        joint = declared.joint_gradients if isinstance(declared, op.Elementwise) else None
        if joint is not None:
            kernels[joint[1].name] = joint_kernel(joint[1])
    return [*kernels.values(), *update_kernels()]


def update_kernels() -> list[Any]:
    """Return a multi-tensor kernel for every form of every optimizer's step."""
    return [triton_kernel(v) for u in table.values() for v in u.variants.values()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 when a kernel does not compile or a default config spills."""
    from triton_kernels import compile_check

    return compile_check.main(arguments, extra=printed_kernels())


if __name__ == "__main__":
    sys.exit(main())
