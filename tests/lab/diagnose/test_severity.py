"""How sure a finding is: a warning is shown by what was recorded, or its rule says what proves it."""

from __future__ import annotations

import ast
from typing import Any

from lab.diagnose.finding import Found
from lab.diagnose.order import proofs
from lab.diagnose.reading.recorded import row_of, weight_in_loss
from lab.diagnose.reading.sources import sources
from lab.diagnose.training.left_unused import ends_stored

# Rules that tell of counts, times, arrays and settings that were recorded, which are no rows and no leaves.
RECORDED = {
    210,
    220,
    250,
    270,
    306,
    310,
    314,
    330,
    331,
    332,
    381,
    382,
    383,
    505,
    540,
    557,
    565,
    566,
    570,
    626,
    748,
    805,
    820,
}
# Rules of which the text alone is proof, whatever stands around it. Another one has to be as sure as these.
CERTAIN = {271, 353, 504, 508, 522, 533, 549, 555, 561, 563, 580, 586, 587, 594, 595, 618, 756, 773}

POLICY = """
net = nn.Linear(16, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
returns = torch.rand(64)
for step in range(4):
    log_prob = net(x).log_softmax(1)[:, 0]
    loss = (log_prob * returns).mean(){}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_the_rules_whose_findings_need_no_op_and_no_parameter_are_known() -> None:
    assert proofs.keys() == RECORDED | CERTAIN
    assert {place for place, said in proofs.items() if len(said.split()) < 4} == set()


def test_a_warning_that_nothing_shows_is_a_note_that_reads_like_a_mistake() -> None:
    shown: list[dict[str, Any]] = [{}, {"rows": [None]}, {"leaves": [None]}, {"proof": "steps were counted"}]
    told = [Found("loss", "warning", 1, 0, "", "", **by) for by in shown]
    for found in told:
        found.weigh("")
    assert [(f.severity, f.reads) for f in told] == [("note", True), *[("warning", False)] * 3]


def test_the_proof_of_a_rule_is_that_of_its_findings() -> None:
    found = Found("loss", "warning", 1, 0, "", "")
    found.weigh("the text needs no context")
    assert (found.severity, found.reads, found.proof) == ("warning", False, "the text needs no context")


def test_errors_and_notes_stay_what_they_are() -> None:
    for severity in ("error", "note"):
        found = Found("loss", severity, 1, 0, "", "")
        found.weigh("")
        assert (found.severity, found.reads) == (severity, False)


def test_the_sign_with_which_a_term_enters_the_loss_is_looked_up_in_the_recording(cell: Any, space: Any) -> None:
    (first, *_) = cell(POLICY.format(""), space).findings
    assert (first.severity, first.reads, first.line) == ("warning", False, 6)
    assert first.ops
    assert cell(POLICY.format(" * -1"), space).findings == []


def test_a_weight_in_the_loss_is_followed_through_the_recorded_ops(traced: Any, space: Any) -> None:
    trace = traced(
        """
w = P(4)
up, down, either = w.exp(), w.abs(), w.sin()
loss = (up * 2.0).sum() - down.sum() * 3.0 + either.square().sum()
loss.backward()
""",
        space,
    )
    signs = {row.op: weight_in_loss(trace, row)[0] for row in trace.rows if row.op in ("exp", "abs", "sin")}
    assert signs == {"exp": 1, "abs": -1, "sin": 0}


def test_an_expression_is_known_by_its_characters(traced: Any, space: Any) -> None:
    trace = traced("a, b = x.exp(), x.exp().sin()\nprint(a + b)", space)
    (source,) = [source for source in sources(trace) if not source.name]
    calls = [n for n in source.nodes if isinstance(n, ast.Call) and ast.unparse(n) != "print(a + b)"]
    rows = {ast.unparse(n): row_of(trace, source, n) for n in calls}
    assert {text: row.op for text, row in rows.items() if row is not None} == {"x.exp()": "exp", "x.exp().sin()": "sin"}
    assert len({row_of(trace, source, n) for n in calls}) == 3


def test_the_end_of_an_episode_is_looked_for_in_the_memory(traced: Any, space: Any) -> None:
    text = "memory = [(x[0], 0, 1.0, {}), (x[1], 1, 0.5, False)]\nx.sum()"
    told = [ends_stored(traced(text.format(end), space), 3, 4) for end in ("True", "False", "None")]
    assert told == [True, False, False]
