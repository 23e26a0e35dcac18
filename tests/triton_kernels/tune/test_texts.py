"""What C texts, shapes, files and dead workers say, word by word."""

from __future__ import annotations

import datetime
import gzip
import json
import math
import signal
import subprocess
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from triton_kernels.tune import c_text, exchange, own_c, recall, worker
from triton_kernels.tune import events as ev
from triton_kernels.tune import problem as problems
from triton_kernels.tune.c_text import Parameter, function_of, space_of
from triton_kernels.tune.measure import Failed
from triton_kernels.tune.problem import Unknown
from triton_kernels.tune.race import interval, interval_over, standing
from triton_kernels.tune.session import seconds_of
from triton_kernels.tune.space import Constraint, Space, Tunable, as_config, powers_of_two
from triton_kernels.tune.store import Store
from triton_kernels.tune.table import Table
from triton_kernels.tune.worker import Clock, Late, Stopped, Worker

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


# -- shapes, budgets, spaces -------------------------------------------------------------------------------------------


def test_shapes_by_their_words():
    assert problems.parse_shape("2147483647") == (2147483647,)
    for wrong in ("2147483648", "0", "4x0", (3, -1), "65536x" * 3 + "65536", (1 << 31,)):
        with pytest.raises(Unknown, match="every size of a shape is from 1 to 2147483647"):
            problems.parse_shape(wrong)
    assert problems.parse_shape((1 << 20, 1 << 20)) == (1 << 20, 1 << 20)
    assert problems.fit_axes("k", ("items",), (3, 4)) == (12,)
    assert problems.fit_axes("k", ("rows", "columns"), (2, 3, 4)) == (6, 4)
    assert problems.fit_axes("k", ("rows", "columns"), (4,)) == (1, 4)
    with pytest.raises(Unknown, match="k takes a shape MxNxK, 3 sizes; came: 3x4"):
        problems.fit_axes("k", ("m", "n", "k"), (3, 4))
    assert len(problems.hash_of("x")) == 16


def test_budgets_by_their_words():
    for text, seconds in (("2min", 120.0), ("0.5h", 1800.0), (" 3 s ", 3.0), ("4", 4.0), (0.25, 0.25), ("2m", 120.0)):
        assert seconds_of(text) == seconds
    with pytest.raises(ValueError, match="a budget is a positive time such as 60s, 5m or 1h; came: '0s'"):
        seconds_of("0s")


def test_tunables_their_neighbours_and_places():
    t = Tunable("A", (1, 2, 8, 16), 2)
    assert [t.neighbours(v) for v in t.values] == [(2,), (1, 8), (2, 16), (8,)]
    assert [t.encode(v) for v in t.values] == [0.0, 0.25, 0.75, 1.0]
    assert Tunable("A", (0, 1, 3), 0)._places().tolist() == [0.0, 0.5, 1.0]  # 0 has no logarithm
    assert Tunable("A", (4,), 4)._places().tolist() == [0.0]
    assert Tunable("A", (-1, 4), 4)._places().tolist() == [0.0, 1.0]
    assert Tunable("A", (True, False), True)._places().tolist() == [0.0, 1.0]
    assert Tunable("A", ("x", "y"), "x").coordinates().tolist() == [[0.0], [1.0]]
    assert Tunable("A", ("x", "y", 3), "x").coordinates().tolist() == (np.eye(3) * math.sqrt(0.5)).tolist()
    twos = Tunable("A", (96, 100, 1 << 10, 3 << 9), 96).coordinates()
    assert twos[:, 1] == pytest.approx([(5 - 2) / 6, 0.0, 1.0, 1.0])  # 2^10 and 2^9 count as 2^8
    assert Tunable("A", (1, 2, 4), 1).coordinates().shape == (3, 1)
    assert Tunable("A", (3, 5, 7), 3).coordinates().shape == (3, 1)  # odd, all of them
    assert Tunable("A", (3, 4), 3).coordinates().shape == (2, 1)
    assert Tunable("A", (0, 3, 4), 3).coordinates().shape == (3, 1)
    for values, default, said in (
        ((1, 1), 1, "distinct and at least one"),
        ((), 1, "distinct"),
        ((1,), 2, "none of its"),
    ):
        with pytest.raises(ValueError, match=said):
            Tunable("A", values, default)
    assert powers_of_two("A", 4, 4, 4).values == (4,)
    for low, high in ((0, 4), (3, 8), (8, 4)):
        with pytest.raises(ValueError, match="needs powers of two with low <= high"):
            powers_of_two("A", low, high, 4)


