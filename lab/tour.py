"""``python -m lab tour [DIR]``: the notebooks, copied into a folder, the first of them opened in JupyterLab."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from .console.options import Parser
from .pages import shipped

FOLDER = "gradlab-tour"


def main(argv: list[str]) -> int:
    """Copy what is not there yet, and open the first; the exit status is JupyterLab's, 2 where it could not begin."""
    parser = Parser(prog="python -m lab tour", description=__doc__, example="python -m lab tour my-tour --no-open")
    parser.add_argument("folder", metavar="DIR", nargs="?", default=FOLDER, help=f"where they go ({FOLDER})")
    parser.add_argument("--no-open", action="store_true", help="copy them, and say how to open them")
    parser.add_argument("--force", action="store_true", help="replace notebooks that are there; your changes are lost")
    options = parser.parse_args(argv)
    folder = Path(options.folder)
    try:
        first = copy(folder, force=options.force)
    except OSError as error:
        print(f"python -m lab tour: {error}", file=sys.stderr)
        return 2
    if options.no_open:
        print(f"To begin: jupyter lab {first}")
        return 0
    if importlib.util.find_spec("jupyterlab") is None:
        print(f"python -m lab tour: JupyterLab is not installed here, so {first} is not opened. "
              "Remedy: pip install 'gradlab[lab]'", file=sys.stderr)  # fmt: skip
        return 2
    return subprocess.call([sys.executable, "-m", "jupyterlab", str(first)], env=dict(os.environ))


def copy(folder: Path, force: bool = False) -> Path:
    """Copy the notebooks into a folder; one that is there stays as it is unless `force`.

    *Raises*: FileNotFoundError where this installation has none, FileExistsError for a `folder` that is a file.

    >>> import tempfile
    >>> copy(Path(tempfile.mkdtemp())).name  # doctest: +ELLIPSIS
    10 notebooks are now in ...
    '01_tour.ipynb'
    """
    sources = shipped.notebooks()
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"got {str(folder)!r}, which is a file; needs a folder, or a name that is free")
    folder.mkdir(parents=True, exist_ok=True)
    kept = [] if force else [path.name for path in sources if (folder / path.name).exists()]
    for path in sources:
        if path.name not in kept:
            shutil.copyfile(path, folder / path.name)
    new = len(sources) - len(kept)
    if new:
        print(f"{new} notebook{'' if new == 1 else 's'} {'is' if new == 1 else 'are'} now in {folder}")
    if kept:
        print(f"left as they were, for they are there already: {', '.join(kept)} (--force replaces them)")
    return folder / sources[0].name
