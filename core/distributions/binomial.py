"""`Binomial`: how many of several tries succeed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..backends import array_module
from ..base.errors import text
from ..base.modes import no_grad
from ..dispatch.draws import source
from ..ops.constant import constant
from ..ops.creation import arange
from ..tensors.tensor import Tensor, from_array
from . import constraints
from .binary import Binary
from .constraints import Constraint
from .utils import all_values


def _successes(count: Tensor, probs: Tensor) -> Tensor:
    """Draw how many of `count` tries of probability `probs` succeed, each."""
    seed = source(None, probs.device).integers(np, 4, 2**31)
    tries, share = (t.detach().cpu()._a.astype(dtype) for t, dtype in ((count, np.int64), (probs, np.float64)))
    drawn = np.random.Generator(np.random.Philox([int(n) for n in seed])).binomial(tries, share)
    a = array_module(probs.device.type).asarray(np.asarray(drawn, probs._a.dtype))
    return constant(from_array(a, probs.device), probs)


def _positive_part(x: Tensor) -> Tensor:
    """Return max(x, 0), whose gradient at 0 is 1/2."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(Binary):
    """How many of `total_count` tries of probability `probs` succeed.

    >>> import core
    >>> core.distributions.Binomial(3, core.tensor(0.5)).log_prob(core.arange(4.0)).exp()
    tensor([0.1250, 0.3750, 0.3750, 0.1250])
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        (count,) = self._take(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return _successes(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        n, logits = self.total_count, self.logits
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * logits - n * (_positive_part(logits) + (-logits.abs()).exp().log1p())

    def _one_count(self, method: str) -> int:
        most = int(self.total_count.max())
        if int(self.total_count.min()) != most:
            raise NotImplementedError(text(f"Inhomogeneous total count not supported by `{method}`.", op="Binomial",
                                           remedy="one distribution for each total_count"))  # fmt: skip
        return most

    def entropy(self) -> Tensor:
        self._one_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(expand=False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._one_count("enumerate_support")
        values = arange(1 + n, dtype=self._param.dtype, device=self._param.device)
        return all_values(values, self._batch_shape, expand)
