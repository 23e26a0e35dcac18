"""A C function of the user's: what its text says, faults that cost their config alone, and calling what was stored."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from triton_kernels import tune
from triton_kernels.tune import lookup
from triton_kernels.tune.c_text import function_of, looks_like_c, space_of, without_comments
from triton_kernels.tune.measure import VENDOR, Failed
from triton_kernels.tune.measure_cpu import time_of
from triton_kernels.tune.own_c import CFunction, OwnCMeasure, c_problem
from triton_kernels.tune.problem import Unknown, find
from triton_kernels.tune.store import Store

SCALE = """
#include <stdlib.h>
#define STEP 1     // tune: 1, 2, 4
#define FAULT 0    // tune: 0, 1, 2, 3, 4, 5, 6, 7
typedef float real;
static real twice(real x) { return 2 * x; }
/* void commented(float *out) { } */
int scale(const real *restrict x, real out[], long n) {
#if FAULT == 1
#error this one is not to be
#endif
    if (FAULT == 2) abort();
    if (FAULT == 3) for (volatile int forever = 1; forever;) ;
    if (FAULT == 4) return 7;
    if (FAULT == 5) out[n] = 0;
    if (FAULT == 6) ((real *)x)[0] = 0;
    for (long k = 0; k < n; k += STEP)
        for (long i = k; i < k + STEP && i < n; i++) out[i] = twice(x[i]) + (FAULT == 7 && i == n - 1);
    return 0;
}
"""
X = np.random.default_rng(0).standard_normal(700).astype(np.float32)


def arguments():
    return {"x": X.copy(), "out": np.empty_like(X), "n": X.size}


def twice(x):
    return 2 * x


def problem(text=SCALE, **changes):
    given = {"reference": twice, **changes}
    return c_problem(text, given.pop("arguments", None) or arguments(), **given)


def test_what_a_text_says():
    declared = function_of(SCALE)
    assert str(declared) == "scale(x, out, n)"
    assert [(p.dtype, p.pointer, p.const) for p in declared.parameters] == [
        ("float32", True, True), ("float32", True, False), ("int64", False, False)]  # fmt: skip
    assert function_of("void f(double *a) { if (a) { } } void g(float *b) { }", "f").name == "f"
    space = space_of("#define A 8 // tune: 4, 16\n#define B fast /* tune: fast, slow */\n#define C 1 // tune: threads")
    assert [(t.values, t.default) for t in space.tunables][:2] == [((4, 8, 16), 8), (("fast", "slow"), "fast")]
    assert space.tunables[2].values[0] == 1
    assert space_of("#define A 8", {"A": [4, 8], "B": [1]}).default == {"A": 8, "B": 1}
    assert looks_like_c(SCALE)
    assert not looks_like_c("if (x) { }")
    assert without_comments("a/* \n */b // c") == "a   \n   b     "
    for text, said in [
        ("int x;", "defines no function to call; there is none"),
        ("float f(float *x) { }", "f returns float; needed: void, or an int"),
        ("void f(int n) { }", "f takes no array"),
        ("void f(struct s *x) { }", r"the parameter 'struct s \*x' cannot be given from Python"),
        ("void f(float **x) { }", "cannot be given from Python"),
    ]:
        with pytest.raises(Unknown, match=said):
            function_of(text)
    with pytest.raises(Unknown, match=r"nothing says what may vary(.|\n)*#define A 8  // tune: 2, 4, 8, 16, 32"):
        space_of("#define A 8")


OPTIMISED = """
// tune flags: -O3, -O0, -O2 -fno-tree-vectorize
void told(float *out, long n) {
#ifdef __OPTIMIZE__
    for (long i = 0; i < n; i++) out[i] = 1;
#else
    for (long i = 0; i < n; i++) out[i] = 0;
#endif
}
"""


def test_a_config_is_compiled_with_its_flags():
    arguments = {"out": np.zeros(5, np.float32), "n": 5}
    problem = c_problem(OPTIMISED, arguments, reference=lambda out: np.ones(5))
    assert problem.space.default == {"flags": "-O3"}
    problem.measure.open()
    problem.measure.check({"flags": "-O2 -fno-tree-vectorize"})
    with pytest.raises(Failed, match="correctness"):
        problem.measure.check({"flags": "-O0"})
    out = np.zeros(3, np.float32)
    CFunction(OPTIMISED)(out, 3)
    assert out.tolist() == [1.0, 1.0, 1.0]
    CFunction(OPTIMISED, {"flags": ["-O0"]})(out, 3)
    assert out.tolist() == [0.0, 0.0, 0.0]
    unknown = c_problem(
        OPTIMISED, arguments, reference=lambda out: np.ones(5), configs={"flags": ["-O2", "-fnonsense"]}
    )
    with pytest.raises(Failed, match=r"compile.*fnonsense"):
        unknown.measure.build({"flags": "-fnonsense"})


def test_the_time_that_others_have_the_processor_is_not_the_kernels():
    def work():
        for _ in range(200_000):
            pass

    assert time_of(lambda: time.sleep(0.01), 2, alone=True) > 9.0  # it waits of its own accord
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        time.sleep(0.2)
        own = min(time_of(work, 3, alone=True) for _ in range(5))
        passed = min(time_of(work, 20, alone=False) for _ in range(2))
    finally:
        for process in busy:
            process.kill()
            process.wait()
        os.sched_setaffinity(0, before)
    assert own < 0.7 * passed


@pytest.mark.by_turns
def test_faults_cost_their_config_alone(tmp_path):
    configs = {"STEP": [1], "FAULT": range(8)}
    result = tune.run(problem(configs=configs), budget="60s", strategy="exhaustive", store=Store(tmp_path))
    assert result.config == {"STEP": 1, "FAULT": 0}
    assert result.rejected == {"compile": 1, "runtime": 2, "timeout": 1, "correctness": 3}
    said = " ".join(reason for reason, _ in result.reasons)
    for reason in ("line 10: #error this one is not to be", "SIGABRT", "checking had no result", "scale returned 7",
                   "it writes outside of out", "it writes into x, which is const",
                   "1 of 700 results are wrong; the worst at (699,)"):  # fmt: skip
        assert reason in said


@pytest.mark.by_turns
def test_a_script_tunes_and_calls_what_was_stored():
    assert tune.run(SCALE, arguments(), reference=twice, configs={"STEP": [1, 4]}, budget="20s").best is not None
    scale = tune.auto(SCALE, configs={"STEP": [1, 4]})
    assert isinstance(scale, CFunction)
    asked = problem(configs={"STEP": [1, 4]})
    with Store() as kept:
        session = kept.begin(asked.key, {}, "by hand")
        kept.win(asked.key, session, {"config": {"STEP": 4}, "ratio": 0.5, "low": 0.4, "high": 0.6, "ties": []})
    out = np.empty_like(X)
    assert scale.config_for(X, out, 700) == {"STEP": 4}
    assert scale.config_for(X[:7], out[:7], 7) == {"STEP": 1}
    assert scale(X, out, n=700) == 0
    assert (out == 2 * X).all()
    assert CFunction(SCALE.replace("2 * x", "3 * x")).config_for(X, out, 700)["STEP"] == 1  # another function
    for given, error, said in [
        ((X, out), TypeError, "wants n, and there is none"),
        ((X, out, 1, 2), TypeError, "takes 3 arguments, got 4"),
        ((X.astype(float), out, 1), TypeError, "x is float .: needed is a NumPy array of float32, got an array of f"),
        ((X[::2], out, 1), ValueError, r"Remedy: np.ascontiguousarray\(x\)"),
        ((X, out, 1.5), TypeError, "n is a number .long., got float 1.5"),
        ((X, out, 1 << 70), ValueError, "n is long, which cannot hold"),
    ]:
        with pytest.raises(error, match=said):
            scale(*given)
    lookup.forget()


def test_a_fresh_process_calls_what_was_stored():
    asked = problem(configs={"STEP": [1, 4]})
    with Store() as kept:
        session = kept.begin(asked.key, {}, "by hand")
        kept.win(asked.key, session, {"config": {"STEP": 4}, "ratio": 0.5, "low": 0.4, "high": 0.6, "ties": []})
    program = f"""
