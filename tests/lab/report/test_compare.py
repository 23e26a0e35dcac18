"""The difference of two runs: what came, went, grew; and nothing when nothing changed."""

from __future__ import annotations

from typing import Any

import pytest

import core
import lab
from widgets import Record, compare
from widgets.record import Finding, GradientRow, LineRow, Memory, OpRow

Space = dict[str, Any]


def test_every_kind_of_change() -> None:
    before = Record(
        "In [1]", "h = x @ w\ny = h.tanh()", forward_ms=1.0, wall_ms=2.0, memory=Memory(1000),
        ops=[OpRow(0, "matmul", line=1, shape=[4]), OpRow(1, "tanh", line=2, shape=[4])],
        lines=[LineRow(1, 0.5), LineRow(2, 0.5)], gradients=[GradientRow("w", norm=1.0), GradientRow("b", norm=1.0)],
        findings=[Finding("nan", "error", 2, message="Line 2 makes NaN")],
    )  # fmt: skip
    after = Record(
        "In [2]", "h = x @ w\nz = 1\ny = h.relu()", forward_ms=1.05, wall_ms=9.0, memory=Memory(3000),
        ops=[OpRow(0, "matmul", line=1, shape=[4]), OpRow(1, "relu", line=3, shape=[4])],
        lines=[LineRow(1, 4.0), LineRow(3, 0.5)], gradients=[GradientRow("w", norm=9.0), GradientRow("b")],
        findings=[Finding("cut", "warning", 3, message="Line 3 cuts the graph")],
    )  # fmt: skip
    changes = {(c.kind, c.name): (c.before, c.after, c.line, c.note) for c in compare(before, after).changes}
    assert changes == {
        ("finding", "cut"): ("", "Line 3 cuts the graph", 3, "new"),
        ("finding", "nan"): ("Line 2 makes NaN", "", 2, "gone"),
        ("time", "wall"): ("2.00 ms", "9.00 ms", None, "×4.5"),
        ("memory", "peak"): ("1 kB", "3 kB", None, "×3"),
        ("op gone", "tanh"): ("4", "", 2, ""),
        ("op added", "relu"): ("", "4", 3, ""),
        ("line", "h = x @ w"): ("500 µs", "4.00 ms", 1, "×8"),
        ("gradient", "w"): ("1.00", "9.00", None, "×9"),
        ("gradient", "b"): ("1.00", "none", None, ""),
    }


def test_a_record_beside_itself_is_no_change() -> None:
    with lab.record() as rec:
        core.ones(4, requires_grad=True).exp().sum().backward()
    assert lab.compare(rec, rec).changes == []
    assert "Nothing changed" in str(lab.compare(rec, rec.record))
    with pytest.raises(TypeError, match="needs two recordings"):
        lab.compare(rec, 3)


def test_a_record_keeps_its_comparison_in_json() -> None:
    record = Record("In [2]", comparison=compare(Record(forward_ms=1.0), Record(forward_ms=5.0)))
    assert Record.from_json(record.to_json()) == record


def test_its_text_is_at_most_100_characters_wide() -> None:
    message = "Line 3 cuts the graph, so 40 parameters get no gradient: " + ", ".join(
        f"layer.{k}.weight" for k in range(9)
    )
    before = Record("In [1]", "y = " + "x + " * 60 + "x", lines=[LineRow(1, 1.0)], findings=[])
    after = Record(
        "In [2]", before.source, lines=[LineRow(1, 9.0)], findings=[Finding("cut", "error", 3, message=message)]
    )
    after.gradients = [GradientRow("encoder.layers." * 9 + "11.weight", norm=2.0)]
    after.ops = [OpRow(0, "evil\x1b[2Jop" * 9, shape=[1] * 60, module="a." * 99 + "b", line=1)]
    text = str(lab.compare(before, after))
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b" not in text
    assert "layer.8.weight" in text  # a sentence is wrapped, not cut
    assert "11.weight" in text  # of a parameter's name the end tells most


