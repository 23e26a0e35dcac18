"""What a C text of the user's says: the function to call, its parameters, and which of its macros may vary.

``#define TILE 32  // tune: 8, 16, 32`` is a tunable with its default and its values; ``// tune: threads`` stands for 1,
2, 4 and so on up to the processors there are. A line ``// tune flags: -O3, -O2, -O3 -funroll-loops`` lets the
compiler's flags vary: a tunable ``flags``, whose first value is the default. A line ``// tune: any shape`` says that
every config is right at every shape, so that one chosen at a shape may serve others. No C compiler is needed to read
this much.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .c_kernels import VARIED_FLAGS, threads
from .problem import Unknown
from .space import Space, Tunable

# A C type's name without qualifiers: as ctypes has it, and as NumPy does.
TYPES: dict[str, tuple[Any, str]] = {
    "float": (ctypes.c_float, "float32"), "double": (ctypes.c_double, "float64"),
    "int8_t": (ctypes.c_int8, "int8"), "signed char": (ctypes.c_int8, "int8"), "char": (ctypes.c_int8, "int8"),
    "uint8_t": (ctypes.c_uint8, "uint8"), "unsigned char": (ctypes.c_uint8, "uint8"),
    "_Bool": (ctypes.c_bool, "bool"), "bool": (ctypes.c_bool, "bool"),
    "int16_t": (ctypes.c_int16, "int16"), "short": (ctypes.c_int16, "int16"),
    "uint16_t": (ctypes.c_uint16, "uint16"), "unsigned short": (ctypes.c_uint16, "uint16"),
    "int32_t": (ctypes.c_int32, "int32"), "int": (ctypes.c_int32, "int32"),
    "uint32_t": (ctypes.c_uint32, "uint32"), "unsigned": (ctypes.c_uint32, "uint32"),
    "unsigned int": (ctypes.c_uint32, "uint32"), "int64_t": (ctypes.c_int64, "int64"),
    "long": (ctypes.c_long, "int64"), "long long": (ctypes.c_int64, "int64"), "ptrdiff_t": (ctypes.c_ssize_t, "int64"),
    "ssize_t": (ctypes.c_ssize_t, "int64"), "uint64_t": (ctypes.c_uint64, "uint64"),
    "size_t": (ctypes.c_size_t, "uint64"), "unsigned long": (ctypes.c_ulong, "uint64"),
    "unsigned long long": (ctypes.c_uint64, "uint64"),
}  # fmt: skip
_FUNCTION = re.compile(r"^[ \t]*([A-Za-z_][\w \t*]*?[ \t*])(\w+)[ \t]*\(([^(){};]*)\)\s*\{", re.MULTILINE)
_DEFINED = re.compile(r"^([ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+)([^\n]*?)[ \t]*$", re.MULTILINE)
_ASKED = re.compile(r"^(\S+?)[ \t]*(?://|/\*)[ \t]*tune:[ \t]*([^\n]*?)[ \t]*(?:\*/)?$")
_ANY_SHAPE = re.compile(r"^[ \t]*(?://|/\*)[ \t]*tune:[ \t]*any shape[ \t]*(?:\*/)?[ \t]*$", re.MULTILINE)
_ASKED_FLAGS = re.compile(r"^[ \t]*(?://|/\*)[ \t]*tune flags:[ \t]*([^\n]*?)[ \t]*(?:\*/)?[ \t]*$", re.MULTILINE)
_FLAG = re.compile(r"-[Ofm][\w=+.,-]*$")
# Linked with one of these, a library has the process that loads it treat the smallest numbers as 0 (crtfastmath.o).
_FAST = ("-Ofast", "-ffast-math", "-funsafe-math-optimizations", "-mdaz-ftz")
_ALIAS = re.compile(
    r"^[ \t]*(?:#[ \t]*define[ \t]+(\w+)[ \t]+([\w \t]+?)"
    r"|typedef[ \t]+([\w \t]+?)[ \t]+(\w+)[ \t]*;)[ \t]*$",
    re.MULTILINE,
)
_WORDS = {"if", "for", "while", "switch", "return", "else", "do", "sizeof"}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a C function. dtype : NumPy's name of its type, or of what it points to."""

    name: str
    type: str
    dtype: str
    pointer: bool = False
    const: bool = False


