"""The tuner's choices for the C kernels: taken by a fresh process, near their shape, unseen in a result's bits."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from core import native
from core.native import choices, tunables
from triton_kernels.tune import lookup, places, problem
from triton_kernels.tune.measure import VENDOR, Failed
from triton_kernels.tune.session import Session
from triton_kernels.tune.store import Store

SHAPES = {
    "core_elementwise": (70_001,),
    "core_reduce": (2, 301, 1111),
    "core_attention": (3, 70, 65, 33),
    "core_attention_backward": (3, 300, 65, 33),
    "core_recurrent": (5, 37, 21, 35),
    "core_recurrent_backward": (5, 37, 21, 35),
    "core_matmul": (301, 257, 130),
    "core_convolution": (3, 90, 130, 169),
    "core_int8_linear": (301, 157, 130),
    "core_int8_weights": (5, 157, 256),
    "core_int4_weights": (5, 157, 256),
}


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """Results of this test alone, and no choice left behind."""
    if native.module is None:
        pytest.skip("the C extension is not built")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    lookup.forget()
    yield tmp_path
    for kernel in choices.KERNELS:
        native.module.choose(kernel, [])
    lookup.forget()


def store(kernel, shape, dtype, **changed):
    """Store a config as if it had won."""
    asked = problem.find(kernel, shape, dtype)
    config = {**asked.space.default, **changed}
    with Store() as kept:
        session = kept.begin(asked.key, {}, "by hand")
        kept.win(asked.key, session, {"config": config, "ratio": 0.5, "low": 0.4, "high": 0.6, "ties": []})


@pytest.mark.parametrize("kernel", sorted(choices.KERNELS))
def test_no_choice_changes_a_bit(kernel, rng):
    shape = SHAPES.get(kernel, (133, 517))
    for dtype in choices.KERNELS[kernel].dtypes:
        measure = tunables.NativeMeasure(kernel, shape, dtype)
        measure.open()
        configs = list(tunables.space_of(kernel).configs())
        assert len(configs) >= 50
        at_work = {**tunables.space_of(kernel).default, "SHARE": 8192, "CHUNKS": 16}  # as many pieces as there can be
        extremes = [{**at_work, **{t.name: t.values[k] for t in tunables.CALLED[kernel].own}} for k in (0, -1)]
        for config in [*extremes, *(configs[i] for i in rng.integers(0, len(configs), 4))]:
            assert measure.check(config) < 1
            assert measure.check(config, seed=1, odd=True) < 1
        assert measure.pairs(configs[0], configs[1], 2)[1][0] > 0
    if kernel == "core_matmul":
        assert measure.check(VENDOR) < 1


def test_bits_that_differ_are_found(monkeypatch):
    measure = tunables.NativeMeasure("core_softmax", (30, 40), "float32")
    measure.open()
    other = {**tunables.space_of("core_softmax").default, "CHUNKS": 1}
    assert measure.check(other) < 1
    wrong = lambda x: np.nextafter(native.module.entries["softmax"](x, -1), np.float32(1))
    monkeypatch.setattr(measure, "_called", type("Called", (), {"run": staticmethod(wrong), "terms": lambda s: 40}))
    with pytest.raises(Failed, match="its bits are not those of the default's result"):
        measure.check(other)


def test_a_fresh_process_takes_what_is_stored(folders):
    store("core_softmax", "512x1000", "float32", THREADS=1, SHARE=8192)
    store("core_attention_backward", "4x64x64x32", "float64", QUERIES=16)
    program = """
import core, numpy as np, hashlib
from core.native import module as m
x = np.random.default_rng(0).standard_normal((512, 1000)).astype(np.float32)
print(*m.chosen("core_softmax", (512, 1000), 4), *m.chosen("core_softmax", (600, 1000), 4))
print(*m.chosen("core_softmax", (512, 1000), 8), *m.chosen("core_softmax", (3, 3), 4))
print(*m.chosen("core_attention_backward", (4, 64, 64, 32), 8))
print(hashlib.sha256(core.softmax(core.from_numpy(x), 1).numpy().tobytes()).hexdigest())
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    cores = places.cpu_count()
    assert said[:3] == ["1 8192 4 0 0 1 8192 4 0 0", "0 32768 4 0 0 0 32768 4 0 0", f"{cores} 32768 4 16 0"]
    (folders / "gradlab/tuning/best.json").unlink()
    again = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    assert again[0] == "0 32768 4 0 0 0 32768 4 0 0"
    assert again[3] == said[3]  # the bits


