"""Mistakes of ten sessions, played as users have them: they stand in helpers, classes and cells that ran before."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import pytest

from core.base import source
from widgets.record import Finding

Space = dict[str, Any]
Told = Callable[..., list[Finding]]


@pytest.fixture
def told(cell: Any, space: Space, monkeypatch: pytest.MonkeyPatch) -> Told:
    """`told("cell 1", ..., "the recorded cell")`: the errors and warnings of the last one."""
    names: dict[str, str] = {}
    monkeypatch.setattr(source, "name_of_file", names.get)

    def told(*texts: str) -> list[Finding]:
        texts = tuple(text.strip() for text in texts)
        for text in texts[:-1]:
            name = f"<a session's cell {len(names) + 1}>"
            names[name] = f"In [{len(names) + 1}]"
            monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(True), name))  # type: ignore[misc]
            exec(compile(text, name, "exec"), space)
        return [f for f in cell(texts[-1], space).findings if f.severity != "note" or f.reads]

    return told


TOKENS = """
def tokens(feat):
    B, C, H, W = feat.shape
    return feat.{}
"""
ATTEND = """
torch.manual_seed(0)
conv, head = nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.Linear(16, 4)
attend = nn.MultiheadAttention(16, 4, batch_first=True)
pictures = torch.randn(16, 1, 8, 8)
opt = torch.optim.SGD([*conv.parameters(), *attend.parameters(), *head.parameters()], lr=0.1)
"""
ATTENDED = """
for step in range(3):
    t = tokens(conv(pictures))
    loss = F.cross_entropy(head(attend(t, t, t)[0].mean(1)), labels[:16])
    opt.zero_grad(); loss.backward(); opt.step()
"""  # as many channels as pixels: the sizes do not tell what was mixed up


@pytest.mark.parametrize("view", ["view(B, H * W, C)", "reshape(B, -1, C)"])
def test_dimensions_that_are_mixed_up_are_told_by_their_names(told: Told, view: str) -> None:
    (found,) = told(TOKENS.format(view), ATTEND, ATTENDED)
    assert (found.kind, found.line) == ("layout", 2)
    assert f"In [1] line 3) mixes up dimensions: `feat.{view}`" in found.message
    assert "the dimension of C is spread over others" in found.message
    assert found.remedy.startswith("Move them first: permute(0, 2, 3, 1).reshape(B, ")


@pytest.mark.parametrize("view", [
    "flatten(2).transpose(1, 2)", "permute(0, 2, 3, 1).reshape(B, H * W, C)", "view(B, C, H * W)", "view(B, C, -1)",
])  # fmt: skip
def test_dimensions_that_keep_their_order_are_right(told: Told, view: str) -> None:
    assert told(TOKENS.format(view), ATTEND, ATTENDED) == []


FORECAST = """
torch.manual_seed(0)
series = torch.sin(torch.arange(800) * 0.05).view(8, 100)
class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 16{})
        self.fc = nn.Linear(16, 1)
    def forward(self, x, state=None):
        out, state = self.lstm(x, state)
        return self.fc(out), state
model = Forecaster()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
"""
WINDOWS = """
state = None
for i in range(0, 75, 25):
    x = series[:, i:i + 25].unsqueeze(-1)
    y = series[:, i + {}:i + 25 + {}].unsqueeze(-1)
    state = None if state is None else tuple(s.detach() for s in state)
    pred, state = model(x, state)
    loss = F.mse_loss(pred, y)
    opt.zero_grad(); loss.backward(); opt.step()
