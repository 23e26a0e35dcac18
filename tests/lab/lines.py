"""`python -m tests.lab.lines`: whether each line of a cell gets the share of the time that passes there.

Ten programs run under a recording, with marks of the clock between their lines; the shares that the samples of
lab/recorder/sampling.py give are set beside what the marks say of the very same run. Then the cells of
tests/lab/diagnose/cells_slow.py: what a finding says that a remedy saves, beside what it saves. And the
cost of sampling.

Noisy on a busy machine: a table to be read, and no test.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import linecache
import math
import statistics
import time
from collections.abc import Callable
from time import perf_counter_ns, process_time_ns
from typing import Any, NamedTuple

import numpy as np

import core
from lab.recorder.sampling import C_FIRST, C_LATER, _stack_sampler
from lab.session.recording import Recording

from .diagnose.cells_slow import PLANTED
from .lines_remedies import REMEDIED
from .savings import Told, told

SECONDS = 2.0
POINTS, SUM, SAVING, COST = 5.0, 3.0, 15.0, 3.0  # what is allowed: points of a line, % of the wall, points, % of CPU


class Program(NamedTuple):
    """What is run once, and the lines of a loop."""

    setup: str
    loop: str
    library: str = "core"


_GPT = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.LayerNorm(64), nn.LayerNorm(64)
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)
        self.wide = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
    def forward(self, x, mask):
        h = self.one(x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.wide(self.two(x))
words, blocks, head = nn.Embedding(80, 64), nn.ModuleList([Block(), Block()]), nn.Linear(64, 80)
opt = torch.optim.AdamW([*words.parameters(), *blocks.parameters(), *head.parameters()], lr=1e-3)
text = torch.randint(0, 80, (4096,))
mask = torch.triu(torch.ones(48, 48), 1) == 1
"""
_MLP = (
    "model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)); x = torch.randn(32, 64)\n"
    "y = torch.randint(0, 10, (32,)); opt = torch.optim.SGD(model.parameters(), lr=0.01)"
)
_STEP = """
opt.zero_grad()
out = model(x)
loss = F.cross_entropy(out, y)
loss.backward()
opt.step()
v = loss.item()
"""
PROGRAMS = {
    "lists": Program("data = list(range(3000))", """
a = [i * 2 + 1 for i in data]
b = {str(i): i for i in data}
c = sum(v * v for v in a)
d = sorted(b, key=len)
"""),
    "per element": Program("x = torch.randn(60); w = torch.randn(60)", """
s = sum(x[i].item() * 2 for i in range(60))
t = torch.tensor([float(v) for v in range(400)])
u = x * w
v = [float(u[i]) for i in range(30)]
"""),
    "MLP step": Program(_MLP, _STEP),
    "attention": Program(
        "q, k = (torch.randn(8, 4, 64, 32, requires_grad=True) for _ in range(2))\n"
        "wo = torch.randn(32, 32, requires_grad=True)", """
s = q @ k.transpose(-1, -2) / 5.6
p = torch.softmax(s, dim=-1)
o = p @ k
z = (o @ wo).tanh()
loss = z.pow(2).mean()
loss.backward()
"""),
    "NumPy": Program("a = np.random.rand(250, 250); v = np.random.rand(200000)", """
b = a @ a
c = np.sort(v)
d = np.tanh(v)
e = [float(t) for t in v[:2000]]
f = np.linalg.inv(a)
"""),
    "sleep + Python": Program("model = nn.Linear(64, 64); x = torch.randn(32, 64)", """
time.sleep(0.002)
y = model(x)
z = json.loads(json.dumps(list(range(2000))))
w = open('/proc/self/status').read()
"""),
    "DataLoader, 2": Program(
        "class Data(torch.utils.data.Dataset):\n    def __len__(self): return 1 << 22\n"
        "    def __getitem__(self, i): return torch.ones(64) * i\n"
        "model = nn.Linear(64, 64); it = iter(torch.utils.data.DataLoader(Data(), batch_size=32, num_workers=2))", """
x = next(it)
y = model(x).relu()
z = sum(i * i for i in range(3000))
y.sum().backward()
"""),
    "conv net": Program(
        "first, second, head = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 16, 3), nn.Linear(16 * 25, 10)\n"
        "opt = torch.optim.SGD([*first.parameters(), *second.parameters(), *head.parameters()], lr=0.01)\n"
        "x, y = torch.randn(32, 1, 28, 28), torch.randint(0, 10, (32,))", """
h = F.max_pool2d(first(x).relu(), 2)
h = F.max_pool2d(second(h).relu(), 2)
loss = F.cross_entropy(head(h.flatten(1)), y)
opt.zero_grad()
loss.backward()
opt.step()
"""),
    "GPT step": Program(_GPT, """
at = torch.randint(0, 4000, (8,)).tolist()
ids = torch.stack([text[i : i + 49] for i in at])
h = words(ids[:, :-1])
for block in blocks: h = block(h, mask)
loss = F.cross_entropy(head(h).flatten(0, 1), ids[:, 1:].flatten())
opt.zero_grad()
loss.backward()
opt.step()
"""),
    "PyTorch MLP": Program(_MLP, _STEP, "torch"),
}  # fmt: skip


