"""The C sources for other machines than this one: every file compiles for aarch64, without a warning, and the kernels
give there, under qemu, what float64 gives here."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core
from core import native
from core.nn import functional as F

NATIVE = Path(__file__).resolve().parents[3] / "core/native"
COMPILER = shutil.which("aarch64-linux-gnu-gcc")
EMULATOR = shutil.which("qemu-aarch64")
# .ci/run installs them; the C library's headers come with it, Python's and NumPy's are the same for both machines
FLAGS = ["-std=gnu11", "-O0", "-fopenmp-simd", "-pthread", "-fsyntax-only", "-Wall", "-Werror"]
PROGRAM_FLAGS = ["-std=gnu11", "-O2", "-w", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast",
                 "-fopenmp-simd", "-pthread", f"-I{NATIVE}"]  # fmt: skip

KERNELS = ("attention", "conv", "conv_direct", "conv_flat", "conv_plan", "conv_weight", "copy", "gemm", "half", "norm",
           "int8_product", "int8_rows", "order", "philox", "reduce", "running", "softmax", "winograd")  # fmt: skip


@pytest.mark.skipif(COMPILER is None, reason="needs the compiler of Debian's gcc-aarch64-linux-gnu")
def test_everything_compiles_for_aarch64() -> None:
    include = [f"-I{NATIVE}", f"-I{sysconfig.get_paths()['include']}", f"-I{np.get_include()}"]
    printed = sorted(NATIVE.glob("generated/*.c"))
    assert len(printed) >= 6, "the build prints the elementwise kernels"
    sources = [str(p) for p in sorted(NATIVE.rglob("*.c"))]
    assert len(sources) >= len(printed) + 60
    done = subprocess.run([str(COMPILER), *FLAGS, *include, *sources], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


@dataclass
class Call:
    """A call of kernels_main.c, and what it has to give: arrays of float64 (or of other numbers, exactly)."""

    name: str
    numbers: Sequence[int]
    inputs: Sequence[Any]
    wanted: Sequence[Any]
    outputs: Sequence[Any]  # their dtypes
    close: float = 0.0  # of the largest |item|

    def text(self) -> bytes:
        """Return the call as kernels_main.c reads it."""
        given = [np.ascontiguousarray(a) for a in self.inputs]
        sizes = [a.nbytes for a in given]
        sizes += [np.size(w) * np.dtype(d).itemsize for w, d in zip(self.wanted, self.outputs, strict=True)]
        head = struct.pack("64s3q", self.name.encode(), len(self.numbers), len(given), len(self.outputs))
        numbers = struct.pack(f"{len(self.numbers) + len(sizes)}q", *self.numbers, *sizes)
        return head + numbers + b"".join(a.tobytes() for a in given)


def compiled_program(folder: Path) -> Path:
    """Return the kernels that kernels_main.c calls as a program of aarch64's."""
    maps = [NATIVE / f"generated/maps_{kind}.c" for kind in ("f32", "f64", "table")]
    kernels = [NATIVE / f"kernels/{stem}.c" for stem in KERNELS]
    sources = [*kernels, *NATIVE.glob("runtime/*.c"), *maps, Path(__file__).with_name("kernels_main.c")]

    def compiled(source: Path) -> str:
        made = str(folder / f"{source.stem}.o")
        subprocess.run([str(COMPILER), *PROGRAM_FLAGS, "-c", str(source), "-o", made], check=True)
        return made

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        objects = list(threads.map(compiled, sorted(sources, key=lambda s: -s.stat().st_size)))
    subprocess.run([str(COMPILER), "-pthread", *objects, "-lm", "-o", str(folder / "kernels")], check=True)
    return folder / "kernels"


