"""Fourier transforms with the names of ``torch.fft``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .dispatch.publish import namespaces as _namespaces

if TYPE_CHECKING:
    from .native.generated.fft import *  # noqa: F403

globals().update(_namespaces["fft"])