def clocked(loop: str, seconds: float) -> tuple[str, list[int]]:
    """Return a program that runs a loop's lines for some time and sums up what each takes, and their numbers in it.

    >>> clocked("a = 1", 2)[0].splitlines()[3:], clocked("a = 1", 2)[1]
    (['    a = 1', '    _e = _clock(); _sum[0] += _e - _b; _b = _e'], [4])
    """
    out = [f"_end = _clock() + {int(seconds * 1e9)}", "while _clock() < _end:", "    _b = _clock()"]
    at = []
    for k, line in enumerate(loop.strip().splitlines()):
        out.append(f"    {line}")
        at.append(len(out))
        out.append(f"    _e = _clock(); _sum[{k}] += _e - _b; _b = _e")
    return "\n".join(out) + "\n", at


def space_of(library: str) -> dict[str, Any]:
    """Return the names that programs use."""
    torch: Any = core if library == "core" else importlib.import_module(library)
    torch.manual_seed(0)
    return {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "np": np, "time": time, "json": json,
            "_clock": perf_counter_ns}  # fmt: skip


def run(program: Program, seconds: float) -> str:
    """Run a program under a recording; return a row of the table."""
    space = space_of(program.library)
    exec(compile(program.setup, "<setup>", "exec"), space)
    warm, _ = clocked(program.loop, 0.2)
    count = len(program.loop.strip().splitlines())
    space["_sum"] = [0] * count
    exec(compile(warm, "<warm>", "exec"), space)
    space["_sum"] = [0] * count
    text, at = clocked(program.loop, seconds)
    name = "<clocked>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    recording = Recording("a cell")
    recorder = recording.start({name: 0})
    assert recorder is not None
    exec(compile(text, name, "exec"), space)
    record = recording.stop(space, text)
    trace = recorder.trace
    met: dict[int | None, int] = {}
    for spent in trace.spent.values():
        line = None if spent.place is None else trace.line((spent.place,))
        met[line] = met.get(line, 0) + spent.ns + spent.recorder_ns + spent.starved_ns
    real = [ns / sum(space["_sum"]) for ns in space["_sum"]]
    sampled = [met.get(line, 0) for line in at]
    got = [ns / max(sum(sampled), 1) for ns in sampled]
    worst = max(range(count), key=lambda k: abs(real[k] - got[k]))
    samples = max(trace.sampled_ns / 1e9 / C_LATER, 1.0)
    chance = 200 * math.sqrt(real[worst] * (1 - real[worst]) / samples)
    whole = sum(row.total_ms for row in record.lines) + record.recording_ms + record.starved_ms
    off, sums = 100 * abs(real[worst] - got[worst]), 100 * trace.sampled_ns / trace.wall_ns
    verdict = "" if off <= POINTS and abs(sums - 100) <= SUM else "  <- more than allowed"
    return (f"{off:5.1f} ({chance:3.1f})  {sums:5.1f} %  {100 * whole / record.wall_ms:5.1f} %  "
            f"{100 * trace.starved_ns / trace.wall_ns:3.0f} %  {100 * record.recording_ms / record.wall_ms:3.0f} %  "
            f"clock {_percent(real)} | samples {_percent(got)}{verdict}")  # fmt: skip


