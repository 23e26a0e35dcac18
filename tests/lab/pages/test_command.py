"""`python -m lab docs`: a small site is built and its links followed; what is said where one leads nowhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from lab import pages
from lab.__main__ import main
from lab.pages import command, names
from lab.pages.command import Built, build
from lab.pages.links import check


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """README and the documents, two modules, two findings, the notebooks as they are, the commands."""
    findings = ["the-graph-is-cut", "no-zero-grad"]
    return build(
        tmp_path_factory.mktemp("pages") / "site", modules=["core.fft", "core.func"], findings=findings, run=False
    )


def test_every_link_leads_somewhere_and_nothing_comes_from_outside(built: Built) -> None:
    assert built.warnings == built.report.broken == built.report.loaded == []
    assert built.report.links > 500


def test_a_name_has_its_signature_its_example_and_an_anchor(built: Built) -> None:
    text = (built.folder / "api" / "core.func.html").read_text()
    assert 'id="core.func.jacrev"' in text
    bare = re.sub(r"<[^>]+>", "", text)
    assert "core.func.jacrev(" in bare
    assert "&gt;&gt;&gt; core.func.jacrev" in bare
    assert "core.vmap" in bare  # where `vmap` is described


def test_a_finding_has_its_live_card_and_its_sentence(built: Built) -> None:
    text = (built.folder / "gallery" / "the-graph-is-cut.html").read_text()
    assert '<div class="gradlab-card">' in text
    assert "<script>" in text
    assert "cuts the graph" in text
    assert "Mended" in text


def test_the_search_finds_names_and_words_without_a_server(built: Built) -> None:
    index = (built.folder / "searchindex.js").read_text()
    assert index.startswith("Search.setIndex(")
    for word in ("vmap", "autograd", "zero_grad"):
        assert word in index


def test_the_front_page_is_the_readme_and_lists_all_parts(built: Built) -> None:
    text = (built.folder / "index.html").read_text()
    assert "You have a model that trains badly or slowly" in text
    for page in (
        "gallery/index",
        "notebooks/index",
        "commands",
        "api/index",
        "tuning",
        "saving",
        "mistakes",
        "coverage",
    ):
        assert f'href="{page}.html"' in text


def test_every_command_and_magic_is_on_its_page(built: Built) -> None:
    text = (built.folder / "commands.html").read_text()
    for said in ("%autograd", "%tune", "%export", "%as_torch", "python -m lab docs", "--check", "--report FILE"):
        assert said in text


def test_a_link_that_leads_nowhere_is_told(built: Built, tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text('<p id="here"><a href="a.html">a</a><a href="b.html#there">b</a>')
    assert check(tmp_path).broken == ["b.html: a.html leads to no file", "b.html: b.html#there has no such anchor"]


def test_a_folder_that_is_no_site_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").write_text("all of it")
    assert command.main(["--out", str(tmp_path)]) == 2
    assert "is there and no site of ours" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_without_sphinx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "furo", None)
    for name in ("command", "generator"):
        monkeypatch.delitem(sys.modules, f"lab.pages.{name}")
        monkeypatch.delattr(pages, name)
    assert main(["docs", "--help"]) == 2
    assert "Remedy: pip install 'gradlab[docs]'" in capsys.readouterr().err


def test_every_public_name_of_core_is_described_once() -> None:
    found = names.pages()
    shown = [entry.name for page in found for entry in page.entries]
    assert len(shown) == len({*shown}) > 1500
    described = {*shown} | {name for page in found for name in page.elsewhere}
    for name in ("core.softmax", "core.nn.Linear", "core.Tensor.register_hook", "core.optim.AdamW",
                 "core.nn.functional.softmax", "core.linalg.svd", "core.distributions.Normal"):  # fmt: skip
        assert name in described
    assert [entry.name for page in found for entry in page.entries if not entry.doc] == []