def test_configs_near_a_config():
    odd = Constraint("not both odd", lambda c: not (c["A"] % 2 and c["B"] % 2))
    space = Space([Tunable("A", (1, 2, 3), 2), Tunable("B", (1, 2, 3), 2)], [odd])
    assert space.neighbours({"A": 2, "B": 1}) == [{"A": 2, "B": 2}]
    assert space.around({"A": 2, "B": 1}) == [{"A": 2, "B": 2}, {"A": 2, "B": 3}]
    assert space.encode({"A": 1, "B": 3}) == (0.0, 1.0)
    assert space.with_default({"A": 1, "B": 2}).default == {"A": 1, "B": 2}
    beyond = space.beyond({"A": 2, "B": 2}, np.random.default_rng(0), 50)
    assert 20 < len(beyond) < 50
    assert all(space.rejected(c) is None for c in beyond)
    assert len({tuple(c.items()) for c in beyond}) == 5
    only = Space.of([{"A": 1, "B": 2}, {"A": 2, "B": 2}, {"A": 3, "B": 1}])
    assert only.neighbours({"A": 1, "B": 2}) == [{"A": 2, "B": 2}]
    assert only.around({"A": 1, "B": 2}) == [{"A": 2, "B": 2}]
    assert only.beyond({"A": 1, "B": 2}, np.random.default_rng(0), 9) != []
    wide = Space([Tunable(n, (0, 1), 0) for n in "ABCDE"])
    changed = [sum(c.values()) for c in wide.beyond(wide.default, np.random.default_rng(1), 300)]
    assert max(changed) == 3  # two or three tunables
    assert wide.complete(None) == wide.default
    assert wide.complete({"B": 1}) == {**wide.default, "B": 1}
    with pytest.raises(ValueError, match="no tunable named X, Y; the tunables are A, B, C, D, E"):
        wide.complete({"X": 1, "Y": 2})
    with pytest.raises(ValueError, match="breaks a constraint: not both odd"):
        space.complete({"A": 1, "B": 1})
    with pytest.raises(ValueError, match="names each tunable once, got A, A"):
        Space([Tunable("A", (1,), 1)] * 2)
    with pytest.raises(ValueError, match=r"the default .* breaks a constraint: not both odd"):
        space.with_default({"A": 1, "B": 1})


def test_what_a_triton_config_sets_besides():
    def config(block, **rare):
        return SimpleNamespace(kwargs={"B": block}, num_warps=4, num_stages=2, **rare)

    assert as_config(config(8)) == {"B": 8, "num_warps": 4, "num_stages": 2, "num_ctas": 1, "maxnreg": None}
    assert Space.of([config(8), config(16)]).names == ("B", "num_warps", "num_stages")
    some = Space.of([config(8), config(16, maxnreg=64)])
    assert some.names == ("B", "num_warps", "num_stages", "maxnreg")
    assert some.default["maxnreg"] is None
    assert Space.of([config(8, num_ctas=2), config(8, num_ctas=1)]).tunables[3].values == (1, 2)
    assert Space.of([{"B": 1, "num_ctas": 1}]).names == ("B", "num_ctas")
    for configs, said in (([], "at least one config"), ([{"A": 1}, {"B": 1}], "must name the same tunables"),
                          ([config(8, pre_hook=print)], "has a pre_hook")):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            Space.of(configs)


