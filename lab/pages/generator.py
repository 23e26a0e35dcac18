"""Sphinx, which makes HTML of the pages; the one file that knows it.

Why Sphinx: it is kept by many hands, BSD-2, its search needs no server, and it takes pages that others wrote. MkDocs
(28 MB with mkdocstrings) reads signatures from the source, where what `core.dispatch.publish` binds is not to be seen,
and has had no release since 1.6.1 of 2024; pdoc (13 MB) has no pages of prose. Sphinx with MyST for Markdown and Furo,
a theme that loads nothing from the network, takes 97 MB, a third of it Babel's tables of languages.
"""

from __future__ import annotations

import io
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

try:
    import furo  # noqa: F401  # named here, so that what is missing is told by its name
    import myst_parser  # noqa: F401
    from sphinx.application import Sphinx
except ImportError as error:
    raise ImportError(
        f"the site is made by Sphinx, with myst-parser and Furo: {error}. Remedy: pip install 'gradlab[docs]'"
    ) from None

STYLE = """
/* the cards' colours follow the page's, light or dark */
body { --jp-layout-color1: var(--color-background-primary); --jp-content-font-color1: var(--color-foreground-primary);
  --jp-content-font-color2: var(--color-foreground-secondary); --jp-border-color2: var(--color-background-border);
  --jp-brand-color1: var(--color-brand-content) }
body[data-theme="dark"] { --jp-error-color1: #f0645a; --jp-warn-color1: #f5a742; --jp-success-color1: #6cc070 }
@media (prefers-color-scheme: dark) { body:not([data-theme="light"]) { --jp-error-color1: #f0645a;
  --jp-warn-color1: #f5a742; --jp-success-color1: #6cc070 } }
.gradlab-card { margin: 1em 0 }
div.highlight pre { background: var(--color-background-secondary) }
.output pre { border-left: 3px solid var(--color-background-border) }
article table.docutils td { vertical-align: top }
article .table-wrapper, article .gradlab-still { overflow-x: auto }
"""
# code that is wider than the page can be reached and scrolled by the keyboard
SCRIPT = """
addEventListener("load", () => document.querySelectorAll("div.highlight pre").forEach((code) => {
  if (code.scrollWidth > code.clientWidth) code.tabIndex = 0;
}));
"""
# what Furo leaves out for those who hear a page
HEARD = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="contents">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="on this page">',
    '<div id="search-results">': '<h1>Search</h1><div id="search-results">',
}


def configuration(version: str) -> dict[str, Any]:
    """Return Sphinx's settings."""
    return {
        "project": "gradlab",
        "version": version,
        "release": version,
        "copyright": "gradlab's authors",
        "extensions": ["myst_parser"],
        "html_theme": "furo",
        "html_title": "gradlab",
        "html_static_path": ["_static"],
        "html_css_files": ["gradlab.css"],
        "html_js_files": ["gradlab.js"],
        "html_copy_source": False,
        "html_show_sphinx": False,
        "html_show_search_summary": False,  # they would be fetched, which a browser refuses a page from a file
        "html_last_updated_fmt": None,
        "html_baseurl": "",
        "default_role": "code",
        "myst_heading_anchors": 3,
        "python_use_unqualified_type_names": True,
        "toc_object_entries_show_parents": "hide",
        "highlight_language": "python",
        "pygments_style": "a11y-high-contrast-light",
        "pygments_dark_style": "a11y-high-contrast-dark",
        "suppress_warnings": ["myst.header", "misc.highlighting_failure", "toc.not_included", "ref.python"],
    }


def build(sources: Path, out: Path, version: str, jobs: int = 1) -> list[str]:
    """Make the site of a folder of pages; return Sphinx's warnings."""
    static = sources / "_static"
    static.mkdir(exist_ok=True)
    (static / "gradlab.css").write_text(STYLE, encoding="utf-8")
    (static / "gradlab.js").write_text(SCRIPT, encoding="utf-8")
    warned = io.StringIO()
    trees = sources.parent / "doctrees"
    settings = "".join(f"{name} = {value!r}\n" for name, value in configuration(version).items())
    (sources / "conf.py").write_text(settings, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # what myst-parser and Furo still use of Sphinx
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        app = Sphinx(str(sources), str(sources), str(out), str(trees), "html", status=None, warning=warned,
                     parallel=jobs)  # fmt: skip
        app.build()
    for path in out.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for there, heard in HEARD.items():
            text = text.replace(there, heard)
        path.write_text(text, encoding="utf-8")
    for left in (out / ".buildinfo", out / "objects.inv"):
        left.unlink(missing_ok=True)
    shutil.rmtree(trees, ignore_errors=True)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", warned.getvalue())
    return [line.replace(str(sources) + "/", "") for line in bare.splitlines() if line.strip()]