@dataclass(frozen=True)
class Declared:
    """A C function that can be called: it gives nothing, or an int that is 0 where all went well."""

    name: str
    parameters: tuple[Parameter, ...]
    gives: str

    def __str__(self) -> str:
        return f"{self.name}({', '.join(p.name for p in self.parameters)})"

    @property
    def arrays(self) -> tuple[Parameter, ...]:
        """Those that are arrays."""
        return tuple(p for p in self.parameters if p.pointer)


def without_comments(text: str) -> str:
    """C with blanks in place of comments, every line where it was.

    >>> without_comments("int a; // one\\nint b;")
    'int a;       \\nint b;'
    """
    blank = re.compile(r"[^\n]")
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: blank.sub(" ", m[0]), text, flags=re.DOTALL)


def looks_like_c(text: str) -> bool:
    """Return whether a text defines a C function.

    >>> looks_like_c("void f(float *x) { x[0] = 1; }"), looks_like_c("def f(x): return {}")
    (True, False)
    """
    return any(found[2] not in _WORDS for found in _FUNCTION.finditer(without_comments(text)))


def function_of(text: str, name: str | None = None) -> Declared:
    """Return the function of that name, or the last that is not static. *Raises*: Unknown, with what there is.

    >>> str(function_of("static int g(int n) { return n; }\\nvoid f(const float *x, float *out, long n) { }"))
    'f(x, out, n)'
    """
    bare = without_comments(text)
    found = {m[2]: m for m in _FUNCTION.finditer(bare) if m[2] not in _WORDS and (name or "static" not in m[1].split())}
    if not found or (name is not None and name not in found):
        there = ", ".join(found) or "none that is not static"
        raise Unknown(f"the C text defines no function {name or 'to call'}; there is {there}")
    match = found[name] if name is not None else list(found.values())[-1]
    gives = " ".join(w for w in match[1].split() if w not in ("extern", "inline", "static"))
    if gives not in ("void", "int"):
        raise Unknown(f"{match[2]} returns {gives}; needed: void, or an int that is 0 where all went well")
    aliases = {m[1] or m[4]: " ".join((m[2] or m[3]).split()) for m in _ALIAS.finditer(bare)}
    listed = [] if match[3].strip() in ("", "void") else match[3].split(",")
    parameters = tuple(_parameter(each, match[2], aliases) for each in listed)
    if not any(p.pointer for p in parameters):
        raise Unknown(f"{match[2]} takes no array: needed is a pointer among its parameters, as in float *out")
    return Declared(match[2], parameters, gives)


def _parameter(text: str, function: str, aliases: Mapping[str, str]) -> Parameter:
    bare = re.sub(r"\[[^\]]*\]", "*", re.sub(r"\b(restrict|__restrict__|__restrict|volatile|register)\b", " ", text))
    words = bare.replace("*", " * ").split()
    const, pointers = "const" in words, words.count("*")
    left = [w for w in words if w not in ("*", "const")]
    kind, name = " ".join(left[:-1]), left[-1] if left else ""
    for _ in range(8):  # an alias may stand for another
        kind = aliases.get(kind, kind)
    if kind not in TYPES or pointers > 1:
        raise Unknown(f"{function}: the parameter {' '.join(text.split())!r} cannot be given from Python; needed: a "
                      f"number or an array of {', '.join(sorted(TYPES))}")  # fmt: skip
    return Parameter(name, kind, TYPES[kind][1], bool(pointers), const)


# -- what may vary -----------------------------------------------------------------------------------------------------


