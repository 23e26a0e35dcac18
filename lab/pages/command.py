"""``python -m lab docs``: the documentation as a site of static pages, which needs no server and no network."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import core

from ..console.options import Parser
from . import commands, gallery, generator, links, prose, reference, shipped
from .run_notebooks import executed

PARTS = ("reference", "gallery", "notebooks", "commands")


@dataclass
class Built:
    """What came of it."""

    folder: Path
    seconds: float
    size_bytes: int
    warnings: list[str]
    report: links.Report


def main(argv: list[str]) -> int:
    """Run the command line; 0 when every page was made and every link leads somewhere."""
    parser = Parser(prog="python -m lab docs", description=__doc__, example="python -m lab docs --out site")
    parser.add_argument("--out", metavar="DIR", default="site", help="where the site goes (site); made anew")
    parser.add_argument("--no-run", action="store_true", help="take notebooks as they are, without running them")
    parser.add_argument("--only", metavar="PART", action="append", choices=PARTS,
                        help=f"the documents and this part ({', '.join(PARTS)}); may be given again")  # fmt: skip
    parser.add_argument("--outside", action="store_true", help="print the addresses outside that pages link to")
    options = parser.parse_args(argv)
    out = Path(options.out)
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]) and not (out / "searchindex.js").is_file():
        print(f"python -m lab docs: {out} is there and no site of ours; needs a new folder, or an earlier site's. "
              "Remedy: --out another", file=sys.stderr)  # fmt: skip
        return 2
    built = build(out, parts=options.only or PARTS, run=not options.no_run, tell=lambda said: print(said, flush=True))
    for line in (*built.warnings, *built.report.broken, *(f"loaded from outside: {a}" for a in built.report.loaded)):
        print(line, file=sys.stderr)
    if options.outside:
        print("\n".join(sorted(built.report.outside)))
    report = built.report
    size = f"{report.pages} pages, {built.size_bytes / 1e6:.1f} MB, {built.seconds:.0f} s"
    print(f"{built.folder / 'index.html'}: {size}; "
          f"{report.links:,} links inside, {len(report.broken)} broken; {len(report.outside)} addresses outside, not "
          f"followed; {len(report.loaded)} loaded from outside; {len(built.warnings)} warnings")  # fmt: skip
    return 1 if report.broken or report.loaded or built.warnings else 0


def build(
    out: Path,
    *,
    parts: Iterable[str] = PARTS,
    modules: Iterable[str] | None = None,
    findings: Iterable[str] | None = None,
    run: bool = True,
    tell: Any = lambda said: None,
) -> Built:
    """Build the site: the documents and the parts named; of the reference and the gallery all, or those named."""
    begin = perf_counter()
    parts = tuple(parts)
    with tempfile.TemporaryDirectory() as scratch:
        sources = Path(scratch) / "sources"
        sources.mkdir()
        texts, pictures = prose.documents()
        files: dict[str, bytes] = {name: path.read_bytes() for name, path in pictures.items()}
        made: dict[str, str] = {f"{name}.md": text for name, text in texts.items()}
        if "commands" in parts:
            made["commands.md"] = commands.page()
        if "reference" in parts:
            tell("the reference")
            made |= {f"{name}.rst": text for name, text in reference.write(modules).items()}
        if "gallery" in parts:
            tell("the gallery")
            pages, cards = gallery.pages(findings)
            made |= {f"{name}.md": text for name, text in pages.items()}
            files |= cards
        if "notebooks" in parts:
            made |= _notebooks(files, run, tell)
        made["index.md"] += _contents(made)
        for name, content in [*((name, text.encode()) for name, text in made.items()), *files.items()]:
            path = sources / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        tell(f"{len(made)} pages")
        shutil.rmtree(out, ignore_errors=True)
        warnings = generator.build(sources, out, core.__version__, os.cpu_count() or 1)
    report = links.check(out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return Built(out, perf_counter() - begin, size, warnings, report)


def _notebooks(files: dict[str, bytes], run: bool, tell: Any) -> dict[str, str]:
    made, titles = {}, []
    for path in shipped.notebooks():
        content = json.loads(path.read_text(encoding="utf-8"))
        kept = any(cell.get("outputs") for cell in content["cells"])
        needed = content["metadata"].get("needs", [])
        missing = [package for package in needed if importlib.util.find_spec(package) is None]
        if missing:
            tell(f"{path.name} is shown without being run: {', '.join(missing)} not installed")
        elif run and not kept:
            tell(f"running {path.name}")
            content = executed(path)
        text, outputs = prose.notebook_page(path, content)
        made[f"notebooks/{path.stem}.md"] = text
        files |= {f"notebooks/{name}": data for name, data in outputs.items()}
        titles.append(f"- [{prose.title(path)}]({path.stem}.md)")
    tree = "\n".join(path.stem for path in shipped.notebooks())
    about = "# Notebooks\n\n`python -m lab tour` copies them into a folder and opens the first."
    made["notebooks/index.md"] = f"{about}\n\n{chr(10).join(titles)}\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    return made


def _contents(made: dict[str, str]) -> str:
    """Return the contents in the sidebar, of what there is."""
    groups = {
        "See": ["gallery/index", "notebooks/index"],
        "Read": ["findings", "mistakes", "tuning", "saving", "export"],
        "Look up": ["commands", "api/index", "coverage", "changelog", "contributing"],
    }
    there = {name.rpartition(".")[0] for name in made}
    listed = {"index", *(name for names in groups.values() for name in names)}
    others = sorted(name for name in there if "/" not in name and name not in listed)
    groups["Read"] += others
    titles = prose.DOCUMENT_TITLES
    text = ""
    for caption, names in groups.items():
        lines = "\n".join(f"{titles[n]} <{n}>" if n in titles else n for n in names if n in there)
        text += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"
    return text