"""


def test_windows_of_time_that_a_layer_takes_for_samples(told: Told) -> None:
    (found,) = told(FORECAST.format(""), WINDOWS.format(1, 1))
    assert found.message == (
        "In [1] line 6 makes model.lstm (LSTM) without batch_first=True, so it reads its input of (8, 25, ...) as 8 "
        "time steps of 25 samples; line 3 takes time along dimension 1 (`series[:, i:i + 25]`)."
    )
    assert found.remedy == "Make it with batch_first=True: nn.LSTM(..., batch_first=True)."


@pytest.mark.parametrize(("first", "later"), [(", batch_first=True", 1), ("", 0)])
def test_windows_that_may_be_of_samples_are_right(told: Told, first: str, later: int) -> None:
    assert [f for f in told(FORECAST.format(first), WINDOWS.format(later, later)) if f.kind == "layout"] == []


COLLATE = """
import random
random.seed(0)
texts = [[1 + (k + 3 * i) % 49 for i in range(random.randint(4, 20))] for k in range(32)]
def collate(samples):
    rows = [s + [0] * (24 - len(s)) for s in samples]
    batch = {{"input_ids": torch.tensor(rows)}}
    batch["labels"] = batch["input_ids"].clone()
    {}
    return batch
"""
LANGUAGE = """
torch.manual_seed(0)
class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(50, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 50)
    def forward(self, input_ids, labels):
        logits = self.head(self.rnn(self.embed(input_ids))[0])
        return F.cross_entropy(logits[:, :-1].reshape(-1, 50), labels[:, 1:].reshape(-1), ignore_index=-100)
model = Language()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
"""
TRAINED = """
for k in range(0, 32, 8):
    loss = model(**collate(texts[k:k + 8]))
    opt.zero_grad(); loss.backward(); opt.step()
"""


def test_padding_that_is_copied_into_the_labels(told: Told) -> None:
    (found,) = told(COLLATE.format(""), LANGUAGE, TRAINED)
    assert found.message.startswith(
        "In [1] line 7 copies the padding into the labels (`batch['labels'] = batch['input_ids'].clone()`), and line 2 "
        "(In [2] line 8) counts padding as right or wrong: "
    )
    assert found.remedy == "Leave it out, on the line after: batch['labels'][batch['labels'] == 0] = -100."


def test_padding_that_the_labels_leave_out_is_right(told: Told) -> None:
    assert told(COLLATE.format('batch["labels"][batch["labels"] == 0] = -100'), LANGUAGE, TRAINED) == []


NETWORKS = """
torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
opt_g, opt_d = torch.optim.Adam(G.parameters(), lr=1e-3), torch.optim.Adam(D.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
"""
ADVERSARIES = """
for step in range(6):
    real, z = torch.randn(32, 2), torch.randn(32, 4)
    opt_d.zero_grad(); opt_g.zero_grad()
    fake = G(z)
    d_loss = bce(D(real), torch.ones(32, 1)) + bce(D(fake), torch.zeros(32, 1))
    d_loss.backward(retain_graph=True)
    g_loss = bce(D(fake), torch.ones(32, 1))
    g_loss.backward()
    opt_d.step(); opt_g.step()
"""


def test_a_generator_that_gets_its_adversarys_gradients(told: Told) -> None:
    (found,) = told(NETWORKS, ADVERSARIES)
    assert (found.kind, found.line) == ("loss", 5)
    assert "G goes by the sum of d_loss and g_loss, which pull it in opposite directions." in found.message
    assert found.remedy == "Show D detached samples there: D(fake.detach()); it then needs no retain_graph."


@pytest.mark.parametrize(("one", "other"), [
    ("D(fake), torch.zeros", "D(fake.detach()), torch.zeros"),
    ("    g_loss = ", "    opt_g.zero_grad()\n    g_loss = "),
    ("    g_loss.backward()", "    for p in G.parameters():\n        p.grad = None\n    g_loss.backward()"),
])  # fmt: skip
def test_a_generator_with_gradients_of_its_own_is_right(told: Told, one: str, other: str) -> None:
    assert [f for f in told(NETWORKS, ADVERSARIES.replace(one, other)) if "sum of" in f.message] == []


def test_an_optimizer_of_the_model_before_it_was_made_anew(told: Told) -> None:
    made = "net = nn.Linear(16, 4)\nopt = torch.optim.Adam(net.parameters(), lr=1e-3)"
    step = "for _ in range(3):\n    opt.zero_grad()\n    F.cross_entropy(net(x), labels).backward()\n    opt.step()"
    (found,) = told(made, "net = nn.Linear(16, 4)", step)
    assert (found.kind, found.line) == ("optimizer", 4)
    assert found.remedy == (
        "Make the optimizer after the model, of the parameters of the model that runs: it was made on In [1] line 2."
    )


FROZEN = """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))
for p in net[0].parameters():
    p.requires_grad = False
