"""What pytest needs wherever it begins: `core`, imported in its own order.

A module of core that pytest imports first, for its examples, would be run twice: by `core`, and by pytest.
"""

import core  # noqa: F401
