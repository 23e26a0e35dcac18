"""The models of `lab bench serving`, and our server of one.

``python -m lab.benchmarks.serving_contestants mlp 8000 32`` serves the MLP at port 8000, 32 rows a run at most.
One thread of core's for all contestants, since the client runs on the same machine.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import core
from core import nn
from core.export.capture import export
from core.nn import functional as F

from ..serving import app
from ..serving.command import serve

WIDTH, HEADS, LAYERS, TOKENS, TIME = 64, 4, 4, 128, 32
_Module: Any = nn.Module


class Block(_Module):  # type: ignore[misc]
    """A layer of a transformer, its norms first."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        """From (batch, time, width) to the same."""
        batch, time, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(batch, time, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.permute(0, 2, 1, 3).reshape(batch, time, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(_Module):  # type: ignore[misc]
    """A small one: from the tokens of a text to the logits of the next token."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(TOKENS, WIDTH), nn.Embedding(TIME, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS)

    def forward(self, x: Any) -> Any:
        """From (batch, time) to (batch, tokens)."""
        h = self.tokens(x) + self.places.weight
        return self.head(self.norm(self.blocks(h))[:, -1])


def model(name: str) -> tuple[Any, Any]:
    """Return a model and an example of what it takes, one row."""
    core.manual_seed(0)
    rng = np.random.default_rng(0)
    if name == "mlp":
        layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)]
        return nn.Sequential(*layers).eval(), rng.standard_normal((1, 64)).astype(np.float32)
    return GPT().eval(), rng.integers(0, TOKENS, (1, TIME))


def request(name: str) -> dict[str, Any]:
    """Return a request of the Open Inference Protocol for a model; LitServe's API reads the same."""
    x = model(name)[1]
    datatype = "FP32" if x.dtype == np.float32 else "INT64"
    data = [round(float(v), 4) for v in x.ravel()] if datatype == "FP32" else x.ravel().tolist()
    entry = {"name": "input" if name == "mlp" else "x", "datatype": datatype, "shape": list(x.shape), "data": data}
    return {"inputs": [entry]}


def ours(name: str, port: int, batch: int) -> int:
    """Serve by `lab.serving`."""
    module, x = model(name)
    argument = "input" if name == "mlp" else "x"
    program = export(module, (core.from_numpy(np.repeat(x, 4, axis=0)),), dynamic={argument: {0: "batch"}})
    return serve(app({name: program}, batch=batch), "127.0.0.1", port, 5)


if __name__ == "__main__":
    core.set_num_threads(1)
    which, at, most = sys.argv[1:]
    sys.exit(ours(which, int(at), int(most)))
