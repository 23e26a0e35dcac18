"""Whose packages are imported here: a file or folder of the user's that is called `core`, `lab`, `widgets` or
`triton_kernels` stands before ours where Python looks first, which is the notebook's own folder.

Nothing but the standard library is imported, so that `lab` can read this file before it trusts the name `core`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import warnings

PACKAGES = ("core", "widgets", "lab", "triton_kernels")
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def found(name: str) -> str:
    """Return the file or folder that ``import name`` takes here; "" where there is none. Nothing is imported."""
    module = sys.modules.get(name)
    try:
        spec = importlib.util.find_spec(name) if module is None else module.__spec__
    except (ImportError, ValueError):
        return ""
    if spec is None:
        return str(getattr(module, "__file__", None) or "")
    places = spec.submodule_search_locations
    if places is not None:
        return str(next(iter(places), ""))
    return spec.origin or ""


def hidden(name: str) -> str:
    """Return what hides our package of that name, with the remedy, in a sentence; "" where nothing does.

    >>> hidden("core"), hidden("lab")
    ('', '')
    """
    ours, other = os.path.join(_ROOT, name), found(name)
    if not other or not os.path.isdir(ours) or os.path.realpath(other) == os.path.realpath(ours):
        return ""
    kind = "folder" if os.path.isdir(other) else "file"
    if f"{os.sep}site-packages{os.sep}" in other:
        remedy = "uninstall the distribution that it belongs to, or put gradlab's folder before it on sys.path"
    else:
        remedy = f"rename the {kind}, or start Python in another folder"
    return (
        f"the {kind} {other} hides gradlab's package {name!r} ({ours}): Python finds it first. "
        f"Remedy: {remedy}; then start the kernel, or Python, anew."
    )


def check(*names: str) -> None:
    """*Raises*: ImportError where something hides one of our packages, naming it and the remedy."""
    for name in names:
        said = hidden(name)
        if said:
            raise ImportError(f"{name}: {said}", name=name)


def tell_of_lab() -> None:
    """Warn in a notebook where something hides `lab`: then ``%load_ext lab`` loads that, and nobody else can say so."""
    if "IPython" in sys.modules and (said := hidden("lab")):
        with contextlib.suppress(UserWarning):  # where warnings are errors: core itself is whole
            warnings.warn(f"%load_ext lab will not find it: {said}", UserWarning, stacklevel=2)
