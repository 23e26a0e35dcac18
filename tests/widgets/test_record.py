"""The record: a round trip through JSON, and clear errors on what is no record."""

import json
import math

import pytest

from widgets import text
from widgets.record import VERSION, Finding, GradientRow, OpRow, Record, Stats

from . import samples


@pytest.mark.parametrize("name", [name for name in samples.ALL if name not in ("hostile", "long", "failed")])
def test_round_trip(name):
    record = samples.ALL[name]()
    assert Record.from_json(record.to_json()) == record


def test_round_trip_of_hostile_strings_and_nonfinite_figures():
    record = samples.hostile()
    again = Record.from_json(record.to_json())
    assert again.ops[0].op == samples.HOSTILE
    assert math.isnan(again.ops_ms)
    assert again.forward_ms == math.inf
    assert again.to_json() == record.to_json()


def test_json_is_strict_and_bears_the_version():
    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    data = json.loads(samples.hostile().to_json(), parse_constant=refuse)
    assert data["version"] == VERSION


def test_numpy_scalars_become_plain_figures():
    numpy = pytest.importorskip("numpy")
    record = Record(
        forward_ms=numpy.float32(1.5), ops=[OpRow(numpy.int64(3), "add", stats=Stats(min=numpy.float64(2)))]
    )
    again = Record.from_json(record.to_json())
    assert (again.forward_ms, again.ops[0].id, again.ops[0].stats.min) == (1.5, 3, 2.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "got no JSON"),
        ("[]", "got version list, needs version 1"),
        ("{}", "got version None, needs version 1"),
        ('{"version": 99}', r"got version 99, needs version 1\. Remedy: run the cell again"),
        ('{"version": 1, "colour": "red"}', "Record has unknown field 'colour', needs of title, source"),
        ('{"version": 1, "title": 3}', r"Record\.title got int \(3\), needs str"),
        ('{"version": 1, "folded": 1}', r"Record\.folded got int \(1\), needs bool"),
        ('{"version": 1, "ops": [{"id": true, "op": "add"}]}', r"Record\.ops\[0\]\.id got bool"),
        ('{"version": 1, "ops": [{"id": 1}]}', r"Record\.ops\[0\] lacks a field .*'op'"),
        ('{"version": 1, "ops": {}}', r"Record\.ops got dict"),
        ('{"version": 1, "wall_ms": "long"}', r"Record\.wall_ms got str \('long'\), needs float"),
    ],
)
def test_what_is_no_record_is_refused(text, message):
    with pytest.raises(ValueError, match=r"Record\.from_json: .*" + message):
        Record.from_json(text)


def test_what_is_no_data_is_refused():
    with pytest.raises(TypeError, match=r"Record\.to_json: got a complex, needs plain data"):
        Record(wall_ms=1j).to_json()


def test_rows_are_not_shared_between_records():
    Record().ops.append(OpRow(0, "add"))
    Finding("cut", "error").ops.append(1)
    assert not Record().ops
    assert not Finding("cut", "error").ops
    assert GradientRow("w").norm is None


def test_a_record_shows_itself() -> None:
    record = Record(title="In [1]", forward_ms=1.0)
    shown = record._repr_mimebundle_()
    assert shown["text/plain"] == str(record) == text(record)
    assert "gradlab" in shown["text/html"]
