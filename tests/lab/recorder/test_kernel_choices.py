"""What is told of a kernel: on what it ran, who declined, its figures beside the machine's, and the tuner's command."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import core
import lab
from core import native
from core.utils.flops import flops
from lab.recorder.kernel_choices import Choice, tune_command
from lab.report import peaks
from lab.tuning import command as tuning
from widgets.record import KernelRow, Machine, Record

needs_c = pytest.mark.skipif(native.module is None, reason="the C kernels are off")


def rows(rec: Any) -> dict[str, KernelRow]:
    return {k.op: k for k in rec.record.kernels}


@needs_c
def test_a_product_and_its_gradient() -> None:
    x, w = core.randn(64, 128, requires_grad=True), core.randn(32, 128, requires_grad=True)
    with lab.record() as rec:
        core.nn.functional.linear(x, w).sum().backward()
    forward, backward = rows(rec)["linear"], rows(rec)["linear backward"]
    assert forward.inputs == ["64×128 float32", "32×128 float32"]
    assert forward.tune == "%tune core_matmul 64x32x128 float32"
    assert forward.flops_per_s == pytest.approx(2 * 64 * 128 * 32 / (forward.total_ms / 1e3))
    assert backward.flops_per_s == pytest.approx(2 * 2 * 64 * 128 * 32 / (backward.total_ms / 1e3))
    assert backward.tune == ""
    assert forward.config in ("1 thread", f"{native.module.get_num_threads()} threads")
    assert forward.declined == []


@needs_c
def test_a_factor_without_gradient_costs_no_product() -> None:
    x, w = core.randn(64, 128), core.randn(32, 128, requires_grad=True)
    with lab.record() as rec:
        core.nn.functional.linear(x, w).sum().backward()
    backward = rows(rec)["linear backward"]
    assert backward.flops_per_s == pytest.approx(2 * 64 * 128 * 32 / (backward.total_ms / 1e3))


@needs_c
def test_who_declined_and_why() -> None:
    with lab.record() as rec:
        core.arange(10).fmod(3)
        core.arange(10).view(2, 5)
    assert rows(rec)["fmod"].declined == ["fmod (C): takes float32 and float64, got int64"]
    assert rows(rec)["view"].declined == []  # nothing is computed, and nobody is missed


def test_the_config_of_a_triton_kernel() -> None:
    if not core.cuda.is_available():
        pytest.skip("neither a GPU nor TRITON_INTERPRET=1")
    x = core.randn(16, 64, device="cuda")
    with lab.record() as rec:
        x.softmax(1)
        x.tanh()
    softmax, tanh = rows(rec)["softmax"], rows(rec)["tanh"]
    assert (softmax.backend, softmax.device) == ("Triton", "cuda")
    assert "BLOCK=64" in softmax.config
    assert "num_warps=" in softmax.config
    assert softmax.tune == "%tune softmax_kernel 16x64 float32"
    assert "BLOCK=" in tanh.config


@pytest.mark.parametrize(
    ("name", "shapes", "out", "wanted"),
    [
        ("matmul", [(2, 3, 4), (4, 5)], (2, 3, 5), 2 * 2 * 3 * 4 * 5),
        ("conv", [(2, 4, 8, 8), (6, 2, 3, 3)], (2, 6, 6, 6), 2 * 2 * 6 * 36 * 2 * 9),
        ("conv_transpose", [(2, 4, 5), (4, 3, 2)], (2, 3, 6), 2 * 2 * 4 * 5 * 3 * 2),
        ("attention", [(2, 8, 16), (2, 10, 16), (2, 10, 4)], (2, 8, 4), 2 * 2 * 8 * 10 * (16 + 4)),
        ("lstm", [(7, 2, 3), (16, 3), (16, 4)], (7, 2, 4), 2 * 14 * (48 + 64)),
        ("exp", [(3,)], (3,), None),
        ("matmul", [], (3,), None),
    ],
)
def test_operations_by_shape(name: str, shapes: Any, out: Any, wanted: Any) -> None:
    assert flops(name, shapes, out) == wanted


def test_peaks_are_measured_three_times_and_the_best_is_kept(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(peaks, "SECONDS", 0.001)
    monkeypatch.setattr(peaks, "COPIED", 1 << 16)
    monkeypatch.setattr(peaks, "SIDE", 32)
    assert peaks.known("cpu") is None
    best = 0.0
    for session in range(1, 6):
        monkeypatch.setattr(peaks, "_measured", set())
        found = peaks.measured("cpu")
        assert found is not None
        assert found.bytes_per_s >= best
        best = found.bytes_per_s
        (entry,) = json.loads((tmp_path / "gradlab" / "kernels" / "peaks.json").read_text()).values()
        assert entry["times"] == min(session, peaks.SESSIONS)
    again = peaks.known("cpu")
    assert again is not None
    assert again.bytes_per_s == best
    assert (tmp_path / "gradlab" / "kernels" / "peaks.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "[]", "{", '{"x": 3}', "\x00"])
def test_a_damaged_file_is_measured_anew(text: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(peaks, "SECONDS", 0.001)
    monkeypatch.setattr(peaks, "_measured", set())
    folder = peaks.cache_folder()
    machine = peaks._this("cpu")
    assert machine is not None
    (folder / "peaks.json").write_text(text.replace('"x"', json.dumps(peaks._key(machine))))
    assert peaks.known("cpu") is None
    found = peaks.measured("cpu")
    assert found is not None
    assert found.flops_per_s["float32"] > 0


def test_the_measurement_is_short_and_no_part_of_a_cell(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(peaks, "_measured", set())
    with lab.record() as rec:
        core.ones(64).exp()
    assert rec.record.machine is None  # a recording alone measures nothing
    assert rec.record.wall_ms < 100
    start = time.perf_counter()
    page = rec.html()
    assert time.perf_counter() - start < 3  # 0.3 s; a machine that is busy may need more
    assert rec.record.machine is not None
    assert "GB/s" in page
    again = Record.from_json(rec.record.to_json())
    assert again.machine == rec.record.machine


def test_an_interpreted_gpu_has_no_peak() -> None:
    record = Record(device="cuda", kernels=[KernelRow("k")])
    peaks.add(record)
    assert record.machine is None or isinstance(record.machine, Machine)
    if core.cuda.is_available() and core.backends.array_module("cuda").__name__ == "numpy":
        assert record.machine is None


def test_the_tuner_knows_every_kernel_that_is_offered() -> None:
    problem = pytest.importorskip("triton_kernels.tune.problem")
    assert problem.known().keys() >= {"matmul_f32", "matmul_f64", "softmax_f32", "softmax_f64"}
    assert tune_command("arg_kernel", "Triton", Choice("argmax", [((4, 4), "float32")])) == ""
    assert tune_command("gemm", "C", Choice("matmul", [((2, 4, 4), "float32"), ((2, 4, 4), "float32")])) == ""
    assert tune_command("sum_forward", "C", Choice("sum", [((4, 4), "float32")])) == ""  # along which axis?
    for command in ("matmul_f32 64x32x128 float32", "softmax_kernel 16x64 float16"):
        kernel, shape, dtype = command.split()
        assert problem.find(kernel, shape, dtype, None).kernel == kernel


@pytest.mark.skipif(not core.cuda.is_available(), reason="no device cuda, not even interpreted")
def test_every_triton_kernel_of_a_cell_is_offered_at_the_shape_that_its_launcher_asks_for() -> None:
    pytest.importorskip("triton_kernels.tune.problem")
    from lab.tuning.command import find

    x = core.randn(4, 6, 8, 8, device="cuda")
    layer = core.nn.Conv2d(6, 5, 3, padding=1).to("cuda")
    optimizer = core.optim.AdamW(layer.parameters())
    with lab.record() as rec:
        y = core.nn.functional.max_pool2d(layer(x).tanh(), 2)
        core.nn.functional.cross_entropy(y.flatten(1), core.arange(4, device="cuda")).backward()
        y.cumsum(1)
        optimizer.step()
    commands = {row.kernel: row.tune for row in rec.record.kernels if row.backend == "Triton" and row.tune}
    assert commands["conv_kernel"] == "%tune conv_kernel 4x64x6x5x9 float32"
    assert commands["max_pool_kernel"] == "%tune max_pool_kernel 20x16x4 float32"
    assert commands["tanh_kernel"] == "%tune tanh_kernel 1280 float32"
    assert commands["adam_step_kernel"] == "%tune adam_step_kernel 2x138 float32"
    assert {"cross_entropy_backward_kernel", "scan_kernel", "tanh_backward_kernel"} <= commands.keys()
    for command in commands.values():
        name, shape, dtype = command.removeprefix("%tune ").split()
        assert find(name, shape, dtype, "sm_90").key["shape"] == [int(n) for n in shape.split("x")]


def test_a_peak_that_a_kernel_passed_is_measured_again_and_raised(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(peaks, "_measured", set())
    monkeypatch.setattr(peaks, "_repeated", set())
    monkeypatch.setattr(peaks, "_best", lambda *_: 1e9)  # as on a busy machine
    quick = KernelRow("gemm", total_ms=5.0, flops_per_s=7e9, bytes_per_s=9e9, dtype="float32", device="cpu")
    short = KernelRow("gemm", total_ms=0.1, flops_per_s=99e9, dtype="float32", device="cpu")
    record = Record(kernels=[quick, short])
    peaks.add(record)
    assert record.machine is not None
    assert record.machine.flops_per_s == {"float32": 7e9}
    assert record.machine.bytes_per_s == 1e9  # arrays in the cache may pass the memory's peak
    known = peaks.known("cpu")
    assert known is not None
    assert known.flops_per_s == {"float32": 7e9}


@needs_c
def test_runs_of_other_shapes_have_no_operations_told() -> None:
    w = core.randn(8, 64, requires_grad=True)
    with lab.record() as rec:
        for n in (512, 2, 2, 2):
            (core.ones(n, 8) @ w).sum().backward()
    assert [op.count for op in rec.record.ops if op.op == "matmul"] == [4]
    assert rows(rec)["matmul"].flops_per_s is None
    assert rows(rec)["matmul"].bytes_per_s > 0
    assert rows(rec)["matmul backward"].flops_per_s is None


@needs_c
def test_the_ops_own_c_kernels_are_offered_at_the_shape_they_look_up() -> None:
    x, lstm = core.randn(3, 5, 16, requires_grad=True), core.nn.LSTM(16, 8, batch_first=True)
    q = core.randn(2, 4, 7, 8, requires_grad=True)
    with lab.record() as rec:
        y = core.nn.functional.layer_norm(core.tanh(x), (16,))
        out = core.softmax(lstm(y)[0], -1).sum() + core.softmax(x, 1).sum()
        (out + core.nn.functional.scaled_dot_product_attention(q, q, q).sum()).backward()
    commands = {row.op: row.tune.removeprefix("%tune ") for row in rec.record.kernels if row.tune}
    assert commands["tanh"] == "core_elementwise 240 float32"
    assert commands["lstm"] == "core_recurrent 5x3x16x8 float32"
    assert commands["lstm backward"] == "core_recurrent_backward 5x3x16x8 float32"
    assert commands["scaled_dot_product_attention"] == "core_attention 8x7x7x8 float32"
    assert commands["attention backward"] == "core_attention_backward 8x7x7x8 float32"
    for command in commands.values():
        kernel, shape, dtype = command.split()
        assert tuning.find(kernel, shape, dtype, None).kernel == kernel
