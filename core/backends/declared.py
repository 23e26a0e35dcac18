"""The CPU's rows of declared kernels (core.declare.kernel): what they run, and in words what they do not take.

The entry, which the build prints from the same declaration, looks at the arguments once more and takes less than the
row: what lies in a row. The row brings arrays into one piece and dimensions to the end, and what the entry then leaves
(indices out of range, odd numbers) goes to the op's reference, a gradient to the op's own vjps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .. import native
from ..base.modes import no_grad
from ..declare import op as declarations
from ..declare.kernel import FIXED, TYPES, Argument, Kernel, kernels
from ..tensors.tensor import Tensor, from_array
from . import Row

c: Any = native.module
_TYPES = {"real": "float32 and float64", "number": "float32, float64 and int64",
          "item": "float32, float64, int64, int32, bool", "complex": "complex64 and complex128"}  # fmt: skip
_SAYS = {"int64": "int64 indices"}


@cache
def _not_of(kind: str, dtype: Any) -> str:  # NumPy takes 3 us to write a dtype's name
    return f"takes {_TYPES.get(kind) or _SAYS.get(kind, kind)}, got {dtype}"


def row(name: str) -> Row | None:
    """Return the row of a declared kernel, without its entry; None where there is none."""
    kernel = kernels.get(name)
    if kernel is None or kernel.run is False:
        return None
    return Row(kernel.row, kernel.backend, kernel.run or _run(kernel), _declines(kernel))


# -- what is declined --------------------------------------------------------------------------------------------------


def _declines(kernel: Kernel) -> Callable[..., str | None]:
    """Return the function that says why the kernel does not take what an op is called with; its text is put together
    here, so that asking it costs no more than it would written by hand."""
    names = [a.name for a in kernel.arguments]
    lines: list[str] = []
    main: str | None = None
    for a, where in [] if kernel.any_type else _arrays(kernel):
        there = f"{where} is not None and " if a.optional else ""
        if a.type in FIXED:
            lines.append(f"if {there}{where}.dtype.char != {FIXED[a.type]!r}: return not_of({a.type!r}, {where}.dtype)")
        elif main is None:
            main = where
            lines.append(f"if {where}.dtype.char not in {TYPES[a.type]!r}: return not_of({a.type!r}, {where}.dtype)")
        else:
            lines += [f"if {there}{where}.dtype != {main}.dtype:",
                      f"    return f'takes one floating type, got {{{main}.dtype}} and {{{where}.dtype}}'"]  # fmt: skip
        lines += _dimensions(a, where, where == main)
    for k, condition in enumerate(kernel.requires):
        lines.append(f"if not ({condition}): return says[{k}]")
    if kernel.say is not None:
        lines.append(f"return say({', '.join(f'{n}={n}' for n in names)})")
    return _made(f"def declines({', '.join(names)}):", lines or ["return None"], kernel.name,
                 not_of=_not_of, says=list(kernel.requires.values()), say=kernel.say)  # fmt: skip


def _dimensions(a: Argument, where: str, first: bool) -> list[str]:
    """Return the lines that decline another number of dimensions than an array has to have."""
    if a.axes is None or a.optional or not (first or all(not x.many for x in a.axes)):
        return []
    runs, sizes = sum(x.many for x in a.axes), sum(not x.many for x in a.axes)
    if not runs:
        return [f"if {where}.ndim != {sizes}: return f'takes {a.name} of {sizes} dimensions, got {{{where}.ndim}}'"]
    if sizes == 1:
        return [f"if {where}.ndim == 0: return 'needs a dimension to run over, got a 0-d tensor'"]
    return (
        [f"if {where}.ndim < {sizes}: return f'takes {sizes} or more dimensions, got {{{where}.ndim}}'"]
        if sizes
        else []
    )


def _arrays(kernel: Kernel) -> list[tuple[Argument, str]]:
    """Return the arguments that are arrays, and where they stand."""
    found = [(a, a.name) for a in kernel.arguments]
    found += [(item, f"{a.name}[{k}]") for a in kernel.arguments for k, item in enumerate(a.items)]
    return [(a, where) for a, where in found if a.kind == "array"]


def _made(head: str, lines: list[str], name: str, **known: Any) -> Any:
    """Return the function of that text."""
    source = "\n".join([head, *(f"    {line}" for line in lines)])
    names: dict[str, Any] = {"np": np, "math": math, **known}
    exec(compile(source, f"<gradlab row of {name}>", "exec"), names)
    return names[head.split("(")[0].removeprefix("def ")]


# -- what is run -------------------------------------------------------------------------------------------------------


def _run(kernel: Kernel) -> Callable[..., Any]:
    names = ", ".join(a.name for a in kernel.arguments)
    lines = [f"found = entry({names})", f"return found if found is not NotImplemented else left(kernel, ({names},))"]
    return _made(f"def run({names}):", lines, kernel.name, entry=c.entries[kernel.name], left=left, kernel=kernel)  # type: ignore[no-any-return]


def _whole(value: Any) -> Any:
    """Return an array in one piece, in row-major order; anything else as it is."""
    if not isinstance(value, np.ndarray):
        return value
    return value if value.flags.c_contiguous and value.flags.aligned else np.array(value, order="C")


def left(kernel: Kernel, values: tuple[Any, ...]) -> Any:
    """Return what arrays in one piece give, or else the reference."""
    found = c.entries[kernel.name](*map(_whole, values))
    return by_reference(kernel, values) if found is NotImplemented else found


def by_reference(kernel: Kernel, values: tuple[Any, ...]) -> Any:
    """Return what the op's reference gives, of gradients its vjps."""
    named = dict(zip([a.name for a in kernel.arguments], values, strict=True))
    if kernel.name.endswith(".backward"):
        return by_vjps(kernel.name.removesuffix(".backward"), named)
    op: Any = declarations.table[kernel.name]
    arrays = values[: len(op.inputs)]
    with np.errstate(all="ignore"):
        return op.forward(np, *arrays, **{n: named[n] for n in op.params})


def by_vjps(name: str, named: dict[str, Any]) -> Any:
    """Return the gradients of an op as its vjps give them, from what its "<op>.backward" row is called with."""

    def tensor(v: Any) -> Any:
        return from_array(v) if isinstance(v, np.ndarray) else v

    op: Any = declarations.table[name]
    needs = named.get("needs", (True,) * len(op.vjps))
    out = []
    with no_grad():
        for vjp, wanted in zip(op.vjps, needs, strict=True):
            g = vjp.function(*(tensor(named[n]) for n in vjp.names)) if vjp is not None and wanted else None
            out.append(g._a if isinstance(g, Tensor) else g)
    return out[0] if op.joint else tuple(out)
