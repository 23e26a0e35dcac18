"""Sequences step by step, rows that a loader fetches, values that are made again: what is told of them by set times."""

from __future__ import annotations

from typing import Any

import pytest

from lab.diagnose.speed.slow_samples import rows_fetched
from lab.diagnose.speed.slow_sequences import made_again, one_step_at_a_time
from lab.diagnose.speed.time_shares import Shares
from lab.recorder.cell_trace import Sample

from .test_slow_code import SECOND, timed

Space = dict[str, Any]
STEPS = """text = torch.randint(0, 9, (4, 41))
tok, rnn, head = nn.Embedding(9, 8), nn.GRU(8, 8), nn.Linear(8, 9)
opt = torch.optim.SGD([*tok.parameters(), *rnn.parameters(), *head.parameters()], lr=0.1)
def step(token, h):
    out, h = rnn(tok(token)[None], h)
    return head(out[0]), h
h, loss, token = torch.zeros(1, 4, 8), 0.0, text[:, 0]
for c in range(40):
    out, h = step({given}, h)
    token = out.argmax(1)
    loss = loss + F.cross_entropy(out, text[:, c + 1])
loss.backward()
opt.step()
"""
ROWS = """{data}
loader = torch.utils.data.DataLoader(rows, batch_size=16, shuffle=True)
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for a, b in loader:
    loss = F.cross_entropy(net(a), b)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
OWN = """class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.x, self.labels = x, labels
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        {item}
rows = Rows()"""
ANCHORS = """SIZE = 4
def anchors(n):
    made = []
    for i in range(n):
        made.append([i / n, {more}])
    return torch.tensor(made)
net = nn.Linear(16, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(20):
    out = net(x[:4]) + anchors({given})
    loss = out.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(("given", "found"), [("text[:, c]", True), ("token", False)])
def test_a_sequence_that_is_there_is_given_as_a_whole(traced: Any, space: Space, given: str, found: bool) -> None:
    shares = timed(traced(STEPS.replace("{given}", given), space))
    told = [saving.found for saving in one_step_at_a_time(shares)]
    assert [f.line for f in told] == ([9] if found else [])
    assert all("one step at a time" in f.message and "though all of text is there" in f.message for f in told)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ("rows = torch.utils.data.TensorDataset(x, labels)", True),
        ("rows = torch.utils.data.Subset(torch.utils.data.TensorDataset(x, labels), range(48))", True),
        (OWN.format(item="return self.x[i], self.labels[i]"), True),
        (OWN.format(item="return self.x[i] + torch.randn(16), self.labels[i]"), False),
    ],
)
def test_rows_in_memory_are_taken_as_batches(traced: Any, space: Space, data: str, found: bool) -> None:
    trace = traced(ROWS.replace("{data}", data), space)
    timed(trace)
    ((chain, fetched),) = trace.fetched.items()
    fetched.ns, fetched.waits, fetched.batches = 1000 * SECOND, [], 4
    trace.wall_ns = 1500 * SECOND
    told = [saving.found for saving in rows_fetched(Shares(trace))]
    assert [f.line for f in told] == ([trace.line(chain)] if found else [])
    assert all("takes their rows one by one" in f.message for f in told)
    fetched.ns = 100 * SECOND  # beside the model it is little
    assert not list(rows_fetched(Shares(trace)))


@pytest.mark.parametrize(
    ("given", "more", "found"),
    [("4", "0.0", True), ("SIZE", "0.0", True), ("k + 1 - k + 3", "0.0", False), ("4", "np.random.rand()", False)],
)
def test_what_never_changes_is_made_once(
    traced: Any, space: Space, given: str, more: str, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = traced(ANCHORS.format(given=given, more=more), space)
    shares = timed(trace)
    at = next(row.chain for row in trace.rows if row.line == 10)
    trace.samples["there"] = Sample("python", at, ns=SECOND)
    monkeypatch.setattr(shares, "at_lines", lambda *_: 0.8 * shares.total)
    told = [saving.found for saving in made_again(shares)]
    assert [f.line for f in told] == ([10] if found else [])
    assert all("is given nothing that changes" in f.message for f in told)
