"""``_foreach_*``: an op for each tensor of a list, one after another, by the names that PyTorch's optimizers use.

Each takes a list of tensors first; what comes beside it is a number for all, a tensor for all, or a list of one for
each. A name with _ at its end writes into the tensors and returns nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import text
from ..tensors.tensor import Tensor

ALONE = ("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
         "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh",
         "sqrt", "tan", "tanh", "trunc", "zero_")  # fmt: skip
BESIDE = ("add", "addcdiv", "addcmul", "clamp_max", "clamp_min", "copy_", "div", "lerp", "maximum", "minimum", "mul",
          "pow", "sub")  # fmt: skip
METHODS = {"maximum": "clamp_min", "minimum": "clamp_max"}  # of a number these stand for the others


def _for_each(name: str, tensors: Sequence[Tensor], others: tuple[Any, ...], more: dict[str, Any]) -> list[Tensor]:
    """Return what the method gives for each tensor, with its part of every list."""
    if not tensors or not all(isinstance(t, Tensor) for t in tensors):
        raise RuntimeError(text("Tensor list must have at least one tensor.", op=f"_foreach_{name}",
                                came=f"{len(tensors)} of {', '.join({type(t).__name__ for t in tensors}) or 'nothing'}",
                                needed="a list of tensors"))  # fmt: skip
    for given in (*others, *more.values()):
        if isinstance(given, list | tuple) and len(given) != len(tensors):
            raise RuntimeError(text("Tensor lists must have the same number of tensors", op=f"_foreach_{name}",
                                    came=f"{len(tensors)} and {len(given)}"))  # fmt: skip

    def part(given: Any, k: int) -> Any:
        return given[k] if isinstance(given, list | tuple) else given

    found = []
    for k, t in enumerate(tensors):
        own, named = [part(o, k) for o in others], {word: part(o, k) for word, o in more.items()}
        plain = name.removesuffix("_")
        number = plain in METHODS and bool(own) and not isinstance(own[0], Tensor)
        method = METHODS[plain] + name[len(plain) :] if number else name
        if plain in ("addcmul", "addcdiv") and len(own) == 3:  # the third is the factor
            named["value"] = own.pop()
        found.append(getattr(t, method)(*own, **named))
    return found


def _made(name: str) -> Callable[..., Any]:
    writes = name.endswith("_")

    def function(self: Sequence[Tensor], *others: Any, **more: Any) -> list[Tensor] | None:
        found = _for_each(name, self, others, more)
        return None if writes else found

    function.__name__ = function.__qualname__ = f"_foreach_{name}"
    what = "Write it into" if writes else "Return it for"
    function.__doc__ = f"""``x.{name}(...)``. {what} each tensor x of a list."""
    return function


def norm(self: Sequence[Tensor], ord: float = 2, dtype: Any = None) -> list[Tensor]:
    """Return the norm of each tensor of a list, as a tensor without dimensions.

    >>> import core
    >>> core._foreach_norm([core.tensor([3.0, 4.0]), core.ones(4)])
    [tensor(5.), tensor(2.)]
    """
    cast = [t if dtype is None else t.to(dtype) for t in self]
    return [t.norm(ord) for t in cast]


def largest(self: Sequence[Tensor]) -> list[Tensor]:
    """Return the largest element of each tensor of a list."""
    return [t.max() for t in self]


functions: dict[str, Callable[..., Any]] = {"_foreach_norm": norm, "_foreach_max": largest}
for _name in (*ALONE, *BESIDE):
    for _form in dict.fromkeys((_name, _name.removesuffix("_") + "_")):
        functions[f"_foreach_{_form}"] = _made(_form)
