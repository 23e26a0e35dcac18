"""Programs for test_traced_rules.py that take time in lines of Python, by looks that are made up."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from lab.diagnose.finding import Found
from lab.diagnose.speed import slow_general, slow_growth, slow_loops, slow_python, slow_repeats, slow_samples
from lab.diagnose.speed.busy_lines import busy_lines
from lab.diagnose.speed.time_shares import Saving, Shares
from lab.recorder.cell_trace import Chain, Row, Sample, Trace

from .test_slow_code import SECOND, timed
from .traced_case import Case

Look = tuple[str, float, int]  # what ran there, the seconds, in how many turns


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from codes(part)


def frame(trace: Trace, line: int) -> tuple[CodeType, int]:
    """The longest call on a line of the cell."""
    outer = next(row.chain[-1][0] for row in trace.rows if row.chain)
    best: tuple[int, CodeType, int] | None = None
    for code in codes(outer):
        for step in dis.get_instructions(code):
            at = step.positions
            if at is None or at.lineno != line or at.col_offset is None or step.opname not in ("CALL", "BINARY_OP"):
                continue
            size = 10_000 * ((at.end_lineno or line) - line) + (at.end_col_offset or 0) - at.col_offset
            if best is None or size > best[0]:
                best = size, code, step.offset
    assert best is not None, line
    return best[1], best[2]


def met(trace: Trace, *looks: tuple[Any, ...]) -> None:
    """Note that the cell was met on lines: each with the line, or several from the innermost, and a `Look`."""
    for k, (lines, kind, seconds, turns) in enumerate(looks):
        chain: Chain = tuple(frame(trace, line) for line in (lines if isinstance(lines, tuple) else (lines,)))
        trace.samples[k] = Sample(kind, chain, ns=int(seconds * SECOND), beats=turns)


def by_clock(
    idiom: Callable[[Shares], Any], *looks: tuple[Any, ...], wall: float = 10.0, op: float = 0.01, **facts: Any
) -> Callable[[Trace, set[Any]], list[Found]]:
    """A rule that looks for an idiom where the cell took so many seconds, each run of an op `op`."""

    def look(trace: Trace, explained: set[Any]) -> list[Found]:
        timed(trace, int(op * SECOND))
        trace.wall_ns = int(wall * SECOND)
        met(trace, *looks)
        for name, value in facts.items():
            setattr(trace, name, value)
        found = list(idiom(Shares(trace)))
        return [f.found if isinstance(f, Saving) else f for f in found]

    return look


def general(shares: Shares) -> list[Found]:
    """The longest lines, where nothing else is known."""
    trace = shares.trace
    trace.update_ns = 0
    return slow_general.hottest(trace, set())


def longest(shares: Shares) -> list[Found]:
    """Where the time passes: lines, the seconds, those in Python and those in a loader, ops."""
    found = []
    for busy in busy_lines(shares):
        place = shares.trace.place(*busy.chain[0])
        seconds = [f"{ns / SECOND:.2f}" for ns in (busy.ns, busy.python, busy.loads)]
        words = f"{', '.join(seconds)}; {len(busy.rows)} ops, {len(busy.chain)} frames"
        found.append(Found("busy", "note", place.line, None, words, ""))
    return found


MAKE = "rows = [[1.0, 2.0]] * 9\nfor k in range(9):\n    t = {code}\n    y = x * k"
PUT = (
    "import copy, json\nrows = [[1.0, 2.0]] * 9\ndef put(v):\n    return {code}\nfor k in range(9):\n    y = x * k\n"
    "    z = put(rows)"
)
CALLS = (
    "import json, math, random\ndef put(v):\n    return math.sqrt(v)\nfor k in range(9):\n    y = x * k\n    z = put(k)"
)
TEST = "def test():\n    return (x * 2.0).sum()\nfor k in range(9):\n    y = x * k\n    error = test()\nstr(error)"
APPEND = "a = np.zeros(1)\nfor k in range(9):\n    y = x * k\n    a = {code}"
HOOK = (
    "net = nn.Linear(16, 4)\ndef keep(m, i, o):\n    return o * 1.0\ndef look():\n    net.register_forward_hook(keep)\n"
    "    return net(x)\nfor k in range(12):\n    look()"
)
ANOMALY = (
    "net = nn.Linear(16, 4)\n{on}\nfor k in range(3):\n    F.cross_entropy(net(x), labels).backward()\n"
    "torch.autograd.set_detect_anomaly(False)"
)
CELL = (
    "U, V, W, h, c = P(16, 16), P(16, 16), P(16, 16), torch.zeros(4, 16), torch.zeros(4, 16)\n"
    "s = torch.randn(4, {n}, 16)\nfor t in range({n}):\n{body}h.sum().backward()"
)
PADDED = (
    "PAD = 0\ntexts = [[3, 4], [5]]\nids = torch.tensor([t + [PAD] * (9 - len(t)) for t in texts])\n"
    "emb, net = nn.Embedding(9, 16), nn.Linear(16, 4)\nfor k in range(4):\n    z = net(emb(ids))"
)
ONE = (
    "net = nn.Linear(16, 4)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\nfrom core.utils.data import DataLoader, "
    "TensorDataset\nloader = DataLoader(TensorDataset(x, labels){size})\nfor xb, yb in loader:\n"
    "    loss = F.cross_entropy(net(xb), yb)\n    opt.zero_grad()\n    loss.backward()\n    opt.step()"
)


def made(code: str, found: bool = True, ns: float = 5.0, line: int = 3, **more: Any) -> Case:
    rule = by_clock(slow_python.lines, (line, "python", ns, 9), (4, "op", 10.0 - ns, 9), **more)
    return Case(rule, MAKE.format(code=code), found)


def put(code: str, found: bool = True) -> Case:
    """A call that is slow, in a function that a loop calls."""
    rule = by_clock(slow_python.lines, ((4, 7), "python", 5.0, 9), (6, "op", 5.0, 9))
    return Case(rule, PUT.format(code=code), found)


def appended(code: str, found: bool = True, ns: float = 5.0) -> Case:
    rule = by_clock(slow_growth.python_growth, (4, "python", ns, 9), (3, "op", 10.0 - ns, 9))
    return Case(rule, APPEND.format(code=code), found)


def blank(share: float, looked: int = 2) -> Callable[[Trace], None]:
    def facts(trace: Trace) -> None:
        row = next(row for row in trace.rows if row.op == "embedding")
        trace.values.blank = {row: (looked, share)}

    return facts


def stepped(body: str, found: bool = True, n: int = 48) -> Case:
    return Case(by_clock(slow_python.stepped), CELL.format(n=n, body=body), found)


def unrolled(trace: Trace) -> None:
    """Rows that gave the same again, each of one run, as those of a graph that unrolls."""
    trace.again.clear()
    products: list[Row] = [row for row in trace.rows if row.op == "matmul"]
    for row in products:
        row.count = 1
        trace.again[row] = [1, 1, 0]


def repeated(trace: Trace) -> None:
    """Products that gave the same in each of five runs."""
    for row in trace.rows:
        if row.op == "matmul":
            trace.again[row] = [5, 5, 0]


SLOW = {
    "a tensor of Python's values in a loop": made("torch.tensor(rows)"),
    "an array of Python's values in a loop": made("np.array(rows)"),
    "a tensor of Python's values, hardly": made("torch.tensor(rows)", ns=1.6),
    "a tensor of Python's values, too little": made("torch.tensor(rows)", False, ns=1.4),
    "a tensor of a list of its own": made("torch.tensor([1.0, 2.0])", False),
    "a tensor of a number": made("torch.tensor(3.0)", False),
    "a tensor, on a busy machine": made("torch.tensor(rows)", False, blind_ns=3 * SECOND),
    "a file that a function writes": put("json.dumps(v)"),
    "a file that a function reads": put("json.loads('[1]')"),
    "a copy that a function makes": put("copy.deepcopy(v)"),
    "a tensor that a function makes": put("torch.tensor(v)"),
    "values that a function draws": put("np.random.choice(9, p=np.ones(9) / 9)"),
    "what is not known to be slow": made("len(rows)", False),
    "a test in each turn": Case(
        by_clock(slow_loops.used_after, (5, "python", 6.0, 9), (4, "op", 4.0, 9)), TEST
    ),
    "a test in each of three turns": Case(
        by_clock(slow_loops.used_after, (5, "python", 6.0, 3), (4, "op", 4.0, 9)), TEST, False
    ),
    "a test in each of four turns": Case(
        by_clock(slow_loops.used_after, (5, "python", 6.0, 4), (4, "op", 4.0, 9)), TEST
    ),
    "a test that takes little": Case(
        by_clock(slow_loops.used_after, (5, "python", 1.0, 9), (4, "op", 9.0, 9)), TEST, False
    ),
    "a test that is read in the loop": Case(
        by_clock(slow_loops.used_after, (5, "python", 6.0, 9)),
        TEST.replace("y = x * k", "y = x * k + (k and error)"), False,
    ),
    "a test that nobody reads": Case(
        by_clock(slow_loops.used_after, (5, "python", 6.0, 9)), TEST.replace("str(error)", "str(3)"), False
    ),
    "an array that grows": appended("np.append(a, k)"),
    "an array that is joined": appended("np.concatenate([a, a[:1]])"),
    "an array that is stacked": appended("np.vstack([a.reshape(-1, 1), a[:1]])[:, 0]"),
    "an array that is stacked flat": appended("np.hstack([a, a[:1]])"),
    "an array that does not grow": appended("np.zeros(3)", False),
    "an array that grows for little": appended("np.append(a, k)", False, ns=1.0),
    "a hook in each call": Case(by_clock(slow_growth.hooks, op=0.1), HOOK),
    "a hook in each call, of little": Case(by_clock(slow_growth.hooks, op=0.001), HOOK, False),
    "anomaly mode": Case(
        by_clock(slow_growth.anomaly, anomaly=True), ANOMALY.format(on="torch.autograd.set_detect_anomaly(True)")
    ),
    "anomaly mode in a block": Case(
        by_clock(slow_growth.anomaly, anomaly=True), ANOMALY.format(on="guard = torch.autograd.detect_anomaly()")
    ),
    "anomaly mode that is off": Case(
        by_clock(slow_growth.anomaly, anomaly=False),
        ANOMALY.format(on="torch.autograd.set_detect_anomaly(True)"), False,
    ),
    "anomaly mode that is switched off alone": Case(
        by_clock(slow_growth.anomaly, anomaly=True), ANOMALY.format(on="k = 1"), False
    ),
    "anomaly mode of a short pass": Case(
        by_clock(slow_growth.anomaly, anomaly=True, op=0.0001),
        ANOMALY.format(on="torch.autograd.set_detect_anomaly(True)"), False,
    ),
    "an RNN by hand": stepped("    h = torch.tanh(h @ U + s[:, t] @ V)\n"),
    "a GRU by hand": stepped("    z = torch.sigmoid(h @ U)\n    h = z * torch.tanh(s[:, t] @ V)\n"),
    "an LSTM by hand": stepped("    i = torch.sigmoid(h @ U)\n    c = i * c + torch.tanh(s[:, t] @ V)\n"
    "    h = i * c\n"),
    "an RNN by hand, of 23 steps": stepped("    h = torch.tanh(h @ U + s[:, t] @ V)\n", False, n=23),
    "an RNN by hand, of 24 steps": stepped("    h = torch.tanh(h @ U + s[:, t] @ V)\n", n=24),
    **{
        f"a loop over nn.{kind}": Case(
            by_clock(slow_python.stepped, op=0.1),
            f"cell, s = nn.{kind}(16, 16), torch.randn(4, 48, 16)\nh = {start}\nfor t in range(48):\n"
            f"    h = cell(s[:, t], h)\n{end}.sum().backward()",
        )
        for kind, start, end in (
            ("RNNCell", "torch.zeros(4, 16)", "h"), ("GRUCell", "torch.zeros(4, 16)", "h"),
            ("LSTMCell", "(torch.zeros(4, 16), torch.zeros(4, 16))", "h[0]"),
        )
    },
    "an RNN whose layers a function goes through": Case(
        by_clock(slow_python.stepped),
        "U, V, h, s = P(16, 16), P(16, 16), torch.zeros(4, 16), torch.randn(4, 48, 16)\ndef through(h):\n"
        "    for k in range(2):\n        h = torch.tanh(h @ U)\n    return h\nfor t in range(48):\n"
        "    h = through(h + s[:, t] @ V)\nh.sum().backward()",
    ),
    "an RNN that bends by relu": stepped("    h = torch.relu(h @ U * 0.1 + s[:, t] @ V)\n", False),
    "an RNN that is fed what it gave": stepped(
        "    k = h.argmax(1)\n    h = torch.tanh(h @ U + s[:, t] @ V)\n", False
    ),
    "an RNN under conditions": stepped("    if t != 3:\n        h = torch.tanh(h @ U + s[:, t] @ V)\n", False),
    "an RNN that keeps no state": stepped("    g = torch.tanh(s[:, t] @ V @ W)\n", False),
    "a sequence that is filled up": Case(
        by_clock(slow_loops.filled_up, op=1.0), PADDED, facts=blank(0.6)
    ),
    "a sequence that is filled up by a half": Case(
        by_clock(slow_loops.filled_up, op=1.0), PADDED, facts=blank(0.4)
    ),
    "a sequence that is filled up a little": Case(
        by_clock(slow_loops.filled_up, op=1.0), PADDED, False, blank(0.39)
    ),
    "a sequence that one batch fills up": Case(
        by_clock(slow_loops.filled_up, op=1.0), PADDED, False, blank(0.6, looked=1)
    ),
    "a sequence that somebody fills up": Case(
        by_clock(slow_loops.filled_up, op=1.0),
        PADDED.replace("[PAD] * (9 - len(t))", "[0] * 7").replace("[5]", "[5, 6]"),
        facts=blank(0.6),
    ),
    "one sample in each batch": Case(by_clock(slow_samples.single_samples, op=0.0001, wall=0.1), ONE.format(size="")),
    "one sample in each batch, by its size": Case(
        by_clock(slow_samples.single_samples, op=0.0001, wall=0.1), ONE.format(size=", batch_size=1")
    ),
    "one sample in each batch, of long ops": Case(
        by_clock(slow_samples.single_samples, op=0.0003, wall=0.1), ONE.format(size=", batch_size=1"), False
    ),
    "two samples in each batch": Case(
        by_clock(slow_samples.single_samples, op=0.0001, wall=0.1), ONE.format(size=", batch_size=2"), False
    ),
    "the same in a function that a loop calls": Case(
        by_clock(slow_repeats.again, op=1.0),
        "w, v = torch.ones(16, 8), torch.ones(8, 4)\ndef both(t):\n    a = t @ w\n    return a @ v\n"
        "for k in range(5):\n    b = both(x)",
        facts=repeated,
    ),
    "the same in a few runs that took long": Case(
        by_clock(slow_repeats.again, op=0.00002, wall=0.0001),
        "w = torch.ones(16, 8)\nfor k in range(5):\n    b = x @ w", False, repeated,
    ),
    "the same in a graph that unrolls": Case(
        by_clock(slow_repeats.again, op=1.0),
        "w, v = torch.ones(16, 8), torch.ones(8, 4)\nfor k in range(5):\n    a = x @ w\n    b = a @ v", False, unrolled,
    ),
    "a line that takes the time": Case(
        by_clock(general, (6, "python", 8.0, 9), (5, "op", 2.0, 9)), CALLS
    ),
    "a line that reads lists of rows": Case(
        by_clock(general, ((5, 7), "op", 0.6, 9), wall=0.6, op=0.000001),
        "near = [torch.arange(k % 5 + 1) for k in range(900)]\ndef layer(h):\n    out = []\n"
        "    for k in range(900):\n        out.append(h[near[k]].mean(dim=0))\n    return torch.stack(out)\n"
        "y = layer(x[:, :4])"
    ),
    "a line of turns that need one another": Case(
        by_clock(general, (3, "op", 0.6, 9), wall=0.6, op=0.000001),
        "y, w = x[:, :4], torch.ones(4)\nfor k in range(900):\n    y = y * w"
    ),
    "a table that is counted pair by pair": Case(
        by_clock(general, (5, "python", 8.0, 9), (6, "op", 2.0, 9)),
        "seen, true = [0, 1, 2], [1, 1, 0]\ntable = np.zeros((3, 3))\nfor k in range(9):\n"
        "    for s, t in zip(seen, true):\n        table[int(t), int(s)] += 1\n    y = x * k",
    ),
    "a table of all pairs": Case(
        by_clock(general, (4, "python", 8.0, 9), (5, "op", 2.0, 9)),
        "a, b, d = [3.0, 5.0], [4.0, 9.0], np.zeros((2, 2))\nfor i in range(2):\n    for j in range(2):\n"
        "        d[i, j] = max(a[i], b[j]) - min(a[i], b[j])\n    y = x * i",
    ),
    "a model for each row": Case(
        by_clock(general, (4, "op", 0.6, 9), wall=0.6, op=0.000001),
        "net, out = nn.Linear(16, 4), []\nwith torch.no_grad():\n    for k in range(64):\n"
        "        out.append(net(x[k].unsqueeze(0)) * 1.0 + 1.0 - 1.0 + 2.0 - 2.0 + 3.0 - 3.0 + 4.0 - 4.0 + 5.0 - 5.0)",
    ),
    "a line in a function": Case(by_clock(general, ((3, 6), "python", 8.0, 9), (5, "op", 2.0, 9)), CALLS),
    "a line that takes half of the time": Case(by_clock(general, (6, "python", 4.9, 9), (5, "op", 5.1, 9)), CALLS),
    "a line of a short cell": Case(
        by_clock(general, (6, "python", 0.29, 9), wall=0.29, op=0.001), CALLS, False
    ),
    "a line of ops": Case(by_clock(general, (5, "op", 9.0, 9), op=1.0), CALLS),
    "a line of many ops": Case(
        by_clock(general, (2, "op", 0.6, 9), wall=0.6, op=0.000001), "for k in range(900):\n    y = x * k"
    ),
    "a line outside loops": Case(
        by_clock(general, (2, "python", 6.9, 9), (1, "op", 3.1, 9)), "y = x * 2.0\nz = sorted(range(9))", False
    ),
    "a line outside loops, of most": Case(
        by_clock(general, (2, "python", 7.1, 9), (1, "op", 2.9, 9)), "y = x * 2.0\nz = sorted(range(9))"
    ),
    "a line of layers": Case(
        by_clock(general, (3, "op", 9.0, 9), op=1.0), "net = nn.Linear(16, 4)\nfor k in range(9):\n"
        "    y = net(x)", False
    ),
    "where the time passes": Case(
        by_clock(longest, (6, "python", 3.0, 9), ((3, 6), "python", 2.0, 9), (5, "op", 4.0, 9), (5, "loader", 1.0, 9)),
        CALLS,
    ),
    "where the time passes, imports aside": Case(
        by_clock(longest, (6, "import", 3.0, 9), (5, "op", 4.0, 9)), CALLS
    ),
}  # fmt: skip
