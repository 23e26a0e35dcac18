"""Cut graphs: the sentence names the line that cut, where the values came back, and what gets no gradient."""

from __future__ import annotations

from typing import Any

import pytest

import widgets

from ..conftest import kinds

Space = dict[str, Any]

NETWORK = """
encoder = nn.Sequential(nn.Linear(16, 8), nn.Tanh())
head = nn.Linear(8, 4)
optimizer = core.optim.AdamW([*encoder.parameters(), *head.parameters()])
"""
DETOUR = """
for i in range(3):
    hidden = encoder(x)
    values = np.maximum(hidden.detach().numpy(), 0)
    loss = F.cross_entropy(head(core.from_numpy(values)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_detour_through_numpy(cell: Any, space: Space) -> None:
    exec(NETWORK, space)
    record = cell(DETOUR, space)
    (finding,) = [f for f in record.findings if f.severity != "note" or f.reads]
    assert (finding.kind, finding.severity, finding.line) == ("cut", "warning", 3)
    assert finding.message == (
        "Line 3 cuts the graph: `hidden.detach().numpy()` hands the values of `hidden` to NumPy, and line 4 brings "
        "them back as a constant, so encoder.0.weight and encoder.0.bias get no gradient."
    )
    assert finding.remedy == "Stay on the graph: core.maximum in place of np.maximum (line 3)."
    assert finding.parameters == ["encoder.0.weight", "encoder.0.bias"]
    flagged = [op for op in record.ops if "cut" in op.flags]
    assert [op.op for op in flagged] == ["detach", "numpy", "from_numpy"]
    assert [op.id for op in flagged] == finding.ops
    assert [g.flags for g in record.gradients] == [["none"], ["none"], [], []]


def test_html_and_text_both_say_it(cell: Any, space: Space) -> None:
    exec(NETWORK, space)
    record = cell(DETOUR, space)
    for shown in (widgets.text(record), widgets.html(record)):
        assert "Line 3 cuts the graph" in shown
        assert "encoder.0.weight and encoder.0.bias get no gradient" in shown


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        ("h.detach()", "`h.detach()` takes `h` off the graph"),
        ("h.data", "`h.data` takes the values of `h` off the graph"),
        ("core.tensor(h)", "`core.tensor(h)` copies the values of `h` into a new constant"),
        ("core.from_numpy(h.detach().numpy())", "`h.detach().numpy()` hands the values of `h` to NumPy, and the same"),
        ("(h * 9).long().float()", "`(h * 9).long()` has no gradient"),
        ("(h > 0).float()", "`h > 0` is a comparison, which has no gradient"),
    ],
)  # fmt: skip
def test_ways_to_cut(cell: Any, space: Space, cut: str, words: str) -> None:
    record = cell(f"A, B = P(16, 8), P(8, 4)\nh = core.tanh(x @ A)\nz = {cut}\n(z @ B).sum().backward()", space)
    (finding,) = [f for f in record.findings if f.severity != "note" or f.reads]
    assert (finding.kind, finding.line, finding.parameters) == ("cut", 3, ["A"])
    assert f"Line 3 cuts the graph: {words}" in finding.message
    assert "so A gets no gradient" in finding.message


def test_a_number_that_comes_back(cell: Any, space: Space) -> None:
    record = cell("A, B = P(16, 8), P(16, 4)\nscale = (x @ A).mean().item()\nfactor = scale + 1\n"
                  "loss = ((x @ B) * factor).sum()\nloss.backward()", space)  # fmt: skip
    (finding,) = [f for f in record.findings if f.severity != "note" or f.reads]
    assert (finding.kind, finding.line, finding.parameters) == ("cut", 2, ["A"])
    assert "hands the value of `(x @ A).mean()` to Python as a number, and line 4 goes on with it" in finding.message


def test_lists_that_come_back(cell: Any, space: Space) -> None:
    record = cell("A, B = P(16, 8), P(8, 4)\nrows = []\nfor row in x:\n    rows.append((row @ A).tolist())\n"
                  "z = core.tensor(rows)\n(z @ B).sum().backward()", space)  # fmt: skip
    (finding,) = [f for f in record.findings if f.severity != "note" or f.reads]
    assert (finding.kind, finding.line, finding.parameters) == ("cut", 4, ["A"])


def test_a_loss_that_is_cut_off_raises_and_is_explained(cell: Any, space: Space) -> None:
    record = cell("A = P(16, 4)\nh = x @ A\nloss = core.tensor(h.sum())\nloss.backward()", space)
    assert record.error is not None
    assert (record.error.type, record.error.line) == ("RuntimeError", 4)
    (finding,) = [f for f in record.findings if f.severity != "note" or f.reads]
    assert (finding.kind, finding.severity, finding.line, finding.parameters) == ("cut", "error", 3, ["A"])
    assert finding.message.endswith("so A gets no gradient; backward() on line 4 has nothing to do.")


def test_a_loss_under_no_grad_is_explained(cell: Any, space: Space) -> None:
    record = cell("A = P(16, 4)\nwith core.no_grad():\n    h = x @ A\nh.sum().backward()", space)
    (finding,) = [f for f in record.findings if f.severity != "note" or f.reads]
    assert (finding.kind, finding.severity, finding.line) == ("cut", "error", 3)
    assert "`x @ A` runs under no_grad" in finding.message


def test_nothing_to_train_is_explained(cell: Any, space: Space) -> None:
    record = cell("loss = (x * 2).sum()\nloss.backward()", space)
    (finding,) = [f for f in record.findings if f.severity != "note" or f.reads]
    assert (finding.kind, finding.severity, finding.line) == ("no-gradient", "error", 2)
    assert "nothing that led to it has requires_grad=True (it was computed from x)" in finding.message


def test_the_cut_of_a_part_that_is_not_trained_is_a_note(cell: Any, space: Space) -> None:
    exec(NETWORK.replace("[*encoder.parameters(), *head.parameters()]", "head.parameters()"), space)
    record = cell(
        "hidden = encoder(x).detach()\nloss = F.cross_entropy(head(hidden), labels)\nloss.backward()\noptimizer.step()",
        space,
    )
    assert [(f.kind, f.severity) for f in record.findings] == [("cut", "note")]


@pytest.mark.parametrize(
    "after",
    [
        "losses = [loss.item()]\nbest = min(losses)",
        "right = (h.argmax(1) == labels).float().mean().item()",
        "seen = h.detach().numpy().mean()\nshown = core.from_numpy(h.detach().numpy()) * 2",
        "listed = h.tolist()",
        "average = core.tensor([loss, loss])",
    ],
)
def test_metrics_are_no_cut(cell: Any, space: Space, after: str) -> None:
    record = cell(f"A = P(16, 4)\nh = x @ A\nloss = F.cross_entropy(h, labels)\nloss.backward()\n{after}", space)
    assert record.findings == []
    assert not any("cut" in op.flags for op in record.ops)


@pytest.mark.parametrize(
    "source",
    [
        # another path: the value is used both ways
        "h = x @ A\nq = (h / h.detach().abs().max()) @ B\nq.sum().backward()",
        # straight through
        "h = x @ A\nq = h + (h.round() - h).detach()\n(q @ B).sum().backward()",
        # the discriminator's step, then the generator's
        "fake = x @ A\n(fake.detach() @ B).mean().backward()\n(fake @ B).mean().backward()",
        # a loss scaled by its own value
        "loss = (x @ A @ B).square().mean()\n(loss / loss.item()).backward()",
        # a mask of its own values
        "h = x @ A\n((h * (h > 0)) @ B).sum().backward()",
    ],
)
def test_cuts_that_cost_nothing(cell: Any, space: Space, source: str) -> None:
    record = cell("A, B = P(16, 8), P(8, 4)\n" + source, space)
    assert kinds(record) == []


def test_one_sentence_for_a_loop_that_cuts_at_one_place(cell: Any, space: Space) -> None:
    text = "ws = [P(3) for _ in range(3)]\nloss = sum(float(w.square().sum()) for w in ws[:2]) + ws[2].sum()"
    (finding,) = cell(text + "\nloss.backward()", space).findings
    assert finding.parameters == ["ws[0]", "ws[1]"]
    assert finding.message.endswith("so ws[0] and ws[1] get no gradient.")
    assert finding.remedy == "Leave out float() and go on with the tensor."


def test_a_list_of_tensors_copied_into_one_names_all(cell: Any, space: Space) -> None:
    text = "ws = [P(3) for _ in range(3)]\nv = P(3)\nlosses = [w.square().sum() for w in ws]\n"
    (finding,) = cell(text + "(core.tensor(losses) * v).sum().backward()", space).findings
    assert finding.parameters == ["ws[0]", "ws[1]", "ws[2]"]
    assert (
        "`core.tensor(losses)` copies the values of `losses` into a new constant, so ws[0], ws[1] and"
        in finding.message
    )


def test_a_card_says_an_error_once(cell: Any, space: Space) -> None:
    record = cell("w = P(16, 4)\nh = x @ w\nraise ValueError('the widths are wrong')", space)
    assert record.findings[0].line == 3
    assert widgets.text(record).count("the widths are wrong") == 1
