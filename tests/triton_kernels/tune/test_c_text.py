"""What C texts say, word by word: functions, parameters, what may vary, and what their functions take and give."""

from __future__ import annotations

import numpy as np
import pytest

from triton_kernels.tune import c_text, own_c
from triton_kernels.tune.c_text import Parameter, function_of, space_of
from triton_kernels.tune.measure import Failed
from triton_kernels.tune.problem import Unknown
from triton_kernels.tune.space import Tunable

# -- C -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "parameter"), [
    ("float *x", ("x", "float", "float32", True, False)), ("const double x[]", ("x", "double", "float64", True, True)),
    ("unsigned long long n", ("n", "unsigned long long", "uint64", False, False)),
    ("real *restrict x", ("x", "float", "float32", True, False)), ("count n", ("n", "int", "int32", False, False)),
    ("const volatile deep x[4]", ("x", "double", "float64", True, True)), ("word a", ("a", "unsigned", "uint32", 0, 0)),
])  # fmt: skip
def test_parameters_of_c(text, parameter):
    before = """typedef float real;
#define count int
typedef double  first ;
typedef first second;
#define deep second
typedef unsigned word;
"""
    found = function_of(f"{before}void f({text}, float *out) {{ }}").parameters[0]
    assert found == Parameter(*parameter)


def test_which_function_is_called():
    text = (
        "int f(float *x) { if (x) { } return 0; }\nstatic inline void g(float *x) { }\n extern void h(float *y) { }\n"
    )
    assert (function_of(text).name, function_of(text).gives) == ("h", "void")
    assert (function_of(text, "f").name, function_of(text, "f").gives) == ("f", "int")
    assert function_of(text, "g").name == "g"
    with pytest.raises(Unknown, match="the C text defines no function k; there is f, g, h"):
        function_of(text, "k")
    with pytest.raises(Unknown, match="there is none that is not static"):
        function_of("static void g(float *x) { }")
    with pytest.raises(Unknown, match="f takes no array"):
        function_of("void f(void) { }")
    with pytest.raises(Unknown, match="f takes no array"):
        function_of("void f() { }")
    found = function_of("void f(int n, float *x, const double *y) { }")
    assert [p.name for p in found.arrays] == ["x", "y"]


def test_what_may_vary_in_c(monkeypatch):
    monkeypatch.setattr(c_text, "threads", lambda: Tunable("THREADS", (1, 2, 6), 6))

    def of(text, configs=None):
        return [(t.name, t.values, t.default) for t in space_of(text, configs).tunables]

    assert of("#define A 16 // tune: 4, 32\n# define B 0.5 /* tune: 1, 0.25 */\n#define C 3") == [
        ("A", (4, 16, 32), 16), ("B", (0.25, 0.5, 1), 0.5)]  # fmt: skip
    assert of("#define A fast // tune: slow, 3,") == [("A", ("slow", 3, "fast"), "fast")]
    assert of("#define N 2 // tune: threads") == [("N", (1, 2, 6), 2)]
    assert of("#define N 5 // tune: threads") == [("N", (1, 2, 6), 6)]
    text = "#define A 8 // the tile\n#define B x"
    assert of(text, {"A": [2, 8], "B": ["y"], "C": range(3)}) == [
        ("A", (2, 8), 8),
        ("B", ("y",), "y"),
        ("C", (0, 1, 2), 0),
    ]
    assert of(text, [{"A": 4}, {"A": 2}]) == [("A", (2, 4), 4)]
    with pytest.raises(Unknown, match="A has no values; needed is at least one"):
        space_of(text, {"A": []})
    with pytest.raises(Unknown) as info:
        space_of("#define TILE 64 // t\n#define NAME x\n#define B 1")
    assert str(info.value).splitlines()[1:] == [
        "#define TILE 64  // tune: 16, 32, 64, 128, 256", "#define B 1  // tune: 1, 2, 4"]  # fmt: skip
    with pytest.raises(Unknown, match=r"#define TILE 32  // tune: 8, 16, 32, 64$"):
        space_of("int x;")
    assert c_text.around(3) == [1, 3, 6, 12]
    assert c_text.around(8) == [2, 4, 8, 16, 32]


