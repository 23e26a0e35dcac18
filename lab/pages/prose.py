"""Documents and notebooks as pages in Markdown: links between files become links between pages."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .shipped import DOCUMENTS, notebooks, root

_LINK = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s]+)\)")
DOCUMENT_TITLES = {"findings": "Findings", "mistakes": "Mistakes", "tuning": "Tuning", "saving": "Saving",
                   "export": "Export", "coverage": "Coverage"}  # fmt: skip
OWN = {"README.md": "index", "CHANGELOG.md": "changelog", "CONTRIBUTING.md": "contributing"}
WIDGET = "application/vnd.jupyter.widget-view+json"


def documents() -> tuple[dict[str, str], dict[str, Path]]:
    """Return the pages of README, CHANGELOG, CONTRIBUTING and lab/docs, and the pictures that they show, by name.

    >>> texts, pictures = documents()
    >>> texts["index"].startswith("# gradlab"), "findings" in texts
    (True, True)
    """
    sources = {name: root() / file for file, name in OWN.items()}
    sources |= {path.stem: path for path in sorted(DOCUMENTS.glob("*.md"))}
    targets = {path.name: name for name, path in sources.items()}
    targets |= {path.name: f"notebooks/{path.stem}" for path in notebooks()}
    pictures: dict[str, Path] = {}
    texts = {name: _linked(path.read_text(encoding="utf-8"), targets, pictures) for name, path in sources.items()}
    return texts, pictures


def _linked(text: str, targets: dict[str, str], pictures: dict[str, Path], up: str = "") -> str:
    """Return a text with its links set right; a link to a file that is no page is its words alone."""

    def link(found: re.Match[str]) -> str:
        picture, words, address = found.groups()
        if re.match(r"[a-z]+:|#", address):
            return found.group()
        path, _, anchor = address.partition("#")
        name = Path(path).name
        if picture:
            source = next((p for p in (DOCUMENTS / name, root() / path) if p.is_file()), None)
            if source is None:
                return words
            pictures[name] = source
            return f"![{words}]({up}{name})"
        if name not in targets:
            return words
        return f"[{words}]({up}{targets[name]}.md{'#' * bool(anchor)}{anchor})"

    pieces = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)  # code blocks stay as they are
    return "".join(piece if k % 2 else _LINK.sub(link, piece) for k, piece in enumerate(pieces))


def notebook_page(path: Path, content: dict[str, Any]) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as a page, and the files of its outputs by name.

    >>> cell = {"cell_type": "code", "source": ["1 + 1"], "outputs": [
    ...     {"output_type": "execute_result", "data": {"text/plain": "2"}}]}
    >>> print(notebook_page(Path("a.ipynb"), {"cells": [cell]})[0])
    ```ipython
    1 + 1
    ```
    <BLANKLINE>
    ```{code-block} text
    :class: output
    <BLANKLINE>
    2
    ```
    <BLANKLINE>
    """
    targets = {p.name: f"notebooks/{p.stem}" for p in notebooks()}
    targets |= {p.name: p.stem for p in DOCUMENTS.glob("*.md")}
    files: dict[str, bytes] = {}
    parts = []
    for number, cell in enumerate(content["cells"]):
        source = "".join(cell["source"]).strip("\n")
        if cell["cell_type"] == "markdown":
            parts.append(_linked(source, targets, {}, up="../"))
            continue
        if cell["cell_type"] != "code" or not source:
            continue
        parts.append(fenced(source, "ipython"))
        parts += _outputs(cell.get("outputs", ()), f"{path.stem}-{number}", files)
    return "\n\n".join(parts) + "\n", files


def _outputs(outputs: Iterable[dict[str, Any]], name: str, files: dict[str, bytes]) -> Iterable[str]:
    printed = ""
    for k, output in enumerate(outputs):
        if output["output_type"] == "stream":  # a busy kernel sends what is printed in pieces
            printed += "".join(output["text"])
            continue
        if printed:
            yield _text(printed)
            printed = ""
        if output["output_type"] == "error":
            yield _text("\n".join(output["traceback"]))
            continue
        data = {kind: "".join(v) if isinstance(v, list) else v for kind, v in output["data"].items()}
        if "text/html" in data:
            files[f"{name}-{k}.html"] = str(data["text/html"]).encode()
            yield f"```{{raw}} html\n:file: {name}-{k}.html\n```"
        elif "image/png" in data:
            files[f"{name}-{k}.png"] = base64.b64decode(data["image/png"])
            yield f"![{_words(data.get('text/plain', 'what the cell drew'))}]({name}-{k}.png)"
        elif "text/plain" in data and WIDGET not in data:
            yield _text(data["text/plain"])
    if printed:
        yield _text(printed)


def _words(text: str) -> str:
    return re.sub(r"[\[\]<>\n]+", " ", text).strip() or "what the cell drew"


def _text(text: str) -> str:
    bare = re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "", text)
    lines = [line.rpartition("\r")[2] for line in bare.replace("\r\n", "\n").rstrip("\n").split("\n")]
    return fenced(":class: output\n\n" + "\n".join(lines), "{code-block} text")


def fenced(text: str, language: str) -> str:
    """Return a code block whose fence is longer than any in it.

    >>> fenced("1", "python")
    '```python\\n1\\n```'
    """
    fence = "`" * max(3, 1 + max(map(len, re.findall("`{3,}", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def title(path: Path) -> str:
    """Return a notebook's first heading.

    >>> title(notebooks()[0])
    'A tour of gradlab'
    """
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if found := re.match(r"# (.+)", "".join(cell["source"])):
            return found.group(1)
    return path.stem
