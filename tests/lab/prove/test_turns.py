"""Remedies for loops that compute one row in each turn, and for what each turn computes anew: the values stay as they
were."""

from __future__ import annotations

import itertools
import random
from collections import deque
from typing import Any

import numpy as np
import pytest

from lab.prove import families  # noqa: F401 - fills the table of remedies
from lab.prove.criteria import Runs, in_vain
from lab.prove.elsewhere import Place
from lab.prove.families import earlier
from lab.prove.remedies import patches
from widgets.record import Finding

from .cells import names

AT_ONCE = "Give all of them to the ops at once, along a dimension of their own: broadcasting, gather, index_add."
GROUPS = (
    "Do not go through all values once for each group: index_add, scatter_reduce or bincount by the group's number."
)
POINTS = "Give all points to the model at once, and take one gradient of the sum of what it gives: each gets its part."
STATE = "Keep the hidden state that the layer returns, give it to the next call, and feed only what is new."
NET = "torch.manual_seed(0)\nnet = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3))\n"
CASES = {
    "pairs of boxes": (
        "All of them at once, by vmap", AT_ONCE, 8,
        "a, b = x[:5, :4], x[5:8, :4]\ndef iou(p, q):\n    lo = torch.maximum(p[:2], q[:2])\n"
        "    return (p[2:] - lo).clamp(min=0).prod()\nout = torch.zeros(len(a), len(b))\nfor i in range(len(a)):\n"
        "    for j in range(len(b)):\n        out[i, j] = iou(a[i], b[j])\n",
    ),
    "pixels of a field": (
        "All of them at once, by vmap", AT_ONCE, 7,
        "us, vs = x[0, :4], x[1, :3]\nlayer = nn.Linear(2, 5)\nout = torch.zeros(4, 3, 5)\nwith torch.no_grad():\n"
        "    for i in range(4):\n        for j in range(3):\n            p = torch.stack([vs[j], us[i]])\n"
        "            out[i, j] = layer(p)\n",
    ),
    "some rows, appended": (
        "All of them at once, by vmap", AT_ONCE, 4,
        "out = []\nfor i in range(6):\n    h = x[i] * 2\n    out.append(h @ x[i])\nout = torch.stack(out)\n",
    ),
    "samples by components": (
        "All rows in each turn of the other loop", AT_ONCE, 4,
        "mu, out = x[:4], torch.zeros(len(x), 4)\nfor i in range(len(x)):\n    for k in range(4):\n"
        "        out[i, k] = labels[k] + (x[i] * mu[k]).sum(-1)\n",
    ),
    "a batch of transitions": (
        "Call it once for all rows", AT_ONCE, 9,
        NET + "memory = [(x[k], k % 3, x[k + 1], k % 4 == 0) for k in range(9)]\ngoals, values = [], []\n"
        "for state, action, following, done in memory:\n    goal = 1.0\n    if not done:\n"
        "        with torch.no_grad():\n            goal = net(following).max().item()\n"
        "    values.append(net(state)[action])\n    goals.append(goal)\n"
        "out = torch.cat([torch.stack(values), torch.tensor(goals)])\n",
    ),
    "batches of one": (
        "Call it once for all rows", "Give it all rows at once: an op over many rows costs little more.", 5,
        NET + "out = torch.zeros(8)\nfor i in range(8):\n    p = net(x[i].unsqueeze(0))\n"
        "    out[i] = p[0, int(labels[i]) % 3]\n",
    ),
    "notes after notes": (
        "Give it its state, and what is new alone", STATE, 11,
        "torch.manual_seed(0)\nclass Tune(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.e, self.g = nn.Embedding(5, 8), nn.GRU(8, 5, batch_first=True)\n"
        "    def forward(self, n, h=None):\n        return self.g(self.e(n), h)\n"
        "model, out = Tune(), torch.zeros(2, 1).long()\nfor _ in range(6):\n    p, _ = model(out)\n"
        "    out = torch.cat([out, p[:, -1].argmax(-1, keepdim=True)], dim=1)\n",
    ),
    "a kernel matrix": (
        "Factorise it once", "Compute it once where the matrix does not change.", 6,
        "class GP:\n    def __init__(self, k, y):\n        self.y = y\n        self.K = k\n    def predict(self, z):\n"
        "        return torch.linalg.solve(self.K, self.y) @ z, torch.linalg.solve(self.K, z)\n"
        "gp = GP(torch.eye(64) * 3 + x @ x.T, y)\nout = torch.cat([part for k in range(3) for z in [x[:, k : k + 2]]\n"
        "                 for part in (gp.predict(z)[0][None], gp.predict(z)[1])])\n",
    ),
    "an adjacency matrix": (
        "Make it sparse", "Keep it sparse, made once: torch.sparse.mm(matrix.to_sparse(), h).", 3,
        "adj = torch.eye(64) * 2\ndef forward(h, adj):\n    h = torch.relu(adj @ h)\n    return adj @ h\n"
        "out = forward(x, adj)\n",
    ),
    "draws from a deque": (
        "Keep a list", "Keep them in a list, whose elements are all equally near, and write over the oldest.", 6,
        "random.seed(0)\nclass Memory:\n    def __init__(self, most):\n        self.rows = deque(maxlen=most)\n"
        "    def put(self, row):\n        self.rows.append(row)\nmemory = Memory(5)\nfor k in range(9):\n"
        "    memory.put(k)\nout = torch.tensor(random.sample(memory.rows, 3))\n",
    ),
    "neighbours by a scan": (
        "Add up by the group's number", GROUPS, 4,
        "src, dst = labels[:32] * 3, labels[32:]\nout = torch.zeros_like(x)\nfor v in range(len(x)):\n"
        "    near = src[dst == v]\n    if len(near) > 0:\n        out[v] = x[near].mean(dim=0)\n",
    ),
    "neighbours by lists": (
        "Add up by the group's number", AT_ONCE, 4,
        "near = [torch.arange(k + 1) for k in range(7)]\nfound = []\nfor v in range(7):\n"
        "    found.append(x[near[v]].mean(dim=0))\nout = torch.stack(found)\n",
    ),
    "a Jacobian for each state": (
        "Give it all at once", POINTS, 8,
        NET + "out = torch.zeros(5, 3, 16)\nfew = x[:5]\nfor n in range(len(few)):\n"
        "    s = few[n].clone().requires_grad_(True)\n    v = net(s)\n    for i in range(len(v)):\n"
        "        out[n, i] = torch.autograd.grad(v[i], s, retain_graph=True)[0]\n",
    ),
}  # fmt: skip


