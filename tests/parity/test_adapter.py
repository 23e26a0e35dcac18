"""Cells of PyTorch under the recorder, unchanged: the planted mistakes are found, the healthy cells raise no alarm."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import lab  # noqa: E402
from lab.adapters import tensors  # noqa: E402
from lab.adapters.torch import Watch  # noqa: E402
from lab.recorder import tensor_types  # noqa: E402
from tests.lab.conftest import run_cell  # noqa: E402
from tests.lab.diagnose import test_healthy  # noqa: E402
from tests.lab.diagnose.planted import CELLS  # noqa: E402


@pytest.fixture
def space() -> dict[str, Any]:
    """What the cells of tests/lab want, PyTorch in place of core."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)

    def parameter(*shape: int, scale: float = 1.0) -> Any:
        values = scale * rng.standard_normal(shape) / shape[0] ** 0.5
        return torch.tensor(values.astype(np.float32), requires_grad=True)

    x = torch.tensor(rng.standard_normal((64, 16)).astype(np.float32))
    labels = torch.tensor(rng.integers(0, 4, 64))
    nn = torch.nn
    return {"core": torch, "torch": torch, "nn": nn, "F": nn.functional, "np": np, "P": parameter, "x": x,
            "labels": labels, "y": x[:, 0] * 0.5}  # fmt: skip


OTHERWISE = ("a custom function",)  # core's own


@pytest.mark.parametrize("name", CELLS)
def test_the_right_finding_comes_first(name: str, space: dict[str, Any]) -> None:
    planted = CELLS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record = run_cell(planted.text.lstrip("\n"), space)
    assert record.findings, "nothing found"
    first = record.findings[0]
    assert (first.kind, first.line) in [(planted.kind, line) for line in planted.lines], first


@pytest.mark.parametrize("name", [n for n in test_healthy.CELLS if n not in OTHERWISE])
def test_no_false_alarm(name: str, space: dict[str, Any]) -> None:
    record = run_cell(test_healthy.CELLS[name], space)
    assert record.error is None, record.error
    assert [f.message for f in record.findings if f.severity != "note" or f.reads] == []
    assert record.ops


GONE = """
def main():
    net = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
    opt = torch.optim.Adam(net.parameters())
    for k in range(3):
        net.train()
        loss = F.cross_entropy(net(x), labels)
        opt.zero_grad(); loss.backward(); opt.step()
        net.eval()
        with torch.no_grad():
            net(x).argmax(1)
main()
"""


def test_a_model_that_is_gone_was_not_frozen(space: dict[str, Any]) -> None:
    assert run_cell(GONE.lstrip("\n"), space).findings == []


def test_a_model_that_another_is_copied_from_need_not_train(space: dict[str, Any]) -> None:
    torch.manual_seed(0)
    made = "nn.Sequential(nn.Sequential(nn.Linear(16, 8), nn.ReLU()), nn.Linear(8, 4))\n"
    exec(f"old = {made}opt = torch.optim.Adam(old.parameters())\nF.cross_entropy(old(x), labels).backward()", space)
    text = f"net = {made}net[0].load_state_dict(old[0].state_dict())\nopt = torch.optim.Adam(net.parameters())\n"
    text += "for step in range(4):\n    loss = F.cross_entropy(net(x), labels % 2)\n"
    text += "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"
    assert run_cell(text, space).findings == []


def test_the_card_shows_pytorchs_graph_lines_and_modules(space: dict[str, Any]) -> None:
    text = "model = nn.Sequential(nn.Linear(16, 8), nn.Tanh())\nloss = model(x).square().mean()\nloss.backward()"
    record = run_cell(text, space)
    assert [(op.op, op.module, op.line) for op in record.ops] == [
        ("linear", "model.0", 2), ("tanh", "model.1", 2), ("pow", "", 2), ("mean", "", 2)]  # fmt: skip
    assert all(op.backward_ms > 0 for op in record.ops)
    assert {g.name: g.norm is not None for g in record.gradients} == {"model.0.weight": True, "model.0.bias": True}
    mine = space["model"][0].weight.grad.norm().item()
    assert next(g.norm for g in record.gradients if g.name == "model.0.weight") == pytest.approx(mine, rel=1e-5)
    assert record.ops[0].backend == "PyTorch"


@pytest.mark.parametrize("room", [1 << 24, 100])
def test_a_sparse_gradient_has_the_norm_of_its_values(
    space: dict[str, Any], room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "DENSE", room)
    text = """table, head = nn.Embedding(300, 16, sparse=True), nn.Linear(16, 4)
some = torch.arange(64) % 50
for step in range(5):
    table.zero_grad()
    head.zero_grad()
    F.cross_entropy(head(table(some)), labels).backward()
"""
    record = run_cell(text, space)
    (row,) = [g for g in record.gradients if g.name == "table.weight"]
    dense = space["table"].weight.grad.to_dense()
    assert row.norm == pytest.approx(dense.norm().item(), rel=1e-5)
    assert row.zeros == (pytest.approx(1 - 50 / 300) if room > 300 * 16 else 0.0)
    assert [f.message for f in record.findings if f.severity != "note" or f.reads] == []


