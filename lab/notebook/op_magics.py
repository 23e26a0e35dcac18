"""The magics that make ops of kernels: `%%ckernel` and `%%triton`."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import Magics, cell_magic, magics_class, no_var_expand

from core.base import shadowing


@magics_class
class OpMagics(Magics):
    """`%%ckernel` and `%%triton`."""

    shell: Any

    @no_var_expand
    @cell_magic
    def ckernel(self, line: str, cell: str) -> None:
        """Make an op of core of a C function, with its gradient.

        ``%%ckernel name(x, a=2.0) -> out [--check] [--reference NAME]``

        ``%%ckernel`` on an empty cell shows an example; ``%%ckernel --help`` says how sizes, gradients and references
        are written.
        """
        shadowing.check("triton_kernels")
        from . import ckernel_magic

        ckernel_magic.run(self.shell, line, cell)

    @no_var_expand
    @cell_magic
    def triton(self, line: str, cell: str) -> None:
        """Make an op of core of a `@triton.jit` kernel that the cell defines, with its gradient.

        ``%%triton name(x, a=2.0) -> out [--check] [--reference NAME]``

        ``%%triton`` on an empty cell shows an example; ``%%triton --help`` says how grids, gradients and references are
        written.
        """
        shadowing.check("triton_kernels")
        from . import need_triton

        need_triton.need_triton("%%triton")
        from . import triton_magic

        triton_magic.run(self.shell, line, cell)
