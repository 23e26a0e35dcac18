"""`python -m lab bench winograd-error`: how far core's 3x3 convolutions are from float64, by each way, beside PyTorch.

The layers are ResNet-50's of stride 1, on normal numbers: the result and the gradients of the input and the weights. A
figure is the root of the mean square of the error over that of the result, or the largest error over the latter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import core
from core.backends.cpu import set_convolution_method

from ..console.options import Parser
from .cases import normal
from .cpu import torch_or_none

LAYERS = ((64, 56), (128, 28), (256, 14), (512, 7))
"""Channels and side of ResNet-50's 3x3 convolutions of stride 1."""
MOST = {"F2": 3e-7, "F4": 1e-6}
"""The root mean square that was asked of each."""
METHODS = ("direct", *MOST)


def results(lib: Any, dtype: str, channels: int, side: int, batch: int) -> list[Any]:
    """Return a convolution's result and its gradients of input and weights, as float64 arrays."""
    kind = getattr(lib, dtype)
    x, g = (normal(lib, kind, (batch, channels, side, side), seed) for seed in (1, 2))
    w = normal(lib, kind, (channels, channels, 3, 3), 3, (9 * channels) ** -0.5)
    x, w = x.requires_grad_(), w.requires_grad_()
    y = lib.nn.functional.conv2d(x, w, padding=1)
    y.backward(g)
    return [np.array(a.detach().numpy(), np.float64) for a in (y, x.grad, w.grad)]


def error(found: Any, right: Any) -> tuple[float, float]:
    """Return the root mean square error and the largest, over the root mean square of what is right.

    >>> error(np.array([3.0, 4.0]), np.array([3.0, 5.0]))
    (0.17149858514250885, 0.24253562503633297)
    """
    scale = float(np.sqrt(np.mean(right**2)))
    return float(np.sqrt(np.mean((found - right) ** 2))) / scale, float(np.abs(found - right).max()) / scale


def measure(batch: int = 1) -> Iterator[dict[str, Any]]:
    """Yield a row for each layer, result and way: the errors, and whether the first is as small as was asked."""
    torch = torch_or_none()
    for layer in LAYERS:
        right = results(core if torch is None else torch, "float64", *layer, batch)
        ways = {method: partial(_by, method, *layer, batch) for method in METHODS}
        if torch is not None:
            ways["PyTorch"] = partial(results, torch, "float32", *layer, batch)
        for way, make in ways.items():
            for what, found, exact in zip(("y", "gx", "gw"), make(), right, strict=True):
                rms, largest = error(found, exact)
                yield {"layer": f"{layer[0]}@{layer[1]}", "what": what, "way": way, "rms": rms, "largest": largest,
                       "met": rms <= MOST[way] if way in MOST else None}  # fmt: skip


def _by(method: str, channels: int, side: int, batch: int) -> list[Any]:
    """Return core's results by one way."""
    set_convolution_method(method)
    try:
        return results(core, "float32", channels, side, batch)
    finally:
        set_convolution_method("chosen")


def main(argv: list[str]) -> int:
    """Run the command line; 1 where an error is larger than was asked."""
    parser = Parser(prog="python -m lab bench winograd-error", description=__doc__,
                    example="python -m lab bench winograd-error --batch 4")  # fmt: skip
    parser.add_argument("--batch", type=int, default=1, help="images of each layer (1)")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args(argv)
    rows = []
    print(f"{'layer':10} {'of':4} {'way':8} {'rms':>10} {'largest':>10}")
    for row in measure(options.batch):
        said = "" if row["met"] is None else f"  {MOST[row['way']]:.0e} {'✓' if row['met'] else '✗'}"
        figures = f"{row['rms']:10.1e} {row['largest']:10.1e}"
        print(f"{row['layer']:10} {row['what']:4} {row['way']:8} {figures}{said}", flush=True)
        rows.append(row)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(row["met"] is False for row in rows))
