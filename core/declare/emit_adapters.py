"""Prints the entries of declared kernels (`core.declare.kernel`), when the extension is built.

An entry is the C function between Python's arguments and a kernel: it looks at the arguments, declines what the kernel
does not take (NotImplemented, and then nothing was done), makes the results, calls, and lets other threads run where
that takes long. What is read of `x` are the variables ``x_o`` (the object), ``x_d`` and ``x_nd`` (its shape), ``x_a``
(the array in the layout that is needed) and ``x`` (its items).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .kernel import FIXED, TYPES, Argument, Axis, Kernel, Result, kernels
from .kernel_expressions import NUMBERS, Expressions

BEYOND = "index out of range in self: {name} was given %lld, and the table has %zd rows"
HEAD = """/* Printed by core/declare/emit_adapters.py from the declarations of kernels; do not edit. */
#include "binding/adapter.h"
#include "kernels/declared.h"

#if defined(__GNUC__) /* what one kernel does not need of its arguments another does */
#pragma GCC diagnostic ignored "-Wunused-variable"
#endif
"""


class Entry(Expressions):
    """Prints one kernel's entry."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.lines: list[str] = []
        self.held: list[str] = []  # arrays that are let go of at the end
        self.sizes = {a.name for a in kernel.arguments if a.kind == "int"}  # sizes that are known
        self.runs: dict[str, str] = {}  # runs of axes that are known: how many axes
        self.views: set[str] = set()
        self.where: dict[str, str] = {}  # the object of each argument
        self.arguments: list[Argument] = []
        for k, a in enumerate(kernel.arguments):
            self._place(a, f"args[{k}]")
        self.arrays = [a for a in self.arguments if a.kind == "array"]
        self.by_name = {a.name: a for a in self.arguments}
        self.main = next((a for a in self.arrays if a.type in TYPES), None)

    @property
    def symbol(self) -> str:
        """The C function's name."""
        return "enter_" + re.sub(r"\W", "_", self.kernel.name)

    def _place(self, a: Argument, where: str) -> None:
        self.arguments.append(a)
        self.where[a.name] = where
        for k, item in enumerate(a.items):
            self._place(item, f"PyTuple_GET_ITEM({where}, {k})")

    def number(self, kind: str) -> str:
        """Return NumPy's number of a type; complex types stand as far from real ones whatever their size."""
        if kind not in TYPES:
            return NUMBERS[FIXED[kind]]
        assert self.main is not None, f"{self.kernel.name}: no array gives the type"
        if (kind == "complex") == (self.main.type == "complex"):
            return "type_"
        return f"type_ {'+' if kind == 'complex' else '-'} (NPY_CFLOAT - NPY_FLOAT)"

    # -- what is looked at ---------------------------------------------------------------------------------------------

    def add(self, *lines: str) -> None:
        """Append lines of C."""
        self.lines += lines

    def decline(self, conditions: Iterable[str]) -> None:
        """Decline where one of the conditions holds."""
        if some := [c for c in conditions if c]:
            self.add(f"if ({' || '.join(some)}) return declined();")

    def types(self) -> None:
        """Look at the types of the arguments, tuples and arrays."""
        self.decline([f"count_ != {len(self.kernel.arguments)}"])
        for a in self.arguments:
            if a.kind == "tuple":
                where = self.where[a.name]
                self.decline([f"!PyTuple_CheckExact({where})", f"PyTuple_GET_SIZE({where}) != {len(a.items)}"])
        for a in self.arrays:
            self.add(f"PyObject *const {a.name}_o = {self.where[a.name]};")
            if a is self.main:
                mask = " | ".join(f"1 << {NUMBERS[t]}" for t in TYPES[a.type])
                self.add(f"const int type_ = type_among({a.name}_o, {mask});")
                conditions = ["type_ < 0"]
            else:
                conditions = [f"!is_array({a.name}_o, {self.number(a.type)})"]
            if a.layout == "whole":
                conditions.append(f"!PyArray_ISCARRAY_RO((PyArrayObject *){a.name}_o)")
            if a.layout == "written":
                conditions.append(f"!is_writable({a.name}_o)")
            test = " || ".join(conditions)
            self.decline([f"({a.name}_o != Py_None && ({test}))" if a.optional else test])

    def numbers(self) -> None:
        """Read the arguments that are no arrays and say nothing of their axes."""
        for a in self.arguments:
            n, o = a.name, self.where[a.name]
            if a.kind == "int":
                self.add(f"npy_intp {n};")
                self.decline([f"!exact_int({o}, &{n})"])
            elif a.kind == "word":
                self.add(f"uint64_t {n};")
                self.decline([f"!word_at({o}, &{n})"])
            elif a.kind == "float":
                self.add(f"double {n};")
                self.decline([f"!number_at({o}, &{n})"])
            elif a.kind == "flag":
                self.decline([f"!PyBool_Check({o})"])
                self.add(f"const int {n} = {o} == Py_True;")
            elif a.kind == "pairs":
                self.add(f"npy_intp {n}[2 * MOST_NUMBERS];", f"const int {n}_n = pairs_at({o}, {n});")
                self.decline([f"{n}_n < 0"])
            elif a.kind in ("ints", "flags"):
                self.add(f"{'npy_intp' if a.kind == 'ints' else 'char'} {n}[MOST_NUMBERS];")
                self.add(f"const int {n}_n = {a.kind}_at({o}, {n});")
                self.decline([f"{n}_n < 0"])
            elif a.kind == "text":
                self.add(f"const char *{n} = text_at({o});")
                self.decline([f"!{n}"])
            elif a.kind == "needs":
                self.decline([f"!PyTuple_CheckExact({o})"])
            elif a.kind == "value":
                self.add(f"char {n}[WRITE_ITEM];")
                self.decline([f"!item_of({o}, type_, {n})"])

    # -- shapes --------------------------------------------------------------------------------------------------------

    def shapes(self) -> None:
        """Find the sizes that the declaration names, from the shapes in turn; then hold all of them to one another."""
        left = [a for a in self.arguments if a.kind in ("array", "shape")]
        for a in left:
            self._begin(a)
        first = left[0] if left else None
        while left:
            ready = next((a for a in left if self._solvable(a)), None)
            if ready is None:
                names = ", ".join(a.name for a in left)
                raise ValueError(f"{self.kernel.name}: the axes of {names} cannot be told apart")
            left.remove(ready)
            if ready.axes is not None:
                self._bind(ready, first is ready)

    def _begin(self, a: Argument) -> None:
        n = a.name
        if a.kind == "shape":
            none = f"{self.where[n]} == Py_None ? 0 : " if a.optional else ""
            self.add(f"npy_intp {n}_d[MOST_NUMBERS];", f"const int {n}_nd = {none}ints_at({self.where[n]}, {n}_d);")
            self.decline([f"{n}_nd < 0"])
        else:
            ndim, sizes = (f"{n}_o == Py_None ? 0 : ", f"{n}_o == Py_None ? NULL : ") if a.optional else ("", "")
            self.add(f"const int {n}_nd = {ndim}PyArray_NDIM((PyArrayObject *){n}_o);",
                     f"const npy_intp *const {n}_d = {sizes}PyArray_DIMS((PyArrayObject *){n}_o);")  # fmt: skip

    def _told(self, axes: tuple[Axis, ...]) -> tuple[Argument | None, set[str]]:
        """Return the argument that says which axis is meant, and the runs of which it tells how long they are."""
        for a in self.arguments:
            at = next((k for k, x in enumerate(axes) if x.text == a.below), None)
            if a.kind not in ("axis", "axes", "len") or at is None:
                continue
            before = {axes[0].text} if a.kind != "len" and at == 1 else set()
            return a, before | ({a.below} if a.kind != "axis" else set())
        return None, set()

    def _solvable(self, a: Argument) -> bool:
        if a.axes is None:
            return True
        open_ = {x.text for x in a.axes if x.many and x.text not in self.runs}
        if a.optional:
            return not open_ and all(x.text in self.sizes for x in a.axes if x.text.isidentifier())
        return len(open_ - self._told(a.axes)[1]) < 2

    def _tell(self, teller: Argument, a: Argument) -> None:
        """Read the argument that says which axes are meant."""
        n, o, nd = teller.name, self.where[teller.name], f"{a.name}_nd"
        assert a.axes is not None
        lead = a.axes[0].text
        if teller.kind == "len":
            self.add(f"npy_intp {n};")
            self.decline([f"!exact_int({o}, &{n})", f"{n} < 1", f"{n} > {nd}"])
            self.runs[teller.below] = f"(int){n}"
        elif teller.kind == "axis":
            self.add(f"npy_intp {n};")
            self.decline([f"!exact_dim({o}, {nd}, &{n})"])
            self.runs[lead] = f"(int){n}"
        else:
            self.add(f"int {n}_n, {n}_first;")
            self.decline([f"!axes_at({o}, {nd}, &{n}_first, &{n}_n)"])
            self.runs[lead], self.runs[teller.below] = f"{n}_first", f"{n}_n"

    def _bind(self, a: Argument, first: bool) -> None:
        """Read the sizes of one shape that are not known yet, and compare the others."""
        axes, n = a.axes or (), a.name
        known_runs = set(self.runs) & {x.text for x in axes if x.text in self.sizes}
        teller = self._told(axes)[0]
        if teller is not None and teller.below not in self.sizes:
            self._tell(teller, a)
        counts = [self.runs.get(x.text, "") if x.many else "1" for x in axes]
        total = " + ".join(c for c in counts if c) or "0"
        tests = []
        if "" in counts:
            run = axes[counts.index("")].text
            tests.append(f"{n}_nd < {total}")
            self.add(f"const int {run}_n = {n}_nd - ({total});")
            counts[counts.index("")] = self.runs[run] = f"{run}_n"
        else:
            tests.append(f"{n}_nd != {total}")
        new, at = [], "0"
        for x, count in zip(axes, counts, strict=True):
            place = f"{n}_d + {at}" if at != "0" else f"{n}_d"
            if x.text in self.sizes and x.many:
                tests.append(f"!same_sizes({place}, {x.text}_at, {count})")
            elif x.text in self.sizes or not x.text.isidentifier():
                tests.append(f"{n}_d[{at}] != {self.c(x.text)}")
            elif x.many:
                new += [f"const npy_intp *const {x.text}_at = {place};",
                        f"const npy_intp {x.text} = sizes_multiplied({place}, {count});"]  # fmt: skip
            else:
                new.append(f"const npy_intp {x.text} = {n}_d[{at}];")
            at = count if at == "0" else f"{at} + {count}"
        known_before = set(self.sizes)
        early = [t for t in tests if " != " in t or " < " in t][:1]
        self._refuse(a, early, first, known_before)
        self.add(*new)
        self.sizes |= {x.text for x in axes if x.text.isidentifier()}
        self._refuse(a, [t for t in tests if t not in early], first, self.sizes)
        assert not known_runs - set(self.runs)

    def _refuse(self, a: Argument, tests: list[str], first: bool, known: set[str]) -> None:
        if not tests:
            return None
        test = " || ".join(tests)
        if a.optional:
            test = f"{self.where[a.name]} != Py_None && ({test})"
        told = all(x.text in known or not x.text.isidentifier() for x in a.axes or ())
        if first or self.kernel.misfit or a.kind == "shape" or not told:
            return self.decline([test])
        what = "the gradient" if a.name == "g" else f"the {a.name}"
        self.add(f"if ({test}) {{", *self._shape("needed_", a.axes or ()),
                 f'return misfit("{self.kernel.name}", "{what}", {a.name}_o, needed_nd, needed_d);', "}")  # fmt: skip
        return None

    def _shape(self, name: str, axes: tuple[Axis, ...]) -> list[str]:
        """Return the lines that put sizes together as a shape."""
        lines = [f"npy_intp {name}d[MOST_SIZES];", f"int {name}nd = 0;"]
        for x in axes:
            kept = f"if ({x.kept}) " if x.kept else ""
            size = "1" if x.kept else f"{x.text}_at[k_]"
            if x.many:
                count = self.runs.get(x.text, "1")
                lines.append(f"{kept}for (int k_ = 0; k_ < {count}; k_++) {name}d[{name}nd++] = {size};")
            else:
                lines.append(f"{name}d[{name}nd++] = {self.c(x.text)};")
        return [f"    {line}" for line in lines]

    # -- the call ------------------------------------------------------------------------------------------------------

    def take(self) -> None:
        """Bring the arrays into the layout that the kernel needs."""
        for a in self.arrays:
            if a.layout in ("whole", "written"):
                none = f"{a.name}_o == Py_None ? NULL : " if a.optional else ""
                self.add(f"PyArrayObject *const {a.name}_a = {none}(PyArrayObject *){a.name}_o;")
            else:
                self.held.append(f"{a.name}_a")
                self.add(f"PyArrayObject *{a.name}_a = NULL;")

    def take_copies(self) -> None:
        """The same, from where on errors have to let go of what is held."""
        takers = {"": f'take_array({{}}, {{}}, 1, "{self.kernel.name}")', "strided": "take_strided({})",
                  "dense": "take_dense({})"}  # fmt: skip
        for a in self.arrays:
            if a.layout not in ("whole", "written"):
                there = f"{a.name}_o != Py_None && " if a.optional else ""
                call = takers[a.layout].format(f"{a.name}_o", self.number(a.type))
                self.add(f"if ({there}!({a.name}_a = {call})) goto done_;")
            none = f"{a.name}_a ? " if a.optional else ""
            self.add(f"void *const {a.name} = {none}PyArray_DATA({a.name}_a){' : NULL' if a.optional else ''};")
            self.add(f"(void){a.name};")
        for a in self.arrays:
            if a.below:
                message = BEYOND.format(name=self.kernel.name)
                self.add(f'if (beyond({a.name}_a, {self.c(a.below)}, "{message}")) goto done_;')

    def make(self, results: tuple[Result, ...], scratch: bool) -> None:
        """Make the results, or memory for the call alone."""
        for k, r in enumerate(results):
            to = f"{r.name}_s" if scratch else f"made_[{k}]"
            if not r.type:
                self.add(f"{to} = Py_NewRef(Py_None);")
                continue
            sizes: list[str] = []
            same = next((a for a in self.arrays if a.axes == r.axes and not a.optional), None)
            if [x.text for x in r.axes] == ["plan"]:
                nd, d, strides = "plan.ndim", "plan.shape", "plan.strides_there ? plan.strides : NULL"
            elif same is not None:
                nd, d, strides = f"{same.name}_nd", f"{same.name}_d", "NULL"
            elif len(r.axes) == 1 and r.axes[0].many and not r.axes[0].kept:
                run = r.axes[0].text
                nd, d, strides = self.runs[run], f"{run}_at", "NULL"
            else:
                sizes = self._shape(f"{r.name}_", r.axes)
                nd, d, strides = f"{r.name}_nd", f"{r.name}_d", "NULL"
            kind = self.number(r.type)
            if r.condition:
                self.add(f"if ({self.c(r.condition)}) {{")
            self.add(*sizes, f"{to} = new_array({kind}, {nd}, {d}, {strides});", f"if (!{to}) goto done_;")
            if r.condition:
                other = f"({self.c(r.when)}) ? {self.where[r.instead]} : Py_None" if r.instead else "Py_None"
                self.add("}" if r.only else f"}} else {to} = Py_NewRef({other});")
            if r.instead:
                self.add(f"void *const {r.name} = {self.c(r.condition)} ? items_of({to}) : NULL;")
                continue
            there = f"items_of({to})" if r.condition else f"PyArray_DATA((PyArrayObject *){to})"
            self.add(f"void *const {r.name} = {there};")

    def run(self) -> None:
        """Call the kernel, other threads running meanwhile where that takes long."""
        kernel = self.kernel
        call = self.c(kernel.call)
        first = self.main or (self.arrays[0] if self.arrays else None)
        quiet = kernel.quiet if kernel.quiet is not None else f"{first.name}.size >= {1 << 13}"  # type: ignore[union-attr]
        named = [r for r in kernel.results if r.type]
        sizes = [f"items_in(made_[{k}])" for k, r in enumerate(kernel.results) if r.type]
        skip = f"if ({' || '.join(sizes)}) " if named and kernel.fails != "declines" else ""
        self.add(f"{skip}{{")
        if quiet != "False":
            self.add(f"PyThreadState *const state_ = {self.c(quiet)} ? PyEval_SaveThread() : NULL;"
                     if quiet != "True" else "PyThreadState *const state_ = PyEval_SaveThread();")  # fmt: skip
        self.add(f"const npy_intp found_ = {call};" if kernel.fails else f"{call};")
        if quiet != "False":
            self.add("if (state_) PyEval_RestoreThread(state_);")
        if kernel.fails == "memory":
            self.add("if (!found_) {", "PyErr_NoMemory();", "goto done_;", "}")
        elif kernel.fails == "declines":
            self.add("if (!found_) goto declined_;")
        elif kernel.fails:
            message, array = kernel.fails
            self.add("if (found_ >= 0) {",
                     f'PyErr_Format(PyExc_IndexError, "{message}", (long long)((const int64_t *){array})[found_]);',
                     "goto done_;", "}")  # fmt: skip
        self.add("}")

    def source(self) -> str:
        """Return the C function."""
        kernel, many = self.kernel, len(self.kernel.results)
        self.types()
        self.numbers()
        self.shapes()
        self.decline(f"!{self.c(text)}" for text in (*kernel.requires, *kernel.takes))
        self.take()
        self.add(f"PyObject *made_[{many}] = {{NULL}}, *result_ = NULL;")
        for r in kernel.scratch:
            self.held.append(f"{r.name}_s")
            self.add(f"PyObject *{r.name}_s = NULL;")
        self.take_copies()
        place = len(self.lines)
        if kernel.plan:
            kind, _, call = kernel.plan.partition(":")
            self.add(*([f"{kind} plan;"] if kind else []), f"if (!{self.c(call)}) goto declined_;")
        self.make(kernel.scratch, True)
        self.make(kernel.results, False)
        self.run()
        self.lines[place:place] = [f"const strided {v}_v = view_of({v}_a);" for v in sorted(self.views)]
        if kernel.single:
            self.add("result_ = made_[0];", "made_[0] = NULL;")
        else:
            self.add(f"result_ = tuple_of(made_, {many});")
        if any("goto declined_" in line for line in self.lines):
            self.add("goto done_;", "declined_: result_ = declined();")
        self.add("done_:", f"release(made_, {many});", *(f"Py_XDECREF({h});" for h in self.held), "return result_;")
        takes = "PyObject *module_, PyObject *const *args, Py_ssize_t count_"
        head = [f"/* {kernel.name}: {', '.join(a.name for a in kernel.arguments)} */",
                f"static PyObject *{self.symbol}({takes}) {{"]  # fmt: skip
        if kernel.run is False:  # its callers have looked before
            refused = f'refused("{kernel.name} takes {kernel.text}")'
            self.lines = [line.replace("declined();", f"{refused};") for line in self.lines]
        return "\n".join([*head, *(f"    {line}" for line in self.lines), "}", ""])


def sources() -> dict[str, str]:
    """File name to C text."""
    entries = [Entry(kernel) for kernel in kernels.values()]
    tables = []
    for name, mine in (("entries", [e for e in entries if e.kernel.run is not False]),
                       ("kernels", [e for e in entries if e.kernel.run is False])):  # fmt: skip
        tables += [f"static PyMethodDef declared_{name}[] = {{"]
        tables += [
            f'    {{"{e.kernel.name}", (PyCFunction)(void (*)(void)){e.symbol}, METH_FASTCALL, NULL}},' for e in mine
        ]
        tables += ["    {0},", "};", ""]
    tables += ["int declared_setup(PyObject *module) {",
               '    if (add_entries(module, "entries", declared_entries) < 0) return -1;',
               '    return add_entries(module, "kernels", declared_kernels);',
               "}", ""]  # fmt: skip
    return {"adapters.c": "\n".join([HEAD, *(e.source() for e in entries), *tables])}
