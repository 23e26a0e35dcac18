"""Distributions: sampling, densities, entropies and KL divergences, with PyTorch's names: ``core.distributions``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.lazy_import import lazy_attributes

if TYPE_CHECKING:
    from . import constraints, kl, transforms, utils
    from .bernoulli import Bernoulli
    from .beta import Beta
    from .binomial import Binomial
    from .categorical import Categorical
    from .cauchy import Cauchy
    from .chi2 import Chi2
    from .constraint_registry import biject_to, transform_to
    from .continuous_bernoulli import ContinuousBernoulli
    from .dirichlet import Dirichlet
    from .distribution import Distribution
    from .exp_family import ExponentialFamily
    from .exponential import Exponential
    from .fishersnedecor import FisherSnedecor
    from .gamma import Gamma
    from .generalized_pareto import GeneralizedPareto
    from .geometric import Geometric
    from .gumbel import Gumbel
    from .half_cauchy import HalfCauchy
    from .half_normal import HalfNormal
    from .independent import Independent
    from .inverse_gamma import InverseGamma
    from .kl import kl_divergence, register_kl
    from .kumaraswamy import Kumaraswamy
    from .laplace import Laplace
    from .lkj_cholesky import LKJCholesky
    from .log_normal import LogNormal
    from .logistic_normal import LogisticNormal
    from .lowrank_multivariate_normal import LowRankMultivariateNormal
    from .mixture_same_family import MixtureSameFamily
    from .multinomial import Multinomial
    from .multivariate_normal import MultivariateNormal
    from .negative_binomial import NegativeBinomial
    from .normal import Normal
    from .one_hot_categorical import OneHotCategorical, OneHotCategoricalStraightThrough
    from .pareto import Pareto
    from .poisson import Poisson
    from .relaxed_bernoulli import RelaxedBernoulli
    from .relaxed_categorical import RelaxedOneHotCategorical
    from .studentT import StudentT
    from .transformed_distribution import TransformedDistribution
    from .transforms import *  # noqa: F403 - those of its list
    from .uniform import Uniform
    from .von_mises import VonMises
    from .weibull import Weibull
    from .wishart import Wishart

# by file, each of which is imported when somebody asks for one of its names
_FILES = {
    "bernoulli": "Bernoulli",
    "beta": "Beta",
    "binomial": "Binomial",
    "categorical": "Categorical",
    "cauchy": "Cauchy",
    "chi2": "Chi2",
    "constraint_registry": "biject_to transform_to",
    "continuous_bernoulli": "ContinuousBernoulli",
    "dirichlet": "Dirichlet",
    "distribution": "Distribution",
    "exp_family": "ExponentialFamily",
    "exponential": "Exponential",
    "fishersnedecor": "FisherSnedecor",
    "gamma": "Gamma",
    "generalized_pareto": "GeneralizedPareto",
    "geometric": "Geometric",
    "gumbel": "Gumbel",
    "half_cauchy": "HalfCauchy",
    "half_normal": "HalfNormal",
    "independent": "Independent",
    "inverse_gamma": "InverseGamma",
    "kl": "kl_divergence register_kl",
    "kumaraswamy": "Kumaraswamy",
    "laplace": "Laplace",
    "lkj_cholesky": "LKJCholesky",
    "log_normal": "LogNormal",
    "logistic_normal": "LogisticNormal",
    "lowrank_multivariate_normal": "LowRankMultivariateNormal",
    "mixture_same_family": "MixtureSameFamily",
    "multinomial": "Multinomial",
    "multivariate_normal": "MultivariateNormal",
    "negative_binomial": "NegativeBinomial",
    "normal": "Normal",
    "one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough",
    "pareto": "Pareto",
    "poisson": "Poisson",
    "relaxed_bernoulli": "RelaxedBernoulli",
    "relaxed_categorical": "RelaxedOneHotCategorical",
    "studentT": "StudentT",
    "transformed_distribution": "TransformedDistribution",
    "transforms": (
        "AbsTransform AffineTransform CatTransform ComposeTransform CorrCholeskyTransform "
        "CumulativeDistributionTransform ExpTransform IndependentTransform LowerCholeskyTransform "
        "PositiveDefiniteTransform PowerTransform ReshapeTransform SigmoidTransform SoftmaxTransform "
        "SoftplusTransform StackTransform StickBreakingTransform TanhTransform Transform identity_transform"
    ),
    "uniform": "Uniform",
    "von_mises": "VonMises",
    "weibull": "Weibull",
    "wishart": "Wishart",
}
_LATE = {name: file for file, names in _FILES.items() for name in names.split()}
__all__ = sorted([*_LATE, "constraints", "kl"])
_LATE |= dict.fromkeys([*_FILES, "constraints", "utils"], "")
if not TYPE_CHECKING:  # a type checker would take any name for a good one
    __getattr__, __dir__ = lazy_attributes(__name__, _LATE)
