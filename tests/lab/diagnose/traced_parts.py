"""Programs for test_traced_rules.py of which a part is read, or whose loops run small ops, by a clock."""

from __future__ import annotations

from typing import Any

from lab.diagnose.finding import Found
from lab.diagnose.speed import slow_evaluation, slow_parts, slow_turns
from lab.recorder.cell_trace import Trace

from .test_slow_code import rows_of, timed
from .traced_case import Case
from .traced_slow import by_clock

STEPS = (
    "net, X = nn.Linear(16, 4), torch.randn({rows}, 16)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    "for k in range({steps}):\n    loss = F.cross_entropy(net(x[:2]), labels[:2])\n    opt.zero_grad()\n"
    "    loss.backward()\n    opt.step()\n    z = net(X).argmax(1)"
)
TURNS = (
    "w = P(16, 4)\nfor e in range(3):\n    parts = []\n    for k in range({n}):\n        {code}\n"
    "    z = torch.stack(parts)"
)
HEADS = (
    "heads = nn.ModuleList([nn.{layer} for _ in range(12)])\nt = torch.randn({shape})\nfor e in range(40):\n"
    "    z = [\n        head(t{part})\n        for j, head in enumerate(heads)\n    ]"
)


def part(code: str, found: bool = True, before: str = "") -> Case:
    """A result of 6,400 values or more of which something reads a part."""
    text = f"t, u = torch.rand(100, 64), torch.rand(64, 100)\n{before}y = {code}"
    return Case(by_clock(slow_parts.partly, wall=2.0, op=1.0), text, found)


def scaled(code: str, found: bool = True) -> Case:
    return Case(
        by_clock(slow_parts.scaled, wall=2.0, op=1.0), f"d, A = torch.rand(16), torch.rand(16, 16)\ny = {code}", found
    )


def vectors(code: str, found: bool = True) -> Case:
    return Case(by_clock(slow_parts.vectors, wall=2.0, op=1.0), f"A = torch.rand(8, 8)\nA = A + A.T\n{code}", found)


def judged(rows: int = 16, steps: int = 16, found: bool = True) -> Case:
    def rule(trace: Trace, explained: set[Any]) -> list[Found]:
        shares = timed(trace)
        for row in rows_of(trace, "linear"):
            row.forward_ns *= 20 if row.line == 8 else 1
        return [saving.found for saving in slow_evaluation.judged_each_step(shares)]

    return Case(rule, STEPS.format(rows=rows, steps=steps), found)


def turns(code: str, found: bool = True, n: int = 200, op: float = 0.0001) -> Case:
    looks: Any = (5, "op", 8.0, 9), (6, "op", 2.0, 3)
    return Case(by_clock(slow_turns.small_turns, *looks, op=op), TURNS.format(n=n, code=code), found)


def heads(layer: str, shape: str, part: str) -> Case:
    rule = by_clock(slow_turns.small_turns, (5, "op", 8.0, 9), (2, "op", 2.0, 1), op=0.0001)
    return Case(rule, HEADS.format(layer=layer, shape=shape, part=part))


PARTS = {
    "a twentieth of what is computed": part("(t * 2.0)[:5]"),
    "a fifth of what is computed": part("(t * 2.0)[:20]"),
    "more than a fifth": part("(t * 2.0)[:21]", False),
    "a part, and all of it": part("v[:5]", False, "v = t * 2.0\ns = v.sum()\n"),
    "a part of few values": part("(t[:10] * 2.0)[:1]", False),
    "a part of a softmax": part("torch.softmax(t, 1)[:, 0]", False),
    "a diagonal of a product": part("(t @ u).diagonal()"),
    "the trace of a product": part("torch.trace(t @ u)"),
    "the last row of a layer": part("nn.Linear(64, 80)(t)[-1]"),
    "the first of those in order": part("torch.sort(t, 0)[0][:3]"),
    "the last of the sums": part("torch.cumsum(t, 0)[-1]"),
    "a diagonal matrix by a matrix": scaled("torch.diag(d) @ A"),
    "a matrix by a diagonal matrix": scaled("A @ torch.diag(d)"),
    "a full matrix by a matrix": scaled("(A + torch.diag(d)) @ A", False),
    "singular values alone": vectors("U, S, V = torch.linalg.svd(A)\ny = S * 2.0"),
    "singular values and vectors": vectors("U, S, V = torch.linalg.svd(A)\ny = U * S", False),
    "singular values, taken": vectors("y = torch.linalg.svd(A)[1]"),
    "singular vectors, taken": vectors("y = torch.linalg.svd(A)[2]", False),
    "eigenvalues alone": vectors("e, v = torch.linalg.eigh(A)\ny = e * 2.0"),
    "eigenvectors alone": vectors("e, v = torch.linalg.eigh(A)\ny = v * 2.0", False),
    "all rows after each step": judged(),
    "eight times the batch": judged(rows=16),
    "less than eight times the batch": judged(rows=15, found=False),
    "all rows after each of fewer steps": judged(steps=15, found=False),
    "a turn for each row": turns("parts.append(torch.tanh(x[k % 64] @ w))"),
    "a turn for each row, of long ops": turns("parts.append(torch.tanh(x[k % 64] @ w))", False, op=0.001),
    "few turns": turns("parts.append(torch.tanh(x[k % 64] @ w))", False, n=5),
    "a turn that the next needs": turns("w = torch.tanh(w + x[k % 64, :4]); parts.append(w)", False),
    "elements that others follow": turns("w.data[k % 15] = w.data[k % 15 + 1] + x[k % 64, :4]; parts.append(w)", False),
    "turns that compare all values": turns(
        "parts.append((x == k).sum())"
    ),
    "heads of one shape": heads("Linear(8, 3)", "4, 8", ""),
    "filters of one shape": heads("Conv1d(1, 1, 3)", "4, 12, 9", "[:, j : j + 1]"),
}  # fmt: skip
