"""``python -m tests.core.export.latency [mlp cnn gpt]``: a program as C beside onnxruntime and PyTorch, at batch 1.

One thread each, in turn in one process, by processor time; figures are medians of ratios. PyTorch, where it is
installed, has the same weights and is eager; onnxruntime runs what `to_onnx` wrote, by `run` and with bound buffers.
"""

from __future__ import annotations

import ctypes
import inspect
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import core

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

FLAGS = ["-std=gnu11", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
ROUNDS = 40


def models(t: Any) -> dict[str, tuple[Any, np.ndarray]]:
    """Return the models of a package with PyTorch's names, and their inputs."""
    nn, F = t.nn, t.nn.functional
    rng = np.random.default_rng(0)

    class CNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
            self.head = nn.Linear(32 * 49, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.one(x)), 2)
            x = F.max_pool2d(F.relu(self.two(x)), 2)
            return self.head(x.flatten(1))

    class Block(nn.Module):
        def __init__(self, d, heads):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

        def forward(self, x):
            b, n, d = x.shape
            q, k, v = (a.view(b, n, self.heads, -1).transpose(1, 2) for a in self.qkv(self.norm1(x)).split(d, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, n, d))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(65, 128), nn.Embedding(64, 128)
            self.blocks = nn.Sequential(*[Block(128, 4) for _ in range(4)])
            self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 65, bias=False)

        def forward(self, i):
            return self.head(self.norm(self.blocks(self.words(i) + self.places(t.arange(i.shape[1])))))

    mlp = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    return {
        "mlp": (mlp.eval(), rng.standard_normal((1, 64)).astype(np.float32)),
        "cnn": (CNN().eval(), rng.standard_normal((1, 1, 28, 28)).astype(np.float32)),
        "gpt": (GPT().eval(), rng.integers(0, 65, (1, 64))),
    }


def aligned(count: int) -> np.ndarray:
    """Return bytes that begin at a multiple of 64."""
    found = np.zeros(count + 64, np.uint8)
    start = -found.ctypes.data % 64
    return found[start : start + count]


def as_c(program: Any, x: np.ndarray, y: np.ndarray, folder: Path) -> tuple[Callable[[], int], int]:
    """Return a call of the program as C, which writes `y`, and the bytes of its library."""
    program.to_c(folder)
    library = folder / "model.so"
    subprocess.run(["gcc", *FLAGS, "-fPIC", "-shared", folder / "model.c", "-o", library, "-lm"], check=True)
    subprocess.run(["strip", library], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.model_arena.restype = ctypes.c_size_t
    loaded.model_run.argtypes = [ctypes.c_void_p] * 5
    sizes = np.array([1], np.int64)
    arena = aligned(loaded.model_arena(ctypes.c_void_p(sizes.ctypes.data)))
    stored = np.fromfile(folder / "weights.bin", np.uint8)
    weights = aligned(len(stored))
    weights[:] = stored
    given, made = (ctypes.c_void_p * 1)(x.ctypes.data), (ctypes.c_void_p * 1)(y.ctypes.data)
    args = [arena.ctypes.data, weights.ctypes.data, sizes.ctypes.data, ctypes.addressof(given), ctypes.addressof(made)]
    held = (arena, weights, sizes, given, made)  # as long as the call
    return lambda: (loaded.model_run(*args), held)[0], library.stat().st_size


def timed(calls: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Return processor seconds of each call in each round; the calls take turns."""
    repeats = {}
    for name, call in calls.items():
        begin = time.process_time()
        for _ in range(10):
            call()
        repeats[name] = max(1, int(0.004 / max((time.process_time() - begin) / 10, 1e-6)))
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            begin = time.process_time()
            for _ in range(repeats[name]):
                call()
            found[name].append((time.process_time() - begin) / repeats[name])
    return found


def main(names: list[str]) -> int:
    """Print a line for each model."""
    core.set_num_threads(1)
    mine = models(core)
    theirs = models(torch) if torch is not None else {}
    if torch is not None:
        torch.set_num_threads(1)
    for name in names or mine:
        model, x = mine[name]
        argument = next(iter(inspect.signature(model.forward).parameters))
        tensor = core.from_numpy(x)
        program = core.export(model, (core.from_numpy(np.concatenate([x, x])),), {argument: {0: "batch"}})
        y = np.zeros(tuple(model(tensor).shape), np.float32)
        with tempfile.TemporaryDirectory() as folder:
            run, size = as_c(program, x, y, Path(folder))
            program.to_onnx(Path(folder) / "model.onnx")
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            options.log_severity_level = 4
            session = onnxruntime.InferenceSession(str(Path(folder) / "model.onnx"), options,
                                                   providers=["CPUExecutionProvider"])  # fmt: skip
            feed = {session.get_inputs()[0].name: x}
            bound = session.io_binding()
            bound.bind_cpu_input(session.get_inputs()[0].name, x)
            bound.bind_output(session.get_outputs()[0].name)
            calls: dict[str, Callable[[], Any]] = {
                "C": run, "onnxruntime": lambda s=session, f=feed: s.run(None, f),
                "onnxruntime, bound": lambda s=session, b=bound: s.run_with_iobinding(b),
            }  # fmt: skip
            if torch is not None:
                other = theirs[name][0]
                other.load_state_dict({k: torch.from_numpy(v.numpy().copy()) for k, v in model.state_dict().items()})
                given = torch.from_numpy(x)

                def eager(m: Any = other, g: Any = given) -> None:
                    with torch.inference_mode():
                        m(g)

                calls["PyTorch"] = eager
            assert run() == 0
            wanted = session.run(None, feed)[0]
            error = float(np.abs(y - wanted).max() / np.abs(wanted).max())
            assert error < 1e-5, f"{name}: C and onnxruntime differ by {error}"
            times = timed(calls)
        ratios = [
            f"{statistics.median(a / b for a, b in zip(times['C'], times[k], strict=True)):.2f} of {k}'s"
            for k in calls
            if k != "C"
        ]
        micros = statistics.median(times["C"]) * 1e6
        print(f"{name}: C {micros:.1f} us, {', '.join(ratios)}; {size // 1024} KB, error {error:.1e}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
