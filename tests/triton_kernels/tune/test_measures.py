"""What measures say: C on this processor, Triton in the interpreter and compiled for a target; recorded caches."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from triton_kernels import softmax
from triton_kernels.tune import c_kernels, lookup, places
from triton_kernels.tune.declared import kernels
from triton_kernels.tune.devices import DEVICES, occupancy
from triton_kernels.tune.events import Measured
from triton_kernels.tune.measure import Failed, judge, tolerance
from triton_kernels.tune.measure_cpu import CpuMeasure, compile_config
from triton_kernels.tune.measure_triton import TritonMeasure
from triton_kernels.tune.problem import Unknown, c_text, find, known, parse_shape
from triton_kernels.tune.race import interval, race, standing
from triton_kernels.tune.replay import ReplayMeasure, read_cache
from triton_kernels.tune.session import Session, run
from triton_kernels.tune.sources import source_of
from triton_kernels.tune.store import Store
from triton_kernels.tune.worker import Worker


def small(config):
    """A config with few threads, whose libraries compile quickly."""
    return {**config, "THREADS": 1}


@pytest.mark.parametrize("family", sorted(c_kernels.FAMILIES))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_configs_of_c_kernels_are_right(family, dtype):
    space = c_kernels.space_of(family, dtype)
    configs = list(space.configs())
    assert len(configs) >= (500 if family == "matmul" else 50)
    rng = np.random.default_rng(1)
    chosen = [space.default, *(configs[i] for i in rng.choice(len(configs), 2, replace=False))]
    shape = (50, 70, 33) if family == "matmul" else (9, 1001)
    measure = CpuMeasure(family, shape, dtype, c_kernels.FAMILIES[family].text)
    measure.open()
    for config in chosen:
        assert measure.build(config).binary
        assert measure.check(config) < 1
        assert measure.check(config, seed=3, odd=True) < 1
        assert measure.pairs(config, None, 1)[0][0] > 0


def test_softmax_in_c_with_infinities_and_nan():
    x = np.array([[0.0, -np.inf, 1.0, 2.0] * 40, [np.nan, *[1.0] * 159], [5.0] * 160], np.float32)
    for passes in (2, 3):
        config = {**c_kernels.space_of("softmax", "float32").default, "PASSES": passes, "THREADS": 1, "CHUNK": 8}
        y = c_kernels.run("softmax", x, config=config)
        assert (y[0, 1::4] == 0).all()
        assert y[0].sum() == pytest.approx(1)
        assert np.isnan(y[1]).any()
        assert np.allclose(y[2], 1 / 160)


def test_calling_a_c_kernel_takes_what_was_stored():
    a, b = np.ones((6, 4), np.float32), np.ones((4, 5), np.float32)
    assert (c_kernels.run("matmul", a, b) == 4).all()
    default = c_kernels.space_of("matmul", "float32").default
    best = {**default, "MR": 2, "NV": 1, "THREADS": 1}
    problem = find("matmul_f32", "6x5x4", "float32")
    assert c_kernels.stored_for("matmul", (6, 5, 4), "float32") is None
    with Store() as kept:
        session = kept.begin(problem.key, {}, "random")
        kept.win(problem.key, session, {"config": best, "ratio": 0.5, "low": 0.4, "high": 0.6, "ties": []})
        assert c_kernels.stored_for("matmul", (6, 5, 4), "float32") == best
        assert (c_kernels.run("matmul", a, b) == 4).all()
        assert c_kernels._ready["matmul", (6, 5, 4), "float32"] is not None
        kept.win(problem.key, session, {"config": {"MR": 77}, "ratio": 0.5, "low": 0.4, "high": 0.6, "ties": []})
    assert c_kernels.stored_for("matmul", (6, 5, 4), "float32") is None  # a value that the space no longer has
    assert not c_kernels._ready


def test_what_c_kernels_refuse():
    one = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match="no C kernel is named 'conv'; there are matmul, softmax"):
        c_kernels.run("conv", one)
    with pytest.raises(TypeError, match="float32 or float64 arrays of two dimensions and one dtype, got float16"):
        c_kernels.run("softmax", one.astype(np.float16))
    with pytest.raises(ValueError, match=r"cannot be multiplied: \(2, 3\) @ \(2, 3\)"):
        c_kernels.run("matmul", one, one)
    with pytest.raises(ValueError, match="out must be a row-major"):
        c_kernels.run("softmax", one, out=np.ones((3, 2), np.float32))
    with pytest.raises(ValueError, match="no tunable named WARPS"):
        c_kernels.run("softmax", one, config={"WARPS": 1})
    assert c_kernels.run("softmax", np.ones((0, 3), np.float32)).shape == (0, 3)


def test_no_compiler(monkeypatch):
    from triton_kernels.tune import measure_cpu

    monkeypatch.setattr(measure_cpu.shutil, "which", lambda name: None)
    measure_cpu.compiler.cache_clear()
    with pytest.raises(Failed, match=r"no C compiler was found. Remedy: install one"):
        compile_config("int f;", "float32", {})
    measure_cpu.compiler.cache_clear()


def test_compile_errors_name_the_line():
    with pytest.raises(Failed, match=r"compile: 1:\d+: error") as info:
        compile_config("int f(void) { return nothing; }", "float32", {})
    assert "nothing" in info.value.detail


def test_another_users_cache_is_refused(monkeypatch):
    monkeypatch.setattr(places.os, "getuid", lambda: 12345)
    with pytest.raises(Failed, match="not a folder of this user's own"):
        compile_config("int f;", "float32", {})


# -- judging -----------------------------------------------------------------------------------------------------------


def test_judge():
    right = np.array([1.0, np.nan, np.inf, 0.0])
    assert judge(right, right, np.ones(4), 1e-6) == 0
    assert judge(right + 5e-7, right, np.ones(4), 1e-6) == pytest.approx(0.5)
    for wrong in ([1, 1, np.inf, 0], [np.nan, np.nan, np.inf, 0], [1, np.nan, -np.inf, 0], [1, np.nan, np.inf, 1e-3]):
        with pytest.raises(Failed, match="1 of 4 results are wrong"):
            judge(np.array(wrong, float), right, np.ones(4), 1e-6)
    assert judge(np.ones((0, 3)), np.ones((0, 3)), np.ones((0, 3)), 1e-6) == 0
    assert tolerance("float32", 4096) > tolerance("float32", 1)
    with pytest.raises(ValueError, match="no tolerance is known for int8"):
        tolerance("int8")


def test_races_and_finals_with_noise(rng):
    def pairs(ratio, noise):
        def take(count):
            mood = 1 + 2 * rng.random(count)  # the machine's, common to both of a pair
            mine = ratio * mood * (1 + noise * rng.random(count))
            return mine.tolist(), (mood * (1 + noise * rng.random(count))).tolist()

        return take

    assert race(pairs(2.0, 0.1)).count == 2
    assert race(pairs(1.3, 0.1)).lost
    kept = [race(pairs(0.97, 0.05)) for _ in range(50)]
    assert not any(r.lost for r in kept)
    assert np.median([r.ratio for r in kept]) == pytest.approx(0.97, abs=0.01)
    wrong = 0
    for _ in range(200):  # of twins the final hardly ever says that one is faster, though it looks at the best of three
        mood = 1 + 2 * rng.random((1, 24))
        wrong += standing(mood * (1 + 0.05 * rng.random((4, 24)))).verdict == "faster"
    assert wrong <= 4
    mood = 1 + 2 * rng.random((1, 24))
    times = mood * np.array([[1.0], [0.9], [0.9], [1.2]]) * (1 + 0.05 * rng.random((4, 24)))
    final = standing(times)
    assert final.verdict == "faster"
    assert final.winner in (1, 2)
    assert final.ties == [3 - final.winner]
    median, low, high = interval(rng.normal(1, 0.1, 200))
    assert low < 1 < high
    assert low < median < high


# -- problems by name --------------------------------------------------------------------------------------------------


def test_names_shapes_and_targets():
    assert find("softmax", (8, 16), "float32").kernel == "softmax_f32"
    assert find("softmax_f32", "2x3x16", "float32").shape == (6, 16)
    assert find("softmax_f32", "16", "float32").shape == (1, 16)
    assert find("softmax_kernel", "4096x1024", "float16").measure.kind == "static"
    assert "matmul_kernel" in known()
    for name, shape, dtype, target, said in [
        ("sofmax_kernel", "1x2", "float32", None, "Did you mean softmax_kernel"),
        ("nonsense", "1x2", "float32", None, "There are\n  MxNxK, in C"),
        ("matmul_f32", "1x2", "float32", None, "takes a shape MxNxK, 3 sizes; came: 1x2"),
        ("matmul_f32", "1x2x3", "float64", None, "for float64 there is matmul_f64"),
        ("matmul_f32", "1x2x3", "float16", None, "takes float32, not float16"),
        ("matmul_f32", "1x2x3", "float32", "sm_90", "is for Triton kernels"),
        ("softmax_kernel", "1x2", "int8", None, "takes float16, bfloat16, float32, float64, not int8"),
        ("softmax_kernel", "1x2", "float32", "sm_1", "there are cuda and, to compile for, sm_80"),
        ("softmax_kernel", "1x2", "float32", "cuda", "no GPU is connected"),
        ("softmax_f32", "1x0", "float32", None, "every size of a shape is from 1"),
        ("softmax_f32", "1*2", "float32", None, "sizes with x between them"),
        ("softmax_f32", "2000000x2000000", "float32", None, "wants about 192,000,000,000,000 bytes for its arrays"),
        ("softmax_f32", "9" * 30 + "x2", "float32", None, "every size"),
    ]:
        with pytest.raises(Unknown, match=said.replace("(", r"\(")):
            find(name, shape, dtype, target)
    assert parse_shape("7") == (7,)


def test_the_identity_of_a_kernel_is_its_text_without_comments():
    assert c_text("int a; /* one\n two */ int b; // c\n\n") == "int a; int b;"
    assert source_of(softmax.softmax_kernel) != source_of(softmax.softmax_backward_kernel)
    assert source_of(softmax.softmax_kernel) == source_of(softmax.softmax_kernel)
    assert re.fullmatch("[0-9a-f]{16}", source_of(softmax.softmax_kernel))  # as long as the stores have it


# -- Triton ------------------------------------------------------------------------------------------------------------


def test_a_config_that_is_wrong_in_the_interpreter():
    measure = TritonMeasure("softmax_kernel", (5, 700), "float32")
    measure.open()
    run = measure._run((5, 700), 0)
    right = run.kernel
    run.kernel = replace(right, launch=lambda i, o, c: softmax.log_softmax_forward(*i, *o))
    with pytest.raises(Failed, match="results are wrong"):
        run.check({})
    run.kernel = replace(right, launch=lambda i, o, c: None)
    with pytest.raises(Failed, match="3,500 of 3,500 results are wrong"):
        run.check({})
    with pytest.raises(Failed, match="the interpreter has no times"):
        measure.pairs({}, None, 1)


@pytest.mark.by_turns
def test_static_names_limits_merges_and_stores_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    problem = find("reduce_kernel", "4096x1000", "float32", "sm_80")
    with Store() as kept:
        events = list(session := Session(problem, store=kept))
        assert kept.trials(problem.key) == []
    result = session.result
    assert (result.verdict, result.estimate, result.stored) == ("estimate", True, "")
    assert result.evaluations == result.space_size == len(events) // 2 - 1
    assert not any(e.raced_out for e in events if isinstance(e, Measured))  # an estimate is no race
    assert {"registers", "shared_bytes", "spill_bytes", "occupancy", "limited_by"} <= set(result.best.facts)
    assert lookup.best("reduce_kernel", (4096, 1000), "float32", problem.device) is None
    assert "estimated, not timed" in result.notes[0]
    assert "give the right answer in Triton's interpreter" in result.notes[-2]
    assert "is not known (products of matrices alone have been compared): take it for no advice" in result.notes[-1]


STATIC = """
import json, sys
from triton_kernels.tune.declared import kernels
from triton_kernels.tune.measure import Failed
from triton_kernels.tune.measure_static import StaticMeasure

