"""What is asked of a GPU, and of a kernel of the user's own, call by call: over a GPU that is made up."""

from __future__ import annotations

import dataclasses
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from triton_kernels import runtime
from triton_kernels.tune import own
from triton_kernels.tune.declared import kernels
from triton_kernels.tune.measure import VENDOR, Failed, failure_of, launch_failure
from triton_kernels.tune.measure_triton import TritonMeasure, timed
from triton_kernels.tune.problem import Unknown

from .test_measures import FakeCupy
from .test_own import ARGUMENTS, X, problem

# -- on a GPU ----------------------------------------------------------------------------------------------------------


def test_on_a_gpu_each_launch_is_timed_by_itself_with_a_cleared_cache():
    done = []

    class Event:
        def record(self):
            done.append(("record", self))

    device = SimpleNamespace(getDevice=lambda: 3, getDeviceProperties=lambda device: {"l2CacheSize": 50 * device})
    sweep = SimpleNamespace(fill=lambda value: done.append(("sweep", value)))

    def elapsed(begin, end):
        return done.index(("record", end)) - done.index(("record", begin))

    def empty(size, dtype):
        done.append(("empty", size, dtype))
        return sweep

    xp = SimpleNamespace(empty=empty, cuda=SimpleNamespace(Event=Event, get_elapsed_time=elapsed, runtime=device))
    configs = [{"A": 0}, {"A": 1}]
    times = timed(xp, lambda c: done.append(c["A"]), lambda: done.append("wait"), configs, 3, 9)
    assert done[:5] == [("empty", 300, np.uint8), 0, 0, 1, 1]  # twice its size; two calls before any time
    rng = np.random.default_rng(9)
    order = [k for _ in range(3) for k in rng.permutation(2).tolist()]
    for at, k in enumerate(order):
        swept, begin, launched, end = done[5 + 4 * at :][:4]
        assert (swept, begin[0], launched, end[0]) == (("sweep", 0), "record", k, "record")
    assert done[29:] == ["wait"]
    assert times == [[2.0] * 3] * 2


@pytest.fixture
def host(monkeypatch):
    """A GPU's library by its name, `made_up:library`, and what was connected."""
    xp, module, connected = FakeCupy(), ModuleType("made_up"), []
    module.library = lambda: xp
    monkeypatch.setitem(sys.modules, "made_up", module)
    monkeypatch.setattr(runtime, "mode", lambda: "cuda" if connected else "interpret")
    monkeypatch.setattr(runtime, "connect", connected.append)
    monkeypatch.setattr(runtime, "device_name", lambda: "a GPU")
    return SimpleNamespace(xp=xp, connected=connected)


def test_a_measure_opens_the_gpu_that_it_is_told_of(host):
    measure = TritonMeasure("matmul_kernel", (8, 8, 8), "float32", kind="cuda", host="made_up:library")
    facts = measure.open()
    assert (facts["device"], facts["vendor"]) == ("a GPU", "cuBLAS (through CuPy)")
    assert host.connected == [host.xp]
    assert measure._xp is host.xp
    TritonMeasure("softmax_kernel", (8, 8), "float32", kind="cuda", host="made_up:library").open()
    assert len(host.connected) == 1  # once is enough
    halves = TritonMeasure("matmul_kernel", (8, 8, 8), "bfloat16", kind="cuda", host="made_up:library")
    assert "vendor" not in halves.open()
    here = TritonMeasure("matmul_kernel", (8, 8, 8), "float32")
    assert here.open()["device"] == "Triton's interpreter"
    assert here._xp is np


def test_shapes_at_which_a_kernel_is_checked(monkeypatch):
    asked = []
    monkeypatch.setattr(TritonMeasure, "_run", lambda self, shape, seed: SimpleNamespace(
        check=lambda config: asked.append((shape, seed, config)) or 0.5))  # fmt: skip
    for kind, most in (("interpret", 301), ("cuda", 1001)):
        measure = TritonMeasure("softmax_kernel", (4096, 4096), "float32", kind=kind)
        measure._kernel = kernels()["softmax_kernel"]
        assert measure.check({"BLOCK": 8}, 2, True) == 0.5
        assert asked.pop() == ((most, most), 2, {"BLOCK": 8})
        measure.check({"BLOCK": 8})
        assert asked.pop()[1:] == (0, {"BLOCK": 8})
        measure.check(VENDOR)
        assert asked.pop()[2] == VENDOR


