"""What `%autograd on` and `%%autograd` cost beside a plain cell and a whole one, in cells of ten processor seconds."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from time import perf_counter, process_time
from typing import Any, NamedTuple

import core

from ..recorder.sampled_steps import CLOSE
from ..session.recording import Recording
from .cpu import torch_or_none
from .timing import Ratio, ratio

SECONDS = 10.0  # of a processor, of a cell that is sampled: what is paid once in it is paid on a busy machine too
PART = 0.2  # of that, for a plain run before it and one after
WHOLE = 2.0  # seconds without the recorder of a cell that is recorded whole
KINDS = ("%autograd on", "%%autograd", "%%autograd --whole")
CELL = "<a cell of the benchmark>"
MODELS = """
nn, F = lib.nn, lib.nn.functional
class Block(nn.Module):
    def __init__(self, wide, heads):
        super().__init__()
        self.before, self.after, self.heads = nn.LayerNorm(wide), nn.LayerNorm(wide), heads
        self.qkv, self.out = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.up, self.down = nn.Linear(wide, 4 * wide), nn.Linear(4 * wide, wide)
    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.before(x)).split(c, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.after(x))))
class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(65, 128), nn.Embedding(64, 128)
        self.blocks = nn.Sequential(*[Block(128, 4) for _ in range(4)])
        self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 65)
    def forward(self, text):
        return self.head(self.norm(self.blocks(self.words(text) + self.places(lib.arange(64))))).reshape(-1, 65)
lib.manual_seed(0)
if kind == "MLP":
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    x, y = lib.randn(64, 64), lib.randint(0, 10, (64,))
elif kind == "CNN":
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(32 * 49, 10))
    x, y = lib.randn(32, 1, 28, 28), lib.randint(0, 10, (32,))
else:
    model = GPT()
    x, y = lib.randint(0, 65, (16, 64)), lib.randint(0, 65, (1024,))
optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)
"""
LOOP = """
for i in range(steps):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""


class Took(NamedTuple):
    """Seconds a step."""

    processor: float
    wall: float


class Cell:
    """A training cell of one library and one kind of model."""

    def __init__(self, lib: Any, kind: str) -> None:
        linecache.cache[CELL] = len(LOOP), None, LOOP.splitlines(True), CELL
        self.space: dict[str, Any] = {"__name__": "__main__", "lib": lib, "kind": kind}
        exec(compile(MODELS, CELL, "exec"), self.space)
        self._loop = compile(LOOP, CELL, "exec")
        self.run(5)

    def run(self, steps: int, around: Callable[[], Callable[[], object]] = lambda: lambda: None) -> Took:
        """Time so many steps; `around` begins what listens and gives what ends it, both within the time."""
        self.space["steps"] = steps
        processor, wall = process_time(), perf_counter()
        end = around()
        try:
            exec(self._loop, self.space)
        finally:
            end()
        return Took((process_time() - processor) / steps, (perf_counter() - wall) / steps)

    def recorded(self, sampled: bool | dict[str, Any]) -> Callable[[], Callable[[], object]]:
        """Return what begins a recording, and with its end the making of its record."""

        def begin() -> Callable[[], object]:
            recording = Recording(sampled=sampled)
            recording.start({CELL: 0})
            return lambda: recording.stop(self.space, LOOP)

        return begin


def _pairs(cell: Cell, seconds: float) -> list[tuple[Took, Took]]:
    """Return (with the lab, plain) times of a cell, of each of `KINDS`."""
    each = cell.run(20).processor
    many, whole = max(int(seconds / each), 40), max(int(min(WHOLE, seconds) / each / 4), 20)
    found, before = [], cell.run(max(int(PART * many), 20))
    for sampled in (True, CLOSE):
        took = cell.run(many, cell.recorded(sampled))
        after = cell.run(max(int(PART * many), 20))
        found.append((took, Took(*((a + b) / 2 for a, b in zip(before, after, strict=True)))))
        before = after
    return [*found, (cell.run(whole, cell.recorded(False)), cell.run(whole))]


def measure(only: str = "", rounds: int = 3, seconds: float = SECONDS) -> Iterator[Ratio]:
    """Yield the ratios of the cells with this text in their name, as they are known: each of the median of the
    rounds."""
    for name, lib in (("core", core), ("PyTorch", torch_or_none())):
        for kind in ("MLP", "CNN", "GPT") if lib is not None else ():
            if only not in f"{name} {kind}":
                continue
            cell = Cell(lib, kind)
            found = [_pairs(cell, seconds) for _ in range(rounds)]
            for k, what in enumerate(KINDS):
                pairs = [one[k] for one in found]
                for clock in Took._fields:
                    times = [(getattr(a, clock), getattr(b, clock)) for a, b in pairs]
                    yield ratio(f"{name} {kind}: {what} / plain, {clock}", times)