def _percent(shares: list[float]) -> str:
    return " ".join(f"{100 * share:.0f}" for share in shares)


def plain(text: str, repeat: int) -> float:
    """Return the time of a cell without a recording, the least of some runs, in ms."""
    times = []
    for _ in range(repeat):
        space = slow_space()
        code = compile(text, "<plain>", "exec")
        begin = perf_counter_ns()
        exec(code, space)
        times.append((perf_counter_ns() - begin) / 1e6)
    return min(times)


def slow_space() -> dict[str, Any]:
    """Return the names that the planted cells use."""
    space = space_of("core")
    rng = np.random.default_rng(0)
    space["x"] = core.tensor(rng.standard_normal((64, 16)).astype(np.float32))
    space["labels"] = core.tensor(rng.integers(0, 4, 64))
    return {**space, "core": core, "print": lambda *values: None}


def saving(name: str, repeat: int) -> str:
    """Record a planted cell; return what its finding says beside what its remedy does."""
    text = PLANTED[name].text.lstrip("\n")
    cell = f"<slow {name}>"
    linecache.cache[cell] = (len(text), None, text.splitlines(True), cell)
    said: list[Told] = []
    for _ in range(repeat):
        space = slow_space()
        recording = Recording("a cell")
        recording.start({cell: 0})
        exec(compile(text, cell, "exec"), space)
        record = recording.stop(space, text)
        said += [figure for f in record.findings if f.kind == "slow" and (figure := told(f.message)) is not None][:1]
    before, after = plain(text, repeat), plain(REMEDIED[name].lstrip("\n"), repeat)
    real = 100 * (1 - after / before)
    if not said:
        return f"nothing said, really {real:3.0f} %"
    figure = statistics.median_low(said)
    verdict = "" if abs(figure.off(real)) <= SAVING else "  <- more than allowed"
    return f"said {figure!s:>6} %  really {real:3.0f} %  ({before:.0f} -> {after:.0f} ms){verdict}"


def cost() -> str:
    """Return by how much sampling makes a fixed piece of work longer, in processor time of the process."""

    def work() -> int:
        kept = 0
        for k in range(1500):
            kept += len(sorted((-k * i) % 1013 for i in range(500)))
        return kept

    def timed(sampler: Any) -> int:
        begin = process_time_ns()
        work()
        took = process_time_ns() - begin
        if sampler is not None:
            sampler.stop()
        return took

    made: list[Callable[[], Any]] = [lambda: None, lambda: _stack_sampler(C_LATER)]
    least = [min(times) for times in zip(*[[timed(make()) for make in made] for _ in range(9)], strict=True)]
    return f"{100 * (least[1] / least[0] - 1):+.2f} % (at most {COST} %; the first second, a sample every {C_FIRST} s)"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.lines", description=__doc__)
    parser.add_argument("names", nargs="*", help="programs or planted cells; without any, all")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long each program runs")
    parser.add_argument("--repeat", type=int, default=3, help="runs of a planted cell, whose median is taken")
    given = parser.parse_args()
    print(
        f"largest error of a line in points, allowed {POINTS:g} (two sigma of counting); the time of all samples in "
        "% of"
    )
    print(f"the wall, allowed {SUM:g} off; lines, recorder and other programs together; other programs; the recorder;")
    print("shares of the lines")
    for name, program in PROGRAMS.items():
        if given.names and name not in given.names:
            continue
        there = importlib.util.find_spec(program.library) is not None
        print(f"{name:15}", run(program, given.seconds) if there else f"{program.library} is not installed", flush=True)
    print(f"\nwhat a finding says that its remedy saves, allowed {SAVING:g} points off")
    for name in REMEDIED:
        if not given.names or name in given.names:
            print(f"{name:52}", saving(name, given.repeat), flush=True)
    print("\nlooking costs", cost())


if __name__ == "__main__":
    main()
