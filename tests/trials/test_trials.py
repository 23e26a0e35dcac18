"""The blind sets are whole, and the scorer tells a right line from another; no rule is tried here."""

from __future__ import annotations

import collections
import json

import pytest

from tests.trials.__main__ import HERE, cases, judged, run

WHOLE = {"slow": 20, "numerical": 10, "mistake": 30, "healthy": 30}
KINDS = {**dict.fromkeys((1, 2, 3, 8, 9, 10, 11, 12, 13, 14), WHOLE),
         4: {"slow": 12, "numerical": 6, "mistake": 20, "healthy": 10},
         5: {"slow": 11, "numerical": 6, "mistake": 17, "healthy": 6},
         6: {"slow": 24, "numerical": 9, "mistake": 33, "healthy": 9},
         7: {"slow": 8, "numerical": 3, "mistake": 11, "healthy": 3}}  # fmt: skip


@pytest.mark.parametrize("number", KINDS)
def test_every_case_has_an_answer_that_points_into_its_files(number: int) -> None:
    answers = json.loads((HERE / f"set{number}.json").read_text(encoding="utf-8"))
    found = cases(number)
    assert found.keys() == answers.keys()
    kinds = collections.Counter(answer["kind"] for answer in answers.values())
    assert kinds == KINDS[number]
    for name, answer in answers.items():
        assert "cell1.py" in found[name], name
        for place in (answer, *answer.get("also", ())) if answer["kind"] != "healthy" else ():
            text = found[name][place["file"]]
            assert place["lines"], name
            assert max(place["lines"]) <= text.count("\n"), name
        assert not any(
            folder in text for text in found[name].values() for folder in ("/tmp", "/home", "/root", "/work")
        )


def test_where_a_finding_points() -> None:
    answer = {"kind": "slow", "file": "cell1.py", "lines": [3], "also": [{"file": "net.py", "lines": [7]}]}

    def first(line: int | None, message: str) -> str:
        return judged(answer, [["cat", "warning", line, message, ""]], "cell1.py")

    assert [first(3, ""), first(4, ""), first(None, "line 4 (net.py line 7)")] == ["line", "other", "line"]
    assert judged(answer, [], "cell1.py") == "nothing"
    assert judged(answer, [["cat", "warning", 3, "", ""]], "cell2.py") == "other"
    healthy = {"kind": "healthy", "lines": []}
    told = [judged(healthy, [["dtype", s, 1, "", ""]] if s else [], "cell1.py") for s in ("", "note", "look", "error")]
    assert told == ["quiet", "note", "look", "alarm"]


def test_a_case_runs_as_a_notebook_with_its_files() -> None:
    files = {
        "net.py": "import torch\nimport torch.nn as nn\n\ndef net():\n    return nn.Linear(4, 1)\n",
        "cell1.py": "import torch\nfrom net import net\nmodel = net()\nx = torch.randn(8, 4)\n",
        "cell2.py": "opt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for k in range(8):\n    model(x).square().mean().backward()\n    opt.step()\n",
    }
    told = run(files, "core")
    assert "failed" not in told, told
    assert [told["findings"][0][0], told["findings"][0][2]] == ["zero-grad", 3]
    assert "no_such" in run({"cell1.py": "no_such\n", "cell2.py": "1\n"}, "core")["failed"]
