"""What a launch takes of energy: a counter of the driver's or of the kernel's, read before and after many launches.

An NVIDIA GPU counts millijoules since its driver was loaded (NVML's nvmlDeviceGetTotalEnergyConsumption, since Volta);
Linux counts a processor's microjoules by package (powercap, "intel-rapl", which AMD's processors have too). Both count
the whole device: what it takes when idle, and what others do on it meanwhile, is in every figure.
"""

from __future__ import annotations

import ctypes
import importlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from .measure import Failed
from .space import Config

CUDA = "libcuda.so.1"
NVML = "pynvml"  # what the distribution nvidia-ml-py is imported as
POWERCAP = Path("/sys/class/powercap")
LEAST_S = 1.0  # NVML renews its counter every 20 to 100 ms
_FIRST_S = 0.05


class Meter(Protocol):
    """A counter of energy."""

    def mj(self) -> float:
        """Return the energy so far, in millijoules from an origin of its own."""


class Launching(Protocol):
    """A measure that runs what it measures: on a processor ("cpu"), or a GPU ("cuda")."""

    kind: str

    def repeat(self, config: Config, count: int) -> None:
        """Launch a config so often in a row, and wait for the last."""


class NvmlMeter:
    """The counter of the GPU that this thread's CUDA context is on. *Raises*: OSError where there is none."""

    def __init__(self) -> None:
        cuda, device, bus = ctypes.CDLL(CUDA), ctypes.c_int(), ctypes.create_string_buffer(32)
        if cuda.cuCtxGetDevice(ctypes.byref(device)) or cuda.cuDeviceGetPCIBusId(bus, len(bus), device):
            raise OSError("CUDA has no context here")
        self._nvml = _nvml()
        try:
            self._device = self._nvml.nvmlDeviceGetHandleByPciBusId(bus.value)
            self.mj()
        except self._nvml.NVMLError as error:
            raise OSError(f"the driver does not count this GPU's energy ({error})") from error

    def mj(self) -> float:
        return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._device))


def _nvml() -> Any:
    """Return the library, begun. *Raises*: OSError with the remedy where it, or the driver, is not there."""
    try:
        library = importlib.import_module(NVML)
    except ImportError as error:
        raise OSError("a GPU's energy is read by nvidia-ml-py (pip install 'gradlab[gpu]')") from error
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise OSError(f"NVIDIA's driver does not answer ({error})") from error
    return library


class PowercapMeter:
    """The counters of all packages of this machine's processors. *Raises*: OSError where none may be read."""

    def __init__(self) -> None:
        self._counters = sorted(p for p in POWERCAP.glob("intel-rapl:*") if p.name.count(":") == 1)
        if not self._counters:
            raise FileNotFoundError(
                f"no counter of the processor's energy lies in {POWERCAP}; virtual machines have none"
            )
        self._wraps = [float((p / "max_energy_range_uj").read_text()) for p in self._counters]
        self._last = [float((p / "energy_uj").read_text()) for p in self._counters]
        self._sum_uj = 0.0

    def mj(self) -> float:
        for k, path in enumerate(self._counters):
            now = float((path / "energy_uj").read_text())
            self._sum_uj += now - self._last[k] + (self._wraps[k] if now < self._last[k] else 0.0)
            self._last[k] = now
        return self._sum_uj / 1e3


def why_not(kind: str) -> str:
    """Return why no energy can be read where configs are measured so, with the remedy; empty where it can."""
    try:
        if kind == "cuda":
            _nvml()
        elif kind == "cpu":
            PowercapMeter()
        else:
            return f"energy is read where kernels run, on a processor or a GPU; here configs are measured by {kind!r}"
    except PermissionError as error:
        return f"the processor's counter may be read by root alone ({error}). Remedy: chmod a+r {POWERCAP}/*/energy_uj"
    except OSError as error:
        return str(error)
    return ""


def measured(measure: Launching, config: Config) -> float:
    """Return the energy of a launch of a config in mJ, in the process where it is launched. *Raises*: Failed."""
    measure.repeat(config, 1)  # which makes a context, where there is none
    try:
        meter: Meter = NvmlMeter() if measure.kind == "cuda" else PowercapMeter()
        return per_launch_mj(meter, partial(measure.repeat, config))
    except OSError as error:
        raise Failed("runtime", f"its energy could not be read: {error}") from error


def per_launch_mj(meter: Meter, launch: Callable[[int], None], least_s: float = LEAST_S) -> float:
    """Return the energy of one launch, the mean of as many as take `least_s`. launch : launches so often, and waits.

    >>> class Steady:
    ...     def mj(self):
    ...         return 2.0 * launched
    >>> launched = 0
    >>> def launch(count):
    ...     global launched
    ...     launched += count
    ...     time.sleep(1e-3 * min(count, 20))
    >>> per_launch_mj(Steady(), launch, 0.05)
    2.0
    """
    launch(1)
    count, took = 1, 0.0
    while took < _FIRST_S * min(least_s, 1.0):
        count *= 2
        began = time.perf_counter()
        launch(count)
        took = time.perf_counter() - began
    each, count = took / count, 0
    before, began = meter.mj(), time.perf_counter()
    while (left := least_s - (time.perf_counter() - began)) > 0:
        more = max(int(0.5 * left / each), 1)
        launch(more)
        count += more
    return (meter.mj() - before) / count
