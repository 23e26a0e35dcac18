"""Remedies of planted mistakes, tried: what is proved, what is consistent, and that placebos are refused."""

from __future__ import annotations

import pytest

from lab.prove import proving
from lab.prove.cell import Patch
from lab.prove.proving import Prover, alone_s, changed_lines, propose, prove
from lab.prove.remedies import patches
from lab.prove.snapshot import missing
from lab.prove.timing import Comparison
from lab.prove.verdict import STAYS, Verdict
from tests.lab.diagnose.planted import CELLS
from widgets import html, text
from widgets.record import Finding, Record

from .cells import planted, text_of
from .placebos import placebos

pytestmark = pytest.mark.usefixtures("trials")

SOME = {
    "no zero_grad": "proved", "zero_grad after backward": "proved", "layers in a plain list": "proved",
    "a cut through numpy": "proved", "a penalty that is a number": "proved",
    "no_grad around the forward pass": "proved",
    "the optimizer of an older model": "proved", "optimizer.step without parentheses": "proved",
    "the log of zero": "proved", "a column without spread": "proved", "a learning rate far too large": "proved",
    "a hidden state kept over batches": "proved", "total_loss += loss": "proved", "all weights zero": "proved",
    "the same product in each step": "proved", "python loop over elements": "proved",
    "softmax before cross_entropy": "consistent", "mse_loss of two shapes": "consistent",
    "a target network by a second name": "consistent", "dropout in every mode": "consistent",
    "eval() and never train() again": "proved", "pairs of indices": "consistent",
}  # fmt: skip


@pytest.mark.parametrize("name", SOME)
def test_the_remedy_of_a_planted_mistake_holds(name: str) -> None:
    source = text_of(name)
    with planted(source) as (record, snapshot):
        result = Prover(snapshot, source, alone_s(record)).finding(record.findings[0])
    assert result is not None
    assert result[0].level == SOME[name], result
    assert result[1].text != source


@pytest.mark.parametrize("name", list(SOME)[::3])
def test_what_mends_nothing_is_refused(name: str) -> None:
    source = text_of(name)
    with planted(source) as (record, snapshot):
        finding, prover = record.findings[0], Prover(snapshot, source, alone_s(record))
        for patch in placebos(source, finding.kind, finding.line):
            assert prover.one(finding.kind, patch).level in ("refuted", "unknown"), patch


def test_a_lower_loss_alone_proves_nothing() -> None:
    """Without zero_grad() a small model fits faster; the way back from the remedy must be refused all the same."""
    source = text_of("no zero_grad")
    with planted(source) as (record, snapshot):
        (cleared, *_) = patches(source, record.findings[0])
    with planted(cleared.text) as (_, snapshot):
        prover = Prover(snapshot, cleared.text, 0.1)
        _, found = prover.before(Patch("", cleared.text))
        found["found"].append({"kind": "zero-grad", "severity": "warning", "line": 1, "message": ""})
        verdict = prover.one("zero-grad", Patch("the mistake", source))
    assert verdict.level == "refuted"


def test_a_record_says_what_was_tried() -> None:
    source = text_of("no zero_grad")
    with planted(source) as (record, snapshot):
        prove(record, snapshot, source)
    first = record.findings[0]
    assert first.tried.startswith("Tried: backward passes added to gradients of earlier steps: 9 before, 0 now")
    assert first.patch == "line 6 +     optimizer.zero_grad()"
    assert f"    {first.tried}" in text(record).split("\n")
    assert "line 6 +     optimizer.zero_grad()" in html(record)


def test_where_a_busy_machine_does_not_tell_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    source = text_of("the same product in each step")
    monkeypatch.setattr(Comparison, "turns", lambda self: iter(()))
    monkeypatch.setattr(Comparison, "unknown", lambda self: "the machine is busy")
    monkeypatch.setattr(proving, "_may_be_faster", lambda runs: True)
    with planted(source) as (record, snapshot):
        verdict = Prover(snapshot, source, alone_s(record)).one(record.findings[0].kind, Patch("", f"{source}pass\n"))
    assert verdict == Verdict("unknown", "the machine is busy")


def test_what_does_not_help_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    source = text_of("no zero_grad")
    with planted(source) as (record, snapshot):
        record.findings.append(Finding("loss", "note", 5, message="Line 5 is another one."))
        monkeypatch.setattr(proving, "patches", lambda text, finding: [Patch("nothing", f"{text}pass\n")])
        monkeypatch.setattr(proving, "FINDINGS", 1)
        prove(record, snapshot, source)
    assert [f.kind for f in record.findings] == ["loss", "zero-grad"]
    assert record.findings[1].tried == "Tried: it did not help (the finding stays)."


