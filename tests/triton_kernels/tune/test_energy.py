"""Energy of launches: the counters that are read, and a session that weighs time against it."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

from triton_kernels import tune
from triton_kernels.tune import energy
from triton_kernels.tune.measure import Failed
from triton_kernels.tune.problem import Problem
from triton_kernels.tune.replay import ReplayMeasure
from triton_kernels.tune.space import Config, Space

# Of CUDA's driver what is asked: this thread's context is on device 1, at a PCI address.
DRIVER = r"""
#include <string.h>
int cuCtxGetDevice(int *device) { *device = 1; return CODE; }
int cuDeviceGetPCIBusId(char *bus, int size, int device) {
    if (device != 1 || size < 13) return 1;
    strcpy(bus, "0000:17:00.0");
    return 0;
}
"""


def driver(folder: Path, code: int = 0) -> str:
    """Build a stand-in for the driver's library, whose context is there if the code is 0."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    path = folder / "libdriver.so"
    subprocess.run([compiler, "-shared", "-fPIC", f"-DCODE={code}", "-x", "c", "-", "-o", str(path)], input=DRIVER,
                   text=True, check=True)  # fmt: skip
    return str(path)


class NVMLError(Exception):
    """What the stand-in for nvidia-ml-py raises."""


def library(monkeypatch: pytest.MonkeyPatch, counts: bool = True, runs: bool = True) -> None:
    """Put a stand-in for nvidia-ml-py in its place, whose counter goes up by 250 mJ a look."""
    nvml: Any = types.ModuleType("pynvml")
    looks = itertools.count(1 << 40, 250)

    def begin() -> None:
        if not runs:
            raise NVMLError("Driver Not Loaded")

    def energy_of(handle: bytes) -> int:
        if handle != b"0000:17:00.0" or not counts:
            raise NVMLError("Not Supported")
        return next(looks)

    nvml.NVMLError, nvml.nvmlInit = NVMLError, begin
    nvml.nvmlDeviceGetHandleByPciBusId = lambda bus: bus
    nvml.nvmlDeviceGetTotalEnergyConsumption = energy_of
    monkeypatch.setitem(sys.modules, "pynvml", nvml)


def counter(folder: Path, name: str, uj: int, wraps: int = 1 << 32) -> Path:
    """Make a counter of the processor's energy as Linux shows it."""
    (folder / name).mkdir()
    (folder / name / "max_energy_range_uj").write_text(f"{wraps}\n")
    (folder / name / "energy_uj").write_text(f"{uj}\n")
    return folder / name / "energy_uj"


def test_a_gpus_counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "CUDA", driver(tmp_path))
    library(monkeypatch)
    assert energy.why_not("cuda") == ""
    meter = energy.NvmlMeter()
    assert meter.mj() - meter.mj() == -250.0


def test_a_gpu_that_counts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "CUDA", driver(tmp_path))
    library(monkeypatch, counts=False)
    with pytest.raises(Failed, match="its energy could not be read: the driver does not count this GPU's energy"):
        energy.measured(Counted({}, kind="cuda"), {"BLOCK": 1})
    (tmp_path / "broken").mkdir()
    monkeypatch.setattr(energy, "CUDA", driver(tmp_path / "broken", 201))
    with pytest.raises(OSError, match="CUDA has no context here"):
        energy.NvmlMeter()
    library(monkeypatch, runs=False)
    assert "NVIDIA's driver does not answer" in energy.why_not("cuda")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "pip install 'gradlab[gpu]'" in energy.why_not("cuda")


def test_a_processors_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "POWERCAP", tmp_path)
    assert "no counter of the processor's energy" in energy.why_not("cpu")
    first, second = counter(tmp_path, "intel-rapl:0", 1000), counter(tmp_path, "intel-rapl:1", 9000, 10000)
    counter(tmp_path, "intel-rapl:0:0", 5)  # a part of a package, which counts it too
    assert energy.why_not("cpu") == ""
    meter = energy.PowercapMeter()
    first.write_text("3000\n")
    assert meter.mj() == 2.0
    second.write_text("500\n")  # it begins anew at 10000
    assert meter.mj() == 2.0 + 1.5
    assert "by root alone" in refused(monkeypatch)


def refused(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return why energy cannot be read where the counter may not be."""

    def read(path: Path, *rest: Any, **named: Any) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_text", read)
    return energy.why_not("cpu")


class Counted(ReplayMeasure):
    """Recorded times, of which each launch moves the processor's counter."""

    counter: Path
    uj: dict[int, int]

    def repeat(self, config: Config, count: int) -> None:
        if self.kind == "cpu":
            now = int(self.counter.read_text())
            self.counter.write_text(str(now + count * self.uj[config["BLOCK"]]))
        time.sleep(1e-4 * min(count, 100))


def test_a_session_weighs_time_against_energy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "POWERCAP", tmp_path)
    monkeypatch.setattr(energy, "LEAST_S", 0.02)
    monkeypatch.setattr(energy.per_launch_mj, "__defaults__", (0.02,))
    times = {1: 3.0, 2: 1.0, 4: 2.0, 8: 2.5}
    measure = Counted({(block,): ms for block, ms in times.items()}, kind="cpu")
    measure.counter = counter(tmp_path, "intel-rapl:0", 7)
    measure.uj = {1: 500, 2: 9000, 4: 4000, 8: 6000}
    problem = Problem("k", (1,), "float32", Space.of([{"BLOCK": b} for b in times]), measure, "", "recorded", "replay")
    found = tune.run(problem, budget=None, objective="energy")
    assert [(w.config["BLOCK"], w.figure) for w in found.front] == [(2, 9.0), (4, 4.0), (1, 0.5)]
    assert found.best is not None
    assert found.best.config == {"BLOCK": 2}
    measure.counter.unlink()
    with pytest.raises(ValueError, match="objective 'energy'"):
        tune.run(problem, budget=None, objective="energy")
