"""What is slow, by a clock that goes one second in each run of an op and in each pass through it: the sentences with
their figures, and where each idiom begins. The programs are small and were recorded; only their times are made up.

`slow_sentences.md` holds what is said; ``python -m tests.lab.diagnose.test_slow_code`` writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lab.diagnose.speed import (
    slow_backward,
    slow_general,
    slow_growth,
    slow_handmade,
    slow_products,
    slow_repeats,
    slow_samples,
)
from lab.diagnose.speed.busy_lines import Busy
from lab.diagnose.speed.cost import of_batches
from lab.diagnose.speed.slow_python import known_call
from lab.diagnose.speed.time_shares import Saving, Shares
from lab.recorder.cell_trace import Row, Sample, Trace
from tests.lab.conftest import space as _space
from tests.lab.conftest import traced as _traced

from .test_sentences import page

Space = dict[str, Any]
Idiom = Callable[[Shares], Iterator[Saving]]
SECOND = 10**9
PAGE = Path(__file__).parent / "slow_sentences.md"
traced_of: Any = _traced.__wrapped__  # type: ignore[attr-defined]
space_of: Any = _space.__wrapped__  # type: ignore[attr-defined]


def timed(trace: Trace, each_ns: int = SECOND) -> Shares:
    """The shares of a trace in which each run and each pass took a second, and nothing else any time."""
    for row in trace.rows:
        row.forward_ns, row.backward_ns = row.runs * each_ns, row.reached * each_ns
    for span in trace.spans.values():
        span[1] = span[0] * each_ns
    trace.backward_ns = sum(row.backward_ns for row in trace.rows)
    trace.wall_ns = trace.own_ns = trace.around_ns = trace.starved_ns = trace.update_ns = 0
    trace.sampled_ns = trace.blind_ns = 0
    trace.samples.clear()
    return Shares(trace)


def rows_of(trace: Trace, *ops: str) -> list[Row]:
    return [row for row in trace.rows if row.op in ops]


class Case(NamedTuple):
    """A program, what its facts are set to, and whether the idiom is found: `slow_sentences.md` has what is said."""

    idiom: Idiom
    text: str
    found: bool = True
    facts: Callable[[Trace], None] = lambda trace: None


def grow(turns: int, line: str = "bank = torch.cat([bank, x[:1]])") -> str:
    return f"bank, parts = torch.zeros(1, 16), []\nfor k in range({turns}):\n    {line}"


def again(looked: int, repeated: int, op: str = "matmul") -> Callable[[Trace], None]:
    def facts(trace: Trace) -> None:
        trace.again.clear()
        for row in rows_of(trace, op):
            trace.again[row] = [looked, repeated, 0]

    return facts


def met(samples: int, different: int, repeated: int = 0) -> Callable[[Trace], None]:
    def facts(trace: Trace) -> None:
        trace.again.clear()
        trace.single.clear()
        row = rows_of(trace, "matmul")[0]
        trace.single[row] = samples, different
        trace.again[row] = [5, repeated, 0]

    return facts


def twice(looked: int, repeated: int) -> Callable[[Trace], None]:
    def facts(trace: Trace) -> None:
        first, second = rows_of(trace, "matmul")
        trace.again_of.clear()
        trace.again_of[second] = first
        trace.again[second] = [looked, repeated, 0]

    return facts


def hot(trace: Trace) -> None:
    for row in rows_of(trace, "matmul"):
        trace.one_hot[row] = (0, 16)


def zeros(trace: Trace) -> None:
    for row in rows_of(trace, "matmul"):
        trace.sparse[row] = (0, 0.001)


MANY = 1 << 22  # numbers in a result from which a broadcast is told of


def large(size: int) -> Callable[[Trace], None]:
    def facts(trace: Trace) -> None:
        for row in rows_of(trace, "mul", "sub"):
            row.largest = size

    return facts


def pairs(code: str, found: bool, m: int = 16, n: int = 16, largest: int = MANY) -> Case:
    """Return a case of what is computed for all pairs of m and n rows, as if it had so many numbers."""
    text = f"a, b = torch.ones({m}, 8), torch.ones({n}, 8)\ny = {code}"
    return Case(slow_products.broadcasts, text, found, large(largest))


def of_pytorch(trace: Trace) -> None:
    for row in trace.rows:
        row.backend = "PyTorch"


PRODUCT = "a, b = torch.ones(16, 16), torch.ones(16, 16)\nfor k in range(5):\n    c = a @ b\n    d = c + k"
FROZEN = (
    "w, h = torch.ones(16, 8), P(8, 4)\ndef base(t):\n    return torch.relu(t @ w)\n"
    "for k in range(4):\n    z = base(x)\n    (z @ h).sum().backward()"
)
SYSTEM = (
    "A, b = 2 * torch.eye(16), torch.ones(16)\nfor k in range(5):\n    y = torch.linalg.solve(A, b)\n"
    "    z = torch.linalg.inv(A) @ (b + k)"
)
HEAD = (
    "w, head = torch.ones(16, 16), nn.Linear(16, 4)\nopt = torch.optim.SGD(head.parameters(), lr=0.1)\n"
    "def model(t):\n    return head(torch.relu(t @ w))\nfor k in range(5):\n    loss = head(x).pow(2).mean()\n"
    "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n    with torch.no_grad():\n        y = model(x)"
)
STAYS = FROZEN.replace("w, h = torch.ones(16, 8), P(8, 4)", "w, h = torch.ones(64, 64), P(16, 4)").replace(
    "torch.relu(t @ w)", "torch.relu(w @ (t + 1))"
)
TWICE = "w = torch.ones(16, 8)\nfor k in range(5):\n    a = x @ w\n    b = x @ w"
RANK = "a, b, v = torch.ones({m}, {k}), torch.ones({k}, {n}), torch.ones({n}, {batch})\ny = (a @ b) @ v"
EINSUM = "a, b, v = torch.ones({m}, 2), torch.ones(2, {m}), torch.ones(4, {m})\ny = torch.einsum('{eq}', a, b, v)"
CONV = "s, w = torch.ones({s}), torch.ones({w})\ny = F.conv{d}d(s, w)"
DISTANCES = "((a[:, None] - b[None]) ** 2).sum(-1)"
TABLE = (
    "table, head = nn.Embedding(50, 4), nn.Linear(4, 4)\nopt = torch.optim.SGD([*table.parameters(), "
    "*head.parameters()], lr=0.1)\nfor k in range(3):\n    opt.zero_grad()\n"
    "    F.cross_entropy(head(table(labels[:4])), labels[:4]).backward()\n    opt.step()"
)
ONE = (
    "net = nn.Linear(16, 4)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\nfor i in range({steps}):\n"
    "    loss = F.cross_entropy(net(x[i % {of} : i % {of} + {size}]), labels[i % {of} : i % {of} + {size}])\n"
    "    opt.zero_grad()\n    loss.backward()\n    opt.step()"
)
HAND = "import math\nz = torch.randn(6, 8, requires_grad=True)\nq = torch.randn(2, 3, 5, 4)\ny = {code}"

CASES: dict[str, Case] = {
    "grown, 11 turns": Case(slow_growth.grown, grow(11), False),
    "two grown in one loop": Case(
        slow_growth.grown, grow(12, "bank, more = torch.cat([bank, x[:1]]), torch.cat([bank, x[:1]])")
    ),
    "grown, 12 turns": Case(slow_growth.grown, grow(12)),
    "the whole list": Case(slow_growth.grown, grow(12, "parts.append(x[:1]); bank = torch.cat(parts)")),
    "a window that is full": Case(slow_growth.grown, grow(40, "bank = torch.cat([bank, x[:1]])[-8:]"), False),
    "a list that is joined twice": Case(
        slow_growth.grown,
        "parts = [x[:1] for k in range(9)]\nfor k in range(12):\n    b = torch.cat(parts[: k // 9 + 1])",
        False,
    ),
    "again": Case(slow_repeats.again, PRODUCT, True, again(5, 5)),
    "again, three of five": Case(slow_repeats.again, PRODUCT, True, again(5, 3)),
    "again, three of six": Case(slow_repeats.again, PRODUCT, False, again(6, 3)),
    "again, two of two": Case(slow_repeats.again, PRODUCT, False, again(2, 2)),
    "again, of a system of equations": Case(slow_repeats.again, SYSTEM, True, again(5, 5, "linalg_solve")),
    "again, below a head that is trained": Case(slow_repeats.again, HEAD, True, again(5, 5)),
    "met twice": Case(slow_repeats.frozen, FROZEN, True, met(64, 32)),
    "met of a matrix that stays": Case(slow_repeats.frozen, STAYS, False, met(64, 32)),
    "met not quite twice": Case(slow_repeats.frozen, FROZEN, False, met(63, 32)),
    "met in whole batches": Case(slow_repeats.frozen, FROZEN, False, met(64, 32, 3)),
    "met in few whole batches": Case(slow_repeats.frozen, FROZEN, True, met(64, 32, 2)),
    "at two places": Case(slow_repeats.twice, TWICE, True, twice(5, 4)),
    "at two places, three of five": Case(slow_repeats.twice, TWICE, False, twice(5, 3)),
    "one-hot": Case(slow_products.one_hot, PRODUCT, True, hot),
    "no one-hot": Case(slow_products.one_hot, PRODUCT, False),
    "a matrix of zeros": Case(slow_products.sparse, PRODUCT, True, zeros),
    "no matrix of zeros": Case(slow_products.sparse, PRODUCT, False),
    "a product of low rank": Case(slow_products.order, RANK.format(m=32, n=32, k=2, batch=1)),
    "a product of full rank": Case(slow_products.order, RANK.format(m=32, n=32, k=32, batch=1), False),
    "a product for many": Case(slow_products.order, RANK.format(m=32, n=32, k=8, batch=32), False),
    "four times the work": Case(slow_products.order, RANK.format(m=12, n=12, k=2, batch=2)),
    "less than four times the work": Case(slow_products.order, RANK.format(m=12, n=12, k=4, batch=4), False),
    "einsum": Case(slow_products.order, EINSUM.format(m=64, eq="or,ri,bi->bo"), True, of_pytorch),
    "einsum of core, which takes the best order": Case(
        slow_products.order, EINSUM.format(m=64, eq="or,ri,bi->bo"), False
    ),
    "einsum of small sizes": Case(slow_products.order, EINSUM.format(m=4, eq="or,ri,bi->bo"), False, of_pytorch),
    "256 taps": Case(slow_products.filters, CONV.format(d=1, s="1, 1, 999", w="1, 1, 256")),
    "255 taps": Case(slow_products.filters, CONV.format(d=1, s="1, 1, 999", w="1, 1, 255"), False),
    "27 × 27 taps": Case(slow_products.filters, CONV.format(d=2, s="1, 1, 40, 40", w="1, 1, 27, 27")),
    "26 × 26 taps": Case(slow_products.filters, CONV.format(d=2, s="1, 1, 40, 40", w="1, 1, 26, 26"), False),
    "svd in full": Case(slow_products.decompositions, "d = torch.randn(36, 12)\nU, S, V = torch.linalg.svd(d)"),
    "svd in full of almost a square": Case(
        slow_products.decompositions, "d = torch.randn(23, 12)\nU, S, V = torch.linalg.svd(d)", False
    ),
    "svd in short": Case(
        slow_products.decompositions,
        "d = torch.randn(36, 12)\nU, S, V = torch.linalg.svd(d, full_matrices=False)",
        False,
    ),
    "qr in full": Case(
        slow_products.decompositions, "d = torch.randn(36, 12)\nQ, R = torch.linalg.qr(d, mode='complete')"
    ),
    "an inverse that is multiplied": Case(
        slow_products.decompositions, "d = torch.randn(12, 12)\ny = torch.linalg.inv(d) @ x.T[:12]"
    ),
    "an inverse that is read": Case(
        slow_products.decompositions, "d = torch.randn(12, 12)\ni = torch.linalg.inv(d)\ny = i @ d\nz = i.sum()", False
    ),
    "pairs": pairs(DISTANCES, True),
    "pairs of less": pairs(DISTANCES, False, largest=MANY - 1),
    "products of pairs": pairs("(a[:, None] * b[None]).sum(-1)", True),
    "products of pairs, squared": pairs("((a[:, None] * b[None]) ** 2).sum(-1)", False),
    "pairs with few rows": pairs(DISTANCES, False, m=7),
    "pairs that are spread": pairs("((a[:, None].expand(16, 16, 8) - b[None].expand(16, 16, 8)) ** 2).sum(-1)", True),
    "pairs that are spread as others": pairs(
        "((a[:, None].expand_as(torch.ones(16, 16, 8)) - b[None].expand_as(torch.ones(16, 16, 8))) ** 2).sum(-1)", True
    ),
    "pairs of powers": pairs("(a[:, None] - b[None]).abs().pow(3).sum(-1)", True),
    "pairs of means": pairs("(a[:, None] - b[None]).square().mean(-1)", True),
    "pairs of norms": pairs("(a[:, None] - b[None]).norm(dim=-1)", True),
    "pairs of roots": pairs("(a[:, None] - b[None]).abs().sqrt().sum(-1)", False),
    "pairs that are read twice": pairs("(lambda d: (d ** 2).sum(-1) + d.amax(-1))(a[:, None] - b[None])", False),
    "pairs with eight rows": pairs(DISTANCES, True, m=8),
    "pairs with few rows of many": pairs(
        DISTANCES.replace("a[", "a.repeat(1, 4)[").replace("b[", "b.repeat(1, 4)["), False, m=7
    ),
    "pairs with fewer than 64 numbers": pairs("((a[:, None, :7] - b[None, :, :7]) ** 2).sum(-1)", False, m=9),
    "pairs summed over one side": pairs("((a[:, None] - b[None]) ** 2).sum(0)", False, n=17),
    "one sample in each of 64 steps": Case(slow_samples.single_samples, ONE.format(steps=64, of=16, size=1)),
    "one sample in each of 63 steps": Case(slow_samples.single_samples, ONE.format(steps=63, of=16, size=1), False),
    "two samples in each step": Case(slow_samples.single_samples, ONE.format(steps=64, of=16, size=2), False),
    "one of 16 samples in each step": Case(
        slow_samples.single_samples,
        "x = torch.tensor(np.ones((16, 16), np.float32))\n" + ONE.format(steps=64, of=16, size=1),
    ),
    "one of few samples in each step": Case(
        slow_samples.single_samples,
        "x = torch.tensor(np.ones((15, 16), np.float32))\n" + ONE.format(steps=64, of=15, size=1),
        False,
    ),
}


def said(name: str, traced: Any, space: Space) -> str:
    """What is said of a case: line and column, the message, the remedy, the ops that are marked, what it saves."""
    case = CASES[name]
    trace = traced(case.text, space)
    case.facts(trace)
    short = case.idiom is slow_samples.single_samples  # long ops are as they are
    shares = timed(trace, 100_000 if short else SECOND)
    found = list(case.idiom(shares))
    return "\n".join(
        f"{s.found.severity} · line {s.found.line}:{s.found.col} · {s.share:.2f}\n> {s.found.message}\n>\n"
        f"> {s.found.remedy}\n\nMarks {', '.join(f'{row.op} (line {row.line})' for row in s.found.rows)}.\n"
        for s in found
    )


STEP = "    opt.zero_grad()\n    F.cross_entropy({out}, labels).backward()\n    opt.step()"
FIXED = "body, head = nn.Linear(16, 8), nn.Linear(8, 4)\nopt = torch.optim.SGD(head.parameters(), lr=0.1)\n"
PASSES = (
    "net = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 8), nn.Linear(8, {n}))\n"
    "t = x.clone().requires_grad_()\nu = net(t)\nfor i in range({n}):\n"
    "    g = torch.autograd.grad(u[:, i].sum(), t, {keep}=True)"
)


def passes_alone(trace: Trace) -> None:
    """As if a pass cost nothing beside the call of it, whatever it goes through."""
    for row in trace.rows:
        row.reached = 0


def touched(rows: int, width: int, zeros: float) -> Callable[[Trace], None]:
    """As if the table had so many rows of a width, and its gradient a share of zeros."""

    def facts(trace: Trace) -> None:
        for leaf, gradient in trace.gradients.items():
            if leaf.shape == (50, 4):
                leaf.shape, gradient.zeros = (rows, width), zeros

    return facts


CASES |= {
    "a body that nobody trains": Case(
        slow_backward.for_nobody, FIXED + "for k in range(4):\n" + STEP.format(out="head(body(x))")
    ),
    "a body that nobody trains, in three steps": Case(
        slow_backward.for_nobody, FIXED + "for k in range(3):\n" + STEP.format(out="head(body(x))"), False
    ),
    "a body that is trained": Case(
        slow_backward.for_nobody,
        FIXED.replace("head.parameters()", "[*head.parameters(), *body.parameters()]")
        + "for k in range(4):\n" + STEP.format(out="head(body(x))"), False,
    ),
    "a pass for each of 8 outputs": Case(
        slow_backward.one_by_one, PASSES.format(n=8, keep="retain_graph"), True, passes_alone
    ),
    "a pass for each of 7 outputs": Case(
        slow_backward.one_by_one, PASSES.format(n=7, keep="retain_graph"), False, passes_alone
    ),
    "a table of 10,000 rows": Case(slow_backward.dense_tables, TABLE, True, touched(10_000, 64, 0.9)),
    "a table of 9,999 rows": Case(slow_backward.dense_tables, TABLE, False, touched(9_999, 64, 0.9)),
    "a table of 2 MB": Case(slow_backward.dense_tables, TABLE, True, touched(1 << 17, 4, 0.9)),
    "a table of less": Case(slow_backward.dense_tables, TABLE, False, touched((1 << 17) - 1, 4, 0.9)),
    "a gradient of four fifths zeros": Case(slow_backward.dense_tables, TABLE, True, touched(1 << 17, 4, 0.8)),
    "a gradient of fewer zeros": Case(slow_backward.dense_tables, TABLE, False, touched(1 << 17, 4, 0.79)),
}  # fmt: skip

# the ops that test_slow_handmade.py knows by their parts
BY_HAND = {
    "a layer norm": "(z - z.mean(-1, keepdim=True)) / (z.std(-1, keepdim=True) + 1e-6)",
    "an RMS norm": "z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + 1e-6)",
    "a softmax": "(lambda e: e / e.sum(-1, keepdim=True))(torch.exp(z))",
    "a GELU": "z * 0.5 * (1.0 + torch.erf(z / 2 ** 0.5))",
    "a SiLU": "z * torch.sigmoid(z)",
    "attention": "torch.softmax(q @ q.transpose(-2, -1) / 2.0, -1) @ q",
}
for _name, _code in BY_HAND.items():
    CASES[f"{_name} by hand"] = Case(slow_handmade.written, HAND.format(code=_code))
    CASES[f"{_name} by hand, in PyTorch"] = Case(slow_handmade.written, HAND.format(code=_code), True, of_pytorch)


@pytest.mark.parametrize("name", CASES)
def test_where_an_idiom_begins(name: str, traced: Any, space: Space) -> None:
    told = said(name, traced, space)
    assert bool(told) == CASES[name].found, told
    assert told == page(PAGE).get(name, "")


# of an einsum its shapes, the work from left to right and in the best order, and which two come first
@pytest.mark.parametrize(("equation", "shapes", "costs"), [
    ("or,ri,bi->bo", [(64, 2), (2, 64), (4, 64)], (24_576, 1_024, "the second and the third")),
    ("ab,bc,cd->ad", [(2, 64), (64, 8), (8, 64)], (2_048, 2_048, "the first and the second")),
    ("ab,cd,bc->ad", [(2, 64), (8, 64), (64, 8)], (131_072, 2_048, "the first and the third")),
    ("ab, bc, cd -> ad", [(2, 64), (64, 8), (8, 64)], (2_048, 2_048, "the first and the second")),
    ("ab,bc,cd->ad", [(2, 64), (64, 8)], None),
    ("ab,bc->ac", [(2, 64), (64, 8), (8, 64)], None),
    ("ab,bc,cd", [(2, 64), (64, 8), (8, 64)], None),
    ("...ab,bc,cd->ad", [(2, 64), (64, 8), (8, 64)], None),
    ("ab,bc,cd->ad", [(2, 64), (64, 8, 1), (8, 64)], None),
    ("ab,bc,cd->ad", [(1, 64), (64, 8), (8, 64)], (1_024, 1_024, "the first and the second")),
])  # fmt: skip
def test_the_work_of_an_einsum(equation: str, shapes: list[tuple[int, ...]], costs: Any) -> None:
    assert slow_products._costs(equation, shapes) == costs


# calls that are slow for a reason that is known, and the first words of what they do; "" for others
@pytest.mark.parametrize(("does", "codes"), [
    ("makes a tensor of Python's values",
     ["torch.tensor(rows)", "as_tensor(a)", "torch.FloatTensor(a)", "LongTensor(a)", "torch.DoubleTensor(a)",
      "torch.IntTensor(a)", "torch.BoolTensor(a)", "torch.Tensor(a)"]),
    ("makes an array of Python's values", ["np.array(a)", "np.asarray(a)", "np.stack(a)", "np.vstack(a)"]),
    ("writes a file", ["torch.save(a, f)", "core.save(a, f)", "pickle.dump(a, f)", "pickle.dumps(a)", "np.save(f, a)",
                       "np.savez(f, a)", "joblib.dump(a, f)", "t.to_csv(f)", "json.dump(a, f)", "json.dumps(a)"]),
    ("reads a file", ["torch.load(f)", "core.load(f)", "pickle.load(f)", "pickle.loads(s)", "np.load(f)",
                      "joblib.load(f)", "pd.read_csv(f)", "plt_imread(f)", "Image.open(f)", "open(f)", "json.load(f)",
                      "json.loads(s)"]),
    ("copies objects in depth", ["copy.deepcopy(net)"]),
    ("draws by weights", ["rng.choice(n, p=w)", "random.choices(a, weights=w)"]),
    ("draws in Python", ["random.sample(a, 3)", "random.choice(a)", "random.choices(a)",
                         "random.shuffle(a)"]),
    ("takes single values out of tensors", ["a.tolist()", "a.item()", "a.numpy()"]),
    ("draws a figure", ["plt.plot(a)", "ax.plot(a)", "fig.show()", "savefig(f)"]),
    ("goes through a table row by row", ["t.iterrows()", "t.iloc[3]", "t.loc[3]", "t.apply(f)"]),
    ("", ["a + b", "net(x)", "Spike.apply(v)", "my_tensor(a)", "reopen(f)", "random.random()", "np.dot(a, b)",
          "a.to(b)"]),
])  # fmt: skip
def test_calls_whose_slowness_is_known(does: str, codes: list[str]) -> None:
    for code in codes:
        known = known_call(code)
        assert (known.does[: len(does)] if known is not None else "") == does, code


@pytest.mark.parametrize(("text", "whole"), [
    ("for k in range(4): y = torch.tanh(x + k)", True),
    ("for k in range(4): y = torch.tanh(x[k])", False),
    ("for k in range(4): y = torch.tanh(x.sum() + k)", False),
])  # fmt: skip
def test_ops_on_whole_batches_are_none_on_elements(text: str, whole: bool, traced: Any, space: Space) -> None:
    rows = [row for row in traced(text, space).rows if not row.cut]
    assert of_batches(rows) is whole


# (ns of what is saved, of the cell, of the queue for a processor) and the share of the cell's time that it is
@pytest.mark.parametrize(("ns", "total", "queue", "share"), [
    (20_000_000, 200_000_000, 0, 0.1),
    (19_999_999, 100_000_000, 0, 0.0),
    (20_000_000, 200_000_010, 0, 0.0),
    (100_000_000, 100_000_000, 0, 0.99),
    (98_000_000, 100_000_000, 0, 0.98),
    # half of the time others ran: of the half that is left a root of 50 × 8 million squared goes as chance
    (100_000_000, 100_000_000, 50_000_000, 0.99),
    (80_001_000, 100_000_000, 50_000_000, 0.80001),
    (79_999_000, 100_000_000, 50_000_000, 0.0),
])  # fmt: skip
def test_what_is_worth_a_word(traced: Any, space: Space, ns: int, total: int, queue: int, share: float) -> None:
    trace = traced("y = x + 1", space)
    timed(trace)
    for row in trace.rows:
        row.forward_ns = 0
    trace.wall_ns, trace.starved_ns = total, queue
    assert Shares(trace).worth(ns) == pytest.approx(share)


def test_whose_time_it_is(traced: Any, space: Space) -> None:
    """What the recorder and imports took is none of the cell's; ops that took longer than that are its least."""
    trace = traced("y = x + 1", space)
    timed(trace)
    (row,) = trace.rows
    assert Shares(trace).total == SECOND
    trace.backward_ns, trace.update_ns = 3, 5
    assert Shares(trace).total == SECOND + 8
    row.phase = "update"
    assert Shares(trace).total == 8
    trace.wall_ns, trace.own_ns, trace.around_ns = 1_000, 100, 20
    trace.samples["import"] = Sample("import", (), ns=300)
    trace.samples["python"] = Sample("python", (), ns=70)
    shares = Shares(trace)
    assert (shares.total, shares.looked) == (580, 70)
    for starved, blind, fair in ((200, 50, True), (200, 51, False), (251, 0, False)):
        trace.starved_ns, trace.blind_ns = starved, blind
        assert Shares(trace).fair == fair
    trace.sampled_ns = 1  # looks of C's count the time that the cell itself had
    assert Shares(trace).fair


