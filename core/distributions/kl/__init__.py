"""KL divergences by pairs of distributions: ``core.distributions.kl``."""

from __future__ import annotations

from . import made, normals, pairs, same
from .registry import kl_divergence, register_kl

__all__ = ["kl_divergence", "register_kl"]
