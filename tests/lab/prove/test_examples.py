"""Remedies as rows, named arguments and loops: what becomes of a text, without a trial."""

from __future__ import annotations

import pytest

from lab.prove import families  # noqa: F401 - fills the table of remedies
from lab.prove.remedies import patches
from widgets.record import Finding


def warning(kind: str, message: str, remedy: str, line: int = 1) -> Finding:
    return Finding(kind, "warning", line, message=message, remedy=remedy)


CASES = {
    "a quoted expression gets a minus": (
        warning("loss", "Line 1 makes a similarity small (`sim(a, b)`).", "Take 1 - similarity, or a minus."),
        "loss = sim(a, b).mean()",
        "loss = (1 - sim(a, b)).mean()",
    ),
    "a captured name": (
        warning("loss", "Line 1 gives targets of 0 and 1 (`y`).", "Bring them there: 2 * y - 1."),
        "loss = crit(z, y)",
        "loss = crit(z, (2 * y - 1))",
    ),
    "two places of one change": (
        warning("dtype", "Line 2 takes a small difference: `t[1:] - t[:-1]`.", "Subtract in float64 or int64.", 2),
        "t = torch.Tensor(stamps)\nd = (t[1:] - t[:-1]).unsqueeze(1)",
        "t = torch.tensor(stamps, dtype=torch.float64)\nd = ((t[1:] - t[:-1]).float()).unsqueeze(1)",
    ),
    "a loop that goes backwards": (
        warning("data", "Line 2 sums from the first step on.", "Go from the end: for t in reversed(range(n)).", 2),
        "for t in range(n):\n    a = a + r[t]",
        "for t in reversed(range(n)):\n    a = a + r[t]",
    ),
    "a line at the top of the outermost loop": (
        warning("evaluation", "Line 4 divides.", "Begin it anew in each epoch: total = 0.0 at the top of the loop.", 4),
        "total = 0.0\nfor e in x:\n    for b in y:\n        total += f(b)",
        "total = 0.0\nfor e in x:\n    total = 0.0\n    for b in y:\n        total += f(b)",
    ),
    "a line with its import": (
        warning("alias", "Line 1 sets it.", "Give val a set of its own first: val.dataset = copy.copy(val.dataset)."),
        "val.dataset.transform = None",
        "import copy\nval.dataset = copy.copy(val.dataset)\nval.dataset.transform = None",
    ),
    "a statement that goes": (
        warning("loop", "Line 2 sets the random state.", "Leave the random state alone there.", 2),
        "def get(i):\n    np.random.seed(i)\n    return np.random.rand()",
        "def get(i):\n    return np.random.rand()",
    ),
    "a named argument that has another value": (
        warning("layout", "Line 1 normalises along the samples.", "Take the features: F.normalize(z, dim=-1)."),
        "h = F.normalize(net(x), dim=0)",
        "h = F.normalize(net(x), dim=-1)",
    ),
    "a named argument that is missing, where the loss is made": (
        warning("loss", "Line 2 weighs a loss (`crit(z, y) * w`).", 'Ask for one a sample: reduction="none".', 2),
        "crit = nn.MSELoss()\nloss = (crit(z, y) * w).mean()",
        'crit = nn.MSELoss(reduction="none")\nloss = (crit(z, y) * w).mean()',
    ),
    "a named argument that goes": (
        warning("data", "Line 1 drops the last batch.", "Leave drop_last=True out."),
        "train = DataLoader(rows, batch_size=64, drop_last=True)",
        "train = DataLoader(rows, batch_size=64)",
    ),
    "a value that the line has already": (
        warning("data", "Line 1 draws in place (`s.sub_(1)`).", "Work on a copy: s = rows[k].clone().", 2),
        "s = rows[k]\ns.sub_(1)",
        "s = rows[k].clone()\ns.sub_(1)",
    ),
    "elements as a list": (
        Finding("slow", "note", 3, message="Line 3 takes single values out of tensors."),
        "hits = 0\nfor i in range(len(p)):\n    hits += table[p[i].item()]",
        "hits = 0\np_list = p.tolist()\nfor i in range(len(p)):\n    hits += table[p_list[i]]",
    ),
    "counts of pairs": (
        Finding("slow", "note", 2, message="Line 2 works on one row at a time."),
        "for i in range(len(p)):\n    table[t[i].item(), p[i].item()] += 1",
        "table.index_put_((t, p,), (torch.full_like(t, 1)).to(table.dtype), accumulate=True)",
    ),
    "a list by vmap": (
        Finding("overhead", "note", 1, remedy="Work on whole tensors in place of elements or rows."),
        "feats = torch.stack([mel(w).mean(1) for w in waves])",
        "feats = torch.func.vmap(lambda w: mel(w).mean(1))(waves)",
    ),
    "what a set loads is kept": (
        Finding("data-loader", "note", 3, message="Line 3 waits for its data."),
        "class Rows(Dataset):\n    def __getitem__(self, i):\n        return load(self.names[i])",
        "import functools\nclass Rows(Dataset):\n    @functools.lru_cache(maxsize=None)\n"
        "    def __getitem__(self, i):\n        return load(self.names[i])",
    ),
    "what is frozen runs once": (
        warning("slow", "Line 4 computes `base(X[i])` anew.", "Run it once over the data, before the epochs.", 4),
        "for e in y:\n    for i in z:\n        with torch.no_grad():\n            h = base(X[i])\n",
        "with torch.no_grad():\n    rows = base(X)\nfor e in y:\n    for i in z:\n        with torch.no_grad():\n"
        "            h = rows[i]\n",
    ),
    "a part of a random order": (
        warning("evaluation", "Line 1 splits by position.", "Shuffle before the split: order = torch.randperm(n)."),
        "a, b = x[:48], x[48:]",
        "order = torch.randperm(len(x))\nx = x[order]\na, b = x[:48], x[48:]",
    ),
    "start values of a model that was made before": (
        Finding("vanishing", "warning", 1, remedy="Use Xavier or Kaiming start values.", parameters=["G.0.weight"]),
        "G(torch.ones(1))",
        "for p in G.parameters():\n    if p.dim() > 1:\n        torch.nn.init.xavier_uniform_(p)\nG(torch.ones(1))",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_row_makes_the_change(name: str) -> None:
    finding, text, new = CASES[name]
    assert new in [patch.text for patch in patches(text, finding)]


STATE = Finding(
    "memory", "warning", 3, remedy="Begin every iteration with h = h.detach() (of each, where it is a tuple)."
)
LOOP = "for b in data:\n    out, h = rnn(b, h)\n    out.sum().backward()\n"


@pytest.mark.parametrize(
    ("made", "cut"),
    [
        ("h = (torch.zeros(1), torch.zeros(1))\n", "h = tuple(t.detach() for t in h)"),
        ("rnn = nn.LSTM(4, 4)\n", "h = tuple(t.detach() for t in h)"),
        ("rnn = nn.GRU(4, 4)\n", "h = h.detach()"),
        ("h = torch.zeros(1)\n", "h = h.detach()"),
    ],
)
def test_a_state_of_several_tensors_is_cut_as_one(made: str, cut: str) -> None:
    assert cut in patches(made + LOOP, STATE)[0].text


def test_a_guess_is_one() -> None:
    """Which patches are one way of many: that they fail is not told."""
    finding = Finding("overhead", "note", 1, remedy="Work on whole tensors in place of elements or rows.")
    (patch,) = patches("z = [mel(w) for w in waves]", finding)[1:]
    assert patch.guess