def test_nothing_is_left_behind(space: dict[str, Any]) -> None:
    run_cell("w = P(16, 4)\n(x @ w).sum().backward()", space)
    assert not torch.overrides._get_current_function_mode_stack()
    modules = torch.nn.modules.module
    assert not modules._global_forward_pre_hooks
    assert not modules._global_forward_hooks
    before = space["w"].grad.clone()
    (space["x"] @ space["w"]).sum().backward()
    assert torch.equal(space["w"].grad, 2 * before)
    assert not space["w"]._backward_hooks


def test_a_cell_runs_as_without_it(space: dict[str, Any]) -> None:
    text = """
torch.manual_seed(3)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
losses = []
for step in range(20):
    loss = F.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
    watched, alone = dict(space), dict(space)
    run_cell(text, watched)
    exec(text, alone)
    assert watched["losses"] == alone["losses"]


def test_a_mask_drawn_in_every_mode(space: dict[str, Any]) -> None:
    text = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 4)
    def forward(self, x):
        h = torch.relu(self.a(x))
        mask = torch.bernoulli(torch.full_like(h, 0.5))
        return self.b(h * mask)
model = Net().eval()
with torch.no_grad():
    out = model(x)
"""
    (finding,) = run_cell(text.lstrip("\n"), space).findings
    assert (finding.kind, finding.severity, finding.line) == ("mode", "note", 7)
    assert "drops values in evaluation mode too: `torch.bernoulli(" in finding.message
    assert finding.remedy == "Draw it only if self.training, or use nn.Dropout, which knows the mode."


def test_gradients_of_torch_func_are_all_that_is_wanted(space: dict[str, Any]) -> None:
    text = """
from torch.func import functional_call, grad, vmap
model = nn.Linear(16, 4)
params = {k: v.detach() for k, v in model.named_parameters()}
def loss(p, a, b):
    return F.cross_entropy(functional_call(model, p, (a,)), b)
g = grad(loss)(params, x, labels)
each = vmap(grad(loss), in_dims=(None, 0, 0))(params, x[:, None], labels[:, None])
"""
    record = run_cell(text.lstrip("\n"), space)
    assert record.error is None
    assert [f.message for f in record.findings if f.severity != "note" or f.reads] == []


def test_a_recording_that_was_dropped_leaves_nothing_to_the_next(space: dict[str, Any]) -> None:
    """A call that raises has no record: the next cell's parameters are known by its own recording alone."""
    with pytest.raises(ZeroDivisionError):
        lab.record(lambda: 1 / 0)
    assert tensor_types.adapters == []
    record = run_cell("model = nn.Linear(16, 4)\nmodel(x).square().mean().backward()", space)
    assert [g.name for g in record.gradients] == ["model.weight", "model.bias"]
    assert record.findings == []


@pytest.mark.parametrize("clipped", ["torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv)", "torch.max(ratio, adv)"])
def test_a_column_against_a_row_in_a_clipped_ratio(space: dict[str, Any], clipped: str) -> None:
    text = f"""actor, critic = nn.Linear(16, 4), nn.Linear(16, 1)
ratio = actor(x).log_softmax(1)[torch.arange(64), labels].exp()
with torch.no_grad():
    adv = y[:, None] - critic(x)
loss = -{clipped}.mean()
loss.backward()
"""
    first = run_cell(text, space).findings[0]
    assert (first.kind, first.line) == ("broadcast", 5)


def test_of_an_optimizers_step_the_step_alone_is_heard(space: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """AdamW asks and computes a hundred things of each parameter, which pass the recorder by; a closure does not."""
    heard: list[str] = []
    run = Watch.run
    monkeypatch.setattr(Watch, "run", lambda self, f, *given: (heard.append(f.__name__), run(self, f, *given))[1])
    model = "model = nn.Linear(16, 4)\noptimizer = torch.optim.AdamW(model.parameters(), foreach=False)\n"
    record = run_cell(model + "model(x).sum().backward()\noptimizer.step()", space)
    assert {"linear", "sum"} <= {*heard}
    assert not {"mul_", "lerp_", "addcmul_", "addcdiv_", "sqrt", "__get__"} & {*heard}
    assert [op.op for op in record.ops][:2] == ["linear", "sum"]
    closure = "def again():\n    loss = model(x).sum()\n    loss.backward()\n    return loss\noptimizer.step(again)"
    record = run_cell(closure, space)
    assert {"linear", "sum"} <= {op.op for op in record.ops}
