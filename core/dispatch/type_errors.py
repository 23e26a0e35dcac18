"""What a call with an argument of a wrong type says: PyTorch's TypeError, with the argument's public name.

Functions are written for arguments of the types that their signatures name; what fails inside of one that is given
something else is an AttributeError, a ValueError or whatever else its lines come upon. Public functions therefore look
at their arguments when they have failed, and only then: a call that succeeds pays nothing. So it is with NumPy's names
of arguments, which PyTorch's functions take too (`core.declare.signature.SPELLINGS`): no header lists them, and a call
that failed for one, before its function began, is made once more by the parameters' own.
"""

from __future__ import annotations

import dis
import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .. import native
from ..base.device import device as Device
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..declare.kinds import KINDS, SAME
from ..declare.signature import Parameter, signature_by
from ..rng.generator import Generator
from ..tensors import overriding
from ..tensors.tensor import Tensor

_Function = TypeVar("_Function", bound=Callable[..., Any])
_READ = ("invalid literal for int()", "could not convert string to float")  # Python's own words
_NOT_BOUND = re.compile(r"\(\) (got an unexpected keyword argument|missing \d+ required )")  # Python's own words
_OWN_WORDS = r"[\w.]+\(\)[: ]|gradients can be either Tensors or None"  # what our functions say, as PyTorch's do
_PUBLIC = {"x": "input", "a": "input", "b": "other", "self": "input"}


def _is_number(v: Any) -> bool:
    return isinstance(v, Tensor | np.ndarray | np.generic) or (
        not isinstance(v, str) and any(hasattr(v, f"__{k}__") for k in ("index", "float", "complex"))
    )


def _is_whole(v: Any) -> bool:
    if isinstance(v, Tensor | np.ndarray):  # their class has __index__, which serves those of one element
        return v.numel() == 1 if isinstance(v, Tensor) else v.size == 1
    return hasattr(v, "__index__")


def _is_foreign(v: Any) -> bool:
    """Return what no argument of any function is: a module, a dictionary, an object that is nothing else."""
    return type(v) is object or isinstance(v, ModuleType | dict)


def _some(kind: type | Any) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, kind)


_TAKES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "Tensor": ("Tensor", _some(Tensor)),
    "int": ("int", _is_whole),
    "float": ("float", _is_number),
    "bool": ("bool", _some((bool, int, np.generic, Tensor))),
    "str": ("str", _some(str)),
    "Dtype": ("dtype", _some((Dtype, type, np.dtype))),
    "Generator": ("Generator", _some(Generator)),
    "None": ("None", lambda v: v is None),
    "Sequence[int]": (
        "tuple of ints",
        lambda v: isinstance(v, list | tuple | np.ndarray | Tensor) and not _has_text(v),
    ),
    "Sequence[Tensor]": ("tuple of Tensors", lambda v: isinstance(v, list | tuple) and all(map(_some(Tensor), v))),
}
"""By what a signature says: the type's name in PyTorch's texts, and what passes for it. Generous where several of our
functions take more than PyTorch's (a number for a truth), so that no right call's error is explained away."""


_TAKES.update({kind: _TAKES[said] for said, kind in SAME.items() if said in _TAKES}, Dim=_TAKES["int"])
_TAKES["Tensors"] = ("tuple of Tensors", _some((list, tuple)))  # which of them is none the op says itself
_TAKES["Operand"] = ("Tensor", _is_number)
_TAKES["Scalar"] = ("Number", _is_number)
_TAKES["Dims"] = ("tuple of ints", lambda v: _is_whole(v) or _TAKES["Sizes"][1](v))
_TAKES["Device"] = ("device", _some((str, int, Device)))


