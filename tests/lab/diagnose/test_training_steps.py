"""Steps that train something else than was meant: what adds up undivided, what an optimizer holds, copies."""

from __future__ import annotations

from typing import Any

import pytest

Space = dict[str, Any]

MICRO = """
core.manual_seed(1)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = core.optim.{kind}(model.parameters(), lr={lr})
for step in range(12):
    optimizer.zero_grad()
    for i in range(8):
        loss = F.mse_loss(model(x[8 * i : 8 * i + 8]).squeeze(1), 9 * y[8 * i : 8 * i + 8] + 6){divided}
        loss.backward()
    optimizer.step()
"""


def micro(kind: str = "SGD", lr: float = 0.2, divided: str = "") -> str:
    return MICRO.format(kind=kind, lr=lr, divided=divided)


def test_an_accumulation_that_nothing_divides(cell: Any, space: Space) -> None:
    first = cell(micro(), {**space, "y": space["x"][:, 0]}).findings[0]
    assert (first.kind, first.line) == ("learning-rate", 8)
    assert first.message.startswith(
        "Line 8 adds up the gradients of 8 passes for each step and does not divide by 8: a step (line 9, lr=0.2) is 8 "
        "times as large as by their mean. One changed model."
    )
    assert first.remedy == "Divide each loss before backward(): (loss / 8).backward()."


def test_divided_or_alone_it_is_the_learning_rate(cell: Any, space: Space) -> None:
    y = space["x"][:, 0]
    first = cell(micro(lr=0.3, divided=" / 0.05"), {**space, "y": y}).findings[0]
    assert (first.kind, first.line) == ("learning-rate", 9)
    assert "takes steps that are too large (lr=0.3)" in first.message
    alone = micro().replace("range(8)", "range(1)").replace("lr=0.2", "lr=3.0")
    first = cell(alone, {**space, "y": y}).findings[0]
    assert "takes steps that are too large (lr=3)" in first.message


def test_a_learning_rate_beyond_the_usual_is_named_first(cell: Any, space: Space) -> None:
    first = cell(micro(lr=5.0), {**space, "y": space["x"][:, 0]}).findings[0]
    assert "takes steps that are too large (lr=5)" in first.message


@pytest.mark.parametrize("text", [micro(lr=0.001), micro("Adam", 0.001), micro(lr=0.02, divided=" / 8")])
def test_accumulation_that_does_no_harm(cell: Any, space: Space, text: str) -> None:
    record = cell(text, {**space, "y": space["x"][:, 0]})
    assert [f.message for f in record.findings if f.severity != "note" or f.reads] == []


LOSS = """
class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(core.ones(1))
    def forward(self, out, target):
        error = np.abs(out.detach().numpy() - target.numpy())
        return self.scale * core.from_numpy(error).mean()
model, criterion = nn.Linear(16, 1), Weighted()
optimizer = core.optim.SGD(model.parameters(), lr=0.01)
for i in range(6):
    loss = criterion(model(x).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_loss_module_that_goes_through_numpy(cell: Any, space: Space) -> None:
    """The loss's own parameter gets a gradient: that is not why the model gets none."""
    found = cell(LOSS, {**space, "y": space["x"][:, 0]}).findings
    assert [(f.kind, f.severity, f.line) for f in found if f.severity != "note" or f.reads] == [("cut", "warning", 6)]
    assert found[0].parameters == ["model.weight", "model.bias"]
    assert "Make the optimizer after the model" not in " ".join(f.remedy for f in found)


METRIC = """
class Metric(nn.Module):
    def forward(self, out, target):
        best = out.detach().numpy().argmax(axis=1)
        share = float((best == target.numpy()).mean())
        return core.tensor(1.0 - share, requires_grad=True)
model = nn.Linear(16, 4)
criterion = Metric()
optimizer = core.optim.SGD(model.parameters(), lr=0.01)
for i in range(4):
    loss = criterion(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_metric_as_a_loss_module(cell: Any, space: Space) -> None:
    """forward() is called by the variable that holds the module."""
    (finding,) = [f for f in cell(METRIC, space).findings if f.severity != "note" or f.reads]
    assert (finding.kind, finding.severity, finding.line) == ("cut", "warning", 3)
    assert finding.parameters == ["model.weight", "model.bias"]


def test_saturated_units_do_not_hide_an_accumulation(cell: Any, space: Space) -> None:
    text = micro(lr=0.25).replace("nn.ReLU()", "nn.Tanh()").replace("9 * y", "20 * y")
    first = cell(text, {**space, "y": space["x"][:, 0]}).findings[0]
    assert first.line == 8
    assert "adds up the gradients of 8 passes for each step" in first.message


COPIES = {
    "the best model, trained by hand": """
import copy
model = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4))
for epoch in range(3):
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
    with core.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
            p.grad = None
best = copy.deepcopy(model)
print(F.cross_entropy(best(x), labels).item())
""",
    "a copy beside one backward": """
import copy
model = nn.Linear(16, 4)
twin = copy.deepcopy(model)
F.cross_entropy(model(x), labels).backward()
print((twin(x) - model(x)).abs().max().item())
""",
    "an average in an object of its own": """
