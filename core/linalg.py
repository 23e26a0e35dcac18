"""Linear algebra with the names of ``torch.linalg``; NumPy's LAPACK computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .dispatch.publish import namespaces as _namespaces
from .ops.solving import LinAlgError as LinAlgError

if TYPE_CHECKING:
    from .native.generated.linalg import *  # noqa: F403

globals().update(_namespaces["linalg"], matmul=_namespaces[""]["matmul"])