@functools.cache
def _parameters(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _has_text(v: Any) -> bool:
    return isinstance(v, str) or (isinstance(v, list | tuple) and any(map(_has_text, v)))


def _wanted(parameter: inspect.Parameter, v: Any, numbers: bool, of_value: bool) -> str | None:
    """Return the name of what a parameter takes, where `v` is nothing of the kind; `numbers`: a text was read as a
    number.

    `of_value`: the error tells of values. A number that stands for a tensor may then be right, as several take
    one, and what is given for a type that the signature leaves open as well.
    """
    said = "Tensor" if parameter.name == "self" else parameter.annotation  # of a method of Tensor
    kinds = ["str" if k.startswith("Literal[") else k for k in said.split(" | ")] if isinstance(said, str) else ["Any"]
    if v is parameter.default or (of_value and isinstance(v, int | float | complex | np.number)):
        return None
    if not all(k in _TAKES for k in kinds):
        return "Tensor, number or tuple" if (_is_foreign(v) and not of_value) or (numbers and _has_text(v)) else None
    if any(_TAKES[k][1](v) for k in kinds):
        return None
    return _TAKES[kinds[0]][0]


def complaint(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *, numbers: bool = False,
              of_value: bool = False) -> str | None:  # fmt: skip
    """Return what is wrong with the type of an argument, in PyTorch's words; None where nothing is.

    `numbers` says that a text came where a number was read, in an argument whose type the signature leaves open, and
    `of_value` that the error tells of values (see `_wanted`).
    """
    function = getattr(function, "of", function)  # an in-place form has the signature of the function it writes by
    signature = _parameters(function)
    if signature is None:
        return None
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:  # too many or too few: Python's own words
        return None
    for position, (name, parameter) in enumerate(signature.parameters.items(), 1):
        if name not in given:
            continue
        several = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        for k, v in enumerate(given[name] if several else (given[name],)):
            wanted = _wanted(parameter, v, numbers, of_value)
            if wanted is None:
                continue
            declared = getattr(function, "op", None)
            op = function.__name__ if declared is None else declared.label
            if several and declared is not None:  # the general form of an elementwise op takes any number
                name = [*declared.inputs, *declared.params][position + k - 1]
            shown = _PUBLIC.get(name, name)
            came = type(v).__name__
            hint = (
                f"core.tensor({shown})" if wanted == "Tensor" and isinstance(v, list | int | float | np.ndarray) else ""
            )
            place = position + k - _written_as_a_method(len(args) + len(kwargs))
            where = "" if parameter.kind is inspect.Parameter.KEYWORD_ONLY or place < 1 else f" (position {place})"
            return text(f"{op}(): argument {shown!r}{where} must be {wanted}, not {came}", op=op,
                        came=f"{shown} = {_short(v)}", needed=wanted, remedy=hint)  # fmt: skip
    return None


def _written_as_a_method(given: int) -> bool:
    """Return whether the call that failed has its first argument before the dot, as in `x.sum(0, 0)`: PyTorch does not
    count that one.

    The caller's instruction says how many arguments stand between its parentheses; `given` is how many came.
    """
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    if frame is None:
        return False
    code, at = frame.f_code.co_code, frame.f_lasti
    return dis.opname[code[at]].startswith("CALL") and code[at + 1] == given - 1


def _short(v: Any) -> str:
    try:
        return repr(v)[:80]
    except Exception:  # a broken __repr__ is no reason to lose the message
        return f"a {type(v).__name__}"


# -- what is refused before the call -----------------------------------------------------------------------------------

_PLAIN = (int, float, str)  # in the order of the bits that native/binding/calls/public_function.c tests
_PASSES: dict[str, tuple[type, ...]] = {
    "Flag": (), "Int": (int,), "Dim": (int,), "Ints": (int,), "Dims": (int,), "Number": (int, float),
    "Scalar": (int, float), "Tensor": (),
}  # fmt: skip


class Refused(NamedTuple):
    """Which of Python's types an argument must not have, as bits over `_PLAIN`: by its place, and by its name."""

    places: bytes
    names: tuple[str, ...]
    named: bytes


def _refused(p: Parameter) -> int:
    """Return the bits of the types that are plainly wrong for a number, an integer or a truth; 0 for other kinds."""
    if not set(p.kinds) <= _PASSES.keys() or p.kinds == ("Tensor",):
        return 0
    passes = {type(p.default), *(t for k in p.kinds for t in _PASSES[k])}
    return sum(1 << k for k, t in enumerate(_PLAIN) if t not in passes)


@functools.cache
def refused(function: Any) -> Refused:
    """Return what a function refuses before it is called, as its parameters' kinds say."""
    signature = signature_by(function)
    if signature is None or signature.python:  # PyTorch's own Python looks at no types: relu(x, inplace=1)
        return Refused(b"", (), b"")
    places = []
    for p in signature.positional:
        if p.many:
            break
        places.append(_refused(p))
    named = {sys.intern(p.name): bits for p in signature.parameters if not p.many and (bits := _refused(p))}
    return Refused(bytes(places).rstrip(b"\0"), tuple(named), bytes(named.values()))


def refusal(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TypeError | None:
    """Return the TypeError for an argument that is refused before the call; None where there is none."""
    table = refused(function)
    wrong: list[tuple[int | str, Any]]
    wrong = [(k, v) for k, (v, bits) in enumerate(zip(args, table.places, strict=False)) if _is_refused(v, bits)]
    wrong += [(n, kwargs[n]) for n, bits in zip(table.names, table.named, strict=True)
              if n in kwargs and _is_refused(kwargs[n], bits)]  # fmt: skip
    signature = signature_by(function)
    if not wrong or signature is None:
        return None
    at, v = wrong[0]
    p = signature.positional[at] if isinstance(at, int) else signature.parameter(at)
    place = signature.parameters.index(p) + 1 - _written_as_a_method(len(args) + len(kwargs))
    where = "" if p.keyword_only or place < 1 else f" (position {place})"
    shown, wanted = _PUBLIC.get(p.name, p.name), KINDS[p.kinds[-1]].said
    return TypeError(
        text(f"{signature.name}(): argument {shown!r}{where} must be {wanted}, not {type(v).__name__}",
             op=signature.name, came=f"{shown} = {_short(v)}", needed=wanted,
             remedy="give several dims as a tuple, dim=(0, 1)" if p.name == "keepdim" and type(v) is int else "")
    )  # fmt: skip


def _is_refused(v: Any, bits: int) -> bool:
    return type(v) in _PLAIN and bool(bits >> _PLAIN.index(type(v)) & 1)


# -- what is said of a call that failed --------------------------------------------------------------------------------


def respelt(function: Any, error: Exception, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the keywords by the parameters' own names where the call failed because it has one of NumPy's, else None.

    Nothing of the function has run then: Python could not bind the arguments. An argument that is there twice stays so.
    """
    signature = signature_by(function) if type(error) is TypeError and _NOT_BOUND.search(str(error)) else None
    if signature is None or not signature.spellings.keys() & kwargs.keys():
        return None
    body, trace = getattr(inspect.unwrap(function), "__code__", None), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is body:  # a function that this one calls was given the name
            return None
        trace = trace.tb_next
    taken = {p.name for p in signature.positional[: len(args)]}
    own: dict[str, Any] = {}
    for word, value in kwargs.items():
        name = signature.spellings.get(word, word)
        if name in taken or name in own:
            return None
        own[name] = value
    return own


OLDER = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
"""Functions whose factor PyTorch still takes in second place, as it once stood: ``x.addcmul_(0.5, a, b)``."""
_TOO_MANY = re.compile(r"takes (from \d+ to )?\d+ positional arguments? but \d+ were given")  # Python's own words


def reordered(
    function: Any, error: Exception, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments in today's order where the call failed because its factor stands where it once did."""
    if not isinstance(error, TypeError) or not _TOO_MANY.search(str(error)):
        return None
    signature = signature_by(getattr(function, "of", function))
    factor = None if signature is None else OLDER.get(signature.name)
    if factor is None or factor in kwargs or len(args) < 3 or isinstance(args[1], Tensor) or not _is_number(args[1]):
        return None
    return (args[0], *args[2:]), {**kwargs, factor: args[1]}


def explained(
    function: Any, error: BaseException | None, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> TypeError | dict[str, Any] | tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the TypeError that stands for `error`, which the call raised; None where the arguments are of the right
    types.

    A dictionary is the keywords by which the call is to be made once more (`respelt`), a pair all of its arguments
    (`reordered`). A TypeError that the function
    wrote itself stays. The other one's cause is the error that came. None for `error` asks for that of a call which is
    refused before it is made.
    """
    if error is None:
        return refusal(function, args, kwargs)
    if not isinstance(error, Exception):
        return None
    if kwargs and (own := respelt(function, error, args, kwargs)) is not None:
        return own
    if len(args) > 2 and (older := reordered(function, error, args, kwargs)) is not None:
        return older
    if isinstance(error, TypeError) and error.__cause__ is None and re.match(_OWN_WORDS, str(error)):
        return None
    numbers = isinstance(error, ValueError) and str(error).startswith(_READ)
    of_value = isinstance(error, RuntimeError | ArithmeticError | IndexError)
    said = complaint(function, args, kwargs, numbers=numbers, of_value=of_value)
    if said is None:
        return None
    known = TypeError(said)
    inner = isinstance(error, TypeError) and error.__cause__ is not None  # explained by a function that this one calls
    known.__cause__ = error.__cause__ if inner else error
    return known


def guarded(function: _Function) -> _Function:
    """`function`, whose errors for arguments of wrong types are PyTorch's TypeError."""
    if native.module is not None:
        # native/binding/calls/public_function.c calls `explained` when a call fails, and `refused` before the first
        return native.module.PublicFunction(function, function)  # type: ignore[no-any-return]

    @functools.wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        if overriding.active and (answer := overriding.ask(public, args, kwargs)) is not NotImplemented:
            return answer
        while True:
            if (wrong := refusal(function, args, kwargs)) is not None:
                raise wrong
            try:
                return function(*args, **kwargs)
            except Exception as error:
                if not overriding.active and overriding.relevant(args, kwargs):  # of a class that is no tensor's
                    overriding.activate()
                    return public(*args, **kwargs)
                known = explained(function, error, args, kwargs)
                if known is None:
                    raise
                if isinstance(known, TypeError):
                    raise known from known.__cause__
                args, kwargs = known if isinstance(known, tuple) else (args, known)

    return public  # type: ignore[return-value]


if native.module is not None:
    native.module.set_explained(explained, refused)
