"""The table of packages: what it says of programs that run, differ, fail, and of packages that are not there."""

from __future__ import annotations

import pytest

from tests.packages import __main__ as table


def test_every_program_names_its_package_and_tells_numbers():
    for path in table.programs([]):
        assert table.distribution(path).replace("-", "").replace("_", "").isalnum()
        assert "tell(" in path.read_text()


@pytest.mark.parametrize(("ours", "theirs", "off"), [
    ({"a": [1.0]}, {"a": [1.0]}, 0.0), ({"a": [2.0]}, {"a": [4.0]}, 0.5), ({"a": [0.1]}, {"a": [0.2]}, 0.1),
    ({"a": [1.0]}, {"b": [1.0]}, float("inf")), ({"a": [1.0]}, {"a": []}, float("inf")),
    ({"a": [float("nan")]}, {"a": [float("nan")]}, 0.0),
])  # fmt: skip
def test_differences_are_over_one_or_the_larger(ours, theirs, off):
    assert table.difference(ours, theirs) == pytest.approx(off)


def test_a_program_runs_on_core_alone(tmp_path, monkeypatch, capsys):
    (tmp_path / "with_numpy.py").write_text(f'"""numpy: a step."""\nimport sys\nsys.path.append("{table.HERE}")\n'
        "import torch\nfrom told import steps, tell\nw = torch.ones(2, requires_grad=True)\n"
        "tell(t=steps([w], lambda: (w * w).sum()), w=w)\n")  # fmt: skip
    (tmp_path / "with_nobody.py").write_text('"""nobody-has-this: nothing."""\n')
    (tmp_path / "with_fails.py").write_text('"""numpy: fails."""\nraise ValueError("why")\n')
    monkeypatch.setattr(table, "programs", lambda names: sorted(tmp_path.glob("with_*.py")))
    assert table.main(["--core", "--json", str(tmp_path / "table.json")]) == 1
    said = capsys.readouterr().out
    assert "1 of 2 run; not installed: nobody-has-this" in said
    assert "no: ValueError: why" in said
