"""Where notebooks and documents are: beside this package in a checkout, in share/gradlab where it is installed."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

DOCUMENTS = Path(__file__).parents[1] / "docs"
"""findings.md and its neighbours, which are part of the package."""
_CHECKOUT = Path(__file__).parents[2]


def root() -> Path:
    """Return the folder that has README.md and notebooks/.

    *Raises*: FileNotFoundError where neither place has them, with the remedy.

    >>> (root() / "notebooks" / "01_tour.ipynb").is_file()
    True
    """
    if (_CHECKOUT / "notebooks" / "01_tour.ipynb").is_file():
        return _CHECKOUT
    try:
        for file in metadata.files("gradlab") or ():
            if file.name == "01_tour.ipynb" and (found := Path(str(file.locate()))).is_file():
                return found.resolve().parents[1]
    except metadata.PackageNotFoundError:
        pass
    raise FileNotFoundError(
        f"gradlab's notebooks are neither in {_CHECKOUT} nor among the installed files; needed is share/gradlab/"
        "notebooks. Remedy: install the wheel again: pip install --force-reinstall --no-deps gradlab"
    )


def notebooks() -> list[Path]:
    """Return the notebooks, in their order."""
    return sorted((root() / "notebooks").glob("*.ipynb"))