import numpy as np
from triton_kernels import tune
scale = tune.auto({SCALE!r}, configs={{"STEP": [1, 4]}})
x = np.ones(700, np.float32); out = np.empty_like(x); scale(x, out, 700)
print(scale.config_for(x, out, 700), scale.config_for(x, out, 690), out.sum())
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said == "{'STEP': 4} {'STEP': 1} 1400.0\n"


def test_what_it_reads_is_put_back():
    text = """
#define STEP 1  // tune: 1, 2
void add(float *x, const float *y, int n) {
    for (int k = 0; k < STEP; k++)
        for (int i = k; i < n; i += STEP) x[i] += y[i];
}"""
    x = np.arange(50, dtype=np.float32)
    asked = c_problem(text, {"x": x, "y": np.ones(50, np.float32), "n": 50}, reference=lambda x, y: x + y)
    measure = asked.measure
    assert isinstance(measure, OwnCMeasure)
    assert measure.read == ("x",)
    assert problem().measure.read == ()
    measure.open()
    for config in asked.space.configs():
        assert measure.pairs(config, None, 3)[0]
        assert [len(times) for times in measure.pairs(config, {"STEP": 1}, 3)] == [3, 3]
        assert measure.check(config) < 1
    assert (x == np.arange(50)).all()


def test_outputs_of_whole_numbers_are_poisoned_too():
    text = """
#define ALL 1  // tune: 0, 1
void less(const float *x, _Bool *out, int *count, int n) {
    if (!ALL) return;
    *count = 0;
    for (int i = 0; i < n; i++) *count += out[i] = x[i] < 0;
}"""
    given = {"x": X, "out": np.empty(700, bool), "count": np.zeros(1, np.int32), "n": 700}
    measure = c_problem(text, given, reference=lambda x: {"out": x < 0, "count": (x < 0).sum(keepdims=True)}).measure
    measure.open()
    assert measure.check({"ALL": 1}) == 0
    with pytest.raises(Failed, match="700 of 700 results are wrong"):
        measure.check({"ALL": 0})
    left = c_problem(text, given, reference=lambda x: {"out": x < 0})
    assert left.notes == ("count: not compared, since the reference gives nothing for it",)


