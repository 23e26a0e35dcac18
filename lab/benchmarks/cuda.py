"""``python -m lab bench --device cuda``: core beside PyTorch, eager and compiled, on one GPU in one run.

Every case is one text that runs on core and on PyTorch. At a small size its result and its gradients are checked
against float64 on the CPU before any time is taken; a wrong case has no time. Then the contestants run in turn, in an
order at random, the L2 cache overwritten before each, between events of the GPU. Memory-bound cases are held against
the bandwidth of a copy measured in the same run, products against a large product of cuBLAS.
"""

from __future__ import annotations

import importlib
import json
import math
import platform
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import core

from .steps import gpt_model

Work = Callable[[], Any]
Sizes = dict[str, int]
ROUNDS = 25
_SWEEP_BYTES = 256 << 20  # more than the L2 cache of any GPU here
_LOOSE = {"float32": 2e-4, "float16": 2e-2, "bfloat16": 1e-1}  # of the largest result, gradients included


@dataclass(frozen=True)
class Case:
    """One text for both libraries.

    make : from the library, the device, the dtype and the sizes, a function that runs the case once and gives its
    results, the gradients among them. moved, flops : bytes and operations at best, from sizes and bytes an item.
    """

    name: str
    make: Callable[[Any, str, str, Sizes], Run]
    full: Sizes
    small: Sizes
    moved: Callable[[Sizes, int], float] | None = None
    flops: Callable[[Sizes], float] | None = None
    dtypes: tuple[str, ...] = ("float32", "bfloat16")


@dataclass
class Found:
    """What was measured of a case: medians in ms, and the ratio of core to each other with its middle half."""

    name: str
    dtype: str
    ms: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    share: float | None = None
    of: str = ""
    failed: str = ""


def tensor(lib: Any, device: str, dtype: str, *shape: int, seed: int = 0, grad: bool = False) -> Any:
    """Return the same normal numbers in either library."""
    values = np.random.default_rng(seed).standard_normal(shape, np.float32)
    made = lib.tensor(values).to(device=device, dtype=getattr(lib, dtype))
    return made.requires_grad_() if grad else made


def classes(lib: Any, device: str, count: int, most: int) -> Any:
    """Return the same class numbers in either library."""
    return lib.tensor(np.random.default_rng(1).integers(0, most, count)).to(device=device)


class Run:
    """Forward over inputs, and backward from ones where they want gradients; `forward` may be replaced by a compiled
    one."""

    def __init__(self, forward: Callable[..., Any], *inputs: Any) -> None:
        self.forward: Callable[..., Any] | None = forward
        self.inputs, self.grads = inputs, [x for x in inputs if x.requires_grad]

    def __call__(self) -> Sequence[Any]:
        for x in self.grads:
            x.grad = None
        y = self.forward(*self.inputs)  # type: ignore[misc]
        if self.grads:
            y.backward(y.detach() * 0 + 1)
        return [y, *(x.grad for x in self.grads)]


def _map(lib: Any, device: str, dtype: str, n: Sizes) -> Run:
    x, y = tensor(lib, device, dtype, n["items"]), tensor(lib, device, dtype, n["items"], seed=1)
    return Run(lambda x, y: x + y, x, y)


def _gelu(lib: Any, device: str, dtype: str, n: Sizes) -> Run:
    return Run(lib.nn.functional.gelu, tensor(lib, device, dtype, n["items"], grad=True))


def _sum(lib: Any, device: str, dtype: str, n: Sizes) -> Run:
    return Run(lambda x: x.sum(-1), tensor(lib, device, dtype, n["rows"], n["columns"]))


def _softmax(lib: Any, device: str, dtype: str, n: Sizes) -> Run:
    x = tensor(lib, device, dtype, n["rows"], n["columns"], grad=True)
    w = tensor(lib, device, dtype, n["rows"], n["columns"], seed=1)
    return Run(lambda x, w: lib.softmax(x, -1) * w, x, w)


def _layer_norm(lib: Any, device: str, dtype: str, n: Sizes) -> Run:
    c = n["columns"]
    x = tensor(lib, device, dtype, n["rows"], c, grad=True)
    w, b = tensor(lib, device, dtype, c, seed=1, grad=True), tensor(lib, device, dtype, c, seed=2, grad=True)
    return Run(lambda x, w, b: lib.nn.functional.layer_norm(x, (c,), w, b), x, w, b)


