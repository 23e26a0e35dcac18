"""Remedies that a sentence does not write out: where indices, draws, batches, sums and states are the cause."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path

import pytest

from core.base import source
from lab.prove import families  # noqa: F401 - fills the table of remedies
from lab.prove.proving import Prover, alone_s
from lab.prove.remedies import guesses, patches
from lab.prove.snapshot import Scene, Snapshot
from lab.prove.verdict import runs_less
from widgets.record import Finding

from .cells import names, planted, recorded, text_of


def warning(kind: str, message: str, remedy: str, line: int = 1) -> Finding:
    return Finding(kind, "warning", line, message=message, remedy=remedy)


ADD = "`self.sq / self.n - self.mean ** 2` loses all digits of a variance"
SUMS = """\
class Stats:
    def __init__(self, dim):
        self.n = 0
        self.sq = torch.zeros(dim)
    def update(self, x):
        self.n += x.shape[0]
        self.sq += (x ** 2).sum(0)
    @property
    def mean(self):
        return self.s / self.n
    def std(self):
        var = self.sq / self.n - self.mean ** 2
        return var.sqrt()
"""
WIDE = (
    SUMS.replace("torch.zeros(dim)", "torch.zeros(dim, dtype=torch.float64)")
    .replace("(x ** 2)", "(x.double() ** 2)")
    .replace("self.mean **", "(self.s / self.n) **")
    .replace("return var.sqrt()", "return (var.sqrt()).float()")
)
CASES = {
    "sums in float64": (warning("dtype", ADD, "or subtract a first value and add up in float64.", 12), SUMS, WIDE),
    "ranks": (
        warning("cut", "", "Go on with its values: weigh by them what the indices choose."),
        "r = torch.argsort(torch.argsort(p)).float()",
        "r = (p[:, None] - p[None]).sigmoid().sum(1).float()",
    ),
    "a value that is written into a copy": (
        warning("error", "Line 1 changes it", "Put the parts together anew, or write into a clone()."),
        "s[t] = f(s[t - 1])",
        "new = f(s[t - 1])\ns = s.clone()\ns[t] = new",
    ),
    "the size of each batch": (
        warning(
            "error", "Line 1 gives a last batch of 16, and line 2 fails after 2 batches of 24 went well", "Ask.", 1
        ),
        "for k, (a, b) in enumerate(loader):\n    h = torch.zeros(1, 24, 8)",
        "for k, (a, b) in enumerate(loader):\n    h = torch.zeros(1, len(a), 8)",
    ),
    "the longest of a batch": (
        warning("slow", "Line 1 fills", "Fill up to the longest of each batch."),
        "ids = torch.tensor([t + [0] * (longest - len(t)) for t in part])",
        "ids = torch.tensor([t + [0] * (max(map(len, part)) - len(t)) for t in part])",
    ),
    "what freezes a network that nothing trains": (
        warning("optimizer", "Line 2 runs body in evaluation mode", "Run it under torch.no_grad(), or freeze it.", 2),
        "for xb in data:\n    h = body(xb)",
        "body.requires_grad_(False)\nfor xb in data:\n    h = body(xb)",
    ),
    "a count in the loop": (
        warning("evaluation", "compares after the loop over the batches (line 1) (`p == y`)", "Count in the loop.", 3),
        "for i in x:\n    p = f(i)\nprint((p == y).float().mean())",
        "hits, count = 0, 0\nfor i in x:\n    p = f(i)\n    hits += (p == y).sum().item()\n    count += len(y)\n"
        "print((hits / count))",
    ),
    "figures of the training part": (
        warning("evaluation", "line 2 splits it only afterwards (`z[48:]`)", "take those of the training part"),
        "z = (x - x.mean(0)) / x.std(0)",
        "z = (x - x[:48].mean(0)) / x[:48].std(0)",
    ),
    "what a quoted call is given": (
        warning("data", "Line 1 gives sin degrees (`torch.sin(a)`)", "Bring it to radians: torch.deg2rad(a)."),
        "f = torch.sin(a), torch.cos(a)",
        "f = torch.sin(torch.deg2rad(a)), torch.cos(torch.deg2rad(a))",
    ),
    "one name of two": (
        warning("loss", "Line 1 gives both the same sign", "Write dp = -d[:, 0]."),
        "dq, dp = d[:, 1], d[:, 0]",
        "dq, dp = d[:, 1], -d[:, 0]",
    ),
    "a matrix that does not change": (
        Finding("slow", "note", 2),
        "for k in s:\n    u = torch.linalg.solve(A, r)",
        "factors = torch.linalg.lu_factor(A)\nfor k in s:\n"
        "    u = torch.linalg.lu_solve(*factors, (r).reshape(len(r), -1)).reshape((r).shape)",
    ),
    "rows of what is frozen": (
        warning("slow", "Line 3 computes anew", "Run it once over the data, before the epochs.", 3),
        "for e in x:\n    for i in y:\n        h = base(X[i] * 2)",
        "with torch.no_grad():\n    rows = base(X * 2)\nfor e in x:\n    for i in y:\n        h = rows[i]",
    ),
    "two arrays that grow in one loop": (
        Finding("slow", "note", 2),
        "for r in x:\n    a = np.vstack([a, r])\n    b = np.vstack([b, f(r)])",
        "a_parts = [a]\nb_parts = [b]\nfor r in x:\n    a_parts.append(r)\n    b_parts.append(f(r))\n"
        "a = np.vstack(a_parts)\nb = np.vstack(b_parts)",
    ),
    "counts of an array": (
        warning("slow", "Line 2", "Do it for all values at once.", 2),
        "c = np.zeros((3, 3))\nfor p, t in zip(a, b):\n    c[t, p] += 1",
        "c = np.zeros((3, 3))\nnp.add.at(c, (b, a,), 1)",
    ),
    "a loss that is added up": (
        warning(
            "loss", "Line 2 makes loss anew", "Add them up: loss = 0 before the loop, and loss = loss + ... in it.", 2
        ),
        "for t in x:\n    loss = f(t)\nloss.backward()",
        "loss = 0\nfor t in x:\n    loss = loss + f(t)\nloss.backward()",
    ),
    "gradients of all outputs in one pass": (
        warning("slow", "Line 2 goes back", "grad(..., is_grads_batched=True) or vmap", 2),
        "for i in range(n):\n    g = torch.autograd.grad(y[:, i].sum(), x, retain_graph=True)[0]\n    J[:, i, :] = g",
        "J[:, :, :] = torch.autograd.grad(y, x, torch.eye(n).reshape(n, *[1] * (y.dim() - 1), n).expand(n, *y.shape),"
        " is_grads_batched=True)[0].transpose(0, 1)",
    ),
    "gradients of all outputs in a list": (
        warning("slow", "Line 2 goes back", "grad(..., is_grads_batched=True) or vmap", 2),
        "for i in range(4):\n    rows.append(grad(y[i], x, create_graph=True)[0])",
        "rows.extend(grad(y, x, torch.eye(4).reshape(4, *[1] * (y.dim() - 1), 4).expand(4, *y.shape),"
        " is_grads_batched=True, create_graph=True)[0])",
    ),
    "a mask before the softmax": (
        warning(
            "layout", "Line 2 masks (`w.masked_fill(m, -1e9)`)", "Mask the scores, and take the softmax of those.", 2
        ),
        "w = F.softmax(q @ k.T / 8, dim=-1)\nw = w.masked_fill(m, -1e9)",
        "w = q @ k.T / 8\nw = w.masked_fill(m, -1e9).softmax(-1)",
    ),
    "each row without itself": (
        warning("loss", "Line 1 compares", "Take it out of the sum: a * (1 - torch.eye(len(a)))."),
        "a = (z @ z.T).exp()\nl = a.sum(1)",
        "a = (z @ z.T).exp()\na = a * (1 - torch.eye(len(a)))\nl = a.sum(1)",
    ),
    "a layer that is put in later": (
        warning("optimizer", "Line 7 steps", "Make the optimizer after the model, of the parameters of the model.", 7),
        "class T:\n    def new(self):\n        self.net.fc = nn.Linear(8, 2)\n    def fit(self, x):\n"
        "        self.opt.zero_grad()\n        f(x).backward()\n        self.opt.step()",
        "class T:\n    def new(self):\n        self.net.fc = nn.Linear(8, 2)\n"
        "        self.opt.add_param_group({'params': list(self.net.fc.parameters())})\n    def fit(self, x):\n"
        "        self.opt.zero_grad()\n        f(x).backward()\n        self.opt.step()",
    ),
    "back to training mode behind an evaluation": (
        warning("mode", "Line 9 trains net in evaluation mode (every step)", "Call train().", 2),
        "def judge(net):\n    net.eval()\n    return f(net)",
        "def judge(net):\n    net.eval()\n    net.train()\n    return f(net)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_makes_the_change(name: str) -> None:
    finding, text, new = CASES[name]
    assert new in [patch.text for patch in patches(text, finding)]


HELD = [
    "argmax as input to next", "multinomial sample policy", "a metric of NumPy's as the loss", "a critic with one sign",
    "loss between input and target", "shapes that do not fit", "epsilon turned", "gradients of a target network",
    "the model in place of the image", "a mask that is put on once", "steps too small for bfloat16",
    "a state for more samples than the last batch has", "an F1 of batches",
]  # fmt: skip


@pytest.mark.usefixtures("trials")
@pytest.mark.parametrize("name", HELD)
def test_the_remedy_of_a_cell_holds(name: str) -> None:
    text = text_of(name)
    with planted(text) as (record, snapshot):
        found = Prover(snapshot, text, alone_s(record)).finding(record.findings[0])
    assert found is not None
    assert found[0].level in ("proved", "consistent"), found[0].said


def test_a_network_that_trains_may_not_be_frozen() -> None:
    text = text_of("gradients of a target network")
    with planted(text) as (record, snapshot):
        prover = Prover(snapshot, text, alone_s(record))
        patch = patches(text, record.findings[0])[0]
        both = type(patch)("", patch.text.replace("late.requires_grad_(False)", "late.requires_grad_(False); "
                                                  "q.weight.requires_grad_(False)"))  # fmt: skip
        verdict = prover.one(record.findings[0].kind, both)
    assert both.text != patch.text
    assert verdict.level == "refuted", verdict.said


def test_lines_behind_another_condition_may_run_less() -> None:
    old, new = "if a < b:\n    f()\ng()", "if a > b:\n    f()\ng()"
    assert runs_less(old, new, {2: 3, 3: 9}, {2: 6, 3: 4}, True) == ""
    assert runs_less(old, new, {2: 3, 3: 9}, {2: 6}, True) == "line 3 no longer runs"
    assert runs_less(old, f"{old}\nh()", {2: 3, 3: 9}, {2: 6, 3: 4}, True) == "line 3 runs 4 times instead of 9 times"


def test_a_file_that_the_cell_is_the_first_to_import_is_changed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = "import {library} as torch\ndef root(a):\n    return ((a ** 2) * 0.0).sqrt()\n".format(library="core")
    Path(tmp_path, "first_roots.py").write_text(roots)
    monkeypatch.syspath_prepend(str(tmp_path))
    space = names("core")
    text = (
        "from first_roots import root\nnet = nn.Linear(16, 4)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for i in range(3):\n    opt.zero_grad()\n    root(net(x)).mean().backward()\n    opt.step()\n"
    )
    snapshot = Snapshot(Scene(space))
    try:
        record = recorded(text, space)
        found = Prover(snapshot, text, 0.1).finding(record.findings[0])
    finally:
        snapshot.close()
        sys.modules.pop("first_roots", None)
    assert found is not None
    assert (found[0].level, found[1].name) == ("proved", "first_roots.py")


def test_what_made_a_thing_is_a_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    made = "loader = DataLoader(rows, batch_size=64)\nact = nn.ReLU()\n"
    linecache.cache["one.py"] = len(made), None, made.splitlines(True), "one.py"
    monkeypatch.setattr(source, "name_of_file", lambda file: "In [1]" if file == "one.py" else None)
    try:
        (first, *_) = patches(
            "for xb in loader:\n    net(xb)", warning("error", "", "Leave it out: drop_last=True.", 2)
        )
        smooth = guesses("u = net(x)", warning("gradient", "Line 1", "Take a smooth activation in the network."))
    finally:
        linecache.cache.pop("one.py")
    assert (first.file, first.text) == ("one.py", made.replace("64)", "64, drop_last=True)"))
    assert smooth[0].guess
    assert smooth[0].text == made.replace("ReLU", "Tanh")