def holds(program: Path, calls: Sequence[Call]) -> None:
    """Run the calls and compare what they give."""
    command = [str(EMULATOR), "-L", "/usr/aarch64-linux-gnu", str(program)]
    done = subprocess.run(command, input=b"".join(c.text() for c in calls), capture_output=True, check=False,
                          env={**os.environ, "GRADLAB_NUM_THREADS": "2"})  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    at, wrong = 0, []
    for call in calls:
        for wanted, dtype in zip(call.wanted, call.outputs, strict=True):
            found = np.frombuffer(done.stdout, dtype, np.size(wanted), at).reshape(np.shape(wanted))
            at += found.nbytes
            error = _error(found, np.asarray(wanted))
            if not error <= call.close:
                wrong.append((call.name, list(call.numbers), error))
    assert at == len(done.stdout)
    assert not wrong, wrong


def _error(found: Any, wanted: Any) -> float:
    if wanted.dtype.kind != "f":
        return 0.0 if np.array_equal(found, wanted) else np.inf
    if not np.array_equal(np.isnan(found), np.isnan(wanted)):
        return np.inf
    there = np.isfinite(wanted)
    if not np.array_equal(found[~there], wanted[~there].astype(found.dtype), equal_nan=True):
        return np.inf
    return float(np.abs(found[there] - wanted[there]).max(initial=0) / max(np.abs(wanted[there]).max(initial=0), 1e-30))


random = np.random.default_rng(3)
REALS: list[tuple[str, Any, float]] = [("f32", np.float32, 1e-6), ("f64", np.float64, 1e-14)]


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    """Return numbers of a dtype, all of them numbers of float32."""
    return random.standard_normal(shape).astype(np.float32).astype(dtype)


def tensors(*arrays: Any) -> list[Any]:
    """Return arrays as tensors of float64."""
    return [core.tensor(np.asarray(a, np.float64)) for a in arrays]


def linear(s: str, t: Any, close: float) -> list[Call]:
    """Products of matrices, convolutions by each method and attention."""
    calls = []
    for m, n, k in ((1, 1, 1), (7, 33, 19), (40, 70, 130)):
        a, b, bias = normal(m, k, dtype=t), normal(k, n, dtype=t), normal(n, dtype=t)
        calls.append(Call(f"product_{s}", (m, n, k), (a, b, bias), [np.float64(a) @ np.float64(b) + bias], [t], close))
    for method in range(4):  # more tiles and channels than a panel of Winograd's has
        x, w, bias = normal(2, 70, 1, 13, 14, dtype=t), normal(20, 70, 1, 3, 3, dtype=t), normal(20, dtype=t)
        x6, w6 = tensors(x, w)
        w6.requires_grad_()
        y = F.conv3d(x6, w6, core.tensor(np.float64(bias)), padding=(0, 1, 1))
        y.backward(y.detach())
        numbers = (method, 2, 70, 20, 1, 13, 14, 1, 13, 14, 1, 3, 3, 0, 1, 1)
        wanted = [y.detach().numpy(), w6.grad.numpy()]
        calls.append(Call(f"conv_{s}", numbers, (x, w, bias), wanted, [t, t], 4 * close))
    for length, causal in ((5, 0), (70, 1)):
        q, k, v = (normal(3, length, 8, dtype=t) for _ in range(3))
        y = F.scaled_dot_product_attention(*tensors(q, k, v), scale=0.5, is_causal=bool(causal)).numpy()
        scores = np.float64(q) @ np.float64(k).transpose(0, 2, 1) * 0.5
        if causal:
            scores[:, np.triu_indices(length, 1)[0], np.triu_indices(length, 1)[1]] = -np.inf
        logs = core.logsumexp(core.tensor(scores), -1).numpy()
        calls.append(Call(f"attention_{s}", (3, length, length, 8, causal), (q, k, v), [y, logs], [t, t], 2 * close))
    return calls


