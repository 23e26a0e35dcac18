"""The gallery: for every finding of lab/docs/findings.md its cell, run now, and the live card that it gives."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterable

import widgets

from .cells import Section, read_by_findings, run_cell, sections
from .prose import fenced


def name_of(title: str) -> str:
    """Return a section's name in addresses.

    >>> name_of("eval() and train() forgotten")
    'eval-and-train-forgotten'
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def pages(only: Iterable[str] | None = None) -> tuple[dict[str, str], dict[str, bytes]]:
    """Return the pages by name, of all findings or of those named, and the cards that they show.

    >>> texts, cards = pages(["the-graph-is-cut"])
    >>> sorted(texts), sorted(cards)
    (['gallery/index', 'gallery/the-graph-is-cut'], ['gallery/the-graph-is-cut.html'])
    """
    wanted = [s for s in sections() if only is None or name_of(s.title) in only]
    texts: dict[str, str] = {}
    cards: dict[str, bytes] = {}
    for section in wanted:
        name = name_of(section.title)
        with contextlib.redirect_stdout(io.StringIO()):  # what the cells print is not shown
            record = run_cell(section.broken, read_by_findings())
        record.title = section.title
        said = any(finding.remedy == section.remedy for finding in record.findings)
        if said:
            cards[f"gallery/{name}.html"] = widgets.html(record).encode()
        texts[f"gallery/{name}"] = _page(section, name, said)
    rows = "\n".join(f"| [{s.title}]({name_of(s.title)}.md) | {_in_table(s.message)} |" for s in wanted)
    tree = "\n".join(name_of(s.title) for s in wanted)
    texts["gallery/index"] = (
        "# Gallery of findings\n\nEach page has a cell with a mistake, and the card that stands under it, from a run "
        "when this site was built. Click through it: graph, gradients and timings are that run's.\n\n"
        f"| finding | what the card says |\n|---|---|\n{rows}\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    )
    return texts, cards


def _in_table(text: str) -> str:
    return text.replace("|", "\\|")


def _page(section: Section, name: str, said: bool) -> str:
    shown = f"```{{raw}} html\n:file: {name}.html\n```" if said else "It takes a machine with a GPU: not shown here."
    broken, mended = (fenced(cell.rstrip(), "python") for cell in (section.broken, section.mended))
    return (
        f"# {section.title}\n\n{section.about}\n\n{broken}\n\n## The card\n\n{shown}\n\n"
        f"> {section.message}\n>\n> {section.remedy}\n\n## Mended\n\n{mended}\n"
    )
