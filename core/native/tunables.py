"""The C kernels as problems of the tuner: their spaces, their inputs, what is right, and how long they take.

``%tune core_softmax 4096x1024 float32``. The kernels are called as the ops call them, in a worker, with each config as
the stored choice of the shape. A result must be right by float64 and have the very bits that the default's has.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from triton_kernels.tune import lookup, problem
from triton_kernels.tune.c_kernels import threads
from triton_kernels.tune.measure import VENDOR, Built, Failed, judge, tolerance
from triton_kernels.tune.measure_cpu import blas, pairs_of, rounds_of
from triton_kernels.tune.memory import Fenced
from triton_kernels.tune.places import cpu_name, free_bytes
from triton_kernels.tune.space import Config, Space, Tunable

from . import choices, module, reason

Shape = tuple[int, ...]
Arrays = tuple[np.ndarray, ...]
_SAMPLE_S = 200e-6
native: Any = module


def _normal(rng: np.random.Generator, *shapes: Shape) -> Arrays:
    return tuple(rng.standard_normal(s) for s in shapes)


@dataclass(frozen=True)
class Called:
    """How a kernel is called. inputs : in float64, of a shape. run : its results. right : what they should be, from
    the inputs in float64, and how many terms a result sums."""

    inputs: Callable[[np.random.Generator, Shape], Arrays]
    run: Callable[..., Any]
    right: Callable[..., Any]
    terms: Callable[[Shape], int]
    own: tuple[Tunable, ...] = ()
    what: str = ""


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _softmax_backward(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    return y * (g - (g * y).sum(-1, keepdims=True))


def _layer_norm(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w + b


def _attention_inputs(rng: np.random.Generator, s: Shape) -> Arrays:
    h, n, m, d = s
    return _normal(rng, (1, h, n, d), (1, h, m, d), (1, h, m, d), (1, h, n, d))


def _run_attention(q: Any, k: Any, v: Any, g: Any) -> tuple[Any, Any]:
    y, logs = native.empty(q.shape, q.dtype), np.empty((*q.shape[:3], 1), q.dtype)
    native.kernels["attention"](q, k, v, None, None, 0.125, False, y, logs)
    return y, logs


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray) -> np.ndarray:
    return _softmax(q @ k.swapaxes(-1, -2) * 0.125) @ v


def _run_attention_backward(q: Any, k: Any, v: Any, g: Any) -> Any:
    """Return the logarithms of the sums come from the forward pass, which is not what is timed: `_logs` makes them
    once."""
    key = q.ctypes.data, q.shape
    if key not in _logs:
        _logs.clear()
        _logs[key] = _run_attention(q, k, v, g)[1]
    gradients = [native.empty(a.shape, a.dtype) for a in (q, k, v)]
    native.kernels["attention_backward"](q, k, v, None, None, 0.125, False, _logs[key], g, *gradients)
    return gradients


_logs: dict[Any, Any] = {}


def _attention_backward(q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray) -> list[np.ndarray]:
    p = _softmax(q @ k.swapaxes(-1, -2) * 0.125)
    of_scores = _softmax_backward(g @ v.swapaxes(-1, -2), p) * 0.125
    return [of_scores @ k, of_scores.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ g]


def _lstm_inputs(rng: np.random.Generator, s: Shape) -> Arrays:
    steps, batch, inputs, hidden = s
    x, g = _normal(rng, (steps, batch, inputs), (steps, batch, hidden))
    weights = _normal(rng, (4 * hidden, inputs), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,))
    return (x, *(w / math.sqrt(hidden) for w in weights), g)


def _steps(x: Any) -> tuple[Any, ...]:
    steps, batch = x.shape[:2]
    return False, batch, 1, np.arange(steps, dtype=np.int64) * batch, np.full(steps, batch, np.int64)


def _run_lstm(x: Any, wi: Any, wh: Any, bi: Any, bh: Any, g: Any) -> Any:
    return native.kernels["rnn"](0, *_steps(x), x, None, None, wi, wh, bi, bh)


def _lstm(x: np.ndarray, wi: np.ndarray, wh: np.ndarray, bi: np.ndarray, bh: np.ndarray, g: np.ndarray) -> np.ndarray:
    h = c = np.zeros((x.shape[1], wh.shape[1]))
    rows = []
    for step in x:
        i, f, n, o = np.split(step @ wi.T + h @ wh.T + bi + bh, 4, axis=1)
        c = c / (1 + np.exp(-f)) + np.tanh(n) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        rows.append(h)
    return np.stack(rows)


def _run_lstm_backward(x: Any, wi: Any, wh: Any, bi: Any, bh: Any, g: Any) -> Any:
    key = x.ctypes.data, x.shape
    if key not in _logs:
        _logs.clear()
        _logs[key] = _run_lstm(x, wi, wh, bi, bh, g)
    y, h, c, gates, cells = _logs[key]
    found = native.kernels["rnn_backward"](0, *_steps(x), x, None, None, wi, wh, y, gates, cells, g, h, c, True, True)
    return [a for a in found if a is not None]


def _convolution_inputs(rng: np.random.Generator, s: Shape) -> Arrays:
    """Windows of 3 by 3 over squares, where the terms and the places allow it."""
    images, terms, outputs, places = s
    side, across = math.isqrt(places), 3 if terms % 9 == 0 else 1
    size = (side, side) if side * side == places else (1, places)
    x = (images, terms // across**2, *(n + across - 1 for n in size))
    return _normal(rng, x, (outputs, x[1], across, across))


def _run_convolution(x: Any, w: Any) -> Any:
    out = tuple(n - k + 1 for n, k in zip(x.shape[2:], w.shape[2:], strict=True))
    return native.kernels["conv"](x, w, None, (1, 1), (0, 0), (1, 1), out, 1, False)


def _convolution(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.moveaxis(np.tensordot(windows, w, ((1, 4, 5), (1, 2, 3))), 3, 1)


def _whole_rows(rng: np.random.Generator, rows: int, terms: int) -> np.ndarray:
    """Whole numbers up to 127, which numbers of 8 bits have without a rounding."""
    x = rng.integers(-127, 128, (rows, terms)).astype(np.float64)
    x[:, 0] = 127
    return x


def _eight_bits(rng: np.random.Generator, s: Shape) -> Arrays:
    m, n, k = s
    return _whole_rows(rng, m, k), rng.integers(-128, 128, (n, k), np.int8), rng.uniform(0.01, 0.02, n)


def _four_bits(rng: np.random.Generator, s: Shape) -> Arrays:
    """Groups of 128 where these are whole; an odd number of terms is one more."""
    m, n, k = s[0], s[1], s[2] + s[2] % 2
    weight, groups = rng.integers(0, 256, (n, k // 2), np.uint8), (n, k // 128 if k % 128 == 0 else 1)
    return _whole_rows(rng, m, k), weight, rng.uniform(0.01, 0.02, groups), rng.uniform(6, 9, groups)


def _of_four_bits(x: np.ndarray, weight: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    q = np.stack([weight % 16, weight // 16], -1).reshape(*scale.shape, -1)
    return x @ ((q - zero[..., None]) * scale[..., None]).reshape(len(weight), -1).T


_TILE = Tunable("TILE", (4, 8), 8)
_COLUMNS = Tunable("COLUMNS", (8, 16, 32, 64), 64)
_SEQUENCES = Tunable("SEQUENCES", (0, 8, 16, 32, 64), 0)
CALLED = {
    "core_elementwise": Called(
        lambda rng, s: _normal(rng, s, s), lambda x, y: native.maps["mul", "f" if x.itemsize == 4 else "d"](x, y),
        np.multiply, lambda s: 1, what="every elementwise op; a product is timed",
    ),
    "core_reduce": Called(
        lambda rng, s: _normal(rng, s), lambda x: native.entries["sum"](x, (1,), False), lambda x: x.sum(1),
        lambda s: s[1],
        (Tunable("TILE", (128, 256, 512, 1024, 2048), 512),), "sums and extremes over N",
    ),
    "core_softmax": Called(
        lambda rng, s: _normal(rng, s), lambda x: native.entries["softmax"](x, -1), _softmax, lambda s: s[1],
        what="softmax and its logarithm",
    ),
    "core_softmax_backward": Called(
        lambda rng, s: (rng.standard_normal(s), _softmax(rng.standard_normal(s))),
        lambda g, y: native.entries["softmax.backward"](g, y, -1), _softmax_backward, lambda s: s[1],
        what="softmax's gradients",
    ),
    "core_layer_norm": Called(
        lambda rng, s: _normal(rng, s, s[1:], s[1:]),
        lambda x, w, b: native.entries["layer_norm"](x, w, b, 1, 1e-5)[0], _layer_norm, lambda s: s[1],
        what="layer norm",
    ),
    "core_attention": Called(_attention_inputs, _run_attention, _attention, lambda s: s[2] + s[3], what="attention"),
    "core_attention_backward": Called(
        _attention_inputs, _run_attention_backward, _attention_backward, lambda s: (s[1] + s[2]) * s[3],
        (Tunable("QUERIES", (16, 32, 64, 128, 256), 64),), "attention's gradients",
    ),
    "core_recurrent": Called(
        _lstm_inputs, _run_lstm, _lstm, lambda s: 16 * (s[2] + s[3]), (_TILE, _SEQUENCES),
        "LSTM, GRU and RNN; an LSTM is timed",
    ),
    "core_recurrent_backward": Called(
        _lstm_inputs, _run_lstm_backward, lambda *_: None, lambda s: 16 * (s[2] + s[3]), (_TILE, _SEQUENCES),
        "the recurrent layers' gradients",
    ),
    "core_matmul": Called(
        lambda rng, s: _normal(rng, (s[0], s[2]), (s[2], s[1])), lambda a, b: native.kernels["gemm"](a, b, None),
        np.matmul,
        lambda s: s[2], (Tunable("ROWS", (32, 64, 128, 256, 512), 128),
                         Tunable("PACKED_KIB", (512, 1024, 2048, 4096, 8192), 4096)), "products of matrices",
    ),
    "core_convolution": Called(
        _convolution_inputs, _run_convolution, _convolution, lambda s: s[1],
        (Tunable("ROWS", (64, 128, 256, 512), 256), Tunable("PANELS", (1, 2, 4), 4)),
        "convolutions; terms are a window's items over all channels, one of 3 by 3 is timed where these allow it",
    ),
    "core_int8_linear": Called(
        _eight_bits, lambda x, w, scale: native.entries["int8_linear"](x, w, scale, None, None, 0, ""),
        lambda x, w, scale: x @ w.T * scale, lambda s: s[2], (Tunable("ROWS", (96, 192, 384, 768), 768),),
        "linear layers of numbers of 8 bits",
    ),
    "core_int8_weights": Called(
        _eight_bits, lambda x, w, scale: native.entries["weight_int8_linear"](x, w, scale, None),
        lambda x, w, scale: x @ w.T * scale, lambda s: s[2], (_COLUMNS,),
        "linear layers of few rows by weights of 8 bits",
    ),
    "core_int4_weights": Called(
        _four_bits, lambda x, w, scale, zero: native.entries["weight_int4_linear"](x, w, scale, zero, None),
        _of_four_bits, lambda s: s[2], (_COLUMNS,), "linear layers of few rows by weights of 4 bits",
    ),
}  # fmt: skip


def space_of(kernel: str) -> Space:
    """Return what may vary of a kernel.

    >>> [t.name for t in space_of("core_softmax").tunables]
    ['THREADS', 'SHARE', 'CHUNKS']
    """
    shared = (threads(), Tunable("SHARE", tuple(8192 << 2 * k for k in range(5)), 32768),
              Tunable("CHUNKS", (1, 2, 4, 8, 16), 4))  # fmt: skip
    return Space([*shared, *CALLED[kernel].own])


@dataclass
class NativeMeasure:
    """A C kernel of core's at a shape; see `measure.Measure`."""

    kernel: str
    shape: Shape
    dtype: str
    kind: str = "cpu"
    estimate: bool = False
    steady: bool = False
    apart: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)

    def open(self) -> dict[str, str]:
        """Inputs and the default's results. *Raises*: Failed where the extension is not built."""
        if native is None:
            raise Failed("compile", f"core has no C kernels here: {reason}")
        self._called, self._given = CALLED[self.kernel], dict[Any, Any]()
        self._calls: dict[tuple[Any, ...], int] = {}
        facts = {"device": cpu_name(), "numpy": np.__version__}
        return facts | ({"vendor": blas()} if self.kernel == "core_matmul" else {})

    def build(self, config: Config) -> Built:
        """Nothing is compiled: the kernels take their choices as they run."""
        return Built(hashlib.sha256(repr(sorted(config.items())).encode()).hexdigest(), 0.0)

    def check(self, config: Config, seed: int = 0, odd: bool = False) -> float:
        shape = tuple(max(n // 3, 1) | 1 for n in self.shape) if odd else self.shape
        given, (expected, default) = self._inputs(shape, seed), self._expected(shape, seed)
        before = [a.tobytes() for a in given]
        for out in default:  # the memory that the results will have is NaN
            native.empty(out.shape, out.dtype).fill(np.nan)
        found = self._run(config, shape, given)
        if [a.tobytes() for a in given] != before:
            raise Failed("correctness", "the kernel writes into its input")
        worst = 0.0
        for out, right in zip(found, expected, strict=False):
            scale = np.abs(right) + float(np.mean(np.abs(right)))
            worst = max(worst, judge(out, right, scale, tolerance(self.dtype, self._called.terms(shape))))
        if config != VENDOR and any(a.tobytes() != b.tobytes() for a, b in zip(found, default, strict=True)):
            raise Failed("correctness", "its bits are not those of the default's result")
        return worst

    def pairs(self, config: Config, anchor: Config | None, count: int) -> tuple[list[float], list[float]]:
        return pairs_of(self._sample, config, anchor, count)

    def rounds(self, configs: Sequence[Config], count: int, seed: int) -> list[list[float]]:
        return rounds_of(self._sample, configs, count, seed)

    def _inputs(self, shape: Shape, seed: int) -> Arrays:
        if (shape, seed) not in self._given:
            made = self._called.inputs(np.random.default_rng(seed), shape)
            place = "middle" if shape == self.shape else "end"  # no kernel may read what lies behind an input
            self._given[shape, seed] = tuple(_placed(typed(a, self.dtype), place) for a in made)
        return self._given[shape, seed]

    def _expected(self, shape: Shape, seed: int) -> tuple[list[Any], list[Any]]:
        key = "expected", shape, seed
        if key not in self._given:
            given = self._inputs(shape, seed)
            right = self._called.right(*(a.astype(np.float64) for a in given))
            right = [] if right is None else right if isinstance(right, list) else [right]
            default = [a.copy() for a in self._run(space_of(self.kernel).default, shape, given)]
            self._given[key] = right, default
        return self._given[key]

    def _function(self, config: Config, shape: Shape) -> Callable[..., Any]:
        """Return what is called; the choice of its shape is made."""
        if config == VENDOR:
            return np.matmul
        size = choices.ITEM_SIZES[self.dtype]
        native.choose(self.kernel, [(shape, size, *choices.numbers(self.kernel, config))])
        return self._called.run

    def _run(self, config: Config, shape: Shape, given: Arrays) -> list[Any]:
        found = self._function(config, shape)(*given)
        return [a for a in found if a is not None] if isinstance(found, tuple | list) else [found]

    def _sample(self, config: Config) -> float:
        """Return the time of a call in ms, averaged over as many as fill the shortest sample."""
        key, given = tuple(config.items()), self._inputs(self.shape, 0)
        run = self._function(config, self.shape)
        if key not in self._calls:
            run(*given)
            began = time.perf_counter()
            run(*given)
            self._calls[key] = max(1, min(1000, int(_SAMPLE_S / max(time.perf_counter() - began, 1e-9))))
        calls = self._calls[key]
        began_ns = time.perf_counter_ns()
        for _ in range(calls):
            run(*given)
        return (time.perf_counter_ns() - began_ns) / calls / 1e6


def typed(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return an input as a kernel gets it: weights of 8 and 4 bits keep their type."""
    return np.ascontiguousarray(array, None if array.dtype.kind in "iu" else dtype)


def _placed(array: np.ndarray, place: str) -> np.ndarray:
    """Return an array in guarded memory, placed at random within a page, anew in each process."""
    fenced = Fenced(array.shape, array.dtype)
    fenced.lay(place)
    fenced.array[...] = array
    return fenced.array


def find(kernel: str, shape: Shape, dtype: str, target: str | None) -> problem.Problem:
    """Return the problem of a C kernel of core's. *Raises*: problem.Unknown."""
    dtypes = choices.KERNELS[kernel].dtypes
    if dtype not in dtypes:
        raise problem.Unknown(f"{kernel} takes {' and '.join(dtypes)}, not {dtype}")
    if target not in (None, "cpu"):
        raise problem.Unknown(f"{kernel} is a C kernel, measured on this processor: --target {target} is for Triton")
    shape = problem.fit_axes(kernel, choices.KERNELS[kernel].axes, shape)
    needs, free = _bytes(kernel, shape), free_bytes()
    if free is not None and needs > free:
        came = "x".join(map(str, shape))
        raise problem.Unknown(f"{kernel} at {came} wants about {needs:,} bytes for its arrays and for checking the "
                              f"result, and {free:,} are free on this machine. Remedy: a smaller shape")  # fmt: skip
    notes = ("no config changes a bit of the result, and a run of core takes the choice at this shape and near it",)
    return problem.Problem(kernel, shape, dtype, space_of(kernel), NativeMeasure(kernel, shape, dtype), choices.SOURCE,
                           cpu_name(), "cpu, hot caches", notes)  # fmt: skip


def _bytes(kernel: str, shape: Shape) -> int:
    """About what a worker takes: inputs and results, and both again in float64."""
    if kernel.startswith("core_recurrent"):
        steps, batch, inputs, hidden = shape
        items = steps * batch * (inputs + 6 * hidden) + 4 * hidden * (inputs + hidden)
    elif kernel.startswith("core_attention"):
        heads, queries, keys, width = shape
        items = heads * (4 * (queries + keys) * width + 3 * queries * keys)
    elif kernel == "core_convolution":
        images, terms, outputs, places = shape
        items = terms * outputs + images * places * (2 * terms + outputs)
    elif choices.KERNELS[kernel].axes == ("M", "N", "K"):
        items = shape[0] * shape[2] + shape[2] * shape[1] + shape[0] * shape[1]
    else:
        items = 3 * math.prod(shape)
    return 24 * items


def _register(kernel: str) -> None:
    axes = problem.in_words(choices.KERNELS[kernel].axes)
    problem.register(kernel, lambda shape, dtype, target: find(kernel, shape, dtype, target),
                     f"{axes}, core's own C: {CALLED[kernel].what}")  # fmt: skip


for _kernel in CALLED:
    _register(_kernel)
if choices.take not in lookup.on_change:
    lookup.on_change.append(choices.take)