def test_a_compilers_flags_may_vary():
    def flags(text, configs=None):
        return next((t.values, t.default) for t in space_of(text, configs).tunables if t.name == "flags")

    assert flags("// tune flags: -O3, -O2,  -O3   -funroll-loops") == (("-O3", "-O2", "-O3 -funroll-loops"), "-O3")
    assert flags("/* tune flags: -O1 */\n#define A 1 // tune: 2") == (("-O1",), "-O1")
    assert flags("int x;", {"flags": ["-mprefer-vector-width=256", ""]})[1] == "-mprefer-vector-width=256"
    assert flags("int x;", [{"flags": "-O2"}, {"flags": "-O3"}]) == (("-O2", "-O3"), "-O2")
    for wrong in ("-o here", "-O2 @file", "-include x", "O2", "-wrapper"):
        with pytest.raises(Unknown, match="is none that may vary; those begin with -O, -f or -m"):
            space_of(f"// tune flags: -O2, {wrong}")
    for fast in ("-Ofast", "-O3 -ffast-math", "-funsafe-math-optimizations"):
        with pytest.raises(Unknown, match=r"arithmetic of the whole process .* Remedy: name the parts"):
            space_of("int x;", {"flags": ["-O3", fast]})


def test_comments_are_blanks_and_do_not_define():
    assert c_text.without_comments("a /* b\nc */ d // e\nf") == "a     \n     d     \nf"
    assert not c_text.looks_like_c("// void f(float *x) { }")
    assert not c_text.looks_like_c("while (x) {")
    assert c_text.looks_like_c("while (x) { }\nvoid f(float *x) {")
    for text in ("// tune: any shape", "  /* tune:  any shape */ ", "int a;\n// tune: any shape\nint b;"):
        assert c_text.says_any_shape(text)
    for text in ("// tune: any", "x // tune: any shape", "// tune: any shape at all"):
        assert not c_text.says_any_shape(text)


def test_errors_of_c_name_the_line_of_the_users_text():
    text = "#define A 1 // tune: 1\nvoid f(float *x) {\n    x[0] = nothing;\n}"
    for first, line in ((1, 3), (11, 13)):
        with pytest.raises(Failed) as info:
            own_c.compiled(text, {"A": 1}, first)
        assert info.value.reason.startswith(f"line {line}: ")
        assert info.value.reason.endswith(" in `x[0] = nothing;`")


@pytest.mark.parametrize(("reason", "said"), [
    ("2:5: error: no such thing", "line 2: no such thing in `b;`"),
    ("<stdin>:1:1: fatal error: x", "line 1: x in `a;`"),
    ("3:1: error: x", "line 3: x"), ("0:1: error: x", "line 0: x"),
    ("collect2: ld returned 1", "collect2: ld returned 1"),
])  # fmt: skip
def test_a_compilers_line_as_a_person_reads_it(monkeypatch, reason, said):
    def failing(text, values, openmp):
        assert openmp is ("omp" in text)
        raise Failed("compile", reason, "all")

    monkeypatch.setattr(own_c, "compile_text", failing)
    for more in ("", " // <omp.h>"):
        with pytest.raises(Failed) as info:
            own_c.compiled(f"a;\n b;{more}", {})
        assert info.value.reason.replace(more, "") == said
    monkeypatch.setattr(own_c, "compile_text", lambda *a: (_ for _ in ()).throw(Failed("timeout", "1:1: x")))
    with pytest.raises(Failed, match="timeout: 1:1: x"):
        own_c.compiled("a;", {})


def test_numbers_and_arrays_that_a_function_takes():
    declared = function_of("void f(const float *x, float *y, int8_t k, double s, unsigned n) { }")
    x = np.zeros(3, np.float32)
    frozen = x.copy()
    frozen.flags.writeable = False
    given = {"x": frozen, "y": x, "k": -128, "s": np.float32(0.5), "n": np.uint8(7)}
    assert list(own_c.fit(declared, dict(reversed(given.items())))) == ["x", "y", "k", "s", "n"]
    assert own_c.fit(declared, given)["s"] == 0.5
    assert own_c.fit(declared, {**given, "k": np.array(5)})["k"] == 5
    for changed, error, said in [
        ({"k": 128}, ValueError, "f: k is int8_t, which cannot hold 128"),
        ({"n": -1}, ValueError, "which cannot hold -1"),
        ({"k": 1.0}, TypeError, r"f: k is a number \(int8_t\), got float 1.0"),
        ({"k": x}, TypeError, r"f: k is a number \(int8_t\), got an array of \(3,\)"),
        ({"s": "a"}, TypeError, r"f: s is a number \(double\), got str 'a'"),
        ({"y": frozen}, ValueError, r"f: y cannot be written to; it is no const in f\(x, y, k, s, n\)"),
        ({"y": x[::2]}, ValueError, r"f: y does not lie row by row in memory. Remedy: np.ascontiguousarray\(y\)"),
        ({"x": [1.0]}, TypeError, r"needed is a NumPy array of float32, got list. Remedy: x.astype\(np.float32\)"),
        ({"x": x.astype(int)}, TypeError, "got an array of int64"),
        ({"z": 1, "w": 2}, TypeError, r"f\(x, y, k, s, n\) has no argument z, w"),
    ]:
        with pytest.raises(error, match=said):
            own_c.fit(declared, {**given, **changed})
    with pytest.raises(TypeError, match=r"wants y, n, and there is none by that name"):
        own_c.fit(declared, {n: v for n, v in given.items() if n not in "yn"})


