"""What recording costs: a GPT's training step of about 2,000 ops, plain, counted and recorded, timed in turn."""

from __future__ import annotations

import linecache
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import core
from core import nn
from core.events import observe

from ..session.op_counts import Counter
from ..session.recording import Recording

F = nn.functional
LAYERS, WIDTH, HEADS, TOKENS, BATCH, LETTERS = 36, 128, 4, 64, 8, 65
STEPS = 20  # of a cell


class Block(nn.Module):
    """A Transformer's block with its attention written out."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("later", core.ones(TOKENS, TOKENS).triu(1).bool(), persistent=False)

    def forward(self, x: Any) -> Any:
        b, t, c = x.shape
        q, k, v = (part.view(b, t, HEADS, c // HEADS).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(c, 2))
        weights = ((q @ k.transpose(-2, -1)) * (c // HEADS) ** -0.5).masked_fill(self.later, float("-inf"))
        y = (self.drop(F.softmax(weights, dim=-1)) @ v).transpose(1, 2).reshape(b, t, c)
        x = x + self.drop(self.out(y))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    """Embeddings, blocks and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(LETTERS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, LETTERS)

    def forward(self, tokens: Any) -> Any:
        x = self.token(tokens) + self.place(core.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class _Events(observe.Observer):
    """Counts what a step tells."""

    def __init__(self) -> None:
        self.ops = self.nodes = 0

    def op(self, event: observe.OpEvent) -> None:
        self.ops += event.phase != "backward"

    def backward(self, event: observe.BackwardEvent) -> None:
        self.nodes += 1


def gpt_step() -> Any:
    """One training step: forward, loss, backward, clipping, AdamW."""
    core.manual_seed(0)
    rng = np.random.default_rng(0)
    tokens, targets = (core.tensor(rng.integers(0, LETTERS, (BATCH, TOKENS))) for _ in range(2))
    model = GPT()
    optimizer = core.optim.AdamW(model.parameters(), lr=3e-4)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(tokens).view(-1, LETTERS), targets.view(-1)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


CELL = "<a GPT's training step>"


def _as_a_cell() -> Any:
    """Return a step whose code is the user's: the recorder leaves the lab's own files out, of which this is one."""
    text = Path(__file__).read_text()
    linecache.cache[CELL] = (len(text), None, text.splitlines(True), CELL)
    space: dict[str, Any] = {"__name__": f"{__package__}.cell", "__package__": __package__}
    exec(compile(text, CELL, "exec"), space)
    return space["gpt_step"]()


def measure(rounds: int = 5) -> list[tuple[str, list[tuple[float, float]]]]:
    """Return (name, [(watched, plain), ...]) in seconds a step, of cells of 20 steps and of one."""
    step = _as_a_cell()
    step()
    events = _Events()
    with observe.observing(events):
        step()
    print(f"a GPT step: {events.ops} ops forward and update, {events.nodes} nodes backward")

    def plain(steps: int = STEPS) -> None:
        for _ in range(steps):
            step()

    def counted() -> None:
        counter = Counter()
        plain()
        counter.stop({})

    def recorded(steps: int = STEPS) -> None:
        recording = Recording()
        recording.start({CELL: 0})
        try:
            plain(steps)
        finally:
            recording.drop()

    def seconds(work: Any, steps: int) -> float:
        start = perf_counter()
        work()
        return (perf_counter() - start) / steps

    cells = (
        ("counted", counted, STEPS),
        ("recorded", recorded, STEPS),
        ("one step recorded", lambda: recorded(1), 1),
    )
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name, _, _ in cells}
    for i in range(rounds):
        for name, work, steps in cells:
            for _ in range(5 if steps == 1 else 1):
                if i % 2:
                    base = seconds(partial(plain, steps), steps)
                    pairs[name].append((seconds(work, steps), base))
                else:
                    watched = seconds(work, steps)
                    pairs[name].append((watched, seconds(partial(plain, steps), steps)))
    return [(f"GPT step: {name} / plain", found) for name, found in pairs.items()]