def test_what_is_tuned_in_this_process_is_taken_at_once():
    asked = problem.find("core_reduce", "3x200x50", "float64")
    store("core_reduce", "3x200x50", "float64", TILE=128)
    assert native.module.chosen("core_reduce", (3, 200, 50), 8)[3] == 128
    with Store() as kept:
        session = Session(asked, budget="20s", evaluations=3, store=kept)
        assert list(session)
    assert session.result is not None
    assert session.result.verdict in ("faster", "default", "noisy")
    assert session.result.evaluations == 3


def test_entries_that_make_no_sense_are_left_out(folders):
    store("core_reduce", "3x200x50", "float32", TILE=256)
    path = folders / "gradlab/tuning/best.json"
    content = json.loads(path.read_text())
    right = content["entries"][0]
    for wrong in ({"TILE": 4096}, {"TILE": "x"}, {"CHUNKS": -1}, {"THREADS": 1 << 40}, {"SHARE": 0}):
        content["entries"].append({**right, "shape": [9, 9, 9], "config": {**right["config"], **wrong}})
    content["entries"].append({**right, "shape": [1, 2, 3, 4, 5]})
    content["entries"].append({**right, "shape": [1, 2, 3], "source": "of another version"})
    content["entries"].append({**right, "shape": [1, 2, 3], "config": {}})
    path.write_text(json.dumps(content))
    choices.take()
    assert native.module.chosen("core_reduce", (3, 200, 50), 4)[3] == 256
    assert native.module.chosen("core_reduce", (9, 9, 9), 4)[3] == 0
    assert native.module.chosen("core_reduce", (1, 2, 3), 4)[3] == 0
    path.write_text("{")
    choices.take()
    assert native.module.chosen("core_reduce", (3, 200, 50), 4)[3] == 0


def test_what_choose_refuses():
    refused = [
        (("core_nothing", []), ValueError, "no kernel is called 'core_nothing'"),
        (("core_reduce", [((1, 2, 3), 4, 0, 1, 1, 4096, 0)]), ValueError, "out of range"),
        (("core_reduce", [((0, 2, 3), 4, 0, 1, 1, 0, 0)]), ValueError, "out of range"),
        (("core_reduce", [((1, 2, 3, 4, 5), 4, 0, 1, 1, 0, 0)]), ValueError, "at most 4 sizes"),
        (("core_reduce", [((1, 2, 3), 4)] * 65), ValueError, "at most 64 shapes"),
        (("core_reduce", [3]), TypeError, "a choice is a tuple"),
        (("core_reduce",), TypeError, "takes a kernel's name and a list"),
    ]
    for arguments, error, said in refused:
        with pytest.raises(error, match=said):
            native.module.choose(*arguments)


def test_names_shapes_and_the_place():
    known = problem.known()
    assert known["core_softmax"] == "ROWSxCOLUMNS, core's own C: softmax and its logarithm"
    assert set(choices.KERNELS) <= set(known)
    assert set(choices.KERNELS) == set(tunables.CALLED)
    for kernel, spec in choices.KERNELS.items():
        assert set(spec.own) == {t.name for t in tunables.CALLED[kernel].own}
    with pytest.raises(problem.Unknown, match="core_softmax takes float32 and float64, not float16"):
        problem.find("core_softmax", "4x4", "float16")
    with pytest.raises(problem.Unknown, match="core_int8_linear takes float32, not float64"):
        problem.find("core_int8_linear", "4x4x4", "float64")
    with pytest.raises(problem.Unknown, match="measured on this processor: --target sm_90 is for Triton"):
        problem.find("core_softmax", "4x4", "float32", "sm_90")
    with pytest.raises(problem.Unknown, match="takes a shape OUTERxNxINNER, 3 sizes; came: 4x4"):
        problem.find("core_reduce", "4x4", "float32")
    with pytest.raises(problem.Unknown, match="bytes for its arrays"):
        problem.find("core_attention", "900x90000x90000x64", "float32")
