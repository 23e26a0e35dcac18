<<<<<<< HEAD
"""Pictures: data sets read from local files, networks and transforms, with torchvision's names.
=======
"""Pictures: data sets read from local files, transforms and losses, with torchvision's names.
>>>>>>> rows

``from core.vision import datasets, models, transforms``. Nothing is ever downloaded. Pillow is an extra (``pip install
'gradlab[vision]'``), imported when the first picture is opened.
"""

from __future__ import annotations

<<<<<<< HEAD
from . import datasets, models, transforms

__all__ = ["datasets", "models", "transforms"]
=======
from . import datasets, ops, transforms

__all__ = ["datasets", "ops", "transforms"]
>>>>>>> rows
