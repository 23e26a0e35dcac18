"""`python -m lab shrink`: a model of a file, as text and as a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.__main__ import main
from lab.shrinking import shrink

SCRIPT = """
import core
from core import nn

model = nn.Sequential(
    nn.Linear(8, 16),
    nn.Linear(16, 3),
)
x, y = core.rand(40, 8), core.arange(40) % 3
if __name__ == "__main__":
    raise SystemExit("it was not asked to train")
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shrink, "ROUND_S", 1e-4)
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path / "train.py"


def test_text_and_a_page(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = script.parent / "shrink.html"
    words = ["shrink", f"{script}:model", "--data", "(x, y)", "--variants", "bf16", "--report", str(report)]
    assert main(words) == 0
    said = capsys.readouterr()
    assert "2 variants · model" in said.out
    assert "wrote" in said.err
    page = report.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "train.py line 6" in page
    with pytest.raises(ValueError, match=r"ends in \.html, \.txt"):
        shrink.Shrinking().save("x.png")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{}:modl", "--data", "x"], "has nothing called 'modl'; did you mean model?"),
        (["{}", "--data", "x"], "needed FILE.py:MODEL"),
        (["none.py:model", "--data", "x"], "no such file: none.py"),
        (["{}:model", "--data", "3"], "the data are int"),
        (["{}:model", "--data", "x", "--report", "x.png"], "needs a name that ends in .html, .txt"),
    ],
)
def test_what_cannot_be_is_told(script: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["shrink", *(word.format(script) for word in words)])
    assert said in capsys.readouterr().err
