"""C kernels on this processor: each config compiled with its values as macros, checked, timed in turn with an anchor.

Outputs are poisoned before every check, and all arrays lie in guarded memory (`memory`); inputs are compared with what
they were. A library is loaded by the process that measures, a worker that its session can afford to lose.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import resource
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .c_kernels import DTYPES, FAMILIES, VARIED_FLAGS, Shape
from .measure import VENDOR, Built, Failed, judge, tolerance
from .memory import PLACES, Fenced, disturbed
from .places import cache_folder, cpu_features, cpu_name, temporary_cache
from .space import Config
from .worker import tell

# As core's own kernels are compiled, and for this processor; never -ffast-math.
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fPIC",
         "-shared", "-Werror=implicit-function-declaration")  # fmt: skip
COMPILE_LIMIT_S = 60.0
_SAMPLE_S = 200e-6  # a sample of a shorter kernel is several calls, else the clock and the call are what is measured
_KEPT = 4000  # compiled configs in the cache
_WHOSE = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)  # Linux alone tells of a thread


@dataclass(frozen=True)
class Library:
    """A compiled config."""

    path: Path
    binary: str
    compile_ms: float


@functools.cache
def compiler() -> tuple[str, str]:
    """Return the C compiler's path and version. *Raises*: Failed where there is none."""
    built_with = (sysconfig.get_config_var("CC") or "").split()[:1]
    for name in (os.environ.get("CC"), *built_with, "cc", "gcc", "clang"):
        if name and (path := shutil.which(name)):
            said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            return path, (said.splitlines() or ["unknown"])[0]
    raise Failed("compile", "no C compiler was found. Remedy: install one (apt install gcc)")


def compile_config(text: str, dtype: str, config: Mapping[str, Any]) -> Library:
    """Return the library of a family's text with a dtype's and a config's values as macros. *Raises*: Failed."""
    types = {"REAL": DTYPES[dtype], "IS_DOUBLE": int(dtype == "float64")}
    return compile_text(text, {**types, **config}, config.get("THREADS", 1) > 1)


def compile_text(text: str, values: Mapping[str, Any], openmp: bool = False) -> Library:
    """Return the library of a text with values as macros, those of ``flags`` as flags, from the cache if it is there.

    *Raises*: Failed.
    """
    cc, version = compiler()
    macros = [f"-D{name}={value}" for name, value in values.items() if name != VARIED_FLAGS]
    flags = [*FLAGS, *str(values.get(VARIED_FLAGS, "")).split(), *(["-fopenmp"] if openmp else [])]
    try:
        folder = cache_folder()
    except OSError as error:
        raise Failed("compile", f"the cache folder cannot be used: {error}") from error
    key = hashlib.sha256("\0".join((version, cpu_features(), *flags, *macros, text)).encode()).hexdigest()[:40]
    path = folder / f"{key}.so"
    started = time.perf_counter()
    if not path.exists():
        path = _compile([cc, *flags, *macros, "-x", "c", "-", "-lm"], text, path)
    return Library(path, hashlib.sha256(path.read_bytes()).hexdigest(), (time.perf_counter() - started) * 1e3)