def test_the_same_mistake_on_another_line_is_mended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule tells of one line at a time; the patch of the first is tried with that of the second."""
    text = "a = a / len(l.dataset)\nb = b / len(v.dataset)\n"
    remedy = "Divide by what is drawn: len({}.sampler)."
    first, second = (
        Finding("evaluation", "warning", n, message=f"Line {n}: `len({x}.dataset)`.", remedy=remedy.format(x))
        for n, x in ((1, "l"), (2, "v"))
    )
    prover = Prover.__new__(Prover)
    prover.text, prover.left, prover.end = text, [], float("inf")

    def one(kind: str, patch: Patch) -> Verdict:
        told = {name: getattr(second, name) for name in ("kind", "severity", "line", "message", "remedy")}
        prover.left = [told] if "v.dataset" in patch.text else []
        return Verdict("refuted", STAYS) if prover.left else Verdict("consistent", "gone")

    monkeypatch.setattr(prover, "one", one)
    result = prover.finding(first)
    assert result is not None
    assert result[0].level == "consistent"
    assert result[1].text == text.replace("dataset", "sampler")


def test_a_guess_that_fails_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    source = text_of("no zero_grad")
    with planted(source) as (record, snapshot):
        guess = Patch("nothing", f"{source}pass\n", guess=True)
        monkeypatch.setattr(proving, "patches", lambda text, finding: [guess])
        assert Prover(snapshot, source, 0.1).finding(record.findings[0]) is None
        propose(record, source, "")
    assert not record.findings[0].patch


def test_what_takes_too_long_is_tried_on_its_first_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    prover = Prover.__new__(Prover)
    prover.steps, prover._before = 0, {("", ()): ({"passes": 7, "error": "IndexError"}, {})}
    tried: list[int] = []

    def whole(kind: str, patch: Patch) -> Verdict:
        tried.append(prover.steps)
        return Verdict("proved", "better") if prover.steps else Verdict("untried", "it took longer than 5 s")

    monkeypatch.setattr(prover, "_whole", whole)
    assert prover.one("error", Patch("a patch", "x = 1\n")).level == "proved"
    assert tried == [0, proving.PASSES + 7]  # past where the cell failed


def test_code_that_names_what_is_not_there_is_no_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    source = text_of("no zero_grad")
    with planted(source) as (record, snapshot):
        unknown = Patch("a name of another function", f"{source}no_such_name\n")
        monkeypatch.setattr(proving, "patches", lambda text, finding: [unknown])
        assert Prover(snapshot, source, 0.1).finding(record.findings[0]) is None


def test_an_unchanged_cell_without_the_finding_tells_so() -> None:
    source = text_of("no zero_grad")
    with planted(source) as (_, snapshot):
        verdict = Prover(snapshot, source, 0.1).one("cut", Patch("nothing", f"{source}pass\n"))
    assert verdict.level == "untried"


def test_untried_patches_are_shown_with_the_reason() -> None:
    source = text_of("no zero_grad")
    record = Record(
        findings=[Finding("zero-grad", "warning", 6, remedy="Call optimizer.zero_grad() before backward().")]
    )
    propose(record, source, "the GPU is in use")
    assert record.findings[0].tried == "Not tried: the GPU is in use."
    assert "optimizer.zero_grad()" in record.findings[0].patch


@pytest.mark.parametrize(("capability", "why"), [((0, 0), ""), ((9, 0), "the GPU is in use")])
def test_the_interpreter_is_no_gpu(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], why: str) -> None:
    monkeypatch.setattr("core.cuda.is_initialized", lambda: True)
    monkeypatch.setattr("core.cuda.get_device_capability", lambda: capability)
    assert missing().startswith(why) if why else not missing()


def test_changed_lines_are_data_in_html() -> None:
    evil = "<script>alert(1)</script>"
    finding = Finding(
        "cut", "error", 1, message="m", tried=f"Tried: {evil}", patch=changed_lines("x = 1", f"x = '{evil}'")
    )
    page = html(Record(findings=[finding]))
    assert evil not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_every_planted_cell_named_here_is_there() -> None:
    assert set(SOME) <= set(CELLS)
