"""What fewer bits cost: every form of every model is made and asked; no figure is judged."""

from __future__ import annotations

import json

import pytest

from lab.benchmarks import command, small_accuracy


@pytest.mark.parametrize("name", ["digits", "GPT", "LSTM"])
def test_every_form_of_a_model_has_a_row(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(small_accuracy, "BITS", (8, 2))
    path = tmp_path / "rows.json"
    status = command.main(["small-accuracy", "--only", name, "--scale", "0.01", "--seeds", "1", "--json", str(path)])
    rows = json.loads(path.read_text())
    model = rows[0]["model"]
    forms = [f for f in small_accuracy.FORMS if small_accuracy.ONLY.get(f, model) == model]
    assert [r["form"] for r in rows] == ["float32", *forms, "float32, trained on", "int8 aware", "int2 aware"]
    sizes = {r["form"]: r["bytes"] / rows[0]["bytes"] for r in rows}
    assert sizes["int4 weights"] < sizes["int8 weights"] < sizes["bfloat16 weights"] < 0.55
    out = capsys.readouterr().out
    assert name in out
    assert status == int("above what is asked" in out)