def _compile(command: Sequence[str], text: str, path: Path) -> Path:
    """Compile into a library, in the folder for temporary files where its own takes none; where it is."""
    try:
        handle, temporary = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
    except OSError as error:
        try:
            path = temporary_cache(error) / path.name
            if path.exists():
                return path
            handle, temporary = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
        except OSError as again:
            raise Failed("compile", f"the compiled library cannot be kept: {again}") from again
    os.close(handle)
    try:
        done = subprocess.run([*command, "-o", temporary], input=text, text=True, capture_output=True, check=False,
                              timeout=COMPILE_LIMIT_S, env={**os.environ, "LC_ALL": "C"})  # fmt: skip
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error:" in line] or done.stderr.splitlines()
            said = (lines or [f"the compiler ended with {done.returncode}"])[0].removeprefix("<stdin>:")
            raise Failed("compile", said, done.stderr[-4000:])
        os.replace(temporary, path)  # whole, or not there
        return path
    except subprocess.TimeoutExpired:
        raise Failed("timeout", f"compiling took longer than {COMPILE_LIMIT_S:.0f} s") from None
    except OSError as error:
        raise Failed("compile", f"the compiled library cannot be kept: {error}") from error
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def prune(folder: Path) -> None:
    """Keep the younger half where there are too many libraries."""
    found = list(folder.glob("*.so"))
    if len(found) > _KEPT:
        for old in sorted(found, key=lambda p: p.stat().st_mtime)[: len(found) // 2]:
            old.unlink(missing_ok=True)


def load(path: Path, function: str) -> Any:
    """Return the function of a library: pointers, then sizes of 64 bits; 0 is success. *Raises*: Failed."""
    try:
        found = getattr(ctypes.CDLL(str(path)), function)
    except (OSError, AttributeError) as error:
        raise Failed("runtime", f"the compiled library cannot be used: {error}") from error
    found.restype = ctypes.c_int
    return lambda *numbers: found(*map(ctypes.c_int64, numbers))


def time_of(call: Callable[[], object], calls: int, alone: bool) -> float:
    """Return the time of a call in ms, the mean of so many.

    alone : whether it starts no threads. Then what counts is its own time on the processor, unless it waits for
    something of its own accord: that others had the processor meanwhile, on a machine which many use, is none of its
    doing, and a call of 1 ms may take 6 for it.
    """
    waits = resource.getrusage(_WHOSE).ru_nvcsw
    began, own = time.perf_counter_ns(), time.thread_time_ns()
    for _ in range(calls):
        call()
    own, passed = time.thread_time_ns() - own, time.perf_counter_ns() - began
    waited = resource.getrusage(_WHOSE).ru_nvcsw > waits
    return (passed if waited or not alone else own) / calls / 1e6


def pairs_of(
    sample: Callable[[Config], float], config: Config, anchor: Config | None, count: int
) -> tuple[list[float], list[float]]:
    """`Measure.pairs` by a function that takes one time."""
    if anchor is None:
        return [sample(config) for _ in range(count)], []
    mine: list[float] = []
    other: list[float] = []
    for i in range(count):  # each comes first in turn, so that a drift does not favour one
        for who in ((0, 1), (1, 0))[i % 2]:
            (other if who else mine).append(sample(anchor if who else config))
    return mine, other


def rounds_of(sample: Callable[[Config], float], configs: Sequence[Config], count: int, seed: int) -> list[list[float]]:
    """`Measure.rounds` by a function that takes one time."""
    rng = np.random.default_rng(seed)
    times: list[list[float]] = [[] for _ in configs]
    for _ in range(count):
        for i in rng.permutation(len(configs)).tolist():
            times[i].append(sample(configs[i]))
    return times


@dataclass
class CpuMeasure:
    """A C text of the family's signature at a shape; see `measure.Measure`."""

    family: str
    shape: Shape
    dtype: str
    text: str
    kind: str = "cpu"
    estimate: bool = False
    steady: bool = False
    apart: bool = True
    environment: Mapping[str, str] = field(default_factory=lambda: {"OMP_WAIT_POLICY": "passive"})

    def open(self) -> dict[str, str]:
        """Inputs and reference; nothing of the kernel itself."""
        self._functions: dict[tuple[Any, ...], Callable[..., int]] = {}
        self._calls: dict[tuple[Any, ...], int] = {}
        self._problems: dict[tuple[Shape, int], _Problem] = {}
        prune(cache_folder())
        library = {"vendor": blas()} if self.family == "matmul" else {}
        return library | {
            "device": cpu_name(),
            "compiler": compiler()[1],
            "flags": " ".join(FLAGS),
            "numpy": np.__version__,
        }

    def build(self, config: Config) -> Built:
        library = compile_config(self.text, self.dtype, config)
        return Built(library.binary, library.compile_ms, {"bytes": library.path.stat().st_size})

    def check(self, config: Config, seed: int = 0, odd: bool = False) -> float:
        """Return the largest error; at an odd shape also where arrays end, or begin, at a page that nobody may
        touch."""
        family = FAMILIES[self.family]
        problem = self._problem(family.odd(self.shape) if odd else self.shape, seed)
        return max(problem.check(self._function(config), place) for place in (PLACES if odd else ("middle",)))

    def pairs(self, config: Config, anchor: Config | None, count: int) -> tuple[list[float], list[float]]:
        return pairs_of(self._sample, config, anchor, count)

    def rounds(self, configs: Sequence[Config], count: int, seed: int) -> list[list[float]]:
        return rounds_of(self._sample, configs, count, seed)

    def repeat(self, config: Config, count: int) -> None:
        function, run = self._function(config), self._problem(self.shape, 0).run
        for _ in range(count):
            run(function)

    def _function(self, config: Config) -> Callable[..., int] | None:
        if config == VENDOR:
            return None
        key = tuple(config.items())
        if key not in self._functions:
            self._functions[key] = load(compile_config(self.text, self.dtype, config).path, self.family)
        return self._functions[key]

    def _problem(self, shape: Shape, seed: int) -> _Problem:
        if (shape, seed) not in self._problems:
            self._problems[shape, seed] = _Problem(self.family, shape, self.dtype, seed)
        return self._problems[shape, seed]

    def _sample(self, config: Config) -> float:
        """Return the time of one call in ms, averaged over as many as fill the shortest sample."""
        key = tuple(config.items())
        function, run = self._function(config), self._problem(self.shape, 0).run
        if key not in self._calls:
            run(function)  # what is called first pays for pages and caches
            started = time.perf_counter()
            run(function)
            self._calls[key] = max(1, min(1000, int(_SAMPLE_S / max(time.perf_counter() - started, 1e-9))))
        return time_of(lambda: run(function), self._calls[key], alone=False)  # of threads, more counts than one's time


@functools.cache
def blas() -> str:
    """Return the BLAS that NumPy calls, by name."""
    try:
        made: Any = np.show_config(mode="dicts")
        found = made["Build Dependencies"]["blas"]
        return f"NumPy's BLAS ({found['name']} {found['version']})"
    except (TypeError, KeyError):  # another build of NumPy says it in another way
        return "NumPy's BLAS"


class _Problem:
    """Inputs, reference and guarded output of one shape and seed."""

    def __init__(self, family: str, shape: Shape, dtype: str, seed: int) -> None:
        spec = FAMILIES[family]
        self.before = spec.inputs(shape, dtype, np.random.default_rng(seed))
        self.expected, self.scale, terms = spec.reference(self.before)
        self.allowed = tolerance(dtype, terms)
        self.shape = shape
        self.fenced = [Fenced(x.shape, dtype) for x in self.before] + [Fenced(spec.out(shape), dtype)]
        self.lay("middle")

    def lay(self, place: str) -> None:
        """Put the arrays somewhere, the inputs with their content."""
        for fenced in self.fenced:
            fenced.lay(place)
        *self.inputs, self.out = (fenced.array for fenced in self.fenced)
        for x, content in zip(self.inputs, self.before, strict=True):
            x[...] = content
        self.place = place
        self.arguments = [*(x.ctypes.data for x in self.inputs), self.out.ctypes.data, *self.shape]

    def run(self, function: Callable[..., int] | None) -> int:
        """Call a kernel, or NumPy where it is None."""
        if function is None:
            np.matmul(self.inputs[0], self.inputs[1], out=self.out)
            return 0
        return function(*self.arguments)

    def check(self, function: Callable[..., int] | None, place: str = "middle") -> float:
        tell(PLACES[place])
        self.lay(place)
        try:
            with disturbed():
                code = self.run(function)
            if code:
                raise Failed("runtime", f"the kernel reports failure {code}" + (": out of memory" if code == 1 else ""))
            if self.fenced[-1].spoiled():
                raise Failed("correctness", "the kernel writes outside its output")
            changed = any(x.tobytes() != b.tobytes() for x, b in zip(self.inputs, self.before, strict=True))
            if changed or any(fenced.spoiled() for fenced in self.fenced):
                raise Failed("correctness", "the kernel writes into its input")
            return judge(self.out, self.expected, self.scale, self.allowed)
        finally:
            self.lay("middle")
