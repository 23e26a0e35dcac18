"""The declaration of a C kernel of an op: what it takes, what it gives, and the call, once for C and for Python.

    kernel(
        "layer_norm",
        "x: real[*rows, *n], weight: real[*n]?, bias: real[*n]?, normalized_ndim: len(n), eps: float",
        gives="y: real[*rows, *n], mean: real[*rows], rstd: real[*rows]",
        call="layer_norm_forward.T(x, weight, bias, y, mean, rstd, rows, n, eps)",
    )

From it the build prints the op's entry (`core.declare.emit_adapters`: the C function between Python's arguments and the
kernel), and `core.backends.declared` makes the op's row, whose `declines` says in a sentence what the kernel does not
take. The arguments stand in the order in which the row is called: an op's inputs and parameters, for "<op>.backward"
what its vjp asks for. Each is one of

- ``type[axes]``, an array. Types: `real` (float32 or float64), `number` (or int64), `item` (or int32 or bool), `count`
  (or uint8): all arrays of these have the type of the first; `complex`, whose parts are `real` ones of the same size;
  `bool`, `int64`, `double`. An axis is a size (``n``), or
  with a star a run of axes whose sizes are multiplied (``*rows``); ``...`` stands for all. One name is one size
  everywhere. A word says how it has to lie: without one in row-major order, or else it is copied; `whole`: or else it
  is declined; `strided`: anyhow, in whole items; `dense`: in any order without gaps; `written`: strided, and written to
- ``type[axes]?``, an array or None; ``int64[axes] < size``: indices, an IndexError where one is out of range
- ``shape[axes]``, a tuple with the sizes of an array that is not there; with ``?`` or None
- ``axis(n)``, ``axes(n)``, ``len(n)``: the axis of x that is n, the neighbouring axes that are, how many they are
- ``int``, ``word`` (64 bits), ``float``, ``flag``, ``text``, tuples of ``ints``, ``pairs``, ``flags``; ``value``, an
  item of x's type; ``needs``, which gradients are wanted; ``(spec, spec)``, a tuple, whose items are called after it
  with a number; ``any_object``: nothing is read

What it gives are new arrays: ``name: type[axes]``; ``*n|keepdim`` stands for ones where keepdim, else for nothing, and
``[plan]`` for the shape that the plan has found. Behind it `` if condition`` gives None where that does not hold,
`` only if condition`` leaves it out, `` if condition else g if other`` gives an argument. ``None`` stands for itself. A
comma at the end makes a tuple of one.

Conditions, sizes and the call are expressions in Python's grammar: sizes and numbers by name, ``x.size``, ``x.ndim``,
``x.shape``, ``x.item`` (an item's bytes), ``x.view`` (kernels/strided.h), ``len(dim)``, ``f.T(...)`` for the function
of the type (f_f32, f_f64, f_i64), ``address(plan)``, ``struct("name", ...)`` for the address of a struct,
``value("name", ...)`` for one itself, ``indices(i, j, ...)`` for an array of arrays of int64, ``list_of(...)`` for an
array in a struct.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

TYPES = {"real": "fd", "number": "fdl", "item": "fdli?", "count": "fdliB?", "complex": "FD"}
FIXED = {"int64": "l", "double": "d", "bool": "?", "float32": "f", "uint32": "I", "int8": "b", "uint8": "B"}
LAYOUTS = ("", "whole", "strided", "dense", "written")
READERS = (
    "int",
    "word",
    "float",
    "flag",
    "ints",
    "pairs",
    "flags",
    "value",
    "text",
    "needs",
    "any_object",
)


class Axis(NamedTuple):
    """A size, or a run of axes (`many`); `kept`: the flag with which a run stands as ones."""

    text: str
    many: bool = False
    kept: str = ""


class Argument(NamedTuple):
    """What is read of one argument; `items`: those of a tuple."""

    name: str
    kind: str  # "array", "shape", "axis", "axes", "len", "tuple" or one of READERS
    type: str = ""
    axes: tuple[Axis, ...] | None = None  # None: any
    optional: bool = False
    layout: str = ""
    below: str = ""
    items: tuple[Argument, ...] = ()


class Result(NamedTuple):
    """A new array: `only` leaves it out where `condition` does not hold. Without a type it is None."""

    name: str
    type: str = ""
    axes: tuple[Axis, ...] = ()
    condition: str = ""
    only: bool = False
    instead: str = ""  # the argument that is given itself where `when` holds and the condition does not
    when: str = ""


class _Declared(NamedTuple):
    """One kernel as it was declared.

    requires : what is declined where it does not hold, and what the row then says of it.
    takes : the same of what the row serves in another way (`run`), or leaves to the op's reference.
    misfit : whether shapes that do not fit are declined; else they are a ValueError.
    plan : "type: call" of a function that fills a struct from what was read, and gives 0 for what it does not take.
    beside : `scratch`, further arrays, for the call alone.
    quiet : the condition under which other threads run meanwhile; None: where the first array is large.
    fails : what the call gives back: "", "memory" (0 without), "declines" (0 for what it does not take), or a place
        in an array that is an IndexError: (message with %lld, the array).
    run : the row's function where it is more than the entry; False for what is no row but called by name.
    say : a further reason to decline, in Python: say(*arrays, **params) for what `requires` cannot say.
    half : whether half-precision types are widened for it.
    row, backend : what the row is called, and by whose name it goes.
    any_type : whether the row serves arrays of any type, though the entry does not.
    """

    name: str
    text: str  # of the arguments, as they are declared
    gives: str
    call: str
    requires: Mapping[str, str]
    takes: tuple[str, ...]
    misfit: bool
    plan: str
    beside: str  # `scratch`, as it is declared
    quiet: str | None
    fails: Any
    run: Any
    say: Callable[..., str | None] | None
    half: bool
    row: str
    backend: str
    any_type: bool


class Kernel(_Declared):
    """A declared kernel; its texts are read when somebody asks for what they say."""

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """What it takes."""
        return tuple(_argument(*part.split(":", 1)) for part in split(self.text))

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """What it gives."""
        return tuple(_result(part) for part in split(self.gives))

    @cached_property
    def single(self) -> bool:
        """Whether it gives one array, and not a tuple of one."""
        return len(self.results) == 1 and not self.gives.rstrip().endswith(",")

    @cached_property
    def scratch(self) -> tuple[Result, ...]:
        """The arrays that the call alone needs."""
        return tuple(_result(part) for part in split(self.beside))


kernels: dict[str, Kernel] = {}  # every declared kernel by its op's name, or "<op>.backward"


def kernel(
    name: str,
    arguments: str,
    *,
    gives: str,
    call: str,
    requires: Mapping[str, str] | None = None,
    takes: tuple[str, ...] = (),
    misfit: bool = False,
    plan: str = "",
    scratch: str = "",
    quiet: str | None = None,
    fails: Any = "",
    run: Any = None,
    say: Callable[..., str | None] | None = None,
    half: bool = True,
    row: str = "",
    backend: str = "C",
    any_type: bool = False,
) -> Kernel:
    """Declare the C kernel of the op `name`, or of its gradients ("<op>.backward"); see this file's first lines."""
    if name in kernels:
        raise ValueError(f"a kernel of {name!r} is declared already")
    default = name.replace(".", "_") + ("" if "." in name else "_forward")
    found = Kernel(name, arguments, gives, call, dict(requires or {}), takes, misfit, plan, scratch, quiet, fails, run,
                   say, half and not any_type, row or default, backend, any_type)  # fmt: skip
    kernels[name] = found
    return found


