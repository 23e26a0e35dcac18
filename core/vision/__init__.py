"""Pictures: data sets read from local files, transforms and losses, with torchvision's names.

``from core.vision import datasets, transforms``. Nothing is ever downloaded. Pillow is an extra (``pip install
'gradlab[vision]'``), imported when the first picture is opened.
"""

from __future__ import annotations

from . import datasets, ops, transforms

__all__ = ["datasets", "ops", "transforms"]
