"""``python -m lab bench small``: linear layers of 8 and 4 bits beside float32, onnxruntime's and PyTorch's int8.

Five layers by eight numbers of rows, on one thread; all contestants of a case run in turn in one process, and every
time is told as a share of core's float32. Then the weights of a layer that fits no cache, by one row: how fast they are
read, as a share of how fast memory is read at all, measured in the same turns.
"""

from __future__ import annotations

import importlib
import statistics
import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import core
from core.ops.quantised import int8_linear, quantised_int4, quantised_int8, weight_int4_linear, weight_int8_linear

from .timing import Work, in_turn

F = core.nn.functional
LAYERS = ((768, 768), (768, 3072), (3072, 768), (1024, 1024), (2048, 2048))
ROWS = (1, 2, 4, 8, 16, 64, 256, 512)
OURS = ("float32", "int8", "weights 8", "weights 4")
OTHERS = ("onnxruntime", "PyTorch")
GROUP = 128
STREAM = (4096, 32768)  # inputs and outputs of a layer whose weights fit no cache
LOOSE = {"float32": 1e-5, "int8": 0.03, "weights 8": 0.02, "weights 4": 0.3, "onnxruntime": 0.05, "PyTorch": 0.05}
"""How far off a result may be before its time counts, as a share of the largest."""
HEADING = f"{'in x out':>12} {'rows':>5} {'float32':>11}" + "".join(f"{name:>13}" for name in (*OURS[1:], *OTHERS))


# -- who takes part ----------------------------------------------------------------------------------------------------


def ours(x: Any, weight: Any, bias: Any) -> dict[str, Work]:
    """core's own, by name."""
    eight, four = quantised_int8(weight), quantised_int4(weight, GROUP)
    return {"float32": partial(F.linear, x, weight, bias), "int8": partial(int8_linear, x, *eight, bias),
            "weights 8": partial(weight_int8_linear, x, *eight, bias),
            "weights 4": partial(weight_int4_linear, x, *four, bias)}  # fmt: skip


def of_onnxruntime(x: np.ndarray, weight: Any, bias: np.ndarray) -> Work:
    """DynamicQuantizeLinear and MatMulInteger, which onnxruntime makes one kernel. *Raises*: ImportError."""
    onnx, runtime = importlib.import_module("onnx"), importlib.import_module("onnxruntime")
    node, helper = onnx.helper.make_node, onnx.helper
    q, scale = (t.numpy() for t in quantised_int8(weight))
    given = {"w": np.ascontiguousarray(q.T), "scale": scale, "bias": bias}
    nodes = [node("DynamicQuantizeLinear", ["x"], ["q", "step", "zero"]),
             node("MatMulInteger", ["q", "w", "zero"], ["sum"]),
             node("Cast", ["sum"], ["float"], to=onnx.TensorProto.FLOAT), node("Mul", ["step", "scale"], ["factor"]),
             node("Mul", ["float", "factor"], ["scaled"]), node("Add", ["scaled", "bias"], ["y"])]  # fmt: skip
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [len(x), n])
              for name, n in (("x", x.shape[1]), ("y", len(bias)))]  # fmt: skip
    graph = helper.make_graph(nodes, "linear", values[:1], values[1:],
                              [onnx.numpy_helper.from_array(a, name) for name, a in given.items()])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})[0]