def test_which_spaces_are_enumerated():
    tens = [Tunable(n, tuple(range(10)), 0) for n in "AB"]
    few = [Constraint("few", lambda c: c["A"] == 0)]
    assert (Table(Space(tens), limit=100).complete, len(Table(Space(tens), limit=100))) == (True, 100)
    assert Table(Space(tens), limit=99).complete is False
    assert (Table(Space(tens, few), limit=10).complete, Table(Space(tens, few), limit=9).complete) == (True, False)
    listed = Space.of([{"A": k} for k in range(30)])
    assert Table(listed, limit=30).complete is True
    drawn = Table(listed, limit=29)
    assert (drawn.complete, len(drawn), drawn.config(drawn.default)) == (False, 29, {"A": 0})
    assert drawn.add([{"A": 0}, drawn.config(3)]).tolist() == []
    new = next(k for k in range(30) if drawn.find({"A": k}) is None)
    assert drawn.add([{"A": new}, {"A": new}]).tolist() == [29]
    assert (drawn.config(29), drawn.points[29].tolist()) == ({"A": new}, drawn.coordinates[0][new].tolist())
    assert Table(Space([Tunable("A", (3,), 3), Tunable("B", (1, 2), 2)])).varied == [1]
    assert Table(Space([Tunable("A", (3,), 3)])).varied == [0]
    assert drawn.find({"A": [1]}) is None


# -- intervals ---------------------------------------------------------------------------------------------------------


def test_intervals_over_processes_by_hand():
    values = [1.0, 1.0, 2.0, 2.0, 4.0, 4.0]
    middle, low, high = interval_over(values, [2, 2, 2])
    logs = np.log([1.0, 2.0, 4.0])
    half = 4.3026527 * logs.std(ddof=1) / math.sqrt(3)
    assert middle == pytest.approx(2.0)
    assert low == pytest.approx(math.exp(logs.mean() - half), rel=1e-4)
    assert high == pytest.approx(math.exp(logs.mean() + half), rel=1e-4)
    assert interval_over(values, [6]) == interval(values)
    two = math.log(4.0) / 2
    assert interval_over([1.0, 1.0, 4.0, 4.0], [2, 2])[2] == pytest.approx(2.0 * math.exp(12.7062047 * two), rel=1e-3)
    # of six processes and one comparison the least and the greatest are it
    assert interval_over([5.0, 1.0, 2.0, 3.0, 4.0, 6.0], [1] * 6) == (3.5, 1.0, 6.0)
    assert interval_over([5.0, 1.0, 2.0, 3.0, 4.0], [1] * 5)[0] == pytest.approx(120**0.2)  # the logarithms' mean
    assert interval_over([1e-300, 1.0, 1e300], [1] * 3)[2] == math.exp(700.0)
    wide = [1.0] * 9 + [9.0] * 9 + [5.0] * 2
    assert interval_over([*wide, *wide], [20, 20])[1:] == interval([*wide, *wide])[1:]  # never narrower than of all
    assert interval_over(values, [2, 2, 2], 5)[2] > high


@pytest.mark.parametrize(("ratio", "noise", "verdict", "winner"), [
    (0.5, 0.0, "faster", 1), (1.0, 0.0, "default", 0), (2.0, 0.0, "default", 0), (0.98, 0.5, "noisy", 0),
    (0.995, 0.5, "default", 0),
])  # fmt: skip
def test_verdicts_of_a_final(ratio, noise, verdict, winner):
    mine = [ratio * (1 + noise * (k % 2 * 2 - 1) * (k > 1)) for k in range(9)]
    found = standing([[1.0] * 9, mine, [3.0] * 9])
    assert (found.verdict, found.winner) == (verdict, winner)
    assert found.times_ms == pytest.approx([1.0, float(np.median(mine)), 3.0])
    low, high = interval(mine, 2)[1:]
    assert found.width == pytest.approx((high - low) / 2)
    assert found.ties == ([1] if winner == 0 and low <= 1.0 <= high else [])


# -- what a worker's end says ------------------------------------------------------------------------------------------