def test_a_run_calls_the_vendors_library_and_names_faults():
    measure = TritonMeasure("matmul_kernel", (8, 4, 6), "float32")
    measure.open()
    run = measure._run((8, 4, 6), 3)
    assert measure._run((8, 4, 6), 3) is run
    assert measure._run((8, 4, 6), 0) is not run
    assert run.check(VENDOR) < 1.0
    first = run.inputs[0].copy()
    run.kernel = dataclasses.replace(run.kernel, launch=lambda i, o, c: (
        run.launch(VENDOR), i[0].__setitem__((0, 0), 9.0)))  # fmt: skip
    with pytest.raises(Failed, match="correctness: the kernel writes into its input"):
        run.check({"A": 1})
    assert (run.inputs[0] == first).all()  # and it is put back
    run.kernel = dataclasses.replace(run.kernel, launch=lambda i, o, c: 1 / 0)
    for xp, fatal in ((np, False), (FakeCupy(), True)):
        run.xp = xp
        with pytest.raises(Failed, match="runtime: ZeroDivisionError") as info:
            run.launch({"A": 1})
        assert info.value.fatal is fatal


def test_whose_fault_a_launch_is():
    compiling = ["CompilationError: x", "CompileTimeAssertion", "PTXASError", "OutOfResources: shared"]
    for words, status in [*((each, "compile") for each in compiling), ("illegal address", "runtime")]:
        for on_gpu in (True, False):
            found = launch_failure(RuntimeError(words), on_gpu)
            assert (found.status, found.fatal) == (status, on_gpu and status == "runtime")
    long = failure_of("compile", ValueError("x" * 5000 + "\n" + "y" * 5000))
    assert (len(long.reason), len(long.detail), long.fatal) == (400, 4000, False)
    assert failure_of("compile", ValueError("")).reason == "ValueError: "


# -- a kernel of the user's own ----------------------------------------------------------------------------------------

CONFIG = {"SKIP": 0, "BLOCK": 64, "num_warps": 4}


@pytest.fixture
def opened():
    """Makes the measure of a user's kernel whose launches are a function of its arrays."""

    def make(launch, xp=np, **changes):
        measure = dataclasses.replace(problem().measure, kind="interpret", **changes)
        measure.open()
        measure.launched = []

        def launched(config):
            measure.launched.append(config)
            launch(measure._arrays, measure._zoned)

        measure._launch, measure._xp = launched, xp
        return measure

    return make


def right(arrays, zoned):
    arrays["out"][...] = arrays["x"] / 2


def test_the_answer_of_a_users_kernel_is_judged(opened):
    seen = []

    def noted(arrays, zoned):
        seen.append((arrays["x"].copy(), bool(np.isnan(arrays["out"]).all())))
        right(arrays, zoned)

    measure = opened(noted)
    assert measure.check(CONFIG) == 0.0
    assert measure.check(CONFIG, 1) == 0.0
    assert [poisoned for _, poisoned in seen] == [True, True]
    assert (seen[0][0] == X).all()
    assert np.allclose(seen[1][0], 0.75 * X)
    alone = opened(noted, other=None)
    alone.check(CONFIG, 1)
    assert (seen[-1][0] == X).all()
    for launch, said in [
        (lambda a, z: None, "700 of 700 results are wrong"),
        (lambda a, z: (right(a, z), z["x"].memory.__setitem__(0, 1)), "it writes outside of x"),
        (lambda a, z: (right(a, z), z["out"].memory.__setitem__(-1, 1)), "it writes outside of out"),
        (lambda a, z: (right(a, z), a["x"].__setitem__(3, 1.0)), "the kernel writes into x, for which the reference"),
    ]:
        with pytest.raises(Failed, match=said) as info:
            opened(launch).check(CONFIG)
        assert info.value.status == "correctness"
    scale = np.abs(X / 2) + np.abs(X / 2).mean()
    measure = opened(lambda a, z: a["out"].__setitem__(..., (X.astype(np.float64) / 2 + 0.5 * scale * 80 * 2.0**-24)))
    assert measure.check(CONFIG) == pytest.approx(0.5, abs=0.05)  # of 16 + 8 sqrt(64) roundings


