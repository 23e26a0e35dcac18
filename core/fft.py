"""Fourier transforms with the names of ``torch.fft``."""

from __future__ import annotations

from .dispatch.publish import namespaces as _namespaces

globals().update(_namespaces["fft"])
