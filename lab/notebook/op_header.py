"""The line of `%%ckernel` and `%%triton`: ``name(x[n], w[n,m], a=2.0) -> out[m]``, and the options behind it."""

from __future__ import annotations

import argparse
import inspect
import re
import shlex
from dataclasses import dataclass
from typing import Any, NoReturn

from core.base.shape import Rule, parse_rule

from ..console.options import Parser

FORM = "name(x[n], w[n,m], a=2.0) -> out[m]"
_HEADER = re.compile(r"(\w+)\((.*)\)\s*->\s*(.+)", re.DOTALL)
_ARRAY = re.compile(r"([A-Za-z_]\w*)\s*(?:\[([^\]]*)\])?")
_NUMBER = re.compile(r"([A-Za-z_]\w*)\s*=\s*(.+)")
_BETWEEN = re.compile(r",(?![^\[]*\])")


class Wrong(ValueError):
    """A cell of which no op can be made; the message says why, and what would be right."""


@dataclass(frozen=True)
class Header:
    """An op as its header says it. Sizes of an array are None where the header has no brackets: inputs broadcast then,
    and outputs have their shape."""

    name: str
    inputs: dict[str, tuple[str, ...] | None]
    numbers: dict[str, float | int]
    outputs: dict[str, tuple[str, ...] | None]

    @property
    def rule(self) -> str:
        """The shape rule as `core.library.custom_op` takes it.

        >>> header_of("f(x[n], w[n,m]) -> out[m]").rule, header_of("f(x, y) -> out").rule
        ('(n),(n,m)->(m)', '')
        """
        if None in self.inputs.values():
            return ""
        left, right = (",".join(f"({','.join(dims or ())})" for dims in side.values())
                       for side in (self.inputs, self.outputs))  # fmt: skip
        return f"{left}->{right}"

    @property
    def letters(self) -> tuple[str, ...]:
        """The sizes that have names, in the order in which kernels are told them.

        >>> header_of("f(x[n], w[n,m]) -> out[m]").letters
        ('n', 'm')
        """
        parsed = self._parsed()
        return tuple(dict.fromkeys(d for dims in parsed.inputs for d in dims if not d.isdigit())) if parsed else ()

    @property
    def signature(self) -> inspect.Signature:
        """The op's as a Python function."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([
            *(inspect.Parameter(n, kind) for n in self.inputs),
            *(inspect.Parameter(n, kind, default=v) for n, v in self.numbers.items()),
        ])  # fmt: skip

    def _parsed(self) -> Rule | None:
        return parse_rule(self.rule) if self.rule else None

    def __str__(self) -> str:
        """The header again.

        >>> str(header_of("f( x[n],w[n,m] , a=2 )->out[m]"))
        'f(x[n], w[n,m], a=2) -> out[m]'
        """

        def array(item: tuple[str, tuple[str, ...] | None]) -> str:
            return item[0] if item[1] is None else f"{item[0]}[{','.join(item[1])}]"

        numbers = (f"{n}={v}" for n, v in self.numbers.items())
        outputs = ", ".join(map(array, self.outputs.items()))
        return f"{self.name}({', '.join([*map(array, self.inputs.items()), *numbers])}) -> {outputs}"


def header_of(text: str) -> Header:
    """Return what a header says. *Raises*: Wrong, with what could not be read.

    >>> header_of("axpy(x, y, a=2.0) -> out").numbers
    {'a': 2.0}
    """
    found = _HEADER.fullmatch(text.strip())
    if found is None:
        raise Wrong(f"{text.strip()!r:.80} is no header; needed: {FORM}")
    inputs: dict[str, tuple[str, ...] | None] = {}
    outputs: dict[str, tuple[str, ...] | None] = {}
    numbers: dict[str, float | int] = {}
    for part in filter(None, map(str.strip, _BETWEEN.split(found[2]))):
        if (number := _NUMBER.fullmatch(part)) is not None:
            numbers[number[1]] = _number(number[1], number[2])
        else:
            _put(inputs, part)
    for part in _BETWEEN.split(found[3]):
        _put(outputs, part.strip())
    if not inputs or {*inputs} & {*outputs} or {*numbers} & {*inputs, *outputs}:
        raise Wrong(f"{text.strip()!r:.80}: needed are inputs, and a name of its own for each of them: {FORM}")
    sized = {dims is not None for dims in (*inputs.values(), *outputs.values())}
    if len(sized) > 1:
        raise Wrong(
            f"{text.strip()!r:.80}: either all arrays have sizes, as in {FORM}, or none has, and they broadcast"
        )
    header = Header(found[1], inputs, numbers, outputs)
    if loose := [d for dims in outputs.values() for d in dims or () if not d.isdigit() and d not in header.letters]:
        raise Wrong(f"{header}: no input has the size {', '.join(loose)}, so that nothing says how long the output is")
    return header


def _put(into: dict[str, tuple[str, ...] | None], part: str) -> None:
    found = _ARRAY.fullmatch(part)
    dims = None if found is None or found[2] is None else tuple(filter(None, map(str.strip, found[2].split(","))))
    if found is None or any(not (d.isidentifier() or d.isdigit()) for d in dims or ()) or found[1] in into:
        raise Wrong(f"{part!r:.60} is neither an array nor a number; needed: x, x[n,m] or a=2.0, as in {FORM}")
    into[found[1]] = dims


def _number(name: str, said: str) -> float | int:
    for kind in (int, float):
        try:
            return kind(said)  # type: ignore[no-any-return, operator]
        except ValueError:
            pass
    raise Wrong(f"{name}={said} is no number; needed: its default, as in a=2.0")


class _Parser(Parser):
    def error(self, message: str) -> NoReturn:
        raise Wrong(message)


def parser(magic: str, what: str, example: str) -> Parser:
    """Return the parser of what follows the header."""
    found = _Parser(prog=f"%%{magic}", add_help=False, usage=f"%%%%{magic} HEADER [options]", example="",
                    description=what, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    found.add_argument("--check", action="store_true", help="compare with the reference, where arrays end at memory "
                       "that nobody may touch, and the gradient with the reference's or with differences")  # fmt: skip
    found.add_argument("--reference", metavar="NAME", help="a function of the notebook on core's tensors that says "
                       "what is right")  # fmt: skip
    found.epilog = f"example:\n\n{example}"
    return found


def parted(line: str) -> tuple[Header, list[str]]:
    """Return the header, and the words of the options behind it. *Raises*: Wrong.

    >>> header, words = parted("twice(x) -> y --check")
    >>> header.name, words
    ('twice', ['--check'])
    """
    head, dashes, rest = line.partition(" --")
    try:
        return header_of(head), shlex.split(dashes.strip() + rest)
    except ValueError as error:
        raise error if isinstance(error, Wrong) else Wrong(str(error)) from None


def evaluated(name: str, names: dict[str, Any]) -> Any:
    """Return the function of the notebook that an option names. *Raises*: Wrong."""
    found = names.get(name)
    if not callable(found):
        came = "the notebook has none of that name" if found is None else f"it is a {type(found).__name__}"
        raise Wrong(f"--reference {name}: needed is a function, and {came}")
    return found