def _cross_entropy(lib: Any, device: str, dtype: str, n: Sizes) -> Run:
    x, t = tensor(lib, device, dtype, n["rows"], n["columns"], grad=True), classes(lib, device, n["rows"], n["columns"])
    return Run(lambda x, t: lib.nn.functional.cross_entropy(x, t), x, t)


def _embedding(lib: Any, device: str, dtype: str, n: Sizes) -> Run:
    w, t = tensor(lib, device, dtype, n["words"], n["columns"], grad=True), classes(lib, device, n["rows"], n["words"])
    return Run(lambda w, t: lib.nn.functional.embedding(t, w), w, t)


def _matmul(lib: Any, device: str, dtype: str, n: Sizes) -> Run:
    a, b = tensor(lib, device, dtype, n["m"], n["k"]), tensor(lib, device, dtype, n["k"], n["n"], seed=1)
    return Run(lambda a, b: a @ b, a, b)


def _linear_gelu(lib: Any, device: str, dtype: str, n: Sizes) -> Run:
    x, w = tensor(lib, device, dtype, n["m"], n["k"]), tensor(lib, device, dtype, n["n"], n["k"], seed=1)
    b = tensor(lib, device, dtype, n["n"], seed=2)
    return Run(lambda x, w, b: lib.nn.functional.gelu(lib.nn.functional.linear(x, w, b)), x, w, b)


def _attention(lib: Any, device: str, dtype: str, n: Sizes) -> Run:
    shape = (n["batch"], n["heads"], n["tokens"], n["size"])
    q, k, v = (tensor(lib, device, dtype, *shape, seed=s, grad=True) for s in range(3))
    return Run(lambda q, k, v: lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v)


def _conv(lib: Any, device: str, dtype: str, n: Sizes) -> Run:
    x = tensor(lib, device, dtype, n["batch"], n["channels"], n["side"], n["side"], grad=True)
    w = tensor(lib, device, dtype, n["channels"], n["channels"], 3, 3, seed=1, grad=True)
    return Run(lambda x, w: lib.nn.functional.conv2d(x, w, padding=1), x, w)


