"""Prints the C parsers of public functions' arguments, from their headers, when the extension is built.

For each function with a plain call (`core.declare.signature.Fast`) one C function: the arguments by their places and
names, straight down, then each plain call in turn. It gives NULL without an exception for what is none; the Python
function then does it, or says what is wrong. What a plain call does beyond an op (a `body`) is written by hand in
core/native/binding/calls/<home>.c, which includes the parsers of its functions at its end: the compiler holds the two
to one another, and sees through the calls between them. Five rules keep the parsers as fast as those written by hand:

- a parser and its bodies stand in one C file, the bodies static;
- a parameter is assigned, its address never taken, so that it can stay in a register;
- the thread's state is asked once, by the parser or (state "any") by the body;
- no loop copies a few numbers;
- nothing is looked up by name in a call: words, defaults and ops are variables that are set once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from .signature import MISSING, Fast, Parameter, Public, Signature, registered

NOTE = "/* Printed by core/declare/emit_calls.py from the headers of public functions; do not edit. */\n"
STATES = {"plain": "!plain_now()", "quiet": "quick_now() <= 0", "any": ""}
TYPES = {"real": "REAL_TYPES", "int64": "INT64_TYPE", "bool": "BOOL_TYPE"}
ARRAYS = {"any": "array_at({})", "piece": "plain_array({})", "index": "index_array({})"}
RESERVED = frozenset(
    [
        "auto",
        "break",
        "case",
        "char",
        "const",
        "continue",
        "default",
        "do",
        "double",
        "else",
        "enum",
        "extern",
        "float",
        "for",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "typedef",
        "union",
        "unsigned",
        "void",
        "volatile",
        "while",
    ]
)


class Read(NamedTuple):
    """How C reads a parameter of some kind.

    lines : the declaration of what is read.
    refuse : the condition under which the call is left to Python.
    value : what a body or a check is given; None: the parameter itself, as an object.
    object : the borrowed object that an op is given; None: the same.
    owned : the variable that holds a new reference, if any.
    """

    lines: tuple[str, ...] = ()
    refuse: str = ""
    value: str | None = None
    object: str | None = None
    owned: str = ""


class Printer:
    """Prints the parsers of all functions; gathers the words, the constants, the ops and the results that they name."""

    def __init__(self, functions: Iterable[Public]) -> None:
        self.functions = [(f, f.signature()) for f in functions if f.fast]
        self.words: dict[str, None] = {}
        self.constants: dict[str, str] = {}
        self.ops: dict[tuple[str, str], None] = {}
        self.results: dict[str, None] = {}

    # -- what is gathered ----------------------------------------------------------------------------------------------

    def word(self, name: str) -> str:
        """Return the variable of an interned word: a symbol of its own, so that no object file can mean another one
        by it."""
        self.words[name] = None
        return f"word_{name}"

    def constant(self, value: Any) -> str:
        """Return the variable of a default."""
        if value is None or isinstance(value, bool):
            return f"Py_{value}"
        if not isinstance(value, int | float | str):
            raise TypeError(f"no C constant is made of {value!r}")
        text = re.sub(r"\W", lambda m: {"-": "minus_", ".": "_"}.get(m[0], "_"), str(value))
        name = f"{type(value).__name__}_{text}"
        if isinstance(value, str):
            made = f'PyUnicode_InternFromString("{value}")'
        else:
            made = f"PyFloat_FromDouble({value!r})" if isinstance(value, float) else f"PyLong_FromLong({value})"
        if self.constants.setdefault(name, made) != made:
            raise ValueError(f"two constants are called {name}")
        return name

    def op(self, how: str, name: str) -> str:
        """Return the variable of an op's callable, or of a dtype; `how` is "op", "elementwise" or "dtype"."""
        self.ops[how, name] = None
        return f"{how}_{name}"

    # -- parameters ----------------------------------------------------------------------------------------------------

    def read(self, s: Signature, fast: Fast, p: Parameter) -> Read:
        """How a parameter that a plain call mentions is read."""
        n, kind = p.name, p.kind
        if n in fast.raw:
            return Read(refuse=f"!{n}" if p.required else "", value=f"{n}, {n}_count" if p.many else n)
        if n in fast.types:
            words = fast.types[n].split()
            array = ARRAYS.get(words[0], f"array_of({{}}, {' | '.join(TYPES.get(w, '') for w in words)})").format(n)
            absent = f" && !left_out({n})" if p.optional else ""
            return Read((f"PyArrayObject *{n}_a = {array};",), f"!{n}_a{absent}", object=self.or_default(p))
        if p.many or kind in ("Size", "Sizes"):
            return self.read_sizes(p)
        usual = p.default
        if kind == "Dim":
            ndim = fast.ndim.get(n, self.ndim(s))
            if p.required or usual is None:
                return Read((f"const int {n}_n = dim_of({n}, {ndim});",), f"{n}_n < 0", f"{n}_n", f"dims.number[{n}_n]")
            default = str(usual) if usual >= 0 else f"{ndim} - {-usual}"
            beyond = f" || {n}_n >= {ndim}" if usual >= 0 else ""
            line = f"const int {n}_n = {n} ? dim_of({n}, {ndim}) : {default};"
            return Read((line,), f"{n}_n < 0{beyond}", f"{n}_n", f"dims.number[{n}_n]")
        if kind == "Dims":
            given = f"none_of_none({n})" if usual == () else n  # there () stands for all
            line = f"PyObject *{n}_d = dims_of({given}, {self.ndim(s)});"
            absent = "" if p.optional else f"!{n} || " if p.required else ""
            return Read((line,), f"{absent}!{n}_d", f"{n}_d", f"{n}_d", owned=f"{n}_d")
        if kind == "Int":
            if usual in (MISSING, None):
                return Read((f"npy_intp {n}_n = 0;",), f"!exact_int({n}, &{n}_n)", f"{n}_n")
            return Read(
                (f"npy_intp {n}_n = {usual};",), f"{n} && !exact_int({n}, &{n}_n)", f"{n}_n", self.or_default(p)
            )
        if kind == "Flag":
            test = "is_flag_or_none" if p.optional else "is_bool"
            on = f"({n} == Py_True)" if usual is not True else f"({n} != Py_False)"
            refuse = f"!{n} || !{test}({n})" if p.required else f"!{test}({n})"
            return Read(refuse=refuse, value=n if p.optional else on, object=self.or_default(p))
        if kind == "Number":
            instead = fast.instead.get(n) or (self.constant(usual) if usual not in (MISSING, None) else "")
            if instead:
                none = f"left_out({n})" if p.optional else f"!{n}"
                return Read((f"if ({none}) {n} = {instead};",), f"!is_number({n})")
            return Read(refuse=f"!{n} || !is_number({n})" if p.required else f"!left_out({n}) && !is_number({n})")
        if kind == "Tensors":
            return Read((f"Tensors {n}_t;",), f"!{n} || !read_tensors({n}, &{n}_t)", f"&{n}_t", "")
        if kind == "Text" and p.choices:
            among = ", ".join(f'"{c}"' for c in p.choices)
            first = p.choices.index(usual) if usual in p.choices else -1
            texts = f"static const char *const {n}_among[] = {{{among}}};"
            which = f"const int {n}_n = {n} ? choice_of({n}, {n}_among, {len(p.choices)}) : {first};"
            return Read((texts, which), f"{n}_n < 0", f"{n}_n", "")
        if kind == "Dtype":
            return Read((f"PyArray_Descr *{n}_d = NULL;",), f"!left_out({n}) && !({n}_d = descr_of({n}))", f"{n}_d", "")
        return Read(refuse=f"!{n}" if p.required else "", object=self.or_default(p))

    def read_sizes(self, p: Parameter) -> Read:
        """Sizes of a tuple, or of the rest of the positional arguments; NULL where none was given."""
        n = p.name
        if p.many:
            lines = (f"Sizes {n}_s;",)
            return Read(lines, f"{n}_count && !sizes_in({n}, {n}_count, &{n}_s)", f"{n}_count ? &{n}_s : NULL", "")
        if p.required:
            return Read((f"Sizes {n}_s;",), f"!{n} || !sizes_of({n}, &{n}_s)", f"&{n}_s", "")
        lines = (f"Sizes {n}_s;",)
        return Read(lines, f"!left_out({n}) && !sizes_of({n}, &{n}_s)", f"left_out({n}) ? NULL : &{n}_s", "")

    def or_default(self, p: Parameter) -> str:
        """Return a parameter as an object, which is its default where nothing was given."""
        if p.default is MISSING or not (p.default is None or isinstance(p.default, bool | int | float | str)):
            return p.name
        return f"{p.name} ? {p.name} : {self.constant(p.default)}"

    @staticmethod
    def ndim(s: Signature) -> str:
        """Return how many dimensions the first tensor has, or the first of several."""
        first = s.parameters[0]
        return f"{first.name}_t.ndim" if first.kind == "Tensors" else f"PyArray_NDIM({first.name}_a)"

    def moved(self, p: Parameter) -> str:
        """Return the condition under which a parameter that a plain call does not mention is not at its default."""
        if p.many:
            return f"{p.name}_count"
        if p.default is MISSING:
            return p.name
        if p.default is None:
            return f"!left_out({p.name})"
        if isinstance(p.default, bool):
            return f"({p.name} && {p.name} != Py_{p.default})"
        if not isinstance(p.default, int | float | str):
            return p.name
        return f"({p.name} && !is_value({p.name}, {self.constant(p.default)}))"

    # -- one plain call ------------------------------------------------------------------------------------------------

    def plain_call(self, s: Signature, fast: Fast, leave: str) -> list[str]:
        """Return the lines that read a plain call's parameters and make the call; `leave` leaves it untried."""
        how, name, args = fast.target
        named = {p.name for p in s.parameters}
        text = " ".join([*args, *fast.check, *fast.instead.values(), *fast.ndim.values()])
        text = re.sub(r"\b(op|elementwise|dtype|word)\.\w+", "", text)  # known objects, no parameters
        mentioned = (set(re.findall(r"\w+", text)) | {*fast.types, *fast.ignored}) & named
        lines: list[str] = []
        owned: list[str] = []

        def refuse(conditions: Iterable[str]) -> None:
            if some := [c for c in conditions if c]:
                release = "".join(f"Py_DECREF({o}); " for o in owned)
                lines.append(f"if ({' || '.join(some)}) {f'{{ {release}{leave} }}' if release else leave}")

        refuse([*(self.moved(p) for p in s.parameters if p.name not in mentioned),
                *(f"left_out({g})" for g in fast.given)])  # fmt: skip
        reads = {p.name: self.read(s, fast, p) for p in s.parameters if p.name in mentioned}
        values = {n: n if r.value is None else r.value for n, r in reads.items()}
        for r in reads.values():
            if not r.owned:
                lines += r.lines
                refuse([r.refuse])
        refuse([STATES[s.state]])
        for r in reads.values():
            if r.owned:
                lines += r.lines
                refuse([r.refuse])
                owned.append(r.owned)
        arrays = {n: f"{n}_a" if n in fast.types else value for n, value in values.items()}
        refuse(f"!({check.format(**arrays)})" for check in fast.check)
        objects = {n: n if r.object is None else r.object for n, r in reads.items()}
        return lines + self.target(fast, how, name, args, values, objects, owned)

    def target(self, fast: Fast, how: str, name: str, args: list[str], values: dict[str, str],
               objects: dict[str, str], owned: list[str]) -> list[str]:  # fmt: skip
        """Return the lines that compute the result of what was read: the values are for bodies, the objects for ops."""

        def given(a: str) -> str:
            if a in values:
                return values[a]
            known = re.fullmatch(r"(op|elementwise|dtype|word)\.(\w+)", a)
            return a if not known else self.word(known[2]) if known[1] == "word" else self.op(known[1], known[2])

        lines = []
        if how == "body":
            call = f"{name}({', '.join(given(a) for a in args)})"
            needed = [given(a) for a in args if re.match(r"(op|elementwise|dtype)\.", a)]
            call = f"{' && '.join(needed)} ? {call} : NULL" if needed else call
        else:
            known = self.op(how, name)
            items = []
            for a in args:
                length = re.fullmatch(r"len\((\w+)\)", a)
                items.append(f"dims.number[{length[1]}_s.n]" if length else objects.get(a) or given(a))
            tensors = 0
            while tensors < len(args) and args[tensors] in fast.types:
                tensors += 1
            run = f"operate_on({known}, given_, {tensors})"
            run = run if how == "op" else f"elementwise_try({known}, given_, {len(args)})"
            lines.append(f"PyObject *given_[] = {{{', '.join(items)}}};")
            call = f"{known} ? {run} : NULL"
        if fast.result:
            self.results[fast.result] = None
            call = f"named_pair(result_{fast.result}, {call})"
        if not owned:
            return [*lines, f"return {call};"]
        return [*lines, f"PyObject *result_ = {call};", *(f"Py_DECREF({o});" for o in owned), "return result_;"]

    # -- one function --------------------------------------------------------------------------------------------------

    def function(self, f: Public, s: Signature) -> str:
        """Return the parser of one function."""
        if bad := sorted({p.name for p in s.parameters} & RESERVED):
            raise ValueError(f"{s.name}: a parameter named {bad[0]!r} means something else in C")
        many = next((p for p in s.parameters if p.many), None)
        plain = [p for p in s.positional if not p.many]
        named = [p for p in s.parameters if not p.many]
        out = [
            f"/* {s} */",
            f"PyObject *parse_{f.symbol}(PyObject *const *args_, Py_ssize_t count_, PyObject *names_) {{",
        ]
        if named:
            out.append(f"    PyObject *{', *'.join(f'{p.name} = NULL' for p in named)};")
        if many and plain:
            out.append(f"    if (count_ < {len(plain)}) return NULL;")
            out += [f"    {p.name} = args_[{k}];" for k, p in enumerate(plain)]
        elif not many:
            out.append("    switch (count_) {")
            for k in range(len(plain), 0, -1):
                out.append(f"    case {k}: {plain[k - 1].name} = args_[{k - 1}]; __attribute__((fallthrough));")
            out += ["    case 0: break;", "    default: return NULL;", "    }"]
        out += self.keywords(s, named)
        if many:
            out.append(f"    PyObject *const *{many.name} = args_ + {len(plain)};")
            out.append(f"    const Py_ssize_t {many.name}_count = count_ - {len(plain)};")
        for k, fast in enumerate(s.fast):
            last = k == len(s.fast) - 1
            lines = self.plain_call(s, fast, "return NULL;" if last else "break;")
            if last:
                out += [f"    {line}" for line in lines]
            else:
                out += ["    do {", *(f"        {line}" for line in lines), "    } while (0);"]
        return "\n".join([*out, "}", ""])

    def keywords(self, s: Signature, named: list[Parameter]) -> list[str]:
        """Return the lines that read arguments by their names, NumPy's after all of the parameters' own."""
        if not named:
            return ["    if (names_) return NULL;"]
        words: dict[str, list[str]] = {}
        for word, name in s.spellings.items():
            words.setdefault(name, []).append(word)
        out = ["    for (Py_ssize_t k_ = 0, named_ = names_ ? PyTuple_GET_SIZE(names_) : 0; k_ < named_; k_++) {",
               "        PyObject *const name_ = PyTuple_GET_ITEM(names_, k_);",
               "        PyObject *const value_ = args_[count_ + k_];"]  # fmt: skip
        for k, (name, by) in enumerate([*((p.name, [p.name]) for p in named), *words.items()]):
            test = " || ".join(f"name_ == {self.word(w)}" for w in by)
            out.append(f"        {'} else ' if k else ''}if ({test}) {{")
            out += [f"            if ({name}) return NULL;", f"            {name} = value_;"]
        return [*out, "        } else {", "            return NULL;", "        }", "    }"]

    # -- files ---------------------------------------------------------------------------------------------------------

    def files(self) -> dict[str, str]:
        """File name to C text: the parsers of each home, what they share, the table of all."""
        homes: dict[str, list[str]] = {"ops": []}
        for f, s in self.functions:
            if not s.home and any(way.body for way in s.fast):
                raise ValueError(
                    f"{s.name}: its fast path has a body in C: name its file in core/native/binding/calls by home="
                )
            homes.setdefault(s.home or "ops", []).append(self.function(f, s))
        files = {f"parse_{home}.h": "\n".join([NOTE, *parsers]) for home, parsers in homes.items()}
        objects = [*(f"word_{w}" for w in self.words), *self.constants, *(f"{how}_{n}" for how, n in self.ops)]
        types = [f"result_{r}" for r in self.results]
        files["parsers.h"] = "\n".join([
            NOTE, "#ifndef GRADLAB_PARSERS_H", "#define GRADLAB_PARSERS_H", '#include "binding/argument_parser.h"', "",
            "#pragma GCC visibility push(hidden) /* read without the table of what other libraries may replace */",
            *(f"extern PyObject *{n};" for n in objects), *(f"extern PyTypeObject *{n};" for n in types),
            "#pragma GCC visibility pop", "",
            *(f"parser parse_{f.symbol};" for f, _ in self.functions), "", "#endif", ""])  # fmt: skip
        ops = [f'    {{"{n}", &{how}_{n}, KNOWN_{how}}},' for how, n in self.ops]
        rows = [f'    {{"{f.key}", parse_{f.symbol}}},' for f, _ in self.functions]
        files["parsers.c"] = "\n".join([
            NOTE, '#include "generated/parsers.h"', "",
            *(f"PyObject *{n};" for n in objects), *(f"PyTypeObject *{n};" for n in types), "",
            "static const struct { const char *name; PyObject **object; enum known known; } ops[] = {", *ops,
            "    {NULL, NULL, 0},", "};", "",
            "void parsers_register(PyObject *object, PyObject *name, enum known known) {",
            "    for (int k = 0; ops[k].name; k++)",
            "        if (ops[k].known == known && !*ops[k].object &&",
            "            !PyUnicode_CompareWithASCIIString(name, ops[k].name))",
            "            *ops[k].object = Py_NewRef(object);", "}", "",
            "void parsers_register_result(PyObject *name, PyObject *type) {",
            *(f'    if (!PyUnicode_CompareWithASCIIString(name, "{r}"))\n'
              f"        Py_XSETREF(result_{r}, (PyTypeObject *)Py_NewRef(type));" for r in self.results), "}", "",
            "int parsers_setup(void) {",
            *(f'    if (!(word_{w} = PyUnicode_InternFromString("{w}"))) return -1;' for w in self.words),
            *(f"    if (!({n} = {made})) return -1;" for n, made in self.constants.items()),
            "    return 0;", "}", ""])  # fmt: skip
        # the table uses all files of binding/calls, which use what stands in parsers.c
        files["parsers_table.c"] = "\n".join([
            NOTE, '#include "generated/parsers.h"', "",
            "const named_parser parsers[] = {", *rows, "    {NULL, NULL},", "};", ""])  # fmt: skip
        return files


def sources() -> dict[str, str]:
    """File name to C text, for the public functions that core has made public."""
    return Printer(registered()).files()
