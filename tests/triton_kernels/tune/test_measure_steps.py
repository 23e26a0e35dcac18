"""How times of C are taken, texts compiled and answers judged, call by call: made-up clocks and functions."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest

from triton_kernels.tune import measure_cpu, own_c
from triton_kernels.tune.measure import Failed
from triton_kernels.tune.measure_cpu import CpuMeasure, compile_text, pairs_of, rounds_of

from .test_own import X

# -- in turn -----------------------------------------------------------------------------------------------------------


def test_each_of_a_pair_comes_first_in_turn():
    asked = []

    def sample(config):
        asked.append(config["A"])
        return float(len(asked))

    assert pairs_of(sample, {"A": 1}, {"A": 0}, 3) == ([1.0, 4.0, 5.0], [2.0, 3.0, 6.0])
    assert asked == [1, 0, 0, 1, 1, 0]
    asked.clear()
    assert pairs_of(sample, {"A": 1}, None, 2) == ([1.0, 2.0], [])
    assert asked == [1, 1]


def test_in_every_round_each_is_timed_once_in_a_random_order():
    asked = []

    def sample(config):
        asked.append(config["A"])
        return float(len(asked))

    times = rounds_of(sample, [{"A": k} for k in range(3)], 4, 5)
    rng = np.random.default_rng(5)
    order = [k for _ in range(4) for k in rng.permutation(3).tolist()]
    assert asked == order
    assert times == [[float(at + 1) for at, k in enumerate(order) if k == who] for who in range(3)]


class Clock:
    """A clock that a call moves by so many seconds."""

    def __init__(self):
        self.s = 0.0

    def perf_counter(self):
        return self.s

    def perf_counter_ns(self):
        return round(self.s * 1e9)

    thread_time_ns = perf_counter_ns


@pytest.mark.parametrize(("call_s", "calls"), [(1.0, 1), (2e-4, 1), (1.1e-4, 1), (9.9e-5, 2), (1e-6, 200), (0.0, 1000)])
@pytest.mark.parametrize("module", [measure_cpu, own_c])
def test_a_sample_is_as_many_calls_as_fill_the_fifth_of_a_millisecond(monkeypatch, module, call_s, calls):
    clock, called = Clock(), []
    for each in {module, measure_cpu}:
        monkeypatch.setattr(each, "time", clock)

    def function(*given):
        called.append(given)
        clock.s += call_s
        return 0

    if module is measure_cpu:
        measure = CpuMeasure("softmax", (3, 5), "float32", "")
        measure._calls, measure._problems = {}, {}
    else:
        given = {"x": X.copy(), "out": X.copy(), "n": 3}
        measure = own_c.c_problem("#define A 1 // tune: 1, 2\nvoid f(const float *x, float *out, long n) { *out = A; }",
                                  given, reference=lambda x: x).measure  # fmt: skip
        measure.open()
        measure._laid = "", False
    monkeypatch.setattr(type(measure), "_function", lambda self, config: function)
    for again in (False, True):
        called.clear()
        assert measure._sample({"A": 1}) == pytest.approx(1e3 * call_s)
        assert len(called) == calls + (0 if again else 2)  # the first pays for pages and caches, the second is timed


def test_one_that_changes_what_it_reads_is_called_once_with_it_put_back(monkeypatch):
    x = np.arange(4, dtype=np.float32)
    text = "#define A 1 // tune: 1, 2\nvoid f(float *x, long n) { for (long i = 0; i < n; i++) x[i] += A; }"
    measure = own_c.c_problem(text, {"x": x, "n": 4}, reference=lambda x: x + 1).measure
    assert measure.read == ("x",)
    measure.open()
    clock, seen = Clock(), []
    monkeypatch.setattr(own_c, "time", clock)

    def function(*given):
        seen.append(measure._arrays["x"].tolist())
        measure._arrays["x"][...] += 1
        clock.s += 1e-6

    monkeypatch.setattr(type(measure), "_function", lambda self, config: function)
    measure._sample({"A": 1})
    assert seen == [[0, 1, 2, 3], [1, 2, 3, 4], [0, 1, 2, 3]]
    measure._sample({"A": 1})
    assert seen[3:] == [[0, 1, 2, 3]]


# -- compiling ---------------------------------------------------------------------------------------------------------


def test_a_library_is_compiled_once_and_names_its_machine_code(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ran = []
    run = measure_cpu.subprocess.run

    def counted(command, **named):
        ran.append((command, named))
        return run(command, **named)

    monkeypatch.setattr(measure_cpu.subprocess, "run", counted)
    monkeypatch.setattr(measure_cpu, "time", SimpleNamespace(perf_counter=iter([1.0, 1.25, 5.0, 5.0, 0.0, 0.0, 0.0, 0.0,
                                                                               0.0, 0.0]).__next__))  # fmt: skip
    first = compile_text("int f(void) { return N; }", {"N": 3})
    again = compile_text("int f(void) { return N; }", {"N": 3})
    assert (first.compile_ms, again.compile_ms) == (250.0, 0.0)
    assert first.path == again.path
    assert first.binary == again.binary == hashlib.sha256(first.path.read_bytes()).hexdigest()
    ((command, named),) = [call for call in ran if "-o" in call[0]]
    assert command[0] == measure_cpu.compiler()[0]
    assert "-DN=3" in command
    assert "-fopenmp" not in command
    assert (named["timeout"], named["env"]["LC_ALL"]) == (60.0, "C")
    assert measure_cpu.load(first.path, "f")() == 3
    with pytest.raises(Failed, match="the compiled library cannot be used"):
        measure_cpu.load(first.path, "g")
    assert compile_text("int f(void) { return N; }", {"N": 4}).path != first.path
    threaded = compile_text("int f(void) { return N; }", {"N": 3}, True)
    assert threaded.path != first.path
    assert "-fopenmp" in ran[-1][0]
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize(("done", "status", "said", "detail"), [
    ({"returncode": 1, "stderr": "<stdin>:3:7: warning: w\n<stdin>:4:1: error: no\n"}, "compile", "4:1: error: no",
     "no\n"),
    ({"returncode": 2, "stderr": "gone\nwrong"}, "compile", "gone", "wrong"),
    ({"returncode": 4, "stderr": ""}, "compile", "the compiler ended with 4", ""),
    (measure_cpu.subprocess.TimeoutExpired("cc", 60.0), "timeout", "compiling took longer than 60 s", ""),
    (OSError("full"), "compile", "the compiled library cannot be kept: full", ""),
])  # fmt: skip
def test_what_the_compiler_says(tmp_path, monkeypatch, done, status, said, detail):
    def run(*arguments, **named):
        if isinstance(done, Exception):
            raise done
        return SimpleNamespace(**done)

    monkeypatch.setattr(measure_cpu.subprocess, "run", run)
    with pytest.raises(Failed) as info:
        measure_cpu._compile(["cc"], "", tmp_path / "a.so")
    assert (info.value.status, info.value.reason) == (status, said)
    assert info.value.detail.endswith(detail)
    assert not list(tmp_path.iterdir())


def test_the_compiler_is_the_one_that_is_asked_for(monkeypatch):
    there = {"mycc": "/bin/mycc", "gcc": "/bin/gcc", "clang": "/bin/clang", "built": "/bin/built"}
    monkeypatch.setattr(measure_cpu.shutil, "which", there.get)
    monkeypatch.setattr(measure_cpu.sysconfig, "get_config_var", lambda name: {"CC": "built -pthread"}.get(name))
    said = {"stdout": "a compiler 1.2\nmore"}
    monkeypatch.setattr(measure_cpu.subprocess, "run", lambda command, **named: SimpleNamespace(**said))
    find = measure_cpu.compiler.__wrapped__
    monkeypatch.setenv("CC", "mycc")
    assert find() == ("/bin/mycc", "a compiler 1.2")
    monkeypatch.delenv("CC")
    assert find() == ("/bin/built", "a compiler 1.2")
    monkeypatch.setattr(measure_cpu.sysconfig, "get_config_var", lambda name: None)
    said["stdout"] = ""
    assert find() == ("/bin/gcc", "unknown")


def test_of_too_many_libraries_the_younger_half_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(measure_cpu, "_KEPT", 5)
    for k in range(6):
        (tmp_path / f"{k}.so").touch()
        measure_cpu.os.utime(tmp_path / f"{k}.so", (100 - k, 100 - k))
    (tmp_path / "other").touch()
    measure_cpu.prune(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0.so", "1.so", "2.so", "other"]
    for k in (7, 8):
        (tmp_path / f"{k}.so").touch()
    measure_cpu.prune(tmp_path)  # five are not too many
    assert len(list(tmp_path.iterdir())) == 6


def test_numpys_blas_by_name(monkeypatch):
    name = measure_cpu.blas.__wrapped__
    content = {"Build Dependencies": {"blas": {"name": "openblas", "version": "0.3"}}}
    monkeypatch.setattr(measure_cpu.np, "show_config", lambda mode: content if mode == "dicts" else None)
    assert name() == "NumPy's BLAS (openblas 0.3)"
    for other in ({}, None):
        monkeypatch.setattr(measure_cpu.np, "show_config", lambda mode, other=other: other)
        assert name() == "NumPy's BLAS"


# -- checks of C -------------------------------------------------------------------------------------------------------


def test_where_a_c_kernel_strays_or_reports_a_failure():
    for odd, places in ((False, ["middle"]), (True, ["middle", "end", "start", "off"])):
        measure = CpuMeasure("softmax", (3, 5), "float32", "")
        measure._functions, measure._problems = {}, {}
        seen = []

        def right(*given, seen=seen, odd=odd, measure=measure):
            of = measure._problem((1, 1) if odd else (3, 5), 0)
            seen.append(of.place)
            assert np.isnan(of.out).all()
            of.out[...] = of.expected
            return 0

        measure._functions[(("A", 1),)] = right
        assert measure.check({"A": 1}, 0, odd) < 1.0
        assert seen == places
    of = measure_cpu._Problem("softmax", (3, 5), "float32", 0)
    for code, said in ((1, "the kernel reports failure 1: out of memory"), (2, "the kernel reports failure 2")):
        with pytest.raises(Failed) as info:
            of.check(lambda *given, code=code: code)
        assert (info.value.status, info.value.reason) == ("runtime", said)

    def writes(memory, at):
        def function(*given):
            of.out[...] = of.expected
            memory[at] = 0
            return 0

        return function

    for memory, said in ((of.fenced[1].memory, "outside its output"), (of.fenced[0].memory, "into its input")):
        for at in (0, -1):
            with pytest.raises(Failed, match=f"correctness: the kernel writes {said}"):
                of.check(writes(memory, at))
    with pytest.raises(Failed, match="writes into its input"):
        of.check(lambda *given: of.inputs[0].fill(0.5) or 0)
    assert (of.place, of.inputs[0].tobytes()) == ("middle", of.before[0].tobytes())
