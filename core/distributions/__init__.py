"""Distributions: sampling, densities, entropies and KL divergences, with PyTorch's names: ``core.distributions``."""

from __future__ import annotations

from . import constraints, kl
from .continuous import Cauchy, Exponential, Gumbel, HalfNormal, Laplace, LogNormal, Normal, Uniform
from .discrete import Bernoulli, Categorical, Geometric, OneHotCategorical
from .distribution import Distribution
from .independent import Independent
from .kl import kl_divergence, register_kl
from .multivariate_normal import MultivariateNormal

__all__ = ["Bernoulli", "Categorical", "Cauchy", "Distribution", "Exponential", "Geometric", "Gumbel", "HalfNormal",
           "Independent", "Laplace", "LogNormal", "MultivariateNormal", "Normal", "OneHotCategorical", "Uniform",
           "constraints", "kl", "kl_divergence", "register_kl"]  # fmt: skip
