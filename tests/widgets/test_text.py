"""The card as plain text: findings first, aligned columns, no more than about sixty lines."""

import pytest

from widgets import text
from widgets.record import ErrorRow, Finding, KernelRow, OpRow, Record

from . import samples


@pytest.mark.parametrize("name", list(samples.ALL))
def test_length(name):
    lines = text(samples.ALL[name]()).splitlines()
    assert len(lines) <= 60
    assert all(line == line.rstrip() for line in lines)


def test_the_cut_is_the_first_thing_said():
    lines = text(samples.cut()).splitlines()
    assert lines[0].startswith("In [8]: 7 ops · forward")
    assert lines[1].startswith("✕ Error: line 2: `h.numpy()` cut the graph, so 4 parameters get no gradient")
    assert lines[2] == "    Stay in tensors (`h * scale`), or call `h.detach()` if the cut is meant."
    assert sum("no gradient: backward did not reach it" in line for line in lines) == 4


def test_a_finding_without_its_line_in_the_sentence_gets_it():
    record = Record(findings=[Finding("nan", "warning", 3, message="log made a NaN.")])
    assert "▲ Warning: line 3: log made a NaN." in text(record)
    record.findings[0].message = "Line 3 made a NaN, as line 30 did."
    assert "▲ Warning: Line 3 made a NaN, as line 30 did." in text(record)
    record.findings[0].message = "It is like line 30."
    assert "▲ Warning: line 3: It is like line 30." in text(record)


def test_what_is_left_out_is_counted():
    words = text(samples.gpt())
    assert "... and 83 more parameters" in words
    assert "kernels" in words


def test_flagged_gradients_are_not_left_out():
    record = samples.gpt()
    record.gradients[-1].flags = ["exploding"]
    assert f"{record.gradients[-1].name}" in text(record)


def test_a_terminal_is_given_nothing_to_obey():
    record = samples.hostile()
    record.title = "\x1b[31mred\x07"
    words = text(record)
    assert not {c for c in words if not c.isprintable()} - {"\n"}
    words.encode("utf-8")


def test_partial():
    lines = text(samples.failed()).splitlines()
    assert lines[1] == "✕ Error: line 3: IndexError: Dimension out of range (expected -2 to 1, got 7)"
    assert "partial" in lines[2]


def test_slow_kernels_have_readable_times_and_no_false_rates() -> None:
    rows = [KernelRow("gemm", "BLAS", op, 1, 31.4, 31400.0, 2.88e4) for op in ("linear", "matmul")]
    said = text(Record(kernels=rows, ops=[OpRow(0, "linear")]))
    assert "gemm (linear)" in said
    assert "gemm (matmul)" in said
    assert "31.4 ms  31.4 ms  <0.1" in said


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("error", "Line 2 changes a tensor in place by `add_`, which `exp` (line 1) needs, so line 4 fails."),
        ("cut", "Line 2 cuts the graph, so w gets no gradient; backward() on line 4 has nothing to do."),
    ],
)
def test_an_error_that_an_earlier_line_caused_is_told_once(kind: str, message: str) -> None:
    record = Record(
        error=ErrorRow("RuntimeError", "a long phrase", 4), findings=[Finding(kind, "error", 2, None, message)]
    )
    said = text(record)
    assert said.count("✕ Error") == 1
    assert message in said.replace("\n", " ")
    assert "The cell stopped here (RuntimeError)" in said
    record.error = ErrorRow("RuntimeError", "a long phrase", 44)
    assert text(record).count("✕ Error") == 2