def ran(text: str) -> dict[str, Any]:
    space = {**names("core"), "random": random, "deque": deque}
    exec(text, space)
    return space


@pytest.mark.parametrize("name", CASES)
def test_the_values_stay_as_they_were(name: str) -> None:
    said, advice, line, text = CASES[name]
    found = patches(text, Finding("slow", "note", line, message=f"Line {line} runs often", remedy=advice))
    new = [patch.text for patch in found if patch.said == said]
    assert new, [patch.said for patch in found]
    np.testing.assert_allclose(ran(new[0])["out"].detach(), ran(text)["out"].detach(), rtol=1e-4, atol=1e-5)


def test_what_nobody_trains_is_frozen() -> None:
    finding = Finding(
        "slow", "note", 2, message="Line 2 computes gradients that nobody uses: backward() goes on through body.",
        remedy="Run it under torch.no_grad(), or freeze it: body.requires_grad_(False).",
    )  # fmt: skip
    new = [patch.text for patch in patches("for x in data:\n    h = body(x)\n", finding)]
    assert "body.requires_grad_(False)\nfor x in data:\n    h = body(x)\n" in new
    found = {"found": [{"message": finding.message}]}
    assert in_vain(Runs({}, {}, found, found))


def test_what_each_turn_needs_of_the_last_is_no_function_of_one() -> None:
    finding = Finding("slow", "note", 3, message="Line 3 runs often", remedy=AT_ONCE)
    text = "out = []\nfor i in range(6):\n    h = f(h, x[i])\n"
    assert not [patch for patch in patches(text, finding) if "vmap" in patch.said]


