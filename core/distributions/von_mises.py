"""`VonMises`: an angle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..base import dtypes
from ..base.modes import no_grad
from ..ops.special import i0e, i1e
from ..ops.where import where
from ..random import rand
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Parametrised
from .utils import broadcast_all


class VonMises(Parametrised):
    """Angles in radians around `loc`, the nearer the greater `concentration` is: a bell curve on a circle.

    >>> import core
    >>> core.distributions.VonMises(core.tensor(0.0), core.tensor(1.0)).log_prob(core.tensor(0.0))
    tensor(-1.0738)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance: 1 less the length of the mean direction."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        k = self.concentration
        # log I0(k) is log(I0(k) exp(-k)) + k: neither factor overflows
        return k * (value - self.loc).cos() - math.log(2 * math.pi) - i0e(k).log() - k

    def _envelope(self) -> Tensor:
        """Return r of the wrapped Cauchy distribution that draws are taken from."""
        k = self.concentration.to(dtypes.float64)
        tau = 1 + (1 + 4 * k.square()).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        return where(k < 1e-5, 1 / k + k, (1 + rho.square()) / (2 * rho))  # of small k nothing of tau is left

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Angles from -π to π. Source: Best and Fisher, "Efficient simulation of the von Mises distribution", 1979."""
        shape = tuple(self._extended_shape(sample_shape))
        with no_grad():
            k, loc, r = (t.expand(shape) for t in (self.concentration, self.loc, self._envelope()))
            k, loc = k.to(dtypes.float64), loc.to(dtypes.float64)
            x, done = loc * 0, loc != loc
            while not bool(done.all()):
                u1, u2, u3 = rand((3, *shape), dtype=dtypes.float64, device=loc.device).unbind()
                z = (math.pi * u1).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                taken = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                x = where(taken, (u3 - 0.5).sign() * f.acos(), x)
                done = done | taken
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)
