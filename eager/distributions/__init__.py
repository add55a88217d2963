"""Probability distributions with batches, samples with and without gradients, densities, moments and divergences."""

from . import constraints, transforms
from .bernoulli import Bernoulli
from .categorical import Categorical
from .constraint_registry import biject_to, transform_to
from .continuous_bernoulli import ContinuousBernoulli
from .counts import Binomial, Geometric, Multinomial, NegativeBinomial, Poisson
from .derived import (
    Gumbel,
    Kumaraswamy,
    LogitRelaxedBernoulli,
    LogNormal,
    Pareto,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
    Weibull,
)
from .dirichlet import Beta, Dirichlet
from .distribution import Distribution, ExponentialFamily
from .gamma import Chi2, Gamma
from .generalized_pareto import GeneralizedPareto
from .inverse_gamma import InverseGamma
from .kl import kl_divergence, register_kl
from . import kl_moments  # noqa: F401  (more pairs)
from .lkj_cholesky import LKJCholesky
from .logistic_normal import LogisticNormal
from .lowrank_multivariate_normal import LowRankMultivariateNormal
from .mixture_same_family import MixtureSameFamily
from .multivariate_normal import MultivariateNormal
from .normal import Normal
from .one_hot_categorical import OneHotCategorical, OneHotCategoricalStraightThrough
from .simple import Cauchy, Exponential, FisherSnedecor, HalfCauchy, HalfNormal, Laplace, StudentT, VonMises
from .transformed_distribution import Independent, TransformedDistribution
from .transforms import *
from .uniform import Uniform
from .wishart import Wishart
