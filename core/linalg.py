"""Linear algebra with the names of ``torch.linalg``; NumPy's LAPACK computes."""

from __future__ import annotations

from .dispatch.publish import namespaces as _namespaces
from .ops.solving import LinAlgError as LinAlgError

globals().update(_namespaces["linalg"])
matmul = _namespaces[""]["matmul"]
