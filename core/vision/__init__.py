"""Pictures: data sets read from local files, networks, transforms and losses, with torchvision's names.

``from core.vision import datasets, models, transforms``. Nothing is ever downloaded. Pillow is an extra (``pip install
'gradlab[vision]'``), imported when the first picture is opened.
"""

from __future__ import annotations

from . import datasets, models, ops, transforms

__all__ = ["datasets", "models", "ops", "transforms"]