found = {}
for name, dtype, target, changed in json.loads(sys.argv[1]):
    kernel = kernels()[name]
    shape = (256, 256, 256) if name == "matmul_kernel" else kernel.small
    measure = StaticMeasure(name, shape, dtype, None, target)
    measure.open()
    config = {**kernel.space_at((4096,) * len(shape), dtype, target).default, **changed}
    try:
        found[f"{name} {target}"] = measure.build(config).facts
    except Failed as failure:
        found[f"{name} {target}"] = str(failure)
print(json.dumps(found))
"""


@pytest.mark.by_turns
def test_every_target_says_what_a_kernel_occupies_and_which_limit_it_breaks(tmp_path):
    """Kernels that need a host besides: one that notes faults, one that reads addresses from a table."""
    asked = [
        ("cross_entropy_kernel", "float16", "sm_90", {}),
        ("norm_scale_kernel", "float32", "sm_100", {}),
        ("nll_kernel", "float32", "gfx942", {}),
        ("softmax_kernel", "float16", "gfx942", {"num_warps": 32}),
        ("matmul_kernel", "float16", "sm_80", {"BLOCK_M": 256, "FORM": "descriptors", "num_stages": 4}),
    ]  # fmt: skip
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", STATIC, json.dumps(asked)], cwd=Path(__file__).parents[3],
                          env=environment, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    for name in ("cross_entropy_kernel sm_90", "norm_scale_kernel sm_100", "nll_kernel gfx942"):
        facts = found[name]
        assert facts["registers"] > 0
        assert 0 < facts["occupancy"] <= 1
        assert facts["bytes"] > 0
        assert facts["flops"] > 0
        assert facts["bound_by"] == "memory"
        assert facts["limited_by"] in ("warps", "registers", "blocks", "shared memory")
    assert "asks for 2,048 threads, a block of gfx942 may have 1,024" in found["softmax_kernel gfx942"]
    assert "bytes of shared memory, a block of sm_80 may have 166,912" in found["matmul_kernel sm_80"]


def test_occupancy():
    device = DEVICES["sm_80"]
    assert occupancy(device, 32, 0, 4).limit in ("registers", "warps")
    assert occupancy(device, 32, 0, 4).share == 1.0
    assert occupancy(device, 255, 0, 8) == type(occupancy(device, 1, 0, 1))(1, 0.125, "registers")
    assert occupancy(device, 32, 100 * 1024, 4).limit == "shared memory"
    assert occupancy(device, 16, 0, 1).limit == "blocks"
    assert occupancy(device, 32, 1 << 20, 4).blocks == 0


# -- recorded caches ---------------------------------------------------------------------------------------------------


def cache(path, cut=False, packed=False):
    entries = {
        f"{b},{w}": {"b": b, "w": w, "time": 10.0 / b + w if b < 64 else "CompilationFailedConfig"}
        for b in (16, 32, 64) for w in (1, 2)
    }  # fmt: skip
    text = json.dumps({"device_name": "GPU", "kernel_name": "k", "tune_params_keys": ["b", "w"], "cache": entries})
    text = text.removesuffix("}}") + "," if cut else text
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return path


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_kernel_tuners_caches_are_read(tmp_path, cut, packed):
    problem = read_cache(cache(tmp_path / "cache", cut, packed))
    assert len(list(problem.space.configs())) == 6
    result = run(problem, strategy="exhaustive", budget=None)
    assert result.config == {"b": 32, "w": 1}
    assert result.rejected == {"compile": 2}


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"tune_params_keys": ["b"], "cache": {"1": {"b": 1}}}',
                                  '{"tune_params_keys": ["b"], "cache": {}}'])  # fmt: skip
def test_what_is_no_cache(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=r"x\.json (is no cache file|records no config)"):
        read_cache(tmp_path / "x.json")


class FakeCupy:
    """What a GPU's side asks of CuPy, over NumPy: an event is the number of launches so far."""

    def __init__(self):
        self.launches = 0
        self.fault = None
        outer = self

        class Event:
            def record(self):
                self.at = outer.launches

        class Stream:
            def synchronize(self):
                if outer.fault:
                    raise RuntimeError(outer.fault)

        self.asarray, self.empty = np.asarray, np.empty
        self.cuda = SimpleNamespace(
            Event=Event, get_current_stream=Stream, get_elapsed_time=lambda begin, end: 0.5 * (end.at - begin.at),
            runtime=SimpleNamespace(getDevice=lambda: 0, getDeviceProperties=lambda device: {"l2CacheSize": 1024}),
        )  # fmt: skip