def test_what_is_refused_at_once():
    for changes, said in [
        ({"arguments": {"x": X, "n": 1}}, "wants out"),
        ({"reference": lambda x: x[1:]}, r"gives out of \(699,\), the argument is \(700,\)"),
        ({"reference": lambda x: {"x": x}}, "the reference gives x; needed: arrays among out"),
        ({"text": SCALE.replace("twice(x[i])", "thrice(x[i])")}, "does not compile\nline 18: implicit decl"),
        ({"configs": {"OTHER": [1, 2]}}, "OTHER stands nowhere in the C text"),
        ({"function": "twice_as"}, "defines no function twice_as; there is"),
    ]:
        with pytest.raises(Unknown, match=said):
            problem(**changes)


@pytest.mark.by_turns
def test_the_vendors_library_is_in_the_final(tmp_path):
    result = tune.run(find("matmul_f32", "33x20x10", "float32"), budget="20s", evaluations=2, store=Store(tmp_path))
    vendor = result.vendor
    assert vendor is not None
    assert vendor.name.startswith("NumPy's BLAS")
    assert vendor.low <= vendor.ratio <= vendor.high
    assert vendor.best[1] <= vendor.best[0] <= vendor.best[2]
    assert result.to_json()["vendor"]["time_ms"] > 0
    measure = find("softmax_f32", "7x60", "float32").measure
    assert "vendor" not in measure.open()
    measure = find("matmul_f32", "33x20x10", "float32").measure
    measure.open()
    assert measure.check(VENDOR) < 1
