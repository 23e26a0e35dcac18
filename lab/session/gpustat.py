"""`gpustat`: what the GPUs of this machine are doing, as NVIDIA's management library (NVML) tells it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import core
from core.backends import cuda
from widgets import small_table
from widgets.figures import size_text
from widgets.small_table import SmallTable

MODULE = "pynvml"  # what the distribution nvidia-ml-py is imported as
SHOWN = 4  # processes of a GPU


@dataclass
class Process:
    """A process that computes on a GPU."""

    pid: int
    name: str
    memory_bytes: int | None = None


@dataclass
class Gpu:
    """One GPU; what its driver does not tell is None."""

    index: int
    name: str
    used_bytes: int | None = None
    total_bytes: int | None = None
    use: float | None = None
    """The share of the last moment, a sixth of a second to a second, in which a kernel ran."""
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: int | None = None
    processes: list[Process] = field(default_factory=list)


@dataclass
class GpuStat:
    """What `gpustat` found: the GPUs, or in a sentence why there are none."""

    gpus: list[Gpu] = field(default_factory=list)
    driver: str = ""
    missing: str = ""
    own: str = ""
    """What core holds in this process."""

    def table(self) -> SmallTable:
        """Return it as what is shown."""
        if not self.gpus:
            return SmallTable("No GPU to tell of", "partial", self.missing)
        rows = [
            [
                f"{g.index} {g.name}",
                _of(g.used_bytes, g.total_bytes),
                "" if g.use is None else f"{100 * g.use:.0f} %",
                _watts(g),
                "" if g.temperature_c is None else f"{g.temperature_c} °C",
                _processes(g),
            ]
            for g in self.gpus
        ]
        noun = "GPU" if len(self.gpus) == 1 else "GPUs"
        title = f"{len(self.gpus)} {noun}" + (f", driver {self.driver}" if self.driver else "")
        heads = ("GPU", "memory", "use", "power", "temperature", "processes")
        return SmallTable(title, "done", "", heads, rows, foot=[self.own] if self.own else [])

    def __str__(self) -> str:
        return small_table.text(self.table())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": small_table.html(self.table())}


def gpustat() -> GpuStat:
    """Read memory, use, power, temperature and processes of every NVIDIA GPU here.

    It asks the driver through nvidia-ml-py (``pip install 'gradlab[gpu]'``) and touches no GPU itself. Where there is
    none, the answer is a sentence that says why, with what core can do instead.

    *Units*: bytes, watts, degrees Celsius.

    >>> found = gpustat()
    >>> bool(found.gpus) != bool(found.missing)
    True
    """
    try:
        nvml: Any = importlib.import_module(MODULE)
    except ImportError:
        return GpuStat(missing=_none("nvidia-ml-py, which asks the driver, is not installed: "
                                     "pip install 'gradlab[gpu]'"))  # fmt: skip
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return GpuStat(missing=_none(f"NVIDIA's driver does not answer ({error})"))
    try:
        gpus = [_read(nvml, k) for k in range(nvml.nvmlDeviceGetCount())]
        driver = _text(_asked(nvml, nvml.nvmlSystemGetDriverVersion) or "")
    finally:
        nvml.nvmlShutdown()
    if not gpus:
        return GpuStat(missing=_none("NVIDIA's driver is here and has no GPU"))
    return GpuStat(gpus, driver, own=_own())


def _none(why: str) -> str:
    """Return why there is nothing to tell, and how it stands with core's device cuda."""
    there, reason = cuda.availability()
    short = reason.partition("; pip install")[0]
    return f"{why}. core's device cuda: {short if there else f'not here ({short})'}."


def _own() -> str:
    if not core.cuda.is_initialized():
        return ""
    held, kept = core.cuda.memory_allocated(), core.cuda.memory_reserved()
    return f"core holds {size_text(held)} in tensors here, {size_text(kept)} with what it keeps for the next."


def _read(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    ask: Callable[..., Any] = lambda name, *more: _asked(nvml, getattr(nvml, name), handle, *more)
    memory, use = ask("nvmlDeviceGetMemoryInfo"), ask("nvmlDeviceGetUtilizationRates")
    power, limit = ask("nvmlDeviceGetPowerUsage"), ask("nvmlDeviceGetEnforcedPowerLimit")  # milliwatts
    running = ask("nvmlDeviceGetComputeRunningProcesses") or []
    return Gpu(
        index, _text(ask("nvmlDeviceGetName") or "GPU"),
        used_bytes=None if memory is None else int(memory.used),
        total_bytes=None if memory is None else int(memory.total),
        use=None if use is None else use.gpu / 100,
        power_w=None if power is None else power / 1e3,
        power_limit_w=None if limit is None else limit / 1e3,
        temperature_c=ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        processes=[Process(p.pid, _program(p.pid), p.usedGpuMemory) for p in running],
    )  # fmt: skip


def _asked(nvml: Any, function: Callable[..., Any], *args: Any) -> Any:
    """Return what a function of NVML's says; None where this GPU or this user is not told."""
    try:
        return function(*args)
    except nvml.NVMLError:
        return None


def _text(said: str | bytes) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else said


def _program(pid: int) -> str:
    """Return the name of a process; "" for one of another container, which has another number there."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _of(used: int | None, total: int | None) -> str:
    if used is None or total is None:
        return ""
    return f"{size_text(used)} of {size_text(total)}"


def _watts(gpu: Gpu) -> str:
    if gpu.power_w is None:
        return ""
    return f"{gpu.power_w:.0f} W" + ("" if gpu.power_limit_w is None else f" of {gpu.power_limit_w:.0f} W")


def _processes(gpu: Gpu) -> str:
    largest = sorted(gpu.processes, key=lambda p: -(p.memory_bytes or 0))
    said = []
    for p in largest[:SHOWN]:
        memory = "" if p.memory_bytes is None else f" {size_text(p.memory_bytes)}"
        mine = " (this one)" if p.pid == os.getpid() else ""
        said.append(f"{p.name or 'process'} {p.pid}{mine}{memory}")
    more = len(largest) - SHOWN
    return ", ".join(said) + (f" and {more} more" if more > 0 else "")
