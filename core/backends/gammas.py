"""The CPU's kernels of the gamma function's logarithm and its derivatives (native/kernels/special.c)."""

from __future__ import annotations

from ..declare.kernel import kernel

for _name in ("lgamma", "digamma"):
    kernel(_name, "x: float32[*all]", gives="y: float32[*all]", call=f"{_name}_f32(x, y, x.size)")
kernel(
    "polygamma",
    "x: float32[*all], n: int",
    gives="y: float32[*all]",
    call="trigamma_f32(x, y, x.size)",
    requires={"n == 1": "takes the first derivative of digamma alone"},
)