def write() -> None:
    """Write the page anew."""
    sections = []
    for name in (name for name, case in CASES.items() if case.found):
        with pytest.MonkeyPatch.context() as patch:
            told = said(name, traced_of(patch), space_of())
        sections.append(f"## {name}\n\n{told}")
    intro = "What is said of slow code by a clock of one second for each run of an op (see test_slow_code.py).\n"
    PAGE.write_text("# Slow code\n\n" + intro + "\n" + "\n".join(sections), encoding="utf-8")


if __name__ == "__main__":
    write()


@pytest.mark.parametrize(("layers", "model"), [(9, False), (10, True)])
def test_python_between_the_layers_of_a_deep_model_is_the_models(layers: int, model: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        text = f"net = nn.Sequential(*[nn.Linear(16, 16) for _ in range({layers})])\ny = net(x)"
        trace = traced_of(patch)(text, space_of())
    timed(trace)
    busy = Busy(trace.rows[0].chain, 100.0 * SECOND, 90.0 * SECOND, rows=trace.rows)
    assert slow_general._in_model(busy) is model


MIXTURE = """
torch.manual_seed(0)
def shares(points, centres, spreads):
    out = torch.zeros(len(points), len(centres))
    for i in range(len(points)):
        for k in range(len(centres)):
            low = torch.linalg.cholesky(spreads[k])
            out[i, k] = -torch.linalg.solve_triangular(low, (points[i] - centres[k])[:, None], upper=False).pow(2).sum()
    return out.softmax(1)
points = torch.randn(250, 5)
centres, spreads = points[:4].clone(), torch.eye(5).repeat(4, 1, 1)
for turn in range(6):
    weights = shares(points, centres, spreads)
    centres = weights.T @ points / weights.sum(0)[:, None]
"""


def test_what_a_turn_of_the_loop_moves_is_not_run_once_before_it(cell: Any, space: Space) -> None:
    told = [f.message for f in cell(MIXTURE, space).findings]
    assert not any("cannot change anew" in message for message in told), told
