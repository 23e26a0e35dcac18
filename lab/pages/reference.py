"""The reference: the public names of core as pages, a page for a module."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from .docstrings import Link, directive, inline, rst, sentence
from .names import Entry, Page, pages

MANY = 250
"""Names from which on a module has a page for each letter."""
_ABOUT = (
    "Every public name of core with its signature and an example. Names and meaning are PyTorch's. The search finds "
    "``softmax`` as well as ``core.softmax``."
)


def write(only: Iterable[str] | None = None) -> dict[str, str]:
    """Return the reference's pages by name, of all modules or of those named.

    >>> sorted(write(["core.fft"]))
    ['api/core.fft', 'api/index']
    """
    made = pages()
    entries = [entry for page in made for entry in page.entries]
    known = {entry.name for entry in entries} | {member.name for entry in entries for member in entry.members}
    wanted = [page for page in made if only is None or page.name in only]
    texts: dict[str, str] = {}
    for page in wanted:
        link = _linker(page.name, known)
        texts |= _by_letter(page, link) if len(page.entries) > MANY else {f"api/{page.name}": _whole(page, link)}
    rows = _table((f":doc:`{page.name} <{page.name}>`", inline(sentence(page.doc))) for page in wanted)
    parts = [heading("Reference of core"), _ABOUT, rows, _hidden(page.name for page in wanted)]
    texts["api/index"] = "\n\n".join(parts) + "\n"
    return texts


def _whole(page: Page, link: Link) -> str:
    entries = [_described(entry, page.name, link) for entry in page.entries]
    return "\n\n".join(part for part in (_head(page, link), *entries, _elsewhere(page)) if part) + "\n"


def _by_letter(page: Page, link: Link) -> dict[str, str]:
    """Return a page for each letter, and one that lists them all."""
    by_letter: dict[str, list[Entry]] = {}
    for entry in page.entries:
        by_letter.setdefault(entry.name.rpartition(".")[2].lstrip("_")[:1].lower(), []).append(entry)
    files, lists = {}, []
    for letter, entries in sorted(by_letter.items()):
        parts = [heading(f"{page.name}, {letter.upper()}"), _current(page)]
        parts += (_described(entry, page.name, link) for entry in entries)
        files[f"api/{page.name}-{letter}"] = "\n\n".join(parts) + "\n"
        short = ((e, e.name.removeprefix(f"{page.name}.")) for e in entries)
        lists.append(heading(letter.upper(), "-"))
        lists.append(_table((f":py:obj:`{name} <{e.name}>`", inline(sentence(e.doc)) or "–") for e, name in short))
    tree = _hidden(f"{page.name}-{letter}" for letter in sorted(by_letter))
    parts = [_head(page, link), *lists, _elsewhere(page), tree]
    files[f"api/{page.name}"] = "\n\n".join(part for part in parts if part) + "\n"
    return files


def heading(text: str, line: str = "=") -> str:
    """Return a heading.

    >>> heading("A", "-")
    'A\\n-'
    """
    return f"{text}\n{line * len(text)}"


def _module(name: str) -> str:
    return name.removesuffix(".Tensor")


def _current(page: Page) -> str:
    return f".. py:currentmodule:: {_module(page.name)}"


def _head(page: Page, link: Link) -> str:
    return f"{heading(page.name)}\n\n{_current(page)}\n\n{rst(page.doc, link)}"


def _linker(at: str, known: set[str]) -> Link:
    """From a name in a docstring of `at` to the public name: as it stands, in the module, in core."""

    def link(name: str) -> str:
        bare = name.removesuffix("()")
        tried = (bare, f"{at}.{bare}", f"core.{bare}", f"core.Tensor.{bare}", f"core.nn.functional.{bare}")
        return next((t for t in tried if t in known), "")

    return link


def _described(entry: Entry, page: str, link: Link) -> str:
    parts = [rst(entry.doc, link)]
    if entry.also:
        parts.append("Also " + ", ".join(f"``{name}``" for name in dict.fromkeys(entry.also)) + ".")
    parts += (_described(member, page, link) for member in entry.members)
    name = entry.name.removeprefix(f"{_module(page)}.")
    return directive(f"py:{entry.kind}", name + entry.signature, "\n\n".join(parts))


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return ".. list-table::\n   :widths: 30 70\n\n" + "\n".join(f"   * - {a}\n     - {b}" for a, b in rows)


def _hidden(names: Iterable[str]) -> str:
    return ".. toctree::\n   :hidden:\n\n" + textwrap.indent("\n".join(names), "   ")


def _elsewhere(page: Page) -> str:
    if not page.elsewhere:
        return ""
    rows = (
        (f"``{name.removeprefix(page.name + '.')}``", f":py:obj:`{other}`") for name, other in page.elsewhere.items()
    )
    return f"{heading('Described elsewhere', '-')}\n\n{_table(sorted(rows))}"