def test_whole_numbers_must_be_exact(opened):
    measure = opened(lambda a, z: a["out"].__setitem__(..., 5))
    measure.arguments = {"x": X, "out": np.zeros(700, np.int32)}
    measure.expected, measure.other = {"out": np.full(700, 5.0)}, None
    measure._zoned = {n: own.Zoned(np, a) for n, a in measure.arguments.items()}
    measure._arrays = {n: zoned.array for n, zoned in measure._zoned.items()}
    assert measure.check(CONFIG) == 0.0
    measure.expected["out"][7] = 6.0
    with pytest.raises(Failed, match=r"1 of 700 results are wrong; the worst at \(7,\)"):
        measure.check(CONFIG)


def test_a_users_kernel_on_a_gpu(host):
    measure = dataclasses.replace(problem().measure, kind="cuda", host="made_up:library")
    assert (measure.estimate, measure.steady, measure.environment) == (False, False, {"TRITON_INTERPRET": "0"})
    assert measure.open()["device"] == "a GPU"
    assert host.connected == [host.xp]
    launched = []
    measure._launch = launched.append
    built = measure.build(CONFIG)
    assert launched == [CONFIG]
    assert built.binary != measure.build({**CONFIG, "BLOCK": 256}).binary
    assert built.compile_ms >= 0
    assert [len(times) for times in measure.rounds([CONFIG, CONFIG], 3, 0)] == [3, 3]
    host.xp.fault = "an illegal memory access"
    with pytest.raises(Failed, match="runtime: RuntimeError: an illegal memory access") as info:
        measure.build(CONFIG)
    assert info.value.fatal


def test_the_kinds_of_a_users_measure(opened, monkeypatch):
    static = problem().measure
    assert (static.estimate, static.steady, static.environment) == (True, True, {"TRITON_INTERPRET": "0"})
    static._times = {own._key(CONFIG): 2.5}
    assert static.pairs(CONFIG, CONFIG, 2) == ([2.5, 2.5], [])
    assert static.rounds([CONFIG], 3, 0) == [[2.5] * 3]
    built = []
    static._times = {}
    monkeypatch.setattr(
        type(static), "build", lambda self, c: built.append(c) or self._times.update({own._key(c): 1.0})
    )
    assert static.pairs(CONFIG, None, 1) == ([1.0], [])
    assert built == [CONFIG]
    measure = opened(right)
    assert measure.environment == {"TRITON_INTERPRET": "1"}
    with pytest.raises(Failed, match="runtime: the interpreter has no times"):
        measure.pairs(CONFIG, None, 1)


def test_what_a_launch_in_the_interpreter_dies_of(monkeypatch):
    measure = dataclasses.replace(problem().measure, kind="interpret")
    measure.open()
    root = ValueError("deep\nat the bottom")
    outer = RuntimeError("outside")
    outer.__cause__ = root

    class Kernel:
        arg_names = ("x", "out", "n")

        def __getitem__(self, grid):
            def launch(**given):
                assert grid == (11,)
                assert given.items() >= {**CONFIG, "n": 700}.items()
                raise outer

            return launch

    measure._kernel = Kernel()
    with pytest.raises(Failed, match="runtime: ValueError: at the bottom"):
        measure._launch(CONFIG)
    root.short = "out-of-bounds load"
    with pytest.raises(Failed) as info:
        measure._launch(CONFIG)
    assert (info.value.status, info.value.reason, info.value.detail) == (
        "runtime", "out-of-bounds load", "deep\nat the bottom")  # fmt: skip
    measure.kind = "cuda"
    with pytest.raises(Failed, match="runtime: RuntimeError: outside"):
        measure._launch(CONFIG)


