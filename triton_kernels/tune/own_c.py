"""A C function of the user's own: as a problem to tune, and to be called with what was found.

Arguments are NumPy arrays and numbers by name, a reference in NumPy says what the arrays should become. Each config is
compiled with its values as macros, run in a worker in guarded memory (`memory`), with its outputs poisoned and its
inputs put back, compared, and only then timed. What wins serves calls of the very shapes and integers that it was
checked at: of a C function nobody knows what another shape does to a config. `c_text` reads the text.
"""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import calls, lookup
from .c_kernels import VARIED_FLAGS
from .c_text import (
    TYPES,
    Declared,
    Parameter,
    function_of,
    says_any_shape,
    space_of,
    without_comments,
    without_defaults,
)
from .measure import Built, Failed, judge, tolerance
from .measure_cpu import FLAGS, Library, compile_text, compiler, pairs_of, rounds_of, time_of
from .memory import PLACES, Fenced, disturbed
from .own import ask, other_inputs
from .places import cpu_name
from .problem import Problem, Unknown, c_text, hash_of
from .space import Config, Space
from .worker import tell

_THREADS = re.compile(r"#\s*pragma\s+omp|<(?:omp|pthread|threads)\.h>")
_SAMPLE_S = 200e-6
_MOST_CALLS = 1000
_MOST_READY = 1024


def compiled(text: str, config: Mapping[str, Any], first_line: int = 1) -> Library:
    """Return the library of a user's text; an error names the line. *Raises*: Failed."""
    openmp = re.search(r"#\s*pragma\s+omp|<omp\.h>", text) is not None
    try:
        return compile_text(without_defaults(text, tuple(config)), config, openmp)
    except Failed as failure:
        if failure.status != "compile":
            raise
        said = re.match(r"(?:<stdin>:)?(\d+):\d+: (?:fatal )?(?:error: )?(.*)", failure.reason)
        if said is None:
            raise
        lines, number = text.splitlines(), int(said[1])
        code = f" in `{lines[number - 1].strip()}`" if 0 < number <= len(lines) else ""
        raise Failed("compile", f"line {number + first_line - 1}: {said[2]}{code}", failure.detail) from None


def loaded(library: Library, declared: Declared) -> Any:
    """Return the function of a library, which takes addresses and numbers. *Raises*: Failed."""
    try:
        found = getattr(ctypes.CDLL(str(library.path)), declared.name)
    except (OSError, AttributeError) as error:
        raise Failed("runtime", f"the compiled library cannot be used: {error}") from error
    found.restype = ctypes.c_int if declared.gives == "int" else None
    found.argtypes = [ctypes.c_void_p if p.pointer else TYPES[p.type][0] for p in declared.parameters]
    return found


