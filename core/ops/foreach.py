"""Ops over lists of tensors, by PyTorch's names ``_foreach_add``, ``_foreach_mul_`` ...: one call of the op a tensor.

PyTorch has them to launch one kernel for a list. Here a list is a loop: what is saved elsewhere was a launch, and on a
CPU there is none. Gradients, dtypes and errors are those of the op. The functions without ``_`` at their end give new
tensors, those with it write the first list and give it back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.foreach_names import ONE, THREE, TWO
from ..declare import op as declarations
from ..tensors.tensor import Tensor
from .matrix import vector_norm

Tensors = Sequence[Tensor]
_INSTEAD = {"maximum": "clamp_min", "minimum": "clamp_max"}  # beside a number


def _call(op: str, first: Any, *rest: Any, **also: Any) -> Any:
    """Return the op of one element of the lists."""
    if op in _INSTEAD and not isinstance(rest[0], Tensor):
        op = _INSTEAD[op]
    return declarations.functions[op](first, *rest, **also)


def _write(op: str, first: Tensor, *rest: Any, **also: Any) -> None:
    if op in _INSTEAD and not isinstance(rest[0], Tensor):
        op = _INSTEAD[op]
    getattr(first, f"{op}_")(*rest, **also)


def _listed(op: str, given: Any) -> list[Tensor]:
    """Return a list of tensors. *Raises*: TypeError for anything else, RuntimeError for an empty one."""
    if not isinstance(given, list | tuple) or not all(isinstance(t, Tensor) for t in given):
        raise TypeError(text(f"{op}(): argument 'self' must be tuple of Tensors", op=op, came=type(given).__name__,
                             needed="a list of tensors"))  # fmt: skip
    if not given:
        raise RuntimeError(text("Tensor list must have at least one tensor.", op=op))
    return list(given)


def _along(op: str, tensors: Sequence[Tensor], other: Any) -> Sequence[Any]:
    """Return one argument for each tensor: the elements of a list, or the same one for all."""
    if isinstance(other, Tensor) and other.ndim == 1 and op.startswith("_foreach_addc"):  # a number for each
        other = other.tolist()
    if not isinstance(other, list | tuple):
        return [other] * len(tensors)
    if len(other) != len(tensors):
        of = "Tensor" if other and isinstance(other[0], Tensor) else "Scalar"
        raise RuntimeError(text(f"{of} lists must have the same number of {of.lower()}s, got {len(tensors)} and "
                                f"{len(other)}", op=op))  # fmt: skip
    return other


def _made(name: str, each: Callable[..., Any], doc: str) -> None:
    """Make ``_foreach_<name>`` of what is done with one element of every list."""

    def function(self: Tensors, *others: Any, **also: Any) -> Any:
        tensors = _listed(function.__name__, self)
        lists = [_along(function.__name__, tensors, o) for o in others]
        names = {k: _along(function.__name__, tensors, also.pop(k)) for k in tuple(also) if k not in _OPTIONS}
        found = [each(t, *(one[k] for one in lists), **{n: one[k] for n, one in names.items()}, **also)
                 for k, t in enumerate(tensors)]  # fmt: skip
        return tensors if name.endswith("_") else tuple(found)

    function.__name__ = function.__qualname__ = f"_foreach_{name}"
    function.__doc__ = doc
    globals()[function.__name__] = function


_OPTIONS = ("alpha", "ord", "dtype", "memory_format", "non_blocking")


def _both(name: str, call: Callable[..., Any], write: Callable[..., Any], doc: str) -> None:
    _made(name, call, f"Return {doc} of every tensor.")
    _made(f"{name}_", write, f"Write {doc} of every tensor into it.")


for _name in ONE:
    _both(_name, lambda t, op=_name: _call(op, t), lambda t, op=_name: _write(op, t), f"`{_name}`")


def _binary(name: str) -> None:
    def words(other: Any, also: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        for word in ("scalar", "scalars", "exponent"):
            other = also.pop(word, other)
        return other, also

    def call(t: Tensor, other: Any = None, **also: Any) -> Any:
        other, also = words(other, also)
        return _call(name, t, other, **also)

    def write(t: Tensor, other: Any = None, **also: Any) -> None:
        other, also = words(other, also)
        _write(name, t, other, **also)

    _both(name, call, write, f"`{name}` with a number, a tensor, or an element of a list")


for _name in TWO:
    _binary(_name)


def _third(name: str) -> None:
    def call(t: Tensor, tensor1: Tensor, tensor2: Tensor, value: Any = 1, scalars: Any = None) -> Any:
        return _call(name, t, tensor1, tensor2, value=_number(value if scalars is None else scalars))

    def write(t: Tensor, tensor1: Tensor, tensor2: Tensor, value: Any = 1, scalars: Any = None) -> None:
        _write(name, t, tensor1, tensor2, value=_number(value if scalars is None else scalars))

    _both(name, call, write, f"`{name}` with elements of two lists")


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


for _name in THREE:
    _third(_name)


def _lerp(t: Tensor, tensors1: Tensor, weight: Any = None, weights: Any = None) -> Any:
    return _call("lerp", t, tensors1, weight if weights is None else weights)


def _lerp_into(t: Tensor, tensors1: Tensor, weight: Any = None, weights: Any = None) -> None:
    _write("lerp", t, tensors1, weight if weights is None else weights)


_both("lerp", _lerp, _lerp_into, "`lerp` towards the elements of a list")
_made("clone", lambda t, **also: t.clone(**also), "Return a copy of every tensor.")
_made("mm", lambda t, mat2: _call("mm", t, mat2), "Return the products of the matrices of two lists.")
_made("max", lambda t: _call("max", t), "Return the greatest element of every tensor.")
_made("zero_", lambda t: t.zero_(), "Write zeros into every tensor.")
_made("copy_", lambda t, src, non_blocking=False: t.copy_(src), "Write the elements of a list into those of the first.")


def _norm(t: Tensor, ord: Any = 2, dtype: Dtype | None = None) -> Tensor:
    return vector_norm(t, ord, dtype=dtype)


def _powsum(t: Tensor, ord: Any = 2, dtype: Dtype | None = None) -> Tensor:
    return _call("sum", _call("pow", _call("abs", t.to(dtype) if dtype is not None else t), ord))  # type: ignore[attr-defined, no-any-return]


_made("norm", _norm, "Return the norm of every tensor, of order 2 or `ord`.")
_made("powsum", _powsum, "Return the sum of the powers of every tensor's absolute elements, of order 2 or `ord`.")
_pow = globals()["_foreach_pow"]


def _foreach_pow(self: Any, exponent: Any = None, **also: Any) -> Any:
    """Return `pow` of every tensor; of a number, its powers by the tensors of a list."""
    if isinstance(self, int | float | complex):
        return tuple(_call("pow", self, e) for e in _listed("_foreach_pow", exponent))
    return _pow(self, exponent, **also)
