"""`lab.gpustat` on an NVML that is none: what it reads, what a driver does not tell, and where there is no GPU."""

from __future__ import annotations

import os
import sys
import types
from types import SimpleNamespace
from typing import Any

import pytest

import lab


class NVMLError(Exception):
    pass


def fake(count: int = 1, silent: tuple[str, ...] = ()) -> Any:
    """An NVML with `count` GPUs whose driver does not answer the functions in `silent`."""
    nvml: Any = types.ModuleType("pynvml")
    nvml.NVMLError, nvml.NVML_TEMPERATURE_GPU = NVMLError, 0
    nvml.open = 0

    def init() -> None:
        if "nvmlInit" in silent:
            raise NVMLError("NVML Shared Library Not Found")
        nvml.open += 1

    def shutdown() -> None:
        nvml.open -= 1

    answers: dict[str, Any] = {
        "nvmlSystemGetDriverVersion": lambda: b"580.65",
        "nvmlDeviceGetCount": lambda: count,
        "nvmlDeviceGetHandleByIndex": lambda k: k,
        "nvmlDeviceGetName": lambda h: f"NVIDIA H{h}00",
        "nvmlDeviceGetMemoryInfo": lambda h: SimpleNamespace(total=80 * 10**9, used=12 * 10**9),
        "nvmlDeviceGetUtilizationRates": lambda h: SimpleNamespace(gpu=37, memory=5),
        "nvmlDeviceGetPowerUsage": lambda h: 301_400,
        "nvmlDeviceGetEnforcedPowerLimit": lambda h: 700_000,
        "nvmlDeviceGetTemperature": lambda h, sensor: 54,
        "nvmlDeviceGetComputeRunningProcesses": lambda h: [
            SimpleNamespace(pid=os.getpid(), usedGpuMemory=10 * 10**9),
            SimpleNamespace(pid=2**22 + 7, usedGpuMemory=None),
        ],
    }

    def asked(name: str) -> Any:
        def answer(*args: Any) -> Any:
            if name in silent:
                raise NVMLError("Not Supported")
            return answers[name](*args)

        return answer

    vars(nvml).update({name: asked(name) for name in answers}, nvmlInit=init, nvmlShutdown=shutdown)
    return nvml


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(**how: Any) -> Any:
        module = fake(**how)
        monkeypatch.setitem(sys.modules, "pynvml", module)
        return module

    return install


def test_what_a_driver_tells_is_in_the_table(nvml: Any) -> None:
    module = nvml(count=2)
    found = lab.gpustat()
    assert [g.name for g in found.gpus] == ["NVIDIA H000", "NVIDIA H100"]
    first = found.gpus[0]
    assert (first.used_bytes, first.total_bytes, first.use) == (12 * 10**9, 80 * 10**9, 0.37)
    assert (first.power_w, first.power_limit_w, first.temperature_c) == (301.4, 700.0, 54)
    said = str(found)
    assert "2 GPUs, driver 580.65" in said
    assert f"{os.getpid()} (this one) 10 GB, process {2**22 + 7}" in said
    assert all(figure in said for figure in ("12 GB of 80 GB", "37 %", "301 W of 700 W", "54 °C"))
    assert "12 GB of 80 GB" in found._repr_mimebundle_()["text/html"]
    assert module.open == 0


def test_what_a_driver_does_not_tell_is_left_out(nvml: Any) -> None:
    device = ("PowerUsage", "UtilizationRates", "MemoryInfo", "ComputeRunningProcesses", "Temperature")
    nvml(silent=("nvmlSystemGetDriverVersion", *(f"nvmlDeviceGet{what}" for what in device)))
    found = lab.gpustat()
    gpu = found.gpus[0]
    assert (gpu.used_bytes, gpu.use, gpu.power_w, gpu.temperature_c, gpu.processes) == (None, None, None, None, [])
    assert "✓ 1 GPU\n" in str(found)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"silent": ("nvmlInit",)}, "NVIDIA's driver does not answer (NVML Shared Library Not Found). core's device"),
        ({"count": 0}, "NVIDIA's driver is here and has no GPU. core's device cuda:"),
    ],
)
def test_without_a_gpu_a_sentence_says_why(nvml: Any, how: Any, said: str) -> None:
    nvml(**how)
    found = lab.gpustat()
    assert not found.gpus
    assert found.missing.startswith(said)
    assert said in str(found)


def test_without_the_package_its_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "pip install 'gradlab[gpu]'. core's device cuda:" in lab.gpustat().missing