SCORES = "w = (x @ x.T).softmax(-1)\nw = w.masked_fill(seen, -1e9)"
ROWS = {
    "a mask after the softmax": (
        ("layout", 2, "", "Mask the scores, and take the softmax of those."),
        SCORES,
        "w = torch.softmax((x @ x.T).masked_fill(seen, float('-inf')), -1)\n",
    ),
    "the smallest loss": (
        ("evaluation", 3, "(`loss > best`)", "Compare the other way round: if loss < best."),
        "best = 0.0\nfor e in y:\n    if loss > best:\n        best = loss",
        "best = float('inf')\nfor e in y:\n    if loss < best:\n        best = loss",
    ),
    "bytes": (
        ("dtype", 1, "Line 1 computes in uint8 (`a - b[1:]`)", "Make them float (or int16) first: a.float()."),
        "d = (a - b[1:]).abs()",
        "d = (a.float() - b[1:].float()).abs()",
    ),
    "returns": (
        ("data", 2, "", "Go from the end: for ... in reversed(...), and out.insert(0, R)."),
        "for r in rewards:\n    R = r + g * R\n    out.append(R)",
        "for r in reversed(rewards):\n    R = r + g * R\n    out.insert(0, R)",
    ),
    "a part without augmentation": (
        ("evaluation", 1, "(`aug=True`)", "Give it the transforms without the random ones."),
        "a, b = Digits(aug=True), Digits(aug=True)",
        "a, b = Digits(aug=True), Digits(aug=False)",
    ),
    "a set that is split": (
        ("evaluation", 2, "(`aug=True`)", "Make the set twice, with and without augmentation."),
        "data = Digits(aug=True)\na, b = random_split(data, [4, 2])",
        "data = Digits(aug=True)\na, b = random_split(data, [4, 2])\n"
        "b = torch.utils.data.Subset(Digits(aug=False), b.indices)",
    ),
    "a layer whose sizes are named": (
        ("error", 1, "490 features, and the layer takes 10", "Make the layer for them: nn.Linear(490, 10)."),
        "h = nn.Linear(in_features=hidden, out_features=10)",
        "h = nn.Linear(in_features=490, out_features=10)",
    ),
    "a sum of exponentials beside 1": (
        ("nan", 1, "Line 1 makes an infinity", "Subtract the maximum first, or use softmax, logsumexp or sigmoid."),
        "x = torch.sum(torch.exp(n - p), dim=1)\nloss = torch.mean(torch.log(1 + x))",
        "x = torch.logsumexp(nn.functional.pad(n - p, (1, 0)), dim=1)\nloss = torch.mean(x)",
    ),
    "a derivative of a derivative": (
        ("no-gradient", 2, "", "Compute the loss from the model's output: loss(output, target)."),
        "v = f(u, x, retain_graph=True)\nw = f(v, x, create_graph=True)",
        "v = f(u, x, create_graph=True)\nw = f(v, x, create_graph=True)",
    ),
    "the order of an LSTM": (
        ("layout", 1, "(`x.permute(1, 0, 2)`)", "Leave the permutation out and take what you need from dimension 1."),
        "out, _ = self.rnn(x.permute(1, 0, 2))\nreturn self.fc(out[-1])",
        "out, _ = self.rnn(x)\nreturn self.fc(out[:, -1])",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_the_table(name: str) -> None:
    (kind, line, message, advice), text, wanted = ROWS[name]
    indented = [f"def f():\n    {t.replace(chr(10), chr(10) + '    ')}" for t in (text, wanted)]
    found = [p.text for p in patches(indented[0], Finding(kind, "warning", line + 1, message=message, remedy=advice))]
    wanted = indented[1]
    assert any(new.strip() == wanted.strip() for new in found), list(itertools.islice(found, 4))


def test_steps_of_a_sequence_go_through_a_layer_at_once() -> None:
    text = (
        "torch.manual_seed(0)\nf, g = nn.Linear(4, 4), nn.Linear(4, 4)\ns = x.reshape(16, 16, 4)\n"
        "h, out = torch.zeros(16, 4), []\nfor t in range(16):\n    xt = s[:, t]\n    h = torch.tanh(f(xt) + g(h))\n"
        "    out.append(h)\nout = torch.stack(out)\n"
    )
    found = patches(text, Finding("slow", "note", 7, message="Line 7 runs often", remedy="Use nn.RNN in one call."))
    (new,) = [patch.text for patch in found if patch.said == "Call it once for all rows"]
    assert "f_rows = f(s)\nfor t" in new
    assert "f_rows[:, t] + g(h)" in new
    np.testing.assert_allclose(ran(new)["out"].detach(), ran(text)["out"].detach(), rtol=1e-4, atol=1e-6)


def test_a_file_is_read_once() -> None:
    text = "class Rows:\n    def __getitem__(self, k):\n        a = np.load(self.path)\n        return a[k]\n"
    found = patches(text, Finding("data-loader", "note", 3, message="Line 3 takes 5 ms", remedy="Make it faster."))
    (new,) = [patch.text for patch in found if patch.said == "Read it once"]
    assert new.startswith("import functools\n@functools.lru_cache(maxsize=None)\ndef kept(path):\n")
    assert "a = kept(self.path)" in new


def test_data_and_model_of_earlier_cells_become_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [Place("a", "In [1]", 0, "d = torch.from_numpy(rows)\n"), Place("b", "In [2]", 0, "net = Net().double()\n")]
    monkeypatch.setattr(earlier, "sources", lambda text: made)
    finding = Finding("dtype", "note", 1, message="float64", remedy="Make float32 tensors of NumPy's arrays.")
    new = [patch.text for patch in patches("out = net(d)\n", finding) if patch.said == "Make them float32 first"]
    assert new == ["net.float()\nd = d.float() if d.is_floating_point() else d\nout = net(d)\n"]