import copy
class Average:
    def __init__(self, model):
        self.module = copy.deepcopy(model)
    def update(self, model):
        with core.no_grad():
            for mine, new in zip(self.module.parameters(), model.parameters()):
                mine.mul_(0.9).add_(new, alpha=0.1)
net = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))
average = Average(net)
for epoch in range(3):
    F.cross_entropy(net(x), labels).backward()
    average.update(net)
    net.zero_grad()
    accuracy = (average.module(x).argmax(1) == labels).float().mean()
""",
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_that_is_only_run_is_no_finding(cell: Any, space: Space, name: str) -> None:
    record = cell(COPIES[name], space)
    assert record.error is None
    assert [f.message for f in record.findings if f.severity != "note" or f.reads] == []


def test_a_model_of_another_form_is_one_that_was_forgotten(cell: Any, space: Space) -> None:
    text = (
        "model, side = nn.Linear(16, 4), nn.Linear(16, 2)\nF.cross_entropy(model(x), labels).backward()\nside(x).sum()"
    )
    (finding,) = cell(text, space).findings
    assert (finding.kind, finding.severity, finding.line) == ("no-gradient", "warning", 3)
    assert finding.parameters == ["side.weight", "side.bias"]


# -- which order of a step is told, and from how many steps on --------------------------------------------------------

PARTS = {
    "zero": "opt.zero_grad()",
    "loss": "loss = F.cross_entropy(net(x), labels)",
    "back": "loss.backward()",
    "step": "opt.step()",
    "clip": "nn.utils.clip_grad_norm_(net.parameters(), 1.0)",
    "cut": "nn.utils.clip_grad_value_(net.parameters(), 1.0)",
    "named": "opt.step",
    "never": "if k > 9: opt.step()",
    "rate": "sched.step()",
    "some": "if k % 2: opt.step()",
    "anew": "opt = torch.optim.Adam(net.parameters())",
    "model": "net = nn.Linear(16, 4); opt = torch.optim.SGD(net.parameters(), lr=0.1)",
    "bind": "for p in net.parameters(): p = p - 0.1 * p.grad",
}
START = """
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1); sched = torch.optim.lr_scheduler.StepLR(opt, 30)
for k in range({turns}):
"""
STAYS = "the parameters stay as they are"


@pytest.mark.parametrize(("turns", "order", "said"), [
    (4, "zero loss back step rate", []),
    (4, "loss zero back step rate", []),
    (4, "loss back step zero rate", []),
    (4, "zero loss back clip step rate", []),
    (4, "zero loss back cut step rate", []),
    (4, "zero loss back step clip rate", ["Line 8 clips the gradients after step() on line 7: no step uses"]),
    (4, "zero loss back step cut rate", ["Line 8 clips the gradients after step() on line 7: no step uses"]),
    (4, "zero loss clip back step rate", ["Line 6 clips the gradients before backward() on line 7: no step uses"]),
    (4, "clip zero loss back step rate", ["Line 4 clips the gradients before backward() on line 7: no step uses"]),
    (4, "zero loss back clip clip step rate", []),
    (2, "loss back", []),
    (3, "loss back", [f"Line 5 runs backward() 3 times, and no optimizer.step() follows: {STAYS}."]),
    (3, "zero loss back named", [f"Line 7 names opt.step and does not call it: {STAYS} (3 passes)."]),
    (3, "zero loss back never", ["Line 7 never runs, which steps the optimizer: backward() (line 6) ran 3 times, and"]),
    (3, "zero loss back bind", ["Line 7 binds the name p to a new tensor (`p = p - 0.1 * p.grad`) and leaves the"]),
    (3, "anew zero loss back step", ["Line 4 makes a new Adam for every step (3 steps, line 8): what it remembers"]),
    (2, "anew zero loss back step", []),
    (3, "model zero loss back step", ["Line 4 makes the model anew in every iteration: 3 models made one step each"]),
    (2, "model zero loss back step", []),
    (4, "zero loss back some", ["Line 4 clears gradients that no step has used: backward() (line 6) ran 4 times and"]),
    (2, "zero loss back some", []),
    (4, "loss back step", ["Line 5 adds its gradients to those that a step has used already: nothing clears them "
                           "between the steps, so every step goes by the sum of all batches so far (4 steps)."]),
    (4, "loss back zero step", ["Line 6 clears the gradients after backward() has made them, so step() on line 7 has"]),
    (4, "zero step loss back", ["Line 5 steps before backward() of the same pass (line 7): what the pass before has"]),
    (4, "zero loss step", ["Line 6 steps without gradients: backward() did not run, so the parameters do not change."]),
])  # fmt: skip
def test_the_order_of_a_step(cell: Any, space: Space, turns: int, order: str, said: list[str]) -> None:
    text = START.format(turns=turns) + "\n".join(f"    {PARTS[part]}" for part in order.split())
    kinds = ("zero-grad", "optimizer")
    found = [f.message for f in cell(text, space).findings if f.kind in kinds and (f.severity != "note" or f.reads)]
    assert [any(message.startswith(begin) for begin in said) for message in found] == [True] * len(said), found
