"""The scripts and style sheets that outputs hold, bundled from `widgets/live`."""

from functools import cache
from importlib.resources import files


@cache
def bundle(name: str) -> str:
    """Return a minified script or style sheet, as `widgets/live/build.mjs` made it; every saved card holds copies of
    two.

    Its first line names the sources it was made from, and stays behind.

    Examples
    --------
    >>> bundle("card.js").startswith("(()=>{"), bundle("card.css").startswith(":host{")
    (True, True)
    """
    return files(__package__).joinpath("bundles", name).read_text(encoding="utf-8").partition("\n")[2].strip()