def test_a_users_problem_in_figures(monkeypatch):
    made = problem(target="sm_80")
    assert (made.kernel, made.shape, made.dtype) == ("scale_kernel", (700,), "float32")
    assert (made.device, made.mode) == ("sm_80 (A100 80 GB)", "static sm_80")
    assert (made.measure.kind, made.check.kind) == ("static", "interpret")
    assert made.measure.target == made.check.target == "sm_80"
    assert made.measure.grids == {
        (("BLOCK", b), ("SKIP", s), ("num_warps", w)): (-(-700 // b),)
        for b in (64, 256)
        for s in (0, 1)
        for w in (4, 1)
    }
    assert problem().measure.target == "sm_90"
    assert set(problem(grid=7).measure.grids.values()) == {(7,)}
    assert set(problem(grid=(7, 2.0)).measure.grids.values()) == {(7, 2)}
    assert set(problem(grid=lambda c: [c["BLOCK"], 3]).measure.grids.values()) == {(64, 3), (256, 3)}
    given, told = made.measure.other
    assert np.allclose(given["x"], 0.75 * X)
    assert given["out"] is ARGUMENTS["out"]
    assert np.allclose(told["out"], 0.375 * X)

    def picky(x):
        if (np.abs(x) < 0.75 * np.abs(X)).any() or not np.allclose(x, X):
            raise ValueError
        return x / 2

    assert problem(reference=picky).measure.other is None
    monkeypatch.setattr(runtime, "mode", lambda: "cuda")
    monkeypatch.setattr(runtime, "device_name", lambda: "a GPU")
    for target in (None, "cuda"):
        there = problem(target=target)
        assert (there.measure.kind, there.device, there.check) == ("cuda", "a GPU", None)
        assert there.mode == "cuda, cold L2; x=float32[700] out=float32[700] n=700"
        assert there.measure.host == "core.backends.cuda:array_library"
    assert problem(target="sm_90").measure.kind == "static"


def test_the_space_that_constexprs_suggest():
    def kernel(x, n, BLOCK, OTHER, plain=3): ...

    kernel.__annotations__ = dict.fromkeys(("BLOCK", "OTHER"), "tl.constexpr")
    jitted = SimpleNamespace(fn=kernel)
    space = own.space_of(jitted, {"x": X, "n": 3})
    assert {t.name: (t.values, t.default) for t in space.tunables} == {
        "BLOCK": ((16, 32, 64, 128, 256, 512, 1024), 128), "OTHER": ((16, 32, 64, 128, 256, 512, 1024), 128),
        "num_warps": ((1, 2, 4, 8), 4)}  # fmt: skip
    largest = [c for c in space.configs() if c["BLOCK"] * c["OTHER"] > 1 << 15]
    assert {c["BLOCK"] * c["OTHER"] for c in largest} == {1 << 16}
    assert space.rejected({"BLOCK": 1024, "OTHER": 128, "num_warps": 4}) == "a tile of at most 65,536 elements"
    assert not own.space_of(jitted, {"OTHER": 3}).constraints
    odd = SimpleNamespace(fn=lambda x, block: 0)
    odd.fn.__annotations__ = {"block": "tl.constexpr"}
    with pytest.raises(Unknown, match="no values are known for block of"):
        own.space_of(odd, {})


def test_references_get_what_they_name_in_float64():
    given = {"x": X, "k": np.arange(3), "n": 4}
    assert own.ask(lambda x: x.dtype, given) == np.float64
    assert own.ask(lambda **every: sorted(every), given) == ["k", "n", "x"]
    copied = own.ask(lambda k, n: (k, n), given)
    assert copied[0] is not given["k"]
    assert (copied[0].dtype, copied[1]) == (given["k"].dtype, 4)
    changed = own.other_inputs({**given, "h": np.ones(2, np.float16)}, ["x", "k", "h", "n"])
    assert changed["k"] is given["k"]
    assert (changed["h"].dtype, changed["h"].tolist()) == (np.float16, [0.75, 0.75])
