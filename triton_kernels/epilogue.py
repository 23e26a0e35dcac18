"""What is done to a tile of a product while it is still in registers: an activation.

Bytes moved: none. Operations: one to some twenty an element. Sources: Nair and Hinton (2010), relu; Hendrycks and
Gimpel, arXiv 1606.08415, gelu and its form by tanh; Elfwing et al., arXiv 1702.03118, silu.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import triton
import triton.language as tl

from . import scalar

ACTIVATIONS = ("", "relu", "gelu", "gelu_tanh", "silu")


@triton.jit
def activate(x, ACTIVATION: tl.constexpr):
    """`ACTIVATION` of x, in x's own type; "" leaves it as it is."""
    tl.static_assert(
        ACTIVATION == "" or ACTIVATION == "relu" or ACTIVATION == "gelu" or ACTIVATION == "gelu_tanh"
        or ACTIVATION == "silu"
    )  # fmt: skip
    if ACTIVATION == "relu":
        y = scalar.maximum(x, 0.0)
    elif ACTIVATION == "gelu":
        y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif ACTIVATION == "gelu_tanh":
        # (1 + tanh u) / 2 is the sigmoid of 2 u, which keeps its digits where tanh u is close to -1
        y = x * scalar.sigmoid(1.5957691216057308 * (x + 0.044715 * (x * x * x)))
    elif ACTIVATION == "silu":
        y = x * scalar.sigmoid(x)
    else:
        y = x
    return y


def check_activation(op: str, name: str) -> None:
    """Raise ValueError for an activation that no epilogue has."""
    if name not in ACTIVATIONS:
        raise ValueError(f"{op}: no activation {name!r} can be fused; there are {', '.join(ACTIVATIONS[1:])} and ''")