def test_the_gpus_side_over_a_fake_cupy():
    measure = TritonMeasure("softmax_kernel", (5, 700), "float32", kind="cuda")
    assert measure.environment == {"TRITON_INTERPRET": "0"}
    with pytest.raises(Unknown, match="no GPU is connected"):
        find("softmax_kernel", "5x700", "float32", "cuda")
    kernel = kernels()["softmax_kernel"]
    measure._runs, measure._xp = {}, FakeCupy()

    def counted(inputs, outputs, config):
        measure._xp.launches += 1
        kernel.launch(inputs, outputs, config)

    measure._kernel = replace(kernel, launch=counted)
    first, second = list(softmax.SPACE.configs())[:2]
    assert measure.build(first).binary != measure.build(second).binary
    assert measure.check(first) < 1
    before = measure._xp.launches
    assert measure.pairs(first, second, 3) == ([0.5] * 3, [0.5] * 3)
    assert measure._xp.launches - before == 2 * (2 + 3)  # two warm-ups each
    measure._xp.fault = "an illegal memory access was encountered"
    with pytest.raises(Failed, match="runtime: RuntimeError: an illegal memory access") as info:
        measure.check(first)
    assert info.value.fatal  # a broken context: the worker is replaced


def test_a_worker_is_replaced_after_a_fatal_failure(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))  # the worker imports `Fatal` by its name
    with Worker(Fatal({(1,): 1.0})) as worker:
        with pytest.raises(Failed, match="the device is gone"):
            worker.call("check", {"BLOCK": 1}, limit_s=20)
        with pytest.raises(Failed, match="the device is gone"):
            worker.call("check", {"BLOCK": 1}, limit_s=20)
        assert worker.starts == 2


class Fatal(ReplayMeasure):
    """A device that breaks at the first touch."""

    def check(self, config, seed=0, odd=False):
        failed = Failed("runtime", "the device is gone")
        failed.fatal = True
        raise failed