def _adamw(lib: Any, device: str, dtype: str, n: Sizes) -> Run:
    parameters = [lib.nn.Parameter(tensor(lib, device, dtype, n["items"] // 8, seed=s)) for s in range(8)]
    for s, p in enumerate(parameters):
        p.grad = tensor(lib, device, dtype, n["items"] // 8, seed=10 + s)
    optimizer = lib.optim.AdamW(parameters, lr=1e-3)

    return _Step(None, lambda _: optimizer.step(), parameters)


def _gpt(lib: Any, device: str, dtype: str, n: Sizes) -> Run:
    """Return a training step of a GPT: loss and gradients, then AdamW."""
    lib.manual_seed(0)
    model = gpt_model(lib, {**n, "wide": n["columns"]})
    for k, p in enumerate(model.parameters()):
        with lib.no_grad():
            p.copy_(0.05 * tensor(lib, "cpu", "float32", *p.shape, seed=k))
    model = model.to(device=device, dtype=getattr(lib, dtype))
    text = classes(lib, device, n["batch"] * (n["tokens"] + 1), n["words"]).view(n["batch"], -1)
    x, y = text[:, :-1].contiguous(), text[:, 1:].reshape(-1)
    place = lib.arange(n["tokens"]).to(device=device)
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)

    def step(forward: Any) -> Any:
        optimizer.zero_grad()
        loss = lib.nn.functional.cross_entropy(forward(x, place), y)
        loss.backward()
        optimizer.step()
        return loss

    return _Step(model, step)


class _Step(Run):
    """A step that takes the model it runs; its result, or the parameters that it changes."""

    def __init__(self, forward: Any, step: Callable[[Any], Any], changed: Sequence[Any] = ()) -> None:
        self.forward, self.step, self.changed = forward, step, changed

    def __call__(self) -> Sequence[Any]:
        result = self.step(self.forward)
        return self.changed or [result]


_ROWS = {"rows": 16384, "columns": 4096}
_FEW = {"rows": 5, "columns": 130}


def _product(m: int, n: int, k: int) -> tuple[Sizes, Sizes]:
    return {"m": m, "n": n, "k": k}, {"m": 33, "n": 65, "k": 70}


def _times(*names: str, by: float = 1.0) -> Callable[[Sizes], float]:
    return lambda n: by * math.prod(n[name] for name in names)


def _bytes(passes: float, *names: str) -> Callable[[Sizes, int], float]:
    return lambda n, item: passes * item * math.prod(n[name] for name in names)


CASES = [
    Case("a + b", _map, {"items": 1 << 26}, {"items": 700}, _bytes(3, "items")),
    Case("gelu, both ways", _gelu, {"items": 1 << 26}, {"items": 700}, _bytes(5, "items")),
    Case("sum over rows", _sum, _ROWS, _FEW, _bytes(1, "rows", "columns")),
    Case("softmax, both ways", _softmax, _ROWS, _FEW, _bytes(10, "rows", "columns")),
    Case("layer norm, both ways", _layer_norm, _ROWS, _FEW, _bytes(5, "rows", "columns")),
    Case("cross-entropy, both ways", _cross_entropy, {"rows": 8192, "columns": 50304}, _FEW,
         _bytes(3, "rows", "columns")),
    Case("embedding, both ways", _embedding, {"rows": 16384, "words": 50304, "columns": 1024},
         {"rows": 40, "words": 9, "columns": 33}, _bytes(3, "rows", "columns")),
    *(Case(f"matmul {m} x {n} x {k}", _matmul, *_product(m, n, k), None, _times("m", "n", "k", by=2.0))
      for m, n, k in [(1024, 1024, 1024), (4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 1024),
                      (8192, 1024, 4096), (16, 8192, 8192), (512, 512, 32768)]),
    Case("linear with bias and gelu", _linear_gelu, *_product(8192, 4096, 1024), None, _times("m", "n", "k", by=2.0)),
    *(Case(f"attention of {t} tokens, both ways", _attention,
           {"batch": 16384 // t, "heads": 16, "tokens": t, "size": 64},
           {"batch": 1, "heads": 2, "tokens": 70, "size": 16}, None,
           lambda n: 3.5 * 2.0 * n["batch"] * n["heads"] * n["tokens"] ** 2 * n["size"], ("float16", "bfloat16"))
      for t in (1024, 4096)),
    *(Case(f"conv2d 3 x 3 of {c} channels, both ways", _conv, {"batch": 32, "channels": c, "side": s},
           {"batch": 2, "channels": 5, "side": 7}, None,
           lambda n: 54.0 * n["batch"] * n["channels"] ** 2 * n["side"] ** 2, ("float16", "bfloat16"))
      for c, s in [(64, 56), (256, 14)]),
    Case("AdamW", _adamw, {"items": 1 << 27}, {"items": 800}, _bytes(7, "items"), dtypes=("float32",)),
    Case("a GPT's training step", _gpt, {"layers": 12, "columns": 768, "heads": 12, "tokens": 1024, "batch": 8,
                                         "words": 50304},
         {"layers": 1, "columns": 16, "heads": 2, "tokens": 9, "batch": 2, "words": 11},
         dtypes=("bfloat16", "float32")),
]  # fmt: skip


# -- checking ----------------------------------------------------------------------------------------------------------


def wrong(case: Case, lib: Any, device: str, dtype: str) -> str:
    """How the case's small form differs from float64 on the CPU, or "" where it does not."""
    found = case.make(lib, device, dtype, case.small)()
    wanted = case.make(core, "cpu", "float64", case.small)()
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        mine = np.asarray(a.detach().to(device="cpu", dtype=lib.float32).numpy(), np.float64)
        right = b.detach().numpy()
        worst = float(np.abs(mine - right).max()) / max(float(np.abs(right).max()), 1e-30)
        if mine.shape != right.shape or not worst <= _LOOSE[dtype]:
            return f"result {k} is off by {worst:.2g} of the largest"
    return ""


# -- timing ------------------------------------------------------------------------------------------------------------


def measure(case: Case, dtype: str, torch: Any, peaks: dict[str, float]) -> Found:
    """Return a case at its full size: core, PyTorch eager and compiled, in turn."""
    found = Found(case.name, dtype)
    found.failed = wrong(case, core, "cuda", dtype)
    if found.failed:
        return found
    runs: dict[str, Work] = {"core": case.make(core, "cuda", dtype, case.full)}
    runs["eager"] = case.make(torch, "cuda", dtype, case.full)
    compiled = case.make(torch, "cuda", dtype, case.full)
    if compiled.forward is not None:
        compiled.forward = torch.compile(compiled.forward)
        runs["compiled"] = compiled
    times: dict[str, list[float]] = {name: [] for name in runs}
    sweep = torch.empty(_SWEEP_BYTES, dtype=torch.uint8, device="cuda")
    for work in runs.values():
        for _ in range(3):
            work()
    rng = np.random.default_rng(0)
    for _ in range(ROUNDS):
        for name in rng.permutation(list(runs)).tolist():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            sweep.zero_()
            begin.record()
            runs[name]()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end))
    found.ms = {name: statistics.median(row) for name, row in times.items()}
    for name in runs:
        if name != "core":
            ratios = sorted(a / b for a, b in zip(times["core"], times[name], strict=True))
            found.ratios[name] = (ratios[len(ratios) // 4], statistics.median(ratios), ratios[-1 - len(ratios) // 4])
    seconds = found.ms["core"] / 1e3
    if case.moved is not None:
        item = 4 if dtype == "float32" else 2
        found.share, found.of = case.moved(case.full, item) / seconds / peaks["bytes_per_s"], "copy bandwidth"
    elif case.flops is not None:
        found.share, found.of = case.flops(case.full) / seconds / peaks[f"{dtype} flops_per_s"], "cuBLAS at 8192"
    return found


def peaks_of(torch: Any) -> dict[str, float]:
    """Bytes a second of a copy of 1 GiB, both directions counted, and operations a second of a product of 8192."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    found = {"bytes_per_s": 2.0 * (1 << 30) / _best(torch, lambda: target.copy_(source))}
    for dtype in ("float32", "float16", "bfloat16"):
        a = torch.randn(8192, 8192, device="cuda").to(getattr(torch, dtype))
        found[f"{dtype} flops_per_s"] = 2.0 * 8192**3 / _best(torch, partial(torch.matmul, a, a))
    return found


def _best(torch: Any, work: Work) -> float:
    """Return seconds of the quickest of ten."""
    times = []
    for _ in range(12):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return min(times[2:])


def machine(torch: Any) -> dict[str, str]:
    """Return what a results file must say of where it comes from."""
    cupy, triton = importlib.import_module("cupy"), importlib.import_module("triton")
    return {
        "device": torch.cuda.get_device_name(), "driver": str(cupy.cuda.runtime.driverGetVersion()),
        "cuda": str(cupy.cuda.runtime.runtimeGetVersion()), "cupy": cupy.__version__, "triton": triton.__version__,
        "torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version(),
    }  # fmt: skip


def line(found: Found) -> str:
    """Return a row of the table."""
    if found.failed:
        return f"{found.name:38} {found.dtype:9} not timed: {found.failed}"
    ratios = "".join(f"{found.ratios[n][1]:9.3f}" if n in found.ratios else " " * 9 for n in ("eager", "compiled"))
    share = f"{found.share:7.0%} of {found.of}" if found.share is not None else ""
    return f"{found.name:38} {found.dtype:9} {found.ms['core']:9.3f} ms {ratios} {share}"


def main(output: str | None, only: str = "") -> int:
    """Run the command: 0, 1 where a result was wrong, 2 where there is nothing to measure on."""
    there, reason = core.cuda.is_available(), core.cuda.reason()
    if not there or core.backends.array_module("cuda") is np:
        print(f"lab bench --device cuda: nothing can be timed here: {reason}", file=sys.stderr)
        return 2
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        print("lab bench --device cuda: compares with PyTorch, which is not installed here", file=sys.stderr)
        return 2
    torch.backends.cuda.matmul.allow_tf32 = False
    peaks = peaks_of(torch)
    where = machine(torch)
    print(f"{where['device']}: copy {peaks['bytes_per_s'] / 1e12:.2f} TB/s, "
          f"bfloat16 product {peaks['bfloat16 flops_per_s'] / 1e12:.0f} TFLOP/s")  # fmt: skip
    print(f"{'':38} {'':9} {'core':>12} {'/ eager':>9}{'/ compiled':>9}")
    results = []
    for case in (c for c in CASES if only in c.name):
        for dtype in case.dtypes:
            try:
                found = measure(case, dtype, torch, peaks)
            except Exception as error:  # the others are measured all the same
                found = Found(case.name, dtype, failed=f"{type(error).__name__}: {str(error).splitlines()[0]}")
            results.append(found)
            print(line(found), flush=True)
    if output:
        content = {"machine": where, "peaks": peaks, "results": [asdict(r) for r in results]}
        Path(output).write_text(json.dumps(content, indent=1) + "\n")
    return int(any(r.failed for r in results))