def of_torch(x: np.ndarray, weight: Any, bias: np.ndarray) -> Work:
    """torch.ao.quantization.quantize_dynamic. *Raises*: ImportError, or what PyTorch has against it."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    layer = torch.nn.Linear(x.shape[1], len(bias))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it moved to torchao
        layer.weight.copy_(torch.from_numpy(weight.numpy()))
        layer.bias.copy_(torch.from_numpy(bias))
        made = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(layer), {torch.nn.Linear}, torch.qint8)
    given = torch.from_numpy(x)

    def run() -> Any:
        with torch.inference_mode():
            return made(given)

    return run


def contestants(rows: int, inside: int, outside: int, absent: dict[str, str]) -> dict[str, Work]:
    """Those whose results are right, by name; `absent` gets the reason of the others."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, inside)).astype(np.float32)
    weight = core.tensor((rng.standard_normal((outside, inside)) / inside**0.5).astype(np.float32))
    bias = rng.standard_normal(outside).astype(np.float32)
    works = ours(core.tensor(x), weight, core.tensor(bias))
    for name, make in (("onnxruntime", of_onnxruntime), ("PyTorch", of_torch)):
        try:
            works[name] = make(x, weight, bias)
        except Exception as error:  # not installed, or without what is asked for
            absent[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    right = x.astype(np.float64) @ weight.numpy().astype(np.float64).T + bias
    for name in list(works):
        off = float(np.abs(np.asarray(works[name]()) - right).max() / np.abs(right).max())
        if not off <= LOOSE[name]:
            absent[f"{name} at {rows}x{inside}x{outside}"] = f"its result is off by {off:.2g} of the largest"
            del works[name]
    return works


# -- the measurements --------------------------------------------------------------------------------------------------


def layers(rounds: int, absent: dict[str, str], only: str = "") -> Iterator[dict[str, Any]]:
    """Time every layer by every number of rows: its time in µs, shares of core's float32, medians over the rounds."""
    for inside, outside in LAYERS:
        for rows in ROWS:
            if only and only not in f"{inside}x{outside}x{rows}":
                continue
            times = in_turn(contestants(rows, inside, outside, absent), rounds, 0.004, 0.002, clock=time.process_time)
            base = times["float32"]
            shares = {name: statistics.median(a / b for a, b in zip(found, base, strict=True))
                      for name, found in times.items() if name != "float32"}  # fmt: skip
            yield {"in": inside, "out": outside, "rows": rows, "float32_us": statistics.median(base) * 1e6,
                   "shares": shares}  # fmt: skip


def readers(items: np.ndarray) -> dict[str, Work]:
    """Return what reads an array once, in several ways: the fastest of them is how fast memory is read."""
    floats = core.ones(items.size)
    return {"read 0": items.max, "read 1": partial(np.bitwise_or.reduce, items), "read 2": floats.sum}


def streams(rounds: int) -> Iterator[dict[str, Any]]:
    """Time one row by weights that fit no cache: GB/s, and the share of what reading alone reaches."""
    inside, outside = STREAM
    rng = np.random.default_rng(0)
    x = core.tensor(rng.standard_normal((1, inside)).astype(np.float32))
    weight = core.tensor(rng.integers(-128, 128, (outside, inside), np.int8))
    bits, groups = core.tensor(weight.numpy().view(np.uint8)[:, : inside // 2].copy()), (outside, inside // GROUP)
    scale, scales, zeros = core.ones(outside), core.ones(groups), core.full(groups, 8.0)
    size = weight.numel()
    works: dict[str, tuple[Work, int]] = {
        **{name: (work, size) for name, work in readers(weight.numpy().view(np.int32).reshape(-1)).items()},
        "int8": (partial(int8_linear, x, weight, scale), size),
        "weights 8": (partial(weight_int8_linear, x, weight, scale), size),
        "weights 4": (partial(weight_int4_linear, x, bits, scales, zeros), size // 2 + 8 * groups[0] * groups[1]),
    }
    times = in_turn({name: work for name, (work, _) in works.items()}, rounds, 0.01, 0.002, clock=time.process_time)
    rate = {name: [works[name][1] / t / 1e9 for t in found] for name, found in times.items()}
    reading = [max(each) for each in zip(*(rate.pop(f"read {k}") for k in range(3)), strict=True)]
    for name, found in {"read": reading, **rate}.items():
        share = statistics.median(a / b for a, b in zip(found, reading, strict=True))
        yield {"name": name, "gb_s": statistics.median(found), "share": share}


def run(rounds: int = 7, only: str = "") -> dict[str, Any]:
    """Print both tables; their figures come back."""
    absent: dict[str, str] = {}
    threads = core.get_num_threads()
    core.set_num_threads(1)
    try:
        print(f"\nsmall: one thread, shares of core's float32\n{HEADING}", flush=True)
        rows = []
        for row in layers(rounds, absent, only):
            rows.append(row)
            cells = (f"{row['shares'][n]:13.3f}" if n in row["shares"] else f"{'':13}" for n in (*OURS[1:], *OTHERS))
            size = f"{row['in']} x {row['out']}"
            print(f"{size:>12} {row['rows']:5} {row['float32_us']:8.1f} µs{''.join(cells)}", flush=True)
        found = [] if only else list(streams(rounds))
        for stream in found:
            print(
                f"{stream['name']:>12}: {stream['gb_s']:6.1f} GB/s, {stream['share']:.2f} of reading alone", flush=True
            )
        for name, reason in absent.items():
            print(f"    without {name}: {reason}")
    finally:
        core.set_num_threads(threads)
    return {"layers": rows, "streams": found, "absent": absent}