def space_of(text: str, configs: Any = None) -> Space:
    """Return the space of a C text: a dict of lists, a list of dicts, or what its lines with ``// tune:`` say.

    *Raises*: Unknown where nothing says what may vary, with lines that would; for flags that the compiler is not given.

    >>> space_of("#define TILE 32  // tune: 8, 16, 32").tunables
    (Tunable(name='TILE', values=(8, 16, 32), default=32),)
    """
    defined = {m[2]: m[3] for m in _DEFINED.finditer(text)}
    if isinstance(configs, Mapping):
        return _compiled(Space([_from_dict(n, v, defined) for n, v in configs.items()]))
    if configs is not None:
        return _compiled(Space.of(list(configs)))
    asked = {n: m for n, said in defined.items() if (m := _ASKED.match(said))}
    flags = _ASKED_FLAGS.search(text)
    if not asked and flags is None:
        numbers = {n: int(v.split()[0]) for n, v in defined.items() if re.match(r"\d+\b", v)}
        lines = [f"#define {n} {v}  // tune: {', '.join(map(str, around(v)))}" for n, v in numbers.items()]
        hint = "\n".join(lines or ["#define TILE 32  // tune: 8, 16, 32, 64"])
        raise Unknown(f"nothing says what may vary. Remedy: configs, a dict of lists; or in the C text\n{hint}")
    tunables = [_from_line(n, m[1], m[2]) for n, m in asked.items()]
    if flags is not None:
        listed = tuple(dict.fromkeys(" ".join(each.split()) for each in flags[1].split(",")))
        tunables.append(Tunable(VARIED_FLAGS, listed, listed[0]))
    return _compiled(Space(tunables))


def _compiled(space: Space) -> Space:
    """Return the space, if the compiler may be given its flags. *Raises*: Unknown."""
    for value in next((t.values for t in space.tunables if t.name == VARIED_FLAGS), ()):
        for flag in str(value).split():
            if flag in _FAST:
                raise Unknown(
                    f"the flag {flag} would change the arithmetic of the whole process that loads the library. "
                    "Remedy: name the parts that are wanted, as -fno-signed-zeros -fassociative-math"
                )
            if not _FLAG.match(flag):
                raise Unknown(f"{flag!r} among the flags is none that may vary; those begin with -O, -f or -m")
    return space


def says_any_shape(text: str) -> bool:
    """Return whether a text declares that its configs are right at any shape.

    >>> says_any_shape("#define A 1  // tune: 1, 2\\n// tune: any shape\\n"), says_any_shape("// tune: 1")
    (True, False)
    """
    return _ANY_SHAPE.search(text) is not None


def around(value: int) -> list[int]:
    """Values to try beside a number: half of it and a quarter, twice and four times.

    >>> around(32), around(1)
    ([8, 16, 32, 64, 128], [1, 2, 4])
    """
    return sorted({max(value // 4, 1), max(value // 2, 1), value, 2 * value, 4 * value})


def _from_dict(name: str, values: Any, defined: Mapping[str, str]) -> Tunable:
    """Return the text's own value is the default where it is among the values, else the first."""
    listed = tuple(values)
    if not listed:
        raise Unknown(f"{name} has no values; needed is at least one")
    own = _value(without_comments(defined[name]).strip()) if name in defined else None
    return Tunable(name, listed, own if own in listed else listed[0])


def _from_line(name: str, default: str, said: str) -> Tunable:
    value = _value(default)
    if said.strip() == "threads":
        counts = threads().values
        return Tunable(name, counts, value if value in counts else counts[-1])
    values = {_value(v.strip()): None for v in said.split(",") if v.strip()} | {value: None}
    numbers = all(isinstance(v, int | float) for v in values)
    return Tunable(name, tuple(sorted(values) if numbers else values), value)


def _value(word: str) -> Any:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            pass
    return word


def without_defaults(text: str, names: tuple[str, ...]) -> str:
    """Return the text without its own values of these macros, which the compiler is given; every line where it was.

    >>> without_defaults("#define A 1\\n#define B 2", ("A",))
    '\\n#define B 2'
    """
    return _DEFINED.sub(lambda m: "" if m[2] in names else m[0], text)
