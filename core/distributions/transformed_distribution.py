"""`TransformedDistribution`: a distribution's outcomes after transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..base.errors import text
from ..base.modes import no_grad
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Distribution, Parametrised
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import sum_rightmost


class TransformedDistribution(Distribution):
    """Outcomes of `base_distribution`, each through `transforms`, the first of them first.

    The density of y = f(x) is that of x over how f stretches there.

    >>> import core
    >>> d = core.distributions
    >>> steps = [d.SigmoidTransform().inv, d.AffineTransform(0.0, 2.0)]
    >>> logistic = d.TransformedDistribution(d.Uniform(0.0, 1.0), steps)
    >>> logistic.log_prob(core.tensor(0.0))
    tensor(-2.0794)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {}

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list):
            raise ValueError(text(f"transforms must be a Transform or list, but was {transforms}",
                                  op="TransformedDistribution"))  # fmt: skip
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(text("transforms must be a Transform or a list of Transforms",
                                  op="TransformedDistribution", came=f"{transforms}"))  # fmt: skip
        base = base_distribution
        shape, event_dim = base.batch_shape + base.event_shape, len(base.event_shape)
        whole = ComposeTransform(self.transforms)
        needed = whole.domain.event_dim
        if len(shape) < needed:
            raise ValueError(text(f"base_distribution needs to have shape with size at least {needed}, but got "
                                  f"{shape}.", op="TransformedDistribution"))  # fmt: skip
        made = whole.forward_shape(shape)
        wide = whole.inverse_shape(made)
        if tuple(wide) != tuple(shape):
            base = base.expand(wide[: len(wide) - event_dim])
        if needed > event_dim:
            base = Independent(base, needed - event_dim)
        self.base_dist = base
        event_dim = max(whole.codomain.event_dim, event_dim + whole.codomain.event_dim - needed)
        cut = len(made) - event_dim
        super().__init__(made[:cut], made[cut:], validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        made = self._get_checked_instance(TransformedDistribution, _instance)
        return self._fill(made, batch_shape)

    def _fill(self, made: Any, batch_shape: Sequence[int]) -> Distribution:
        shape: Any = (*batch_shape, *self._event_shape)
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        cut = len(shape) - len(self.base_dist.event_shape)
        made.base_dist, made.transforms = self.base_dist.expand(tuple(shape[:cut])), self.transforms
        Distribution.__init__(made, tuple(batch_shape), self._event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Constraint:
        """What the last transform gives."""
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        more = len(self._event_shape) - found.event_dim
        return constraints.independent(found, more) if more > 0 else found

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the base has."""
        return self.base_dist.has_rsample

    def _through(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._through(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        event_dim, y = len(self._event_shape), value
        stretched: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            term = transform.log_abs_det_jacobian(x, y)
            stretched = stretched - sum_rightmost(term, event_dim - transform.domain.event_dim)
            y = x
        found = self.base_dist.log_prob(y)
        return stretched + sum_rightmost(found, event_dim - len(self.base_dist.event_shape))

    def _rising(self, value: Tensor) -> Tensor:
        """Turn a share around where the transforms fall."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        self.base_dist._given(value)
        return self._rising(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._through(self.base_dist.icdf(self._rising(value)))


class Derived(Parametrised, TransformedDistribution):
    """A transformed distribution with parameters of its own: it expands by them, and they are what it shows."""