CALLED = "#define A 1 // tune: 1, 2\nint f(const float *x, const float *y, float *out, long n) { return (int)n + A; }"


def test_which_arrays_lie_apart():
    f = own_c.CFunction(CALLED)
    memory = np.zeros(40, np.float32)
    names = ("x", "y", "out", "n")

    def apart(x, y, out):
        given = dict(zip(names, (memory[x], memory[y], memory[out], 3), strict=True))
        return f._apart(given, [v.ctypes.data if isinstance(v, np.ndarray) else v for v in given.values()])

    s = slice
    assert apart(s(0, 10), s(10, 20), s(20, 30)) is True
    assert apart(s(20, 30), s(10, 20), s(0, 10)) is True
    assert apart(s(0, 10), s(5, 15), s(20, 30)) is True  # what is only read may overlap
    assert apart(s(0, 10), s(20, 30), s(9, 15)) is False
    assert apart(s(9, 15), s(20, 30), s(0, 10)) is False
    assert apart(s(0, 10), s(0, 10), s(0, 10)) is False
    assert apart(s(0, 30), s(5, 8), s(10, 12)) is False  # within the longer of two
    assert apart(s(0, 4), s(2, 8), s(7, 12)) is False
    assert apart(s(0, 4), s(2, 8), s(8, 12)) is True


def test_a_function_of_c_is_called_by_order_and_by_name(monkeypatch):
    f = own_c.CFunction(CALLED)
    x, out = np.zeros(3, np.float32), np.zeros(3, np.float32)
    assert f(x, x, out, 3) == 4
    assert f(x, x, n=5, out=out) == 6
    assert repr(f) == "<C function f(x, y, out, n): A=1>"
    assert len(f._ready) == 2
    loads = []
    load = own_c.loaded
    monkeypatch.setattr(own_c, "loaded", lambda *a: loads.append(a) or load(*a))
    f(x, x, out, 3)
    assert not loads
    monkeypatch.setattr(own_c, "_MOST_READY", 2)
    f(x, x, out, 9)
    assert (len(loads), len(f._ready)) == (1, 1)
    monkeypatch.setattr(type(f), "_stored", lambda self, given: {"A": 2})
    assert f(x, x, out, 10) == 12
    assert f(x, out, out, 10) == 11  # of what overlaps the default
    assert f.config_for(x, x, out, 3) == {"A": 2}
    assert f.config_for(x, out, out, 3) == {"A": 1}
    assert f._known({"A": 2}) == {"A": 2}
    assert f._known({"A": 3}) == f._known(None) == f._known({}) == {"A": 1}
    with pytest.raises(TypeError, match=r"f\(x, y, out, n\) takes 4 arguments, got 5"):
        f(x, x, out, 3, 4)


def test_what_the_reference_of_a_c_function_may_give():
    declared = function_of("void f(const float *x, float *a, float *b, int *c) { }")
    given = {"x": np.ones(2, np.float32), "a": np.zeros(2, np.float32), "b": np.zeros(2, np.float32),
             "c": np.zeros(2, np.int32)}  # fmt: skip
    found, read = own_c._told(declared, given, lambda x, b: {"a": 2 * x, "b": b + x, "c": [1, 2]})
    assert {n: (v.dtype, v.tolist()) for n, v in found.items()} == {
        "a": (np.float64, [2.0, 2.0]), "b": (np.float64, [1.0, 1.0]), "c": (np.int32, [1, 2])}  # fmt: skip
    assert read == ("b",)

    def picky(x, c):
        if c[0]:
            raise ValueError
        return {"a": x, "c": c}

    assert own_c._told(declared, given, picky)[1] == ("c",)
    for reference, said in [
        (lambda x: x, r"f\(x, a, b, c\) may write a, b, c: needed from the reference is a dict by name"),
        (lambda x: {}, "the reference gives nothing; needed: arrays among a, b, c, which"),
        (lambda x: {"x": x}, "the reference gives x; needed"),
        (lambda x: {"a": x[:1]}, r"gives a of \(1,\)"),
    ]:
        with pytest.raises(Unknown, match=said):
            own_c._asked(declared, given, reference)
    named = function_of("void f(float *a, float *out) { }")
    assert list(own_c._asked(named, {"a": given["a"], "out": given["b"]}, lambda a: a)) == ["out"]
    with pytest.raises(Unknown, match="are const: needed is one that it writes"):
        own_c._asked(function_of("void f(const float *a) { }"), {"a": given["a"]}, lambda a: a)
