"""Shapes: `Size`, broadcasting, dimensions, and shape rules in NumPy's gufunc grammar."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any, NamedTuple

from .errors import text


class Size(tuple[int, ...]):
    """A shape: a tuple of ints that also counts its elements.

    >>> Size((2, 3)).numel(), Size((2, 3))
    (6, core.Size([2, 3]))
    """

    __slots__ = ()

    def numel(self) -> int:
        n = 1
        for d in self:
            n *= d
        return n

    def __getitem__(self, key: Any) -> Any:
        part = tuple.__getitem__(self, key)
        return Size(part) if isinstance(key, slice) else part

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, other))

    def __repr__(self) -> str:
        return f"core.Size({list(self)})"


def broadcast_shapes(*shapes: Sequence[int], op: str = "") -> tuple[int, ...]:
    """Return the shape that all broadcast to: dimensions are aligned at the right, and a 1 stretches.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    out: list[int] = []
    for k in range(1, max((len(s) for s in shapes), default=0) + 1):
        size = 1
        for s in shapes:
            if k <= len(s) and s[-k] != 1:
                if size not in (1, s[-k]):
                    raise RuntimeError(_mismatch(shapes, k, op))
                size = s[-k]
        out.append(size)
    return tuple(reversed(out))


def _mismatch(shapes: Sequence[Sequence[int]], k: int, op: str) -> str:
    width = max(len(s) for s in shapes)
    at_k = [s[-k] for s in shapes if k <= len(s)]
    sizes = [d for d in at_k if d != 1]
    second = next(d for d in sizes if d != sizes[0])
    rows = "\n".join("    " + " ".join(f"{d!s:>4}" for d in [""] * (width - len(s)) + list(s)) for s in shapes)
    return (
        f"The size of tensor a ({sizes[0]}) must match the size of tensor b ({second}) at non-singleton dimension "
        f"{width - k}\n  op: {op or 'broadcast'}; came: {' and '.join(str(tuple(s)) for s in shapes)}; aligned at "
        f"the right:\n"
        f"{rows}\n    {'     ' * (width - k)}{'^':>4}  needed: equal sizes, or 1; "
        f"remedy: unsqueeze or transpose one of them, so that these two agree"
    )


def normalize_dim(dim: int, ndim: int, op: str = "") -> int:
    """`dim` counted from the front; IndexError when it is out of range."""
    try:
        dim = index(dim)
    except TypeError:
        raise TypeError(text(f"{op or 'dim'}(): argument 'dim' must be int, not {type(dim).__name__}", op=op)) from None
    n = max(ndim, 1)
    if not -n <= dim < n:
        raise IndexError(
            text(
                f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})",
                op=op,
                came=f"dim={dim} for a tensor of {ndim} dimensions",
            )
        )
    return dim % n


def normalize_dims(dim: int | Iterable[int] | None, ndim: int, op: str = "") -> tuple[int, ...]:
    """Return a dim, several or None (all), as a sorted tuple counted from the front."""
    if dim is None:
        return tuple(range(ndim))
    if isinstance(dim, Mapping):  # its keys are no dims, and with none it is not all of them
        raise TypeError(text(f"{op or 'dim'}(): argument 'dim' must be tuple of ints, not {type(dim).__name__}", op=op))
    dims = [normalize_dim(d, ndim, op) for d in (dim if isinstance(dim, Iterable) else (dim,))]
    if not dims:
        return tuple(range(ndim))
    if len(set(dims)) != len(dims):
        twice = next(d for d in dims if dims.count(d) > 1)
        raise RuntimeError(text(f"dim {twice} appears multiple times in the list of dims", op=op))
    return tuple(sorted(d for d in dims if ndim))


class Rule(NamedTuple):
    """A parsed shape rule: the core dimensions of every input and output."""

    source: str
    inputs: tuple[tuple[str, ...], ...]
    outputs: tuple[tuple[str, ...], ...]

    def check(self, op: str, names: Sequence[str], shapes: Sequence[Sequence[int] | None]) -> dict[str, int]:
        """Return the size of every named dimension; RuntimeError where the inputs disagree. A number in the rule is
        a size."""
        sizes: dict[str, int] = {}
        came = ", ".join(f"{n} {tuple(s)}" for n, s in zip(names, shapes, strict=False) if s is not None)
        for name, dims, shape in zip(names, self.inputs, shapes, strict=False):
            if shape is None:
                continue
            if len(shape) < len(dims):
                phrase = f"{op}: {name} needs at least {len(dims)} dimension(s), got {len(shape)}"
                raise RuntimeError(text(phrase, op=op, came=came, needed=self.source))
            for letter, size in zip(dims, shape[len(shape) - len(dims) :], strict=True):
                if letter.isdigit() and int(letter) != size:
                    phrase = f"{op}: {name} needs size {letter}, got {size}"
                    raise RuntimeError(text(phrase, op=op, came=came, needed=self.source))
                if sizes.setdefault(letter, size) != size:
                    phrase = f"{op}: the inputs disagree on size {letter}: {sizes[letter]} and {size}"
                    raise RuntimeError(text(phrase, op=op, came=came, needed=self.source))
        leading = [s[: len(s) - len(dims)] for s, dims in zip(shapes, self.inputs, strict=False) if s is not None]
        if any(leading):
            broadcast_shapes(*leading, op=f"{op}, the dimensions before {self.source}")
        return sizes


def parse_rule(source: str) -> Rule:
    """Parse ``"(m,k),(k,n)->(m,n)"``: core dimensions at the right, everything before them broadcasts.

    >>> parse_rule("(m,k),(k,n)->(m,n)").inputs
    (('m', 'k'), ('k', 'n'))
    """
    left, arrow, right = source.replace(" ", "").partition("->")
    if not arrow:
        raise ValueError(f"a shape rule reads '(n)->(n)', got {source!r}")

    def side(part: str) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(d for d in g.split(",") if d) for g in re.findall(r"\(([^)]*)\)", part))

    return Rule(source, side(left), side(right))


def as_shape(args: Any, op: str = "", as_given: bool = False) -> tuple[int, ...]:
    """Return the shape of ``f(2, 3)``, ``f((2, 3))`` or ``f(core.Size([2, 3]))``.

    `as_given` leaves integers that remember where they come from (`core.export.sizes`) as they are."""
    if len(args) == 1 and isinstance(args[0], tuple | list):
        args = args[0]
    try:
        return tuple([d if d.__class__ is int or (as_given and hasattr(d, "formula")) else index(d) for d in args])
    except TypeError:
        bad = next(d for d in args if not hasattr(d, "__index__"))
        phrase = (
            f"{op or 'size'}(): argument 'size' must be tuple of ints, but found element of type {type(bad).__name__}"
        )
        raise TypeError(text(phrase, op=op, came=repr(args), remedy="int(...) or // for whole sizes")) from None
