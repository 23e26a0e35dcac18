"""Special functions by `torch.special`'s names.

>>> import core
>>> core.special.erfinv(core.tensor([0.5]))
tensor([0.4769])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .dispatch.publish import namespaces as _namespaces
from .dispatch.type_errors import guarded as _guarded
from .ops.special import shown as _shown

if TYPE_CHECKING:
    from .native.generated.special import *  # noqa: F403

_SHARED = "erf erfc erfinv exp2 expm1 log1p logit logsumexp round sinc xlogy"
_found = {
    **{n: _guarded(f) for n, f in _shown.items()},
    **{n: _namespaces[""][n] for n in _SHARED.split()},
    "expit": _namespaces[""]["sigmoid"],
}
__all__ = sorted(_found)
globals().update(_found)