def split(text: str) -> list[str]:
    """Split at the commas that stand outside all brackets.

    >>> split("x: real[n, m], dim: axis(n)")
    ['x: real[n, m]', 'dim: axis(n)']
    """
    parts, depth = [""], 0
    for char in text:
        depth += (char in "([") - (char in ")]")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [p.strip() for p in parts if p.strip()]


def _axes(text: str) -> tuple[Axis, ...] | None:
    if text == "...":
        return None
    return tuple(_axis(part) for part in split(text))


def _axis(text: str) -> Axis:
    if not text.startswith("*"):
        return Axis(text)
    name, _, kept = text[1:].partition("|")
    return Axis(name, True, kept)


_ARRAY = re.compile(r"(\w+)\[(.*)\](\??)(?: (whole|strided|dense|written))?(?: < (\w+))?")
_SIZED = re.compile(r"(axis|axes|len)\((\w+)\)")


def _argument(name: str, text: str) -> Argument:
    name, text = name.strip(), text.strip()
    if text.startswith("("):
        items = tuple(_argument(f"{name}{k}", part) for k, part in enumerate(split(text[1:-1])))
        return Argument(name, "tuple", items=items)
    if found := _SIZED.fullmatch(text):
        return Argument(name, found[1], below=found[2])
    if found := _ARRAY.fullmatch(text):
        kind, axes, optional, layout, below = found.groups()
        if kind == "shape":
            return Argument(name, "shape", axes=_axes(axes), optional=bool(optional))
        if kind in TYPES or kind in FIXED:
            return Argument(name, "array", kind, _axes(axes), bool(optional), layout or "", below or "")
    if text in READERS:
        return Argument(name, text)
    raise ValueError(f"no argument is written {name}: {text}")


_RESULT = re.compile(r"(\w+): (\w+)\[(.*)\]")


def _result(text: str) -> Result:
    if text == "None":
        return Result("")
    array, _, condition = text.partition(" if ")
    condition, _, other = condition.partition(" else ")
    instead, _, when = other.partition(" if ")
    found = _RESULT.fullmatch(array.removesuffix(" only"))
    if not found:
        raise ValueError(f"no result is written {text}")
    return Result(found[1], found[2], _axes(found[3]) or (), condition, array.endswith(" only"), instead, when)
