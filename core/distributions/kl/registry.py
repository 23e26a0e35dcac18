"""`register_kl` and `kl_divergence`: which function knows the divergence of two distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import text
from ...base.source import warn
from ...tensors.tensor import Tensor
from ..distribution import Distribution

Divergence = Callable[[Any, Any], Tensor]
_table: dict[tuple[type, type], Divergence] = {}
_found: dict[tuple[type, type], Divergence] = {}  # what was looked up, until something is registered


def register_kl(type_p: type, type_q: type) -> Callable[[Divergence], Divergence]:
    """Decorator: the function gives KL(p ‖ q) for these classes and those below them.

    >>> import core
    >>> class Mine(core.distributions.Normal):
    ...     pass
    >>> @core.distributions.register_kl(Mine, Mine)
    ... def kl(p, q):
    ...     return p.loc - q.loc
    >>> core.distributions.kl_divergence(Mine(3.0, 1.0), Mine(1.0, 1.0))
    tensor(2.)
    """
    for name, t in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(t, type):  # Pyro's distributions are a family of their own
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {t}")

    def decorate(function: Divergence) -> Divergence:
        _table[type_p, type_q] = function
        _found.clear()
        return function

    return decorate


def _closest(type_p: type, type_q: type) -> Divergence | None:
    """Return the function of the closest pair of classes: that of p decides first. Where q would decide otherwise, a
    warning says so."""
    lines = type_p.__mro__, type_q.__mro__
    pairs = [pair for pair in _table if pair[0] in lines[0] and pair[1] in lines[1]]
    if not pairs:
        return None
    near = {pair: (lines[0].index(pair[0]), lines[1].index(pair[1])) for pair in pairs}
    left = min(pairs, key=lambda pair: near[pair])
    right = min(pairs, key=lambda pair: near[pair][::-1])
    if _table[left] is not _table[right]:
        warn(f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({left[0].__name__}, "
             f"{right[1].__name__})", RuntimeWarning)  # fmt: skip
    return _table[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p ‖ q) = ∫ p log(p / q), by the formula of the closest registered pair of classes.

    *Raises*: NotImplementedError for a pair without one.

    >>> import core
    >>> d = core.distributions
    >>> d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    types = type(p), type(q)
    function = _found.get(types) or _closest(*types)
    if function is None:
        raise NotImplementedError(text(f"No KL(p || q) is implemented for p type {types[0].__name__} and q type "
                                       f"{types[1].__name__}", op="kl_divergence",
                                       remedy="core.distributions.register_kl, or the mean of p.log_prob(x) - "
                                              "q.log_prob(x) over draws x of p"))  # fmt: skip
    _found[types] = function
    return function(p, q)
