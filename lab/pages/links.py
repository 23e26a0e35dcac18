"""Links of a built site: those inside lead to a file and an anchor in it, and nothing is loaded from outside."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}


@dataclass
class Report:
    """What was found: links that lead nowhere, what pages load from elsewhere, and addresses outside, not followed."""

    pages: int = 0
    links: int = 0
    broken: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    outside: set[str] = field(default_factory=set)


class _Page(HTMLParser):
    """Reads a page's anchors, links, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "link" and found.get("rel", "") in ("stylesheet", "preload", "icon"):
            self.loads.append(found.get("href", ""))
        elif tag in LOADS and LOADS[tag] in found:
            self.loads.append(found[LOADS[tag]])
        elif tag == "a" and "href" in found:
            self.links.append(found["href"])


def check(folder: Path) -> Report:
    """Read every page of a folder.

    >>> import tempfile
    >>> there = Path(tempfile.mkdtemp())
    >>> _ = (there / "a.html").write_text('<p id="x"><a href="#x">1</a><a href="#y">2</a><img src="https://a.b/c.png">')
    >>> report = check(there)
    >>> report.links, report.broken, report.loaded
    (2, ['a.html: #y has no such anchor'], ['a.html: https://a.b/c.png'])
    """
    pages: dict[Path, _Page] = {}
    for path in sorted(folder.rglob("*.html")):
        pages[path.resolve()] = page = _Page()
        page.feed(path.read_text(encoding="utf-8"))
    report = Report(pages=len(pages))
    for path, page in pages.items():
        name = str(path.relative_to(folder.resolve()))
        for address in [*page.links, *page.loads]:
            split = urlsplit(address)
            if address in page.loads and (split.scheme not in ("", "data") or split.netloc):
                report.loaded.append(f"{name}: {address}")
            elif split.scheme or split.netloc:
                report.outside |= {address} if split.scheme != "data" else set()
            else:
                report.links += 1
                report.broken += [f"{name}: {address} {why}" for why in _wrong(path, split.path, split.fragment, pages)]
    return report


def _wrong(page: Path, path: str, fragment: str, pages: dict[Path, _Page]) -> list[str]:
    target = (page.parent / unquote(path)).resolve() if path else page
    if not target.is_file():
        return ["leads to no file"]
    if fragment and target in pages and unquote(fragment) not in pages[target].anchors:
        return ["has no such anchor"]
    return []