def rows(s: str, t: Any, close: float) -> list[Call]:
    """Sums, extremes, softmax, layer norm, running sums and sorted rows."""
    calls = []
    for outer, n, inner in ((3, 5, 1), (2, 300, 1), (4, 40, 7)):
        x = normal(outer, n, inner, dtype=t)
        for kind, f in enumerate((np.sum, np.max, np.min)):
            shape = (kind, outer, n, inner)
            calls.append(Call(f"reduce_{s}", shape, [x], [f(np.float64(x), axis=1)], [t], 4 * close))
        [x6] = tensors(x)
        back = x - np.exp(np.float64(x)) * np.float64(x).sum(1, keepdims=True)
        wanted = [core.softmax(x6, 1).numpy(), back]
        calls.append(Call(f"softmax_{s}", (outer, n, inner), (x, x), wanted, [t, t], 4 * close))
        calls.append(Call(f"running_{s}", (outer, n, inner, 0), [x], [np.cumsum(np.float64(x), 1)], [t], 8 * close))
    for n in (3, 100):
        x, w, b = normal(4, n, dtype=t), normal(n, dtype=t), normal(n, dtype=t)
        mean, var = np.float64(x).mean(1), np.float64(x).var(1)
        rstd = 1 / np.sqrt(var + 1e-5)
        y = (x - mean[:, None]) * rstd[:, None] * w + b
        calls.append(Call(f"layer_norm_{s}", (4, n), (x, w, b), [y, mean, rstd], [t] * 3, 4 * close))
    x = normal(5, 37, dtype=t)
    calls.append(Call(f"sorted_{s}", (5, 37), [x], [np.sort(x, 1), np.argsort(x, 1, kind="stable")], [t, np.int64]))
    return calls


def elementwise(s: str, t: Any, close: float) -> list[Call]:
    """Every elementwise kernel of numbers, beside this machine's kernel of float64."""
    calls, char = [], np.dtype(t).char
    for (op, kind), kernel in native.module.maps.items():
        if kind != char or {*kernel.in_types, kernel.out_type} != {char}:
            continue
        given = [(0.05 + 0.9 * random.random(67)).astype(np.float32).astype(t) for _ in kernel.in_types]
        parameters = [0.25 + 0.5 * k for k in range(kernel.n_params)]
        wanted = native.module.maps[op, "d"](*(a.astype(np.float64) for a in given), *parameters)
        inputs = [*given, np.array(parameters, np.float64)]
        calls.append(Call(kernel.name, [67], inputs, [wanted], [t], 4 * close))
    assert len(calls) > 60
    return calls


def alike() -> list[Call]:
    """Kernels whose bits are the same on every machine; of random normal numbers all but the last one."""
    x = np.float32(np.concatenate([normal(60) * 100, [0.0, -0.0, np.inf, -np.inf, 65504.0, 1e-8]]))
    half = x.astype(np.float16)
    calls = [Call("narrow", (66, 0), [x], [half.view(np.uint16), half.astype(np.float32)], [np.uint16, np.float32])]
    uniform = core.rand(1001, generator=core.Generator().manual_seed(5)).numpy()
    bell = core.randn(1001, generator=core.Generator().manual_seed(5)).numpy()
    calls.append(Call("random", (5, 0, 1001), [], [uniform, bell], [np.float32] * 2, 1e-6))
    q, w = random.integers(-127, 128, (5, 70)), random.integers(-127, 128, (9, 70)).astype(np.int8)
    q[:, 0] = 127  # the rows' scales are 1: the sums are whole numbers
    bias, scale = normal(9), np.ones(9, np.float32)
    exact = np.float32(q @ w.T.astype(np.int64)) + bias
    calls.append(Call("int8", (5, 9, 70, 0), (np.float32(q), w, scale, bias), [exact], [np.float32]))
    return calls


@pytest.mark.skipif(COMPILER is None or EMULATOR is None, reason="needs Debian's gcc-aarch64-linux-gnu and qemu-user")
@pytest.mark.skipif(native.module is None, reason="compares with the C kernels of this machine")
@pytest.mark.by_turns
def test_kernels_on_aarch64_give_what_float64_gives(tmp_path: Path) -> None:
    program = compiled_program(tmp_path)
    for s, t, close in REALS:
        for family in (linear, rows, elementwise):
            holds(program, family(s, t, close))
    holds(program, alike())