class Ended:
    def __init__(self, code):
        self.code, self.pid = code, 999_999_999

    def wait(self, limit=None):
        if self.code is None and limit is not None:
            raise subprocess.TimeoutExpired("worker", limit)
        return self.code


@pytest.mark.parametrize(("code", "said", "reason"), [
    (-signal.SIGKILL, "", "the process was killed while timing, as when memory runs out"),
    (None, "", "the process was killed while timing, as when memory runs out"),
    (-signal.SIGSEGV, "first\nlast\n", "SIGSEGV (a forbidden address) while timing: last"),
    (-signal.SIGBUS, "", "SIGBUS (a forbidden address) while timing"),
    (-signal.SIGABRT, "", "SIGABRT (abort()) while timing"),
    (-signal.SIGFPE, "", "SIGFPE (a forbidden operation) while timing"),
    (-signal.SIGILL, "", "SIGILL (an instruction that this processor lacks) while timing"),
    (-signal.SIGTERM, "", "SIGTERM while timing"), (-33, "", "signal 33 while timing"),
    (3, "x" * 300, "the process ended with 3 while timing: " + "x" * 200),
])  # fmt: skip
def test_why_a_worker_is_gone(tmp_path, code, said, reason):
    dead = Worker(SimpleNamespace(kind="cpu"))
    dead._process = Ended(code)
    with open(tmp_path / "said", "w+b") as file:
        file.write(b"of another config\n" + said.encode())
        dead._said, dead._said_before = file, len(b"of another config\n")
        found = dead._death("timing")
    assert (found.status, found.reason, found.detail) == ("runtime", reason, said.strip())


class Pipe:
    """What a worker answers, one after the other; a number is a silence of so many seconds."""

    def __init__(self, now, *answers):
        self.now, self.answers, self.sent, self.closed = now, list(answers), [], False

    def send(self, message):
        self.sent.append(message)

    def poll(self, seconds):
        if isinstance(self.answers[0], float):
            self.now[0] += self.answers.pop(0)
            return False
        return True

    def recv_bytes(self):
        return worker.pickle.dumps(self.answers.pop(0))

    def close(self):
        self.closed = True


@pytest.fixture
def asked(monkeypatch):
    """Asks a worker for pairs, within 5 s, that answers so."""
    now = [100.0]
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def ask(*answers, until=math.inf, stopping=False):
        busy = Worker(SimpleNamespace(kind="cpu"))
        now[0], busy.clock.until = 100.0, until
        if stopping:
            busy.stopping.set()
        busy._pipe = pipe = Pipe(now, *answers)
        try:
            return busy._ask(("pairs", ()), 5.0), pipe.closed
        finally:
            ask.closed = pipe.closed

    return ask


BEAT = ("beat", None)


def test_a_worker_is_waited_for_as_long_as_it_may_take(asked):
    assert asked(("done", 7)) == (7, False)
    assert asked(3.0, BEAT, 2.0, BEAT, ("done", 7)) == (7, False)  # at just 5 s
    with pytest.raises(Failed, match=r"timeout: timing had no result after 5.1 s"):
        asked(3.0, BEAT, 2.1, BEAT)
    assert asked.closed
    with pytest.raises(Failed, match=r"timeout: timing had no result after 5.5 s"):
        asked(2.5, 3.0)
    failed = Failed("correctness", "wrong")
    with pytest.raises(Failed, match="correctness: wrong"):
        asked(("failed", failed))
    assert not asked.closed


def test_a_worker_that_is_silent_or_no_more_wanted_is_ended(asked, monkeypatch):
    monkeypatch.setattr(worker, "SILENCE_S", 3.0)
    with pytest.raises(Failed, match=r"timeout: timing gave no sign of life for 3.5 s"):
        asked(1.0, BEAT, 3.5)
    assert asked(1.0, BEAT, 3.0, ("done", 7)) == (7, False)
    for answers in ((1.0,), (1.0, BEAT)):
        with pytest.raises(Late):
            asked(*answers, until=100.5)
        assert asked.closed
        with pytest.raises(Stopped) as info:
            asked(*answers, until=100.5, stopping=True)
        assert info.type is Stopped
    assert asked(1.0, ("done", 7), until=101.0) == (7, False)