opt = torch.optim.AdamW([{"params": [p for p in net[0].parameters() if p.requires_grad]},
                         {"params": net[2].parameters(), "lr": 1e-3}])
"""
THAWED = """
for epoch in range(4):
    if epoch == 2:
        for p in net[0].parameters():
            p.requires_grad = True
    opt.zero_grad()
    F.cross_entropy(net(x), labels).backward()
    opt.step()
"""


def test_a_layer_that_is_thawed_in_a_later_cell_and_whose_group_is_empty(told: Told) -> None:
    (found,) = told(FROZEN, THAWED)
    assert (found.kind, found.line) == ("optimizer", 4)
    assert "after In [1] line 5 has made the optimizer of those that needed a gradient then" in found.message
    assert "optimizer.add_param_group({'params': [...]})" in found.remedy


ACCUMULATED = """
torch.manual_seed(0)
net = nn.Linear(16, 4)
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
sched = torch.optim.lr_scheduler.{}
every = 4
"""
MICRO = """
for epoch in range(2):
    for i in range(40):
        (F.cross_entropy(net(x), labels) / every).backward()
        if (i + 1) % every == 0:
            opt.step()
            opt.zero_grad()
{}sched.step()
"""


AHEAD = pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")


@AHEAD
@pytest.mark.parametrize("made", ["CosineAnnealingLR(opt, T_max=20)", "LinearLR(opt, 1.0, 0.0, total_iters=20)"])
def test_a_schedule_for_steps_that_is_stepped_for_every_batch(told: Told, made: str) -> None:
    found = next(f for f in told(ACCUMULATED.format(made), MICRO.format(" " * 8)) if "for every batch" in f.message)
    assert (found.kind, found.line) == ("learning-rate", 7)
    assert (
        "Line 7 steps sched for every batch, and the optimizer only after every 4 of them (line 5): " in found.message
    )
    assert found.remedy == "Call sched.step() there, in the same branch, after the optimizer's step on line 5."


@AHEAD
@pytest.mark.parametrize(("many", "spaces"), [(20, 12), (80, 8)])
def test_a_schedule_that_ends_with_the_training_is_right(told: Told, many: int, spaces: int) -> None:
    made = f"CosineAnnealingLR(opt, T_max={many})"
    assert told(ACCUMULATED.format(made), MICRO.format(" " * spaces)) == []


RECURRENT = """
torch.manual_seed(0)
batch_size = 16
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.out = nn.GRU(5, 8, batch_first=True), nn.Linear(8, 4)
    def start(self):
        return torch.zeros(1, batch_size, 8)
    def forward(self, x):
        return self.out(self.gru(x, self.start())[1][-1])
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
sequences, classes = torch.randn(71, 6, 5), torch.randint(0, 4, (71,))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(sequences, classes), batch_size=batch_size)
"""
FAILS = """
for a, b in loader:
    loss = F.cross_entropy(net(a), b)
    opt.zero_grad(); loss.backward(); opt.step()
"""


def test_a_size_that_is_fixed_in_a_method_of_another_cell(told: Told) -> None:
    found = next(f for f in told(RECURRENT, FAILS) if "last batch" in f.message)
    assert "and line 2 (In [1] line 10) fails after 4 batches of 16 went well" in found.message
    assert found.message.endswith("In [1] line 8 fixes the number of samples: `torch.zeros(1, batch_size, 8)`.")
    assert "x.size(0), instead of batch_size" in found.remedy