def test_the_text_of_a_card_offers_the_difference() -> None:
    with lab.record() as rec:
        core.ones(4).exp()
    record = rec.record
    assert "beside" not in str(rec)
    record.comparison = compare(Record("In [1]", forward_ms=1.0), Record(forward_ms=5.0))
    assert "1 change beside In [1]: print(lab.last().comparison)" in str(rec)


def test_another_batch_size_is_another_shape_and_no_other_op() -> None:
    before = Record(ops=[OpRow(0, "relu", shape=[64, 8], line=2), OpRow(1, "tanh", shape=[64, 8], line=3)])
    after = Record(ops=[OpRow(0, "relu", shape=[32, 8], line=2), OpRow(1, "exp", shape=[32, 8], line=3)])
    assert [(c.kind, c.name, c.before, c.after, c.line) for c in lab.compare(before, after).changes] == [
        ("op gone", "tanh", "64×8", "", 3),
        ("op shape", "relu", "64×8", "32×8", 2),
        ("op added", "exp", "", "32×8", 3),
    ]


def trained(norm: float, ms: float, **more: Any) -> Record:
    """A run of a cell that trains 300 parameters."""
    source = "loss = f(model(x))\nloss.backward()"
    return Record(
        "In [1]", source, wall_ms=9 * ms, forward_ms=ms, backward_ms=2 * ms,
        ops=[OpRow(k, "linear", line=1, shape=[4], module=f"model.{k}") for k in range(30)],
        lines=[LineRow(1, ms), LineRow(2, 0, 2 * ms)], gradients=[GradientRow(f"p{k}", norm=norm) for k in range(300)],
        findings=[Finding("loss", "note", 2, message=f"Line 2 took the loss from {norm} to {ms:.3e} in 30 steps.")],
        memory=Memory(int(1e6 * ms)), **more,
    )  # fmt: skip


def test_an_unchanged_rerun_has_no_changes() -> None:
    """Training went on and the machine was busy: 337 changes."""
    found = compare(trained(1.0, 3.0), trained(7.5, 4.0))
    assert found.changes == []
    assert str(found).splitlines()[1:] == [
        "Nothing changed beyond the noise of two runs. It took 36.0 ms; before, 27.0 ms."
    ]
    record = trained(7.5, 4.0)
    record.comparison = found
    assert "Nothing changed" in str(record)
    assert Record.from_json(record.to_json()).comparison == found


def test_what_an_unchanged_rerun_must_still_tell() -> None:
    worse = trained(1.0, 3.0)
    worse.gradients[3].norm = float("nan")
    worse.gradients[4].norm = None
    worse.memory = Memory(9_000_000)
    worse.findings.append(Finding("nan", "error", 1, message="Line 1 makes NaN."))
    found = {(c.kind, c.name): (c.before, c.after) for c in compare(trained(1.0, 3.0), worse).changes}
    assert found == {
        ("finding", "nan"): ("", "Line 1 makes NaN."),
        ("memory", "peak"): ("3 MB", "9 MB"),
        ("gradient", "p3"): ("1.00", "nan"),
        ("gradient", "p4"): ("1.00", "none"),
    }
    still = compare(worse, worse)
    assert still.changes == []  # NaN beside NaN


def test_other_kernels_or_threads_make_times_changes() -> None:
    tuned = trained(1.0, 1.0, environment={"C kernels": "8 threads"})
    assert {c.name for c in compare(trained(1.0, 3.0), tuned).changes} >= {"forward", "backward", "wall"}


def test_many_norms_are_one_change() -> None:
    changed = trained(7.5, 3.0)
    changed.source += "\n"
    (found,) = [c for c in compare(trained(1.0, 3.0), changed).changes if c.kind == "gradient"]
    assert (found.name, found.note) == ("300 norms", "most: p0 ×7.5")


def test_a_finding_whose_figures_are_others_is_the_same() -> None:
    before, after = trained(1.0, 3.0), trained(2.0, 4.0)
    after.source = "# more\n" + after.source
    assert [c for c in compare(before, after).changes if c.kind == "finding"] == []
