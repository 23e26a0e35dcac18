"""`biject_to` and `transform_to`: from numbers without bounds to those that a constraint allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import text
from . import constraints, transforms
from .constraints import Constraint
from .transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]
Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """A table from classes of constraints to functions that make a transform for one.

    Called with a constraint it gives the transform from all real numbers onto what the constraint allows.

    >>> import core
    >>> d = core.distributions
    >>> d.biject_to(d.constraints.unit_interval), d.transform_to(d.constraints.simplex)(core.zeros(2))
    (SigmoidTransform(), tensor([0.5000, 0.5000]))
    """

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Enter a function for a constraint's class, given as such or by one of it; without one, as a decorator.

        *Raises*: TypeError for what is no constraint.
        """
        if factory is None:
            return lambda given: self.register(constraint, given)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, Constraint)):
            raise TypeError("Expected constraint to be either a Constraint subclass or instance, but got "
                            f"{constraint}")  # fmt: skip
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(text(f"Cannot transform {type(constraint).__name__} constraints",
                                           remedy="register(constraint, function)"))  # fmt: skip
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _both(*made: Any) -> Callable[[Factory], Factory]:
    def enter(factory: Factory) -> Factory:
        for constraint in made:
            biject_to.register(constraint, factory)
            transform_to.register(constraint, factory)
        return factory

    return enter


def _then_affine(first: Transform, loc: Any, scale: Any) -> Transform:
    return transforms.ComposeTransform([first, transforms.AffineTransform(loc, scale)])


@_both(constraints.real)
def _real(constraint: Any) -> Transform:
    return transforms.identity_transform


@_both(constraints.positive, constraints.nonnegative)
def _above(constraint: Any) -> Transform:
    return _then_affine(transforms.ExpTransform(), constraint.lower_bound, 1)


@_both(constraints.less_than)
def _below(constraint: Any) -> Transform:
    return _then_affine(transforms.ExpTransform(), constraint.upper_bound, -1)


@_both(constraints.interval, constraints.half_open_interval)
def _between(constraint: Any) -> Transform:
    low, high, sigmoid = constraint.lower_bound, constraint.upper_bound, transforms.SigmoidTransform()
    unit = isinstance(low, int | float) and isinstance(high, int | float) and (low, high) == (0, 1)
    return sigmoid if unit else _then_affine(sigmoid, low, high - low)


def _per_registry(registry: ConstraintRegistry) -> None:
    """Enter what is made of other constraints, whose transforms the same registry knows."""

    def independent(constraint: Any) -> Transform:
        base = registry(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    def cat(constraint: Any) -> Transform:
        parts = [registry(c) for c in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    def stack(constraint: Any) -> Transform:
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)

    for made_of_others, factory in ((constraints.independent, independent), (constraints.cat, cat),
                                    (constraints.stack, stack)):  # fmt: skip
        registry.register(made_of_others, factory)


_per_registry(biject_to)
_per_registry(transform_to)
biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())


# what leaves out half of a matrix is no bijection
transform_to.register(constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform())
for _definite in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_definite, lambda constraint: transforms.PositiveDefiniteTransform())


@_both(constraints.corr_cholesky)
def _corr_cholesky(constraint: Any) -> Transform:
    return transforms.CorrCholeskyTransform()