def test_a_clock_and_who_calls_a_measure(monkeypatch):
    clock = Clock()
    assert clock.left_s == math.inf
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: 10.0))
    clock.until = 12.5
    assert clock.left_s == 2.5
    monkeypatch.setattr(worker, "memory_for_a_worker", lambda: 77)
    stopping = threading.Event()
    for kind, memory in (("cpu", 77), ("cuda", None)):
        made = worker.worker_for(SimpleNamespace(kind=kind, apart=True), stopping, clock)
        assert (made.memory_bytes, made.stopping, made.clock) == (memory, stopping, clock)


# -- results in words --------------------------------------------------------------------------------------------------


def test_how_the_best_stands_to_the_vendors_library():
    def words(best, time_ms=1.0):
        return ev.Vendor("BLAS", time_ms, 1.0, 1.0, 1.0, best, 1.0).in_words()

    assert words((1.2, 1.001, 1.3)).startswith("Nothing tried beats BLAS: the best takes 1.20 times")
    assert words((1.2, 1.0, 1.3)) == "As fast as BLAS, as far as can be told: 1.20 of its time (95 %: 1.00 to 1.30)"
    assert words((0.5, 0.4, 0.8)) == "2.00 times as fast as BLAS (95 %: 1.25 to 2.50)"
    assert words((0.9, 0.8, 1.0)).startswith("As fast as BLAS")
    assert words((0.5, 0.4, 0.8), 3.0).startswith("2.00 times")
    starved = "BLAS cannot be compared with on a machine as busy: it took 1 ms at best and 3.1 ms in the middle"
    assert words((0.5, 0.4, 0.8), 3.1).startswith(starved)


def test_the_commonest_reasons():
    wrong = [ev.Rejected({"A": k, "B": 1}, "correctness", "no") for k in range(26)]
    late = [ev.Rejected({}, "timeout", f"after {k}.5 s") for k in range(3)]
    other = [ev.Rejected({}, "compile", f"error {'abcdefghij'[k]}") for k in range(10)]
    found = ev.reasons_of([*wrong, *late, *other])
    assert found[0] == ("correctness: A=0 B=1: no", 1)
    assert found[23] == ("correctness: A=23 B=1: no", 1)
    assert found[24:26] == (("timeout: after 0.5 s", 3), ("correctness: no", 2))
    assert len(found) == 24 + 8