def fit(declared: Declared, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as the function takes them, in its order. *Raises*: TypeError, ValueError."""
    names = [p.name for p in declared.parameters]
    if unknown := [n for n in arguments if n not in names]:
        raise TypeError(f"{declared} has no argument {', '.join(unknown)}")
    if missing := [n for n in names if n not in arguments]:
        raise TypeError(f"{declared} wants {', '.join(missing)}, and there is none by that name")
    return {p.name: _fit(declared, p, arguments[p.name]) for p in declared.parameters}


def _fit(declared: Declared, p: Parameter, value: Any) -> Any:
    where = f"{declared.name}: {p.name}"
    if not p.pointer:
        if isinstance(value, np.ndarray) and value.ndim:
            raise TypeError(f"{where} is a number ({p.type}), got an array of {value.shape}")
        try:
            number = float(value) if p.dtype.startswith("float") else value.__index__()
            return number if p.dtype.startswith("float") else int(np.dtype(p.dtype).type(number))
        except (TypeError, ValueError, AttributeError):
            raise TypeError(f"{where} is a number ({p.type}), got {type(value).__name__} {value!r}"[:300]) from None
        except OverflowError:
            raise ValueError(f"{where} is {p.type}, which cannot hold {value}") from None
    if not isinstance(value, np.ndarray) or value.dtype.name != p.dtype:
        came = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        raise TypeError(f"{where} is {p.type} *: needed is a NumPy array of {p.dtype}, got {came}. Remedy: "
                        f"{p.name}.astype(np.{p.dtype})")  # fmt: skip
    if not value.flags.c_contiguous:
        raise ValueError(f"{where} does not lie row by row in memory. Remedy: np.ascontiguousarray({p.name})")
    if not p.const and not value.flags.writeable:
        raise ValueError(f"{where} cannot be written to; it is no const in {declared}")
    return value


# -- measuring ---------------------------------------------------------------------------------------------------------


@dataclass
class OwnCMeasure:
    """A C function at arguments; see `measure.Measure`.

    expected : what the arrays should become, by name. read : those of them whose contents it reads first, so that they
    are put back before a call and not poisoned. allowed : the error, relative to the result's size. other : arrays
    with other content, and what the arrays should become then, for checks with a seed; None where there are none.
    """

    text: str
    declared: Declared
    arguments: dict[str, Any]
    expected: dict[str, np.ndarray]
    read: tuple[str, ...]
    allowed: float
    first_line: int = 1
    other: tuple[dict[str, np.ndarray], dict[str, np.ndarray]] | None = None
    kind: str = "cpu"
    estimate: bool = False
    steady: bool = False
    apart: bool = True
    derived: bool = True
    environment: Mapping[str, str] = field(default_factory=lambda: {"OMP_WAIT_POLICY": "passive"})

    def open(self) -> dict[str, str]:
        """Return the arrays in guarded memory, and nothing of the function itself."""
        self._functions: dict[tuple[Any, ...], Any] = {}
        self._calls: dict[tuple[Any, ...], int] = {}
        self._fenced = {p.name: Fenced(self.arguments[p.name].shape, p.dtype) for p in self.declared.arrays}
        self._lay("middle", self.arguments)
        return {"device": cpu_name(), "compiler": compiler()[1], "flags": " ".join(FLAGS), "numpy": np.__version__}

    def build(self, config: Config) -> Built:
        library = compiled(self.text, config, self.first_line)
        return Built(library.binary, library.compile_ms, {"bytes": library.path.stat().st_size})

    def _lay(self, place: str, arguments: Mapping[str, Any]) -> None:
        """Put the arrays somewhere, with content."""
        self._laid = place, arguments is self.arguments  # where, and whether with the content that is timed
        for name, fenced in self._fenced.items():
            fenced.lay(place)
            fenced.array[...] = arguments[name]
        self._arrays = {name: fenced.array for name, fenced in self._fenced.items()}
        self._given = [self._arrays[p.name].ctypes.data if p.pointer else self.arguments[p.name]
                       for p in self.declared.parameters]  # fmt: skip

    def check(self, config: Config, seed: int = 0, odd: bool = False) -> float:
        """Return the largest error. odd : where each array ends, and where it begins, at a page that nobody may
        touch, and where it is aligned to its items alone. seed : with other content, if there is any."""
        function = self._function(config)
        given, expected = (self.arguments, self.expected) if not seed or self.other is None else self.other
        worst = 0.0
        try:
            for place in ("end", "start", "off") if odd else ("middle",):
                tell(PLACES[place])
                worst = max(worst, self._check(function, place, given, expected))
        except Failed:
            self._laid = "", False  # it may have written anywhere
            raise
        return worst

    def _check(self, function: Any, place: str, given: Mapping[str, Any], expected: Mapping[str, np.ndarray]) -> float:
        self._lay(place, given)
        for name, right in expected.items():
            array = self._arrays[name]
            if name in self.read:
                continue
            if array.dtype.kind == "f":
                array.view(np.uint8)[...] = 0xFF  # NaN
            elif array.dtype.kind == "b":
                array[...] = ~right.astype(bool)
            else:
                array[...] = ~right.astype(array.dtype)  # right nowhere
        with disturbed():
            code = function(*self._given)
        if code:
            raise Failed("runtime", f"{self.declared.name} returned {code}; 0 means that all went well")
        worst = 0.0
        for p in self.declared.arrays:
            if self._fenced[p.name].spoiled():
                raise Failed("correctness", f"it writes outside of {p.name}")
            if p.const and self._arrays[p.name].tobytes() != given[p.name].tobytes():
                raise Failed("correctness", f"it writes into {p.name}, which is const")
        for name, right in expected.items():
            scale = np.abs(right) + float(np.mean(np.abs(right))) if right.size else right
            allowed = self.allowed if self._arrays[name].dtype.kind == "f" else 1e-12
            worst = max(worst, judge(self._arrays[name], right, scale, allowed))
        return worst

    def pairs(self, config: Config, anchor: Config | None, count: int) -> tuple[list[float], list[float]]:
        return pairs_of(self._sample, config, anchor, count)

    def rounds(self, configs: Sequence[Config], count: int, seed: int) -> list[list[float]]:
        return rounds_of(self._sample, configs, count, seed)

    def repeat(self, config: Config, count: int) -> None:
        if self._laid != ("middle", True):
            self._lay("middle", self.arguments)
        function, given = self._function(config), self._given
        for _ in range(count):
            for name in self.read:
                self._arrays[name][...] = self.arguments[name]
            function(*given)

    def _function(self, config: Config) -> Any:
        key = tuple(config.items())
        if key not in self._functions:
            self._functions[key] = loaded(compiled(self.text, config, self.first_line), self.declared)
        return self._functions[key]

    def _sample(self, config: Config) -> float:
        """Return the time of a call in ms, averaged over as many as fill the shortest sample; of one where it
        changes what it reads, which would run away."""
        if self._laid != ("middle", True):
            self._lay("middle", self.arguments)
        function, given, key = self._function(config), self._given, tuple(config.items())
        for name in self.read:
            self._arrays[name][...] = self.arguments[name]
        if key not in self._calls:
            function(*given)  # what is called first pays for pages and caches
            began = time.perf_counter()
            function(*given)
            spent = max(time.perf_counter() - began, 1e-9)
            self._calls[key] = 1 if self.read else max(1, min(_MOST_CALLS, int(_SAMPLE_S / spent)))
            for name in self.read:
                self._arrays[name][...] = self.arguments[name]
        return time_of(lambda: function(*given), self._calls[key], alone=_THREADS.search(self.text) is None)


# -- the problem -------------------------------------------------------------------------------------------------------


def c_problem(
    text: str,
    arguments: Mapping[str, Any],
    *,
    reference: Callable[..., Any],
    configs: Any = None,
    function: str | None = None,
    allowed: float | None = None,
    first_line: int = 1,
) -> Problem:
    """Return the problem of a C function.

    arguments : by name, NumPy arrays for pointers. reference : takes those of them that it names, floating arrays in
    float64, and gives what the outputs should be: a dict by name, or one array where one parameter is not const.
    configs : as `c_text.space_of` takes them. function : its name, where it is not the text's last. allowed : the error
    relative to the result's size; by default what sums over all of the largest array may have. first_line : the number
    of the text's first line, for messages.

    *Raises*: Unknown, for what is missing, or does not compile with the default.
    """
    declared = function_of(text, function)
    space = space_of(text, configs)
    bare = without_comments(text)
    macros = [n for n in space.names if n != VARIED_FLAGS]
    if idle := [n for n in macros if not re.search(rf"\b{n}\b", without_defaults(bare, space.names))]:
        raise Unknown(
            f"{', '.join(idle)} stands nowhere in the C text of {declared}, so that it cannot change anything"
        )
    try:
        given = fit(declared, arguments)
    except (TypeError, ValueError) as error:
        raise Unknown(str(error)) from None
    expected, read = _told(declared, given, reference)
    other = _other(declared, given, reference, read)
    try:
        compiled(text, space.default, first_line)
    except Failed as failure:
        raise Unknown(f"with {space.default} the C text does not compile\n{failure.reason}") from None
    arrays = [given[p.name] for p in declared.arrays]
    largest = max(a.size for a in arrays)
    dtypes = [p.dtype for p in declared.arrays if p.name in expected and p.dtype.startswith("float")]
    loosest = max((tolerance(d, largest) for d in dtypes), default=0.0)
    measure = OwnCMeasure(text, declared, dict(given), expected, read, loosest if allowed is None else allowed,
                          first_line, other)  # fmt: skip
    left = [p.name for p in declared.arrays if not p.const and p.name not in expected]
    notes = (f"{', '.join(left)}: not compared, since the reference gives nothing for it",) if left else ()
    shape, dtype = arrays[0].shape or (1,), arrays[0].dtype.name
    return Problem(declared.name, shape, dtype, space, measure, _identity(text, space), cpu_name(),
                   calls.mode("cpu, hot caches", given), notes)  # fmt: skip


def _identity(text: str, space: Space) -> str:
    return hash_of(c_text(without_defaults(text, space.names)))


def _told(
    declared: Declared, given: Mapping[str, Any], reference: Callable[..., Any]
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Return what the reference says, and for which of it the array's former contents matter."""

    def asked(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return _asked(declared, values, reference)

    expected = asked(given)
    read = []
    for name in expected:
        other = np.full_like(given[name], np.nan) if given[name].dtype.kind == "f" else ~given[name]
        try:
            with np.errstate(all="ignore"):
                again = asked({**given, name: other})
        except Exception:  # it reads them, and cannot make anything of these
            again = {}
        if any(n not in again or not np.array_equal(again[n], expected[n], equal_nan=n != name) for n in expected):
            read.append(name)
    return expected, tuple(read)


def _asked(declared: Declared, given: Mapping[str, Any], reference: Callable[..., Any]) -> dict[str, np.ndarray]:
    """Return what the reference says the arrays should become. *Raises*: Unknown."""
    outputs = [p.name for p in declared.arrays if not p.const]
    if not outputs:
        raise Unknown(f"all arrays of {declared} are const: needed is one that it writes")
    told = ask(reference, given)
    if not isinstance(told, Mapping):
        if len(outputs) > 1 and "out" not in outputs:
            raise Unknown(f"{declared} may write {', '.join(outputs)}: needed from the reference is a dict by name")
        told = {outputs[0] if len(outputs) == 1 else "out": told}
    if not told or any(n not in outputs for n in told):
        raise Unknown(f"the reference gives {', '.join(told) or 'nothing'}; needed: arrays among "
                      f"{', '.join(outputs)}, which {declared} may write")  # fmt: skip
    found = {n: np.asarray(v, np.float64 if given[n].dtype.kind == "f" else given[n].dtype)
             for n, v in told.items()}  # fmt: skip
    for n, value in found.items():
        if value.shape != given[n].shape:
            raise Unknown(f"the reference gives {n} of {value.shape}, the argument is {given[n].shape}")
    return found


def _other(
    declared: Declared, given: Mapping[str, Any], reference: Callable[..., Any], read: tuple[str, ...]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]] | None:
    """Other content for the arrays, and what the reference makes of it; None where it can make nothing of it."""
    inputs = [p.name for p in declared.arrays if p.const or p.name in read]
    arguments = other_inputs(given, inputs)
    try:
        with np.errstate(all="ignore"):
            return arguments, _asked(declared, arguments, reference)
    except Exception:  # such content is nothing that it takes
        return None


# -- calling it --------------------------------------------------------------------------------------------------------


class CFunction:
    """A C function that knows its configs: called with arrays and numbers, in order or by name, it takes the config
    that was chosen on this processor for a call of these shapes and integers, else its default.

    any_shape : that each config is right at any shape, by the word of who wrote it; the text may say so with a line
    ``// tune: any shape``. A call then takes the choice of the nearest shape too.
    """

    def __init__(
        self, text: str, configs: Any = None, function: str | None = None, first_line: int = 1, any_shape: bool = False
    ) -> None:
        self.text, self.declared, self.space = text, function_of(text, function), space_of(text, configs)
        self.any_shape = any_shape or says_any_shape(text)
        self.__name__ = self.declared.name
        self._line, self._first = first_line, self.declared.arrays[0].name
        self._source = _identity(text, self.space)
        self._ready: dict[Any, Any] = {}
        lookup.on_change.append(self._ready.clear)

    def __repr__(self) -> str:
        return f"<C function {self.declared}: {' '.join(f'{t.name}={t.default}' for t in self.space.tunables)}>"

    def __call__(self, *arguments: Any, **named: Any) -> int | None:
        """*Raises*: TypeError, ValueError for arguments that it does not take; Failed where it does not compile."""
        given = self._fit(arguments, named)
        numbers = [v.ctypes.data if isinstance(v, np.ndarray) else v for v in given.values()]
        key = [v.shape if isinstance(v, np.ndarray) else v for v in given.values() if not isinstance(v, float)]
        function = self._ready.get((*key, apart := self._apart(given, numbers)))
        if function is None:
            config = self._stored(given) if apart else self.space.default
            function = loaded(compiled(self.text, config, self._line), self.declared)
            if len(self._ready) >= _MOST_READY:  # a number that is another at each call
                self._ready.clear()
            self._ready[*key, apart] = function
        return function(*numbers)

    def config_for(self, *arguments: Any, **named: Any) -> Config:
        """Return the config that a call with these arguments takes. *Raises*: TypeError, ValueError as the call
        does."""
        given = self._fit(arguments, named)
        numbers = [v.ctypes.data if isinstance(v, np.ndarray) else v for v in given.values()]
        return self._stored(given) if self._apart(given, numbers) else self.space.default

    def _fit(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        names = [p.name for p in self.declared.parameters]
        if len(arguments) > len(names):
            raise TypeError(f"{self.declared} takes {len(names)} arguments, got {len(arguments)}")
        return fit(self.declared, dict(zip(names, arguments, strict=False)) | dict(named))

    def _apart(self, given: Mapping[str, Any], numbers: Sequence[Any]) -> bool:
        """Return whether no array that is written to shares memory with another, as none did where a config was
        checked."""
        each = zip(self.declared.parameters, given.values(), numbers, strict=True)
        ranges = sorted((n, n + v.nbytes, p.const) for p, v, n in each if p.pointer)
        end, const = 0, True
        for start, stop, reads in ranges:
            if start < end and not (const and reads):
                return False
            if stop >= end:
                end, const = stop, reads
        return True

    def _stored(self, given: Mapping[str, Any]) -> Config:
        first, call = given[self._first], None if self.any_shape else calls.of(given)
        found = lookup.best(self.__name__, first.shape or (1,), first.dtype.name, cpu_name(), self._source, call)
        return self._known(found)

    def _known(self, found: Config | None) -> Config:
        """Return what was found, where the space still has it, else the default."""
        if found is None or any(found.get(t.name) not in t.values for t in self.space.tunables):
            return self.space.default
        return found if self.space.rejected(found) is None else self.space.default
