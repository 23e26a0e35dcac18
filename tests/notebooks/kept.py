"""The tour is committed with its outputs, so that a code host shows the cards: `python -m tests.notebooks.kept`
runs it and writes them anew.

What an output has of times and pictures differs from run to run. What does not is compared by test_tour.py: the sources
that it was run from, which version ran them, and the words of every output, figures aside.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import core
from lab.pages.run_notebooks import executed
from widgets import VERSION

TOUR = Path(__file__).parents[2] / "notebooks" / "01_tour.ipynb"
LARGEST = 1_500_000  # bytes
SENTENCE = re.compile(r"[✕▲●]|No problems found")


def stamp(notebook: Any) -> dict[str, Any]:
    """What the outputs come from: a digest of the code cells, the version, the card's form."""
    code = "\0".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    digest = hashlib.sha256(code.encode()).hexdigest()[:16]
    return {"code": digest, "version": core.__version__, "record": VERSION}


def words(notebook: Any) -> list[list[str]]:
    """Of each code cell what its outputs say: kinds, and sentences with their figures left out."""
    return [[*_said(cell)] for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _said(cell: Any) -> Iterator[str]:
    printed = "".join("".join(o["text"]) for o in cell["outputs"] if o["output_type"] == "stream")
    yield from map(without_figures, printed.splitlines()[:1])  # tables follow, in the order of times
    for output in cell["outputs"]:
        if output["output_type"] != "stream":
            data = output.get("data", {})
            yield f"{output['output_type']}: {', '.join(sorted(data))}"
            plain = "".join(data.get("text/plain", "")).splitlines()
            yield from (without_figures(line) for line in plain if SENTENCE.match(line.strip()))


def without_figures(text: str) -> str:
    """A text with its numbers and their units left out; numbers of lines stay.

    >>> without_figures("Line 4 took 3.1 ms, deep.12 took 20 µs")
    'Line 4 took #, deep.# took #'
    """
    return re.sub(r"(?<![Ll]ine )\d[\d,e+-]*(?:\.\d[\d,e+-]*)*(?:\s*(?:[µm]?s\b|%|[kMG]?B\b))?", "#", text).strip()


def main() -> None:
    """Run the tour and write it with its outputs."""
    notebook = json.loads(json.dumps(executed(TOUR)))
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        if cell["cell_type"] == "code":
            for output in cell["outputs"]:
                output.pop("metadata", None) if output["output_type"] == "stream" else output.update(metadata={})
    notebook["metadata"]["language_info"] = {"name": "python"}
    notebook["metadata"]["gradlab"] = stamp(notebook)
    text = json.dumps(_lines(notebook), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    TOUR.write_text(text, encoding="utf-8")
    print(f"{TOUR}: {len(text.encode()) / 1e6:.2f} MB")


def _lines(notebook: Any) -> Any:
    """Sources as lists of lines, as notebooks are written; so that a difference is that of the lines."""
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"]).splitlines(keepends=True)
    return notebook


if __name__ == "__main__":
    main()