def test_results_go_out_and_come_back(tmp_path):
    at = datetime.datetime(2024, 5, 6, 7, 8, 9, 500_000, datetime.UTC).timestamp()
    key = {"kernel": "k", "source": "s", "device": "d", "shape": [8, 4], "dtype": "float32", "mode": "m"}
    trials = [
        {"config": {"B": 2, "A": 1}, "status": "correct", "median_ms": 2.0, "samples": [1.0, 2.0, 4.0],
         "compile_ms": 7.0, "at": at, "n": 3, "ratio": 1.0, "reason": ""},
        {"config": {"A": 1, "B": 2}, "status": "runtime", "median_ms": None, "reason": "gone", "at": at - 1},
        {"config": {"B": 3, "A": 1}, "status": "compile", "median_ms": None, "reason": "no", "at": at + 1},
        {"config": {"B": 4, "A": 1}, "status": "timeout", "median_ms": None, "reason": "late", "at": at + 2},
        {"config": {"B": 5, "A": 1}, "status": "constraints", "median_ms": None, "reason": "big", "at": at + 3},
    ]  # fmt: skip
    problem = {**key, "trials": trials, "winner": None}
    cache = json.loads(exchange.to_kernel_tuner([problem]))
    assert (cache["device_name"], cache["kernel_name"], cache["problem_size"]) == ("d", "k", [8, 4])
    assert (sorted(cache["tune_params_keys"]), cache["tune_params"]) == (["A", "B"], {"A": [1], "B": [2, 3, 4, 5]})
    assert [e["time"] for e in cache["cache"].values()] == [
        2.0, "CompilationFailedConfig", "RuntimeFailedConfig", "InvalidConfig"]  # fmt: skip
    first = next(iter(cache["cache"].values()))
    assert (first["times"], first["compile_time"], first["timestamp"]) == ([1.0, 2.0, 4.0], 7.0,
                                                                           "2024-05-06T07:08:09.500+00:00")  # fmt: skip
    assert [first[name] for name in ("verification_time", "benchmark_time", "strategy_time", "framework_time")] == [
        0
    ] * 4
    t4 = json.loads(exchange.to_t4([problem]))["results"]
    assert t4[0]["times"] == {"compilation_time": 7.0, "compilation": 7.0, "benchmark": 7.0, "framework": 0,
                              "search_algorithm": 0, "validation": 0, "runtimes": [1.0, 2.0, 4.0]}  # fmt: skip
    assert [r["correctness"] for r in t4] == [1, 0, 0, 0]
    assert [r["measurements"] for r in t4] == [[{"name": "time", "value": 2.0, "unit": "ms"}], [], [], []]
    for form, text in (("kt", exchange.to_kernel_tuner([problem])), ("t4", exchange.to_t4([problem]))):
        path = tmp_path / form
        path.write_bytes(gzip.compress(text.encode()) if form == "kt" else text.encode())
        (back,) = exchange.read(path, "k", "", "d")
        assert (back["kernel"], back["device"], back["dtype"], back["mode"]) == ("k", "d", "float32", "imported")
        assert back["shape"] == ([8, 4] if form == "kt" else [1])
        good = back["trials"][0]
        assert (good["status"], good["median_ms"], good["n"], good["samples"], good["compile_ms"], good["at"]) == (
            "correct", 2.0, 3, [1.0, 2.0, 4.0], 7.0, at)  # fmt: skip
        assert [t["status"] for t in back["trials"][1:]] == [
            "compile", "runtime" if form == "kt" else "timeout", "constraints"]  # fmt: skip
    with pytest.raises(ValueError, match="T4 holds one kernel at one shape, and there are 2: k 8x4 float32 on d; k"):
        exchange.to_t4([problem, problem])
    with Store(tmp_path / "store") as kept:
        assert exchange.take_in(kept, exchange.read(tmp_path / "t4", "k", "", "d")) == 4


def test_choices_as_python():
    def chosen(config, ratio=0.51239, kernel="k"):
        return {"kernel": kernel, "shape": [8, 4], "dtype": "float32", "device": "a  GPU",
                "winner": {"config": config, "ratio": ratio}}  # fmt: skip

    plain = exchange.to_python([chosen({"A": 1}), {**chosen({}), "winner": None}])
    assert plain.splitlines()[2:] == ["CONFIGS = {", "    ('k', (8, 4), 'float32'): {'A': 1},  # a GPU, 0.512", "}"]
    warps = exchange.to_python([chosen({"A": 1, "num_warps": 4, "num_stages": 2, "maxnreg": 64})])
    assert "import triton\n" in warps
    assert "triton.Config({'A': 1}, num_warps=4, num_stages=2, maxnreg=64)" in warps


def test_who_made_a_device():
    for device, maker in [("NVIDIA H100 80GB HBM3", "NVIDIA"), ("sm_90 (H100 SXM)", "NVIDIA"), ("A100", "NVIDIA"),
                          ("gfx942 (MI300X)", "AMD"), ("AMD EPYC 9654 x2", "AMD"), ("Intel(R) Xeon(R) x4", "Intel"),
                          ("Neoverse-N1 x8", "Arm"), ("Apple M2", "Arm"), ("a thing", "a thing")]:  # fmt: skip
        assert recall.vendor(device) == maker
    assert [recall._stem(k) for k in ("matmul_f32", "softmax_bf16", "k_i8", "k_u64", "softmax_kernel")] == [
        "matmul", "softmax", "k", "k", "softmax_kernel"]  # fmt: skip
