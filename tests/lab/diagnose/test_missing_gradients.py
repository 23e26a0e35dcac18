"""Parameters without gradient where no cut explains it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lab.diagnose.graph.missing_gradients import missing

Space = dict[str, Any]

TWO_HEADS = """
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.spare = nn.Linear(16, 8), nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(core.tanh(self.body(x)))

model = Two()
optimizer = core.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = "loss = F.cross_entropy(model(x), labels)\nloss.backward()\noptimizer.step()"


def test_a_layer_that_forward_does_not_use(cell: Any, space: Space) -> None:
    exec(TWO_HEADS, space)
    record = cell(STEP, space)
    (finding,) = record.findings
    assert (finding.kind, finding.severity, finding.line) == ("no-gradient", "warning", 2)
    assert finding.parameters == ["model.spare.weight", "model.spare.bias"]
    assert finding.message == (
        "model.spare.weight and model.spare.bias get no gradient from backward() on line 2: "
        "no op of this cell reads them."
    )
    rows = {g.name: g for g in record.gradients}
    assert rows["model.spare.weight"].flags == ["none"]
    assert rows["model.spare.weight"].norm is None
    assert len(rows) == 6


def test_a_branch_that_does_not_lead_to_the_loss(cell: Any, space: Space) -> None:
    record = cell("A, B, C = P(16, 8), P(8, 4), P(8, 2)\nh = core.tanh(x @ A)\nside = h @ C\nside = side.exp().mean()"
                  "\nloss = F.cross_entropy(h @ B, labels)\nloss.backward()", space)  # fmt: skip
    (finding,) = record.findings
    assert (finding.kind, finding.line, finding.parameters) == ("no-gradient", 4, ["C"])
    assert "what line 4 computes from it" in finding.message
    assert "does not lead to the loss of line 6" in finding.message
    assert any("unreached" in op.flags and op.line == 4 for op in record.ops)


def test_parameters_of_the_optimizer_under_no_grad(cell: Any, space: Space) -> None:
    space["encoder"], space["head"] = space["nn"].Linear(16, 8), space["nn"].Linear(8, 4)
    space["both"] = [*space["encoder"].parameters(), *space["head"].parameters()]
    record = cell("optimizer = core.optim.SGD(both, lr=0.1)\nwith core.no_grad():\n    h = encoder(x)\n"
                  "F.cross_entropy(head(h), labels).backward()\noptimizer.step()", space)  # fmt: skip
    (finding,) = record.findings
    assert finding.line == 3
    assert finding.parameters == ["encoder.weight", "encoder.bias"]
    assert "under no_grad" in finding.message


def test_a_branch_that_ends_in_an_op_without_gradient(cell: Any, space: Space) -> None:
    record = cell("A, E = P(16, 4), P(4, 8)\nbest = (x @ A).argmax(1)\nE[best].sum().backward()", space)
    (finding,) = record.findings
    assert (finding.line, finding.parameters) == (2, ["A"])
    assert "`(x @ A).argmax(1)`, which has no gradient" in finding.message


def test_a_variable_that_nobody_uses(cell: Any, space: Space) -> None:
    record = cell("A, forgotten = P(16, 4), P(16, 4)\n(x @ A).sum().backward()", space)
    (finding,) = record.findings
    assert (finding.kind, finding.line, finding.parameters) == ("no-gradient", 2, ["forgotten"])


def test_a_cell_without_backward_misses_nothing(cell: Any, space: Space) -> None:
    record = cell("A = P(16, 4)\nmodel = nn.Linear(16, 4)\ny = model(x) + x @ A", space)
    assert record.findings == []
    assert record.gradients == []


def test_chosen_gradients_are_all_that_was_asked_for(cell: Any, space: Space) -> None:
    space["model"] = space["nn"].Linear(16, 4)
    record = cell("z = x.clone().requires_grad_()\n(g,) = core.autograd.grad(model(z).sum(), z)", space)
    assert record.findings == []


def test_a_comprehensions_own_variable_is_not_the_cells(cell: Any, space: Space) -> None:
    space["w"] = space["P"](3)
    record = cell("ws = [space for space in (P(2), P(2))]\nloss = sum(w.sum() for w in ws)\nloss.backward()", space)
    assert not record.findings
    assert [g.name for g in record.gradients] == ["ws[0]", "ws[1]"]


def test_a_loss_made_anew_of_its_value(cell: Any, space: Space) -> None:
    record = cell("A = P(16, 2)\nloss = core.tensor((x @ A).mean().item(), requires_grad=True)\nloss.backward()", space)
    (finding,) = record.findings
    assert (finding.line, finding.parameters) == (2, ["A"])
    assert "hands the value of `(x @ A).mean()` to Python as a number, so A gets no gradient." in finding.message
    assert finding.remedy == "Leave out .item() and go on with the tensor."


def test_branches_that_end_at_one_place_are_one_finding(cell: Any, space: Space) -> None:
    text = "ws = [P(3) for _ in range(3)]\nlosses = [w.square().sum() for w in ws]\n"
    record = cell(text + "core.tensor(losses, requires_grad=True).sum().backward()", space)
    (finding,) = record.findings
    assert finding.parameters == ["ws[0]", "ws[1]", "ws[2]"]
    assert finding.line == 3
    assert "copies the values of `losses` into a new constant, so ws[0], ws[1] and ws[2]" in finding.message


@pytest.mark.parametrize(("copied", "messages"), [("old[0].state_dict()", 0), ("torch.load(path)", 1)])
def test_a_model_that_another_is_copied_from_need_not_train(
    copied: str, messages: int, traced: Any, space: dict[str, Any]
) -> None:
    text = "net = nn.Sequential(nn.Linear(16, 4))\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    text += (
        f"if not len(x):\n    net[0].load_state_dict({copied})\nF.cross_entropy(net(x), labels).backward()\nopt.step()"
    )
    trace = traced(text, space)
    leaf = copy.copy(next(leaf for leaf in trace.parameters() if leaf.name == "net.0.weight"))
    leaf.name = "old.0.weight"
    trace.leaves.append(leaf)
    trace.order[leaf] = len(trace.order)
    found = missing(trace, set())
    assert len(found) == messages, found
